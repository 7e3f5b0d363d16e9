//! Everything in one sitting: for each repetition, every entrant in turn does every measurement, each in a process of its
//! own, so that a slow minute of the machine hits all of them and no engine's threads disturb another's figure.
//!
//! A process during which others used more than a tenth of a core is run again.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{channel, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use serde_json::Value;

use crate::entrants::{all, Entrant, Style};
use crate::latency::jitter;
use crate::machine::{cache_line_hop, cores, Quiet};
use crate::versions::Machine;
use crate::workloads::OPERATIONS;

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
pub const MEASUREMENTS: [&str; 6] = ["throughput", "metg", "round-trip", "open-loop", "jitter", "counts"];

/// How often a disturbed process is run again before its figures are taken as they are.
const RETRIES: usize = 3;
/// A process that takes longer has failed.
const LONGEST: Duration = Duration::from_secs(300);

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
    machine: Machine,
    skipped: Vec<Skipped>,
    records: Vec<Value>,
}

#[derive(Serialize)]
struct Skipped {
    entrant: String,
    why: String,
}

/// One process to run in each repetition.
struct Job {
    entrant: String,
    arguments: Vec<String>,
    preload: Option<PathBuf>,
    often: Often,
}

/// In which repetitions a job is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Often {
    Always,
    /// In every second: sweeps take longest.
    EverySecond,
    /// In the first: counts are the same every time.
    Once,
}

/// Runs the plan and writes the results.
///
/// # Errors
/// If a result was wrong, a process failed, or the results cannot be written.
pub fn run(plan: &Plan) -> Result<(), String> {
    let (begun, clock) = (SystemTime::now(), Instant::now());
    let mut results = Results {
        format: 1,
        started: date(begun),
        seconds: 0,
        quick: plan.quick,
        repetitions: plan.repetitions,
        discarded: 0,
        kept_disturbed: 0,
        machine: Machine::here(),
        skipped: Vec::new(),
        records: Vec::new(),
    };
    let jobs = jobs(plan, &mut results.skipped);
    let mut failures = Vec::new();
    for repetition in 0..plan.repetitions {
        for (number, job) in jobs.iter().enumerate() {
            let now = match job.often {
                Often::Always => true,
                Often::EverySecond => repetition % 2 == 0,
                Often::Once => repetition == 0,
            };
            if !now {
                continue;
            }
            let (at, of, seconds) = (number + 1, jobs.len(), clock.elapsed().as_secs());
            eprintln!("[{seconds:>5} s] {}/{} {at}/{of} {}", repetition + 1, plan.repetitions, job.arguments.join(" "));
            if let Err(why) = perform(job, repetition, &mut results) {
                eprintln!("FAILED: {}: {why}", job.entrant);
                failures.push(format!("{}: {why}", job.entrant));
            }
        }
        // After each repetition, so that a sitting that is broken off is not lost.
        results.seconds = clock.elapsed().as_secs();
        write(&plan.output, &results)?;
    }
    match failures.first() {
        None => Ok(()),
        Some(first) => Err(format!("{} processes failed; the first: {first}", failures.len())),
    }
}

/// Everything that a repetition runs; entrants that are not to be had are noted.
fn jobs(plan: &Plan, skipped: &mut Vec<Skipped>) -> Vec<Job> {
    let wanted = |name: &str, list: &[String]| list.is_empty() || list.iter().any(|item| item == name);
    let mut entrants = all(&worker_counts());
    entrants.retain(|entrant| wanted(entrant.system, &plan.systems));
    entrants.retain(|entrant| match entrant.check() {
        Ok(()) => true,
        Err(why) => {
            skipped.push(Skipped { entrant: entrant.name.clone(), why });
            false
        }
    });
    let mut jobs = Vec::new();
    for measurement in MEASUREMENTS.iter().filter(|measurement| wanted(measurement, &plan.measurements)) {
        if *measurement == "jitter" && wanted("seriatim", &plan.systems) {
            jobs.extend(jitter::names().map(|name| job("jitter", name, plan)));
            continue;
        }
        let takes_part = entrants.iter().filter(|entrant| takes_part(entrant, measurement));
        for entrant in takes_part {
            let mut job = job(measurement, &entrant.name, plan);
            if *measurement == "counts" {
                let preload = crate::entrants::foreign_directory().join("counts.so");
                if !preload.exists() {
                    let why = String::from("counts.so is not built: run scripts/peers.sh");
                    skipped.push(Skipped { entrant: entrant.name.clone(), why });
                    continue;
                }
                job.preload = Some(preload);
            }
            jobs.push(job);
            if *measurement == "metg" {
                jobs.extend(more_granularity(entrant, plan));
            }
        }
    }
    jobs
}

/// 1, 2, 4 and so on, all cores but one, and all.
fn worker_counts() -> Vec<usize> {
    let cores = cores();
    let mut counts: Vec<usize> = (0..).map(|power| 1 << power).take_while(|count| *count < cores).collect();
    counts.extend([cores.saturating_sub(1).max(1), cores]);
    counts.sort_unstable();
    counts.dedup();
    counts
}

fn takes_part(entrant: &Entrant, measurement: &str) -> bool {
    let cores = cores();
    // With so many workers, an engine and the pushing thread use all cores.
    let (all_but_one, dynamic) = (cores.saturating_sub(1).max(1), entrant.style == Style::Dynamic);
    match measurement {
        "metg" => match (entrant.system, entrant.mode) {
            ("rayon" | "tokio" | "shred", _) => false,
            ("seriatim", "naive") => dynamic,
            ("seriatim", "per-device" | "inline") => entrant.style != Style::Batches && entrant.workers >= all_but_one,
            ("baseline" | "mxnet", _) => dynamic && entrant.workers == cores,
            _ => entrant.workers == cores,
        },
        _ if entrant.system == "by-hand" => false,
        "round-trip" => dynamic,
        "open-loop" => {
            let workers = if entrant.counts_caller() { cores } else { all_but_one };
            dynamic && entrant.workers == workers && !matches!(entrant.system, "rayon" | "tokio")
        }
        _ => true,
    }
}

fn job(measurement: &str, entrant: &str, plan: &Plan) -> Job {
    let mut arguments: Vec<String> = ["measure", measurement, "--entrant", entrant].map(String::from).into();
    let mut add = |option: &str, full: usize, quick: usize| {
        let value = if plan.quick { quick } else { full };
        arguments.extend([String::from(option), value.to_string()]);
    };
    match measurement {
        "throughput" => add("--operations", OPERATIONS, OPERATIONS / 4),
        "counts" => add("--operations", OPERATIONS / 10, OPERATIONS / 10),
        "metg" => add("--steps", 1000, 250),
        "round-trip" => add("--trips", 5_000, 2_000),
        "open-loop" => add("--milliseconds", 150, 50),
        "jitter" => add("--milliseconds", 1_000, 300),
        _ => {}
    }
    let often = match measurement {
        "counts" => Often::Once,
        "metg" => Often::EverySecond,
        _ => Often::Always,
    };
    Job { entrant: String::from(entrant), arguments, preload: None, often }
}

/// The narrow graphs, and the kernel that is bound by memory.
fn more_granularity(entrant: &Entrant, plan: &Plan) -> Vec<Job> {
    let with = |more: &[&str]| {
        let mut job = job("metg", &entrant.name, plan);
        job.arguments.extend(more.iter().copied().map(String::from));
        job
    };
    let width = cores().to_string();
    vec![
        with(&[
            "--width",
            &width,
            "--pattern",
            "stencil_1d",
            "--pattern",
            "nearest",
            "--pattern",
            "fft",
            "--pattern",
            "tree",
        ]),
        with(&["--kernel", "memory", "--pattern", "stencil_1d"]),
    ]
}

/// Runs a job, again while others disturb it, and keeps its records.
fn perform(job: &Job, repetition: usize, results: &mut Results) -> Result<(), String> {
    for attempt in 0..=RETRIES {
        let hop = cache_line_hop();
        let quiet = Quiet::begin();
        let lines = child(job)?;
        // Counts do not depend on what else the machine does.
        let disturbed = quiet.disturbed() && job.often != Often::Once;
        if disturbed && attempt < RETRIES {
            results.discarded += 1;
            continue;
        }
        results.kept_disturbed += usize::from(disturbed);
        for line in lines.lines() {
            let mut record: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
            record["repetition"] = repetition.into();
            record["hop_ns"] = (hop.as_nanos() as f64).into();
            record["disturbed"] = disturbed.into();
            results.records.push(record);
        }
        break;
    }
    Ok(())
}

/// What the process writes.
fn child(job: &Job) -> Result<String, String> {
    let myself = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(myself);
    command.args(&job.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(preload) = &job.preload {
        command.env("LD_PRELOAD", preload);
    }
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    // Both are read by threads, so that neither pipe fills up while the other is waited for. A pipe ends with the process.
    let (done, finished) = channel();
    let output = reader(child.stdout.take().expect("a pipe"), done.clone());
    let errors = reader(child.stderr.take().expect("a pipe"), done);
    let in_time = (0..2).all(|_| finished.recv_timeout(LONGEST).is_ok());
    if !in_time {
        child.kill().map_err(|error| error.to_string())?;
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if !in_time {
        return Err(format!("it took more than {LONGEST:?}: {}", job.arguments.join(" ")));
    }
    let (output, errors) = (output.join().unwrap_or_default(), errors.join().unwrap_or_default());
    if status.success() {
        Ok(output)
    } else {
        let last = errors.lines().last().unwrap_or("it said nothing");
        Err(format!("{status}: {last}: {}", job.arguments.join(" ")))
    }
}

/// Reads all there is, says so, and gives it to whoever joins.
fn reader(mut from: impl Read + Send + 'static, done: Sender<()>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error is worth having.
        let _ = from.read_to_end(&mut bytes);
        let _ = done.send(());
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn write(path: &Path, results: &Results) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let text = serde_json::to_string(results).map_err(|error| error.to_string())?;
    std::fs::write(path, text).map_err(failed)
}

/// As ISO 8601 has it, in universal time, to the second.
fn date(moment: SystemTime) -> String {
    let seconds = moment.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = ((seconds / 86_400) as i64, seconds % 86_400);
    // H. Hinnant, "chrono-Compatible Low-Level Date Algorithms": days since 1970 to a date of the Gregorian calendar.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds| date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_795_262_399), "2026-11-21T11:59:59Z");
    }
}
