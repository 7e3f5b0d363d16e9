//! `LayerNorm`: each row along an axis with mean 0 and deviation 1, then scaled and shifted.

#![forbid(unsafe_code)]

use crate::dtype::Element;
use crate::error::Error;
use crate::kernel::centre::{centre, gradient, moments, scale_each};
use crate::kernel::tree::sum;
use crate::ndarray::access::{Blob, BlobMut};
use crate::ndarray::pieces::Cut;
use crate::operator::map::with_float;
use crate::operator::ordered::Ordered;
use crate::operator::parameters::Parameters;
use crate::operator::parts::{self, Workers};
use crate::operator::property::{assign_shape, by_parameters, Given, OpContext, Operator, OperatorProperty};
use crate::operator::registry::Maker;
use crate::operator::softmax::rows;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::{Shape, MAX_RANK};
use num_traits::Float;
use smallvec::SmallVec;

/// Of `LayerNorm`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct LayerNormParameters {
    /// The axis of the rows, counted from the end if negative.
    #[parameter(default = -1)]
    pub axis: isize,
    /// What is added to a variance, so that none is 0.
    #[parameter(default = 0.00001, range = 0.0..)]
    pub eps: f64,
    /// Whether the means and deviations are outputs for the program.
    #[parameter(default = false)]
    pub output_mean_var: bool,
}

#[derive(Clone, Debug)]
struct LayerNorm {
    parameters: LayerNormParameters,
}

impl OperatorProperty for LayerNorm {
    by_parameters!();

    fn list_arguments(&self) -> Vec<&'static str> {
        vec!["data", "gamma", "beta"]
    }

    fn list_outputs(&self) -> Vec<&'static str> {
        vec!["output", "mean", "std"]
    }

    fn num_visible_outputs(&self) -> usize {
        if self.parameters.output_mean_var {
            3
        } else {
            1
        }
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[0].or(out_shape[0]) else { return Ok(false) };
        assign_shape("data", &mut in_shape[0], shape)?;
        let axis = shape.axis(self.parameters.axis)?;
        let length = Shape::new(&[shape.dims()[axis]])?;
        assign_shape("gamma", &mut in_shape[1], length)?;
        assign_shape("beta", &mut in_shape[2], length)?;
        let mut dims = SmallVec::<[usize; MAX_RANK]>::from_slice(shape.dims());
        dims[axis] = 1;
        assign_shape("mean", &mut out_shape[1], Shape::new(&dims)?)?;
        assign_shape("std", &mut out_shape[2], Shape::new(&dims)?)?;
        assign_shape("output", &mut out_shape[0], shape).map(|()| true)
    }

    /// The means are computed again, which is more exact where they were rounded to 16 bits.
    fn declare_backward_dependency(&self, out_grad: &[usize], in_data: &[usize], _: &[usize]) -> Vec<usize> {
        [&out_grad[..1], &in_data[..2]].concat()
    }

    fn forward_inplace_option(&self, _: &[usize], _: &[usize]) -> Vec<(usize, usize)> {
        vec![(0, 0)]
    }
}

/// What becomes of rows, and where these are.
struct Rows<W> {
    axis: usize,
    eps: W,
}

impl<W: Element + Float> Rows<W> {
    /// Writes rows, their means and their deviations.
    fn forward(
        &self,
        workers: Workers<'_>,
        data: &Blob<'_>,
        (gamma, beta): (&[W], &[W]),
        req: &[OpReq],
        outs: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let [out, means, deviations] = outs else { return Ok(()) };
        let (layout, count, length) = rows(data.layout(), self.axis)?;
        let mut writers = (means.writer::<W>(req[1]), deviations.writer::<W>(req[2]));
        let mut each = |row: &[W], out: &mut [W]| {
            let (mean, variance) = moments(row);
            let deviation = (variance + self.eps).sqrt();
            scale_each(row, (mean, deviation.recip()), (gamma, beta), out);
            writers.0.put(&[mean]);
            writers.1.put(&[deviation]);
        };
        let is_last = self.axis + 1 == data.shape().rank();
        if let (Some(from), true, true) = (data.as_slice::<W>(), req[0].overwrites(), is_last) {
            if let Some(out) = out.as_mut_slice::<W>() {
                let length = length.max(1);
                out.chunks_exact_mut(length).zip(from.chunks_exact(length)).for_each(|(out, row)| each(row, out));
                return Ok(());
            }
        }
        let (mut scratch, mut reader) = (workers.scratch::<W>(2 * length)?, data.reader_along::<W>(&layout));
        let (row, made) = scratch.as_mut_slice().split_at_mut(length);
        let layout = rows(out.layout(), self.axis)?.0;
        let mut writer = out.writer_along::<W>(&layout, req[0]);
        for _ in 0..count {
            reader.fill(row);
            each(row, made);
            writer.put(made);
        }
        Ok(())
    }

    /// Writes the gradient by rows, and adds those by the factors and by the biases to sums. These
    /// are in `f64`: they are long, and made one after the other.
    fn backward(
        &self,
        workers: Workers<'_>,
        [grad, data]: [&Blob<'_>; 2],
        gamma: &[W],
        (by_data, req): (&mut BlobMut<'_>, OpReq),
        sums: &mut [f64],
    ) -> Result<(), Error> {
        let (layout, count, length) = rows(data.layout(), self.axis)?;
        let mut reader = data.reader_along::<W>(&layout);
        let mut grads = grad.reader_along::<W>(&rows(grad.layout(), self.axis)?.0);
        let mut scratch = workers.scratch::<W>(3 * length)?;
        let (row, rest) = scratch.as_mut_slice().split_at_mut(length);
        let (of, values) = rest.split_at_mut(length);
        let (of_gamma, of_beta) = sums.split_at_mut(length);
        let layout = rows(by_data.layout(), self.axis)?.0;
        let mut writer = by_data.writer_along::<W>(&layout, req);
        let share = W::from_number((1.0 / length.max(1) as f64).to_number());
        for _ in 0..count {
            reader.fill(row);
            grads.fill(of);
            let (mean, variance) = moments(row);
            let inverse = (variance + self.eps).sqrt().recip();
            centre(row, (mean, inverse), values);
            let products = &mut *row;
            for (at, grad) in of.iter_mut().enumerate() {
                of_gamma[at] += f64::from_number((*grad * values[at]).to_number());
                of_beta[at] += f64::from_number(grad.to_number());
                *grad = *grad * gamma[at];
                products[at] = *grad * values[at];
            }
            let mean = sum(of, |a, b| a + b) * share;
            let product = sum(products, |a, b| a + b) * share;
            gradient(of, values, (mean, product), inverse, W::one());
            writer.put(of);
        }
        Ok(())
    }
}

impl Operator for LayerNorm {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let (shape, workers) = (in_data[0].shape(), ctx.workers());
        let axis = shape.axis(self.parameters.axis)?;
        with_float!(in_data[0].dtype(), W => {
            let of = Rows { axis, eps: self.parameters.eps as W };
            let (mut gamma, mut beta) = (Ordered::<W>::new(ctx, &in_data[1])?, Ordered::<W>::new(ctx, &in_data[2])?);
            let by = (gamma.get(), beta.get());
            workers.cut(parts::plan(&shape, Some(axis)), &in_data[..1], out_data, |data, outs| {
                of.forward(workers, &data[0], by, req, outs)
            })
        })
    }

    fn backward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        out_grad: Given<'_>,
        in_data: Given<'_>,
        _: Given<'_>,
        req: &[OpReq],
        in_grad: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let (grad, data, gamma) = (out_grad.get(0)?, in_data.get(0)?, in_data.get(1)?);
        let (shape, workers) = (data.shape(), ctx.workers());
        let axis = shape.axis(self.parameters.axis)?;
        let ((parts, along), length) = (parts::plan(&shape, Some(axis)), shape.dims()[axis]);
        let (by_data, by_others) = in_grad.split_at_mut(1);
        with_float!(data.dtype(), W => {
            let of = Rows { axis, eps: self.parameters.eps as W };
            let mut gamma = Ordered::<W>::new(ctx, &gamma)?;
            let gamma = gamma.get();
            let mut sums = ctx.scratch::<f64>(2 * length * parts)?;
            let sums = sums.as_mut_slice();
            sums.fill(0.0);
            let mut cut = Cut::new(&[grad, data], by_data, along);
            workers.run(cut.pieces(parts).zip(sums.chunks_mut((2 * length).max(1))), |(piece, sums)| {
                piece.with(|inputs, outs| {
                    of.backward(workers, [&inputs[0], &inputs[1]], gamma, (&mut outs[0], req[0]), sums)
                })?
            })?;
            let (first, others) = sums.split_at_mut(2 * length);
            for other in others.chunks((2 * length).max(1)) {
                first.iter_mut().zip(other).for_each(|(sum, part)| *sum += part);
            }
            let of_each = first.chunks(length.max(1));
            for ((out, req), sums) in by_others.iter_mut().zip(&req[1..]).zip(of_each) {
                out.writer::<f64>(*req).put(sums);
            }
        });
        Ok(())
    }
}

/// The one.
pub(super) fn all(add: &mut Builtin<'_>) {
    let about = "Each row along an axis with mean 0 and deviation 1, then scaled and shifted";
    add("LayerNorm", about, Maker::of(|parameters: LayerNormParameters| Ok(Box::new(LayerNorm { parameters }))));
}
