//! `tile` and `repeat`: elements several times, as a whole or each by itself. The gradient is a
//! sum.
//!
//! Both part axes of the result in two, of which one has the elements and the other their copies,
//! so that the input broadcasts along the copies.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::element_copy::{make, Copying};
use crate::operator::lists::Dims;
use crate::operator::map::copy;
use crate::operator::parameters::Parameters;
use crate::operator::parts::Workers;
use crate::operator::reduction::sum_to;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::{Layout, Shape, MAX_RANK};
use smallvec::SmallVec;

/// Of `tile`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct TileParameters {
    /// How often the array comes along each axis; fewer are those of the last axes.
    pub reps: Dims,
}

/// Of `repeat`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct RepeatParameters {
    /// How often each element comes.
    pub repeats: usize,
    /// Along which axis; None repeats the elements as one row.
    #[parameter(default = None)]
    pub axis: Option<isize>,
}

type Sizes = SmallVec<[usize; MAX_RANK]>;

/// A layout of some axes, built up from the first.
struct Parted {
    dims: Sizes,
    strides: [isize; MAX_RANK],
}

impl Parted {
    fn push(&mut self, dim: usize, stride: isize) {
        if let Some(place) = self.strides.get_mut(self.dims.len()) {
            *place = stride;
        }
        self.dims.push(dim);
    }

    fn layout(&self, offset: usize) -> Result<Layout, Error> {
        Ok(Layout { shape: Shape::new(&self.dims)?, strides: self.strides, offset })
    }
}

/// Parts each axis of `to` in copies and elements, of which `from` has the elements. `is_outer`
/// says that the copies lie around the elements. Axes of size 1 are left out.
fn part(from: &Layout, to: &Layout, is_outer: bool) -> Result<(Layout, Layout), Error> {
    let missing = to.shape.rank() - from.shape.rank();
    let new = || Parted { dims: Sizes::new(), strides: [0; MAX_RANK] };
    let (mut one, mut other) = (new(), new());
    for axis in 0..to.shape.rank() {
        let (elements, stride) = match axis.checked_sub(missing) {
            Some(at) => (from.shape.dims()[at], from.strides[at]),
            None => (1, 0),
        };
        let (copies, step) = (to.shape.dims()[axis].checked_div(elements).unwrap_or(1), to.strides[axis]);
        let around = if is_outer { step.saturating_mul(elements as isize) } else { step };
        let within = if is_outer { step } else { step.saturating_mul(copies as isize) };
        for is_copies in [is_outer, !is_outer] {
            if is_copies && copies != 1 {
                one.push(1, 0);
                other.push(copies, around);
            } else if !is_copies && elements != 1 {
                one.push(elements, stride);
                other.push(elements, within);
            }
        }
    }
    Ok((one.layout(from.offset)?, other.layout(to.offset)?))
}

impl TileParameters {
    fn shape(&self, of: &Shape) -> Result<Shape, Error> {
        let reps = &self.reps.0;
        let rank = reps.len().max(of.rank());
        let at = |sizes: &[usize], axis: usize| (axis + sizes.len()).checked_sub(rank).map_or(1, |at| sizes[at]);
        let dims: Sizes = (0..rank).map(|axis| at(of.dims(), axis).saturating_mul(at(reps, axis))).collect();
        Shape::new(&dims)
    }

    /// The layouts of the elements and of the result, so that the first broadcasts to the second.
    fn parted(&self, from: &Layout, to: &Layout) -> Result<(Layout, Layout), Error> {
        part(from, to, true)
    }
}

impl RepeatParameters {
    fn shape(&self, of: &Shape) -> Result<Shape, Error> {
        let RepeatParameters { repeats, axis } = *self;
        let Some(axis) = axis else { return Shape::new(&[of.size().saturating_mul(repeats)]) };
        let (mut dims, axis) = (Sizes::from_slice(of.dims()), of.axis(axis)?);
        dims[axis] = dims[axis].saturating_mul(repeats);
        Shape::new(&dims)
    }

    /// The same for elements that are repeated each by itself.
    fn parted(&self, from: &Layout, to: &Layout) -> Result<(Layout, Layout), Error> {
        if self.axis.is_some() {
            return part(from, to, false);
        }
        // The one row is the elements' axes, and a last one of copies.
        let (mut one, mut dims) = (*from, Sizes::from_slice(from.shape.dims()));
        dims.push(1);
        one.shape = Shape::new(&dims)?;
        dims[from.shape.rank()] = self.repeats;
        let other = to.reshape(Shape::new(&dims)?);
        let other = other.ok_or_else(|| Error::new(ErrorKind::ShapeMismatch, "the result is no row of copies"));
        Ok((one, other?))
    }
}

macro_rules! copies {
    ($($parameters:ident),*) => {$(
        impl Copying for $parameters {
            fn out_shape(&self, of: &Shape) -> Result<Shape, Error> {
                let out = self.shape(of)?;
                // A result of too many parted axes is refused now, and not while it runs.
                self.parted(&Layout::contiguous(*of), &Layout::contiguous(out)).map(|_| out)
            }

            fn forward(&self, workers: Workers<'_>, data: &Blob<'_>, out: &mut BlobMut<'_>, req: OpReq) -> Result<(), Error> {
                let from = data.layout();
                let (one, _) = self.parted(from, &Layout::contiguous(out.shape()))?;
                let (_, to) = self.parted(from, out.layout())?;
                copy(workers, &data.with_layout(&one), &mut out.with_layout(&to), req)
            }

            fn backward(
                &self,
                workers: Workers<'_>,
                grad: &Blob<'_>,
                in_grad: &mut BlobMut<'_>,
                req: OpReq,
            ) -> Result<(), Error> {
                let of = Layout::contiguous(in_grad.shape());
                let of_grad = self.parted(&of, grad.layout())?.1;
                let to = Layout::contiguous(self.shape(&of.shape)?);
                let of_out = self.parted(in_grad.layout(), &to)?.0;
                sum_to(workers, &grad.with_layout(&of_grad), &mut in_grad.with_layout(&of_out), req)
            }
        }
    )*};
}

copies!(TileParameters, RepeatParameters);

/// Both.
pub(super) fn all(add: &mut Builtin<'_>) {
    let about = "The whole array several times along axes";
    add("tile", about, make::<TileParameters>());
    let about = "Each element several times along an axis";
    add("repeat", about, make::<RepeatParameters>());
}
