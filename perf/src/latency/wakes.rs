//! What pushes cost that find workers asleep, and what the same cost that find one awake: of one
//! operation, and of a hundred in a row. Two workers, so that one can look for work while the other
//! sleeps.
//!
//! Each cycle begins with a pause at random. Then comes a burst of pushes on sleeping workers. When
//! all of it has run, and the worker that ran it looks for more, comes the second burst. Of single
//! operations that finds one worker awake and the other asleep.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::LazyLock;
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use serde::Serialize;

use super::pauses::Pauses;
use super::sleeper::{forget_wakes, wakes, Sleeper};
use super::{histogram, now, spin_until};
use crate::entrants::{measure, Entrant};
use crate::program::{small, Access, Body, Program};
use crate::record::{self, Percentiles, Who};

/// What a burst of pushes took.
#[derive(Serialize, Debug)]
pub struct Burst {
    /// Operations in it.
    pub burst: usize,
    /// How long the pusher slept before each cycle, in microseconds: the mean.
    pub pause_us: u64,
    /// The bursts on sleeping workers, in nanoseconds, from the first push to the end of the last.
    pub percentiles: Percentiles,
    /// What the wake of a parked thread took that does nothing else.
    pub bare_wake: Percentiles,
    /// The bursts that came when the one before had just run.
    pub awake: Percentiles,
    /// From the start of those to when the first body began: what is long shows that no worker was
    /// awake.
    pub reached: Percentiles,
}

/// Operations of a burst.
pub const BURSTS: [usize; 2] = [1, 100];
/// Threads in all: the pusher and two workers.
pub const THREADS: usize = 3;

const PAUSE: Duration = Duration::from_millis(5);
/// How long the second burst waits for the first to run; if it has not by then, it is not counted.
const IN_TIME: u64 = 2_000_000;
/// How long after that it comes, in nanoseconds: the worker has ended the operation then.
const A_MOMENT: u64 = 2_000;

/// What the bursts of the last run took. OpenMP lets any of its threads be the one that pushes.
static TOOK: LazyLock<Mutex<Took>> =
    LazyLock::new(|| Mutex::new(Took { asleep: histogram(), awake: histogram(), reached: histogram() }));

struct Took {
    asleep: Histogram<u64>,
    awake: Histogram<u64>,
    reached: Histogram<u64>,
}

struct Bursts {
    burst: usize,
    /// How often the operation of each variable ran, and when it last began.
    ran: Vec<AtomicU64>,
    began: Vec<AtomicU64>,
    /// When the burst began; 0 if it does not count.
    start: AtomicU64,
    sleeper: Sleeper,
    pauses: Vec<Duration>,
}

/// Measures bursts, and prints a record for each length of them.
///
/// # Errors
/// If the entrant cannot be started or computes something wrong.
pub fn run(entrant: &Entrant, cycles: usize) -> Result<(), String> {
    let mut runner = entrant.start()?;
    let who = Who::new(entrant, runner.version());
    for burst in BURSTS {
        let program = bursts(burst, cycles);
        if let Err(why) = runner.prepare(program) {
            eprintln!("{}: bursts left out: {why}", entrant.name);
            return Ok(());
        }
        measure(&mut *runner, program)?;
        let took = TOOK.lock();
        let measured = Burst {
            burst,
            pause_us: PAUSE.as_micros() as u64,
            percentiles: Percentiles::from(&took.asleep),
            bare_wake: wakes(),
            awake: Percentiles::from(&took.awake),
            reached: Percentiles::from(&took.reached),
        };
        drop(took);
        record::print("wakes", &who, measured);
    }
    Ok(())
}

/// So many cycles, and a first burst more: what a burst took is noted when the next begins.
fn bursts(burst: usize, cycles: usize) -> &'static Program {
    let access = |variable| Access { reads: Vec::new(), writes: vec![variable] };
    let accesses: Vec<Access> = (0..small(2 * burst)).map(access).collect();
    let sequence: Vec<u32> = (0..burst * (2 * cycles + 1)).map(|place| small(place % (2 * burst))).collect();
    let zeros = || (0..2 * burst).map(|_| AtomicU64::new(0)).collect();
    let pauses = Pauses::Random(PAUSE).take(cycles + 1);
    let (ran, began) = (zeros(), zeros());
    let body = Bursts { burst, ran, began, start: AtomicU64::new(0), sleeper: Sleeper::start(), pauses };
    Program::paced("bursts", 2 * burst, &accesses, sequence, body)
}

impl Bursts {
    /// Whether all of the first burst of this cycle runs in time.
    fn first_runs(&self, cycle: u64) -> bool {
        let until = now() + IN_TIME;
        let has_run = |ran: &AtomicU64| ran.load(Ordering::Acquire) > cycle;
        while !self.ran[..self.burst].iter().all(has_run) {
            if now() > until {
                return false;
            }
            std::hint::spin_loop();
        }
        true
    }
}

impl Body for Bursts {
    fn execute(&self, operation: u32) {
        self.began[operation as usize].store(now(), Ordering::Relaxed);
        // The runs of an operation are ordered, so this needs no locked instruction.
        let ran = &self.ran[operation as usize];
        ran.store(ran.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    fn pace(&self, place: u64) {
        let end = now();
        if place % self.burst as u64 != 0 {
            return;
        }
        let number = place / self.burst as u64;
        let (cycle, second) = (number / 2, number % 2 == 1);
        let start = self.start.load(Ordering::Relaxed);
        if second {
            TOOK.lock().asleep.saturating_record(end - start);
            let counts = self.first_runs(cycle);
            spin_until(now() + A_MOMENT);
            self.start.store(if counts { now() } else { 0 }, Ordering::Relaxed);
            return;
        }
        let half = self.pauses[cycle as usize] / 2;
        std::thread::sleep(half);
        self.sleeper.wake();
        std::thread::sleep(half);
        if number > 0 && start > 0 {
            let reached = self.began[self.burst].load(Ordering::Relaxed).saturating_sub(start);
            let mut took = TOOK.lock();
            took.awake.saturating_record(end - start);
            took.reached.saturating_record(reached.max(1));
        }
        self.start.store(now(), Ordering::Relaxed);
    }

    fn reset(&self) {
        self.ran.iter().for_each(|ran| ran.store(0, Ordering::Relaxed));
        let mut took = TOOK.lock();
        took.asleep.reset();
        took.awake.reset();
        took.reached.reset();
        forget_wakes();
    }

    fn verify(&self) -> Result<(), String> {
        let cycles = self.pauses.len() as u64;
        let wanted = |variable: usize| if variable < self.burst { cycles } else { cycles - 1 };
        let right = |(variable, ran): (usize, &AtomicU64)| ran.load(Ordering::Relaxed) == wanted(variable);
        match self.ran.iter().enumerate().all(right) {
            true => Ok(()),
            false => Err(String::from("pushes were lost or ran twice")),
        }
    }
}
