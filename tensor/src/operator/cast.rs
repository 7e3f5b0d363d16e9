//! `Cast`: the values of an array in another type.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::map::copy;
use crate::operator::parameters::Parameters;
use crate::operator::property::{assign_shape, Given, OpContext, Operator, OperatorProperty};
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::Shape;
use seriatim::Context;

/// Of `Cast`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct CastParameters {
    /// The type of the result.
    pub dtype: DType,
}

#[derive(Clone, Debug)]
struct Cast(CastParameters);

impl OperatorProperty for Cast {
    fn get_params(&self) -> Vec<(&'static str, String)> {
        self.0.params()
    }

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

    fn infer_type(
        &self,
        in_type: &mut [Option<DType>],
        out_type: &mut [Option<DType>],
        _: &mut [Option<DType>],
    ) -> Result<bool, Error> {
        if let Some(other) = out_type[0].filter(|dtype| *dtype != self.0.dtype) {
            let message = format!("the result is an array of {other}, and should be one of {}", self.0.dtype);
            return Err(Error::new(ErrorKind::UnsupportedType, message));
        }
        out_type[0] = Some(self.0.dtype);
        Ok(in_type[0].is_some())
    }

    fn types(&self) -> &'static [DType] {
        &DType::ALL
    }

    fn declare_backward_dependency(&self, out_grad: &[usize], _: &[usize], _: &[usize]) -> Vec<usize> {
        out_grad.to_vec()
    }

    fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl Operator for Cast {
    fn forward(
        &self,
        _: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        copy(&in_data[0], &mut out_data[0], req[0])
    }

    fn backward(
        &self,
        _: &mut OpContext<'_, '_>,
        out_grad: Given<'_>,
        _: Given<'_>,
        _: Given<'_>,
        req: &[OpReq],
        in_grad: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        copy(&out_grad.get(0)?, &mut in_grad[0], req[0])
    }
}

/// The one.
pub(super) fn all(add: &mut Builtin<'_>) {
    let make = |given: &[(&str, &str)]| Ok(Box::new(Cast(CastParameters::init(given)?)) as Box<dyn OperatorProperty>);
    add("Cast", "The same values in another type", Box::new(make));
}
