//! Stochastic gradient descent. Programs make one and call its steps.

#![forbid(unsafe_code)]

use crate::error::Error;
use crate::optimizer::clock::LearningRate;
use crate::optimizer::methods;
use crate::optimizer::updates::Updates;

/// Stochastic gradient descent, with momentum and weight decay, as MXNet has it:
/// `mom = momentum mom - lr (grad + wd weight)`, and `weight + mom`.
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
pub struct Sgd(Updates);

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
    pub fn new(rate: impl Into<LearningRate>, momentum: f64, decay: f64) -> Result<Sgd, Error> {
        let name = if momentum == 0.0 { "sgd_update" } else { "sgd_mom_update" };
        Ok(Sgd(Updates::new(name, rate.into(), &[("momentum", momentum), ("wd", decay)])?))
    }

    /// Keeps the gradients between minus this and this, before the decay is added; below 0 it does
    /// not.
    ///
    /// # Errors
    /// None that happens.
    ///
    /// ```
    /// let sgd = seriatim_tensor::optimizer::Sgd::new(0.1, 0.9, 0.0)?.clip_gradient(1.0)?;
    /// # let _ = sgd;
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn clip_gradient(self, limit: f64) -> Result<Sgd, Error> {
        Ok(Sgd(self.0.with("clip_gradient", limit)?))
    }
}

methods!(Sgd, "Sgd::new(0.1, 0.9, 0.0)");
