//! `BatchNorm`: each channel with mean 0 and deviation 1 over all images, then scaled and shifted.
//!
//! While training, the means and variances are those of the call, and the auxiliary states move
//! towards them in the forward pass. Else they are the auxiliary states. Hidden outputs keep which
//! ones were used for the backward pass.

#![forbid(unsafe_code)]

use crate::dtype::{DType, Element};
use crate::error::{Error, ErrorKind};
use crate::kernel::centre::{centre, gradient, moments, scale};
use crate::kernel::tree::sum;
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::map::{with_float, zero};
use crate::operator::parameters::Parameters;
use crate::operator::parts::{self, Workers, ELEMENTS};
use crate::operator::property::{
    assign_shape, assign_type, by_parameters, Given, OpContext, Operator, OperatorProperty,
};
use crate::operator::registry::Maker;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::{Layout, Shape, MAX_RANK};
use num_traits::Float;
use smallvec::SmallVec;

/// Of `BatchNorm`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct BatchNormParameters {
    /// What is added to a variance, so that none is 0.
    #[parameter(default = 0.001, range = 0.0..)]
    pub eps: f64,
    /// How much of the moving means and variances stays at each call.
    #[parameter(default = 0.9, range = 0.0..=1.0)]
    pub momentum: f64,
    /// Whether gamma counts as 1, and has no gradient.
    #[parameter(default = true)]
    pub fix_gamma: bool,
    /// Whether the moving means and variances are used in training too.
    #[parameter(default = false)]
    pub use_global_stats: bool,
    /// Whether the means and inverse deviations are outputs for the program.
    #[parameter(default = false)]
    pub output_mean_var: bool,
    /// The axis of channels, counted from the end if negative.
    #[parameter(default = 1)]
    pub axis: isize,
}

#[derive(Clone, Debug)]
struct BatchNorm {
    parameters: BatchNormParameters,
}

/// The layout with the axis of channels before the others; how many channels there are, and how
/// many elements each has.
fn channels(layout: &Layout, axis: usize) -> Result<(Layout, usize, usize), Error> {
    let order: SmallVec<[usize; MAX_RANK]> =
        [axis].into_iter().chain((0..layout.shape.rank()).filter(|at| *at != axis)).collect();
    let count = layout.shape.dims()[axis];
    Ok((layout.permute(&order)?, count, layout.shape.size().checked_div(count).unwrap_or(0)))
}

impl BatchNorm {
    /// Whether the means are those of the call.
    fn is_of_batch(&self, ctx: &OpContext<'_, '_>) -> bool {
        ctx.is_train && !self.parameters.use_global_stats
    }
}

impl OperatorProperty for BatchNorm {
    by_parameters!();

    fn list_arguments(&self) -> Vec<&'static str> {
        vec!["data", "gamma", "beta"]
    }

    fn list_outputs(&self) -> Vec<&'static str> {
        vec!["output", "mean", "var"]
    }

    fn list_auxiliary_states(&self) -> Vec<&'static str> {
        vec!["moving_mean", "moving_var"]
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
        aux_shape: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[0].or(out_shape[0]) else { return Ok(false) };
        assign_shape("data", &mut in_shape[0], shape)?;
        let channels = shape.dims()[shape.axis(self.parameters.axis)?];
        if shape.size() == 0 {
            let message = format!("'data' has shape {shape}, and nothing is the mean of no elements");
            return Err(Error::new(ErrorKind::ShapeMismatch, message));
        }
        let of_channels = Shape::new(&[channels])?;
        let names = [["gamma", "beta"], ["mean", "var"], ["moving_mean", "moving_var"]];
        let places = [&mut in_shape[1..], &mut out_shape[1..], aux_shape];
        for (names, places) in names.iter().zip(places) {
            for (name, place) in names.iter().zip(places) {
                assign_shape(name, place, of_channels)?;
            }
        }
        assign_shape("output", &mut out_shape[0], shape).map(|()| true)
    }

    /// Floats of 16 bits have means and parameters of 32 bits, as in MXNet.
    fn infer_type(
        &self,
        in_type: &mut [Option<DType>],
        out_type: &mut [Option<DType>],
        aux_type: &mut [Option<DType>],
    ) -> Result<bool, Error> {
        let Some(dtype) = in_type[0].or(out_type[0]) else { return Ok(false) };
        assign_type("data", &mut in_type[0], dtype)?;
        assign_type("output", &mut out_type[0], dtype)?;
        let of_channels = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let names = [["gamma", "beta"], ["mean", "var"], ["moving_mean", "moving_var"]];
        let places = [&mut in_type[1..], &mut out_type[1..], aux_type];
        for (names, places) in names.iter().zip(places) {
            for (name, place) in names.iter().zip(places) {
                assign_type(name, place, of_channels)?;
            }
        }
        Ok(true)
    }

    fn declare_backward_dependency(&self, out_grad: &[usize], in_data: &[usize], out_data: &[usize]) -> Vec<usize> {
        [&out_grad[..1], &in_data[..2], &out_data[1..]].concat()
    }

    fn forward_inplace_option(&self, _: &[usize], _: &[usize]) -> Vec<(usize, usize)> {
        vec![(0, 0)]
    }
}

impl BatchNorm {
    /// The forward pass of some channels: writes results, means and inverse deviations, and moves
    /// the moving ones.
    fn channels_forward<W: Element + Float>(
        &self,
        (workers, is_of_batch): (Workers<'_>, bool),
        axis: usize,
        inputs: &[Blob<'_>],
        req: &[OpReq],
        outs: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let [out, means, inverses, moving_mean, moving_var] = outs else { return Ok(()) };
        let BatchNormParameters { eps, momentum, fix_gamma, .. } = self.parameters;
        let of = |value: f64| W::from_number(value.to_number());
        let (layout, count, length) = channels(inputs[0].layout(), axis)?;
        let mut reader = inputs[0].reader_along::<W>(&layout);
        let [mut gammas, mut betas] = [&inputs[1], &inputs[2]].map(|blob| blob.reader::<W>());
        let (mut moving, mut scratch) = (workers.scratch::<W>(2 * count)?, workers.scratch::<W>(2 * length)?);
        let (mean_of, variance_of) = moving.as_mut_slice().split_at_mut(count);
        moving_mean.as_blob().reader::<W>().fill(mean_of);
        moving_var.as_blob().reader::<W>().fill(variance_of);
        let (row, made) = scratch.as_mut_slice().split_at_mut(length);
        let layout = channels(out.layout(), axis)?.0;
        let mut writers =
            (out.writer_along::<W>(&layout, req[0]), means.writer::<W>(req[1]), inverses.writer::<W>(req[2]));
        let (stays, moves, eps) = (of(momentum), of(1.0 - momentum), of(eps));
        for channel in 0..count {
            let [mut gamma, mut beta] = [[W::one()]; 2];
            gammas.fill(&mut gamma);
            betas.fill(&mut beta);
            reader.fill(row);
            let (mut mean, mut variance) = (mean_of[channel], variance_of[channel]);
            if is_of_batch {
                (mean, variance) = moments(row);
                mean_of[channel] = stays * mean_of[channel] + moves * mean;
                variance_of[channel] = stays * variance_of[channel] + moves * variance;
            }
            let inverse = (variance + eps).sqrt().recip();
            let gamma = if fix_gamma { W::one() } else { gamma[0] };
            scale(row, (mean, inverse), (gamma, beta[0]), made);
            writers.0.put(made);
            writers.1.put(&[mean]);
            writers.2.put(&[inverse]);
        }
        if is_of_batch {
            moving_mean.writer::<W>(OpReq::Write).put(mean_of);
            moving_var.writer::<W>(OpReq::Write).put(variance_of);
        }
        Ok(())
    }

    /// The backward pass of some channels, of the gradient, the data, the factors, the means and
    /// the inverse deviations: writes the gradients by data, factors and biases.
    fn channels_backward<W: Element + Float>(
        &self,
        (workers, is_of_batch): (Workers<'_>, bool),
        axis: usize,
        inputs: &[Blob<'_>],
        req: &[OpReq],
        outs: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let ([grad, data, of_channels @ ..], [by_data, by_gamma, by_beta]) = (inputs, outs) else { return Ok(()) };
        let fix_gamma = self.parameters.fix_gamma;
        let (layout, count, length) = channels(data.layout(), axis)?;
        let mut reader = data.reader_along::<W>(&layout);
        let mut grads = grad.reader_along::<W>(&channels(grad.layout(), axis)?.0);
        let mut of_channels: SmallVec<[_; 3]> = of_channels.iter().map(Blob::reader::<W>).collect();
        let mut scratch = workers.scratch::<W>(3 * length)?;
        let (row, rest) = scratch.as_mut_slice().split_at_mut(length);
        let (of, values) = rest.split_at_mut(length);
        let layout = channels(by_data.layout(), axis)?.0;
        let (mut writer, mut of_beta) = (by_data.writer_along::<W>(&layout, req[0]), by_beta.writer::<W>(req[2]));
        let mut of_gamma = by_gamma.writer::<W>(if fix_gamma { OpReq::Null } else { req[1] });
        let share = W::from_number((1.0 / length as f64).to_number());
        for _ in 0..count {
            let mut numbers = [[W::one()]; 3];
            of_channels.iter_mut().zip(&mut numbers).for_each(|(reader, number)| _ = reader.fill(number));
            let [[gamma], [mean], [inverse]] = numbers;
            let gamma = if fix_gamma { W::one() } else { gamma };
            reader.fill(row);
            grads.fill(of);
            centre(row, (mean, inverse), values);
            let products = &mut *row;
            for ((product, value), grad) in products.iter_mut().zip(&*values).zip(&*of) {
                *product = *value * *grad;
            }
            let (total, product) = (sum(of, |a, b| a + b), sum(products, |a, b| a + b));
            of_gamma.put(&[product]);
            of_beta.put(&[total]);
            // Where the means are those of the call, each element has a part in them.
            let share = if is_of_batch { share } else { W::zero() };
            gradient(of, values, (total * share, product * share), inverse, gamma);
            writer.put(of);
        }
        Ok(())
    }
}

impl Operator for BatchNorm {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        aux_states: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let shape = in_data[0].shape();
        let axis = shape.axis(self.parameters.axis)?;
        let by = (ctx.workers(), self.is_of_batch(ctx));
        let mut outs: SmallVec<[BlobMut<'_>; 5]> = out_data.iter_mut().map(BlobMut::again).collect();
        outs.extend(aux_states.iter_mut().map(BlobMut::again));
        let parts = parts::count(shape.size(), ELEMENTS);
        with_float!(in_data[0].dtype(), W => by.0.cut((parts, axis), in_data, &mut outs, |inputs, outs| {
            self.channels_forward::<W>(by, axis, inputs, req, outs)
        }))
    }

    fn backward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        out_grad: Given<'_>,
        in_data: Given<'_>,
        out_data: Given<'_>,
        req: &[OpReq],
        in_grad: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let (grad, data, gamma) = (out_grad.get(0)?, in_data.get(0)?, in_data.get(1)?);
        let inputs = [grad, data, gamma, out_data.get(1)?, out_data.get(2)?];
        let axis = data.shape().axis(self.parameters.axis)?;
        let by = (ctx.workers(), self.is_of_batch(ctx));
        if self.parameters.fix_gamma {
            zero(&mut in_grad[1], req[1])?;
        }
        let parts = parts::count(data.size(), ELEMENTS);
        with_float!(data.dtype(), W => by.0.cut((parts, axis), &inputs, in_grad, |inputs, outs| {
            self.channels_backward::<W>(by, axis, inputs, req, outs)
        }))
    }
}

/// The one.
pub(super) fn all(add: &mut Builtin<'_>) {
    let about = "Each channel with mean 0 and deviation 1 over all images, then scaled and shifted";
    add("BatchNorm", about, Maker::of(|parameters: BatchNormParameters| Ok(Box::new(BatchNorm { parameters }))));
}
