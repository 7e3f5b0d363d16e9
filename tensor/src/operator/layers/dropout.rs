//! `Dropout`: while training, sets random elements to 0 and makes the others greater. The mask is a
//! hidden output, which the gradient is multiplied by.
//!
//! Element *i* of a mask is a function of the generator's state and of *i*: it has the same bits
//! for any number of workers.

#![forbid(unsafe_code)]

use crate::dtype::Element;
use crate::error::Error;
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::lists::Dims;
use crate::operator::map::{copy, map, map_in_parts, with_float};
use crate::operator::parameters::{Choices, Parameters};
use crate::operator::property::{assign_shape, by_parameters, Given, OpContext, Operator, OperatorProperty};
use crate::operator::registry::Maker;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::resource::ResourceRequest;
use crate::shape::{Layout, Shape, MAX_RANK};
use smallvec::SmallVec;

/// When elements are dropped.
#[derive(Clone, Copy, PartialEq, Debug, Choices)]
pub(crate) enum Mode {
    Training,
    Always,
}

/// Of `Dropout`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct DropoutParameters {
    /// The share of the elements that is dropped.
    #[parameter(default = 0.5, range = 0.0..1.0)]
    pub p: f64,
    /// Whether elements are dropped while training alone, or always.
    #[parameter(default = "training")]
    pub mode: Mode,
    /// Axes along which all elements are dropped, or none.
    #[parameter(default = "()")]
    pub axes: Dims,
}

#[derive(Clone, Debug)]
struct Dropout {
    parameters: DropoutParameters,
}

/// How many words are drawn at a time: those of whole blocks.
const WORDS: usize = 256;

/// Fills a slice from the words of the generator, which is the first of the resources: element *i*
/// from word *i* of those that come.
pub(super) fn draw<W: Element>(
    ctx: &mut OpContext<'_, '_>,
    into: &mut [W],
    of: impl Fn(u32) -> W,
) -> Result<(), Error> {
    let blocks = into.len().div_ceil(4) as u64;
    let generator = match ctx.requested.first_mut() {
        Some(resource) => resource.get_random()?,
        None => {
            let message = "the operator has no generator: ask for ResourceRequest::Random";
            return Err(Error::new(crate::error::ErrorKind::BadParameter, message));
        }
    };
    let mut words = [0; WORDS];
    for (block, into) in (0..).step_by(WORDS / 4).zip(into.chunks_mut(WORDS)) {
        generator.words_ahead(block, &mut words[..into.len()]);
        into.iter_mut().zip(&words).for_each(|(into, word)| *into = of(*word));
    }
    generator.skip(blocks);
    Ok(())
}

impl OperatorProperty for Dropout {
    by_parameters!();

    fn list_outputs(&self) -> Vec<&'static str> {
        vec!["output", "mask"]
    }

    fn num_visible_outputs(&self) -> usize {
        1
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[0].or(out_shape[0]) else { return Ok(false) };
        assign_shape("data", &mut in_shape[0], shape)?;
        assign_shape("output", &mut out_shape[0], shape)?;
        let mut dims = SmallVec::<[usize; MAX_RANK]>::from_slice(shape.dims());
        for axis in &self.parameters.axes.0 {
            dims[shape.axis(*axis as isize)?] = 1;
        }
        assign_shape("mask", &mut out_shape[1], Shape::new(&dims)?).map(|()| true)
    }

    fn forward_resource(&self) -> Vec<ResourceRequest> {
        vec![ResourceRequest::Random]
    }

    fn declare_backward_dependency(&self, out_grad: &[usize], _: &[usize], out_data: &[usize]) -> Vec<usize> {
        vec![out_grad[0], out_data[1]]
    }

    fn forward_inplace_option(&self, _: &[usize], _: &[usize]) -> Vec<(usize, usize)> {
        vec![(0, 0)]
    }
}

impl Operator for Dropout {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let [out, mask] = out_data else { return Ok(()) };
        let p = self.parameters.p;
        let is_dropping = (ctx.is_train || self.parameters.mode == Mode::Always) && p > 0.0;
        with_float!(in_data[0].dtype(), W => {
            if !is_dropping {
                map::<W>(&[], mask, req[1], |_, out| out.fill(1.0))?;
                return copy(ctx.workers(), &in_data[0], out, req[0]);
            }
            let (mut factors, layout) = (ctx.scratch::<W>(mask.size())?, Layout::contiguous(mask.shape()));
            let (kept, least) = ((1.0 / (1.0 - p)) as W, p * 4_294_967_296.0);
            draw(ctx, factors.as_mut_slice(), |word| if f64::from(word) < least { 0.0 } else { kept })?;
            let factors = Blob::of_slice(factors.as_mut_slice(), &layout);
            copy(ctx.workers(), &factors, mask, req[1])?;
            map_in_parts::<W>(ctx.workers(), &[in_data[0], factors], out, req[0], |x, out| {
                out.iter_mut().zip(x[0]).zip(x[1]).for_each(|((out, x), factor)| *out = x * factor);
            })
        })
    }

    fn backward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        out_grad: Given<'_>,
        _: Given<'_>,
        out_data: Given<'_>,
        req: &[OpReq],
        in_grad: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let inputs = [out_grad.get(0)?, out_data.get(1)?];
        with_float!(inputs[0].dtype(), W => map_in_parts::<W>(ctx.workers(), &inputs, &mut in_grad[0], req[0], |x, out| {
            out.iter_mut().zip(x[0]).zip(x[1]).for_each(|((out, grad), factor)| *out = grad * factor);
        }))
    }
}

/// The one.
pub(super) fn all(add: &mut Builtin<'_>) {
    let about = "While training, random elements set to 0 and the others made greater; else the same elements";
    add("Dropout", about, Maker::of(|parameters: DropoutParameters| Ok(Box::new(Dropout { parameters }))));
}
