//! Drivers that keep no order: each fault is planted in the stand-in, and programs of each sort
//! find it.

use crate::client::{Fault, Standin};
use crate::common::Random;
use crate::plan::{Plan, NO_PAUSES};
use crate::programs::drawn;
use crate::seeds::{Run, SORTS};
use seriatim::Kind;

const PROGRAMS: u64 = 20;
const QUEUED: [Kind; 2] = [Kind::PerDevice, Kind::Pooled];

/// Runs programs of one sort with a fault at each so many-th occasion. Returns how many were found
/// of those in which there was a fault, and what was said first.
fn found(standin: &Standin, run: Run, fault: Fault, every: u64, kinds: &[Kind]) -> (usize, usize, String) {
    let (mut faulty, mut found, mut said) = (0, 0, String::new());
    for seed in 1..=PROGRAMS {
        let (plan, random) = drawn(seed);
        let kind = Random(seed).pick(kinds);
        let plan = Plan { kind, pace: 60, burst: 4, ahead: 64, operations: 400, pauses: NO_PAUSES, ..plan };
        let (mut is_faulty, mut is_found) = (false, false);
        // Where threads get their cores late, one run may wait for the processor each time.
        for _ in 0..3 {
            plan.set_up(standin, seed);
            standin.plant(fault, every);
            let outcome = run(standin, &plan, seed, random.clone());
            // Lost with a device that was told to free what is in use, the rest of it stays.
            let reports = standin.reports();
            is_faulty |= standin.planted() > 0;
            is_found = outcome.is_err();
            if said.is_empty() {
                said = reports.into_iter().next().or(outcome.err()).unwrap_or_default();
            }
            if is_found {
                break;
            }
        }
        faulty += usize::from(is_faulty);
        found += usize::from(is_found);
    }
    (faulty, found, said)
}

/// Of ten faulty programs of each sort at least so many are found.
fn is_found(fault: Fault, every: u64, kinds: &[Kind], tenths: usize, says: &str) {
    let standin = Standin::begin(1, 128);
    for (sort, run) in SORTS {
        let (faulty, found, said) = found(&standin, run, fault, every, kinds);
        println!("{fault:?}, one in {every}, {sort}: {found} of {faulty} faulty programs are found; the first: {said}");
        assert!(faulty >= 18 && found * 10 >= faulty * tenths, "{sort}: {found} of {faulty}: {said}");
        assert!(said.contains(says), "{sort}: {said}");
    }
}

#[test]
fn a_driver_that_swallows_waits_is_found() {
    is_found(Fault::WaitSwallowed, 5, &QUEUED, 9, "is not ordered after");
}

#[test]
fn a_driver_that_records_too_early_is_found() {
    is_found(Fault::RecordedEarly, 4, &QUEUED, 9, "");
}

#[test]
fn a_driver_that_says_done_too_early_is_found() {
    is_found(Fault::DoneTooEarly, 10, &QUEUED, 9, "");
}

#[test]
fn a_driver_that_does_not_wait_for_its_streams_is_found() {
    // A copy of arrays is waited for twice: for its borrows, and for the operation.
    is_found(Fault::FinishedTooEarly, 3, &[Kind::Naive], 8, "");
}
