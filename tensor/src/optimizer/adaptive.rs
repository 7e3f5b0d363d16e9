//! RMSProp and AdaGrad, whose steps are smaller where gradients were larger. Programs make one and
//! call its steps.

#![forbid(unsafe_code)]

use crate::error::Error;
use crate::optimizer::clock::LearningRate;
use crate::optimizer::methods;
use crate::optimizer::updates::Updates;

/// RMSProp (Tieleman and Hinton, 2012), as MXNet has it, without centring:
/// `n = gamma n + (1 - gamma) grad²`, and `weight - lr grad / √(n + epsilon)`.
///
/// ```
/// use seriatim_tensor::{autograd, optimizer::{RmsProp, Schedule}, NDArray, OpReq};
/// let weight = NDArray::from_slice(&[1.0f64], [1])?;
/// weight.attach_grad(OpReq::Write)?;
/// let mut optimizer = RmsProp::new(Schedule::poly(0.1, 200, 1.0, 0.0)?, 0.9)?;
/// for _ in 0..200 {
///     autograd::backward(&[&autograd::record(|| weight.square())?])?;
///     optimizer.step(&[&weight], 1.0)?;
/// }
/// assert!(weight.as_scalar::<f64>()?.abs() < 1e-2);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[derive(Debug)]
pub struct RmsProp(Updates);

impl RmsProp {
    /// An optimiser with this learning rate and this `gamma`: how slowly the mean of the squares
    /// moves. Epsilon is 10⁻⁸, and there is no decay.
    ///
    /// # Errors
    /// [`BadParameter`](crate::ErrorKind::BadParameter) if gamma is not from 0 on and below 1, or
    /// the rate is not finite.
    ///
    /// ```
    /// assert!(seriatim_tensor::optimizer::RmsProp::new(0.1, 1.0).is_err());
    /// ```
    pub fn new(rate: impl Into<LearningRate>, gamma: f64) -> Result<RmsProp, Error> {
        Ok(RmsProp(Updates::new("rmsprop_update", rate.into(), &[("gamma1", gamma)])?))
    }

    /// Keeps the weights between minus this and this; below 0 it does not.
    ///
    /// # Errors
    /// None that happens.
    ///
    /// ```
    /// let optimizer = seriatim_tensor::optimizer::RmsProp::new(0.1, 0.9)?.clip_weights(1.0)?;
    /// # let _ = optimizer;
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn clip_weights(self, limit: f64) -> Result<RmsProp, Error> {
        Ok(RmsProp(self.0.with("clip_weights", limit)?))
    }
}

/// AdaGrad (Duchi, Hazan and Singer, 2011), as PyTorch has it:
/// `history + grad²`, and `weight - lr grad / (√history + epsilon)`.
///
/// ```
/// use seriatim_tensor::{autograd, optimizer::AdaGrad, NDArray, OpReq};
/// let weight = NDArray::from_slice(&[1.0f64], [1])?;
/// weight.attach_grad(OpReq::Write)?;
/// let mut optimizer = AdaGrad::new(0.5)?;
/// for _ in 0..100 {
///     autograd::backward(&[&autograd::record(|| weight.square())?])?;
///     optimizer.step(&[&weight], 1.0)?;
/// }
/// assert!(weight.as_scalar::<f64>()?.abs() < 1e-6);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[derive(Debug)]
pub struct AdaGrad(Updates);

impl AdaGrad {
    /// An optimiser with this learning rate. Epsilon is 10⁻¹⁰, and there is no decay.
    ///
    /// # Errors
    /// [`BadParameter`](crate::ErrorKind::BadParameter) if the rate is not finite.
    ///
    /// ```
    /// assert!(seriatim_tensor::optimizer::AdaGrad::new(f64::INFINITY).is_err());
    /// ```
    pub fn new(rate: impl Into<LearningRate>) -> Result<AdaGrad, Error> {
        Ok(AdaGrad(Updates::new("adagrad_update", rate.into(), &[])?))
    }
}

macro_rules! settings {
    ($($name:ident, $make:literal;)*) => {$(
        impl $name {
            /// What is added to the root, or under it.
            ///
            /// # Errors
            /// [`BadParameter`](crate::ErrorKind::BadParameter) if it is below 0.
            ///
            /// ```
            #[doc = concat!("assert!(seriatim_tensor::optimizer::", $make, "?.epsilon(-1.0).is_err());")]
            /// # Ok::<(), seriatim_tensor::Error>(())
            /// ```
            pub fn epsilon(self, epsilon: f64) -> Result<$name, Error> {
                Ok($name(self.0.with("epsilon", epsilon)?))
            }

            /// The weight decay, which is added to the gradient.
            ///
            /// # Errors
            /// [`BadParameter`](crate::ErrorKind::BadParameter) if it is below 0.
            ///
            /// ```
            #[doc = concat!("assert!(seriatim_tensor::optimizer::", $make, "?.decay(-1.0).is_err());")]
            /// # Ok::<(), seriatim_tensor::Error>(())
            /// ```
            pub fn decay(self, decay: f64) -> Result<$name, Error> {
                Ok($name(self.0.with("wd", decay)?))
            }

            /// Keeps the gradients between minus this and this; below 0 it does not.
            ///
            /// # Errors
            /// None that happens.
            ///
            /// ```
            #[doc = concat!("let optimizer = seriatim_tensor::optimizer::", $make, "?.clip_gradient(1.0)?;")]
            /// # let _ = optimizer;
            /// # Ok::<(), seriatim_tensor::Error>(())
            /// ```
            pub fn clip_gradient(self, limit: f64) -> Result<$name, Error> {
                Ok($name(self.0.with("clip_gradient", limit)?))
            }
        }
    )*};
}

settings! {
    RmsProp, "RmsProp::new(0.1, 0.9)";
    AdaGrad, "AdaGrad::new(0.1)";
}
methods!(RmsProp, "RmsProp::new(0.1, 0.9)");
methods!(AdaGrad, "AdaGrad::new(0.1)");
