//! Operations offered at a fixed rate: how long after its scheduled moment is each complete?
//!
//! The moments are regular; at the lower rates there are also some at random, with exponential
//! pauses of the same mean, which no runtime can foresee.
//!
//! The schedule does not wait for the engine, so an operation that is pushed late because the one
//! before it took long counts from the moment at which it should have been pushed: what is called
//! correction for coordinated omission.
//!
//! What an entrant burns meanwhile stands beside that: the processor time of its threads. The
//! thread that pushes does not count, for it waits for each moment without giving up its core.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::pauses::Exponential;
use super::{histogram, now, spin_until};
use crate::entrants::{measure, Entrant, Runner};
use crate::machine::others_time;
use crate::metg::kernel::{Kernel, Scratch};
use crate::program::{small, Body, Program};
use crate::record::{self, Percentiles, Who};
use crate::workloads::{random_accesses, Hashing, RANDOM_VARIABLES};

/// What came out at one rate.
#[derive(Serialize, Debug)]
pub struct OpenLoop {
    /// Operations offered a second.
    pub offered_per_s: f64,
    /// Operations complete a second, from the first moment of the schedule to the end of the wait.
    pub achieved_per_s: f64,
    /// What a body computes, in nanoseconds.
    pub body_ns: f64,
    /// Processor time of all threads but the one that pushes, in cores: 1 is a whole core. Absent
    /// where the system does not say.
    pub burnt_cores: Option<f64>,
    /// From the scheduled moment to the end of the body, in nanoseconds.
    pub percentiles: Percentiles,
}

/// How much to offer.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How long each rate is offered.
    pub during: Duration,
}

/// The rates, in operations a second: the same for all entrants.
pub const RATES: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// The rates that are offered at random moments as well.
pub const RANDOM_RATES: [u64; 2] = [1_000, 10_000];

/// Different operations, each reading two variables and changing a third.
const DISTINCT: usize = 4096;
/// Operations that warm everything up.
const WARM_UP: usize = 20_000;
/// Iterations of the compute kernel in a body: about a quarter of a microsecond, so that one thread
/// could do with the highest rate.
const ITERATIONS: u32 = 128;

/// When each operation is due, and what comes out of a run.
struct Schedule {
    /// Nanoseconds from the first moment to that of each place; none to push at once.
    moments: Vec<u64>,
    /// The moment of the first operation.
    start: AtomicU64,
    /// Nanoseconds from each place's moment to its end.
    took: Vec<AtomicU32>,
}

impl Schedule {
    fn moment(&self, place: u64) -> u64 {
        self.start.load(Ordering::Relaxed) + self.moments.get(place as usize).copied().unwrap_or(0)
    }
}

/// So many moments, so many nanoseconds apart.
fn regular(count: usize, interval: u64) -> Vec<u64> {
    (0..count as u64).map(|place| place * interval).collect()
}

/// So many moments at random, so many nanoseconds apart on average: the same for all entrants.
fn at_random(count: usize, interval: u64) -> Vec<u64> {
    let (mut draws, mut moment) = (Exponential::new(), 0.0);
    let pause = |_| {
        moment += draws.draw() * interval as f64;
        moment as u64
    };
    (0..count).map(pause).collect()
}

struct Timed {
    hashing: Hashing,
    /// How often each distinct operation ran, alone on its cache line. Its runs are ordered, so the
    /// number tells the place.
    ran: Vec<Counter>,
    schedule: Arc<Schedule>,
    scratch: Scratch,
}

#[repr(align(64))]
struct Counter(AtomicU64);

impl Body for Timed {
    fn execute(&self, operation: u32) {
        self.hashing.execute(operation);
        Kernel::Compute.run(ITERATIONS, &self.scratch);
        let ran = &self.ran[operation as usize].0;
        let before = ran.load(Ordering::Relaxed);
        ran.store(before + 1, Ordering::Relaxed);
        let place = before * DISTINCT as u64 + u64::from(operation);
        let late = u32::try_from(now().saturating_sub(self.schedule.moment(place))).unwrap_or(u32::MAX);
        if let Some(took) = self.schedule.took.get(place as usize) {
            took.store(late.max(1), Ordering::Relaxed);
        }
    }

    fn pace(&self, place: u64) {
        if place == 0 {
            self.schedule.start.store(now(), Ordering::Relaxed);
        }
        spin_until(self.schedule.moment(place));
    }

    fn reset(&self) {
        self.hashing.reset();
        self.ran.iter().for_each(|ran| ran.0.store(0, Ordering::Relaxed));
        self.schedule.took.iter().for_each(|took| took.store(0, Ordering::Relaxed));
    }

    fn verify(&self) -> Result<(), String> {
        self.hashing.verify()?;
        let missing = self.schedule.took.iter().filter(|took| took.load(Ordering::Relaxed) == 0).count();
        if missing == 0 {
            Ok(())
        } else {
            Err(format!("{missing} operations left no time"))
        }
    }
}

/// A program of `count` operations at these moments.
fn program(count: usize, moments: Vec<u64>) -> (&'static Program, Arc<Schedule>) {
    let accesses = random_accesses(DISTINCT);
    let sequence: Vec<u32> = (0..count).map(|place| small(place % DISTINCT)).collect();
    let took = (0..count).map(|_| AtomicU32::new(0)).collect();
    let schedule = Arc::new(Schedule { moments, start: AtomicU64::new(0), took });
    let body = Timed {
        hashing: Hashing::new(RANDOM_VARIABLES, &accesses, &sequence),
        ran: (0..DISTINCT).map(|_| Counter(AtomicU64::new(0))).collect(),
        schedule: Arc::clone(&schedule),
        scratch: Scratch::new(Kernel::Compute),
    };
    (Program::paced("open loop", RANDOM_VARIABLES, &accesses, sequence, body), schedule)
}

/// Offers every rate, and prints a record of each. Records of `random-arrivals` are as those of
/// `open-loop`.
///
/// # Errors
/// If the entrant cannot be started or computes something wrong.
pub fn run(entrant: &Entrant, plan: Plan) -> Result<(), String> {
    let mut runner = entrant.start()?;
    let who = Who::new(entrant, runner.version());
    let (at_once, _) = program(WARM_UP, Vec::new());
    if let Err(why) = runner.prepare(at_once) {
        eprintln!("{}: open loop left out: {why}", entrant.name);
        return Ok(());
    }
    (0..2).try_for_each(|_| measure(&mut *runner, at_once).map(drop))?;
    for rate in RATES {
        record::print("open-loop", &who, offer(&mut *runner, rate, regular, plan)?);
    }
    for rate in RANDOM_RATES {
        record::print("random-arrivals", &who, offer(&mut *runner, rate, at_random, plan)?);
    }
    Ok(())
}

fn offer(
    runner: &mut dyn Runner,
    rate: u64,
    moments: fn(usize, u64) -> Vec<u64>,
    plan: Plan,
) -> Result<OpenLoop, String> {
    let count = ((rate as f64 * plan.during.as_secs_f64()) as usize).max(1);
    let (program, schedule) = program(count, moments(count, 1_000_000_000 / rate));
    runner.prepare(program)?;
    let before = others_time();
    let took = measure(runner, program)?;
    let burnt = others_time().zip(before).map(|(after, before)| after.saturating_sub(before));
    let mut histogram = histogram();
    for took in &schedule.took {
        histogram.saturating_record(u64::from(took.load(Ordering::Relaxed)));
    }
    Ok(OpenLoop {
        offered_per_s: rate as f64,
        achieved_per_s: program.sequence().len() as f64 / took.as_secs_f64(),
        body_ns: body_ns(),
        burnt_cores: burnt.map(|burnt| burnt.as_secs_f64() / took.as_secs_f64()),
        percentiles: Percentiles::from(&histogram),
    })
}

/// What the kernel of a body takes on this thread, in nanoseconds.
fn body_ns() -> f64 {
    const RUNS: u32 = 1000;
    let (scratch, start) = (Scratch::new(Kernel::Compute), now());
    (0..RUNS).for_each(|_| Kernel::Compute.run(ITERATIONS, &scratch));
    (now() - start) as f64 / f64::from(RUNS)
}
