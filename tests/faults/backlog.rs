//! A writer that does not end, and operations without number behind it.

use crate::common::*;
use seriatim::{Engine, Kind};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::Instant;

#[test]
fn operations_behind_a_blocked_writer_cost_bounded_memory_which_is_used_again() {
    let pending =
        std::env::var("SERIATIM_FAULTS_PENDING").unwrap_or_else(|_| by_length("200000", "1000000").to_owned());
    println!("{}", run_child_well(child("backlog").env("TEST_CHILD_PENDING", pending)));
}

/// As the test above, with ten million: `cargo test --release --test faults -- --ignored`. Needs 3
/// GB.
#[test]
#[ignore = "takes long, and 3 GB"]
fn ten_million_operations_behind_a_blocked_writer() {
    println!("{}", run_child_well(child("backlog").env("TEST_CHILD_PENDING", "10000000")));
}

/// How many have run. Each operation knows which number it is: in order, and exactly once.
static RAN: AtomicUsize = AtomicUsize::new(0);
static WRONG: AtomicUsize = AtomicUsize::new(0);

/// In a process of its own, to measure its memory.
pub fn two_rounds() {
    let pending: usize = std::env::var("TEST_CHILD_PENDING").unwrap().parse().unwrap();
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).build().unwrap();
    let [x, y] = [engine.new_variable(), engine.new_variable()];
    engine.op("warm").writes([x]).push(nothing).unwrap();
    engine.wait_for_all().unwrap();
    let mut after_first = 0;
    for round in 0..2 {
        let (before, begin) = (resident_memory(), Instant::now());
        RAN.store(0, SeqCst);
        let blocked = hold(&engine, &[], &[x]);
        for number in 0..pending {
            let body = move |_: &seriatim::RunContext<'_>| {
                if RAN.fetch_add(1, Relaxed) != number {
                    WRONG.fetch_add(1, Relaxed);
                }
            };
            engine.op("behind").reads([y]).writes([x]).push(body).unwrap();
        }
        assert_eq!(RAN.load(SeqCst), 0, "they are behind the blocked writer");
        let (pushed, full) = (begin.elapsed(), resident_memory());
        blocked.complete();
        engine.wait_for_all().unwrap();
        let over = begin.elapsed();
        assert_eq!((RAN.load(SeqCst), WRONG.load(SeqCst)), (pending, 0), "each has run once, in its turn");
        assert_eq!(engine.version(x).unwrap() as usize, 1 + (round + 1) * (pending + 1));
        let peak = resident_memory().max(full);
        println!(
            "round {round}: {pending} pending, {} bytes each, pushed in {:.1} s, over after {:.1} s; {} MiB",
            (full - before) / pending,
            pushed.as_secs_f64(),
            over.as_secs_f64(),
            peak >> 20
        );
        if round == 0 {
            assert!((full - before) / pending < 600, "{} bytes an operation", (full - before) / pending);
            after_first = peak;
        } else {
            assert!(peak <= after_first + after_first / 10, "{after_first} bytes at first, {peak} later");
        }
    }
}
