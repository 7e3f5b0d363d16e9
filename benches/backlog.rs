//! Does an operation cost more when ten million others wait?
//!
//! Operations that read one variable whose write has not ended, and change one of 64 others: all of
//! them wait until the write ends. Nanoseconds an operation to push them, and from the end of the
//! write to that of the last. Twice on each engine: the first time the memory is new, and the
//! system hands it out page by page.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};

use seriatim::{Engine, Error};
use seriatim_perf::arguments::Arguments;
use seriatim_perf::machine::Mode;

const VARIABLES: usize = 64;

/// Pushes a backlog of so many operations, lets it go, and says how long each took.
fn backlog(engine: &Engine, operations: usize) -> Result<(Duration, Duration), Error> {
    let gate = engine.new_variable();
    let variables: Vec<_> = (0..VARIABLES).map(|_| engine.new_variable()).collect();
    let ran = Arc::new(AtomicUsize::new(0));
    let (open, opened) = mpsc::channel::<()>();
    // A closed channel opens the gate as well.
    engine.op("gate").writes([gate]).push(move |_| {
        let _ = opened.recv();
    })?;
    let start = Instant::now();
    for operation in 0..operations {
        let ran = Arc::clone(&ran);
        // One worker: a plain step will do.
        let count = move |_: &seriatim::RunContext<'_>| ran.store(ran.load(Relaxed) + 1, Relaxed);
        engine.op("wait").reads([gate]).writes([variables[operation % VARIABLES]]).push(count)?;
    }
    let pushed = start.elapsed();
    let start = Instant::now();
    drop(open);
    engine.wait_for_all()?;
    let drained = start.elapsed();
    assert_eq!(ran.load(Relaxed), operations, "every operation runs once");
    for variable in variables.into_iter().chain([gate]) {
        engine.delete_variable(|_| (), seriatim::Context::cpu(0), variable)?;
    }
    Ok((pushed, drained))
}

fn main() -> Result<(), Error> {
    let sizes: &[usize] = match Arguments::mode("backlog") {
        Mode::Full => &[100_000, 1_000_000, 10_000_000],
        Mode::Quick => &[100_000, 1_000_000],
        Mode::Test => &[10_000],
        Mode::List => return Ok(()),
    };
    println!("{:>12} {:>12} {:>10} {:>10}", "operations", "memory", "ns a push", "ns a run");
    for operations in sizes {
        // Waiting threads would run operations too, and count beside the worker.
        let engine = Engine::builder().cpu_workers(1).waiters_help(false).build()?;
        for memory in ["new", "used before"] {
            let (pushed, drained) = backlog(&engine, *operations)?;
            let each = |time: Duration| time.as_secs_f64() * 1e9 / *operations as f64;
            println!("{operations:>12} {memory:>12} {:>10.0} {:>10.0}", each(pushed), each(drained));
        }
    }
    Ok(())
}
