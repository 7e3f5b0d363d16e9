//! Views: other ways to show the elements of an array, without a copy. They share its memory and
//! its variable. While gradients are recorded, a view is a step of its own.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::ndarray::array::NDArray;
use crate::operator::op::Op;
use crate::operator::tape;
use crate::shape::{Layout, Shape};

impl NDArray {
    /// A view whose layout is `of` this one's.
    pub(super) fn view(&self, of: impl Fn(&Layout) -> Result<Layout, Error>) -> Result<NDArray, Error> {
        let viewed = self.viewed(of(self.layout())?)?;
        if tape::is_recording() && tape::is_tracked(self) {
            tape::record_view(self, of(&Layout::contiguous(self.shape()))?, &viewed);
        }
        Ok(viewed)
    }

    /// A view of the elements `begin`, `begin + step`, … before `end` of an axis.
    ///
    /// # Errors
    /// [`OutOfRange`](ErrorKind::OutOfRange).
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[0, 1, 2, 3, 4, 5], [2, 3])?;
    /// let outer = x.slice(-1, 0, 3, 2)?;
    /// outer.fill(9)?;
    /// assert_eq!(x.to_vec::<i32>()?, [9, 1, 9, 9, 4, 9]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn slice(&self, axis: isize, begin: usize, end: usize, step: usize) -> Result<NDArray, Error> {
        let axis = self.shape().axis(axis)?;
        self.view(|layout| layout.slice(axis, begin, end, step))
    }

    /// A view of one place of the first axis, which goes away.
    ///
    /// # Errors
    /// [`OutOfRange`](ErrorKind::OutOfRange).
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[0, 1, 2, 3], [2, 2])?;
    /// assert_eq!(x.at(1)?.to_vec::<i32>()?, [2, 3]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn at(&self, index: usize) -> Result<NDArray, Error> {
        self.shape().axis(0)?;
        let end = index.saturating_add(1);
        self.view(|layout| layout.slice(0, index, end, 1)?.without(0))
    }

    /// The same elements in another shape: a view if strides can say so, else a copy. One size may
    /// be `usize::MAX`, which stands for what is left.
    ///
    /// # Errors
    /// [`ShapeMismatch`](ErrorKind::ShapeMismatch) if the shape has another number of elements.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[0, 1, 2, 3, 4, 5], [2, 3])?;
    /// assert_eq!(x.reshape([3, usize::MAX])?.shape().dims(), [3, 2]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn reshape(&self, shape: impl AsRef<[usize]>) -> Result<NDArray, Error> {
        let mut dims = smallvec::SmallVec::<[usize; 8]>::from_slice(shape.as_ref());
        let wrong = || {
            let message = format!("an array of shape {} has no shape {:?}", self.shape(), shape.as_ref());
            Error::new(ErrorKind::ShapeMismatch, message)
        };
        if let Some(left) = dims.iter().position(|dim| *dim == usize::MAX) {
            dims[left] = 1;
            let others = Shape::new(&dims)?.size();
            dims[left] = self.size().checked_div(others).ok_or_else(wrong)?;
        }
        let shape = Shape::new(&dims)?;
        if shape.size() != self.size() {
            return Err(wrong());
        }
        let source = if self.layout().reshape(shape).is_some() { self.clone() } else { self.copy()? };
        source.view(|layout| layout.reshape(shape).ok_or_else(wrong))
    }

    /// A view with the axes in the opposite order.
    ///
    /// # Errors
    /// None that happens.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[0, 1, 2, 3], [2, 2])?;
    /// assert_eq!(x.transpose()?.to_vec::<i32>()?, [0, 2, 1, 3]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn transpose(&self) -> Result<NDArray, Error> {
        let order: smallvec::SmallVec<[usize; 8]> = (0..self.ndim()).rev().collect();
        self.permute(&order)
    }

    /// A view with the axes in this order.
    ///
    /// # Errors
    /// [`OutOfRange`](ErrorKind::OutOfRange) if the list has not each axis once.
    ///
    /// ```
    /// # use seriatim_tensor::{DType, NDArray};
    /// assert_eq!(NDArray::zeros([2, 3, 4], DType::U8)?.permute(&[1, 2, 0])?.shape().dims(), [3, 4, 2]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn permute(&self, axes: &[usize]) -> Result<NDArray, Error> {
        self.view(|layout| layout.permute(axes))
    }

    /// The same elements along a larger shape, by NumPy's rule. It is a view that cannot be
    /// written; while gradients of the array are recorded it is a copy.
    ///
    /// # Errors
    /// [`ShapeMismatch`](ErrorKind::ShapeMismatch).
    ///
    /// ```
    /// # use seriatim_tensor::{ErrorKind, NDArray};
    /// let x = NDArray::from_slice(&[1, 2], [2])?.broadcast_to([2, 2])?;
    /// assert_eq!(x.to_vec::<i32>()?, [1, 2, 1, 2]);
    /// assert_eq!(x.fill(0).unwrap_err().kind(), ErrorKind::OverlappingView);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn broadcast_to(&self, shape: impl AsRef<[usize]>) -> Result<NDArray, Error> {
        let shape = Shape::new(shape.as_ref())?;
        if tape::is_recording() && tape::is_tracked(self) {
            let list: String = shape.dims().iter().map(|dim| format!("{dim},")).collect();
            return Op::new("broadcast_to", &[("shape", &format!("({list})"))])?.invoke(&[self]);
        }
        self.viewed(self.layout().broadcast_to(shape)?)
    }
}
