//! From a push on an engine that has nothing else to do to the end of the wait for it; and the push
//! call alone, at once and on an engine whose threads sleep. Beside the latter stands what waking a
//! thread costs by itself, in the same process and in turns.
//!
//! What comes after pauses is measured twice: pauses of one length, which a runtime can foresee,
//! and pauses at random with the same mean, which none can.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use serde::Serialize;

use super::pauses::Pauses;
use super::sleeper::{forget_wakes, wakes, Sleeper};
use super::{histogram, nanoseconds, now};
use crate::entrants::{measure, Entrant, Runner};
use crate::program::{small, Access, Body, Program};
use crate::record::{self, Percentiles, Who};

/// What a round trip took.
#[derive(Serialize, Debug)]
pub struct RoundTrip {
    /// How long the caller slept before each, in microseconds: long enough for a worker to go idle,
    /// or not at all. For pauses at random this is their mean.
    pub pause_us: u64,
    /// The distribution, in nanoseconds.
    pub percentiles: Percentiles,
}

/// What the call of a push took.
#[derive(Serialize, Debug)]
pub struct Push {
    /// How long the pusher slept before each, in microseconds. For pauses at random this is their
    /// mean.
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

/// Measures round trips and pushes, and prints a record of each distribution. Records of
/// `random-round-trip` and `random-push` are as those of `round-trip` and `push`.
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
            round_trips(&mut *runner, one, Pauses::None, plan.trips / 10)?;
            let long = plan.pauses.div_ceil(RARER);
            for (pauses, count) in [
                (Pauses::None, plan.trips),
                (Pauses::Regular(PAUSE), plan.pauses),
                (Pauses::Regular(LONG_PAUSE), long),
                (Pauses::Random(PAUSE), plan.pauses),
                (Pauses::Random(LONG_PAUSE), long),
            ] {
                let trips = round_trips(&mut *runner, one, pauses, count)?;
                let measured = RoundTrip { pause_us: pauses.mean_us(), percentiles: Percentiles::from(&trips) };
                record::print(kind("round-trip", "random-round-trip", pauses), &who, measured);
            }
        }
        Err(why) => eprintln!("{}: round trip left out: {why}", entrant.name),
    }
    let pushes = paced_chains(VARIABLES, plan.trips, Pauses::None);
    match runner.prepare(pushes) {
        Ok(()) => {
            measure(&mut *runner, pushes)?;
            let percentiles = watch(&mut *runner, pushes)?;
            record::print("push", &who, Push { pause_us: 0, bare_wake: None, percentiles });
        }
        Err(why) => eprintln!("{}: push left out: {why}", entrant.name),
    }
    let parked = plan.pauses.div_ceil(RARER).next_multiple_of(PARKED);
    for pauses in [Pauses::Regular(LONG_PAUSE), Pauses::Random(LONG_PAUSE)] {
        let pushes = paced_chains(PARKED, parked, pauses);
        match runner.prepare(pushes) {
            Ok(()) => {
                let percentiles = watch(&mut *runner, pushes)?;
                let measured = Push { pause_us: pauses.mean_us(), bare_wake: Some(wakes()), percentiles };
                record::print(kind("push", "random-push", pauses), &who, measured);
            }
            Err(why) => eprintln!("{}: push on sleeping threads left out: {why}", entrant.name),
        }
    }
    Ok(())
}

/// Of which kind the records of these pauses are.
fn kind(regular: &'static str, random: &'static str, pauses: Pauses) -> &'static str {
    match pauses {
        Pauses::Random(_) => random,
        Pauses::None | Pauses::Regular(_) => regular,
    }
}

/// Runs the program, and returns what its pushes took.
fn watch(runner: &mut dyn Runner, pushes: &Program) -> Result<Percentiles, String> {
    measure(runner, pushes)?;
    Ok(Percentiles::from(&*PUSHES.lock()))
}

fn round_trips(
    runner: &mut dyn Runner,
    program: &Program,
    pauses: Pauses,
    count: usize,
) -> Result<Histogram<u64>, String> {
    let mut histogram = histogram();
    for pause in pauses.take(count) {
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

/// What the pushes of the last run took. OpenMP lets any of its threads be the one that pushes.
static PUSHES: LazyLock<Mutex<Histogram<u64>>> = LazyLock::new(|| Mutex::new(histogram()));

/// Looks at the clock before each push: two such moments, less the time spent here, are what a push
/// took.
struct Watched {
    ran: Vec<AtomicU64>,
    last: AtomicU64,
    /// If there is one, the pusher sleeps before each push, and wakes this thread halfway.
    sleeper: Option<Sleeper>,
    /// How long it sleeps, by the place of the push.
    pauses: Vec<Duration>,
}

/// Variables that the watched pushes go round.
const VARIABLES: usize = 1024;
/// The same for pushes on sleeping threads.
const PARKED: usize = 8;

/// As many pushes as asked, over variables that are free again by then.
fn paced_chains(variables: usize, count: usize, pauses: Pauses) -> &'static Program {
    let access = |variable| Access { reads: Vec::new(), writes: vec![variable] };
    let accesses: Vec<Access> = (0..small(variables)).map(access).collect();
    let ran = (0..variables).map(|_| AtomicU64::new(0)).collect();
    let sequence: Vec<u32> = (0..count.next_multiple_of(variables)).map(|place| small(place % variables)).collect();
    let sleeper = (pauses != Pauses::None).then(Sleeper::start);
    let pauses = pauses.take(sequence.len());
    Program::paced("push", variables, &accesses, sequence, Watched { ran, last: AtomicU64::new(0), sleeper, pauses })
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
            PUSHES.lock().saturating_record(took);
        }
        if let Some(sleeper) = &self.sleeper {
            let half = self.pauses[place as usize] / 2;
            std::thread::sleep(half);
            sleeper.wake();
            std::thread::sleep(half);
        }
        self.last.store(now(), Ordering::Relaxed);
    }

    fn reset(&self) {
        self.ran.iter().for_each(|ran| ran.store(0, Ordering::Relaxed));
        PUSHES.lock().reset();
        forget_wakes();
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
