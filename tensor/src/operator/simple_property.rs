//! `SimpleProperty`: a simple operator with its parameters, as the property and the operator that
//! all others are too.
//!
//! Used by `simple.rs`, which registers it.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::property::{assign_shape, Given, OpContext, Operator, OperatorProperty};
use crate::operator::simple::{
    BinaryGradient, EnvArguments, Function, Inplace, Input0, Input1, OutputGrad, OutputValue, SimpleOp, UnaryGradient,
};
use crate::request::OpReq;
use crate::resource::ResourceRequest;
use crate::shape::Shape;
use seriatim::{Context, Device};
use std::sync::Arc;

/// A simple operator with its parameters.
#[derive(Clone)]
pub(super) struct SimpleProperty {
    op: Arc<SimpleOp>,
    scalar: Option<f64>,
    kwargs: Vec<(String, String)>,
}

impl SimpleProperty {
    pub(super) fn new(op: &Arc<SimpleOp>, parameters: &[(&str, &str)]) -> Result<SimpleProperty, Error> {
        let refuse = |message: String| Err(Error::new(ErrorKind::BadParameter, message));
        let mut property = SimpleProperty { op: Arc::clone(op), scalar: None, kwargs: Vec::new() };
        for (name, value) in parameters {
            if op.kwargs {
                property.kwargs.push(((*name).to_owned(), (*value).to_owned()));
            } else if op.scalar && *name == "scalar" {
                match value.parse() {
                    Ok(scalar) => property.scalar = Some(scalar),
                    Err(_) => return refuse(format!("scalar = '{value}' is no number")),
                }
            } else {
                let known = if op.scalar { "scalar" } else { "none" };
                return refuse(format!("it has no parameter '{name}'; known are: {known}"));
            }
        }
        Ok(property)
    }

    fn env<'a, 'c, 'r>(&'a self, ctx: &'a mut OpContext<'c, 'r>) -> EnvArguments<'a, 'c, 'r> {
        EnvArguments { scalar: self.scalar.unwrap_or(ctx.scalar), kwargs: &self.kwargs, ctx }
    }
}

impl OperatorProperty for SimpleProperty {
    fn get_params(&self) -> Vec<(&'static str, String)> {
        self.scalar.map(|scalar| ("scalar", scalar.to_string())).into_iter().collect()
    }

    fn list_arguments(&self) -> Vec<&'static str> {
        match self.op.function {
            Function::Unary(..) => vec!["data"],
            Function::Binary(..) => vec!["lhs", "rhs"],
        }
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let scalar = self.scalar.unwrap_or_default();
        let shape = match (&self.op.function, &*in_shape) {
            (Function::Unary(_, shape, _), [Some(src)]) => shape(src, scalar, &self.kwargs)?,
            (Function::Binary(_, shape, _), [Some(lhs), Some(rhs)]) => shape(lhs, rhs, scalar, &self.kwargs)?,
            _ => return Ok(false),
        };
        assign_shape("output", &mut out_shape[0], shape).map(|()| true)
    }

    fn infer_type(
        &self,
        in_type: &mut [Option<DType>],
        out_type: &mut [Option<DType>],
        _: &mut [Option<DType>],
    ) -> Result<bool, Error> {
        let Some(first) = in_type.iter().flatten().next().copied() else { return Ok(false) };
        let result = self.op.output_type.unwrap_or(first);
        let wrong = in_type.iter().flatten().find(|dtype| **dtype != first);
        if let Some(wrong) = wrong.or(out_type[0].as_ref().filter(|dtype| **dtype != result)) {
            let message = format!("{wrong} in a call of {first}, whose result is {result}: convert it by astype");
            return Err(Error::new(ErrorKind::UnsupportedType, message));
        }
        in_type.fill(Some(first));
        out_type[0] = Some(result);
        Ok(true)
    }

    fn types(&self) -> &'static [DType] {
        self.op.types
    }

    fn forward_resource(&self) -> Vec<ResourceRequest> {
        self.op.resources.clone()
    }

    fn backward_resource(&self) -> Vec<ResourceRequest> {
        self.op.resources.clone()
    }

    fn has_gradient(&self) -> bool {
        matches!(self.op.function, Function::Unary(_, _, Some(_)) | Function::Binary(_, _, Some(_)))
    }

    fn declare_backward_dependency(&self, out_grad: &[usize], in_data: &[usize], out_data: &[usize]) -> Vec<usize> {
        match &self.op.function {
            Function::Unary(_, _, Some(UnaryGradient::T1(_))) | Function::Binary(_, _, Some(BinaryGradient::T1(_))) => {
                [out_grad, out_data].concat()
            }
            Function::Unary(_, _, Some(UnaryGradient::T2(_))) | Function::Binary(_, _, Some(BinaryGradient::T2(_))) => {
                [out_grad, in_data].concat()
            }
            _ => out_grad.to_vec(),
        }
    }

    fn forward_inplace_option(&self, _: &[usize], _: &[usize]) -> Vec<(usize, usize)> {
        match self.op.inplace {
            Inplace::No => Vec::new(),
            Inplace::InOut => vec![(0, 0)],
        }
    }

    fn devices(&self) -> &[Device] {
        self.op.devices
    }

    fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl Operator for SimpleProperty {
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
        let (mut env, out) = (self.env(ctx), &mut out_data[0]);
        match &self.op.function {
            Function::Unary(function, ..) => function(Input0(in_data[0]), &mut env, out, req[0]),
            Function::Binary(function, ..) => function(Input0(in_data[0]), Input1(in_data[1]), &mut env, out, req[0]),
        }
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
        if req.iter().all(|req| req.is_null()) {
            return Ok(());
        }
        let (mut env, grad) = (self.env(ctx), OutputGrad(out_grad.get(0)?));
        let (value, input0, input1) =
            (|| out_data.get(0).map(OutputValue), || in_data.get(0).map(Input0), || in_data.get(1).map(Input1));
        match (&self.op.function, in_grad) {
            (Function::Unary(_, _, Some(gradient)), [out]) => match gradient {
                UnaryGradient::T0(of) => of(grad, &mut env, out, req[0]),
                UnaryGradient::T1(of) => of(grad, value()?, &mut env, out, req[0]),
                UnaryGradient::T2(of) => of(grad, input0()?, &mut env, out, req[0]),
            },
            (Function::Binary(_, _, Some(gradient)), [lhs, rhs]) => {
                let both = ([lhs, rhs], [req[0], req[1]]);
                match gradient {
                    BinaryGradient::T0(of) => of(grad, &mut env, both),
                    BinaryGradient::T1(of) => of(grad, value()?, &mut env, both),
                    BinaryGradient::T2(of) => of(grad, input0()?, input1()?, &mut env, both),
                }
            }
            _ => Err(Error::new(ErrorKind::NoGradient, "the operator has no gradient")),
        }
    }
}
