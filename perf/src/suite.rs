//! Everything in one sitting: for each repetition, every entrant in turn does every measurement,
//! each in a process of its own, so that a slow minute of the machine hits all of them and no
//! engine's threads disturb another's figure.
//!
//! A process during which others used more than a tenth of a core is run again; so is one during
//! which the two cores went from near to far or back, as a hypervisor may move them. What is
//! measured, of whom, is chosen so that nine repetitions take about 25 minutes on two cores
//! (`takes_part`); what that leaves out is written into the results.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{channel, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use serde_json::Value;

use crate::entrants::{all, default_workers, Entrant, Style};
use crate::latency::jitter;
use crate::machine::{cache_line_hop, cores, pairs, several, use_only, Quiet, NEAR_BELOW};
use crate::pushers;
use crate::throughput::iterations_per_us;
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
pub const MEASUREMENTS: [&str; 10] = [
    "throughput",
    "lengths",
    "oversubscribed",
    "four-cores",
    "metg",
    "round-trip",
    "open-loop",
    "jitter",
    "pushers",
    "counts",
];

/// Threads in all, on two cores, where there are more threads than cores.
const OVERSUBSCRIBED: usize = 8;
/// Threads in all, and cores, of what wants more than two: the pushing thread and three workers.
const FOUR: usize = 4;

/// What throughput the suite measures, and of what graphs the granularity.
const WORKLOADS: [&str; 7] = ["independent", "shared-read", "chain", "fan", "random", "stencil", "brief"];
const PATTERNS: [&str; 5] = ["stencil_1d", "nearest", "spread", "fft", "tree"];

/// What of the measurements themselves is left out.
const LEFT_OUT: [(&str, &str); 3] = [
    ("throughput", "unrelated, a workload without dependencies"),
    ("metg", "trivial, no_comm, dom, random_nearest, all_to_all; widths other than 16; kernels other than compute"),
    ("jitter", "seriatim-pooled"),
];

/// How often a disturbed process is run again before its figures are taken as they are.
const RETRIES: usize = 3;
/// How often one whose cores were moved is. Where a host moves them all the time, more would be in
/// vain.
const RETRIES_MOVED: usize = 1;
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

/// One process to run in each repetition.
struct Job {
    entrant: String,
    arguments: Vec<String>,
    preload: Option<PathBuf>,
    often: Often,
    /// The cores that it runs on, if those are not a pair.
    cores: Option<Vec<usize>>,
}

/// In which repetitions a job is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Often {
    Always,
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

/// Everything that a repetition runs; entrants that are not to be had, or are left out, are noted.
/// `four` is four cores, or how many there are.
fn jobs(plan: &Plan, four: Result<Vec<usize>, usize>, results: &mut Results) -> Vec<Job> {
    let wanted = |name: &str, list: &[String]| list.is_empty() || list.iter().any(|item| item == name);
    let mut entrants = all(&worker_counts());
    entrants.retain(|entrant| wanted(entrant.system, &plan.systems));
    entrants.retain(|entrant| match entrant.check() {
        Ok(()) => true,
        Err(why) => {
            results.skipped.push(Skipped { entrant: entrant.name.clone(), why });
            false
        }
    });
    let mut jobs = Vec::new();
    results
        .left_out
        .extend(LEFT_OUT.map(|(what, why)| Skipped { entrant: String::from(what), why: String::from(why) }));
    for measurement in MEASUREMENTS.iter().filter(|measurement| wanted(measurement, &plan.measurements)) {
        if *measurement == "jitter" {
            let names = jitter::names().filter(|name| wanted("seriatim", &plan.systems) && *name != "seriatim-pooled");
            // A process for each load: what is disturbed is run again, and takes its time.
            for (name, background) in names.flat_map(|name| jitter::backgrounds().map(move |load| (name, load))) {
                let mut job = job("jitter", name, plan, results);
                job.arguments.extend([String::from("--background"), String::from(background)]);
                jobs.push(job);
            }
            continue;
        }
        if *measurement == "four-cores" {
            match &four {
                Ok(cores) => jobs.extend(on_four(&entrants).map(|entrant| {
                    let job = job(measurement, &entrant.name, plan, results);
                    Job { cores: Some(cores.clone()), ..job }
                })),
                Err(count) => {
                    let why = format!("it needs {FOUR} cores, and this machine has {count}");
                    results.skipped.push(Skipped { entrant: String::from(*measurement), why });
                }
            }
            continue;
        }
        let (taking_part, others): (Vec<_>, Vec<_>) = entrants
            .iter()
            .filter(|entrant| counts(entrant, measurement))
            .partition(|entrant| takes_part(entrant, measurement));
        if !others.is_empty() {
            let names: Vec<&str> = others.iter().map(|entrant| entrant.name.as_str()).collect();
            results.left_out.push(Skipped { entrant: String::from(*measurement), why: names.join(", ") });
        }
        for entrant in taking_part {
            let mut job = job(measurement, &entrant.name, plan, results);
            if *measurement == "counts" {
                let preload = crate::entrants::foreign_directory().join("counts.so");
                if !preload.exists() {
                    let why = String::from("counts.so is not built: run scripts/peers.sh");
                    results.skipped.push(Skipped { entrant: entrant.name.clone(), why });
                    continue;
                }
                job.preload = Some(preload);
            }
            jobs.push(job);
        }
    }
    jobs
}

/// One worker, as many as `Engine::new()` has, and as many as more threads or cores need.
fn worker_counts() -> Vec<usize> {
    let mut counts = vec![1, default_workers(), FOUR - 1, OVERSUBSCRIBED - 1];
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// Whether it has as many threads as a measurement compares: one, or as many as `Engine::new()` has
/// with the one that pushes; or more than there are cores.
fn counts(entrant: &Entrant, measurement: &str) -> bool {
    match measurement {
        "oversubscribed" => entrant.threads == OVERSUBSCRIBED || entrant.system == "serial",
        _ => [1, 1 + default_workers()].contains(&entrant.threads),
    }
}

/// Who is measured on four cores. On them `Engine::new()` has three workers.
fn on_four(entrants: &[Entrant]) -> impl Iterator<Item = &Entrant> {
    entrants.iter().filter(|entrant| {
        let rival = matches!(
            (entrant.system, entrant.mode),
            ("libgomp" | "libomp" | "mxnet", _) | ("onetbb" | "taskflow", "dynamic")
        );
        entrant.style == Style::Dynamic
            && match entrant.system {
                "serial" => true,
                "seriatim" => matches!(entrant.mode, "default" | "declared"),
                _ => rival && entrant.threads == FOUR,
            }
    })
}

/// Who is measured how: the entrants of the tables, which compare as many threads on either side.
fn takes_part(entrant: &Entrant, measurement: &str) -> bool {
    let dynamic = entrant.style == Style::Dynamic;
    let together = entrant.threads == 1 + default_workers();
    let ours = entrant.system == "seriatim";
    let shown = match (entrant.system, entrant.mode) {
        // Threads that never sleep are for single operations.
        ("seriatim", "spinning") => matches!(measurement, "round-trip" | "open-loop"),
        ("seriatim", mode) => {
            matches!(mode, "naive" | "default" | "declared" | "shipped") || mode == "inline" && dynamic
        }
        ("baseline", _) => dynamic,
        // They order nothing, take no single pushes, or are no engine.
        ("rayon" | "tokio" | "shred" | "by-hand", _) => false,
        // Operators, and all of C, are for one table, of throughput.
        ("mxnet", _) => dynamic || measurement == "throughput",
        ("seriatim-c", _) => measurement == "throughput",
        _ => true,
    };
    if !counts(entrant, measurement) {
        return false;
    }
    match measurement {
        "throughput" => shown,
        "lengths" => {
            let serial = entrant.system == "serial";
            dynamic
                && (serial || matches!(entrant.mode, "default" | "declared") || !ours && together)
                && shown
                && !matches!((entrant.system, entrant.mode), ("starpu" | "baseline", _) | (_, "shipped"))
        }
        // StarPU, asked for seven workers on two cores, starts fewer.
        "oversubscribed" => {
            dynamic
                && matches!(
                    (entrant.system, entrant.mode),
                    ("seriatim", "per-device")
                        | ("serial" | "libgomp" | "libomp", _)
                        | ("onetbb" | "taskflow", "dynamic")
                )
        }
        "metg" => match (entrant.system, entrant.mode) {
            ("by-hand", _) => together,
            ("seriatim", "default") => entrant.style != Style::Operators,
            ("seriatim", "shipped") | ("libomp" | "mxnet", _) => dynamic && together,
            ("taskflow", _) | ("onetbb", "dynamic" | "flow") => together,
            _ => false,
        },
        "round-trip" => shown && dynamic && (together || entrant.mode == "naive"),
        "open-loop" => {
            let ours_or_floor = ours
                && matches!(entrant.mode, "naive" | "default" | "declared" | "shipped" | "spinning")
                || entrant.system == "serial";
            let rival =
                !ours && together && !matches!((entrant.system, entrant.mode), ("onetbb", "shipped") | ("baseline", _));
            shown && dynamic && (ours_or_floor || rival)
        }
        "pushers" => match (entrant.system, entrant.mode) {
            ("seriatim", "naive" | "default" | "shipped") | ("baseline", _) => dynamic,
            ("mxnet", _) => dynamic && together,
            _ => false,
        },
        // A count is the same with any number of threads.
        "counts" => {
            shown && (ours && !matches!(entrant.mode, "inline" | "declared") || together) && entrant.system != "serial"
        }
        _ => false,
    }
}

fn job(measurement: &str, entrant: &str, plan: &Plan, results: &Results) -> Job {
    let mut arguments: Vec<String> = ["measure", measurement, "--entrant", entrant].map(String::from).into();
    let mut add = |option: &str, full: usize, quick: usize| {
        let value = if plan.quick { quick } else { full };
        arguments.extend([String::from(option), value.to_string()]);
    };
    match measurement {
        "throughput" => add("--operations", OPERATIONS, OPERATIONS / 8),
        "lengths" | "oversubscribed" | "four-cores" => {
            add("--per-us", results.iterations_per_us as usize, results.iterations_per_us as usize)
        }
        "counts" => add("--operations", OPERATIONS / 10, OPERATIONS / 10),
        "metg" => add("--steps", 1000, 100),
        "round-trip" => add("--trips", 5_000, 1_000),
        "open-loop" => add("--milliseconds", 250, 50),
        // Of a job of 1 kHz two values lie beyond p99.9.
        "jitter" => add("--milliseconds", 2_000, 100),
        "pushers" => add("--operations", pushers::OPERATIONS, pushers::OPERATIONS / 8),
        _ => {}
    }
    let mut only = |option: &str, names: &[&str]| {
        arguments.extend(names.iter().flat_map(|name| [String::from(option), String::from(*name)]));
    };
    match measurement {
        "throughput" | "counts" => only("--workload", &WORKLOADS),
        "metg" => only("--pattern", &PATTERNS),
        _ => {}
    }
    let often = if measurement == "counts" { Often::Once } else { Often::Always };
    Job { entrant: String::from(entrant), arguments, preload: None, often, cores: None }
}

/// Runs a job, again while others disturb it, and keeps its records.
fn perform(job: &Job, repetition: usize, plan: &Plan, results: &mut Results) -> Result<(), String> {
    // A quick sitting is for seeing that everything works.
    let (disturbed_again, moved_again) = if plan.quick { (0, 0) } else { (RETRIES, RETRIES_MOVED) };
    for attempt in 0..=RETRIES {
        let before = cache_line_hop();
        let quiet = Quiet::begin();
        let lines = child(job)?;
        // Counts do not depend on what else the machine does.
        let disturbed = quiet.disturbed() && job.often != Often::Once;
        let after = cache_line_hop();
        let moved = (before < NEAR_BELOW) != (after < NEAR_BELOW) && job.often != Often::Once;
        if disturbed && attempt < disturbed_again {
            results.discarded += 1;
            continue;
        }
        if moved && attempt < moved_again {
            results.moved += 1;
            continue;
        }
        results.kept_disturbed += usize::from(disturbed);
        for line in lines.lines() {
            let mut record: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
            record["repetition"] = repetition.into();
            record["hop_ns"] = (before.as_nanos() as f64).into();
            record["hop_after_ns"] = (after.as_nanos() as f64).into();
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
    // Both are read by threads, so that neither pipe fills up while the other is waited for. A pipe
    // ends with the process.
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

/// Reads all there is, says so, and gives it to the thread that joins.
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
    // H. Hinnant, "chrono-Compatible Low-Level Date Algorithms": days since 1970 to a date of the
    // Gregorian calendar.
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

    fn plan(measurements: &[&str]) -> Plan {
        let measurements = measurements.iter().map(|name| String::from(*name)).collect();
        Plan { output: PathBuf::new(), repetitions: 1, quick: false, measurements, systems: Vec::new() }
    }

    fn results() -> Results {
        Results {
            format: 2,
            started: String::new(),
            seconds: 0,
            quick: false,
            repetitions: 1,
            discarded: 0,
            kept_disturbed: 0,
            moved: 0,
            machine: Machine::here(),
            pairs: Vec::new(),
            iterations_per_us: 500,
            skipped: Vec::new(),
            left_out: Vec::new(),
            records: Vec::new(),
        }
    }

    #[test]
    fn a_machine_with_four_cores_has_them_used_and_one_with_fewer_says_so() {
        let mut found = results();
        let on_them = jobs(&plan(&["four-cores"]), Ok(vec![0, 1, 2, 3]), &mut found);
        assert!(on_them.iter().all(|job| job.cores.as_deref() == Some(&[0, 1, 2, 3])));
        let ours = |jobs: &[Job]| jobs.iter().any(|job| job.entrant == "seriatim-default");
        assert!(ours(&on_them));
        assert!(found.skipped.iter().all(|skipped| skipped.entrant != "four-cores"));
        let without = jobs(&plan(&["four-cores"]), Err(2), &mut found);
        assert!(without.is_empty());
        let said = found.skipped.iter().find(|skipped| skipped.entrant == "four-cores").expect("a line");
        assert_eq!(said.why, "it needs 4 cores, and this machine has 2");
    }

    #[test]
    fn each_load_beside_the_periodic_job_has_a_process() {
        let jobs = jobs(&plan(&["jitter"]), Err(2), &mut results());
        let of = |name: &str| jobs.iter().filter(|job| job.entrant == name).map(|job| job.arguments.last()).collect();
        let loads: Vec<_> = of("seriatim-per-device");
        assert_eq!(
            loads.iter().flatten().map(|load| load.as_str()).collect::<Vec<_>>(),
            jitter::backgrounds().collect::<Vec<_>>()
        );
        assert_eq!(loads, of("baseline") as Vec<_>);
    }

    /// A table compares as many threads on either side, so nobody else is measured.
    #[test]
    fn nobody_has_more_threads_than_ours() {
        let entrants = all(&[1, 2, 3, 7]);
        for measurement in MEASUREMENTS {
            let most = match measurement {
                "oversubscribed" => OVERSUBSCRIBED,
                "four-cores" => FOUR,
                _ => 1 + default_workers(),
            };
            let taking_part: Vec<_> = match measurement {
                "four-cores" => on_four(&entrants).collect(),
                _ => entrants.iter().filter(|entrant| takes_part(entrant, measurement)).collect(),
            };
            for entrant in &taking_part {
                // `Engine::new()` has its number of threads from the cores that it is on.
                let threads = [1, most].contains(&entrant.threads) || most == FOUR && entrant.system == "seriatim";
                assert!(threads, "{measurement}: {}", entrant.name);
            }
            // Ours is in each of them (the periodic job has names of its own), and so is somebody
            // else.
            let ours = taking_part.iter().filter(|entrant| entrant.system == "seriatim").count();
            let expected = measurement == "jitter" || ours > 0 && taking_part.len() > ours;
            assert!(expected, "{measurement}: {ours} of {} are ours", taking_part.len());
        }
    }
}
