//! Small networks, where a framework's time is not the arithmetic: how long a perceptron of 64, 32
//! and 10 elements takes for an inference and for a training step, pushed call by call and captured
//! as a step, beside a plain loop. All entrants take turns, a few calls at a time; results are
//! compared first.

#![deny(missing_docs)]

mod entrants;
mod plain;

use entrants::{Arrays, Task};
use plain::{Plain, CLASSES, INPUTS};
use seriatim::{Engine, Kind};
use seriatim_tensor::initializer::Initializer;
use seriatim_tensor::{DType, Distribution, Error, Runtime};
use std::time::Instant;

const HELP: &str = "Measures small networks beside a plain loop, in nanoseconds.

  --calls N     calls of each entrant (20000)
  --at-once N   calls before the next entrant's turn (50)
  --batch N     only this size of a batch (1 and 32)
  --only TEXT   entrants whose name has this text (all)
  --no-data     only inference, on data that is there already: nothing is copied
";

/// How often results are compared before anything is measured, and how far they may be apart.
const COMPARED: usize = 50;
const NEAR: f32 = 1e-3;

/// How many batches there are.
const BATCHES: usize = 16;

/// Data and labels.
type Batch = (Vec<f32>, Vec<f32>);

struct Settings {
    calls: usize,
    at_once: usize,
    batches: Vec<usize>,
    only: String,
    with_data: bool,
}

enum Entrant {
    Plain(Box<Plain>, Task),
    Arrays(Box<Arrays>),
}

impl Entrant {
    fn once(&mut self, (data, labels): &Batch, with_data: bool, out: &mut [f32]) -> Result<(), Error> {
        match self {
            Entrant::Plain(network, Task::Inference) => network.infer(data, out),
            Entrant::Plain(network, Task::Training) => network.train(data, labels, out),
            Entrant::Arrays(arrays) => arrays.once(with_data.then_some((data, labels)), out)?,
        }
        Ok(())
    }

    /// The weights of the second layer, with the inputs last.
    fn last_weights(&self) -> Result<Vec<f32>, Error> {
        match self {
            Entrant::Plain(network, _) => {
                let weight = &network.second.weight;
                Ok((0..CLASSES).flat_map(|class| weight.iter().map(move |row| row[class])).collect())
            }
            Entrant::Arrays(arrays) => Ok(arrays.weights()?.swap_remove(2)),
        }
    }
}

/// The greatest difference.
fn apart(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max)
}

fn runtime(kind: Kind) -> Result<Runtime, Error> {
    let builder = Engine::builder().kind(kind);
    let builder = if kind == Kind::Naive { builder } else { builder.cpu_workers(1) };
    Ok(Runtime::new(&builder.build()?))
}

fn measure(task: Task, batch: usize, settings: &Settings) -> Result<(), Box<dyn std::error::Error>> {
    let source = runtime(Kind::Naive)?;
    source.seed(1)?;
    let shapes = [&[32, 64][..], &[32], &[10, 32], &[10]];
    let weights: Vec<Vec<f32>> = shapes
        .iter()
        .map(|shape| Initializer::Uniform { scale: 0.2 }.make(&source, shape, DType::F32)?.to_vec())
        .collect::<Result<_, Error>>()?;
    // Elements of the hidden layer that are never above 0 would have momenta that go down to
    // numbers which processors are slow with. So data is on both sides of 0, and changes.
    let (of_data, of_labels) =
        (Distribution::Uniform { low: -1.0, high: 1.0 }, Distribution::Whole { low: 0, high: CLASSES as i64 });
    let batches = (0..BATCHES).map(|_| {
        let data = source.random([batch, INPUTS], DType::F32, of_data)?.to_vec::<f32>()?;
        Ok((data, source.random([batch], DType::F32, of_labels)?.to_vec::<f32>()?))
    });
    let batches = batches.collect::<Result<Vec<Batch>, Error>>()?;
    let (data, labels) = &batches[0];

    let mut entrants = vec![("plain loop".to_owned(), Entrant::Plain(Box::new(Plain::new(&weights)), task))];
    for kind in [Kind::Naive, Kind::Pooled] {
        for captured in [false, true] {
            let arrays = Arrays::new(&runtime(kind)?, task, &weights, (data, labels), captured)?;
            let operations = arrays.operations().map(|count| format!(" ({count} operations)")).unwrap_or_default();
            let name = format!("{}, {kind}{operations}", if captured { "captured" } else { "pushed" });
            entrants.push((name, Entrant::Arrays(Box::new(arrays))));
        }
    }
    entrants.retain(|(name, _)| name.contains(&settings.only) || name == "plain loop");

    // All compute the same.
    let mut results = Vec::new();
    for (name, entrant) in &mut entrants {
        let mut out = vec![0.0f32; batch * CLASSES];
        for number in 0..COMPARED {
            entrant.once(&batches[number % BATCHES], true, &mut out)?;
        }
        results.push((name.clone(), out, entrant.last_weights()?));
    }
    for (name, out, last) in &results {
        let (out, last) = (apart(out, &results[0].1), apart(last, &results[0].2));
        if !(out < NEAR && last < NEAR) {
            return Err(format!("{task:?} {batch}: {name} is {out} and {last} away from the plain loop").into());
        }
    }

    let mut times: Vec<Vec<u64>> = entrants.iter().map(|_| Vec::with_capacity(settings.calls)).collect();
    let mut out = vec![0.0f32; batch * CLASSES];
    while times[0].len() < settings.calls {
        for ((_, entrant), times) in entrants.iter_mut().zip(&mut times) {
            for number in 0..settings.at_once {
                let batch = &batches[if settings.with_data { number % BATCHES } else { 0 }];
                let began = Instant::now();
                entrant.once(batch, settings.with_data, &mut out)?;
                times.push(began.elapsed().as_nanos() as u64);
            }
        }
    }
    println!("\n{task:?}, batch {batch}, ns");
    println!("{:32} {:>9} {:>9} {:>9} {:>9} {:>9}", "", "p50", "p90", "p99", "p99.9", "p50 / loop");
    let mut loop_median = 0;
    for ((name, _), times) in entrants.iter().zip(&mut times) {
        times.sort_unstable();
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
        let median = at(0.5);
        loop_median = if loop_median == 0 { median.max(1) } else { loop_median };
        let ratio = median as f64 / loop_median as f64;
        println!("{name:32} {median:9} {:9} {:9} {:9} {ratio:9.2}", at(0.9), at(0.99), at(0.999));
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut settings =
        Settings { calls: 20_000, at_once: 50, batches: vec![1, 32], only: String::new(), with_data: true };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} has no value"));
        match argument.as_str() {
            "--help" => {
                print!("{HELP}");
                return Ok(());
            }
            "--calls" => settings.calls = value()?.parse()?,
            "--at-once" => settings.at_once = value()?.parse()?,
            "--batch" => settings.batches = vec![value()?.parse()?],
            "--only" => settings.only = value()?,
            "--no-data" => settings.with_data = false,
            _ => return Err(format!("there is no {argument}\n{HELP}").into()),
        }
    }
    if settings.calls == 0 || settings.at_once == 0 || settings.batches == [0] {
        return Err("calls and batches are counted from 1".into());
    }
    for task in [Task::Inference, Task::Training] {
        if task == Task::Training && !settings.with_data {
            continue;
        }
        for batch in &settings.batches {
            measure(task, *batch, &settings)?;
        }
    }
    Ok(())
}
