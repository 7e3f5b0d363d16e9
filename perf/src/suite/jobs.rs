//! The processes of a repetition, with what each is asked.

use std::path::PathBuf;

use super::taking_part::{counts, on_four, takes_part, worker_counts, FOUR};
use super::{Plan, Results, Skipped, MEASUREMENTS};
use crate::entrants::all;
use crate::latency::jitter;
use crate::pushers;
use crate::workloads::OPERATIONS;

/// What throughput the suite measures, and of what graphs the granularity.
const WORKLOADS: [&str; 7] = ["independent", "shared-read", "chain", "fan", "random", "stencil", "brief"];
const PATTERNS: [&str; 5] = ["stencil_1d", "nearest", "spread", "fft", "tree"];

/// What of the measurements themselves is left out.
const LEFT_OUT: [(&str, &str); 3] = [
    ("throughput", "unrelated, a workload without dependencies"),
    ("metg", "trivial, no_comm, dom, random_nearest, all_to_all; widths other than 16; kernels other than compute"),
    ("jitter", "seriatim-pooled"),
];

/// One process to run in each repetition.
pub(super) struct Job {
    pub(super) entrant: String,
    pub(super) arguments: Vec<String>,
    pub(super) preload: Option<PathBuf>,
    pub(super) often: Often,
    /// The cores that it runs on, if those are not a pair.
    pub(super) cores: Option<Vec<usize>>,
}

/// In which repetitions a job is run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Often {
    Always,
    /// In the first: counts are the same every time.
    Once,
}

/// Everything that a repetition runs; entrants that are not to be had, or are left out, are noted.
/// `four` is four cores, or how many there are.
pub(super) fn jobs(plan: &Plan, four: Result<Vec<usize>, usize>, results: &mut Results) -> Vec<Job> {
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

fn job(measurement: &str, entrant: &str, plan: &Plan, results: &Results) -> Job {
    let mut arguments: Vec<String> = ["measure", measurement, "--entrant", entrant].map(String::from).into();
    let mut add = |option: &str, full: usize, quick: usize| {
        let value = if plan.quick { quick } else { full };
        arguments.extend([String::from(option), value.to_string()]);
    };
    match measurement {
        "throughput" => add("--operations", OPERATIONS, OPERATIONS / 8),
        "lengths" | "oversubscribed" | "beside-busy" | "four-cores" => {
            add("--per-us", results.iterations_per_us as usize, results.iterations_per_us as usize)
        }
        "counts" => add("--operations", OPERATIONS / 10, OPERATIONS / 10),
        "metg" => add("--steps", 1000, 100),
        "replays" => {
            add("--replays", 1_000_000, 10_000);
            add("--per-us", results.iterations_per_us as usize, results.iterations_per_us as usize);
        }
        "round-trip" | "wakes" => add("--trips", 5_000, 1_000),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::jitter;
    use crate::versions::Machine;
    use std::path::PathBuf;

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
}
