//! How long a program takes, from the first push to the end of the wait: one of nearly empty
//! operations, and one of operations that take a while.

use std::time::Duration;

use serde::Serialize;

use crate::entrants::{measure, measure_run, Entrant, Runner};
use crate::machine::processor_time;
use crate::metg::kernel::Kernel;
use crate::program::Program;
use crate::record::{self, Who};
use crate::workloads;

/// What an operation of a workload took.
#[derive(Serialize, Debug)]
pub struct Throughput {
    /// The workload's name.
    pub workload: &'static str,
    /// How many operations were pushed.
    pub operations: usize,
    /// Nanoseconds an operation.
    pub ns: f64,
    /// Nanoseconds of processor time an operation, of the whole process.
    pub cpu_ns: f64,
    /// The share of the bodies that ran on the thread which pushed them.
    pub pusher_share: f64,
}

/// What an operation of a workload took whose bodies compute for a while.
#[derive(Serialize, Debug)]
pub struct Length {
    /// How long a body was asked to be, in nanoseconds. A serial loop in the same sitting tells how
    /// long it was.
    pub body_ns: u32,
    /// As for empty bodies.
    #[serde(flatten)]
    pub measured: Throughput,
}

/// A program is made four times larger, up to its full size, while a run takes less than this: some
/// peers are quadratic.
const ENOUGH: Duration = Duration::from_millis(120);
/// The first run, of a program this much shorter, warms everything up.
const FIRST_PART: usize = 64;

/// The workloads whose bodies are made longer.
const LENGTHENED: &[&str] = &["independent", "random", "stencil"];

/// A measurement of bodies of several lengths.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    /// Of which kind its records are.
    pub kind: &'static str,
    /// The workloads whose bodies are so long.
    pub workloads: &'static [&'static str],
    /// How long the bodies are, in nanoseconds; 0 for nearly empty ones.
    pub bodies: &'static [u32],
    /// What the bodies of a run take in all, run one after another.
    pub in_all: Duration,
}

const SHORT: Duration = Duration::from_millis(50);
/// Many of the turns in which a system lets threads run that want the same core.
const MANY_TURNS: Duration = Duration::from_millis(500);

/// By default settings.
pub const LENGTHS: Grid =
    Grid { kind: "length", workloads: LENGTHENED, bodies: &[100, 250, 1_000, 10_000, 100_000], in_all: SHORT };
/// With more threads than cores.
pub const OVERSUBSCRIBED: Grid =
    Grid { kind: "oversubscribed", workloads: LENGTHENED, bodies: &[0, 1_000], in_all: SHORT };
/// By default settings, beside a process that keeps a core busy.
pub const BESIDE_BUSY: Grid =
    Grid { kind: "beside-busy", workloads: &["stencil"], bodies: &[10_000], in_all: MANY_TURNS };
/// On four cores.
pub const FOUR_CORES: Grid = Grid {
    kind: "four-cores",
    workloads: LENGTHENED,
    bodies: &[0, 250, 500, 1_000, 2_000, 5_000, 20_000],
    in_all: SHORT,
};

/// The most bodies of a run with longer bodies.
const MOST_LENGTHENED: usize = 100_000;

/// Runs the named workloads once each, after shorter runs, and prints a record of each.
///
/// # Errors
/// If the entrant cannot be started, or computes a wrong result.
pub fn run(entrant: &Entrant, names: &[&'static str], operations: usize) -> Result<(), String> {
    let mut runner = entrant.start()?;
    let who = Who::new(entrant, runner.version());
    for name in names {
        match one(&mut *runner, name, operations, 0) {
            Ok(measured) => record::print("throughput", &who, measured?),
            Err(Unable(why)) => eprintln!("{}: {name} left out: {why}", entrant.name),
        }
    }
    Ok(())
}

/// Runs the workloads of a grid with each length of a body, and prints a record of each.
/// `per_us` is how many iterations of the compute kernel take a microsecond.
///
/// # Errors
/// As [`run`].
pub fn lengths(entrant: &Entrant, grid: Grid, per_us: u32) -> Result<(), String> {
    let mut runner = entrant.start()?;
    let who = Who::new(entrant, runner.version());
    for name in grid.workloads {
        for body_ns in grid.bodies.iter().copied() {
            let iterations = (u64::from(per_us) * u64::from(body_ns)).div_ceil(1000) as u32;
            let in_time = (grid.in_all.as_nanos() as usize).checked_div(body_ns as usize);
            let operations = in_time.map_or(MOST_LENGTHENED, |count| count.min(MOST_LENGTHENED));
            match one(&mut *runner, name, operations, iterations) {
                Ok(measured) => record::print(grid.kind, &who, Length { body_ns, measured: measured? }),
                Err(Unable(why)) => eprintln!("{}: {name} left out: {why}", entrant.name),
            }
        }
    }
    Ok(())
}

/// How many iterations of the compute kernel take a microsecond on one core: the median of several
/// measurements.
pub fn iterations_per_us() -> u32 {
    let during = Duration::from_millis(20);
    let mut rates: Vec<f64> = (0..5).map(|_| Kernel::Compute.peak(1, during)).collect();
    rates.sort_by(f64::total_cmp);
    let an_iteration = Kernel::Compute.work(1) - Kernel::Compute.work(0);
    (rates[rates.len() / 2] / an_iteration as f64 / 1e6) as u32
}

/// Why a runner does not take part.
struct Unable(String);

fn one(
    runner: &mut dyn Runner,
    name: &'static str,
    most: usize,
    iterations: u32,
) -> Result<Result<Throughput, String>, Unable> {
    let mut part = most / FIRST_PART;
    loop {
        let program = workloads::lengthened(name, part, iterations);
        let program = program.ok_or_else(|| Unable(String::from("no such workload")))?;
        runner.prepare(program).map_err(Unable)?;
        let took = match measure(runner, program) {
            Ok(took) => took,
            Err(wrong) => return Ok(Err(wrong)),
        };
        if part < most && took < ENOUGH {
            part = most.min(4 * part);
            continue;
        }
        // That was the first run of this program, which touches pages; the second counts.
        return Ok(timed(runner, program, most));
    }
}

/// Runs a program until there have been about `most` operations, or for long enough.
fn timed(runner: &mut dyn Runner, program: &Program, most: usize) -> Result<Throughput, String> {
    let before = processor_time();
    let length = program.sequence().len();
    let (mut elapsed, mut operations, mut by_pusher) = (Duration::ZERO, 0, 0);
    while operations == 0 || operations + length <= most && elapsed < ENOUGH {
        let run = measure_run(runner, program)?;
        elapsed += run.elapsed;
        by_pusher += run.by_pusher;
        operations += length;
    }
    // This includes resetting and checking the cells, a few millionths of a second in all.
    let processor = processor_time() - before;
    let each = |time: Duration| time.as_nanos() as f64 / operations as f64;
    let pusher_share = by_pusher as f64 / operations as f64;
    Ok(Throughput { workload: program.name(), operations, ns: each(elapsed), cpu_ns: each(processor), pusher_share })
}
