//! The oracle: random programs, whose operations note what they see, against a serial replay.
//!
//! Every operation notes the contents and the number of changes of each variable that it uses, and leaves a hash of all that behind.
//! From the notes follows the order in which the engine ran the program. The check is that there is *one* such order for all
//! variables, that it keeps the order in which each thread pushed, and that a serial run in that order finds and leaves the same
//! contents, versions, skips and errors.
//!
//! `SERIATIM_ORACLE_SEED=7` runs the program of one seed again and again; `SERIATIM_ORACLE_OPS=100000000` runs more operations
//! than the million that are run otherwise.

#[path = "oracle/check.rs"]
mod check;
mod common;
#[path = "oracle/generate.rs"]
mod generate;
#[path = "oracle/order.rs"]
mod order;
#[path = "oracle/plan.rs"]
mod plan;
#[path = "oracle/program.rs"]
mod program;
#[path = "oracle/run.rs"]
mod run;
#[path = "oracle/world.rs"]
mod world;

use program::Program;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

/// Counts of what was run, to show that the programs are what they should be.
#[derive(Default, Debug)]
struct Totals {
    programs: usize,
    /// That ran.
    operations: usize,
    skipped: usize,
    refused: usize,
    failed: usize,
    serial: usize,
}

impl Totals {
    fn add(&mut self, outcome: &world::Outcome) {
        let world = &outcome.world;
        let count = |bits: u8| (0..world.plan.nodes.len()).filter(|node| world.outcome(*node) & bits == bits).count();
        self.programs += 1;
        self.serial += usize::from(world.plan.serial);
        self.operations += count(world::ACCEPTED | world::CALLED);
        self.skipped += count(world::ACCEPTED | world::DROPPED);
        self.refused += count(world::DELETED) + count(world::FULL);
        self.failed += check::failures(outcome);
    }
}

/// Runs the program of a seed, a few times on one engine: the later runs find the variables' places used before.
fn run_seed(seed: u64, totals: &mut Totals) {
    let program = generate::random(seed);
    let engine = program.shape.engine();
    for round in 0..3 {
        let outcome = run::execute(&engine, program.clone());
        if let Err(error) = check::check(&outcome) {
            let shape = &program.shape;
            panic!("{error}\nin round {round} of seed {seed}, run it with SERIATIM_ORACLE_SEED={seed}: {shape:?}");
        }
        totals.add(&outcome);
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is '{text}', not a number")))
}

#[test]
fn a_million_random_operations_run_in_one_serial_order() {
    let wanted = number("SERIATIM_ORACLE_OPS").unwrap_or(1_000_000) as usize;
    let only = number("SERIATIM_ORACLE_SEED");
    // Ends the process if a program hangs, and says which.
    let current = Arc::new(Mutex::new((0, 0)));
    let seen = Arc::clone(&current);
    std::thread::spawn(move || {
        let mut before = (0, usize::MAX);
        loop {
            let now = *seen.lock().unwrap();
            if now == before {
                eprintln!("the program of seed {} hangs", now.0);
                std::process::abort();
            }
            before = now;
            std::thread::sleep(std::time::Duration::from_secs(100));
        }
    });
    let mut totals = Totals::default();
    let mut seed = only.unwrap_or(0);
    while totals.operations < wanted {
        *current.lock().unwrap() = (seed, totals.programs);
        run_seed(seed, &mut totals);
        seed += u64::from(only.is_none());
    }
    println!("{totals:?}");
    if only.is_none() && wanted >= 1_000_000 {
        // What should be tried was tried.
        let Totals { programs, skipped, refused, failed, serial, .. } = totals;
        assert!(skipped.min(refused) > 10_000 && failed > 1_000, "{totals:?}");
        assert!(serial > 100 && programs - serial > 100, "{totals:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn small_random_programs_run_in_one_serial_order(program in generate::small()) {
        small_program(program)?;
    }
}

/// Runs a small program several times, since the same program runs in many ways.
fn small_program(program: Program) -> Result<(), TestCaseError> {
    let engine = program.shape.engine();
    for _ in 0..4 {
        let outcome = run::execute(&engine, program.clone());
        check::check(&outcome).map_err(TestCaseError::fail)?;
    }
    Ok(())
}
