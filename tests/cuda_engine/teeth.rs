//! Drivers that keep no order: each fault is planted in the stand-in, and programs find it.

use crate::client::{Fault, Standin};
use crate::common::Random;
use crate::plan::{Plan, NO_PAUSES};
use crate::programs::{drawn, run};
use seriatim::Kind;

/// Runs programs with a fault at each so many-th occasion. Returns how many were found of those in
/// which there was a fault, and what was said first.
fn found(fault: Fault, every: u64, kinds: &[Kind], programs: u64) -> (usize, usize, String) {
    let standin = Standin::begin(1, 128);
    let (mut faulty, mut found, mut said) = (0, 0, String::new());
    for seed in 1..=programs {
        let (plan, random) = drawn(seed);
        let kind = Random(seed).pick(kinds);
        let plan = Plan { kind, pace: 60, burst: 4, ahead: 64, operations: 400, pauses: NO_PAUSES, ..plan };
        plan.set_up(&standin, seed);
        standin.plant(fault, every);
        let outcome = run(&standin, &plan, seed, random);
        // Lost with a device that was told to free what is in use, the rest of it stays.
        let reports = standin.reports();
        faulty += usize::from(standin.planted() > 0);
        found += usize::from(outcome.is_err());
        if said.is_empty() {
            said = reports.into_iter().next().or(outcome.err()).unwrap_or_default();
        }
    }
    println!("{fault:?}, one in {every}: {found} of {faulty} faulty programs are found; the first: {said}");
    (faulty, found, said)
}

const QUEUED: [Kind; 2] = [Kind::PerDevice, Kind::Pooled];

#[test]
fn a_driver_that_swallows_waits_is_found() {
    let (faulty, found, said) = found(Fault::WaitSwallowed, 5, &QUEUED, 20);
    assert!(faulty >= 18 && found * 10 >= faulty * 9, "{found} of {faulty}: {said}");
    assert!(said.contains("is not ordered after"), "{said}");
}

#[test]
fn a_driver_that_records_too_early_is_found() {
    let (faulty, found, said) = found(Fault::RecordedEarly, 4, &QUEUED, 20);
    assert!(faulty >= 18 && found * 10 >= faulty * 9, "{found} of {faulty}: {said}");
}

#[test]
fn a_driver_that_says_done_too_early_is_found() {
    let (faulty, found, said) = found(Fault::DoneTooEarly, 10, &QUEUED, 20);
    assert!(faulty >= 18 && found * 10 >= faulty * 9, "{found} of {faulty}: {said}");
}

#[test]
fn a_driver_that_does_not_wait_for_its_streams_is_found() {
    let (faulty, found, said) = found(Fault::FinishedTooEarly, 10, &[Kind::Naive], 20);
    assert!(faulty >= 18 && found * 10 >= faulty * 9, "{found} of {faulty}: {said}");
}
