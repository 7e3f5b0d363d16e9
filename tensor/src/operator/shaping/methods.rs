//! Joining, parting, repeating, padding and choosing as methods of `NDArray`.
//!
//! Each makes its operator anew. A program that calls one often makes an
//! [`Op`](crate::operator::Op) once.

#![forbid(unsafe_code)]

use crate::error::Error;
use crate::ndarray::array::NDArray;
use crate::operator::call::Outputs;
use crate::operator::lists::{Dims, Places};
use crate::operator::op::Op;
use crate::operator::parameters::{Axes, ParameterType};
use crate::operator::shaping::show::{with_axis, without_ones};

/// Calls an operator with parameters as text.
pub(in crate::operator) fn call(
    name: &str,
    inputs: &[&NDArray],
    parameters: &[(&str, &str)],
) -> Result<NDArray, Error> {
    Op::new(name, parameters)?.invoke(inputs)
}

/// A list of sizes as text.
pub(in crate::operator) fn dims(sizes: &[usize]) -> String {
    Dims(sizes.iter().copied().collect()).show()
}

impl NDArray {
    /// Arrays one behind the other along an axis (`Concat`).
    ///
    /// # Errors
    /// [`ShapeMismatch`](crate::ErrorKind::ShapeMismatch) if they differ along another axis;
    /// [`OutOfRange`](crate::ErrorKind::OutOfRange) if there is no such axis;
    /// [`BadParameter`](crate::ErrorKind::BadParameter) without arrays; those of a call.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let (a, b) = (NDArray::from_slice(&[1, 2], [2, 1])?, NDArray::from_slice(&[3, 4, 5, 6], [2, 2])?);
    /// assert_eq!(NDArray::concat(&[&a, &b], 1)?.to_vec::<i32>()?, [1, 3, 4, 2, 5, 6]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn concat(arrays: &[&NDArray], axis: isize) -> Result<NDArray, Error> {
        call("Concat", arrays, &[("num_args", &arrays.len().to_string()), ("dim", &axis.to_string())])
    }

    /// Arrays of one shape one behind the other along a new axis.
    ///
    /// # Errors
    /// Those of [`concat`](NDArray::concat).
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let (a, b) = (NDArray::from_slice(&[1, 2], [2])?, NDArray::from_slice(&[3, 4], [2])?);
    /// assert_eq!(NDArray::stack(&[&a, &b], -1)?.to_vec::<i32>()?, [1, 3, 2, 4]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn stack(arrays: &[&NDArray], axis: isize) -> Result<NDArray, Error> {
        call("stack", arrays, &[("num_args", &arrays.len().to_string()), ("axis", &axis.to_string())])
    }

    /// Equal parts along an axis, in arrays of their own.
    ///
    /// # Errors
    /// [`ShapeMismatch`](crate::ErrorKind::ShapeMismatch) if the axis has no such parts;
    /// [`OutOfRange`](crate::ErrorKind::OutOfRange) if there is no such axis; those of a call.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[1, 2, 3, 4], [4])?;
    /// assert_eq!(x.split(2, 0)?[1].to_vec::<i32>()?, [3, 4]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn split(&self, parts: usize, axis: isize) -> Result<Outputs, Error> {
        let parameters = [("num_outputs", &*parts.to_string()), ("axis", &axis.to_string())];
        Op::new("split", &parameters)?.invoke_all(&[self])
    }

    /// A copy of the places from `begin` by `step` before `end` of the first axes, as NumPy counts
    /// them. Steps are 1 where the list is empty. [`slice`](NDArray::slice) is a view instead.
    ///
    /// # Errors
    /// [`ShapeMismatch`](crate::ErrorKind::ShapeMismatch) if the lists do not go together;
    /// [`BadParameter`](crate::ErrorKind::BadParameter) if a step is 0; those of a call.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[0, 1, 2, 3, 4, 5], [2, 3])?;
    /// let y = x.slice_ranges(&[None, Some(2)], &[None, None], &[None, Some(-2)])?;
    /// assert_eq!(y.to_vec::<i32>()?, [2, 0, 5, 3]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn slice_ranges(
        &self,
        begin: &[Option<isize>],
        end: &[Option<isize>],
        step: &[Option<isize>],
    ) -> Result<NDArray, Error> {
        let [begin, end, step] = [begin, end, step].map(|list| Places(list.iter().copied().collect()).show());
        call("slice", &[self], &[("begin", &begin), ("end", &end), ("step", &step)])
    }

    /// A copy of the places of an axis from `begin` before `end`, counted from the end if negative.
    ///
    /// # Errors
    /// [`OutOfRange`](crate::ErrorKind::OutOfRange) if there is no such axis; those of a call.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[0, 1, 2, 3], [4])?;
    /// assert_eq!(x.slice_axis(0, -3, Some(-1))?.to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn slice_axis(&self, axis: isize, begin: isize, end: Option<isize>) -> Result<NDArray, Error> {
        let (axis, begin) = (axis.to_string(), begin.to_string());
        call("slice_axis", &[self], &[("axis", &axis), ("begin", &begin), ("end", &end.show())])
    }

    /// A view with a new axis of size 1.
    ///
    /// # Errors
    /// [`OutOfRange`](crate::ErrorKind::OutOfRange);
    /// [`TooLarge`](crate::ErrorKind::TooLarge) if the array has eight axes.
    ///
    /// ```
    /// # use seriatim_tensor::{DType, NDArray};
    /// assert_eq!(NDArray::zeros([2, 3], DType::F32)?.expand_dims(-1)?.shape().dims(), [2, 3, 1]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn expand_dims(&self, axis: isize) -> Result<NDArray, Error> {
        self.view(|layout| with_axis(layout, axis))
    }

    /// A view without axes of size 1: these, or all if `axes` is empty.
    ///
    /// # Errors
    /// [`OutOfRange`](crate::ErrorKind::OutOfRange);
    /// [`ShapeMismatch`](crate::ErrorKind::ShapeMismatch) if an axis has another size.
    ///
    /// ```
    /// # use seriatim_tensor::{DType, NDArray};
    /// let x = NDArray::zeros([1, 3, 1], DType::F32)?;
    /// assert_eq!(x.squeeze(&[])?.shape().dims(), [3]);
    /// assert_eq!(x.squeeze(&[-1])?.shape().dims(), [1, 3]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn squeeze(&self, axes: &[isize]) -> Result<NDArray, Error> {
        let axes = Axes(Some(axes.iter().copied().collect()).filter(|_| !axes.is_empty()));
        self.view(|layout| without_ones(layout, &axes))
    }

    /// The array several times along each axis.
    ///
    /// # Errors
    /// [`TooLarge`](crate::ErrorKind::TooLarge), and those of a call.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[1, 2], [2])?;
    /// assert_eq!(x.tile(&[2, 2])?.to_vec::<i32>()?, [1, 2, 1, 2, 1, 2, 1, 2]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn tile(&self, times: &[usize]) -> Result<NDArray, Error> {
        call("tile", &[self], &[("reps", &dims(times))])
    }

    /// Each element several times along an axis; or all elements as one row, each several times.
    ///
    /// # Errors
    /// [`OutOfRange`](crate::ErrorKind::OutOfRange) if there is no such axis; those of a call.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[1, 2], [2])?;
    /// assert_eq!(x.repeat(2, Some(0))?.to_vec::<i32>()?, [1, 1, 2, 2]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn repeat(&self, times: usize, axis: Option<isize>) -> Result<NDArray, Error> {
        call("repeat", &[self], &[("repeats", &times.to_string()), ("axis", &axis.show())])
    }

    /// The array with so many places of a number more before and behind each axis.
    ///
    /// # Errors [`ShapeMismatch`](crate::ErrorKind::ShapeMismatch) if there are not two widths an
    /// axis; those of a call.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[1, 2], [2])?;
    /// assert_eq!(x.pad(&[1, 2], 9.0)?.to_vec::<i32>()?, [9, 1, 2, 9, 9]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn pad(&self, widths: &[usize], value: f64) -> Result<NDArray, Error> {
        call("Pad", &[self], &[("pad_width", &dims(widths)), ("constant_value", &value.to_string())])
    }

    /// Elements of `x` where this array is not 0, and else of `y` (`where`). This array has the
    /// shape of both, or one element for each place of their first axis.
    ///
    /// # Errors
    /// [`ShapeMismatch`](crate::ErrorKind::ShapeMismatch),
    /// [`UnsupportedType`](crate::ErrorKind::UnsupportedType), and those of a call.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let (x, y) = (NDArray::from_slice(&[1, 2], [2])?, NDArray::from_slice(&[3, 4], [2])?);
    /// let condition = NDArray::from_slice(&[true, false], [2])?;
    /// assert_eq!(condition.choose(&x, &y)?.to_vec::<i32>()?, [1, 4]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn choose(&self, x: &NDArray, y: &NDArray) -> Result<NDArray, Error> {
        call("where", &[self, x, y], &[])
    }

    /// Each element, or the nearer of two bounds.
    ///
    /// # Errors
    /// [`BadParameter`](crate::ErrorKind::BadParameter) if the first bound is not the lesser; those
    /// of a call.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[-3.0f32, 0.5, 7.0], [3])?;
    /// assert_eq!(x.clip(-1.0, 1.0)?.to_vec::<f32>()?, [-1.0, 0.5, 1.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn clip(&self, least: f64, most: f64) -> Result<NDArray, Error> {
        call("clip", &[self], &[("a_min", &least.to_string()), ("a_max", &most.to_string())])
    }
}
