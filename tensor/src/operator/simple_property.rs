//! `SimpleProperty`: a simple operator with its parameters, as the property and the operator that
//! all others are too.
//!
//! Used by `simple.rs`, which registers it.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::fields::{check_names, read_field};
use crate::operator::property::{assign_shape, Given, OpContext, Operator, OperatorProperty};
use crate::operator::simple::SimpleOp;
use crate::operator::simple_kinds::{
    BinaryGradient, EnvArguments, Functions, Input0, Input1, OutShape, OutputGrad, OutputValue, UnaryGradient,
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
        let mut property = SimpleProperty { op: Arc::clone(op), scalar: None, kwargs: Vec::new() };
        if op.kwargs {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            property.kwargs = parameters.iter().map(owned).collect();
            return Ok(property);
        }
        let fields = op.fields();
        check_names(&fields, parameters)?;
        if let (Some(field), false) = (fields.first(), parameters.is_empty()) {
            property.scalar = Some(read_field(field, |_| true, parameters)?);
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
        match self.op.shape {
            OutShape::Unary(_) => vec!["data"],
            OutShape::Binary(_) => vec!["lhs", "rhs"],
        }
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let scalar = self.scalar.unwrap_or_default();
        let shape = match (&self.op.shape, &*in_shape) {
            (OutShape::Unary(shape), [Some(src)]) => shape(src, scalar, &self.kwargs)?,
            (OutShape::Binary(shape), [Some(lhs), Some(rhs)]) => shape(lhs, rhs, scalar, &self.kwargs)?,
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
        let has_one =
            |functions: &Functions| matches!(functions, Functions::Unary(_, Some(_)) | Functions::Binary(_, Some(_)));
        self.op.all_functions().any(has_one)
    }

    fn declare_backward_dependency(&self, out_grad: &[usize], in_data: &[usize], out_data: &[usize]) -> Vec<usize> {
        let of_any = |uses: fn(&Functions) -> bool| self.op.all_functions().any(uses);
        let uses_output = of_any(|functions| match functions {
            Functions::Unary(_, gradient) => matches!(gradient, Some(UnaryGradient::T1(_))),
            Functions::Binary(_, gradient) => matches!(gradient, Some(BinaryGradient::T1(_))),
        });
        let uses_input = of_any(|functions| match functions {
            Functions::Unary(_, gradient) => matches!(gradient, Some(UnaryGradient::T2(_))),
            Functions::Binary(_, gradient) => matches!(gradient, Some(BinaryGradient::T2(_))),
        });
        let (of_input, of_output): (&[usize], &[usize]) =
            (if uses_input { in_data } else { &[] }, if uses_output { out_data } else { &[] });
        [out_grad, of_input, of_output].concat()
    }

    fn forward_inplace_option(&self, _: &[usize], _: &[usize]) -> Vec<(usize, usize)> {
        if self.op.inplace[0] {
            vec![(0, 0)]
        } else {
            Vec::new()
        }
    }

    fn backward_inplace_option(
        &self,
        out_grad: &[usize],
        _: &[usize],
        _: &[usize],
        in_grad: &[usize],
    ) -> Vec<(usize, usize)> {
        if self.op.inplace[1] {
            vec![(out_grad[0], in_grad[0])]
        } else {
            Vec::new()
        }
    }

    fn devices(&self) -> &[Device] {
        &self.op.devices
    }

    fn create_operator(&self, context: Context) -> Result<Box<dyn Operator>, Error> {
        Ok(Box::new(SimpleOperator { property: self.clone(), context }))
    }
}

/// Calls the functions of a context.
struct SimpleOperator {
    property: SimpleProperty,
    context: Context,
}

impl SimpleOperator {
    #[inline]
    fn functions(&self) -> &Functions {
        self.property.op.functions_on(self.context)
    }
}

impl Operator for SimpleOperator {
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
        let (mut env, out) = (self.property.env(ctx), &mut out_data[0]);
        match self.functions() {
            Functions::Unary(function, _) => function(Input0(in_data[0]), &mut env, out, req[0]),
            Functions::Binary(function, _) => function(Input0(in_data[0]), Input1(in_data[1]), &mut env, out, req[0]),
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
        let (mut env, grad) = (self.property.env(ctx), OutputGrad(out_grad.get(0)?));
        let (value, input0, input1) =
            (|| out_data.get(0).map(OutputValue), || in_data.get(0).map(Input0), || in_data.get(1).map(Input1));
        match (self.functions(), in_grad) {
            (Functions::Unary(_, Some(gradient)), [out]) => match gradient {
                UnaryGradient::T0(of) => of(grad, &mut env, out, req[0]),
                UnaryGradient::T1(of) => of(grad, value()?, &mut env, out, req[0]),
                UnaryGradient::T2(of) => of(grad, input0()?, &mut env, out, req[0]),
            },
            (Functions::Binary(_, Some(gradient)), [lhs, rhs]) => {
                let both = ([lhs, rhs], [req[0], req[1]]);
                match gradient {
                    BinaryGradient::T0(of) => of(grad, &mut env, both),
                    BinaryGradient::T1(of) => of(grad, value()?, &mut env, both),
                    BinaryGradient::T2(of) => of(grad, input0()?, input1()?, &mut env, both),
                }
            }
            _ => {
                let message = format!("the operator has no gradient on {}", self.context);
                Err(Error::new(ErrorKind::NoGradient, message))
            }
        }
    }
}
