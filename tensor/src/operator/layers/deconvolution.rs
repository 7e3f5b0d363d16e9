//! `Deconvolution`, in one and in two dimensions: a convolution backwards. Its result is what a
//! convolution has for a gradient by its data.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::kernel::convolve::{self, Geometry, Window};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::layers::convolution::{add_bias, by_bias};
use crate::operator::layers::window::{check_groups, dimensions, places, span, weights, window, Images};
use crate::operator::lists::Dims;
use crate::operator::map::with_float;
use crate::operator::ordered::{write, Ordered};
use crate::operator::property::{assign_shape, by_parameters, Given, OpContext, Operator, OperatorProperty};
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::Shape;

crate::parameters! {
    /// Of `Deconvolution`.
    pub(crate) struct DeconvolutionParameters {
        kernel: Dims, required, .., "The size of a window: columns, or rows and columns";
        stride: Dims, default "()", .., "From window to window; by default 1";
        dilate: Dims, default "()", .., "From element to element of a window; by default 1";
        pad: Dims, default "()", .., "Places that are cut off on each side; by default none";
        adj: Dims, default "()", .., "Places that are added at the end, fewer than stride; by default none";
        target_shape: Dims, default "()", .., "The size of the result, from which pad and adj follow; by default they say it";
        num_filter: usize, required, 1.., "How many channels the result has";
        num_group: usize, default "1", 1.., "In how many groups channels and filters are parted";
        no_bias: bool, default "true", .., "Whether there is no bias";
    }
}

#[derive(Clone, Debug)]
struct Deconvolution {
    parameters: DeconvolutionParameters,
}

impl Deconvolution {
    fn window(&self) -> Result<Window, Error> {
        let DeconvolutionParameters { kernel, stride, dilate, pad, .. } = &self.parameters;
        window(kernel, stride, dilate, pad)
    }

    /// The convolution whose gradient this is: from the result to the data.
    fn plan(&self, data: &Shape) -> Result<(Images, Geometry), Error> {
        let DeconvolutionParameters { kernel, adj, target_shape, num_filter, num_group, .. } = &self.parameters;
        let count = dimensions(kernel)?;
        let images = Images::new(data, count)?;
        check_groups(*num_group, images.channels, *num_filter)?;
        let (mut window, mut size) = (self.window()?, [0; 2]);
        let (adj, target) = (places("adj", adj, count, 0)?, places("target_shape", target_shape, count, 1)?);
        let spans = span(&window);
        for axis in 0..2 {
            let wrong =
                |why: String| Err(Error::new(ErrorKind::ShapeMismatch, format!("images of {:?}: {why}", images.size)));
            let Some(last) = images.size[axis].checked_sub(1) else { return wrong("they have no places".into()) };
            let whole = window.stride[axis] * last + spans[axis];
            let mut more = adj.map_or(0, |adj| adj[axis]);
            if let Some(target) = target {
                let Some(left) = whole.checked_sub(target[axis]) else {
                    return wrong(format!("target_shape {target:?} is beyond the {whole} places that windows reach"));
                };
                (window.pad[axis], more) = (left.div_ceil(2), left % 2);
            }
            if target.is_none() && more >= window.stride[axis] {
                return wrong(format!("adj = {more} is not below the stride {}", window.stride[axis]));
            }
            let Some(places) = (whole + more).checked_sub(2 * window.pad[axis]).filter(|places| *places > 0) else {
                return wrong(format!("nothing is left of {whole} places without a pad of {}", window.pad[axis]));
            };
            size[axis] = places;
        }
        let geometry = Geometry {
            images: images.images,
            groups: *num_group,
            channels: num_filter / num_group,
            filters: images.channels / num_group,
            size,
            out: images.size,
            window,
        };
        Ok((images, geometry))
    }
}

impl OperatorProperty for Deconvolution {
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
        let weight = weights(images.channels, geometry.channels, &self.parameters.kernel)?;
        assign_shape("weight", &mut in_shape[1], weight)?;
        if let Some(bias) = in_shape.get_mut(2) {
            assign_shape("bias", bias, Shape::new(&[self.parameters.num_filter])?)?;
        }
        let out = images.shape(self.parameters.num_filter, geometry.size)?;
        assign_shape("output", &mut out_shape[0], out).map(|()| true)
    }

    fn declare_backward_dependency(&self, out_grad: &[usize], in_data: &[usize], _: &[usize]) -> Vec<usize> {
        [out_grad, &in_data[..2]].concat()
    }
}

impl Operator for Deconvolution {
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
                convolve::by_data(&of, data.get(), weight.get(), out, scratch.as_mut_slice());
                if let Some(bias) = &mut bias {
                    add_bias(out, bias.get(), of.size[0] * of.size[1]);
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
                    convolve::forward(&of, grad.get(), weight.get(), by_data, scratch.as_mut_slice());
                    Ok(())
                })?;
            }
            if !req[1].is_null() {
                let mut data = Ordered::<W>::new(ctx, &data)?;
                write::<W>(ctx, &mut in_grad[1], req[1], |by_weight| {
                    convolve::by_weight(&of, data.get(), grad.get(), by_weight, scratch.as_mut_slice());
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
    let about = "A convolution backwards: filters are added up where elements of images put them";
    let make = |given: &[(&str, &str)]| {
        let property = Deconvolution { parameters: DeconvolutionParameters::init(given)? };
        property.window()?;
        Ok(Box::new(property) as Box<dyn OperatorProperty>)
    };
    add("Deconvolution", about, Box::new(make));
}
