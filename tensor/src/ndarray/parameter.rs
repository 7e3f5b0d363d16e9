//! `Parameter`: a number of the program that operations read when they run.
//!
//! Programs make one by [`Runtime::parameter`] and set it on any thread. It is an array of one
//! element, so operators take it as they take any array, and a set is an operation that takes its
//! turn.

#![forbid(unsafe_code)]

use crate::dtype::Element;
use crate::error::Error;
use crate::ndarray::array::NDArray;
use crate::ndarray::capturing;
use crate::ndarray::runtime::Runtime;
use std::fmt;
use std::marker::PhantomData;

/// A number that operations read when they run, and not when they are pushed: a learning rate, a
/// factor, a seed.
///
/// A number that is given to a call is fixed at that moment, so a captured step would have the same
/// one in each run. A parameter is read anew in each. Operations that were pushed before a
/// [`set`](Parameter::set) see the old value, those after it the new one.
///
/// A handle: clones are the same parameter.
///
/// ```
/// use seriatim_tensor::{NDArray, Runtime};
/// let factor = Runtime::global()?.parameter(2.0f32)?;
/// let x = NDArray::from_slice(&[1.0f32, 3.0], [2])?;
/// let double = x.mul(factor.array())?;
/// factor.set(10.0)?;
/// assert_eq!(double.to_vec::<f32>()?, [2.0, 6.0]);
/// assert_eq!(x.mul(factor.array())?.to_vec::<f32>()?, [10.0, 30.0]);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[derive(Clone)]
pub struct Parameter<T> {
    array: NDArray,
    of: PhantomData<T>,
}

impl Runtime {
    /// A parameter of this value.
    ///
    /// # Errors
    /// Those of a push; [`Capturing`](crate::ErrorKind::Capturing) while a step is captured.
    ///
    /// ```
    /// let rate = seriatim_tensor::Runtime::global()?.parameter(0.1f64)?;
    /// assert_eq!(rate.get()?, 0.1);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn parameter<T: Element>(&self, value: T) -> Result<Parameter<T>, Error> {
        capturing::refuse("a parameter is made")?;
        let parameter = Parameter { array: self.empty([], T::DTYPE)?, of: PhantomData };
        parameter.set(value)?;
        Ok(parameter)
    }
}

impl<T: Element> Parameter<T> {
    /// Replaces the value for operations and runs that are pushed from now on. Does not wait.
    ///
    /// # Errors
    /// Those of a push; [`Capturing`](crate::ErrorKind::Capturing) while a step is captured, which
    /// would set this value in each run.
    ///
    /// ```
    /// let rate = seriatim_tensor::Runtime::global()?.parameter(0.1f64)?;
    /// rate.set(0.01)?;
    /// assert_eq!(rate.get()?, 0.01);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn set(&self, value: T) -> Result<(), Error> {
        capturing::refuse("a parameter is set")?;
        self.array.fill(value)
    }

    /// Waits for the value, and returns it.
    ///
    /// # Errors
    /// Those of a wait.
    ///
    /// ```
    /// assert_eq!(seriatim_tensor::Runtime::global()?.parameter(7i64)?.get()?, 7);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn get(&self) -> Result<T, Error> {
        self.array.as_scalar()
    }

    /// The array that has the value: without axes, and of the type of `T`. Operators read it as any
    /// array.
    ///
    /// ```
    /// let parameter = seriatim_tensor::Runtime::global()?.parameter(7i64)?;
    /// assert_eq!(parameter.array().ndim(), 0);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn array(&self) -> &NDArray {
        &self.array
    }
}

impl<T> fmt::Debug for Parameter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parameter({:?})", self.array)
    }
}
