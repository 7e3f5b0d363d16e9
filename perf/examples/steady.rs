//! Runs one workload on one entrant again and again, for profilers: `steady ENTRANT WORKLOAD
//! SECONDS`. An entrant of this engine may be named without `seriatim-`. `steady --counted` says
//! how many operations, or replays, each workload has where `callgrind.sh` counts them.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use seriatim_perf::entrants::{self, measure, Entrant};
use seriatim_perf::workloads;

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("steady: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    match arguments {
        [only] if only == "--counted" => {
            for program in workloads::all(workloads::COUNTED_OPERATIONS) {
                println!("{} {}", program.name(), program.sequence().len());
            }
            for shape in workloads::REPLAYED {
                println!("{shape} {}", workloads::COUNTED_REPLAYS);
            }
            Ok(())
        }
        [entrant, workload, seconds] => {
            let (entrant, workload) = (find(entrant)?, workload.clone());
            let seconds = seconds.parse().map_err(|_| format!("'{seconds}' is no number of seconds"))?;
            // On a thread with a name: the first thread of a process has that of the program.
            let pusher = thread::Builder::new().name(String::from("pusher"));
            let pusher = pusher.spawn(move || repeat(&entrant, &workload, Duration::from_secs(seconds)));
            let ended = pusher.map_err(|error| error.to_string())?.join();
            ended.unwrap_or_else(|_| Err(String::from("the workload panicked")))
        }
        _ => Err(String::from("usage: steady ENTRANT WORKLOAD SECONDS | steady --counted")),
    }
}

fn find(name: &str) -> Result<Entrant, String> {
    let most = thread::available_parallelism().map_or(1, usize::from).max(2);
    let all = entrants::all(&(1..=most).collect::<Vec<_>>());
    let ours = format!("seriatim-{name}");
    let names = all.iter().map(|entrant| entrant.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = all.iter().find(|entrant| entrant.name == name || entrant.name == ours);
    found.cloned().ok_or_else(|| format!("no entrant '{name}'; there are {names}"))
}

fn repeat(entrant: &Entrant, workload: &str, time: Duration) -> Result<(), String> {
    let names = workloads::NAMES.join(", ");
    let program = workloads::named(workload, workloads::OPERATIONS)
        .ok_or_else(|| format!("no workload '{workload}'; there are {names}"))?;
    let mut runner = entrant.start()?;
    runner.prepare(program)?;
    measure(&mut *runner, program)?;
    let start = Instant::now();
    let (mut runs, mut busy) = (0, Duration::ZERO);
    while start.elapsed() < time {
        busy += measure(&mut *runner, program)?;
        runs += 1;
    }
    let operations = runs * program.sequence().len();
    let each = busy.as_nanos() as f64 / operations.max(1) as f64;
    println!("{} {workload}: {operations} operations, {each:.0} ns each", entrant.name);
    Ok(())
}
