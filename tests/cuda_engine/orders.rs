//! What the stand-in's checker says of random programs, and nothing else: two uses of memory that
//! nothing orders are found whatever order they came in. Wrong values are for the other tests. So a
//! mutant that fails one of these is one that the checker has found (`mutants/list.txt`).

use crate::client::Standin;
use crate::common::Random;
use crate::plan::Plan;
use crate::programs::drawn;
use crate::seeds::{number, Run, SORTS};
use seriatim::Kind;

const PROGRAMS: u64 = 40;
/// What the checker begins with, when two uses are not ordered.
pub const UNORDERED: &str = "is not ordered after";

/// Runs programs of a sort on engines with workers. Most are of devices, and half of them are on
/// two or three of these.
fn the_checker_is_silent(run: Run) {
    let standin = Standin::begin(1, 128);
    let first = number("CUDA_ENGINE_FIRST_SEED").unwrap_or(1);
    for seed in first..first + PROGRAMS {
        let (plan, random) = drawn(seed);
        let kind = Random(seed).pick(&[Kind::PerDevice, Kind::Pooled]);
        let plan = Plan { kind, operations: 300, on_devices: seed % 4 > 0, ..plan };
        plan.set_up(&standin, seed);
        let outcome = run(&standin, &plan, seed, random);
        let said = standin.reports().into_iter().chain(outcome.err()).find(|said| said.contains(UNORDERED));
        assert!(said.is_none(), "seed {seed}: {said:?}; {plan:?}");
    }
}

#[test]
fn every_two_uses_of_a_cell_are_ordered() {
    the_checker_is_silent(SORTS[0].1);
}

#[test]
fn every_two_uses_of_a_cell_by_several_pushers_are_ordered() {
    the_checker_is_silent(SORTS[1].1);
}

#[test]
fn every_two_uses_of_the_memory_of_arrays_are_ordered() {
    the_checker_is_silent(SORTS[2].1);
}

#[test]
fn every_two_uses_of_the_memory_of_arrays_of_three_pushers_are_ordered() {
    the_checker_is_silent(SORTS[3].1);
}
