//! The networks on burn, by its functions on tensors: modules would add to them.

use crate::pair;
use crate::serve::{Entrant, Problem, Task};
use burn::backend::Autodiff;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Int, Tensor, TensorData, activation, module};

type Made<T> = Result<T, Box<dyn std::error::Error>>;

enum Layer<B: Backend> {
    Convolution(Tensor<B, 4>, Tensor<B, 1>, [usize; 2]),
    /// Weights lie with the inputs first.
    Dense(Tensor<B, 2>, Tensor<B, 1>),
    Relu,
    Tanh,
    Pooling([usize; 2], [usize; 2]),
}

enum Value<B: Backend> {
    Image(Tensor<B, 4>),
    Flat(Tensor<B, 2>),
}

struct Network<B: Backend> {
    layers: Vec<Layer<B>>,
    input: Vec<usize>,
    device: B::Device,
}

impl<B: Backend> Network<B> {
    fn new(problem: &Problem) -> Made<Network<B>> {
        let (mut layers, mut weights, device) = (Vec::new(), problem.weights.iter(), B::Device::default());
        let mut weight = || -> Made<TensorData> {
            let (shape, values) = weights.next().ok_or("too few weights")?;
            Ok(TensorData::new(values.clone(), shape.clone()))
        };
        for (name, layer) in problem.layers() {
            layers.push(match name {
                "Convolution" => {
                    let (weight, bias) = (weight()?, weight()?);
                    let (weight, bias) = (Tensor::from_data(weight, &device), Tensor::from_data(bias, &device));
                    Layer::Convolution(weight, bias, pair(layer, "pad")?)
                }
                "FullyConnected" => {
                    let (weight, bias) = (weight()?, weight()?);
                    let weight = Tensor::<B, 2>::from_data(weight, &device).transpose();
                    // Laid out anew, and not only seen so.
                    let weight = Tensor::from_data(weight.into_data(), &device);
                    Layer::Dense(weight, Tensor::from_data(bias, &device))
                }
                "Pooling" => Layer::Pooling(pair(layer, "kernel")?, pair(layer, "stride")?),
                "Activation" if layer["act_type"] == "tanh" => Layer::Tanh,
                "Activation" if layer["act_type"] == "relu" => Layer::Relu,
                _ => return Err(format!("no {layer}").into()),
            });
        }
        Ok(Network { layers, input: problem.input.clone(), device })
    }

    fn forward(&self, data: &[f32]) -> Tensor<B, 2> {
        let images = data.len() / self.input.iter().product::<usize>();
        let values = TensorData::new(data.to_vec(), [&[images], &self.input[..]].concat());
        let mut x = match self.input.len() {
            1 => Value::Flat(Tensor::from_data(values, &self.device)),
            _ => Value::Image(Tensor::from_data(values, &self.device)),
        };
        for layer in &self.layers {
            x = match (layer, x) {
                (Layer::Convolution(weight, bias, pad), Value::Image(x)) => {
                    let options = ConvOptions::new([1, 1], *pad, [1, 1], 1);
                    Value::Image(module::conv2d(x, weight.clone(), Some(bias.clone()), options))
                }
                (Layer::Pooling(kernel, stride), Value::Image(x)) => {
                    Value::Image(module::max_pool2d(x, *kernel, *stride, [0, 0], [1, 1], false))
                }
                (Layer::Dense(weight, bias), Value::Image(x)) => {
                    Value::Flat(module::linear(x.flatten::<2>(1, 3), weight.clone(), Some(bias.clone())))
                }
                (Layer::Dense(weight, bias), Value::Flat(x)) => {
                    Value::Flat(module::linear(x, weight.clone(), Some(bias.clone())))
                }
                (Layer::Relu, Value::Image(x)) => Value::Image(activation::relu(x)),
                (Layer::Relu, Value::Flat(x)) => Value::Flat(activation::relu(x)),
                (Layer::Tanh, Value::Image(x)) => Value::Image(activation::tanh(x)),
                (Layer::Tanh, Value::Flat(x)) => Value::Flat(activation::tanh(x)),
                (Layer::Convolution(..) | Layer::Pooling(..), Value::Flat(_)) => {
                    unreachable!("images come before what is flat")
                }
            };
        }
        match x {
            Value::Image(x) => x.flatten::<2>(1, 3),
            Value::Flat(x) => x,
        }
    }
}

/// Inference.
struct Infers<B: Backend>(Network<B>);

impl<B: Backend> Entrant for Infers<B> {
    fn infer(&mut self, data: &[f32], out: &mut [f32]) -> Made<()> {
        let probabilities = activation::softmax(self.0.forward(data), 1).into_data();
        out.copy_from_slice(probabilities.as_slice::<f32>().map_err(|error| format!("{error:?}"))?);
        Ok(())
    }

    fn train(&mut self, _: &[f32], _: &[f32]) -> Made<()> {
        Err("it infers".into())
    }

    fn weights(&self) -> Made<Vec<Vec<f32>>> {
        Err("it does not train".into())
    }
}

/// A weight, its momentum, and the step by the gradient.
fn step<B: AutodiffBackend, const D: usize>(
    weight: &mut Tensor<B, D>,
    momentum: &mut Option<Tensor<B::InnerBackend, D>>,
    gradients: &B::Gradients,
    (rate, decay): (f64, f64),
) -> Made<()> {
    let by = weight.grad(gradients).ok_or("a weight without a gradient")?.mul_scalar(-rate);
    let moved = match momentum.take() {
        Some(momentum) => momentum.mul_scalar(decay) + by,
        None => by,
    };
    *weight = Tensor::from_inner(weight.clone().inner() + moved.clone()).require_grad();
    *momentum = Some(moved);
    Ok(())
}

/// The momenta of a weight and its bias.
enum Momenta<B: Backend> {
    Convolution(Option<Tensor<B, 4>>, Option<Tensor<B, 1>>),
    Dense(Option<Tensor<B, 2>>, Option<Tensor<B, 1>>),
    None,
}

/// Training.
struct Trains<B: AutodiffBackend> {
    network: Network<B>,
    momenta: Vec<Momenta<B::InnerBackend>>,
    rates: (f64, f64),
}

impl<B: AutodiffBackend> Trains<B> {
    fn new(problem: &Problem) -> Made<Trains<B>> {
        let (mut network, mut momenta) = (Network::<B>::new(problem)?, Vec::new());
        for layer in &mut network.layers {
            momenta.push(match layer {
                Layer::Convolution(weight, bias, _) => {
                    (*weight, *bias) = (weight.clone().require_grad(), bias.clone().require_grad());
                    Momenta::Convolution(None, None)
                }
                Layer::Dense(weight, bias) => {
                    (*weight, *bias) = (weight.clone().require_grad(), bias.clone().require_grad());
                    Momenta::Dense(None, None)
                }
                _ => Momenta::None,
            });
        }
        Ok(Trains { network, momenta, rates: (problem.rate(), problem.momentum()) })
    }
}

impl<B: AutodiffBackend> Entrant for Trains<B> {
    fn infer(&mut self, _: &[f32], _: &mut [f32]) -> Made<()> {
        Err("it trains".into())
    }

    fn train(&mut self, data: &[f32], labels: &[f32]) -> Made<()> {
        let scores = self.network.forward(data);
        let labels: Vec<i64> = labels.iter().map(|label| *label as i64).collect();
        let count = labels.len();
        let labels = Tensor::<B, 2, Int>::from_data(TensorData::new(labels, [count, 1]), &self.network.device);
        let loss = activation::log_softmax(scores, 1).gather(1, labels).mean().neg();
        let gradients = loss.backward();
        for (layer, momenta) in self.network.layers.iter_mut().zip(&mut self.momenta) {
            match (layer, momenta) {
                (Layer::Convolution(weight, bias, _), Momenta::Convolution(first, second)) => {
                    step(weight, first, &gradients, self.rates)?;
                    step(bias, second, &gradients, self.rates)?;
                }
                (Layer::Dense(weight, bias), Momenta::Dense(first, second)) => {
                    step(weight, first, &gradients, self.rates)?;
                    step(bias, second, &gradients, self.rates)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn weights(&self) -> Made<Vec<Vec<f32>>> {
        let mut all = Vec::new();
        for layer in &self.network.layers {
            let (weight, bias) = match layer {
                Layer::Convolution(weight, bias, _) => (weight.to_data(), bias.to_data()),
                Layer::Dense(weight, bias) => (weight.clone().transpose().to_data(), bias.to_data()),
                _ => continue,
            };
            for data in [weight, bias] {
                all.push(data.to_vec::<f32>().map_err(|error| format!("{error:?}"))?);
            }
        }
        Ok(all)
    }
}

/// A problem on a backend.
pub fn open<B: Backend + 'static>(problem: &Problem) -> Made<Box<dyn Entrant>>
where
    Autodiff<B>: AutodiffBackend,
{
    Ok(match problem.task {
        Task::Inference => Box::new(Infers(Network::<B>::new(problem)?)),
        _ => Box::new(Trains::<Autodiff<B>>::new(problem)?),
    })
}
