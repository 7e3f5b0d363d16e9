//! A stress of everything at once, made to be watched by a sanitizer: what the operations share are
//! plain values without any synchronisation of their own, so an order that the engine fails to keep
//! is a data race, a use after free or a leak, and `scripts/sanitizers.sh` has the tools that see
//! those. Run by `cargo test`, it is a short stress test that checks its results.
//!
//! A plain `main`, because the standard library is not built with ThreadSanitizer: the test
//! harness, its channels and the last drop of an `Arc` look like races to it. For the same reason
//! threads are spawned and joined, what blocks is from `parking_lot`, and operations share their
//! world through a plain reference.
//!
//! `SERIATIM_STRESS_MS` says how long (default 1000), `SERIATIM_STRESS_SEED` with which random
//! numbers. `SERIATIM_PLANT` runs one of the mistakes in `plant.rs` instead, which the sanitizers
//! must report.

#[path = "../common/mod.rs"]
mod common;
mod devices;
mod faults;
mod graphs;
mod plant;
mod pusher;
mod world;

use common::Random;
use std::time::{Duration, Instant};
use world::{Shape, World};

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable} is '{text}', not a number")),
        Err(_) => default,
    }
}

fn main() {
    if std::env::args().any(|argument| argument == "--list") {
        // For runners that ask every test binary what is in it.
        println!("stress: test");
        return;
    }
    // The panics of operations are part of the program; all others are reported as ever.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload().is::<&str>() || info.payload().downcast_ref() != Some(&faults::PLANNED) {
            report(info);
        }
    }));
    if let Ok(mistake) = std::env::var("SERIATIM_PLANT") {
        plant::run(&mistake);
        return;
    }
    let patience = Duration::from_millis(number("SERIATIM_STRESS_MS", 1_000));
    let seed = number("SERIATIM_STRESS_SEED", 1);
    let mut random = Random(seed);
    let begin = Instant::now();
    let (mut worlds, mut operations) = (0, 0);
    // Each kind of engine at least once, however slow the tool is that watches.
    while worlds < 3 || begin.elapsed() < patience {
        let shape = Shape::random(worlds, &mut random);
        operations += World::run(shape, &mut random);
        faults::run(shape);
        operations += devices::run(shape, &mut random);
        worlds += 1;
    }
    println!("{operations} operations in {worlds} worlds, seed {seed}, in {:.1} s", begin.elapsed().as_secs_f32());
}
