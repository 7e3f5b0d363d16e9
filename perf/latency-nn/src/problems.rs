//! What entrants are given: weights and data of each network, drawn from a seed or read, in files.

use crate::driver::Question;
use crate::nets::{self, Network, Plan, Training};
use crate::serve::Task;
use seriatim_tensor::{save_safetensors, DType, Distribution, NDArray, Runtime};
use std::error::Error;
use std::io::Read;
use std::path::Path;

/// How many batches there are, and orders of the digits.
const BATCHES: usize = 16;
const CLASSES: i64 = 10;
/// How many of the digits are to fit.
const FIT: usize = 1500;

/// Greys from 0 to 1, and the digits.
fn digits() -> Result<(Vec<f32>, Vec<f32>), Box<dyn Error>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../digits/data/digits.csv.gz");
    let (mut text, mut pixels, mut labels) = (String::new(), Vec::new(), Vec::new());
    flate2::read::GzDecoder::new(std::fs::File::open(path)?).read_to_string(&mut text)?;
    for line in text.lines().take(FIT) {
        let numbers = line.split(',').map(str::parse).collect::<Result<Vec<f32>, _>>()?;
        let [image @ .., label] = &numbers[..] else { continue };
        pixels.extend(image.iter().map(|grey| grey / 16.0));
        labels.push(*label);
    }
    Ok((pixels, labels))
}

/// Writes the file of a question.
fn write(runtime: &Runtime, plan: &Plan, question: &Question) -> Result<(), Box<dyn Error>> {
    let network = Network::new(plan, |shape, bound| nets::draw(runtime, shape, bound))?;
    let mut arrays: Vec<(String, NDArray)> = Vec::new();
    for (number, weight) in network.weights().into_iter().enumerate() {
        arrays.push((format!("weight.{number}"), weight.clone()));
    }
    let mut add = |name: &str, array: NDArray| arrays.push((name.to_owned(), array));
    if question.task == Task::Epoch {
        let (pixels, labels) = digits()?;
        add("images", runtime.from_slice(&pixels, [&[FIT], &plan.input[..]].concat())?);
        add("labels", runtime.from_slice(&labels, [FIT])?);
        let mut orders = Vec::new();
        for _ in 0..BATCHES {
            orders.extend(runtime.permutation(FIT)?.to_vec::<i64>()?.into_iter().map(|row| row as f32));
        }
        add("orders", runtime.from_slice(&orders, [BATCHES, FIT])?);
    } else {
        // Where gradients go to 0, momenta become numbers that processors are slow with. So data is
        // on both sides of 0, and each image comes with two labels: no network fits both.
        let images = BATCHES / 2 * question.batch;
        let of_data = Distribution::Uniform { low: -1.0, high: 1.0 };
        let data = runtime.random([&[images], &plan.input[..]].concat(), DType::F32, of_data)?.to_vec::<f32>()?;
        add("data", runtime.from_slice(&data.repeat(2), [&[2 * images], &plan.input[..]].concat())?);
        let of_labels = Distribution::Whole { low: 0, high: CLASSES };
        let mut labels = runtime.random([images], DType::F32, of_labels)?.to_vec::<f32>()?;
        labels.extend_from_within(..);
        labels[images..].iter_mut().for_each(|label| *label = (*label + 5.0) % CLASSES as f32);
        add("labels", runtime.from_slice(&labels, [2 * images])?);
    }
    let arrays: Vec<(&str, &NDArray)> = arrays.iter().map(|(name, array)| (&name[..], array)).collect();
    save_safetensors(&question.data, &arrays)?;
    Ok(())
}

/// All questions that are wanted, with their files in a folder.
pub fn make(
    folder: &Path,
    runtime: &Runtime,
    (plans, training): (&[Plan], &Training),
    is_wanted: impl Fn(&str, Task, usize) -> bool,
) -> Result<Vec<Question>, Box<dyn Error>> {
    let mut questions = Vec::new();
    for plan in plans {
        let tasks = match &plan.purpose[..] {
            "latency" => [Task::Inference, Task::Training].iter().flat_map(|task| [(*task, 1), (*task, 32)]).collect(),
            _ => vec![(Task::Epoch, training.batch)],
        };
        for (task, batch) in tasks.into_iter().filter(|(task, batch)| is_wanted(&plan.name, *task, *batch)) {
            let data = folder.join(format!("{}-{}-{batch}.safetensors", plan.name, task.name()));
            let data = data.to_str().ok_or("the path of the target folder is no text")?.to_owned();
            let question = Question { network: plan.name.clone(), task, batch, data };
            runtime.seed(1)?;
            write(runtime, plan, &question)?;
            questions.push(question);
        }
    }
    Ok(questions)
}
