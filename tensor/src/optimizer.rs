//! Optimisers: what becomes of weights when their gradients are there. Programs call them.

#![forbid(unsafe_code)]

use crate::error::Error;
use crate::ndarray::array::NDArray;
use crate::operator::Op;
use crate::request::OpReq;

/// Stochastic gradient descent, with momentum and weight decay.
///
/// ```
/// use seriatim_tensor::{autograd, optimizer::Sgd, NDArray, OpReq};
/// let weight = NDArray::from_slice(&[1.0f64], [1])?;
/// weight.attach_grad(OpReq::Write)?;
/// let mut sgd = Sgd::new(0.1, 0.0, 0.0)?;
/// for _ in 0..100 {
///     autograd::backward(&[&autograd::record(|| weight.square())?])?;
///     sgd.step(&[&weight], 1.0)?;
/// }
/// assert!(weight.as_scalar::<f64>()?.abs() < 1e-9);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[derive(Debug)]
pub struct Sgd {
    rate: f64,
    momentum: f64,
    decay: f64,
    /// The operator for the last rate and scale.
    op: Option<(f64, f64, Op)>,
    momenta: Vec<NDArray>,
}

impl Sgd {
    /// An optimiser with this learning rate, momentum and weight decay.
    ///
    /// # Errors
    /// [`BadParameter`](crate::ErrorKind::BadParameter) if the momentum is not from 0 on and below
    /// 1, or the decay is below 0.
    ///
    /// ```
    /// assert!(seriatim_tensor::optimizer::Sgd::new(0.1, 1.5, 0.0).is_err());
    /// ```
    pub fn new(rate: f64, momentum: f64, decay: f64) -> Result<Sgd, Error> {
        let mut sgd = Sgd { rate, momentum, decay, op: None, momenta: Vec::new() };
        sgd.operator(1.0)?;
        Ok(sgd)
    }

    /// The learning rate of the steps from now on.
    ///
    /// ```
    /// let mut sgd = seriatim_tensor::optimizer::Sgd::new(0.1, 0.9, 0.0)?;
    /// sgd.set_learning_rate(0.01);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn set_learning_rate(&mut self, rate: f64) {
        self.rate = rate;
    }

    /// Changes the weights by their gradients, which are multiplied by `rescale` first: one through
    /// the size of the batch, if they are sums over it. The same weights must be given in each
    /// step, in the same order.
    ///
    /// # Errors
    /// [`NotRecorded`](crate::ErrorKind::NotRecorded) if a weight has no gradient;
    /// [`ShapeMismatch`](crate::ErrorKind::ShapeMismatch) if it is another one than in the last
    /// step; those of a push.
    ///
    /// ```
    /// # use seriatim_tensor::{optimizer::Sgd, NDArray, OpReq};
    /// let weight = NDArray::from_slice(&[1.0f32], [1])?;
    /// weight.attach_grad(OpReq::Write)?;
    /// Sgd::new(0.1, 0.9, 0.0)?.step(&[&weight], 1.0 / 32.0)?;
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn step(&mut self, weights: &[&NDArray], rescale: f64) -> Result<(), Error> {
        let op = self.operator(rescale)?.clone();
        for (number, weight) in weights.iter().enumerate() {
            let grad = weight.grad()?;
            if self.momentum == 0.0 {
                op.invoke_into(&[weight, &grad], &[(weight, OpReq::Inplace)])?;
                continue;
            }
            if number == self.momenta.len() {
                self.momenta.push(weight.runtime().zeros(weight.shape(), weight.dtype())?);
            }
            op.invoke_into(&[weight, &grad, &self.momenta[number]], &[(weight, OpReq::Inplace)])?;
        }
        Ok(())
    }

    fn operator(&mut self, rescale: f64) -> Result<&Op, Error> {
        let is_there = self.op.as_ref().is_some_and(|(rate, scale, _)| (*rate, *scale) == (self.rate, rescale));
        if !is_there {
            let name = if self.momentum == 0.0 { "sgd_update" } else { "sgd_mom_update" };
            let texts = [self.rate, self.momentum, self.decay, rescale].map(|value| value.to_string());
            let names = ["lr", "momentum", "wd", "rescale_grad"];
            let parameters: Vec<(&str, &str)> = names.into_iter().zip(texts.iter().map(String::as_str)).collect();
            self.op = Some((self.rate, rescale, Op::new(name, &parameters)?));
        }
        Ok(self.op.as_ref().map(|(_, _, op)| op).expect("it was made above"))
    }
}
