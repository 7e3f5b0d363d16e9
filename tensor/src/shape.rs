//! `Shape`, the sizes of an array, and `Layout`, where its elements lie: shape, strides, offset.
//!
//! Both are plain values without memory of their own, so that operations carry them without an
//! allocation. All other folders use them.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use smallvec::SmallVec;
use std::fmt;

/// The most dimensions that an array can have.
pub const MAX_RANK: usize = 8;

/// The sizes of an array's dimensions: none for a single number, up to [`MAX_RANK`].
///
/// A size may be 0. The number of elements may be beyond 2³¹; it is at most `isize::MAX / 16`.
///
/// ```
/// use seriatim_tensor::Shape;
/// let shape = Shape::new(&[2, 3])?;
/// assert_eq!((shape.dims(), shape.rank(), shape.size()), (&[2, 3][..], 2, 6));
/// assert_eq!(Shape::new(&[])?.size(), 1);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Eq, Hash)]
#[expect(clippy::derived_hash_with_manual_eq, reason = "equal by the same fields")]
pub struct Shape {
    rank: u8,
    /// Those beyond the rank are 0.
    dims: [usize; MAX_RANK],
}

impl Shape {
    /// The shape of a single number.
    pub const SCALAR: Shape = Shape { rank: 0, dims: [0; MAX_RANK] };

    /// A shape of these sizes.
    ///
    /// # Errors
    /// [`TooLarge`](ErrorKind::TooLarge) for more than [`MAX_RANK`] dimensions, or for more than
    /// `isize::MAX / 16` elements. Sizes of 0 count as 1 in that product.
    ///
    /// ```
    /// use seriatim_tensor::{ErrorKind, Shape};
    /// assert_eq!(Shape::new(&[1; 9]).unwrap_err().kind(), ErrorKind::TooLarge);
    /// assert_eq!(Shape::new(&[usize::MAX, 2]).unwrap_err().kind(), ErrorKind::TooLarge);
    /// ```
    pub fn new(dims: &[usize]) -> Result<Shape, Error> {
        if dims.len() > MAX_RANK {
            let message = format!("a shape of {} dimensions: {MAX_RANK} is the most", dims.len());
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let size = dims.iter().try_fold(1usize, |size, dim| size.checked_mul((*dim).max(1)));
        if size.is_none_or(|size| size > isize::MAX as usize / 16) {
            let message = format!("a shape of {dims:?} has more elements than memory can have");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let mut shape = Shape { rank: dims.len() as u8, dims: [0; MAX_RANK] };
        shape.dims[..dims.len()].copy_from_slice(dims);
        Ok(shape)
    }

    /// The sizes, outermost first.
    ///
    /// ```
    /// assert!(seriatim_tensor::Shape::SCALAR.dims().is_empty());
    /// ```
    #[inline]
    pub fn dims(&self) -> &[usize] {
        &self.dims[..usize::from(self.rank)]
    }

    /// How many dimensions there are.
    ///
    /// ```
    /// assert_eq!(seriatim_tensor::Shape::SCALAR.rank(), 0);
    /// ```
    #[inline]
    pub fn rank(&self) -> usize {
        usize::from(self.rank)
    }

    /// How many elements there are.
    ///
    /// ```
    /// assert_eq!(seriatim_tensor::Shape::new(&[4, 0])?.size(), 0);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    #[inline]
    pub fn size(&self) -> usize {
        self.dims().iter().product()
    }

    /// The shape to which two broadcast, by NumPy's rule: sizes are compared from the last, and a
    /// size of 1 or a missing one goes with any.
    ///
    /// # Errors
    /// [`ShapeMismatch`](ErrorKind::ShapeMismatch), which names both; or
    /// [`TooLarge`](ErrorKind::TooLarge).
    ///
    /// ```
    /// use seriatim_tensor::Shape;
    /// let (column, row) = (Shape::new(&[2, 1])?, Shape::new(&[3])?);
    /// assert_eq!(column.broadcast(&row)?.dims(), &[2, 3]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn broadcast(&self, other: &Shape) -> Result<Shape, Error> {
        let rank = self.rank().max(other.rank());
        let mut dims = [1; MAX_RANK];
        for (at, dim) in dims[..rank].iter_mut().enumerate() {
            let of = |shape: &Shape| (at + shape.rank()).checked_sub(rank).map_or(1, |at| shape.dims[at]);
            *dim = match (of(self), of(other)) {
                (one, two) if one == two => one,
                (1, size) | (size, 1) => size,
                _ => {
                    let message = format!("shapes {self} and {other} do not broadcast to one");
                    return Err(Error::new(ErrorKind::ShapeMismatch, message));
                }
            };
        }
        Shape::new(&dims[..rank])
    }

    /// The place of an axis that may be counted from the end by a negative number.
    ///
    /// # Errors
    /// [`OutOfRange`](ErrorKind::OutOfRange).
    ///
    /// ```
    /// assert_eq!(seriatim_tensor::Shape::new(&[2, 3])?.axis(-1)?, 1);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn axis(&self, axis: isize) -> Result<usize, Error> {
        let at = if axis < 0 { axis + self.rank() as isize } else { axis };
        usize::try_from(at).ok().filter(|at| *at < self.rank()).ok_or_else(|| {
            let message = format!("axis {axis} of an array of shape {self}, which has {} of them", self.rank());
            Error::new(ErrorKind::OutOfRange, message)
        })
    }
}

impl PartialEq for Shape {
    /// In the caller: a derived comparison calls `memcmp`, which takes longer than a short kernel.
    #[inline]
    fn eq(&self, other: &Shape) -> bool {
        let differ = self.dims.iter().zip(&other.dims).fold(0, |differ, (one, other)| differ | (one ^ other));
        differ == 0 && self.rank == other.rank
    }
}

/// Calls take a shape as anything that gives its sizes: an array, a slice, or a shape.
impl AsRef<[usize]> for Shape {
    fn as_ref(&self) -> &[usize] {
        self.dims()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.dims())
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shape({:?})", self.dims())
    }
}

/// Where the elements of an array lie in its chunk of memory, counted in elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub shape: Shape,
    pub strides: [isize; MAX_RANK],
    pub offset: usize,
}

impl Layout {
    /// One after the other, the last axis fastest.
    pub fn contiguous(shape: Shape) -> Layout {
        let mut strides = [0; MAX_RANK];
        let mut stride = 1isize;
        for at in (0..shape.rank()).rev() {
            strides[at] = stride;
            stride *= shape.dims()[at].max(1) as isize;
        }
        Layout { shape, strides, offset: 0 }
    }

    /// Whether the elements lie one after the other, from the offset on.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        let mut stride = 1isize;
        for (at, dim) in self.shape.dims().iter().enumerate().rev() {
            if *dim != 1 && self.strides[at] != stride {
                return self.shape.size() == 0;
            }
            stride *= *dim as isize;
        }
        true
    }

    /// The first place in the chunk and the one behind the last, in elements.
    pub fn extent(&self) -> (usize, usize) {
        if self.shape.size() == 0 {
            return (self.offset, self.offset);
        }
        let steps = self.shape.dims().iter().zip(self.strides);
        let (low, high) = steps.fold((0, 0), |(low, high), (dim, stride)| {
            let reach = (*dim as isize - 1) * stride;
            (low + reach.min(0), high + reach.max(0))
        });
        (self.offset.wrapping_add_signed(low), self.offset.wrapping_add_signed(high) + 1)
    }

    /// Whether both may show an element of one chunk.
    pub fn overlaps(&self, other: &Layout) -> bool {
        let ((a, b), (c, d)) = (self.extent(), other.extent());
        a < d && c < b
    }

    /// Whether it shows each of so many elements, and each once.
    #[inline]
    pub fn is_all_of(&self, elements: usize) -> bool {
        self.shape.size() == elements && !self.repeats()
    }

    /// Whether an element of the chunk is shown at several places.
    #[inline]
    pub fn repeats(&self) -> bool {
        let axes = self.shape.dims().iter().zip(self.strides);
        self.shape.size() > 1 && axes.into_iter().any(|(dim, stride)| *dim > 1 && stride == 0)
    }

    /// The same elements along `shape`, to which this layout's shape broadcasts.
    pub fn broadcast_to(&self, shape: Shape) -> Result<Layout, Error> {
        if self.shape.broadcast(&shape)? != shape {
            let message = format!("shape {} does not broadcast to {shape}", self.shape);
            return Err(Error::new(ErrorKind::ShapeMismatch, message));
        }
        let mut strides = [0; MAX_RANK];
        let missing = shape.rank() - self.shape.rank();
        for (at, dim) in self.shape.dims().iter().enumerate() {
            strides[missing + at] = if *dim == shape.dims()[missing + at] { self.strides[at] } else { 0 };
        }
        Ok(Layout { shape, strides, offset: self.offset })
    }

    /// Elements `begin`, `begin + step`, … before `end` of an axis.
    pub fn slice(&self, axis: usize, begin: usize, end: usize, step: usize) -> Result<Layout, Error> {
        let dim = self.shape.dims()[axis];
        if begin > end || end > dim || step == 0 {
            let message = format!("slice {begin}..{end} by {step} of axis {axis} of shape {}", self.shape);
            return Err(Error::new(ErrorKind::OutOfRange, message));
        }
        let mut layout = *self;
        let mut dims = self.shape.dims;
        dims[axis] = (end - begin).div_ceil(step);
        layout.shape = Shape::new(&dims[..self.shape.rank()])?;
        if dims[axis] > 0 {
            layout.offset = self.offset.wrapping_add_signed(begin as isize * self.strides[axis]);
        }
        layout.strides[axis] = self.strides[axis].saturating_mul(step as isize);
        Ok(layout)
    }

    /// The same without an axis, of which the first place stays.
    pub fn without(&self, axis: usize) -> Result<Layout, Error> {
        let (mut layout, rank) = (*self, self.shape.rank());
        let mut dims = self.shape.dims;
        dims.copy_within(axis + 1.., axis);
        layout.strides.copy_within(axis + 1.., axis);
        layout.shape = Shape::new(&dims[..rank - 1])?;
        Ok(layout)
    }

    /// The axes in another order.
    pub fn permute(&self, axes: &[usize]) -> Result<Layout, Error> {
        let rank = self.shape.rank();
        let mut seen = [false; MAX_RANK];
        let is_permutation =
            axes.len() == rank && axes.iter().all(|axis| *axis < rank && !std::mem::replace(&mut seen[*axis], true));
        if !is_permutation {
            let message = format!("axes {axes:?} are no order of the {rank} axes of shape {}", self.shape);
            return Err(Error::new(ErrorKind::OutOfRange, message));
        }
        let (mut layout, mut dims) = (*self, [0; MAX_RANK]);
        for (at, axis) in axes.iter().enumerate() {
            (dims[at], layout.strides[at]) = (self.shape.dims[*axis], self.strides[*axis]);
        }
        layout.shape = Shape { rank: self.shape.rank, dims };
        Ok(layout)
    }

    /// The same elements in tiles of so many places of two axes, which divide their sizes. The axes
    /// of a tile are the last two.
    pub fn tiles(&self, (axis, rows): (usize, usize), (other, columns): (usize, usize)) -> Result<Layout, Error> {
        let (mut layout, mut dims, rank) = (*self, self.shape.dims, self.shape.rank());
        for (at, (axis, side)) in [(axis, rows), (other, columns)].into_iter().enumerate() {
            (dims[rank + at], layout.strides[rank + at]) = (side, self.strides[axis]);
            dims[axis] /= side;
            layout.strides[axis] *= side as isize;
        }
        layout.shape = Shape::new(&dims[..rank + 2])?;
        Ok(layout)
    }

    /// The axes of another layout behind those of this one, whose offset stays.
    pub fn before(&self, other: &Layout) -> Result<Layout, Error> {
        let (mut layout, mut dims, rank) = (*self, self.shape.dims, self.shape.rank());
        let all = rank + other.shape.rank();
        dims[rank..all].copy_from_slice(other.shape.dims());
        layout.strides[rank..all].copy_from_slice(&other.strides[..other.shape.rank()]);
        layout.shape = Shape::new(&dims[..all])?;
        Ok(layout)
    }

    /// The same elements in the same order, with axes that lie within each other as one.
    pub fn merged(&self) -> Layout {
        let (mut dims, mut strides, mut rank) = ([0; MAX_RANK], [0; MAX_RANK], 0);
        for (dim, stride) in self.shape.dims().iter().copied().zip(self.strides).filter(|(dim, _)| *dim != 1) {
            if rank > 0 && strides[rank - 1] == stride.wrapping_mul(dim as isize) {
                dims[rank - 1] *= dim;
                strides[rank - 1] = stride;
            } else {
                (dims[rank], strides[rank]) = (dim, stride);
                rank += 1;
            }
        }
        Layout { shape: Shape { rank: rank as u8, dims }, strides, offset: self.offset }
    }

    /// The place of an element, by its number in the order.
    pub fn place(&self, number: usize) -> usize {
        let (mut rest, mut place) = (number, self.offset as isize);
        for (dim, stride) in self.shape.dims().iter().zip(self.strides).rev() {
            place += (rest % dim) as isize * stride;
            rest /= dim;
        }
        place as usize
    }

    /// The same elements in another shape, if strides can say so. The sizes must be equal.
    pub fn reshape(&self, shape: Shape) -> Option<Layout> {
        if self.is_contiguous() {
            return Some(Layout { offset: self.offset, ..Layout::contiguous(shape) });
        }
        // Runs of old axes are matched with runs of new axes that have as many elements.
        let old: SmallVec<[(usize, isize); MAX_RANK]> =
            self.shape.dims().iter().copied().zip(self.strides).filter(|(dim, _)| *dim != 1).collect();
        let (mut strides, new) = ([0; MAX_RANK], shape.dims());
        let (mut from, mut to) = (0, 0);
        while from < old.len() {
            let (mut olds, mut news, first_to) = (old[from].0, 1, to);
            let first = from;
            from += 1;
            loop {
                if news < olds {
                    news *= *new.get(to)?;
                    to += 1;
                } else if olds < news {
                    let (dim, stride) = *old.get(from)?;
                    // Axes that become one must lie one within the other.
                    if old[from - 1].1 != stride * dim as isize {
                        return None;
                    }
                    olds *= dim;
                    from += 1;
                } else {
                    break;
                }
            }
            debug_assert!(first < from);
            let mut stride = old[from - 1].1;
            for at in (first_to..to).rev() {
                strides[at] = stride;
                stride *= new[at] as isize;
            }
        }
        Some(Layout { shape, strides, offset: self.offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(dims: &[usize]) -> Layout {
        Layout::contiguous(Shape::new(dims).unwrap())
    }

    /// The places of all elements, in order.
    fn places(layout: &Layout) -> Vec<usize> {
        (0..layout.shape.size()).map(|number| layout.place(number)).collect()
    }

    #[test]
    fn slices_and_permutations_show_the_right_places() {
        let base = layout(&[3, 4]);
        assert_eq!(places(&base.slice(1, 1, 4, 2).unwrap()), [1, 3, 5, 7, 9, 11]);
        assert_eq!(places(&base.permute(&[1, 0]).unwrap()), [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]);
        assert_eq!(places(&base.slice(0, 2, 2, 1).unwrap()), [0usize; 0]);
        assert_eq!(base.slice(0, 1, 3, 1).unwrap().extent(), (4, 12));
        assert!(base.slice(0, 2, 4, 1).is_err() && base.slice(0, 2, 1, 1).is_err() && base.slice(0, 0, 1, 0).is_err());
        assert!(base.permute(&[0, 0]).is_err() && base.permute(&[0]).is_err() && base.permute(&[0, 2]).is_err());
    }

    #[test]
    fn a_reshape_is_a_view_only_where_strides_can_say_it() {
        let shape = |dims: &[usize]| Shape::new(dims).unwrap();
        let turned = layout(&[2, 3, 4]).permute(&[1, 0, 2]).unwrap();
        assert!(turned.reshape(shape(&[6, 4])).is_none());
        let split = turned.reshape(shape(&[3, 2, 2, 1, 2])).unwrap();
        assert_eq!(places(&split), places(&turned));
        let column = layout(&[4, 6]).slice(1, 0, 3, 1).unwrap();
        assert!(column.reshape(shape(&[12])).is_none());
        assert_eq!(places(&column.reshape(shape(&[2, 2, 3])).unwrap()), places(&column));
        let ones = layout(&[4, 6]).slice(1, 0, 1, 1).unwrap();
        assert_eq!(places(&ones.reshape(shape(&[2, 1, 2])).unwrap()), places(&ones));
    }

    #[test]
    fn shapes_are_equal_by_all_of_their_sizes_and_their_number() {
        let shapes = [&[][..], &[0], &[0, 0], &[1], &[1, 1], &[2, 3], &[3, 2], &[2, 3, 1], &[1, 1, 1, 1, 1, 1, 1, 2]];
        for (at, one) in shapes.iter().enumerate() {
            for (number, other) in shapes.iter().enumerate() {
                assert_eq!(Shape::new(one).unwrap() == Shape::new(other).unwrap(), at == number, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn what_repeats_is_known() {
        let row = layout(&[3]).broadcast_to(Shape::new(&[2, 3]).unwrap()).unwrap();
        assert!(row.repeats() && !row.is_contiguous());
        assert_eq!(places(&row), [0, 1, 2, 0, 1, 2]);
        assert!(!layout(&[1, 3]).repeats());
        assert!(layout(&[2]).broadcast_to(Shape::new(&[3]).unwrap()).is_err());
    }
}
