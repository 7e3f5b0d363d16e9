//! Stochastic gradient descent, with the momentum of Polyak or of Nesterov. Programs make one and
//! call its steps.

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

/// Gradient descent with Nesterov's momentum and weight decay, as MXNet has it: like [`Sgd`], but a
/// step goes on by the momentum that it has just got:
/// `weight + momentum mom - lr (grad + wd weight)`.
///
/// ```
/// use seriatim_tensor::{autograd, optimizer::Nag, NDArray, OpReq};
/// let weight = NDArray::from_slice(&[1.0f64], [1])?;
/// weight.attach_grad(OpReq::Write)?;
/// let mut nag = Nag::new(0.1, 0.5, 0.0)?;
/// for _ in 0..100 {
///     autograd::backward(&[&autograd::record(|| weight.square())?])?;
///     nag.step(&[&weight], 1.0)?;
/// }
/// assert!(weight.as_scalar::<f64>()?.abs() < 1e-9);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[derive(Debug)]
pub struct Nag(Updates);

macro_rules! settings {
    ($name:ident, $plain:literal, $operator:literal) => {
        impl $name {
            /// An optimiser with this learning rate, momentum and weight decay.
            ///
            /// # Errors
            /// [`BadParameter`](crate::ErrorKind::BadParameter) if the momentum is not from 0 on
            /// and below 1, the decay is below 0, or the rate is not finite.
            ///
            /// ```
            #[doc = concat!("assert!(seriatim_tensor::optimizer::", stringify!($name), "::new(0.1, 1.5, 0.0).is_err());")]
            /// ```
            pub fn new(rate: impl Into<LearningRate>, momentum: f64, decay: f64) -> Result<$name, Error> {
                let name = if momentum == 0.0 { $plain } else { $operator };
                Ok($name(Updates::new(name, rate.into(), &[("momentum", momentum), ("wd", decay)])?))
            }

            /// Keeps the gradients between minus this and this, before the decay is added; below 0
            /// it does not.
            ///
            /// # Errors
            /// None that happens.
            ///
            /// ```
            #[doc = concat!("let optimizer = seriatim_tensor::optimizer::", stringify!($name), "::new(0.1, 0.9, 0.0)?;")]
            /// let optimizer = optimizer.clip_gradient(1.0)?;
            /// # let _ = optimizer;
            /// # Ok::<(), seriatim_tensor::Error>(())
            /// ```
            pub fn clip_gradient(self, limit: f64) -> Result<$name, Error> {
                Ok($name(self.0.with("clip_gradient", limit)?))
            }
        }
    };
}

settings!(Sgd, "sgd_update", "sgd_mom_update");
// Without momentum both are the same.
settings!(Nag, "sgd_update", "nag_mom_update");
methods!(Sgd, "Sgd::new(0.1, 0.9, 0.0)");
methods!(Nag, "Nag::new(0.1, 0.9, 0.0)");
