//! `Activation`: a function of each element, by its name.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::kernel::unary;
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::elementwise::{unary_backward, unary_forward};
use crate::operator::parameters::{Choices, ParameterType, Parameters};
use crate::operator::property::{assign_shape, by_parameters, Given, OpContext, Operator, OperatorProperty};
use crate::operator::registry::Maker;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::Shape;

/// The functions of `Activation`.
#[derive(Clone, Copy, PartialEq, Debug, Choices)]
pub(crate) enum Function {
    Relu,
    Sigmoid,
    Tanh,
    Softrelu,
    Softsign,
}

/// Of `Activation`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct ActivationParameters {
    /// The function.
    pub act_type: Function,
}

/// `Activation` is one of the functions of the table by another name.
#[derive(Clone)]
struct Activation {
    parameters: ActivationParameters,
    entry: &'static unary::Unary,
}

impl OperatorProperty for Activation {
    by_parameters!();

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[0].or(out_shape[0]) else { return Ok(false) };
        assign_shape("data", &mut in_shape[0], shape)?;
        assign_shape("output", &mut out_shape[0], shape).map(|()| true)
    }

    fn declare_backward_dependency(&self, out_grad: &[usize], in_data: &[usize], out_data: &[usize]) -> Vec<usize> {
        match self.entry.uses {
            unary::Uses::Nothing => out_grad.to_vec(),
            unary::Uses::Input => [out_grad, in_data].concat(),
            unary::Uses::Output => [out_grad, out_data].concat(),
        }
    }

    fn forward_inplace_option(&self, _: &[usize], _: &[usize]) -> Vec<(usize, usize)> {
        vec![(0, 0)]
    }
}

impl Operator for Activation {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        unary_forward(self.entry, ctx.workers(), in_data[0], &mut out_data[0], req[0])
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
        let uses = match self.entry.uses {
            unary::Uses::Nothing => out_grad.get(0)?,
            unary::Uses::Input => in_data.get(0)?,
            unary::Uses::Output => out_data.get(0)?,
        };
        let inputs = [out_grad.get(0)?, uses];
        unary_backward(self.entry, ctx.workers(), inputs, &mut in_grad[0], req[0])
    }
}

/// The one.
pub(super) fn all(add: &mut Builtin<'_>) {
    let maker = Maker::of(|parameters: ActivationParameters| {
        let name = parameters.act_type.show();
        let entry = unary::TABLE.iter().find(|entry| entry.name == name);
        let entry = entry.ok_or_else(|| Error::new(ErrorKind::BadParameter, format!("no function is named {name}")))?;
        Ok(Box::new(Activation { parameters, entry }))
    });
    add("Activation", "A function of each element, by its name", maker);
}
