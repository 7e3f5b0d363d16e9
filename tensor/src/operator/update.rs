//! `sgd_update` and `sgd_mom_update`: a step of stochastic gradient descent, in place.
//!
//! `optimizer.rs` calls them.

#![forbid(unsafe_code)]

use crate::dtype::{DType, Element};
use crate::error::Error;
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::map::map;
use crate::operator::property::{assign_shape, OpContext, Operator, OperatorProperty};
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::{Layout, Shape};
use seriatim::Context;

crate::parameters! {
    /// Of a step.
    pub(crate) struct SgdParameters {
        lr: f64, required, .., "The learning rate";
        momentum: f64, default "0", 0.0..1.0, "How much of the last step is added to the next";
        wd: f64, default "0", 0.0.., "The weight decay: how much of the weight is added to the gradient";
        rescale_grad: f64, default "1", .., "What the gradient is multiplied by first";
        clip_gradient: f64, default "-1", .., "Between minus this and this the gradient is kept; below 0 it is not";
    }
}

#[derive(Clone, Debug)]
struct Sgd {
    parameters: SgdParameters,
    has_momentum: bool,
}

impl OperatorProperty for Sgd {
    fn get_params(&self) -> Vec<(&'static str, String)> {
        self.parameters.params()
    }

    fn list_arguments(&self) -> Vec<&'static str> {
        vec!["weight", "grad"]
    }

    fn list_auxiliary_states(&self) -> Vec<&'static str> {
        if self.has_momentum {
            vec!["mom"]
        } else {
            Vec::new()
        }
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        aux_shape: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[0].or(in_shape[1]).or(out_shape[0]) else { return Ok(false) };
        assign_shape("weight", &mut in_shape[0], shape)?;
        assign_shape("grad", &mut in_shape[1], shape)?;
        aux_shape.iter_mut().try_for_each(|aux| assign_shape("mom", aux, shape))?;
        assign_shape("output", &mut out_shape[0], shape).map(|()| true)
    }

    fn has_gradient(&self) -> bool {
        false
    }

    fn forward_inplace_option(&self, _: &[usize], _: &[usize]) -> Vec<(usize, usize)> {
        vec![(0, 0)]
    }

    fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl Sgd {
    fn step<W: Element + num_traits::Float>(
        &self,
        ctx: &OpContext<'_, '_>,
        [weight, grad]: [Blob<'_>; 2],
        req: OpReq,
        out: &mut BlobMut<'_>,
        mom: Option<&mut BlobMut<'_>>,
    ) -> Result<(), Error> {
        let of = |value: f64| W::from_number(value.to_number());
        let SgdParameters { lr, momentum, wd, rescale_grad, clip_gradient } = self.parameters;
        let (lr, momentum, wd, rescale, clip) = (of(lr), of(momentum), of(wd), of(rescale_grad), of(clip_gradient));
        let down = |weight: W, grad: W| {
            let grad = grad * rescale;
            let grad = if clip_gradient >= 0.0 { grad.max(-clip).min(clip) } else { grad };
            lr * (grad + wd * weight)
        };
        let Some(mom) = mom else {
            return map::<W>(&[weight, grad], out, req, |x, out| {
                for ((out, weight), grad) in out.iter_mut().zip(x[0]).zip(x[1]) {
                    *out = *weight - down(*weight, *grad);
                }
            });
        };
        // The next step, which is also the next momentum.
        let mut scratch = ctx.scratch::<W>(weight.size())?;
        let layout = Layout::contiguous(weight.shape());
        let step = &mut BlobMut::of_slice(scratch.as_mut_slice(), layout);
        map::<W>(&[weight, grad, mom.as_blob()], step, OpReq::Write, |x, out| {
            for (((out, weight), grad), mom) in out.iter_mut().zip(x[0]).zip(x[1]).zip(x[2]) {
                *out = momentum * *mom - down(*weight, *grad);
            }
        })?;
        let step = scratch.as_mut_slice();
        mom.writer(OpReq::Write).put(step);
        map::<W>(&[weight, Blob::of_slice(step, layout)], out, req, |x, out| {
            out.iter_mut().zip(x[0]).zip(x[1]).for_each(|((out, weight), step)| *out = *weight + *step);
        })
    }
}

impl Operator for Sgd {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        aux_states: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let (inputs, out, mom) = ([in_data[0], in_data[1]], &mut out_data[0], aux_states.first_mut());
        match in_data[0].dtype() {
            DType::F64 => self.step::<f64>(ctx, inputs, req[0], out, mom),
            _ => self.step::<f32>(ctx, inputs, req[0], out, mom),
        }
    }
}

/// Both.
pub(super) fn all(add: &mut Builtin<'_>) {
    for (name, has_momentum, about) in [
        ("sgd_update", false, "weight - lr (grad + wd weight)"),
        ("sgd_mom_update", true, "weight + mom, with mom = momentum mom - lr (grad + wd weight)"),
    ] {
        let make = move |given: &[(&str, &str)]| {
            Ok(Box::new(Sgd { parameters: SgdParameters::init(given)?, has_momentum }) as Box<dyn OperatorProperty>)
        };
        add(name, about, Box::new(make));
    }
}
