//! The driver: measures one entrant, or everything in one sitting. `seriatim-perf --help` says how.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use lexopt::prelude::*;
use seriatim_perf::busy::{self, Busy};
use seriatim_perf::entrants::{self, Entrant};
use seriatim_perf::latency::{jitter, open_loop, round_trip, wakes};
use seriatim_perf::metg::{self, kernel::Kernel, pattern::Pattern};
use seriatim_perf::suite::{self, MEASUREMENTS};
use seriatim_perf::{counts, pushers, record, replays, throughput, workloads};

const HELP: &str = "\
Measures seriatim and its peers.

  seriatim-perf list                             the entrants, and which of them are not to be had here
  seriatim-perf measure WHAT --entrant NAME...   one measurement, one JSON object a line
  seriatim-perf suite --output FILE              everything, interleaved, in one sitting

WHAT is one of throughput, lengths, oversubscribed, beside-busy, four-cores, metg, replays, round-trip,
wakes, open-loop, jitter, pushers, counts. Its options:
  --workload NAME      throughput, counts: only this workload; may be repeated
  --operations N       throughput, counts: about how many (default 200000); pushers: how many (default 100000)
  --per-us N           lengths, oversubscribed, beside-busy, four-cores, replays: iterations of the compute
                       kernel in a microsecond (default: measured)
  --pattern NAME       metg: only this pattern; may be repeated
  --kernel NAME        metg: compute (default), memory, imbalance or empty
  --width N            metg: points in a row (default 16)
  --steps N            metg: rows (default 1000)
  --replays N          replays: how many in a row (default 1000000)
  --trips N            round-trip: how many back to back, and pushes (default 20000); wakes: 80 times the cycles
  --background NAME    jitter: only beside this load; may be repeated (none; low-priority; low-priority, 2 us;
                       low-priority, 200 us)
  --milliseconds N     open-loop, jitter: how long each (default 250)

Options of suite:
  --quick              fewer and shorter repetitions
  --repetitions N      how often everything is run (default 9, quick 2)
  --only WHAT          only this measurement; may be repeated
  --system NAME        only this system; may be repeated

Where there are more than two cores, everything runs on two near ones and on two far ones in turn.
";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("seriatim-perf: {message}");
            ExitCode::from(2)
        }
    }
}

/// What the command line says.
#[derive(Default)]
struct Options {
    entrants: Vec<String>,
    workloads: Vec<&'static str>,
    operations: Option<usize>,
    patterns: Vec<Pattern>,
    kernel: Option<Kernel>,
    width: Option<i64>,
    steps: Option<i64>,
    replays: Option<usize>,
    trips: Option<usize>,
    per_us: Option<u32>,
    milliseconds: Option<u64>,
    backgrounds: Vec<String>,
    output: Option<PathBuf>,
    quick: bool,
    repetitions: Option<usize>,
    only: Vec<String>,
    systems: Vec<String>,
}

fn run() -> Result<(), String> {
    let mut words = Vec::new();
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
        match argument {
            Long("help") | Short('h') => {
                print!("{HELP}");
                return Ok(());
            }
            Value(word) => words.push(word.string().map_err(|error| error.to_string())?),
            Long(name) => {
                let name = String::from(name);
                options.take(&name, &mut parser).map_err(|error| error.to_string())?;
            }
            Short(_) => return Err(argument.unexpected().to_string()),
        }
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["list"] => list(),
        [busy::WORD, parent] => {
            busy::spin(parent.parse().map_err(|_| String::from("the number of a process is needed"))?)
        }
        ["measure", what] => return measure(what, &options),
        ["suite"] => return suite::run(&options.plan()?),
        _ => return Err(String::from("say list, measure or suite; --help tells more")),
    }
    Ok(())
}

impl Options {
    fn take(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<(), lexopt::Error> {
        if name == "quick" {
            self.quick = true;
            return Ok(());
        }
        let value = parser.value()?;
        match name {
            "entrant" => self.entrants.push(value.string()?),
            "workload" => self.workloads.push(value.parse_with(workload)?),
            "operations" => self.operations = Some(value.parse_with(positive)?),
            "pattern" => {
                let pattern =
                    |name: &str| Pattern::named(name).ok_or_else(|| known("pattern", Pattern::ALL.map(Pattern::name)));
                self.patterns.push(value.parse_with(pattern)?);
            }
            "kernel" => {
                let kernel =
                    |name: &str| Kernel::named(name).ok_or_else(|| known("kernel", Kernel::ALL.map(Kernel::name)));
                self.kernel = Some(value.parse_with(kernel)?);
            }
            "width" => self.width = Some(value.parse_with(positive)?),
            "steps" => self.steps = Some(value.parse_with(positive)?),
            "replays" => self.replays = Some(value.parse_with(positive)?),
            "trips" => self.trips = Some(value.parse_with(positive)?),
            "per-us" => self.per_us = Some(value.parse_with(positive)?),
            "milliseconds" => self.milliseconds = Some(value.parse_with(positive)?),
            "background" => self.backgrounds.push(value.string()?),
            "output" => self.output = Some(PathBuf::from(value)),
            "repetitions" => self.repetitions = Some(value.parse_with(positive)?),
            "only" => self.only.push(value.parse_with(measurement)?),
            "system" => self.systems.push(value.string()?),
            _ => return Err(format!("there is no option --{name}").into()),
        }
        Ok(())
    }

    fn plan(&self) -> Result<suite::Plan, String> {
        Ok(suite::Plan {
            output: self.output.clone().ok_or("suite needs --output FILE")?,
            repetitions: self.repetitions.unwrap_or(if self.quick { 2 } else { 9 }),
            quick: self.quick,
            measurements: self.only.clone(),
            systems: self.systems.clone(),
        })
    }
}

fn positive<T: TryFrom<u32>>(text: &str) -> Result<T, String> {
    let number: u32 = text.parse().map_err(|_| String::from("a whole number is needed"))?;
    match T::try_from(number) {
        Ok(value) if number > 0 => Ok(value),
        _ => Err(String::from("a number above 0 is needed")),
    }
}

fn known<const COUNT: usize>(what: &str, names: [&str; COUNT]) -> String {
    format!("no such {what}; there are: {}", names.join(", "))
}

fn workload(name: &str) -> Result<&'static str, String> {
    let found = workloads::NAMES.into_iter().find(|workload| *workload == name);
    found.ok_or_else(|| known("workload", workloads::NAMES))
}

fn measurement(name: &str) -> Result<String, String> {
    let found = MEASUREMENTS.into_iter().find(|measurement| *measurement == name);
    found.map(String::from).ok_or_else(|| known("measurement", MEASUREMENTS))
}

/// Every entrant with any number of workers up to the cores of a large machine.
fn find(name: &str) -> Result<Entrant, String> {
    let workers: Vec<usize> = (1..=1024).collect();
    let found = entrants::all(&workers).into_iter().find(|entrant| entrant.name == name);
    found.ok_or_else(|| format!("no entrant '{name}': see seriatim-perf list"))
}

fn list() {
    let workers: Vec<usize> = (1..=seriatim_perf::machine::cores().max(2)).collect();
    for entrant in entrants::all(&workers) {
        match entrant.check() {
            Ok(()) => record::say(&entrant.name),
            Err(why) => record::say(&format!("{} ({why})", entrant.name)),
        }
    }
}

fn measure(what: &str, options: &Options) -> Result<(), String> {
    let what = measurement(what)?;
    if options.entrants.is_empty() {
        return Err(String::from("measure needs --entrant NAME"));
    }
    let during = Duration::from_millis(options.milliseconds.unwrap_or(250));
    for name in &options.entrants {
        if what == "jitter" {
            let named: Vec<&str> = options.backgrounds.iter().map(String::as_str).collect();
            let beside = if named.is_empty() { jitter::backgrounds().collect() } else { named };
            jitter::run(name, &beside, during)?;
            continue;
        }
        let entrant = find(name)?;
        let workloads = if options.workloads.is_empty() { &workloads::NAMES } else { &options.workloads[..] };
        let operations = options.operations.unwrap_or(workloads::OPERATIONS);
        let per_us = || options.per_us.unwrap_or_else(throughput::iterations_per_us);
        match what.as_str() {
            "throughput" => throughput::run(&entrant, workloads, operations),
            "lengths" => throughput::lengths(&entrant, throughput::LENGTHS, per_us()),
            "oversubscribed" => throughput::lengths(&entrant, throughput::OVERSUBSCRIBED, per_us()),
            "beside-busy" => beside_busy(&entrant, per_us()),
            "four-cores" => throughput::lengths(&entrant, throughput::FOUR_CORES, per_us()),
            "pushers" => pushers::run(&entrant, options.operations.unwrap_or(pushers::OPERATIONS)),
            "counts" => counts::run(&entrant, workloads, operations),
            "round-trip" => {
                let trips = options.trips.unwrap_or(20_000);
                round_trip::run(&entrant, round_trip::Plan { trips, pauses: trips.div_ceil(20) })
            }
            "wakes" => wakes::run(&entrant, options.trips.unwrap_or(20_000).div_ceil(80)),
            "replays" => {
                let replays = options.replays.unwrap_or(1_000_000);
                replays::run(&entrant, replays::Plan { replays, per_us: per_us() })
            }
            "open-loop" => open_loop::run(&entrant, open_loop::Plan { during }),
            _ => {
                let patterns = if options.patterns.is_empty() { &Pattern::ALL } else { &options.patterns[..] };
                let kernel = options.kernel.unwrap_or(Kernel::Compute);
                let (width, steps) = (options.width.unwrap_or(16), options.steps.unwrap_or(1000));
                metg::run(&entrant, patterns, metg::Plan { kernel, width, steps })
            }
        }
        .map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(())
}

fn beside_busy(entrant: &Entrant, per_us: u32) -> Result<(), String> {
    let driver = std::env::current_exe().map_err(|error| error.to_string())?;
    let _busy = Busy::start(&driver)?;
    throughput::lengths(entrant, throughput::BESIDE_BUSY, per_us)
}
