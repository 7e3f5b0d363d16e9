//! Networks as plain loops, each written for one network: what a person would write who needs no
//! other. Where the processor has AVX2, the loops are compiled for it, as the kernels of
//! `seriatim-tensor` are.

mod dense;
mod lenet;
mod perceptron;

use crate::serve::{Entrant, Problem, Task};
use std::collections::BTreeMap;
use std::error::Error;

pub const CLASSES: usize = 10;

/// What update needs: the rate, the momentum, and by what gradients are multiplied.
#[derive(Clone, Copy)]
struct Update {
    rate: f32,
    momentum: f32,
    rescale: f32,
}

impl Update {
    #[inline(always)]
    fn each(self, weights: &mut [f32], grads: &mut [f32], momenta: &mut [f32]) {
        for ((weight, grad), momentum) in weights.iter_mut().zip(grads).zip(momenta) {
            let next = self.momentum * *momentum - self.rate * (*grad * self.rescale);
            // As the arrays' updates do: processors are slow with numbers that are not normal.
            *momentum = if next.abs() < f32::MIN_POSITIVE { 0.0 } else { next };
            *weight += next;
            *grad = 0.0;
        }
    }
}

/// A network of its own.
trait Loops {
    /// Writes the probabilities of each row.
    fn infer_rows(&mut self, data: &[f32], out: &mut [f32]);
    /// Does a step.
    fn train_rows(&mut self, data: &[f32], labels: &[f32], update: Update);
    /// As they lie in the file.
    fn weights(&self) -> Vec<Vec<f32>>;
}

/// The loops of a network, compiled for what the processor has.
struct Plain<L> {
    network: Box<L>,
    update: Update,
    is_wide: bool,
}

impl<L: Loops> Entrant for Plain<L> {
    fn infer(&mut self, data: &[f32], out: &mut [f32]) -> Result<(), Box<dyn Error>> {
        #[cfg(target_arch = "x86_64")]
        if self.is_wide {
            #[target_feature(enable = "avx2,fma")]
            unsafe fn wide(network: &mut impl Loops, data: &[f32], out: &mut [f32]) {
                network.infer_rows(data, out);
            }
            // SAFETY: the processor has both, as `open` has found.
            unsafe { wide(&mut *self.network, data, out) };
            return Ok(());
        }
        self.network.infer_rows(data, out);
        Ok(())
    }

    fn train(&mut self, data: &[f32], labels: &[f32]) -> Result<(), Box<dyn Error>> {
        let update = Update { rescale: 1.0 / labels.len() as f32, ..self.update };
        #[cfg(target_arch = "x86_64")]
        if self.is_wide {
            #[target_feature(enable = "avx2,fma")]
            unsafe fn wide(network: &mut impl Loops, data: &[f32], labels: &[f32], update: Update) {
                network.train_rows(data, labels, update);
            }
            // SAFETY: the processor has both, as `open` has found.
            unsafe { wide(&mut *self.network, data, labels, update) };
            return Ok(());
        }
        self.network.train_rows(data, labels, update);
        Ok(())
    }

    fn weights(&self) -> Result<Vec<Vec<f32>>, Box<dyn Error>> {
        Ok(self.network.weights())
    }
}

/// The loops of a problem.
///
/// # Errors
/// There are none for its network.
pub fn open(problem: &Problem) -> Result<Box<dyn Entrant>, Box<dyn Error>> {
    #[cfg(target_arch = "x86_64")]
    let is_wide = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    let is_wide = false;
    let update = Update { rate: problem.rate() as f32, momentum: problem.momentum() as f32, rescale: 1.0 };
    match &problem.name[..] {
        _ if problem.task == Task::Epoch => Err("plain loops are for single steps".into()),
        "64-32-10" => {
            let network = Box::new(perceptron::Perceptron::new(problem)?);
            Ok(Box::new(Plain { network, update, is_wide }))
        }
        "lenet-5" => Ok(Box::new(Plain { network: lenet::LeNet::new(problem)?, update, is_wide })),
        name => Err(format!("there is no plain loop of {name}").into()),
    }
}

/// What a network must be so that loops which were written for it compute it: its layers, each with
/// its parameters by name.
fn expect(problem: &Problem, layers: &[&str]) -> Result<(), String> {
    let found: Vec<String> = problem
        .layers()
        .map(|(name, layer)| {
            let parameters: BTreeMap<_, _> = layer.as_object().into_iter().flatten().collect();
            let parameters = parameters.into_iter().filter(|(key, _)| *key != "layer");
            parameters.fold(name.to_owned(), |text, (key, value)| format!("{text} {key} {value}")).replace('"', "")
        })
        .collect();
    if found == layers {
        Ok(())
    } else {
        Err(format!("{} is not what its plain loop is for: {found:?}", problem.name))
    }
}

#[inline(always)]
fn softmax(values: [f32; CLASSES]) -> [f32; CLASSES] {
    let most = values.iter().copied().fold(f32::MIN, f32::max);
    let exps = values.map(|value| (value - most).exp());
    let sum: f32 = exps.iter().sum();
    exps.map(|exp| exp / sum)
}
