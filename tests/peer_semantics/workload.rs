//! The random workload, bit by bit.

use crate::common::*;
use seriatim::{Engine, Kind, Variable};
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::Arc;
use std::time::Duration;

/// One step of the random workload: reads, a write, and how long it takes.
struct Step {
    reads: Arc<[usize]>,
    write: usize,
    time: Duration,
}

fn random_steps(seed: u64, variables: usize, count: usize) -> Vec<Step> {
    let mut random = Random(seed);
    let step = |_| {
        let write = random.below(variables);
        let reads = (0..random.between(2, 19)).map(|_| random.below(variables));
        // A read equal to the write is dropped, other repeats stay: the sum has them twice.
        let reads = reads.filter(|read| *read != write).collect();
        Step { reads, write, time: Duration::from_micros(random.between(1, 9) as u64) }
    };
    (0..count).map(step).collect()
}

/// The values, as the engine's promise guards them: plain loads and stores, no order of their own.
type Cells = Arc<[AtomicU64]>;

fn fresh_cells(variables: usize) -> Cells {
    (0..variables).map(|index| AtomicU64::new((index as f64 + 0.5).to_bits())).collect()
}

fn apply(cells: &[AtomicU64], reads: &[usize], write: usize) {
    let sum: f64 = reads.iter().map(|read| f64::from_bits(cells[*read].load(Relaxed))).sum();
    cells[write].store((sum / (reads.len() + 1) as f64).to_bits(), Relaxed);
}

fn bits(cells: &[AtomicU64]) -> Vec<u64> {
    cells.iter().map(|cell| cell.load(Relaxed)).collect()
}

fn random_workload(engine: &Engine, seed: u64, variables: usize, count: usize) {
    let steps = random_steps(seed, variables, count);
    let serial = fresh_cells(variables);
    steps.iter().for_each(|step| apply(&serial, &step.reads, step.write));

    let parallel = fresh_cells(variables);
    let tokens: Vec<Variable> = (0..variables).map(|_| engine.new_variable()).collect();
    for step in steps {
        let cells = Arc::clone(&parallel);
        let reads = step.reads.iter().map(|read| tokens[*read]);
        let builder = engine.op("mean").reads(reads).writes([tokens[step.write]]);
        let body = move |_: &seriatim::RunContext<'_>| {
            spin(step.time);
            apply(&cells, &step.reads, step.write);
        };
        builder.push(body).unwrap();
    }
    engine.wait_for_all().unwrap();
    assert_eq!(bits(&parallel), bits(&serial), "seed {seed}");
    let versions: u64 = tokens.iter().map(|token| engine.version(*token).unwrap()).sum();
    assert_eq!(versions, count as u64);
}

#[test]
fn ten_thousand_random_operations_equal_the_serial_result_bit_by_bit() {
    let _watchdog = Watchdog::new(300, "the random workload");
    on_every_engine(|engine| (0..5).for_each(|seed| random_workload(&engine, seed, 100, 10_000)));
}

#[test]
fn three_and_more_workers_give_the_serial_result_as_well() {
    let _watchdog = Watchdog::new(300, "the random workload with many workers");
    for kind in [Kind::Pooled, Kind::PerDevice] {
        for workers in [3, 4, 8, 16] {
            let engine = Engine::builder().kind(kind).cpu_workers(workers).build().unwrap();
            random_workload(&engine, workers as u64, 30, 2_000);
        }
    }
}
