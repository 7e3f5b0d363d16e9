//! Adam and AdamW. Programs make one and call its steps.

#![forbid(unsafe_code)]

use crate::error::Error;
use crate::optimizer::clock::LearningRate;
use crate::optimizer::methods;
use crate::optimizer::updates::Updates;

/// Adam (Kingma and Ba, 2015), as MXNet has it: the moving means of the gradients and of their
/// squares, both corrected for their beginning at 0. The decay is added to the gradient.
///
/// With `t` the number of the step, which the operation counts:
/// `weight - lr √(1 - beta2ᵗ) / (1 - beta1ᵗ) mean / (√var + epsilon)`.
///
/// ```
/// use seriatim_tensor::{autograd, optimizer::Adam, NDArray, OpReq};
/// let weight = NDArray::from_slice(&[1.0f64], [1])?;
/// weight.attach_grad(OpReq::Write)?;
/// let mut adam = Adam::new(0.1)?;
/// for _ in 0..400 {
///     autograd::backward(&[&autograd::record(|| weight.square())?])?;
///     adam.step(&[&weight], 1.0)?;
/// }
/// assert!(weight.as_scalar::<f64>()?.abs() < 1e-3);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[derive(Debug)]
pub struct Adam(Updates);

/// AdamW (Loshchilov and Hutter, 2019), as PyTorch has it: Adam, but the weight shrinks by itself.
///
/// With `t` the number of the step, which the operation counts:
/// `(1 - lr wd) weight - lr / (1 - beta1ᵗ) mean / (√var / √(1 - beta2ᵗ) + epsilon)`.
///
/// ```
/// use seriatim_tensor::{autograd, optimizer::AdamW, NDArray, OpReq};
/// let weight = NDArray::from_slice(&[1.0f64], [1])?;
/// weight.attach_grad(OpReq::Write)?;
/// let mut adam = AdamW::new(0.1)?.decay(0.01)?;
/// for _ in 0..400 {
///     autograd::backward(&[&autograd::record(|| weight.square())?])?;
///     adam.step(&[&weight], 1.0)?;
/// }
/// assert!(weight.as_scalar::<f64>()?.abs() < 1e-3);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[derive(Debug)]
pub struct AdamW(Updates);

macro_rules! settings {
    ($name:ident, $operator:literal) => {
        impl $name {
            /// An optimiser with this learning rate, betas 0.9 and 0.999, epsilon 10⁻⁸ and no
            /// decay.
            ///
            /// # Errors
            /// [`BadParameter`](crate::ErrorKind::BadParameter) if the rate is not finite.
            ///
            /// ```
            #[doc = concat!("assert!(seriatim_tensor::optimizer::", stringify!($name), "::new(f64::NAN).is_err());")]
            /// ```
            pub fn new(rate: impl Into<LearningRate>) -> Result<$name, Error> {
                Ok($name(Updates::new($operator, rate.into(), &[])?))
            }

            /// How slowly the mean of the gradients and that of their squares move.
            ///
            /// # Errors
            /// [`BadParameter`](crate::ErrorKind::BadParameter) if one is not from 0 on and below
            /// 1.
            ///
            /// ```
            #[doc = concat!("assert!(seriatim_tensor::optimizer::", stringify!($name), "::new(0.1)?.betas(0.9, 1.0).is_err());")]
            /// # Ok::<(), seriatim_tensor::Error>(())
            /// ```
            pub fn betas(self, first: f64, second: f64) -> Result<$name, Error> {
                Ok($name(self.0.with("beta1", first)?.with("beta2", second)?))
            }

            /// What is added to the root of the second mean.
            ///
            /// # Errors
            /// [`BadParameter`](crate::ErrorKind::BadParameter) if it is below 0.
            ///
            /// ```
            #[doc = concat!("assert!(seriatim_tensor::optimizer::", stringify!($name), "::new(0.1)?.epsilon(-1.0).is_err());")]
            /// # Ok::<(), seriatim_tensor::Error>(())
            /// ```
            pub fn epsilon(self, epsilon: f64) -> Result<$name, Error> {
                Ok($name(self.0.with("epsilon", epsilon)?))
            }

            /// The weight decay.
            ///
            /// # Errors
            /// [`BadParameter`](crate::ErrorKind::BadParameter) if it is below 0.
            ///
            /// ```
            #[doc = concat!("assert!(seriatim_tensor::optimizer::", stringify!($name), "::new(0.1)?.decay(-1.0).is_err());")]
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
            #[doc = concat!("let adam = seriatim_tensor::optimizer::", stringify!($name), "::new(0.1)?.clip_gradient(1.0)?;")]
            /// # let _ = adam;
            /// # Ok::<(), seriatim_tensor::Error>(())
            /// ```
            pub fn clip_gradient(self, limit: f64) -> Result<$name, Error> {
                Ok($name(self.0.with("clip_gradient", limit)?))
            }
        }
    };
}

settings!(Adam, "adam_update");
settings!(AdamW, "adamw_update");
methods!(Adam, "Adam::new(0.1)");
methods!(AdamW, "AdamW::new(0.1)");
