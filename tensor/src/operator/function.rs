//! `Function`: what a program gives to compute values and their gradients by itself.
//!
//! `autograd/apply.rs` calls it. It is here because the tape, beside this file, keeps it.

#![forbid(unsafe_code)]

use crate::error::Error;
use crate::ndarray::array::NDArray;

/// Values and their gradients as a program computes them, for
/// [`autograd::apply`](crate::autograd::apply).
///
/// Both passes are calls on arrays, so they return before their work is done, and can be captured
/// in a [`Step`](crate::Step). Nothing is noted inside. What the backward pass needs of the forward
/// pass is kept in fields: an array is a handle.
///
/// ```
/// use seriatim_tensor::{autograd::{self, Function}, Error, NDArray, OpReq};
///
/// /// The sigmoid, whose gradient is that of its value.
/// #[derive(Default)]
/// struct Sigmoid {
///     value: Option<NDArray>,
/// }
///
/// impl Function for Sigmoid {
///     fn forward(&mut self, inputs: &[&NDArray]) -> Result<Vec<NDArray>, Error> {
///         let power = inputs[0].exp()?;
///         let value = power.div(&power.add_scalar(1.0)?)?;
///         self.value = Some(value.clone());
///         Ok(vec![value])
///     }
///
///     fn backward(&mut self, out_grads: &[NDArray]) -> Result<Vec<Option<NDArray>>, Error> {
///         let Some(value) = &self.value else { return Ok(vec![None]) };
///         Ok(vec![Some(value.sub(&value.square()?)?.mul(&out_grads[0])?)])
///     }
/// }
///
/// let x = NDArray::from_slice(&[0.0f64], [1])?;
/// x.attach_grad(OpReq::Write)?;
/// let y = autograd::record(|| autograd::apply(Sigmoid::default(), &[&x]))?;
/// autograd::backward(&[&y[0]])?;
/// assert_eq!((y[0].as_scalar::<f64>()?, x.grad()?.as_scalar::<f64>()?), (0.5, 0.25));
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
pub trait Function: 'static {
    /// What errors call it.
    fn name(&self) -> &str {
        std::any::type_name::<Self>()
    }

    /// Computes the outputs. It is called once, by [`apply`](crate::autograd::apply).
    ///
    /// # Errors
    /// Whatever it finds: they are those of `apply`, with the name.
    fn forward(&mut self, inputs: &[&NDArray]) -> Result<Vec<NDArray>, Error>;

    /// Computes the gradient by each input from that by each output, which is 0 where none flows
    /// back. `None` says that there is none by an input, such as a label.
    ///
    /// It is called by each walk back over the tape that reaches an output: once, or several times
    /// if what was recorded is retained.
    ///
    /// # Errors
    /// Whatever it finds: they are those of [`backward`](crate::autograd::backward), with the name.
    fn backward(&mut self, out_grads: &[NDArray]) -> Result<Vec<Option<NDArray>>, Error>;
}
