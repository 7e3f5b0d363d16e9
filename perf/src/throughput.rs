//! How long a program of nearly empty operations takes, from the first push to the end of the wait.

use std::time::Duration;

use serde::Serialize;

use crate::entrants::{measure, Entrant, Runner};
use crate::machine::processor_time;
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
}

/// A program is made four times larger, up to its full size, while a run takes less than this: some peers are quadratic.
const ENOUGH: Duration = Duration::from_millis(250);
/// The first run, of a program this much shorter, warms everything up.
const FIRST_PART: usize = 16;

/// Runs the named workloads once each, after shorter runs, and prints a record of each.
///
/// # Errors
/// If the entrant cannot be started, or computes a wrong result.
pub fn run(entrant: &Entrant, names: &[&'static str], operations: usize) -> Result<(), String> {
    let mut runner = entrant.start()?;
    let who = Who::new(entrant, runner.version());
    for name in names {
        match one(&mut *runner, name, operations) {
            Ok(measured) => record::print("throughput", &who, measured?),
            Err(Unable(why)) => eprintln!("{}: {name} left out: {why}", entrant.name),
        }
    }
    Ok(())
}

/// Why a runner does not take part.
struct Unable(String);

fn one(runner: &mut dyn Runner, name: &'static str, most: usize) -> Result<Result<Throughput, String>, Unable> {
    let mut part = most / FIRST_PART;
    loop {
        let program = workloads::named(name, part).ok_or_else(|| Unable(String::from("no such workload")))?;
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
    let (mut elapsed, mut operations) = (Duration::ZERO, 0);
    while operations == 0 || operations + length <= most && elapsed < ENOUGH {
        elapsed += measure(runner, program)?;
        operations += length;
    }
    // This includes resetting and checking the cells, a few millionths of a second in all.
    let processor = processor_time() - before;
    let each = |time: Duration| time.as_nanos() as f64 / operations as f64;
    Ok(Throughput { workload: program.name(), operations, ns: each(elapsed), cpu_ns: each(processor) })
}
