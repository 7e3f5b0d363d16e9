//! What every entrant in Rust shares: it takes a problem, and turns of measured calls.
//!
//! The driver (`driver.rs`) writes a line of JSON and waits for the answer: a line of JSON, and as
//! many bytes as that says. Between turns an entrant sleeps while it reads. `entrants/serve.py` is
//! the same for Python. This file is compiled into the rivals, too, so it knows no library.

use serde_json::{json, Value};
use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Task {
    /// Probabilities of a batch, from data that is copied in to results that are copied out.
    Inference,
    /// Forward pass, backward pass and update of a batch, all done at its end.
    Training,
    /// All batches of the digits, in an order that is given.
    Epoch,
}

impl Task {
    pub const ALL: [Task; 3] = [Task::Inference, Task::Training, Task::Epoch];

    pub fn name(self) -> &'static str {
        match self {
            Task::Inference => "inference",
            Task::Training => "training",
            Task::Epoch => "epoch",
        }
    }

    pub fn named(name: &str) -> Option<Task> {
        Task::ALL.into_iter().find(|task| task.name() == name)
    }
}

/// A network, its first weights, and what it is to do.
pub struct Problem {
    pub task: Task,
    pub batch: usize,
    /// Whether an inference finds its data in place, and leaves its result there.
    pub is_in_place: bool,
    pub name: String,
    /// The network and `training`, as in `networks.json`.
    pub network: Value,
    pub training: Value,
    pub input: Vec<usize>,
    /// Weight and bias of each layer that has them.
    pub weights: Vec<Array>,
    data: Vec<f32>,
    labels: Vec<f32>,
    orders: Vec<Vec<usize>>,
}

/// Shape and values.
type Array = (Vec<usize>, Vec<f32>);

/// The arrays of a file of safetensors in `f32`, by name.
fn arrays(path: &str) -> Result<HashMap<String, Array>, Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let (length, rest) = bytes.split_first_chunk::<8>().ok_or("a file without a head")?;
    let length = usize::try_from(u64::from_le_bytes(*length))?;
    let header: Value = serde_json::from_slice(rest.get(..length).ok_or("a head without an end")?)?;
    let values = &rest[length..];
    let mut found = HashMap::new();
    for (name, entry) in header.as_object().ok_or("a head that is no object")? {
        if name == "__metadata__" {
            continue;
        }
        let numbers = |value: &Value| -> Vec<usize> {
            value.as_array().into_iter().flatten().filter_map(Value::as_u64).map(|number| number as usize).collect()
        };
        let [begin, end] = numbers(&entry["data_offsets"])[..] else { return Err("no offsets".into()) };
        let bytes = values.get(begin..end).ok_or("values beyond the end")?;
        let numbers_of =
            bytes.chunks_exact(4).map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect();
        found.insert(name.clone(), (numbers(&entry["shape"]), numbers_of));
    }
    Ok(found)
}

impl Problem {
    fn read(order: &Value) -> Result<Problem, Box<dyn Error>> {
        let text = |key: &str| order[key].as_str().ok_or_else(|| format!("no {key}"));
        let networks: Value = serde_json::from_str(&std::fs::read_to_string(text("networks")?)?)?;
        let name = text("network")?.to_owned();
        let all = networks["networks"].as_array().into_iter().flatten();
        let network = all.into_iter().find(|network| network["name"] == name.as_str()).ok_or("no such network")?;
        let task = Task::named(text("task")?).ok_or("no such task")?;
        let mut arrays = arrays(text("data")?)?;
        let mut taken = |name: &str| arrays.remove(name).unwrap_or_default();
        let mut weights = Vec::new();
        loop {
            let weight = taken(&format!("weight.{}", weights.len()));
            if weight.0.is_empty() {
                break;
            }
            weights.push(weight);
        }
        let (shape, order_of) = taken("orders");
        let orders = order_of.chunks(*shape.last().unwrap_or(&1));
        let problem = Problem {
            task,
            batch: order["batch"].as_u64().ok_or("no batch")? as usize,
            is_in_place: order["in_place"] == true,
            name,
            network: network.clone(),
            training: networks["training"].clone(),
            input: network["input"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_u64)
                .map(|n| n as usize)
                .collect(),
            weights,
            data: taken(if task == Task::Epoch { "images" } else { "data" }).1,
            labels: taken("labels").1,
            orders: orders.map(|order| order.iter().map(|row| *row as usize).collect()).collect(),
        };
        if network["parameters"] != problem.parameters() {
            return Err(format!("{} has {} parameters", problem.name, problem.parameters()).into());
        }
        Ok(problem)
    }

    pub fn parameters(&self) -> usize {
        self.weights.iter().map(|(_, values)| values.len()).sum()
    }

    /// How many numbers an image is.
    pub fn pixels(&self) -> usize {
        self.input.iter().product()
    }

    pub fn rate(&self) -> f64 {
        self.training["rate"].as_f64().unwrap_or_default()
    }

    pub fn momentum(&self) -> f64 {
        self.training["momentum"].as_f64().unwrap_or_default()
    }

    /// The layers: the name of each, and itself.
    pub fn layers(&self) -> impl Iterator<Item = (&str, &Value)> {
        let layers = self.network["layers"].as_array();
        layers.into_iter().flatten().map(|layer| (layer["layer"].as_str().unwrap_or_default(), layer))
    }

    /// The sizes of the batches: an epoch may end with a smaller one.
    pub fn sizes(&self) -> Vec<usize> {
        let last = match (self.task, self.orders.first()) {
            (Task::Epoch, Some(order)) => order.len() % self.batch,
            _ => 0,
        };
        [self.batch, last].into_iter().filter(|size| *size > 0).collect()
    }

    /// A batch to begin with.
    pub fn example(&self, size: usize) -> (&[f32], &[f32]) {
        (&self.data[..size * self.pixels()], &self.labels[..size])
    }
}

/// A library with a network.
pub trait Entrant {
    /// Writes the probabilities of a batch.
    fn infer(&mut self, data: &[f32], out: &mut [f32]) -> Result<(), Box<dyn Error>>;
    /// Does a step, and waits for all of it.
    fn train(&mut self, data: &[f32], labels: &[f32]) -> Result<(), Box<dyn Error>>;
    /// All weights, as they lie in the file.
    fn weights(&self) -> Result<Vec<Vec<f32>>, Box<dyn Error>>;
    /// More about it.
    fn note(&self) -> Option<String> {
        None
    }
}

struct Opened {
    problem: Problem,
    entrant: Box<dyn Entrant>,
    calls: usize,
    out: Vec<f32>,
    gathered: (Vec<f32>, Vec<f32>),
}

impl Opened {
    fn call(&mut self) -> Result<(), Box<dyn Error>> {
        let Problem { task, batch, data, labels, orders, .. } = &self.problem;
        let pixels = self.problem.pixels();
        let number = self.calls;
        self.calls += 1;
        if *task == Task::Epoch {
            let (rows, digits) = &mut self.gathered;
            for chosen in orders[number % orders.len()].chunks(*batch) {
                rows.clear();
                digits.clear();
                for row in chosen {
                    rows.extend_from_slice(&data[row * pixels..][..pixels]);
                    digits.push(labels[*row]);
                }
                self.entrant.train(rows, digits)?;
            }
            return Ok(());
        }
        let number = number % (labels.len() / batch);
        let data = &data[number * batch * pixels..][..batch * pixels];
        match task {
            Task::Inference => self.entrant.infer(data, &mut self.out),
            _ => self.entrant.train(data, &labels[number * batch..][..*batch]),
        }
    }

    fn compare(&mut self, calls: usize) -> Result<Vec<u8>, Box<dyn Error>> {
        (0..calls).try_for_each(|_| self.call())?;
        let values = match self.problem.task {
            Task::Inference => self.out.clone(),
            _ => self.entrant.weights()?.concat(),
        };
        Ok(values.into_iter().flat_map(f32::to_le_bytes).collect())
    }

    fn turn(&mut self, warm: usize, calls: usize, most: Duration) -> Result<Vec<u8>, Box<dyn Error>> {
        let start = Instant::now();
        for _ in 0..warm {
            self.call()?;
            if start.elapsed() > most / 4 {
                break;
            }
        }
        let mut times = Vec::with_capacity(calls);
        while times.len() < calls {
            let began = Instant::now();
            self.call()?;
            let ended = Instant::now();
            times.push(u32::try_from((ended - began).as_nanos()).unwrap_or(u32::MAX));
            if ended - start > most {
                break;
            }
        }
        Ok(times.into_iter().flat_map(u32::to_le_bytes).collect())
    }
}

/// Answers the driver until it closes the pipe. An entrant that has no such thing says so with an
/// error.
pub fn serve(
    version: &str,
    make: impl Fn(&Problem) -> Result<Box<dyn Entrant>, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    if let Some(core) = std::env::var("LATENCY_NN_CORE").ok().and_then(|core| core.parse().ok()) {
        core_affinity::set_for_current(core_affinity::CoreId { id: core });
    }
    let (mut opened, mut answers) = (HashMap::<u64, Opened>::new(), std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let order: Value = serde_json::from_str(&line?)?;
        let number = |key: &str| order[key].as_u64().unwrap_or_default();
        let (id, mut raw) = (number("id"), Vec::new());
        let answer = if order["do"] == "open" {
            let problem = Problem::read(&order)?;
            match make(&problem) {
                Ok(entrant) => {
                    let said = json!({"parameters": problem.parameters(), "version": version, "note": entrant.note()});
                    let out = vec![0.0; problem.batch * 10];
                    opened.insert(id, Opened { problem, entrant, calls: 0, out, gathered: Default::default() });
                    said
                }
                Err(why) => json!({"skip": why.to_string()}),
            }
        } else {
            let one = opened.get_mut(&id).ok_or("a problem that was not opened")?;
            raw = match order["do"].as_str() {
                Some("compare") => one.compare(number("calls") as usize)?,
                _ => {
                    let most = Duration::from_millis(number("ms"));
                    one.turn(number("warm") as usize, number("calls") as usize, most)?
                }
            };
            json!({"bytes": raw.len()})
        };
        writeln!(answers, "{answer}")?;
        answers.write_all(&raw)?;
        answers.flush()?;
    }
    Ok(())
}
