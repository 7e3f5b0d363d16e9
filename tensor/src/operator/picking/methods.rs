//! Picking and ordering as methods of `NDArray`.
//!
//! Each makes its operator anew. A program that calls one often makes an
//! [`Op`](crate::operator::Op) once.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::array::NDArray;
use crate::operator::op::Op;
use crate::operator::parameters::ParameterType;
use crate::operator::shaping::methods::call;

impl NDArray {
    /// The elements at places of an axis, which `indices` takes the place of. Places beyond the
    /// ends are the first or the last.
    ///
    /// # Errors [`OutOfRange`](ErrorKind::OutOfRange) if there is no such axis, or at the wait if
    /// it has size 0; [`UnsupportedType`](ErrorKind::UnsupportedType); those of a call.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[10, 11, 20, 21, 30, 31], [3, 2])?;
    /// let places = NDArray::from_slice(&[2i64, 0], [2])?;
    /// assert_eq!(x.take(&places, 0)?.to_vec::<i32>()?, [30, 31, 10, 11]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn take(&self, indices: &NDArray, axis: isize) -> Result<NDArray, Error> {
        call("take", &[self, indices], &[("axis", &axis.to_string())])
    }

    /// Of each row along an axis the element at a place of its own.
    ///
    /// # Errors
    /// Those of [`take`](NDArray::take); [`ShapeMismatch`](ErrorKind::ShapeMismatch) if `index` has
    /// not the shape of this array without the axis.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[1, 2, 3, 4], [2, 2])?;
    /// assert_eq!(x.pick(&NDArray::from_slice(&[1, 0], [2])?, -1)?.to_vec::<i32>()?, [2, 3]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn pick(&self, index: &NDArray, axis: isize) -> Result<NDArray, Error> {
        call("pick", &[self, index], &[("axis", &axis.to_string())])
    }

    /// For each element a row of so many that is 1 at the place which the element says, and else 0.
    ///
    /// # Errors
    /// [`BadParameter`](ErrorKind::BadParameter) if `depth` is 0; those of a call.
    ///
    /// ```
    /// # use seriatim_tensor::{DType, NDArray};
    /// let digits = NDArray::from_slice(&[2u8, 0], [2])?;
    /// assert_eq!(digits.one_hot(3, DType::F32)?.to_vec::<f32>()?, [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn one_hot(&self, depth: usize, dtype: DType) -> Result<NDArray, Error> {
        call("one_hot", &[self], &[("depth", &depth.to_string()), ("dtype", dtype.name())])
    }

    /// The rows of a weight at the places which the elements say (`Embedding`).
    ///
    /// # Errors
    /// [`ShapeMismatch`](ErrorKind::ShapeMismatch) if the weight has not two axes; those of a call.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let weight = NDArray::from_slice(&[0.5f32, 1.5, 2.5, 3.5], [2, 2])?;
    /// let words = NDArray::from_slice(&[1, 1, 0], [3])?;
    /// assert_eq!(words.embedding(&weight)?.to_vec::<f32>()?, [2.5, 3.5, 2.5, 3.5, 0.5, 1.5]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn embedding(&self, weight: &NDArray) -> Result<NDArray, Error> {
        let &[rows, elements] = weight.shape().dims() else {
            let message = format!("a weight of shape {} where two axes belong", weight.shape());
            return Err(Error::new(ErrorKind::ShapeMismatch, message));
        };
        let parameters = [("input_dim", &*rows.to_string()), ("output_dim", &elements.to_string())];
        call("Embedding", &[self, weight], &parameters)
    }

    /// The `k` greatest elements along an axis, the greatest first, and their places as `i64`. A
    /// gradient flows back through the elements.
    ///
    /// # Errors
    /// [`ShapeMismatch`](ErrorKind::ShapeMismatch) if there are not as many; those of a call.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[3.0f32, 1.0, 4.0, 1.0], [4])?;
    /// let (values, places) = x.topk(2, -1)?;
    /// assert_eq!(values.to_vec::<f32>()?, [4.0, 3.0]);
    /// assert_eq!(places.to_vec::<i64>()?, [2, 0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn topk(&self, k: usize, axis: isize) -> Result<(NDArray, NDArray), Error> {
        let (k, axis) = (k.to_string(), axis.to_string());
        let parameters = [("k", &*k), ("axis", &axis), ("ret_typ", "both"), ("dtype", "int64")];
        let mut both = Op::new("topk", &parameters)?.invoke_all(&[self])?;
        let places = both.swap_remove(1);
        Ok((both.swap_remove(0), places))
    }

    /// The elements in their order along an axis, the least first if `ascends`.
    ///
    /// # Errors
    /// [`OutOfRange`](ErrorKind::OutOfRange) if there is no such axis; those of a call.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[3.0f32, 1.0, 4.0], [3])?;
    /// assert_eq!(x.sort(-1, true)?.to_vec::<f32>()?, [1.0, 3.0, 4.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn sort(&self, axis: isize, ascends: bool) -> Result<NDArray, Error> {
        call("sort", &[self], &[("axis", &axis.to_string()), ("is_ascend", &ascends.show())])
    }

    /// The places of the elements in their order along an axis, as `i64`. Of equal elements the
    /// first one comes first. It has no gradient.
    ///
    /// # Errors
    /// Those of [`sort`](NDArray::sort).
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[3.0f32, 1.0, 4.0], [3])?;
    /// assert_eq!(x.argsort(-1, false)?.to_vec::<i64>()?, [2, 0, 1]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn argsort(&self, axis: isize, ascends: bool) -> Result<NDArray, Error> {
        let parameters = [("axis", &*axis.to_string()), ("is_ascend", &ascends.show()), ("dtype", "int64")];
        call("argsort", &[self], &parameters)
    }
}
