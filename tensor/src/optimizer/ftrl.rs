//! FTRL, whose weights are 0 unless their gradients agree. Programs make one and call its steps.

#![forbid(unsafe_code)]

use crate::error::Error;
use crate::optimizer::clock::LearningRate;
use crate::optimizer::methods;
use crate::optimizer::updates::Updates;

/// FTRL-proximal (McMahan and others, 2013), as MXNet has it, for sparse models. With `g` the
/// gradient, `n` the sum of the squares of gradients, and `m` that with this step's:
/// `z + g - (√m - √n) weight / lr`, and `(sign(z) lamda1 - z) / ((beta + √m) / lr + wd)`, or 0
/// where `|z|` is at most `lamda1`.
///
/// ```
/// use seriatim_tensor::{autograd, optimizer::Ftrl, NDArray, OpReq};
/// let weight = NDArray::from_slice(&[0.0f64, 0.0], [2])?;
/// let wanted = NDArray::from_slice(&[1.0f64, 0.01], [2])?;
/// weight.attach_grad(OpReq::Write)?;
/// let mut ftrl = Ftrl::new(0.5)?.lamda1(0.5)?;
/// autograd::backward(&[&autograd::record(|| weight.sub(&wanted)?.square())?])?;
/// ftrl.step(&[&weight], 1.0)?;
/// // Of the second number the gradient is too small for it to count.
/// assert_eq!(weight.to_vec::<f64>()?, [0.25, 0.0]);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[derive(Debug)]
pub struct Ftrl(Updates);

impl Ftrl {
    /// An optimiser with this learning rate, lamda1 0.01, beta 1 and no decay.
    ///
    /// # Errors
    /// [`BadParameter`](crate::ErrorKind::BadParameter) if the rate is not finite.
    ///
    /// ```
    /// assert!(seriatim_tensor::optimizer::Ftrl::new(f64::NAN).is_err());
    /// ```
    pub fn new(rate: impl Into<LearningRate>) -> Result<Ftrl, Error> {
        Ok(Ftrl(Updates::new("ftrl_update", rate.into(), &[])?))
    }

    /// How far from 0 `z` has to be for the weight not to be 0. The name is MXNet's.
    ///
    /// # Errors
    /// [`BadParameter`](crate::ErrorKind::BadParameter) if it is below 0.
    ///
    /// ```
    /// assert!(seriatim_tensor::optimizer::Ftrl::new(0.1)?.lamda1(-1.0).is_err());
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn lamda1(self, lamda1: f64) -> Result<Ftrl, Error> {
        Ok(Ftrl(self.0.with("lamda1", lamda1)?))
    }

    /// What is added to the root of the sum of squares.
    ///
    /// # Errors
    /// [`BadParameter`](crate::ErrorKind::BadParameter) if it is below 0.
    ///
    /// ```
    /// assert!(seriatim_tensor::optimizer::Ftrl::new(0.1)?.beta(-1.0).is_err());
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn beta(self, beta: f64) -> Result<Ftrl, Error> {
        Ok(Ftrl(self.0.with("beta", beta)?))
    }

    /// The weight decay: weights are nearer to 0 the larger it is.
    ///
    /// # Errors
    /// [`BadParameter`](crate::ErrorKind::BadParameter) if it is below 0.
    ///
    /// ```
    /// assert!(seriatim_tensor::optimizer::Ftrl::new(0.1)?.decay(-1.0).is_err());
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn decay(self, decay: f64) -> Result<Ftrl, Error> {
        Ok(Ftrl(self.0.with("wd", decay)?))
    }

    /// Keeps the gradients between minus this and this; below 0 it does not.
    ///
    /// # Errors
    /// None that happens.
    ///
    /// ```
    /// let optimizer = seriatim_tensor::optimizer::Ftrl::new(0.1)?.clip_gradient(1.0)?;
    /// # let _ = optimizer;
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn clip_gradient(self, limit: f64) -> Result<Ftrl, Error> {
        Ok(Ftrl(self.0.with("clip_gradient", limit)?))
    }
}

methods!(Ftrl, "Ftrl::new(0.1)");
