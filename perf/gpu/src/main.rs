//! Runs on a machine with a GPU, or over the stand-in for its driver: `scripts/gpu.sh` calls it.

use seriatim_gpu_bench::checks::{self, CHECKS, ORDERED};
use seriatim_gpu_bench::device::{Device, Which};
use seriatim_gpu_bench::found::{found, Found};
use seriatim_gpu_bench::lab::Lab;
use seriatim_gpu_bench::programs;
use seriatim_gpu_bench::record::Table;
use seriatim_gpu_bench::rival::Rival;
use seriatim_gpu_bench::{calls, rows, standin};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

const HELP: &str = "\
Runs checks, random programs and measurements on a GPU. scripts/gpu.sh calls it.

Usage: seriatim-gpu-bench PART [OPTIONS]

  found              says which device there is; exit code 3 if there is none
  checks             what must hold on a device
  lost               a kernel that loses the device
  programs           random programs against a sequential run
  teeth              the stand-in forgets waits, or says too early that something is done: random
                     programs and checks must find it
  calls              over the stand-in: how many calls of the driver programs take, beside a rival's
  table              the measurements; needs --output
  all                each of these, in processes of their own; needs --output

  --standin          over the stand-in, which lies beside this program: no times
  --quick            as few operations as show that it works
  --seconds N        how long random programs run [20]
  --seed N           the first of them [1]
  --fact NAME=TEXT   a line of the page
  --output FOLDER    where gpu.json and gpu.md are written

SERIATIM_CUDASTF names a program that is measured beside; perf/gpu/README.md has its protocol.
Exit code: 0 if all is well; 1 if not; 2 wrong arguments; 3 no CUDA device.
";

struct Arguments {
    part: String,
    which: Which,
    quick: bool,
    seconds: u64,
    seed: u64,
    facts: Vec<(String, String)>,
    output: Option<PathBuf>,
}

impl Arguments {
    fn read() -> Result<Arguments, String> {
        let mut given = std::env::args().skip(1);
        let part = given.next().unwrap_or_else(|| "--help".to_owned());
        let mut read =
            Arguments { part, which: Which::Cuda, quick: false, seconds: 20, seed: 1, facts: Vec::new(), output: None };
        while let Some(option) = given.next() {
            let mut value = || given.next().ok_or_else(|| format!("{option} wants a value"));
            let number = |text: String| text.parse().map_err(|_| format!("{text:?} is no number"));
            match option.as_str() {
                "--standin" => read.which = Which::Standin,
                "--quick" => read.quick = true,
                "--seconds" => read.seconds = number(value()?)?,
                "--seed" => read.seed = number(value()?)?,
                "--output" => read.output = Some(value()?.into()),
                "--fact" => {
                    let text = value()?;
                    let (name, fact) = text.split_once('=').ok_or("--fact wants NAME=TEXT")?;
                    read.facts.push((name.to_owned(), fact.to_owned()));
                }
                _ => return Err(format!("{option} is not known; --help lists the options")),
            }
        }
        Ok(read)
    }

    fn output(&self) -> Result<PathBuf, String> {
        self.output.clone().ok_or_else(|| "--output FOLDER is missing".to_owned())
    }

    /// A part as a process of its own: one that loses the device, or hangs, is no end to the rest.
    fn child(&self, part: &str) -> Result<String, String> {
        let this = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(this);
        let (seconds, seed) = (self.seconds.to_string(), self.seed.to_string());
        command.args([part, "--seconds", &seconds, "--seed", &seed]);
        command.args((self.which == Which::Standin).then_some("--standin"));
        command.args(self.quick.then_some("--quick"));
        let output = command.output().map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        print!("{said}");
        match output.status.success() {
            true => Ok(said.lines().last().unwrap_or("passed").to_owned()),
            false => Err(format!("{}: {}", output.status, said.lines().last().unwrap_or("it said nothing"))),
        }
    }
}

/// Ends with what the stand-in has to say, if it is that which has run.
fn silent(which: Which) -> Result<(), String> {
    let reports = if which == Which::Standin { standin::reports() } else { Vec::new() };
    match reports.first() {
        Some(first) => Err(format!("the stand-in has {} reports, of which the first: {first}", reports.len())),
        None => Ok(()),
    }
}

fn all_checks(device: &Device) -> Result<String, String> {
    let mut failed = Vec::new();
    for (name, check) in CHECKS {
        match check(device) {
            Ok(said) => println!("{name}: {said}"),
            Err(why) => failed.push(format!("{name}: {why}")),
        }
    }
    match failed.is_empty() {
        true => Ok(format!("{} checks passed", CHECKS.len())),
        false => Err(failed.join("; ")),
    }
}

/// Random programs over a driver that forgets waits of streams for events.
fn teeth() -> Result<String, String> {
    let (mut faulty, mut found) = (0, 0);
    for seed in (1..=40).filter(|seed| !programs::is_naive(*seed)) {
        let device = Device::open(Which::Standin)?;
        standin::swallow_waits(5);
        let outcome = programs::program(&device, seed, 300);
        faulty += usize::from(standin::planted() > 0);
        found += usize::from(outcome.is_err() || !standin::reports().is_empty());
    }
    // Each of the checks of order is found out by one of two faults, or by both.
    for (at, check) in ORDERED.into_iter().enumerate() {
        let plants: [fn(u64); 2] = [standin::swallow_waits, standin::hurry];
        let is_found = plants.into_iter().map(|plant| {
            let device = Device::open(Which::Standin)?;
            plant(1);
            Ok(check(&device).is_err() || !standin::reports().is_empty())
        });
        let is_found = is_found.collect::<Result<Vec<bool>, String>>()?;
        if !is_found.contains(&true) {
            return Err(format!("check {at} of order holds over a driver that keeps none"));
        }
    }
    match faulty >= 20 && found * 10 >= faulty * 9 {
        true => Ok(format!("{found} of {faulty} programs without some waits are found, and {} checks", ORDERED.len())),
        false => Err(format!("only {found} of {faulty} programs without some waits are found")),
    }
}

/// The program that is to be measured beside, if one is named.
fn rival() -> Result<Option<Rival>, String> {
    std::env::var("SERIATIM_CUDASTF").ok().map(|path| Rival::start(&path)).transpose()
}

/// Measures the table. Rows that are void are failures.
fn table(arguments: &Arguments, facts: &[(String, String)]) -> Result<String, String> {
    let mut table = Table::new(&arguments.output()?)?;
    for (name, fact) in arguments.facts.iter().chain(facts) {
        table.fact(name, fact)?;
    }
    let device = Device::open(arguments.which)?;
    let rival = rival()?;
    table.fact("rival", if rival.is_some() { "as SERIATIM_CUDASTF names it" } else { "not available" })?;
    let tiles = device.tiles.as_ref().map_or_else(|why| format!("not available: {why}"), |tiles| tiles.name());
    table.fact("tiles", tiles)?;
    let lab = Lab::new(device, arguments.quick, rival)?;
    rows::all(&lab, &mut table)?;
    lab.engine.wait_for_all().map_err(|error| error.to_string())?;
    silent(arguments.which)?;
    let void = table.rows.iter().filter(|row| matches!(row.verdict, seriatim_gpu_bench::record::Verdict::Void(_)));
    match void.count() {
        0 => Ok(format!("{} rows", table.rows.len())),
        count => Err(format!("{count} of {} rows are void", table.rows.len())),
    }
}

/// Every part; the page says what came of each.
fn all(arguments: &Arguments) -> Result<String, String> {
    let mut facts = Vec::new();
    let mut failed = false;
    let of_standin = (arguments.which == Which::Standin).then_some("teeth");
    for part in ["found", "checks", "lost", "programs"].into_iter().chain(of_standin) {
        println!("== {part}");
        let outcome = arguments.child(part);
        failed |= outcome.is_err();
        facts.push((part.to_owned(), outcome.unwrap_or_else(|why| format!("FAILED: {why}"))));
    }
    println!("== table");
    let measured = table(arguments, &facts)?;
    match failed {
        false => Ok(measured),
        true => Err("a part has failed; the page says which".to_owned()),
    }
}

/// How a part has ended, if well.
enum Ended {
    Said(String),
    /// Why there is no device.
    Skipped(String),
}

fn run(arguments: &Arguments) -> Result<Ended, String> {
    let device = || Device::open(arguments.which);
    let said = match arguments.part.as_str() {
        "found" => match found(arguments.which)? {
            Found::Device(said) => said,
            Found::Nothing(why) => return Ok(Ended::Skipped(why)),
        },
        "checks" => all_checks(&device()?)?,
        "lost" => return checks::lost(&device()?).map(Ended::Said),
        "programs" => {
            let most = if arguments.quick { 40 } else { u64::MAX / 2 };
            programs::programs(&device()?, arguments.seed, most, Duration::from_secs(arguments.seconds))?
        }
        "teeth" => return teeth().map(Ended::Said),
        "calls" => return calls::calls(rival()?).map(Ended::Said),
        "table" => return table(arguments, &[]).map(Ended::Said),
        "all" => return all(arguments).map(Ended::Said),
        part => return Err(format!("{part} is no part; --help lists them")),
    };
    silent(arguments.which).map(|()| Ended::Said(said))
}

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--help" || argument == "-h") || std::env::args().len() == 1 {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let arguments = match Arguments::read() {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("seriatim-gpu-bench: {why}");
            return ExitCode::from(2);
        }
    };
    match run(&arguments) {
        Ok(Ended::Said(said)) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Ok(Ended::Skipped(why)) => {
            println!("skipped: no CUDA device: {why}");
            ExitCode::from(3)
        }
        Err(why) => {
            eprintln!("seriatim-gpu-bench: {why}");
            ExitCode::FAILURE
        }
    }
}
