//! How long a push takes, and a push with the wait for it: percentiles on this machine.
//!
//!   cargo run --release --example latency
//!
//! `SERIATIM_*` variables choose the settings, such as `SERIATIM_IDLE=spin`.

use seriatim::{Builder, Data, Error};
use std::time::Instant;

const ROUNDS: usize = 100_000;

fn main() -> Result<(), Error> {
    let engine = Builder::from_env()?.build()?; // Engine::new() does not look at the environment
    engine.prepare()?; // on each thread that is to push: threads up, memory there
    for warning in engine.warnings() {
        eprintln!("warning: {warning}"); // what the settings ask for and the machine does not give
    }
    let total = Data::new(&engine, 0u64);
    let mut times = [Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS)];
    for n in 0..ROUNDS as u64 {
        let sum = total.clone();
        let start = Instant::now();
        engine.op("add").write(&total).push(move |_| {
            *sum.write()? += n;
            Ok::<(), Error>(())
        })?;
        let pushed = start.elapsed();
        engine.wait_for_var(total.variable())?;
        times[0].push(pushed.as_nanos());
        times[1].push(start.elapsed().as_nanos());
    }
    assert_eq!(*total.read()?, (0..ROUNDS as u64).sum());

    let settings = engine.settings();
    println!("{} engine, workers: {}, idle: {}", settings.kind, settings.cpu_workers, settings.idle);
    println!("{:14}{:>9}{:>9}{:>9}{:>9}{:>9}", "ns", "first", "p50", "p99", "p99.9", "max");
    for (name, times) in ["push", "push and wait"].into_iter().zip(&mut times) {
        let first = times[0];
        times.sort_unstable();
        let [p50, p99, p999] = [500, 990, 999].map(|part| times[ROUNDS * part / 1000]);
        println!("{name:14}{first:9}{p50:9}{p99:9}{p999:9}{:9}", times[ROUNDS - 1]);
    }
    Ok(())
}
