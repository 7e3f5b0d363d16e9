//! `split`: an array in equal parts along an axis, each an output.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::lists::numbered;
use crate::operator::map::copy;
use crate::operator::parameters::Parameters;
use crate::operator::property::{assign_shape, by_parameters, Given, OpContext, Operator, OperatorProperty};
use crate::operator::registry::Maker;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::{Layout, Shape};

/// Of `split`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct SplitParameters {
    /// How many parts there are.
    #[parameter(range = 1..=4096)]
    pub num_outputs: usize,
    /// The axis that is parted, counted from the end if negative.
    #[parameter(default = 1)]
    pub axis: isize,
    /// Whether the axis goes away, which then has size 1 in each part.
    #[parameter(default = false)]
    pub squeeze_axis: bool,
}

#[derive(Clone, Debug)]
struct Split {
    parameters: SplitParameters,
}

impl Split {
    /// The elements of a part.
    fn part(&self, layout: &Layout, number: usize) -> Result<Layout, Error> {
        let axis = layout.shape.axis(self.parameters.axis)?;
        let length = layout.shape.dims()[axis] / self.parameters.num_outputs;
        let part = layout.slice(axis, number * length, (number + 1) * length, 1)?;
        if self.parameters.squeeze_axis {
            part.without(axis)
        } else {
            Ok(part)
        }
    }
}

impl OperatorProperty for Split {
    by_parameters!();

    fn list_outputs(&self) -> Vec<&'static str> {
        numbered("output", self.parameters.num_outputs)
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[0] else { return Ok(false) };
        let SplitParameters { num_outputs, axis, squeeze_axis } = self.parameters;
        let length = shape.dims()[shape.axis(axis)?];
        if length % num_outputs != 0 || squeeze_axis && length != num_outputs {
            let alone = if squeeze_axis { " of size 1" } else { "" };
            let message = format!("axis {axis} of shape {shape} has no {num_outputs} equal parts{alone}");
            return Err(Error::new(ErrorKind::ShapeMismatch, message));
        }
        let part = self.part(&Layout::contiguous(shape), 0)?.shape;
        out_shape.iter_mut().try_for_each(|out| assign_shape("output", out, part)).map(|()| true)
    }

    fn types(&self) -> &'static [DType] {
        &DType::ALL
    }

    fn declare_backward_dependency(&self, out_grad: &[usize], _: &[usize], _: &[usize]) -> Vec<usize> {
        out_grad.to_vec()
    }
}

impl Operator for Split {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        for (number, (out, req)) in out_data.iter_mut().zip(req).enumerate() {
            copy(ctx.workers(), &in_data[0].with_layout(&self.part(in_data[0].layout(), number)?), out, *req)?;
        }
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
        for number in 0..self.parameters.num_outputs {
            let part = self.part(in_grad[0].layout(), number)?;
            copy(ctx.workers(), &out_grad.get(number)?, &mut in_grad[0].with_layout(&part), req[0])?;
        }
        Ok(())
    }
}

/// Both names of the one.
pub(super) fn all(add: &mut Builtin<'_>) {
    for name in ["SliceChannel", "split"] {
        let about = "Equal parts along an axis, each an output";
        add(name, about, Maker::of(|parameters: SplitParameters| Ok(Box::new(Split { parameters }))));
    }
}
