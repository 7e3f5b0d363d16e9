//! `Convolution`, in one and in two dimensions. `kernel/convolve.rs` does the work.

#![forbid(unsafe_code)]

use crate::error::Error;
use crate::kernel::convolve::{self, Geometry};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::layers::window::{check_groups, count, dimensions, weights, window, Images};
use crate::operator::lists::Dims;
use crate::operator::map::with_float;
use crate::operator::ordered::{write, Ordered};
use crate::operator::parameters::Axes;
use crate::operator::property::{assign_shape, by_parameters, Given, OpContext, Operator, OperatorProperty};
use crate::operator::reduction::{reduce_all, Kind, Plan};
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::Shape;

crate::parameters! {
    /// Of `Convolution`.
    pub(crate) struct ConvolutionParameters {
        kernel: Dims, required, .., "The size of a window: columns, or rows and columns";
        stride: Dims, default "()", .., "From window to window; by default 1";
        dilate: Dims, default "()", .., "From element to element of a window; by default 1";
        pad: Dims, default "()", .., "Zeros on each side; by default none";
        num_filter: usize, required, 1.., "How many channels the result has";
        num_group: usize, default "1", 1.., "In how many groups channels and filters are parted";
        no_bias: bool, default "false", .., "Whether there is no bias";
    }
}

#[derive(Clone, Debug)]
struct Convolution {
    parameters: ConvolutionParameters,
}

impl Convolution {
    fn plan(&self, data: &Shape) -> Result<(Images, Geometry), Error> {
        let ConvolutionParameters { kernel, stride, dilate, pad, num_filter, num_group, .. } = &self.parameters;
        let images = Images::new(data, dimensions(kernel)?)?;
        check_groups(*num_group, images.channels, *num_filter)?;
        let window = window(kernel, stride, dilate, pad)?;
        let geometry = Geometry {
            images: images.images,
            groups: *num_group,
            channels: images.channels / num_group,
            filters: num_filter / num_group,
            size: images.size,
            out: count(&window, images.size)?,
            window,
        };
        Ok((images, geometry))
    }
}

/// Adds a bias to each channel of images.
pub(super) fn add_bias<T: num_traits::Float>(values: &mut [T], bias: &[T], places: usize) {
    if places == 0 {
        return;
    }
    for (channel, values) in values.chunks_exact_mut(places).enumerate() {
        let bias = bias[channel % bias.len()];
        values.iter_mut().for_each(|value| *value = *value + bias);
    }
}

/// Writes the sums of a gradient over all images and places, one a channel.
pub(super) fn by_bias(grad: &Blob<'_>, bias: &mut BlobMut<'_>, req: OpReq) -> Result<(), Error> {
    let channels = Axes(Some([1].into_iter().collect()));
    reduce_all(Kind::Sum, &Plan::new(&channels, true, &grad.shape())?, grad, bias, req)
}

impl OperatorProperty for Convolution {
    by_parameters!();

    fn list_arguments(&self) -> Vec<&'static str> {
        if self.parameters.no_bias {
            vec!["data", "weight"]
        } else {
            vec!["data", "weight", "bias"]
        }
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(data) = in_shape[0] else { return Ok(false) };
        let (images, geometry) = self.plan(&data)?;
        let filters = self.parameters.num_filter;
        let weight = weights(filters, geometry.channels, &self.parameters.kernel)?;
        assign_shape("weight", &mut in_shape[1], weight)?;
        if let Some(bias) = in_shape.get_mut(2) {
            assign_shape("bias", bias, Shape::new(&[filters])?)?;
        }
        assign_shape("output", &mut out_shape[0], images.shape(filters, geometry.out)?).map(|()| true)
    }

    /// The output is not needed: it may be freed once it is consumed.
    fn declare_backward_dependency(&self, out_grad: &[usize], in_data: &[usize], _: &[usize]) -> Vec<usize> {
        [out_grad, &in_data[..2]].concat()
    }
}

impl Operator for Convolution {
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
        let (_, of) = self.plan(&in_data[0].shape())?;
        with_float!(in_data[0].dtype(), W => {
            let (mut data, mut weight) = (Ordered::<W>::new(ctx, &in_data[0])?, Ordered::<W>::new(ctx, &in_data[1])?);
            let mut bias = in_data.get(2).map(|bias| Ordered::<W>::new(ctx, bias)).transpose()?;
            let mut scratch = ctx.scratch::<W>(of.scratch())?;
            write::<W>(ctx, &mut out_data[0], req[0], |out| {
                convolve::forward(&of, data.get(), weight.get(), out, scratch.as_mut_slice());
                if let Some(bias) = &mut bias {
                    add_bias(out, bias.get(), of.out[0] * of.out[1]);
                }
                Ok(())
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
        let (grad, data, weight) = (out_grad.get(0)?, in_data.get(0)?, in_data.get(1)?);
        let (_, of) = self.plan(&data.shape())?;
        with_float!(grad.dtype(), W => {
            let mut grad = Ordered::<W>::new(ctx, &grad)?;
            let mut scratch = ctx.scratch::<W>(of.scratch())?;
            if !req[0].is_null() {
                let mut weight = Ordered::<W>::new(ctx, &weight)?;
                write::<W>(ctx, &mut in_grad[0], req[0], |by_data| {
                    convolve::by_data(&of, grad.get(), weight.get(), by_data, scratch.as_mut_slice());
                    Ok(())
                })?;
            }
            if !req[1].is_null() {
                let mut data = Ordered::<W>::new(ctx, &data)?;
                write::<W>(ctx, &mut in_grad[1], req[1], |by_weight| {
                    convolve::by_weight(&of, grad.get(), data.get(), by_weight, scratch.as_mut_slice());
                    Ok(())
                })?;
            }
        });
        match in_grad.get_mut(2) {
            Some(bias) => by_bias(&grad, bias, req[2]),
            None => Ok(()),
        }
    }
}

/// The one.
pub(super) fn all(add: &mut Builtin<'_>) {
    let about = "The sums of products of windows on images with filters, plus a bias";
    let make = |given: &[(&str, &str)]| {
        let parameters = ConvolutionParameters::init(given)?;
        window(&parameters.kernel, &parameters.stride, &parameters.dilate, &parameters.pad)?;
        Ok(Box::new(Convolution { parameters }) as Box<dyn OperatorProperty>)
    };
    add("Convolution", about, Box::new(make));
}
