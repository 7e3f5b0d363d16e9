//! Optimisers: what becomes of weights when their gradients are there. Programs call them.
//!
//! `sgd.rs`, `adam.rs`, `adaptive.rs` and `ftrl.rs` have the optimisers, `updates.rs` what they are
//! made of, `clock.rs` where the number of the step and the learning rate are, and `schedule.rs`
//! learning rates that change. The operators are in `src/operator/update/`.
//!
//! A step is one operation for the clock and one for each weight. All that changes from step to
//! step is in arrays, so a step can be captured.

mod adam;
mod adaptive;
mod clock;
mod ftrl;
mod schedule;
mod sgd;
mod updates;

pub use adam::{Adam, AdamW};
pub use adaptive::{AdaGrad, RmsProp};
pub use clock::LearningRate;
pub use ftrl::Ftrl;
pub use schedule::Schedule;
pub use sgd::{Nag, Sgd};

/// The methods that all optimisers have. `$make` makes one, for the examples.
macro_rules! methods {
    ($name:ident, $make:literal) => {
        impl $name {
            /// The learning rate of the steps from now on, also of captured ones. It has to be a
            /// number so far.
            ///
            /// # Errors
            /// [`BadParameter`](crate::ErrorKind::BadParameter) if it comes from a schedule or a
            /// parameter, or is not finite; [`Capturing`](crate::ErrorKind::Capturing) while a step
            /// is captured; those of a push.
            ///
            /// ```
            #[doc = concat!("use seriatim_tensor::optimizer::", stringify!($name), ";")]
            #[doc = concat!("let mut optimizer = ", $make, "?;")]
            /// optimizer.set_learning_rate(0.01)?;
            /// # Ok::<(), seriatim_tensor::Error>(())
            /// ```
            pub fn set_learning_rate(&mut self, rate: f64) -> Result<(), crate::Error> {
                self.0.set_learning_rate(rate)
            }

            /// Changes the weights by their gradients, which are multiplied by `rescale` first: one
            /// through the size of the batch, if they are sums over it. The same weights must be
            /// given in each step, in the same order.
            ///
            /// # Errors
            /// [`NotRecorded`](crate::ErrorKind::NotRecorded) if a weight has no gradient;
            /// [`ShapeMismatch`](crate::ErrorKind::ShapeMismatch) if one has another shape than in
            /// the last step; those of a push.
            ///
            /// ```
            #[doc = concat!("use seriatim_tensor::{optimizer::", stringify!($name), ", NDArray, OpReq};")]
            /// let weight = NDArray::from_slice(&[1.0f32], [1])?;
            /// weight.attach_grad(OpReq::Write)?;
            #[doc = concat!($make, "?.step(&[&weight], 1.0 / 32.0)?;")]
            /// # Ok::<(), seriatim_tensor::Error>(())
            /// ```
            pub fn step(&mut self, weights: &[&crate::NDArray], rescale: f64) -> Result<(), crate::Error> {
                self.0.step(weights, rescale)
            }

            /// What the optimiser keeps from step to step: its clock, an array of the number of
            /// steps and the learning rate, and then the states of each weight. Empty before the
            /// first step. Writing to the arrays, by
            /// [`copy_from_slice`](crate::NDArray::copy_from_slice), restores a state.
            ///
            /// ```
            #[doc = concat!("use seriatim_tensor::{optimizer::", stringify!($name), ", NDArray, OpReq};")]
            /// let weight = NDArray::from_slice(&[1.0f32], [1])?;
            /// weight.attach_grad(OpReq::Write)?;
            #[doc = concat!("let mut optimizer = ", $make, "?;")]
            /// optimizer.step(&[&weight], 1.0)?;
            /// assert_eq!(optimizer.states()[0].to_vec::<f64>()?, [1.0, 0.1]);
            /// # Ok::<(), seriatim_tensor::Error>(())
            /// ```
            pub fn states(&self) -> Vec<crate::NDArray> {
                self.0.states()
            }
        }
    };
}
use methods;
