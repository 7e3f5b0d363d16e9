//! How punctual is a job of 1 kHz, alone and while a load of lower priority keeps the workers busy?
//!
//! A thread pushes the job's operation every millisecond, with a high priority; its body notes how
//! long after the scheduled moment it began. The load is another thread that keeps operations of
//! about 2, 20 or 200 µs in flight. There is one worker fewer than cores, so that the job's thread
//! has a core for its own.
//!
//! Two floors stand beside the engines, without any: a thread that sleeps to each moment, as
//! cyclictest does, and one that sleeps to shortly before it and then spins, as the job's thread
//! does here. Their load is the same bodies, in a thread for each worker.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use seriatim::{Context, Kind, Name, Property, Variable};

use super::{histogram, now, spin_until};
use crate::entrants::baseline;
use crate::entrants::Style;
use crate::machine::cores;
use crate::metg::kernel::{Kernel, Scratch};
use crate::record::{self, Percentiles, Who};

/// How late the job's bodies began.
#[derive(Serialize, Debug)]
pub struct Jitter {
    /// What else ran.
    pub background: &'static str,
    /// Between two moments of the schedule, in microseconds.
    pub period_us: u64,
    /// From the scheduled moment to the start of the body, in nanoseconds.
    pub percentiles: Percentiles,
    /// The greatest of these values, the greatest first, so that a rare percentile can be taken of
    /// all repetitions together.
    pub latest: Vec<u64>,
}

/// How many of the greatest values are kept: more than lie beyond p99.9 of the nine repetitions
/// together, wherever they are.
const LATEST: usize = 64;

const PERIOD: Duration = Duration::from_millis(1);
/// The job's thread sleeps until this long before the moment, and then spins: a timer is later than
/// that.
const AWAKE_BEFORE: u64 = 200_000;
/// What runs beside the job.
struct Load {
    name: &'static str,
    /// Iterations of the compute kernel in an operation: 500 take about a microsecond.
    iterations: u32,
    /// Operations in flight: more than run while the load's thread sleeps.
    in_flight: usize,
}

const LOADS: [Load; 3] = [
    Load { name: "low-priority", iterations: 10_000, in_flight: 64 },
    Load { name: "low-priority, 2 us", iterations: 1_000, in_flight: VARIABLES },
    Load { name: "low-priority, 200 us", iterations: 100_000, in_flight: 64 },
];
/// The name of no load.
const ALONE: &str = "none";
/// The variables that operations of the load go round.
const VARIABLES: usize = 640;
const HIGH: i32 = 100;

/// An engine with priorities.
trait Subject: Sync {
    /// Pushes the job's operation, of high priority.
    fn push_job(&self, body: Box<dyn FnOnce() + Send>);
    /// Pushes an operation of the load, which changes the variable of that number.
    fn push_load(&self, body: Box<dyn FnOnce() + Send>, variable: usize);
    /// Waits for everything.
    fn finish(&self);
}

struct Ours {
    engine: seriatim::Engine,
    property: Property,
    job: Variable,
    load: Vec<Variable>,
}

impl Ours {
    fn start(kind: Kind, workers: usize, property: Property) -> Result<Ours, String> {
        let engine = seriatim::Engine::builder().kind(kind).cpu_workers(workers).priority_workers(1);
        let engine = engine.build().map_err(|error| error.to_string())?;
        let load = (0..VARIABLES).map(|_| engine.new_variable()).collect();
        Ok(Ours { property, job: engine.new_variable(), load, engine })
    }

    fn push(&self, body: Box<dyn FnOnce() + Send>, variable: Variable, property: Property, priority: i32) {
        let (body, context) = (move |_: &seriatim::RunContext<'_>| body(), Context::default());
        let pushed = self.engine.push_sync(body, context, &[], &[variable], property, priority, Name::from("jitter"));
        pushed.expect("an engine that runs");
    }
}

impl Subject for Ours {
    fn push_job(&self, body: Box<dyn FnOnce() + Send>) {
        self.push(body, self.job, self.property, HIGH);
    }

    fn push_load(&self, body: Box<dyn FnOnce() + Send>, variable: usize) {
        self.push(body, self.load[variable], Property::Normal, 0);
    }

    fn finish(&self) {
        self.engine.wait_for_all().expect("operations that do not fail");
    }
}

struct Mutexed {
    engine: baseline::Engine,
    job: baseline::Var,
    load: Vec<baseline::Var>,
}

impl Mutexed {
    fn start(workers: usize) -> Mutexed {
        let engine = baseline::Engine::with_order(workers, baseline::Order::Priority);
        Mutexed { job: engine.new_variable(), load: (0..VARIABLES).map(|_| engine.new_variable()).collect(), engine }
    }
}

impl Subject for Mutexed {
    fn push_job(&self, body: Box<dyn FnOnce() + Send>) {
        self.engine.push(body, &[], &[self.job], HIGH);
    }

    fn push_load(&self, body: Box<dyn FnOnce() + Send>, variable: usize) {
        self.engine.push(body, &[], &[self.load[variable]], 0);
    }

    fn finish(&self) {
        self.engine.wait_for_all();
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// No engine: the job runs where it is pushed, and the load on threads of its own.
struct Floor {
    load: Mutex<Vec<Sender<Work>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Floor {
    fn start(workers: usize) -> Floor {
        let (mut load, mut threads) = (Vec::new(), Vec::new());
        for _ in 0..workers {
            let (sender, bodies) = channel::<Work>();
            load.push(sender);
            threads.push(std::thread::spawn(move || bodies.into_iter().for_each(|body| body())));
        }
        Floor { load: Mutex::new(load), threads: Mutex::new(threads) }
    }
}

impl Subject for Floor {
    fn push_job(&self, body: Box<dyn FnOnce() + Send>) {
        body();
    }

    fn push_load(&self, body: Box<dyn FnOnce() + Send>, variable: usize) {
        let load = self.load.lock();
        load[variable % load.len()].send(body).expect("a thread that runs the load");
    }

    fn finish(&self) {
        self.load.lock().clear();
        self.threads.lock().drain(..).for_each(|thread| thread.join().expect("a load that does not panic"));
    }
}

type Start = fn(usize) -> Result<Box<dyn Subject>, String>;

/// The floor whose thread sleeps to the moment itself.
const SLEEPER: &str = "a thread that sleeps to the moment";

/// What is measured: a name, whose it is, and how to start it.
const SUBJECTS: [(&str, &str, Start); 6] = [
    (SLEEPER, "floor", |workers| Ok(Box::new(Floor::start(workers)))),
    ("a thread that spins to the moment", "floor", |workers| Ok(Box::new(Floor::start(workers)))),
    ("seriatim-per-device prioritized", "seriatim", |workers| {
        Ok(Box::new(Ours::start(Kind::PerDevice, workers, Property::CpuPrioritized)?))
    }),
    ("seriatim-per-device", "seriatim", |workers| {
        Ok(Box::new(Ours::start(Kind::PerDevice, workers, Property::Normal)?))
    }),
    ("seriatim-pooled", "seriatim", |workers| Ok(Box::new(Ours::start(Kind::Pooled, workers, Property::Normal)?))),
    ("baseline", "baseline", |workers| Ok(Box::new(Mutexed::start(workers)))),
];

/// The names of what can be measured.
pub fn names() -> impl Iterator<Item = &'static str> {
    SUBJECTS.iter().map(|(name, _, _)| *name)
}

/// What may run beside the job; none is one of them.
pub fn backgrounds() -> impl Iterator<Item = &'static str> {
    std::iter::once(ALONE).chain(LOADS.iter().map(|load| load.name))
}

/// Measures the subject of that name, alone or with each load that is named, and prints a record of
/// each.
///
/// # Errors
/// If there is none of that name, it cannot be started, or an operation of the job was lost.
pub fn run(name: &str, beside: &[&str], during: Duration) -> Result<(), String> {
    let found = SUBJECTS.iter().find(|(subject, _, _)| *subject == name);
    let (name, system, start) = found.ok_or_else(|| format!("no subject '{name}'"))?;
    let workers = cores().saturating_sub(1).max(1);
    for background in beside {
        let background = backgrounds().find(|known| known == background).ok_or("no such load")?;
        let load = LOADS.iter().find(|load| load.name == background);
        let subject = start(workers)?;
        let awake_before = if *name == SLEEPER { 0 } else { AWAKE_BEFORE };
        let (percentiles, latest) = measure(&*subject, load, during, awake_before)?;
        let who = Who {
            entrant: String::from(*name),
            system,
            style: Style::Dynamic,
            workers,
            threads: workers + 1,
            version: String::from(env!("CARGO_PKG_VERSION")),
        };
        let period_us = PERIOD.as_micros() as u64;
        record::print("jitter", &who, Jitter { background, period_us, percentiles, latest });
    }
    Ok(())
}

fn measure(
    subject: &dyn Subject,
    load: Option<&Load>,
    during: Duration,
    awake_before: u64,
) -> Result<(Percentiles, Vec<u64>), String> {
    let stop = AtomicBool::new(false);
    let late = std::thread::scope(|scope| {
        if let Some(load) = load {
            scope.spawn(|| keep_busy(subject, load, &stop));
        }
        let late = job(subject, during, awake_before);
        stop.store(true, Ordering::Relaxed);
        late
    });
    subject.finish();
    let mut late: Vec<u64> = late.iter().map(|late| late.load(Ordering::Relaxed)).collect();
    if late.contains(&0) {
        return Err(String::from("an operation of the job did not run"));
    }
    let mut histogram = histogram();
    late.iter().for_each(|late| histogram.saturating_record(*late));
    late.sort_unstable_by(|one, other| other.cmp(one));
    late.truncate(LATEST);
    Ok((Percentiles::from(&histogram), late))
}

/// Pushes the job's operations, each by a thread that sleeps until so many nanoseconds before its
/// moment, and returns where they write how late they were, once all are complete.
fn job(subject: &dyn Subject, during: Duration, awake_before: u64) -> Arc<[AtomicU64]> {
    let count = (during.as_micros() / PERIOD.as_micros()) as usize;
    let late: Arc<[AtomicU64]> = (0..count).map(|_| AtomicU64::new(0)).collect();
    let period = PERIOD.as_nanos() as u64;
    let start = now() + 20 * period;
    for place in 0..count {
        let moment = start + place as u64 * period;
        let spare = moment.saturating_sub(now() + awake_before);
        std::thread::sleep(Duration::from_nanos(spare));
        spin_until(moment);
        let late = Arc::clone(&late);
        subject.push_job(Box::new(move || {
            // Zero is for what has not run.
            late[place].store((now() - moment).max(1), Ordering::Relaxed);
        }));
    }
    late
}

/// Keeps operations in flight until told to stop.
fn keep_busy(subject: &dyn Subject, load: &Load, stop: &AtomicBool) {
    let in_flight = Arc::new(AtomicUsize::new(0));
    for place in 0.. {
        while in_flight.load(Ordering::Relaxed) >= load.in_flight {
            std::thread::sleep(Duration::from_micros(100));
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
        in_flight.fetch_add(1, Ordering::Relaxed);
        let in_flight = Arc::clone(&in_flight);
        let iterations = load.iterations;
        let body = move || {
            Kernel::Compute.run(iterations, &Scratch::new(Kernel::Compute));
            in_flight.fetch_sub(1, Ordering::Relaxed);
        };
        subject.push_load(Box::new(body), place % load.in_flight);
    }
}
