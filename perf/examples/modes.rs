//! What access modes gain: sums that many operations add to, by writes, by operations that commute
//! and by reductions. `perf/modes.sh` runs it beside `perf/modes/openmp.c` and `starpu.c`, which do
//! the same.
//!
//!   cargo run --release --package seriatim-perf --example modes -- WORKLOAD WORK OPERATIONS
//!
//! prints nanoseconds an operation, the median of nine runs, and checks each sum. Two threads: one
//! worker, and the caller, which helps while it waits. `WORK` is a number of steps of a chain of
//! multiplications.
//!
//! - `accumulate-write`, `accumulate-commute`: each of so many operations makes an input, one in 64
//!   of them in 100 times the work; another adds it to one of eight sums, with the same work.
//! - `sum-write`, `sum-commute`, `sum-reduce`, `sum-ordered`: each does the work, and adds to one
//!   sum.

use seriatim::{Commute, Engine, Error, Reduce, Value, Write};
use std::time::Instant;

const SUMS: usize = 8;
const RUNS: usize = 9;

/// Work that no compiler leaves out: the C peers have the same steps.
fn work(steps: u64, seed: u64) -> u64 {
    let mut x = seed | 1;
    for _ in 0..steps {
        // No steps can be put together.
        x = (x ^ x >> 29).wrapping_mul(6_364_136_223_846_793_005);
    }
    std::hint::black_box(x)
}

/// The work of the operation that makes an input.
fn length(steps: u64, number: usize) -> u64 {
    if number % 64 == 63 {
        100 * steps
    } else {
        steps
    }
}

fn accumulate(engine: &Engine, commutes: bool, steps: u64, operations: usize) -> Result<u64, Error> {
    let inputs: Vec<Value<u64>> = (0..operations).map(|_| engine.value(0)).collect();
    let sum = |_| if commutes { engine.commutative(0_u64) } else { engine.value(0) };
    let sums: Vec<Value<u64>> = (0..SUMS).map(sum).collect();
    let begin = Instant::now();
    for (number, input) in inputs.iter().enumerate() {
        engine.op("make").run(Write(input), move |input| {
            work(length(steps, number), number as u64);
            *input = 1;
        })?;
        let add = move |(input, sum): (&u64, &mut u64)| {
            work(steps, *input);
            *sum += input;
        };
        match commutes {
            true => engine.op("add").run((input, Commute(&sums[number % SUMS])), add)?,
            false => engine.op("add").run((input, Write(&sums[number % SUMS])), add)?,
        }
    }
    engine.wait_for_all()?;
    let took = begin.elapsed().as_nanos() as u64;
    let total: Result<u64, Error> = sums.iter().map(|sum| sum.read().map(|sum| *sum)).sum();
    assert_eq!(total?, operations as u64);
    Ok(took)
}

fn sum(engine: &Engine, how: &str, steps: u64, operations: usize) -> Result<u64, Error> {
    let (plain, commutative) = (engine.value(0_u64), engine.commutative(0_u64));
    let add = |sum: &mut u64, part: u64| *sum += part;
    let (any, ordered) = (engine.reduction(|| 0, add), engine.ordered_reduction(16, || 0, add)?);
    let body = move |sum: &mut u64| {
        work(steps, 1);
        *sum += 1;
    };
    let begin = Instant::now();
    for _ in 0..operations {
        match how {
            "write" => engine.op("add").run(Write(&plain), body)?,
            "commute" => engine.op("add").run(Commute(&commutative), body)?,
            "reduce" => engine.op("add").run(Reduce(&any), body)?,
            _ => engine.op("add").run(Reduce(&ordered), body)?,
        }
    }
    engine.wait_for_all()?;
    let total = *plain.read()? + *commutative.read()? + *any.read()? + *ordered.read()?;
    let took = begin.elapsed().as_nanos() as u64;
    assert_eq!(total, operations as u64);
    Ok(took)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [workload, steps, operations] = &arguments[..] else { return Err("WORKLOAD WORK OPERATIONS".into()) };
    let (steps, operations) = (steps.parse()?, operations.parse()?);
    let engine = Engine::builder().cpu_workers(1).build()?;
    let mut took = Vec::new();
    for _ in 0..RUNS {
        took.push(match workload.split_once('-').ok_or("no such workload")? {
            ("accumulate", how) => accumulate(&engine, how == "commute", steps, operations)?,
            (_, how) => sum(&engine, how, steps, operations)?,
        });
    }
    took.sort_unstable();
    println!("{:.0}", took[RUNS / 2] as f64 / operations as f64);
    Ok(())
}
