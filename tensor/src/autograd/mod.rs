//! Gradients: calls that a thread makes inside of [`record`] are noted, and [`backward`] walks back
//! over them.
//!
//! [`apply`] calls a [`Function`] of the program, which computes its gradients itself. What is
//! noted is in `src/operator/tape.rs`. Each thread records by itself. All gradients are pushed like
//! any operation; a value that is used several times has its gradients added in place.

#![forbid(unsafe_code)]

mod apply;
mod walk;

pub use crate::operator::function::Function;
pub use apply::apply;
pub use walk::{backward, backward_with};

use crate::error::{Error, ErrorKind};
use crate::ndarray::array::NDArray;
use crate::ndarray::capturing;
use crate::operator::tape::{self, Attached, Before};
use crate::request::OpReq;

/// Calls a closure, notes the calls on arrays that lead back to one with a
/// [gradient attached](NDArray::attach_grad), and runs operators to train.
///
/// ```
/// use seriatim_tensor::{autograd, NDArray, OpReq};
/// let x = NDArray::from_slice(&[3.0f32], [1])?;
/// x.attach_grad(OpReq::Write)?;
/// let y = autograd::record(|| x.square())?;
/// autograd::backward(&[&y])?;
/// assert_eq!(x.grad()?.as_scalar::<f32>()?, 6.0);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
pub fn record<R>(closure: impl FnOnce() -> R) -> R {
    let _before = Before::set(true, true);
    closure()
}

/// Calls a closure inside of [`record`] whose calls are not noted.
///
/// ```
/// use seriatim_tensor::autograd;
/// assert!(!autograd::record(|| autograd::pause(autograd::is_recording)));
/// ```
pub fn pause<R>(closure: impl FnOnce() -> R) -> R {
    let _before = Before::set(false, tape::is_training());
    closure()
}

/// Calls a closure in which operators run to train, whether calls are noted or not.
///
/// ```
/// use seriatim_tensor::autograd;
/// assert!(autograd::train_mode(autograd::is_training));
/// ```
pub fn train_mode<R>(closure: impl FnOnce() -> R) -> R {
    let _before = Before::set(tape::is_recording(), true);
    closure()
}

/// Calls a closure in which operators run to predict, whether calls are noted or not.
///
/// ```
/// use seriatim_tensor::autograd;
/// assert!(!autograd::record(|| autograd::predict_mode(autograd::is_training)));
/// ```
pub fn predict_mode<R>(closure: impl FnOnce() -> R) -> R {
    let _before = Before::set(tape::is_recording(), false);
    closure()
}

/// Whether calls of this thread are noted.
///
/// ```
/// assert!(!seriatim_tensor::autograd::is_recording());
/// ```
pub fn is_recording() -> bool {
    tape::is_recording()
}

/// Whether operators run to train.
///
/// ```
/// assert!(!seriatim_tensor::autograd::is_training());
/// ```
pub fn is_training() -> bool {
    tape::is_training()
}

impl NDArray {
    /// Attaches a gradient: an array of zeros in the same context, which [`backward`] writes or
    /// adds to. It stays for the array's life, and belongs to this array and its clones: views that
    /// were made before recording, and what is detached, have none.
    ///
    /// If the array was computed while recording, then gradients stop here from now on, as in
    /// MXNet: they do not flow back to what it was computed from.
    ///
    /// # Errors
    /// [`Recording`](ErrorKind::Recording) if the array is a view, or has one attached already;
    /// [`UnsupportedType`](ErrorKind::UnsupportedType) if it has no floats;
    /// [`Capturing`](ErrorKind::Capturing) while a step is captured; those of a push.
    ///
    /// ```
    /// use seriatim_tensor::{autograd, NDArray, OpReq};
    /// let x = NDArray::from_slice(&[3.0f32], [1])?;
    /// x.attach_grad(OpReq::Add)?;
    /// for _ in 0..2 {
    ///     autograd::backward(&[&autograd::record(|| x.square())?])?;
    /// }
    /// assert_eq!(x.grad()?.as_scalar::<f32>()?, 12.0);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn attach_grad(&self, req: OpReq) -> Result<(), Error> {
        capturing::refuse("a gradient is attached")?;
        let is_whole = self.is_contiguous() && self.size() == self.elements();
        if !is_whole {
            let message = format!("a gradient is attached to a view of shape {}: attach it to the array", self.shape());
            return Err(Error::new(ErrorKind::Recording, message));
        }
        if !self.dtype().is_float() {
            let message = format!("an array of {} has no gradient: only floats have", self.dtype());
            return Err(Error::new(ErrorKind::UnsupportedType, message));
        }
        let gradient = self.runtime().zeros_in(self.shape(), self.dtype(), self.context())?;
        self.chunk().gradient().set(Box::new(Attached { of: self.id(), gradient, req })).map_err(|_| {
            Error::new(ErrorKind::Recording, format!("an array of shape {} has a gradient already", self.shape()))
        })?;
        tape::with(|tape| tape.made.remove(&self.id()));
        Ok(())
    }

    /// The gradient that is attached.
    ///
    /// # Errors
    /// [`NotRecorded`](ErrorKind::NotRecorded) if there is none.
    ///
    /// ```
    /// use seriatim_tensor::{ErrorKind, NDArray};
    /// let x = NDArray::from_slice(&[3.0f32], [1])?;
    /// assert_eq!(x.grad().unwrap_err().kind(), ErrorKind::NotRecorded);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn grad(&self) -> Result<NDArray, Error> {
        let attached = tape::attached(self).map(|attached| attached.gradient.clone());
        attached.ok_or_else(|| {
            let message = format!("an array of shape {} has no gradient: call attach_grad first", self.shape());
            Error::new(ErrorKind::NotRecorded, message)
        })
    }

    /// The same values, through which no gradient flows back.
    ///
    /// ```
    /// use seriatim_tensor::{autograd, NDArray, OpReq};
    /// let x = NDArray::from_slice(&[3.0f32], [1])?;
    /// x.attach_grad(OpReq::Write)?;
    /// let y = autograd::record(|| x.square()?.detach().mul(&x))?;
    /// autograd::backward(&[&y])?;
    /// assert_eq!(x.grad()?.as_scalar::<f32>()?, 9.0);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    #[must_use]
    pub fn detach(&self) -> NDArray {
        self.anew()
    }
}
