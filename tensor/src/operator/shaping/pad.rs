//! `Pad`: an array with more places at the ends of its axes.

#![forbid(unsafe_code)]

use crate::dtype::{DType, Element};
use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::lists::Dims;
use crate::operator::map::{with_float, with_work};
use crate::operator::ordered::Ordered;
use crate::operator::parameters::{Choices, Parameters};
use crate::operator::property::{assign_shape, by_parameters, Given, OpContext, Operator, OperatorProperty};
use crate::operator::registry::Maker;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::{Shape, MAX_RANK};
use smallvec::SmallVec;

/// What the new places have.
#[derive(Clone, Copy, PartialEq, Debug, Choices)]
pub(crate) enum Mode {
    Constant,
    Edge,
    Reflect,
}

/// Of `Pad`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct PadParameters {
    /// What the new places have: a number, the next element, or the elements mirrored at it.
    #[parameter(default = "constant")]
    pub mode: Mode,
    /// How many places are new before and behind each axis: two numbers an axis.
    pub pad_width: Dims,
    /// The number.
    #[parameter(default = 0)]
    pub constant_value: f64,
}

#[derive(Clone, Debug)]
struct Pad {
    parameters: PadParameters,
}

impl Pad {
    fn out_shape(&self, of: &Shape) -> Result<Shape, Error> {
        let (widths, mode) = (&self.parameters.pad_width.0, self.parameters.mode);
        let wrong = |message: String| Err(Error::new(ErrorKind::ShapeMismatch, message));
        if widths.len() != 2 * of.rank() {
            return wrong(format!("pad_width has {} numbers, and shape {of} needs {}", widths.len(), 2 * of.rank()));
        }
        let mut dims = SmallVec::<[usize; MAX_RANK]>::new();
        for (axis, (dim, width)) in of.dims().iter().zip(widths.chunks_exact(2)).enumerate() {
            let widest = width[0].max(width[1]);
            let has_source = match mode {
                Mode::Constant => true,
                Mode::Edge => *dim > 0 || widest == 0,
                Mode::Reflect => widest < (*dim).max(1),
            };
            if !has_source {
                return wrong(format!("axis {axis} of shape {of} has too few elements to pad it by {widest}"));
            }
            dims.push(dim.saturating_add(width[0]).saturating_add(width[1]));
        }
        Shape::new(&dims)
    }

    /// The place of an axis of the input whose element a place of the result has.
    fn source(&self, axis: usize, length: usize, place: usize) -> Option<usize> {
        let before = self.parameters.pad_width.0[2 * axis];
        let last = length.wrapping_sub(1);
        match (place.checked_sub(before), self.parameters.mode) {
            (Some(at), _) if at < length => Some(at),
            (_, Mode::Constant) => None,
            (at, Mode::Edge) => Some(at.map_or(0, |_| last)),
            (None, Mode::Reflect) => Some(before - place),
            (Some(at), Mode::Reflect) => Some(2 * last - at),
        }
    }

    /// Calls `row` with the first source of each row of the result, or with none.
    fn rows(&self, of: &Shape, out: &Shape, mut row: impl FnMut(Option<usize>)) {
        let rank = of.rank();
        let outer = &out.dims()[..rank.saturating_sub(1)];
        for number in 0..outer.iter().product() {
            let (mut rest, mut stride, mut first) = (number, *of.dims().last().unwrap_or(&1), Some(0));
            for axis in (0..outer.len()).rev() {
                let source = self.source(axis, of.dims()[axis], rest % outer[axis]);
                first = first.zip(source).map(|(first, source)| first + source * stride);
                rest /= outer[axis];
                stride *= of.dims()[axis];
            }
            row(first);
        }
    }

    /// How long the rows are, and the source of a place of one.
    fn row(&self, of: &Shape, out: &Shape) -> (usize, impl Fn(usize) -> Option<usize> + '_) {
        let (axis, of) = (of.rank().saturating_sub(1), of.dims().last().copied());
        let length = out.dims().last().copied().unwrap_or(1);
        (length, move |place| of.map_or(Some(0), |of| self.source(axis, of, place)))
    }
}

impl OperatorProperty for Pad {
    by_parameters!();

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[0] else { return Ok(false) };
        assign_shape("output", &mut out_shape[0], self.out_shape(&shape)?).map(|()| true)
    }

    fn types(&self) -> &'static [DType] {
        &DType::ALL
    }

    fn declare_backward_dependency(&self, out_grad: &[usize], _: &[usize], _: &[usize]) -> Vec<usize> {
        out_grad.to_vec()
    }
}

impl Operator for Pad {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        if req[0].is_null() {
            return Ok(());
        }
        let (of, out) = (in_data[0].shape(), out_data[0].shape());
        with_work!(in_data[0].dtype(), W => {
            let mut source = Ordered::<W>::new(ctx, &in_data[0])?;
            let source = source.get();
            let (length, place) = self.row(&of, &out);
            let constant = W::from_number(self.parameters.constant_value.to_number());
            let mut scratch = ctx.scratch::<W>(length)?;
            let (row, mut writer) = (scratch.as_mut_slice(), out_data[0].writer::<W>(req[0]));
            self.rows(&of, &out, |first| {
                for (at, value) in row.iter_mut().enumerate() {
                    *value = first.zip(place(at)).map_or(constant, |(first, at)| source[first + at]);
                }
                writer.put(row);
            });
        });
        Ok(())
    }

    fn backward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        out_grad: Given<'_>,
        _: Given<'_>,
        _: Given<'_>,
        req: &[OpReq],
        in_grad: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        if req[0].is_null() {
            return Ok(());
        }
        let grad = out_grad.get(0)?;
        let (of, out) = (in_grad[0].shape(), grad.shape());
        with_float!(grad.dtype(), W => {
            let (length, place) = self.row(&of, &out);
            let (mut row, mut sums) = (ctx.scratch::<W>(length)?, ctx.scratch::<W>(of.size())?);
            let (row, sums) = (row.as_mut_slice(), sums.as_mut_slice());
            sums.fill(0.0);
            let mut reader = grad.reader::<W>();
            self.rows(&of, &out, |first| {
                reader.fill(row);
                for (at, value) in row.iter().enumerate() {
                    if let Some((first, at)) = first.zip(place(at)) {
                        sums[first + at] += *value;
                    }
                }
            });
            in_grad[0].writer::<W>(req[0]).put(sums);
        });
        Ok(())
    }
}

/// Both names of the one.
pub(super) fn all(add: &mut Builtin<'_>) {
    for name in ["Pad", "pad"] {
        let about = "The array with more places at the ends of its axes";
        add(name, about, Maker::of(|parameters: PadParameters| Ok(Box::new(Pad { parameters }))));
    }
}
