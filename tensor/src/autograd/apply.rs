//! `apply`: a program's own function in the forward pass, and its gradients in the walk back.
//!
//! Called by programs, and by `walk.rs` beside this file. What a function is has
//! `src/operator/function.rs`.

#![forbid(unsafe_code)]

use crate::autograd::pause;
use crate::error::{Error, ErrorKind};
use crate::ndarray::array::NDArray;
use crate::operator::function::Function;
use crate::operator::tape;
use smallvec::SmallVec;
use std::cell::RefCell;

/// Calls a function, and notes it with its inputs for the walk back if the thread records and a
/// gradient flows back to one of them.
///
/// What it calls is not noted by itself. Each output is a new value, also if the function returns
/// an input.
///
/// # Errors
/// Those of the function's forward pass, with its name.
///
/// ```
/// use seriatim_tensor::{autograd::{self, Function}, Error, NDArray, OpReq};
///
/// /// The same values, with the gradient turned around.
/// struct Reversed;
///
/// impl Function for Reversed {
///     fn forward(&mut self, inputs: &[&NDArray]) -> Result<Vec<NDArray>, Error> {
///         Ok(vec![inputs[0].clone()])
///     }
///
///     fn backward(&mut self, out_grads: &[NDArray]) -> Result<Vec<Option<NDArray>>, Error> {
///         Ok(vec![Some(out_grads[0].negative()?)])
///     }
/// }
///
/// let x = NDArray::from_slice(&[3.0f32], [1])?;
/// x.attach_grad(OpReq::Write)?;
/// let y = autograd::record(|| autograd::apply(Reversed, &[&x])?[0].square())?;
/// autograd::backward(&[&y])?;
/// assert_eq!(x.grad()?.as_scalar::<f32>()?, -6.0);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
pub fn apply(mut function: impl Function, inputs: &[&NDArray]) -> Result<Vec<NDArray>, Error> {
    let outputs = pause(|| function.forward(inputs)).map_err(|error| error.within(said(&function)))?;
    let outputs: Vec<NDArray> = outputs.iter().map(NDArray::detach).collect();
    tape::record_function(|| Box::new(RefCell::new(function)), inputs, &outputs);
    Ok(outputs)
}

/// The gradients by the inputs, which are checked to be like them.
pub(super) fn gradients(
    function: &RefCell<impl Function + ?Sized>,
    inputs: &[NDArray],
    out_grads: &[NDArray],
) -> Result<SmallVec<[Option<NDArray>; 3]>, Error> {
    // Nobody has lent it: a walk takes the tape away, so a function cannot come back to itself.
    let Ok(mut function) = function.try_borrow_mut() else {
        return Err(Error::new(ErrorKind::Recording, "a function is in its own backward pass"));
    };
    let grads = function.backward(out_grads).map_err(|error| error.within(said(&*function)))?;
    let wrong = |kind, message| Err(Error::new(kind, message).within(said(&*function)));
    if grads.len() != inputs.len() {
        let message = format!("its backward pass has returned {} gradients for {} inputs", grads.len(), inputs.len());
        return wrong(ErrorKind::WrongArguments, message);
    }
    for (number, (grad, input)) in grads.iter().zip(inputs).enumerate() {
        let Some(grad) = grad else { continue };
        let kind = match () {
            () if !grad.runtime().is(input.runtime()) => ErrorKind::ForeignArray,
            () if grad.shape() != input.shape() => ErrorKind::ShapeMismatch,
            () if grad.dtype() != input.dtype() => ErrorKind::UnsupportedType,
            () => continue,
        };
        let message = format!("the gradient by input {number} is {grad:?}, and that input is {input:?}");
        return wrong(kind, message);
    }
    Ok(grads.into())
}

fn said(function: &(impl Function + ?Sized)) -> String {
    format!("function '{}'", function.name())
}
