//! The oracle: random programs, whose operations note what they see, against a serial replay.
//!
//! Every operation notes the contents and the number of changes of each variable that it uses, and
//! leaves a hash of all that behind. From the notes follows the order in which the engine ran the
//! program. The check is that there is *one* such order for all variables, that it keeps the order
//! in which each thread pushed, and that a serial run in that order finds and leaves the same
//! contents, versions, skips and errors.
//!
//! Every fifth program has commutative variables. What one thread pushes that commutes there need
//! not keep its order; all else does, and it runs alone like any change.
//!
//! `SERIATIM_ORACLE_SEED=7` runs the program of one seed again and again;
//! `SERIATIM_ORACLE_OPS=100000000` runs more operations than the 200,000 that are run otherwise, or
//! than the million of `LONG_TESTS=1`; `SERIATIM_ORACLE_SECONDS=600` runs for that long instead,
//! and says every ten seconds how far it is; `SERIATIM_ORACLE_FIRST_SEED=1000` starts there.
//! `scripts/soak.sh` does all that for as long as one likes.
//!
//! `SERIATIM_ORACLE_TEETH` plants a bug, to show that it is found: with `claims`, one rare kind of
//! operation is pushed with a read in place of its last write; with `graphs`, one that is captured
//! forgets a read, which another one of its graph declares; with `hang`, one rare kind never ends.
//! A program that hangs ends the process after 100 seconds, or after `SERIATIM_ORACLE_PATIENCE`.

#[path = "oracle/check.rs"]
mod check;
mod common;
#[path = "oracle/generate.rs"]
mod generate;
#[path = "oracle/graphs.rs"]
mod graphs;
#[path = "oracle/order.rs"]
mod order;
#[path = "oracle/plan.rs"]
mod plan;
#[path = "oracle/program.rs"]
mod program;
#[path = "oracle/run.rs"]
mod run;
#[path = "oracle/soak.rs"]
mod soak;
#[path = "oracle/world.rs"]
mod world;

use program::Program;
use proptest::prelude::*;
use soak::{Progress, Range};

/// Counts of what was run, to show that the programs are what they should be.
#[derive(Clone, Default, Debug)]
struct Totals {
    programs: usize,
    /// That ran.
    operations: usize,
    skipped: usize,
    refused: usize,
    failed: usize,
    serial: usize,
    /// Replays of graphs that were accepted, and their operations that ran.
    replays: usize,
    replayed: usize,
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
        for nodes in world.plan.graphs.iter().flat_map(|graph| &graph.replays).map(|replay| &replay.nodes) {
            self.replays += usize::from(nodes.iter().any(|node| order::took_place(world, *node)));
            self.replayed += nodes.iter().filter(|node| order::has(world, **node, world::CALLED)).count();
        }
    }
}

/// Runs the program of a seed, a few times on one engine: the later runs find the variables' places
/// used before.
fn run_seed(seed: u64, totals: &mut Totals) {
    let program = generate::random(seed);
    let engine = program.shape.engine();
    for round in 0..if cfg!(miri) { 1 } else { 3 } {
        let outcome = run::execute(&engine, program.clone());
        if let Err(error) = check::check(&outcome) {
            let shape = &program.shape;
            panic!("{error}\nin round {round} of seed {seed}, run it with SERIATIM_ORACLE_SEED={seed}: {shape:?}");
        }
        totals.add(&outcome);
    }
}

#[test]
fn a_million_random_operations_run_in_one_serial_order() {
    let range = Range::from_env();
    let progress = Progress::watched(&range);
    let mut totals = Totals::default();
    for seed in range.seeds(&progress) {
        run_seed(seed, &mut totals);
        progress.add(&range, &totals);
    }
    progress.finish(&range);
    if range.only.is_none() && totals.operations >= 1_000_000 {
        // What should be tried was tried.
        let Totals { programs, skipped, refused, failed, serial, replays, replayed, .. } = totals;
        assert!(skipped.min(refused) > 10_000 && failed > 1_000, "{totals:?}");
        assert!(replays > 5_000 && replayed > 50_000, "{totals:?}");
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
