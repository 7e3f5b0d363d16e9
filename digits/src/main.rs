//! Learns to read handwritten digits, with every tile of the linear algebra an operation of the
//! engine.
//!
//! Gaussian-kernel ridge regression on 1,500 real images: build the kernel matrix in tiles,
//! factorise it by a tiled Cholesky, solve for ten right-hand sides, then classify 297 images the
//! fit has not seen. Each tile is a value guarded by a variable ([`seriatim::Data`]); every
//! operation says which tiles it reads and which one it changes, and the engine finds the
//! parallelism. The same operations are then run as plain calls, on one thread and in the same
//! order, so that the two times can be compared and the two results must agree bit by bit.
//!
//! ```text
//! cargo run --release -p digits
//! cargo run --release -p digits -- --trace trace.json    # open it in https://ui.perfetto.dev
//! ```
//!
//! The work itself is in the library of this package, `lib.rs`.
//!
//! | file | what is in it |
//! |---|---|
//! | `args.rs` | the command line |
//! | `report.rs` | the figures, in words |
//! | `progress.rs` | a bar on a terminal |

mod args;
mod progress;
mod report;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::sync::Arc;

use seriatim::Engine;

use digits::job::{Job, SerialTiles};
use digits::plan::Plan;
use digits::{check, data};

use args::Args;
use progress::Progress;
use report::Report;

/// Why the program stopped early, and with which exit code.
enum Failure {
    /// Something the person at the keyboard gave it: exit code 2.
    Input(String),
    /// Something that went wrong while it ran, a wrong answer included: exit code 1.
    Run(String),
}

impl From<seriatim::Error> for Failure {
    fn from(error: seriatim::Error) -> Self {
        Failure::Run(format!("the engine reports: {error}"))
    }
}

fn main() -> ExitCode {
    let (code, message) = match run() {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Input(message)) => (2, message),
        Err(Failure::Run(message)) => (1, message),
    };
    eprintln!("digits: {message}");
    ExitCode::from(code)
}

fn run() -> Result<(), Failure> {
    let Some(args) = Args::parse().map_err(Failure::Input)? else {
        return print(args::HELP);
    };
    let inputs = data::read(&args.data, args.tile).map_err(Failure::Input)?;
    // Opened before the work, so that a path that cannot be written is known at once.
    let trace = match &args.trace {
        Some(path) => Some(File::create(path).map_err(|error| {
            Failure::Input(format!("cannot write {}: {error}; give --trace another path", path.display()))
        })?),
        None => None,
    };

    let engine = Engine::builder()
        .kind(args.engine)
        .cpu_workers(args.workers)
        // The waiting caller stays out of it: the threads that can run are then the workers, and no
        // others.
        .waiters_help(false)
        .build()?;
    let plan = Plan::new(inputs.fit.len(), inputs.test.len());
    let job = Arc::new(Job::new(&engine, plan, inputs));
    let mut serial = SerialTiles::new(&job);

    // Every run that the bar counts: the warm-up of both kinds, the timed rounds of three, the
    // profiled one.
    let runs = 2 + 3 * args.repeat + 1;
    let progress = Progress::start(Arc::clone(&job), runs as u64);
    let mut report = Report::new(&args, &engine, &job);
    job.run_serial(&mut serial).map_err(Failure::Run)?;
    job.run(&engine)?;
    for _ in 0..args.repeat {
        report.serial.push(job.run_serial(&mut serial).map_err(Failure::Run)?);
        report.parallel.push(job.run(&engine)?);
        report.empty.push(job.run_empty(&engine)?);
    }
    // Profiled apart from the timed runs, so that these carry no cost of it.
    engine.start_profiling();
    job.run(&engine)?;
    engine.stop_profiling();
    progress.finish();

    let profile = engine.profile();
    if let Some(file) = trace {
        let mut file = BufWriter::new(file);
        let written = profile.write_chrome_trace(&mut file).and_then(|()| file.flush());
        written.map_err(|error| Failure::Run(format!("cannot write the trace: {error}")))?;
    }
    let verdict = check::verdict(&job, &serial)?;
    report.warnings = engine.warnings();
    // In the table one row for a kind of step; in the trace each operation has its own name.
    let kinds = profile.renamed(|name| name.split(' ').next().unwrap_or(name));
    print(&report.render(&verdict, &kinds.table()))?;
    verdict.check().map_err(Failure::Run)
}

/// Prints to standard output; a reader that closed the pipe early is no failure of ours.
fn print(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::Run(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
