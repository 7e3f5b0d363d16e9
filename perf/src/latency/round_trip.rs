//! From a push on an engine that has nothing else to do to the end of the wait for it; and the push
//! call alone, at once and on an engine whose threads sleep. Beside the latter stands what waking a
//! thread costs by itself, in the same process and in turns.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::{histogram, nanoseconds, now};
use crate::entrants::{measure, Entrant, Runner};
use crate::machine::{away_from_here, use_only};
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
    /// How long the pusher slept before each, in microseconds.
    pub pause_us: u64,
    /// Where the pusher slept: what the wake of a parked thread took that does nothing else.
    pub bare_wake: Option<Percentiles>,
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
/// Long enough for every entrant's threads to sleep.
const LONG_PAUSE: Duration = Duration::from_millis(5);
/// So many fewer round trips and pushes come after [`LONG_PAUSE`] than after [`PAUSE`].
const RARER: usize = 4;

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
            let long = plan.pauses.div_ceil(RARER);
            for (count, pause) in [(plan.trips, Duration::ZERO), (plan.pauses, PAUSE), (long, LONG_PAUSE)] {
                let trips = round_trips(&mut *runner, one, count, pause)?;
                let pause_us = pause.as_micros() as u64;
                record::print("round-trip", &who, RoundTrip { pause_us, percentiles: Percentiles::from(&trips) });
            }
        }
        Err(why) => eprintln!("{}: round trip left out: {why}", entrant.name),
    }
    let pushes = paced_chains(VARIABLES, plan.trips, None);
    match runner.prepare(pushes) {
        Ok(()) => {
            measure(&mut *runner, pushes)?;
            let percentiles = watch(&mut *runner, pushes)?;
            record::print("push", &who, Push { pause_us: 0, bare_wake: None, percentiles });
        }
        Err(why) => eprintln!("{}: push left out: {why}", entrant.name),
    }
    let (sleeper, parked) = (Sleeper::start(), plan.pauses.div_ceil(RARER).next_multiple_of(PARKED));
    let pushes = paced_chains(PARKED, parked, Some(sleeper));
    match runner.prepare(pushes) {
        Ok(()) => {
            let percentiles = watch(&mut *runner, pushes)?;
            let bare_wake = WAKES.with_borrow(|wakes| Some(Percentiles::from(wakes)));
            record::print("push", &who, Push { pause_us: LONG_PAUSE.as_micros() as u64, bare_wake, percentiles });
        }
        Err(why) => eprintln!("{}: push on sleeping threads left out: {why}", entrant.name),
    }
    Ok(())
}

/// Runs the program, and returns what its pushes took.
fn watch(runner: &mut dyn Runner, pushes: &Program) -> Result<Percentiles, String> {
    measure(runner, pushes)?;
    Ok(PUSHES.with_borrow(|pushes| Percentiles::from(pushes)))
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
    static PUSHES: RefCell<Histogram<u64>> = RefCell::new(histogram());
    /// What the wakes between them took.
    static WAKES: RefCell<Histogram<u64>> = RefCell::new(histogram());
}

/// A thread that does nothing but park. It ends with the process. It is pinned like a worker, so
/// that a wake finds it on another core than the pusher's.
struct Sleeper(Thread);

impl Sleeper {
    fn start() -> Sleeper {
        let core = away_from_here();
        let sleep = move || {
            // Without that the figure is one of an unpinned thread.
            let _ = core.map(|core| use_only(&[core]));
            loop {
                std::thread::park();
            }
        };
        Sleeper(std::thread::spawn(sleep).thread().clone())
    }

    fn wake(&self) {
        let start = now();
        self.0.unpark();
        WAKES.with_borrow_mut(|wakes| wakes.saturating_record(now() - start));
    }
}

/// Looks at the clock before each push: two such moments, less the time spent here, are what a push
/// took.
struct Watched {
    ran: Vec<AtomicU64>,
    last: AtomicU64,
    /// If there is one, the pusher sleeps before each push, and wakes this thread halfway.
    sleeper: Option<Sleeper>,
}

/// Variables that the watched pushes go round.
const VARIABLES: usize = 1024;
/// The same for pushes on sleeping threads.
const PARKED: usize = 8;

/// As many pushes as asked, over variables that are free again by then.
fn paced_chains(variables: usize, count: usize, sleeper: Option<Sleeper>) -> &'static Program {
    let access = |variable| Access { reads: Vec::new(), writes: vec![variable] };
    let accesses: Vec<Access> = (0..small(variables)).map(access).collect();
    let ran = (0..variables).map(|_| AtomicU64::new(0)).collect();
    let sequence = (0..count.next_multiple_of(variables)).map(|place| small(place % variables)).collect();
    Program::paced("push", variables, &accesses, sequence, Watched { ran, last: AtomicU64::new(0), sleeper })
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
        if let Some(sleeper) = &self.sleeper {
            std::thread::sleep(LONG_PAUSE / 2);
            sleeper.wake();
            std::thread::sleep(LONG_PAUSE / 2);
        }
        self.last.store(now(), Ordering::Relaxed);
    }

    fn reset(&self) {
        self.ran.iter().for_each(|ran| ran.store(0, Ordering::Relaxed));
        PUSHES.with_borrow_mut(Histogram::reset);
        WAKES.with_borrow_mut(Histogram::reset);
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
