//! Operations on variables drawn at random: each writes the mean of some others. The workload of
//! the test of MXNet's engine, written anew (docs/src/ports.md compares).
//!
//!   cargo run --release --example random_sums [OPERATIONS [MICROSECONDS [ROUNDS]]]

use seriatim::{Engine, Error, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

const VARIABLES: usize = 100;

/// An operation: it reads these, in order, writes that one, and sleeps for so long.
#[derive(Clone)]
struct Work {
    reads: Vec<usize>,
    write: usize,
    time: Duration,
}

impl Work {
    /// The new value of what it writes, from the values that it reads.
    fn evaluate(&self, values: impl Iterator<Item = f64>) -> f64 {
        let sum = values.sum::<f64>();
        if !self.time.is_zero() {
            sleep(self.time);
        }
        sum / (self.reads.len() + 1) as f64
    }
}

/// Pushes all work, and waits for it. An operation that reads what it writes names it once.
fn evaluate(engine: &Engine, work: &[Work]) -> Result<Vec<f64>, Error> {
    let data: Vec<_> = (0..VARIABLES).map(|_| engine.value(1.0)).collect();
    for work in work.iter().cloned() {
        let others: Vec<_> = work.reads.iter().filter(|&&at| at != work.write).map(|&at| &data[at]).collect();
        engine.op("sum").run((&others[..], Write(&data[work.write])), move |(others, written)| {
            let mut others = others.iter();
            let reads = work.reads.iter().map(|&at| if at == work.write { *written } else { *others.next().unwrap() });
            *written = work.evaluate(reads);
        })?;
    }
    engine.wait_for_all()?;
    data.iter().map(|value| Ok(*value.read()?)).collect()
}

/// So many operations with 2 to 19 reads, which sleep for less than so many microseconds.
fn random_work(operations: usize, microseconds: u64) -> Vec<Work> {
    let mut state = 1_u64;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % bound
    };
    let mut variable = || below(VARIABLES as u64) as usize;
    let drawn: Vec<(usize, Vec<usize>)> = (0..operations)
        .map(|_| {
            let (write, reads) = (variable(), 2 + variable() % 18);
            (write, (0..reads).map(|_| variable()).collect())
        })
        .collect();
    let time = |at: usize| {
        Duration::from_micros(if microseconds == 0 { 0 } else { 1 + at as u64 % (microseconds - 1).max(1) })
    };
    drawn.into_iter().enumerate().map(|(at, (write, reads))| Work { reads, write, time: time(at) }).collect()
}

fn main() -> Result<(), Error> {
    let numbers: Vec<usize> = std::env::args().skip(1).map(|number| number.parse().expect("a number")).collect();
    let number = |at: usize, or: usize| numbers.get(at).copied().unwrap_or(or);
    let rounds = number(2, 3).max(1);
    let work = random_work(number(0, 1000), number(1, 0) as u64);
    let mut expected = vec![1.0; VARIABLES];
    for work in &work {
        let brief = Work { time: Duration::ZERO, ..work.clone() };
        expected[work.write] = brief.evaluate(work.reads.iter().map(|&at| expected[at]));
    }

    let engine = Engine::new()?;
    engine.prepare()?;
    let mut times = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        let found = evaluate(&engine, &work)?;
        times.push(start.elapsed());
        assert_eq!(found, expected);
    }
    times.sort();
    println!("sum {:.17e}", expected.iter().sum::<f64>());
    println!("median {:.9} s", times[rounds / 2].as_secs_f64());
    Ok(())
}
