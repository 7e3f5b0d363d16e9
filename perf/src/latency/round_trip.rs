//! From a push on an engine that has nothing else to do to the end of the wait for it; and the push
//! call alone.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::{histogram, nanoseconds, now};
use crate::entrants::{measure, Entrant, Runner};
use crate::program::{small, Access, Body, Program};
use crate::record::{self, Percentiles, Who};

/// What a round trip took.
#[derive(Serialize, Debug)]
pub struct RoundTrip {
    /// How long the caller slept before each, in microseconds: long enough for a worker to go idle,
    /// or not at all.
    pub pause_us: u64,
    /// The distribution, in nanoseconds.
    pub percentiles: Percentiles,
}

/// What the call of a push took.
#[derive(Serialize, Debug)]
pub struct Push {
    /// The distribution, in nanoseconds. Reading the clock is part of it.
    pub percentiles: Percentiles,
}

/// How often.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Round trips back to back, and pushes.
    pub trips: usize,
    /// Round trips after a pause.
    pub pauses: usize,
}

const PAUSE: Duration = Duration::from_micros(200);

/// Counts how often it ran: one operation that changes one variable.
struct Count(AtomicU64);

impl Body for Count {
    fn execute(&self, _: u32) {
        // Its runs are ordered, so this needs no locked instruction.
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn verify(&self) -> Result<(), String> {
        match self.0.load(Ordering::Relaxed) {
            1 => Ok(()),
            other => Err(format!("the operation ran {other} times")),
        }
    }
}

/// Measures round trips and pushes, and prints a record of each distribution.
///
/// # Errors
/// If the entrant cannot be started or computes something wrong.
pub fn run(entrant: &Entrant, plan: Plan) -> Result<(), String> {
    let mut runner = entrant.start()?;
    let who = Who::new(entrant, runner.version());
    let access = Access { reads: Vec::new(), writes: vec![0] };
    let one = Program::new("round trip", 1, &[access], vec![0], Count(AtomicU64::new(0)));
    match runner.prepare(one) {
        Ok(()) => {
            round_trips(&mut *runner, one, plan.trips / 10, Duration::ZERO)?;
            for (count, pause) in [(plan.trips, Duration::ZERO), (plan.pauses, PAUSE)] {
                let trips = round_trips(&mut *runner, one, count, pause)?;
                let pause_us = pause.as_micros() as u64;
                record::print("round-trip", &who, RoundTrip { pause_us, percentiles: Percentiles::from(&trips) });
            }
        }
        Err(why) => eprintln!("{}: round trip left out: {why}", entrant.name),
    }
    let pushes = paced_chains(plan.trips);
    match runner.prepare(pushes) {
        Ok(()) => {
            measure(&mut *runner, pushes)?;
            measure(&mut *runner, pushes)?;
            let percentiles = PUSHES.with_borrow(|pushes| Percentiles::from(pushes));
            record::print("push", &who, Push { percentiles });
        }
        Err(why) => eprintln!("{}: push left out: {why}", entrant.name),
    }
    Ok(())
}

fn round_trips(
    runner: &mut dyn Runner,
    program: &Program,
    count: usize,
    pause: Duration,
) -> Result<Histogram<u64>, String> {
    let mut histogram = histogram();
    for _ in 0..count {
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        program.reset();
        let start = Instant::now();
        runner.run();
        histogram.saturating_record(nanoseconds(start.elapsed()));
        program.verify()?;
    }
    Ok(histogram)
}

thread_local! {
    /// What the pushes of the last run took, on the thread that pushed.
    static PUSHES: std::cell::RefCell<Histogram<u64>> = std::cell::RefCell::new(histogram());
}

/// Looks at the clock before each push: two such moments, less the time spent here, are what a push
/// took.
struct Watched {
    ran: Vec<AtomicU64>,
    last: AtomicU64,
}

/// Variables that the watched pushes go round.
const VARIABLES: usize = 1024;

/// As many pushes as asked, over variables that are free again by then.
fn paced_chains(count: usize) -> &'static Program {
    let access = |variable| Access { reads: Vec::new(), writes: vec![variable] };
    let accesses: Vec<Access> = (0..small(VARIABLES)).map(access).collect();
    let ran = (0..VARIABLES).map(|_| AtomicU64::new(0)).collect();
    let sequence = (0..count.next_multiple_of(VARIABLES)).map(|place| small(place % VARIABLES)).collect();
    Program::paced("push", VARIABLES, &accesses, sequence, Watched { ran, last: AtomicU64::new(0) })
}

impl Body for Watched {
    fn execute(&self, operation: u32) {
        let ran = &self.ran[operation as usize];
        ran.store(ran.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn pace(&self, place: u64) {
        let end = now();
        if place > 0 {
            let took = end - self.last.load(Ordering::Relaxed);
            PUSHES.with_borrow_mut(|pushes| pushes.saturating_record(took));
        }
        self.last.store(now(), Ordering::Relaxed);
    }

    fn reset(&self) {
        self.ran.iter().for_each(|ran| ran.store(0, Ordering::Relaxed));
        PUSHES.with_borrow_mut(Histogram::reset);
    }

    fn verify(&self) -> Result<(), String> {
        let first = self.ran[0].load(Ordering::Relaxed);
        let same = first > 0 && self.ran.iter().all(|ran| ran.load(Ordering::Relaxed) == first);
        if same {
            Ok(())
        } else {
            Err(String::from("pushes were lost or ran twice"))
        }
    }
}
