//! Networks from `networks.json`: which layers each has, and its weights.
//!
//! The file is the one place that says kernels, padding, activations, the initialiser, the loss and
//! the optimiser's numbers. All that trains or measures these networks reads it: `digits_train` and
//! what `perf/latency-nn` compares. A layer is an operator with as many weights as it has arguments
//! beside the data; the shapes of weights follow from the shape of the data.

use serde_json::Value;
use seriatim_tensor::operator::Op;
use seriatim_tensor::optimizer::Sgd;
use seriatim_tensor::{DType, Distribution, Error, NDArray, OpReq, Runtime, Shape};

const FILE: &str = include_str!("networks.json");
/// What the code below does, in the words of the file.
const INITIALISER: &str = "uniform within 1/sqrt(inputs of a unit), weights and biases";
const LOSS: &str = "softmax cross-entropy, mean of the batch";

/// An operator, and its parameters as MXNet writes them.
type Layer = (String, Vec<(String, String)>);

/// A network before it has weights.
#[derive(Clone, Debug)]
pub struct Plan {
    pub name: String,
    /// What the network is for: `digits` or `latency`.
    pub purpose: String,
    /// The shape of one image.
    pub input: Vec<usize>,
    /// How many numbers the weights are.
    pub parameters: usize,
    layers: Vec<Layer>,
}

/// How networks are trained.
#[derive(Clone, Copy, Debug)]
pub struct Training {
    rate: f64,
    momentum: f64,
    pub batch: usize,
    pub epochs: usize,
}

impl Training {
    /// Gradient descent with the momentum of the file.
    pub fn optimiser(&self) -> Result<Sgd, Error> {
        Sgd::new(self.rate, self.momentum, 0.0)
    }
}

fn whole(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|number| usize::try_from(number).ok())
}

/// A parameter as MXNet writes it: `relu`, `32`, `(3,3)`.
fn written(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(all) => {
            all.iter().map(written).collect::<Option<Vec<_>>>().map(|all| format!("({})", all.join(",")))
        }
        _ => None,
    }
}

fn layer(layer: &Value) -> Option<Layer> {
    let parameters = layer.as_object()?.iter().filter(|(name, _)| *name != "layer");
    let parameters = parameters.map(|(name, value)| Some((name.clone(), written(value)?)));
    Some((layer["layer"].as_str()?.to_owned(), parameters.collect::<Option<_>>()?))
}

fn plan(network: &Value) -> Option<Plan> {
    Some(Plan {
        name: network["name"].as_str()?.to_owned(),
        purpose: network["for"].as_str()?.to_owned(),
        input: network["input"].as_array()?.iter().map(whole).collect::<Option<_>>()?,
        parameters: whole(&network["parameters"])?,
        layers: network["layers"].as_array()?.iter().map(layer).collect::<Option<_>>()?,
    })
}

fn parsed(file: &Value) -> Option<(Vec<Plan>, Training)> {
    if (file["initialiser"].as_str()?, file["loss"].as_str()?) != (INITIALISER, LOSS) {
        return None;
    }
    let of = &file["training"];
    let training = Training {
        rate: of["rate"].as_f64()?,
        momentum: of["momentum"].as_f64()?,
        batch: whole(&of["batch"])?,
        epochs: whole(&of["epochs"])?,
    };
    Some((file["networks"].as_array()?.iter().map(plan).collect::<Option<_>>()?, training))
}

/// All networks of the file, and how they are trained.
pub fn read() -> Result<(Vec<Plan>, Training), String> {
    let file = serde_json::from_str(FILE).map_err(|error| format!("networks.json: {error}"))?;
    parsed(&file).ok_or_else(|| "networks.json says what this program does not know".to_owned())
}

/// Weights of a shape, uniform within a bound.
pub fn draw(runtime: &Runtime, shape: &Shape, bound: f64) -> Result<NDArray, Error> {
    runtime.random(shape, DType::F32, Distribution::Uniform { low: -bound, high: bound })
}

/// A network: its layers, each an operator with its weights, and the loss.
pub struct Network {
    layers: Vec<(Op, Vec<NDArray>)>,
    loss: Op,
}

impl Network {
    /// Has each weight made from its shape and the initialiser's bound: 1 / √inputs of a unit.
    ///
    /// # Errors
    /// Those of operators; a plan whose count of parameters is another.
    pub fn new(
        plan: &Plan,
        mut make: impl FnMut(&Shape, f64) -> Result<NDArray, Error>,
    ) -> Result<Network, Box<dyn std::error::Error>> {
        let (mut layers, mut data) = (Vec::new(), Shape::new(&[&[1], &plan.input[..]].concat())?);
        for (name, parameters) in &plan.layers {
            let parameters: Vec<(&str, &str)> = parameters.iter().map(|(key, value)| (&key[..], &value[..])).collect();
            let op = Op::new(name, &parameters)?;
            let mut inputs = vec![None; op.property().list_arguments().len()];
            let mut out = [None];
            inputs[0] = Some(data);
            op.property().infer_shape(&mut inputs, &mut out, &mut [])?;
            let mut weights = Vec::new();
            // The weight comes before its bias, and its axes but the first are the inputs of a
            // unit.
            let mut bound = 0.0;
            for shape in inputs[1..].iter().flatten() {
                if let [_, others @ ..] = shape.dims() {
                    bound =
                        if others.is_empty() { bound } else { 1.0 / (others.iter().product::<usize>() as f64).sqrt() };
                }
                let weight = make(shape, bound)?;
                weight.attach_grad(OpReq::Write)?;
                weights.push(weight);
            }
            layers.push((op, weights));
            data = out[0].unwrap_or(data);
        }
        let network = Network { layers, loss: Op::new("SoftmaxOutput", &[])? };
        let parameters: usize = network.weights().iter().map(|weight| weight.size()).sum();
        if parameters != plan.parameters {
            return Err(format!("{} has {parameters} parameters, and not {}", plan.name, plan.parameters).into());
        }
        Ok(network)
    }

    /// All weights, from the first layer on.
    pub fn weights(&self) -> Vec<&NDArray> {
        self.layers.iter().flat_map(|(_, weights)| weights).collect()
    }

    /// What comes out of the last layer.
    pub fn forward(&self, images: &NDArray) -> Result<NDArray, Error> {
        let mut data = images.clone();
        for (op, weights) in &self.layers {
            let inputs: Vec<&NDArray> = [&data].into_iter().chain(weights).collect();
            data = op.invoke(&inputs)?;
        }
        Ok(data)
    }

    /// The softmax of what comes out, whose gradient is that of the cross entropy with labels.
    pub fn loss(&self, images: &NDArray, labels: &NDArray) -> Result<NDArray, Error> {
        self.loss.invoke(&[&self.forward(images)?, labels])
    }
}
