//! Which streams operations go to, and how many calls of the driver that costs: random programs of
//! 300 operations that change one variable and read two, while the device does nothing.
//!
//! CUDASTF's choice of streams takes 187 and 130 steps for the same programs, 1.2 to 1.4 waits and
//! one mark an operation. The goals are 187 and 110 steps, 0.85 waits and 0.65 marks. The waits are
//! below that; steps and marks are not yet, since two workers choose at once. The limits here only
//! keep what there is.

use crate::common::{by_length, eventually};
use crate::model::Model;
use crate::over;
use seriatim::{Context, RunContext};
use std::sync::Arc;

const OPERATIONS: usize = 300;

/// The numbers that the programs are drawn from.
struct Drawn(u64);

impl Drawn {
    fn below(&mut self, bound: u64) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % bound) as usize
    }
}

/// What a program takes: in steps of the device, and in waits and marks an operation.
struct Cost {
    steps: f64,
    waits: f64,
    marks: f64,
}

fn run(seed: u64, count: usize) -> Cost {
    let model = Model::new(1, seed, 4);
    model.hold(0, true);
    let engine = over(&model).gpu_ahead(1024).build().unwrap();
    let variables: Vec<_> = (0..count).map(|_| engine.new_variable()).collect();
    let mut drawn = Drawn(seed);
    let mut versions = vec![0; count];
    for _ in 0..OPERATIONS {
        drawn.below(5);
        let [written, first, second] = std::array::from_fn(|_| drawn.below(count as u64));
        versions[written] += 1;
        let own = Arc::clone(&model);
        let reads: Vec<usize> = [first, second].into_iter().filter(|read| *read != written).collect();
        let kernel = {
            let reads = reads.clone();
            move |run: &RunContext<'_>| own.work(run.stream().unwrap(), reads, vec![written], || ())
        };
        let builder = engine.op("one").context(Context::gpu(0)).reads(reads.iter().map(|read| variables[*read]));
        builder.writes([variables[written]]).push(kernel).unwrap();
    }
    let all = || (0..count).all(|number| engine.version(variables[number]).unwrap() == versions[number]);
    eventually("all are queued", all);
    let waits = model.world().waits;
    let marks = model.world().records;
    let steps = model.run_in_step();
    engine.wait_for_all().unwrap();
    assert!(model.world().races.is_empty());
    let each = |count: usize| count as f64 / OPERATIONS as f64;
    Cost { steps: steps as f64, waits: each(waits), marks: each(marks) }
}

fn check(variables: usize, most_steps: f64) {
    let seeds = by_length(10, 40);
    let all: Vec<Cost> = (1..=seeds).map(|seed| run(seed, variables)).collect();
    let mean = |of: fn(&Cost) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
    let (steps, waits, marks) = (mean(|cost| cost.steps), mean(|cost| cost.waits), mean(|cost| cost.marks));
    println!("{variables} variables: {steps:.0} steps, {waits:.2} waits and {marks:.2} marks an operation");
    assert!(steps <= most_steps, "{steps:.0} steps");
    assert!(waits <= 0.85, "{waits:.2} waits an operation");
    assert!(marks <= 1.2, "{marks:.2} marks an operation");
}

#[test]
fn ten_variables() {
    check(10, 250.0);
}

#[test]
fn forty_variables() {
    check(40, 190.0);
}
