//! Everything in one sitting: for each repetition, every entrant in turn does every measurement,
//! each in a process of its own, so that a slow minute of the machine hits all of them and no
//! engine's threads disturb another's figure.
//!
//! A process during which others used more than a tenth of a core is run again; so is one during
//! which the two cores went from near to far or back, as a hypervisor may move them. What is
//! measured, of whom, is chosen so that nine repetitions take about 35 minutes on two cores
//! (`taking_part.rs`); what that leaves out is written into the results.

mod date;
mod jobs;
mod process;
mod taking_part;

use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use serde::Serialize;
use serde_json::Value;

use crate::machine::{cores, pairs, several, use_only};
use crate::throughput::iterations_per_us;
use crate::versions::Machine;
use date::date;
use jobs::{jobs, Often};
use process::perform;
use taking_part::FOUR;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the results go.
    pub output: PathBuf,
    /// How often everything is run.
    pub repetitions: usize,
    /// A fraction of the operations and of the time.
    pub quick: bool,
    /// Only these measurements, if any are named.
    pub measurements: Vec<String>,
    /// Only these systems, if any are named.
    pub systems: Vec<String>,
}

/// What can be measured, in the order of a repetition.
pub const MEASUREMENTS: [&str; 13] = [
    "throughput",
    "lengths",
    "oversubscribed",
    "beside-busy",
    "four-cores",
    "metg",
    "replays",
    "round-trip",
    "wakes",
    "open-loop",
    "jitter",
    "pushers",
    "counts",
];

/// The file of results.
#[derive(Serialize)]
struct Results {
    format: u32,
    started: String,
    seconds: u64,
    quick: bool,
    repetitions: usize,
    discarded: usize,
    kept_disturbed: usize,
    /// Processes that were run again because the cores were moved during them.
    moved: usize,
    machine: Machine,
    /// The pairs of cores that were used in turn; none where the machine has no choice.
    pairs: Vec<[usize; 2]>,
    /// Iterations of the compute kernel in a microsecond, from which the bodies of a given length
    /// are made.
    iterations_per_us: u32,
    skipped: Vec<Skipped>,
    /// What could have been measured, and was not, for want of time.
    left_out: Vec<Skipped>,
    records: Vec<Value>,
}

#[derive(Serialize)]
struct Skipped {
    entrant: String,
    why: String,
}

/// Runs the plan and writes the results.
///
/// # Errors
/// If a result was wrong, a process failed, or the results cannot be written.
pub fn run(plan: &Plan) -> Result<(), String> {
    let (begun, clock) = (SystemTime::now(), Instant::now());
    let mut results = Results {
        format: 2,
        started: date(begun),
        seconds: 0,
        quick: plan.quick,
        repetitions: plan.repetitions,
        discarded: 0,
        kept_disturbed: 0,
        moved: 0,
        machine: Machine::here(),
        pairs: Vec::new(),
        iterations_per_us: iterations_per_us(),
        skipped: Vec::new(),
        left_out: Vec::new(),
        records: Vec::new(),
    };
    let (pairs, four) = (pairs(), several(FOUR).ok_or_else(cores));
    results.pairs = pairs.iter().copied().flatten().collect();
    let pairs: Vec<Option<Vec<usize>>> = pairs.into_iter().map(|pair| pair.map(Vec::from)).collect();
    // Before the entrants are named: how many threads some have follows from the cores.
    take(pairs[0].as_deref())?;
    let jobs = jobs(plan, four, &mut results);
    for (what, list) in [("left out", &results.left_out), ("not had here", &results.skipped)] {
        list.iter().for_each(|Skipped { entrant, why }| eprintln!("{what}: {entrant}: {why}"));
    }
    let mut failures = Vec::new();
    for repetition in 0..plan.repetitions {
        for (number, job) in jobs.iter().enumerate() {
            let now = match job.often {
                Often::Always => true,
                Often::Once => repetition == 0,
            };
            if !now {
                continue;
            }
            let elsewhere = job.cores.clone().map(|cores| vec![Some(cores)]);
            for place in elsewhere.as_ref().unwrap_or(&pairs) {
                take(place.as_deref())?;
                let (at, of, seconds) = (number + 1, jobs.len(), clock.elapsed().as_secs());
                let on = place.as_ref().map_or(String::new(), |cores| format!(" on {cores:?}"));
                let what = job.arguments.join(" ");
                eprintln!("[{seconds:>5} s] {}/{} {at}/{of}{on} {what}", repetition + 1, plan.repetitions);
                if let Err(why) = perform(job, repetition, plan, &mut results) {
                    eprintln!("FAILED: {}: {why}", job.entrant);
                    failures.push(format!("{}: {why}", job.entrant));
                }
            }
        }
        // After each repetition, so that a sitting that is broken off is not lost.
        results.seconds = clock.elapsed().as_secs();
        write(&plan.output, &results)?;
        if repetition == 0 {
            let minutes = (clock.elapsed().as_secs() * plan.repetitions as u64).div_ceil(60);
            eprintln!("one of {} repetitions is done: all will take about {minutes} minutes", plan.repetitions);
        }
    }
    match failures.first() {
        None => Ok(()),
        Some(first) => Err(format!("{} processes failed; the first: {first}", failures.len())),
    }
}

/// Keeps this process, and what it starts, on these cores.
fn take(cores: Option<&[usize]>) -> Result<(), String> {
    cores.map_or(Ok(()), use_only)
}

fn write(path: &Path, results: &Results) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let text = serde_json::to_string(results).map_err(|error| error.to_string())?;
    std::fs::write(path, text).map_err(failed)
}
