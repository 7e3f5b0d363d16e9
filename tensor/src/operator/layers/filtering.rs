//! What `Convolution` and `Deconvolution` do alike: the one's result is what the other has for a
//! gradient by its data. `kernel/convolve.rs` does the work.
//!
//! `convolution.rs` and `deconvolution.rs` plan the geometry, and call all of it.

#![forbid(unsafe_code)]

use crate::error::Error;
use crate::kernel::bias;
use crate::kernel::convolve::{self, Cut, Geometry};
use crate::kernel::gemm::Real;
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::fold::Kind;
use crate::operator::layers::window::{weights, Images};
use crate::operator::lists::Dims;
use crate::operator::map::with_float;
use crate::operator::ordered::{write, Ordered};
use crate::operator::parameters::Axes;
use crate::operator::parts::{self, Workers};
use crate::operator::property::{assign_shape, Given, OpContext};
use crate::operator::reduction::{reduce_all, Plan};
use crate::request::OpReq;
use crate::shape::Shape;

/// As many multiply-adds take the time in which an element of a window is copied.
const GATHERED: usize = 4;

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
        with_float!(in_data[0].dtype(), W => {
            let (mut data, mut weight) = (Ordered::<W>::new(ctx, &in_data[0])?, Ordered::<W>::new(ctx, &in_data[1])?);
            let mut bias = in_data.get(2).map(|bias| Ordered::<W>::new(ctx, bias)).transpose()?;
            let bias = bias.as_mut().map(Ordered::get);
            write::<W>(ctx, out_data, req, |out| {
                self.apply(ctx.workers(), self.is_backwards, (data.get(), weight.get(), bias), out)
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
        with_float!(grad.dtype(), W => {
            let mut grad = Ordered::<W>::new(ctx, &grad)?;
            if !req[0].is_null() {
                let mut weight = Ordered::<W>::new(ctx, &weight)?;
                write::<W>(ctx, &mut in_grad[0], req[0], |by_data| {
                    self.apply(ctx.workers(), !self.is_backwards, (grad.get(), weight.get(), None), by_data)
                })?;
            }
            if !req[1].is_null() {
                let mut data = Ordered::<W>::new(ctx, &data)?;
                write::<W>(ctx, &mut in_grad[1], req[1], |by_weight| {
                    let (by_out, by_in) = (grad.get(), data.get());
                    let (by_out, by_in) = if self.is_backwards { (by_in, by_out) } else { (by_out, by_in) };
                    self.by_weight(ctx.workers(), by_out, by_in, by_weight)
                })?;
            }
        });
        match in_grad.get_mut(2) {
            Some(bias) => by_bias(ctx.workers(), &grad, bias, req[2]),
            None => Ok(()),
        }
    }

    fn cut(&self) -> Cut {
        let of = &self.of;
        // Parts are pieces of both sides: there are none of a side without elements.
        let has_both = of.filters > 0 && of.pixels() > 0;
        let products = of.images * of.groups * (of.filters + GATHERED) * of.depth() * of.places();
        Cut::new(of, parts::of_products(if has_both { products } else { 0 }))
    }

    /// Writes the convolution of images, or its gradient by the data where it goes back; in parts.
    fn apply<T: Real>(
        &self,
        workers: Workers<'_>,
        goes_back: bool,
        (data, weight, bias): (&[T], &[T], Option<&[T]>),
        out: &mut [T],
    ) -> Result<(), Error> {
        let (cut, of) = (self.cut(), &self.of);
        let (channels, filters) = cut.sides();
        let (from, to, rows, places) = match goes_back {
            false => (channels, filters, of.filters, of.places()),
            true => (filters, channels, of.channels, of.pixels()),
        };
        let part = |number: usize, data: &[T], out: &mut [T]| {
            let (of, weight) = (cut.part(number), cut.of_groups(weight, of.filters * of.depth(), number));
            let mut scratch = workers.scratch::<T>(of.scratch())?;
            match goes_back {
                false => convolve::forward(&of, data, weight, out, scratch.as_mut_slice()),
                true => convolve::by_data(&of, data, weight, out, scratch.as_mut_slice()),
            }
            if let Some(bias) = bias {
                bias::to_channels(out, cut.of_groups(bias, rows, number), places);
            }
            Ok(())
        };
        if cut.parts() <= 1 {
            return part(0, data, out);
        }
        let pieces = data.chunks(from).zip(out.chunks_mut(to)).enumerate();
        workers.run(pieces, |(number, (data, out))| part(number, data, out))
    }

    /// Writes the gradient by the weight: in parts by groups, or as the sum of those of the images.
    fn by_weight<T: Real>(
        &self,
        workers: Workers<'_>,
        grad: &[T],
        data: &[T],
        by_weight: &mut [T],
    ) -> Result<(), Error> {
        let cut = self.cut();
        let ((channels, filters), parts) = (cut.sides(), cut.parts());
        let part = |number: usize, data: &[T], grad: &[T], by_weight: &mut [T]| {
            let of = cut.part(number);
            let mut scratch = workers.scratch::<T>(of.scratch())?;
            convolve::by_weight(&of, grad, data, by_weight, scratch.as_mut_slice());
            Ok(())
        };
        if parts <= 1 {
            return part(0, data, grad, by_weight);
        }
        let size = by_weight.len();
        let sums = if cut.shares_weight() { parts * size } else { 0 };
        let mut sums = workers.scratch::<T>(sums)?;
        let pieces = match cut.shares_weight() {
            true => sums.as_mut_slice().chunks_mut(size),
            false => by_weight.chunks_mut(size.div_ceil(self.of.groups) * cut.part(0).groups),
        };
        let images = data.chunks(channels).zip(grad.chunks(filters));
        workers.run(images.zip(pieces).enumerate(), |(number, ((data, grad), by_weight))| {
            part(number, data, grad, by_weight)
        })?;
        if cut.shares_weight() {
            let sums = sums.as_mut_slice();
            add_in_pairs(sums, size);
            by_weight.copy_from_slice(&sums[..size]);
        }
        Ok(())
    }
}

/// Adds pieces of one size in pairs, and these in pairs; the sum is the first.
fn add_in_pairs<T: Real>(values: &mut [T], size: usize) {
    let mut half = size;
    while half < values.len() {
        for pair in values.chunks_mut(2 * half).filter(|pair| pair.len() > half) {
            let (one, other) = pair.split_at_mut(half);
            one[..size].iter_mut().zip(&other[..size]).for_each(|(one, other)| *one = *one + *other);
        }
        half *= 2;
    }
}

/// Writes the sums of a gradient over all images and places, one a channel.
fn by_bias(workers: Workers<'_>, grad: &Blob<'_>, bias: &mut BlobMut<'_>, req: OpReq) -> Result<(), Error> {
    let channels = Axes(Some([1].into_iter().collect()));
    reduce_all(workers, Kind::Sum, &Plan::new(&channels, true, &grad.shape())?, grad, bias, req)
}
