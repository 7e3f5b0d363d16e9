//! What `Convolution` and `Deconvolution` do alike: the one's result is what the other has for a
//! gradient by its data. `kernel/convolve.rs` does the work.
//!
//! `convolution.rs` and `deconvolution.rs` plan the geometry, and call all of it.

#![forbid(unsafe_code)]

use crate::error::Error;
use crate::kernel::convolve::{self, Geometry};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::layers::window::{weights, Images};
use crate::operator::lists::Dims;
use crate::operator::map::with_float;
use crate::operator::ordered::{write, Ordered};
use crate::operator::parameters::Axes;
use crate::operator::property::{assign_shape, Given, OpContext};
use crate::operator::reduction::{reduce_all, Kind, Plan};
use crate::request::OpReq;
use crate::shape::Shape;

/// A convolution of images with filters, or one backwards.
pub(super) struct Filtering {
    pub images: Images,
    /// That of the convolution; backwards it leads from the result to the data.
    pub of: Geometry,
    pub is_backwards: bool,
}

/// The names of the arguments.
pub(super) fn arguments(no_bias: bool) -> Vec<&'static str> {
    if no_bias {
        vec!["data", "weight"]
    } else {
        vec!["data", "weight", "bias"]
    }
}

impl Filtering {
    /// How many channels the result has, and its rows and columns.
    fn result(&self) -> (usize, [usize; 2]) {
        match self.is_backwards {
            false => (self.of.groups * self.of.filters, self.of.out),
            true => (self.of.groups * self.of.channels, self.of.size),
        }
    }

    /// The shapes of the other arguments and of the result.
    pub fn infer_shape(
        &self,
        kernel: &Dims,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let weight = weights(self.of.groups * self.of.filters, self.of.channels, kernel)?;
        assign_shape("weight", &mut in_shape[1], weight)?;
        let (channels, size) = self.result();
        if let Some(bias) = in_shape.get_mut(2) {
            assign_shape("bias", bias, Shape::new(&[channels])?)?;
        }
        assign_shape("output", &mut out_shape[0], self.images.shape(channels, size)?).map(|()| true)
    }

    pub fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: OpReq,
        out_data: &mut BlobMut<'_>,
    ) -> Result<(), Error> {
        let (of, (_, [rows, columns])) = (&self.of, self.result());
        let is_backwards = self.is_backwards;
        with_float!(in_data[0].dtype(), W => {
            let (mut data, mut weight) = (Ordered::<W>::new(ctx, &in_data[0])?, Ordered::<W>::new(ctx, &in_data[1])?);
            let mut bias = in_data.get(2).map(|bias| Ordered::<W>::new(ctx, bias)).transpose()?;
            let mut scratch = ctx.scratch::<W>(of.scratch())?;
            write::<W>(ctx, out_data, req, |out| {
                let (data, weight, scratch) = (data.get(), weight.get(), scratch.as_mut_slice());
                match is_backwards {
                    false => convolve::forward(of, data, weight, out, scratch),
                    true => convolve::by_data(of, data, weight, out, scratch),
                }
                if let Some(bias) = &mut bias {
                    add_bias(out, bias.get(), rows * columns);
                }
                Ok(())
            })
        })
    }

    pub fn backward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        out_grad: Given<'_>,
        in_data: Given<'_>,
        req: &[OpReq],
        in_grad: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let (grad, data, weight) = (out_grad.get(0)?, in_data.get(0)?, in_data.get(1)?);
        let (of, is_backwards) = (&self.of, self.is_backwards);
        with_float!(grad.dtype(), W => {
            let mut grad = Ordered::<W>::new(ctx, &grad)?;
            let mut scratch = ctx.scratch::<W>(of.scratch())?;
            if !req[0].is_null() {
                let mut weight = Ordered::<W>::new(ctx, &weight)?;
                write::<W>(ctx, &mut in_grad[0], req[0], |by_data| {
                    let (grad, weight, scratch) = (grad.get(), weight.get(), scratch.as_mut_slice());
                    match is_backwards {
                        false => convolve::by_data(of, grad, weight, by_data, scratch),
                        true => convolve::forward(of, grad, weight, by_data, scratch),
                    }
                    Ok(())
                })?;
            }
            if !req[1].is_null() {
                let mut data = Ordered::<W>::new(ctx, &data)?;
                write::<W>(ctx, &mut in_grad[1], req[1], |by_weight| {
                    let (grad, data, scratch) = (grad.get(), data.get(), scratch.as_mut_slice());
                    let (by_out, by_in) = if is_backwards { (data, grad) } else { (grad, data) };
                    convolve::by_weight(of, by_out, by_in, by_weight, scratch);
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

/// Adds a bias to each channel of images.
fn add_bias<T: num_traits::Float>(values: &mut [T], bias: &[T], places: usize) {
    if places == 0 {
        return;
    }
    for (channel, values) in values.chunks_exact_mut(places).enumerate() {
        let bias = bias[channel % bias.len()];
        values.iter_mut().for_each(|value| *value = *value + bias);
    }
}

/// Writes the sums of a gradient over all images and places, one a channel.
fn by_bias(grad: &Blob<'_>, bias: &mut BlobMut<'_>, req: OpReq) -> Result<(), Error> {
    let channels = Axes(Some([1].into_iter().collect()));
    reduce_all(Kind::Sum, &Plan::new(&channels, true, &grad.shape())?, grad, bias, req)
}
