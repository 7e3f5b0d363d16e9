//! Operators whose result shows elements of the input in another way: `slice`, `slice_axis`,
//! `transpose`, `expand_dims` and `squeeze`. Each is a function of layouts; the elements are
//! copied.
//!
//! `NDArray`'s views do the same without a copy. These are for graphs, and for results that own
//! their memory.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::element_copy::{make, Copying};
use crate::operator::lists::Places;
use crate::operator::map::{copy, zero};
use crate::operator::parameters::{Axes, Parameters};
use crate::operator::parts::Workers;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::{Layout, Shape, MAX_RANK};
use smallvec::SmallVec;

/// Of `slice`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct SliceParameters {
    /// The first place of each axis, counted from the end if negative; None has the whole axis.
    pub begin: Places,
    /// The place behind the last of each axis; None has the whole axis.
    pub end: Places,
    /// From place to place of each axis; negative steps go backwards; None is 1.
    #[parameter(default = "()")]
    pub step: Places,
}

/// Of `slice_axis`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct SliceAxisParameters {
    /// The axis, counted from the end if negative.
    pub axis: isize,
    /// The first place, counted from the end if negative.
    pub begin: isize,
    /// The place behind the last; None has all up to the end.
    pub end: Option<isize>,
}

/// Of `transpose`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct TransposeParameters {
    /// The axes in their new order; None is the opposite order.
    #[parameter(default = None)]
    pub axes: Axes,
}

/// Of `expand_dims`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct ExpandDimsParameters {
    /// Where the new axis is in the result, counted from the end if negative.
    pub axis: isize,
}

/// Of `squeeze`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct SqueezeParameters {
    /// The axes of size 1 that go; None has all of that size go.
    #[parameter(default = None)]
    pub axis: Axes,
}

/// The places `begin`, `begin + step`, … before `end`, as NumPy counts them: cut to the axis.
fn ranged(layout: &Layout, axis: usize, [begin, end, step]: [Option<isize>; 3]) -> Result<Layout, Error> {
    let (length, step) = (layout.shape.dims()[axis] as isize, step.unwrap_or(1));
    if step == 0 {
        return Err(Error::new(ErrorKind::BadParameter, format!("the step of axis {axis} is 0, and no place is next")));
    }
    // Backwards, the place before the first is -1.
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let place = |place: Option<isize>, default: isize| {
        place.map_or(default, |place| if place < 0 { place.saturating_add(length) } else { place }).clamp(low, high)
    };
    let (begin, end) =
        if step > 0 { (place(begin, low), place(end, high)) } else { (place(begin, high), place(end, low)) };
    let (span, stride) = if step > 0 { (end - begin, step) } else { (begin - end, -step.max(-isize::MAX)) };
    let count = usize::try_from(span).unwrap_or(0).div_ceil(stride.unsigned_abs());
    let mut dims = SmallVec::<[usize; MAX_RANK]>::from_slice(layout.shape.dims());
    dims[axis] = count;
    let mut ranged = Layout { shape: Shape::new(&dims)?, ..*layout };
    if count > 0 {
        ranged.offset = layout.offset.wrapping_add_signed(begin * layout.strides[axis]);
    }
    ranged.strides[axis] = layout.strides[axis].saturating_mul(step);
    Ok(ranged)
}

/// The layout with a new axis of size 1.
pub(super) fn with_axis(layout: &Layout, axis: isize) -> Result<Layout, Error> {
    let (mut dims, mut strides) = (SmallVec::<[usize; 8]>::from_slice(layout.shape.dims()), layout.strides);
    dims.push(1);
    let axis = Shape::new(&dims)?.axis(axis)?;
    dims[axis..].rotate_right(1);
    strides[axis..].rotate_right(1);
    strides[axis] = 1;
    Ok(Layout { shape: Shape::new(&dims)?, strides, offset: layout.offset })
}

/// The layout without axes of size 1: these, or all.
pub(super) fn without_ones(layout: &Layout, axes: &Axes) -> Result<Layout, Error> {
    let shape = layout.shape;
    let mut goes = [false; MAX_RANK];
    match &axes.0 {
        None => shape.dims().iter().zip(&mut goes).for_each(|(dim, goes)| *goes = *dim == 1),
        Some(axes) => {
            for axis in axes {
                let axis = shape.axis(*axis)?;
                if shape.dims()[axis] != 1 {
                    let message = format!("axis {axis} of shape {shape} is not of size 1, and cannot go");
                    return Err(Error::new(ErrorKind::ShapeMismatch, message));
                }
                goes[axis] = true;
            }
        }
    }
    let mut left = *layout;
    for axis in (0..shape.rank()).rev().filter(|axis| goes[*axis]) {
        left = left.without(axis)?;
    }
    Ok(left)
}

/// Copies the elements that a layout shows, of that of the input. `$shows_all` says whether these
/// are all.
macro_rules! shows {
    ($($parameters:ident, $shows_all:literal, |$self:ident, $layout:ident| $show:expr;)*) => {$(
        impl $parameters {
            fn show(&$self, $layout: &Layout) -> Result<Layout, Error> {
                $show
            }
        }

        impl Copying for $parameters {
            fn out_shape(&self, of: &Shape) -> Result<Shape, Error> {
                self.show(&Layout::contiguous(*of)).map(|shown| shown.shape)
            }

            fn forward(&self, workers: Workers<'_>, data: &Blob<'_>, out: &mut BlobMut<'_>, req: OpReq) -> Result<(), Error> {
                copy(workers, &data.with_layout(&self.show(data.layout())?), out, req)
            }

            fn backward(
                &self,
                workers: Workers<'_>,
                grad: &Blob<'_>,
                in_grad: &mut BlobMut<'_>,
                req: OpReq,
            ) -> Result<(), Error> {
                if !$shows_all {
                    zero(in_grad, req)?;
                }
                let shown = self.show(in_grad.layout())?;
                copy(workers, grad, &mut in_grad.with_layout(&shown), req)
            }
        }
    )*};
}

shows! {
    SliceParameters, false, |self, layout| {
        let (begin, end, step) = (&self.begin.0, &self.end.0, &self.step.0);
        let is_list = begin.len() == end.len() && (step.is_empty() || step.len() == begin.len());
        if !is_list || begin.len() > layout.shape.rank() {
            let message = format!("begin, end and step are no lists for shape {}: {:?}", layout.shape, self.params());
            return Err(Error::new(ErrorKind::ShapeMismatch, message));
        }
        let mut shown = *layout;
        for axis in 0..begin.len() {
            shown = ranged(&shown, axis, [begin[axis], end[axis], step.get(axis).copied().flatten()])?;
        }
        Ok(shown)
    };
    SliceAxisParameters, false, |self, layout| {
        ranged(layout, layout.shape.axis(self.axis)?, [Some(self.begin), self.end, None])
    };
    TransposeParameters, true, |self, layout| {
        let shape = layout.shape;
        let order: Result<SmallVec<[usize; MAX_RANK]>, Error> = match &self.axes.0 {
            None => Ok((0..shape.rank()).rev().collect()),
            Some(axes) => axes.iter().map(|axis| shape.axis(*axis)).collect(),
        };
        layout.permute(&order?)
    };
    ExpandDimsParameters, true, |self, layout| with_axis(layout, self.axis);
    SqueezeParameters, true, |self, layout| without_ones(layout, &self.axis);
}

/// All of them.
pub(super) fn all(add: &mut Builtin<'_>) {
    macro_rules! add {
        ($($name:literal, $parameters:ident, $about:literal;)*) => {$(
            add($name, $about, make::<$parameters>());
        )*};
    }
    add! {
        "slice", SliceParameters, "The places of each axis from begin by step up to end";
        "slice_axis", SliceAxisParameters, "The places of one axis from begin up to end";
        "transpose", TransposeParameters, "The axes in another order";
        "expand_dims", ExpandDimsParameters, "The same elements with a new axis of size 1";
        "squeeze", SqueezeParameters, "The same elements without axes of size 1";
    }
}
