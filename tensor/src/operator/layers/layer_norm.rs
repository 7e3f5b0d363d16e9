//! `LayerNorm`: each row along an axis with mean 0 and deviation 1, then scaled and shifted.

#![forbid(unsafe_code)]

use crate::dtype::Element;
use crate::error::Error;
use crate::kernel::centre::{centre, scale};
use crate::kernel::tree::sum;
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::map::with_float;
use crate::operator::ordered::Ordered;
use crate::operator::parameters::Parameters;
use crate::operator::property::{assign_shape, by_parameters, Given, OpContext, Operator, OperatorProperty};
use crate::operator::registry::Maker;
use crate::operator::softmax::rows;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::{Shape, MAX_RANK};
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

impl Operator for LayerNorm {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let [out, means, deviations] = out_data else { return Ok(()) };
        let axis = in_data[0].shape().axis(self.parameters.axis)?;
        with_float!(in_data[0].dtype(), W => {
            let (layout, count, length) = rows(in_data[0].layout(), axis)?;
            let (mut gamma, mut beta) = (Ordered::<W>::new(ctx, &in_data[1])?, Ordered::<W>::new(ctx, &in_data[2])?);
            let (gamma, beta) = (gamma.get(), beta.get());
            let eps = self.parameters.eps as W;
            let of_row = |row: &mut [W], squares: &mut [W]| {
                let (mean, variance) = centre(row, squares);
                let deviation = (variance + eps).sqrt();
                scale(row, deviation.recip(), gamma, beta);
                (mean, deviation)
            };
            let mut scratch = ctx.scratch::<W>(2 * length)?;
            let (row, squares) = scratch.as_mut_slice().split_at_mut(length);
            let mut writers = (means.writer::<W>(req[1]), deviations.writer::<W>(req[2]));
            let is_last = axis + 1 == in_data[0].shape().rank();
            if let (Some(from), true, true) = (in_data[0].as_slice::<W>(), req[0].overwrites(), is_last) {
                if let Some(out) = out.as_mut_slice::<W>() {
                    let length = length.max(1);
                    for (row, from) in out.chunks_exact_mut(length).zip(from.chunks_exact(length)) {
                        row.copy_from_slice(from);
                        let (mean, deviation) = of_row(row, squares);
                        writers.0.put(&[mean]);
                        writers.1.put(&[deviation]);
                    }
                    return Ok(());
                }
            }
            let mut reader = in_data[0].reader_along::<W>(&layout);
            let layout = rows(out.layout(), axis)?.0;
            let mut writer = out.writer_along::<W>(&layout, req[0]);
            for _ in 0..count {
                reader.fill(row);
                let (mean, deviation) = of_row(row, squares);
                writer.put(row);
                writers.0.put(&[mean]);
                writers.1.put(&[deviation]);
            }
        });
        Ok(())
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
        let axis = data.shape().axis(self.parameters.axis)?;
        let [by_data, by_gamma, by_beta] = in_grad else { return Ok(()) };
        with_float!(data.dtype(), W => {
            let (layout, count, length) = rows(data.layout(), axis)?;
            let mut reader = data.reader_along::<W>(&layout);
            let mut grads = grad.reader_along::<W>(&rows(grad.layout(), axis)?.0);
            let mut gamma = Ordered::<W>::new(ctx, &gamma)?;
            let gamma = gamma.get();
            let mut scratch = ctx.scratch::<W>(4 * length)?;
            let (row, rest) = scratch.as_mut_slice().split_at_mut(length);
            let (squares, rest) = rest.split_at_mut(length);
            let (of, products) = rest.split_at_mut(length);
            // Sums over all rows are made in f64: they are long, and one after the other.
            let mut sums = ctx.scratch::<f64>(2 * length)?;
            sums.as_mut_slice().fill(0.0);
            let (of_gamma, of_beta) = sums.as_mut_slice().split_at_mut(length);
            let layout = rows(by_data.layout(), axis)?.0;
            let mut writer = by_data.writer_along::<W>(&layout, req[0]);
            let share = (1.0 / length.max(1) as f64) as W;
            for _ in 0..count {
                reader.fill(row);
                grads.fill(of);
                let (_, variance) = centre(row, squares);
                let inverse = (variance + self.parameters.eps as W).sqrt().recip();
                row.iter_mut().for_each(|value| *value *= inverse);
                for (at, grad) in of.iter_mut().enumerate() {
                    of_gamma[at] += f64::from_number((*grad * row[at]).to_number());
                    of_beta[at] += f64::from_number(grad.to_number());
                    *grad *= gamma[at];
                    products[at] = *grad * row[at];
                }
                let mean = sum(of, |a, b| a + b) * share;
                let product = sum(products, |a, b| a + b) * share;
                for (grad, value) in of.iter_mut().zip(&*row) {
                    *grad = (*grad - mean - *value * product) * inverse;
                }
                writer.put(of);
            }
            by_gamma.writer::<f64>(req[1]).put(of_gamma);
            by_beta.writer::<f64>(req[2]).put(of_beta);
        });
        Ok(())
    }
}

/// The one.
pub(super) fn all(add: &mut Builtin<'_>) {
    let about = "Each row along an axis with mean 0 and deviation 1, then scaled and shifted";
    add("LayerNorm", about, Maker::of(|parameters: LayerNormParameters| Ok(Box::new(LayerNorm { parameters }))));
}
