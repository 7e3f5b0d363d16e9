//! Threads that come to an engine and go, beside one that is the only one meanwhile and so needs no
//! locked instructions.

use crate::common::*;
use seriatim::{Context, Engine, Kind, RunContext, Variable};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// A count that loses steps if two threads make them at once: a load and a store.
#[derive(Default)]
struct Fragile(AtomicU64);

impl Fragile {
    fn step(&self) {
        self.0.store(self.0.load(Relaxed) + 1, Relaxed);
    }
}

/// Variables that a newcomer finds as they were born: once something was enlisted on one, it takes
/// locked instructions for long.
const VARIABLES: usize = 3;
const ROUNDS: usize = 3000;

/// A push that loses its variable to another thread at the last moment begins anew, and still has
/// the closure.
#[test]
fn an_operator_that_several_threads_push_runs_as_often() {
    const THREADS: usize = 3;
    const PUSHES: usize = 200;
    let engine = Engine::builder().cpu_workers(1).waiters_help(false).build().unwrap();
    for round in 0..300 {
        let steps = Arc::new(Fragile::default());
        let own = Arc::clone(&steps);
        let operator = engine.op("").writes([engine.new_variable()]).operator(move |_| own.step()).unwrap();
        let start = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    (0..PUSHES).for_each(|_| engine.push(&operator, Context::cpu(0), 0).unwrap());
                });
            }
        });
        engine.wait_for_all().unwrap();
        assert_eq!(steps.0.load(Relaxed), (THREADS * PUSHES) as u64, "round {round}");
        drop(operator);
        assert_eq!(Arc::strong_count(&steps), 1, "round {round}");
    }
}

#[test]
fn nothing_is_lost_or_overlaps_when_threads_join_one_that_was_alone() {
    for kind in [Kind::Naive, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(1).inline_below(Duration::from_micros(10));
        let engine = engine.build().unwrap();
        let variables: Arc<[Variable]> = (0..ROUNDS * VARIABLES).map(|_| engine.new_variable()).collect();
        let counts: Arc<[Fragile]> = variables.iter().map(|_| Fragile::default()).collect();
        let round = Arc::new(AtomicUsize::new(0));
        let push = {
            let (engine, variables, counts) = (engine.clone(), Arc::clone(&variables), Arc::clone(&counts));
            let round = Arc::clone(&round);
            move |random: &mut Random| {
                let first = round.load(Acquire) * VARIABLES;
                let (one, other) = (first + random.below(VARIABLES), first + random.below(VARIABLES));
                let counts = Arc::clone(&counts);
                let body = move |_: &RunContext<'_>| {
                    counts[one].step();
                    if other != one {
                        counts[other].step();
                    }
                };
                engine.op("").writes([variables[one], variables[other]]).push(body).unwrap();
                if other == one {
                    1
                } else {
                    2
                }
            }
        };
        let over = Arc::new(AtomicBool::new(false));
        let alone = std::thread::spawn({
            let (push, over) = (push.clone(), Arc::clone(&over));
            move || {
                let mut random = Random(1);
                let mut steps = 0_u64;
                while !over.load(Relaxed) {
                    steps += push(&mut random);
                }
                steps
            }
        });
        let mut steps = 0;
        let begin = Instant::now();
        for number in 0..ROUNDS {
            if begin.elapsed() > Duration::from_secs(30) {
                break; // As on a busy machine.
            }
            round.store(number, Release);
            let push = push.clone();
            let newcomer = std::thread::spawn(move || {
                let mut random = Random(number as u64 + 2);
                (0..random.below(20)).map(|_| push(&mut random)).sum::<u64>()
            });
            steps += newcomer.join().unwrap();
        }
        over.store(true, Relaxed);
        steps += alone.join().unwrap();
        engine.wait_for_all().unwrap();
        let counted: u64 = counts.iter().map(|count| count.0.load(Relaxed)).sum();
        let versions: u64 = variables.iter().map(|variable| engine.version(*variable).unwrap()).sum();
        assert_eq!((counted, versions), (steps, steps), "{kind}");
        println!("{kind}: {steps} steps");
    }
}
