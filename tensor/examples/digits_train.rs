//! Trains a perceptron of 64, 32 and 10 units to read handwritten digits: the first 1,500 images of
//! `digits/data/digits.csv.gz` to fit, the last 297 to test, with five seeds.
//!
//!     cargo run --release -p seriatim-tensor --example digits_train
//!     … -- --epochs 30 --seeds 5 --trace trace.json
//!
//! Thirty epochs, batches of 32, a learning rate of 0.05 and a momentum of 0.9, tanh between the
//! layers. It prints a line a seed, and ends with an error if the median of the seeds has fewer
//! than 274 right.

use seriatim::Engine;
use seriatim_tensor::operator::Op;
use seriatim_tensor::optimizer::Sgd;
use seriatim_tensor::{autograd, DType, Distribution, NDArray, OpReq, Runtime};
use std::error::Error;
use std::io::Read;
use std::time::Instant;

const FIT: usize = 1500;
const TEST: usize = 297;
const PIXELS: usize = 64;
const HIDDEN: usize = 32;
const CLASSES: usize = 10;
const BATCH: usize = 32;
/// What the best of PyTorch, MXNet and scikit-learn gets on this network, by the median of seeds.
const ENOUGH: usize = 274;

/// Pixels from 0 to 1, and the digits, of all images.
fn read() -> Result<(Vec<f32>, Vec<f32>), Box<dyn Error>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../digits/data/digits.csv.gz");
    let (mut text, mut pixels, mut labels) = (String::new(), Vec::new(), Vec::new());
    flate2::read::GzDecoder::new(std::fs::File::open(path)?).read_to_string(&mut text)?;
    for line in text.lines() {
        let numbers = line.split(',').map(str::parse).collect::<Result<Vec<f32>, _>>()?;
        let [image @ .., label] = &numbers[..] else { continue };
        pixels.extend(image.iter().map(|grey| grey / 16.0));
        labels.push(*label);
    }
    if (pixels.len(), labels.len()) != ((FIT + TEST) * PIXELS, FIT + TEST) {
        return Err(format!("{path} has {} images", labels.len()).into());
    }
    Ok((pixels, labels))
}

/// The network: two layers of weights, and the operators between them.
struct Network {
    weights: [NDArray; 4],
    layers: [Op; 2],
    activation: Op,
    loss: Op,
}

impl Network {
    /// Weights of a uniform distribution within 1 / √inputs, biases of zero.
    fn new(runtime: &Runtime) -> Result<Network, seriatim_tensor::Error> {
        let layer = |to: usize, from: usize| {
            let bound = 1.0 / (from as f64).sqrt();
            runtime.random([to, from], DType::F32, Distribution::Uniform { low: -bound, high: bound })
        };
        let zeros = |count: usize| runtime.zeros([count], DType::F32);
        let weights = [layer(HIDDEN, PIXELS)?, zeros(HIDDEN)?, layer(CLASSES, HIDDEN)?, zeros(CLASSES)?];
        for weight in &weights {
            weight.attach_grad(OpReq::Write)?;
        }
        let layer = |units: usize| Op::new("FullyConnected", &[("num_hidden", &units.to_string())]);
        Ok(Network {
            weights,
            layers: [layer(HIDDEN)?, layer(CLASSES)?],
            activation: Op::new("Activation", &[("act_type", "tanh")])?,
            loss: Op::new("SoftmaxOutput", &[])?,
        })
    }

    /// What comes out of the last layer.
    fn forward(&self, data: &NDArray) -> Result<NDArray, seriatim_tensor::Error> {
        let [w1, b1, w2, b2] = &self.weights;
        let hidden = self.activation.invoke(&[&self.layers[0].invoke(&[data, w1, b1])?])?;
        self.layers[1].invoke(&[&hidden, w2, b2])
    }
}

/// Trains with a seed; returns how many of the test images are read right, and milliseconds an
/// epoch.
fn train(
    runtime: &Runtime,
    seed: u64,
    epochs: usize,
    images: &(Vec<f32>, Vec<f32>),
) -> Result<(usize, f64), Box<dyn Error>> {
    let (pixels, labels) = images;
    runtime.seed(seed)?;
    let network = Network::new(runtime)?;
    let test = runtime.from_slice(&pixels[FIT * PIXELS..], [TEST, PIXELS])?;
    let (best, weights) = (Op::new("argmax", &[("axis", "1")])?, network.weights.each_ref());
    let mut sgd = Sgd::new(0.05, 0.9, 0.0)?;
    let (mut right, mut milliseconds) = (0, 0.0);
    for epoch in 1..=epochs {
        let began = Instant::now();
        let order = runtime.permutation(FIT)?.to_vec::<i64>()?;
        for chosen in order.chunks(BATCH) {
            let rows = chosen.iter().flat_map(|row| &pixels[*row as usize * PIXELS..][..PIXELS]);
            let data = runtime.from_slice(&rows.copied().collect::<Vec<f32>>(), [chosen.len(), PIXELS])?;
            let digits: Vec<f32> = chosen.iter().map(|row| labels[*row as usize]).collect();
            let label = runtime.from_slice(&digits, [chosen.len()])?;
            let out = autograd::record(|| network.loss.invoke(&[&network.forward(&data)?, &label]))?;
            autograd::backward(&[&out])?;
            sgd.step(&weights, 1.0 / chosen.len() as f64)?;
        }
        runtime.wait_all()?;
        milliseconds += began.elapsed().as_secs_f64() * 1e3;
        let read = best.invoke(&[&network.forward(&test)?])?.to_vec::<f32>()?;
        right = read.iter().zip(&labels[FIT..]).filter(|(read, label)| read == label).count();
        eprint!("\rseed {seed}, epoch {epoch:2} of {epochs}: {right} of {TEST} right");
    }
    Ok((right, milliseconds / epochs as f64))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut epochs, mut seeds, mut trace) = (30, 5, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{argument} has no value"))?;
        match argument.as_str() {
            "--epochs" => epochs = value.parse()?,
            "--seeds" => seeds = value.parse()?,
            "--trace" => trace = Some(value),
            _ => return Err(format!("there is no {argument}: known are --epochs, --seeds, --trace").into()),
        }
    }
    let images = read()?;
    let engine = Engine::new()?;
    if trace.is_some() {
        engine.start_profiling();
    }
    let runtime = Runtime::new(&engine);
    println!("{} parameters", PIXELS * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES);
    let mut all = Vec::new();
    for seed in 0..seeds {
        let (right, milliseconds) = train(&runtime, seed, epochs, &images)?;
        println!("\rseed {seed}: {right} of {TEST} right, {milliseconds:.2} ms an epoch          ");
        all.push(right);
    }
    all.sort_unstable();
    let median = all.get(all.len() / 2).copied().unwrap_or_default();
    println!("median: {median} of {TEST} right");
    if let Some(path) = trace {
        engine.profile().write_chrome_trace(std::io::BufWriter::new(std::fs::File::create(path)?))?;
    }
    if epochs >= 30 && median < ENOUGH {
        return Err(format!("the median is {median}, and {ENOUGH} was expected").into());
    }
    Ok(())
}
