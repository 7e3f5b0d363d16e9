//! The networks on candle. It has no momentum of its own: the update is four operations a weight.

use crate::pair;
use crate::serve::{Entrant, Problem, Task};
use candle_core::{D, Device, Module, Tensor, Var};
use candle_nn::{Conv2d, Conv2dConfig, Linear, loss, ops};

type Made<T> = Result<T, Box<dyn std::error::Error>>;

enum Layer {
    Convolution(Conv2d),
    Dense(Linear),
    Relu,
    Tanh,
    Pooling([usize; 2], [usize; 2]),
}

pub struct Candle {
    layers: Vec<Layer>,
    /// Weights that are trained, each with its momentum.
    trained: Vec<(Var, Tensor)>,
    input: Vec<usize>,
    rate: f64,
    momentum: f64,
}

impl Candle {
    pub fn new(problem: &Problem) -> Made<Candle> {
        let (mut layers, mut trained, mut weights) = (Vec::new(), Vec::new(), problem.weights.iter());
        let mut weight = || -> Made<Tensor> {
            let (shape, values) = weights.next().ok_or("too few weights")?;
            let tensor = Tensor::from_slice(values, &shape[..], &Device::Cpu)?;
            if problem.task == Task::Inference {
                return Ok(tensor);
            }
            let variable = Var::from_tensor(&tensor)?;
            let tensor = variable.as_tensor().clone();
            trained.push((variable, tensor.zeros_like()?));
            Ok(tensor)
        };
        for (name, layer) in problem.layers() {
            layers.push(match name {
                "Convolution" => {
                    let [padding, _] = pair(layer, "pad")?;
                    let config = Conv2dConfig { padding, ..Conv2dConfig::default() };
                    Layer::Convolution(Conv2d::new(weight()?, Some(weight()?), config))
                }
                "FullyConnected" => Layer::Dense(Linear::new(weight()?, Some(weight()?))),
                "Pooling" => Layer::Pooling(pair(layer, "kernel")?, pair(layer, "stride")?),
                "Activation" if layer["act_type"] == "tanh" => Layer::Tanh,
                "Activation" if layer["act_type"] == "relu" => Layer::Relu,
                _ => return Err(format!("no {layer}").into()),
            });
        }
        let (rate, momentum) = (problem.rate(), problem.momentum());
        Ok(Candle { layers, trained, input: problem.input.clone(), rate, momentum })
    }

    fn forward(&self, data: &[f32]) -> candle_core::Result<Tensor> {
        let images = data.len() / self.input.iter().product::<usize>();
        let mut x = Tensor::from_slice(data, [&[images], &self.input[..]].concat(), &Device::Cpu)?;
        for layer in &self.layers {
            x = match layer {
                Layer::Convolution(layer) => layer.forward(&x)?,
                Layer::Dense(layer) if x.rank() > 2 => layer.forward(&x.flatten_from(1)?)?,
                Layer::Dense(layer) => layer.forward(&x)?,
                Layer::Relu => x.relu()?,
                Layer::Tanh => x.tanh()?,
                Layer::Pooling([high, wide], [down, right]) => {
                    x.max_pool2d_with_stride((*high, *wide), (*down, *right))?
                }
            };
        }
        Ok(x)
    }
}

impl Entrant for Candle {
    fn infer(&mut self, data: &[f32], out: &mut [f32]) -> Made<()> {
        let probabilities = ops::softmax_last_dim(&self.forward(data)?)?;
        out.copy_from_slice(&probabilities.flatten_all()?.to_vec1::<f32>()?);
        Ok(())
    }

    fn train(&mut self, data: &[f32], labels: &[f32]) -> Made<()> {
        let labels: Vec<u32> = labels.iter().map(|label| *label as u32).collect();
        let labels = Tensor::from_vec(labels.clone(), labels.len(), &Device::Cpu)?;
        let scores = self.forward(data)?;
        debug_assert_eq!(scores.dim(D::Minus1)?, 10);
        let gradients = loss::cross_entropy(&scores, &labels)?.backward()?;
        for (variable, momentum) in &mut self.trained {
            let gradient = gradients.get(variable).ok_or("a weight without a gradient")?;
            *momentum = ((&*momentum * self.momentum)? - (gradient * self.rate)?)?.detach();
            variable.set(&(variable.as_tensor() + &*momentum)?)?;
        }
        Ok(())
    }

    fn weights(&self) -> Made<Vec<Vec<f32>>> {
        let all = self.trained.iter().map(|(variable, _)| variable.flatten_all()?.to_vec1());
        Ok(all.collect::<candle_core::Result<_>>()?)
    }
}
