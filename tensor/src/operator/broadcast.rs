//! `broadcast_to`: the same values along a larger shape. Its gradient is a sum.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::map::copy;
use crate::operator::parameters::{Axes, Parameters};
use crate::operator::property::{assign_shape, Given, OpContext, Operator, OperatorProperty};
use crate::operator::reduction::sum_to;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::{Layout, Shape};
use seriatim::Context;

/// Of `broadcast_to`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct BroadcastParameters {
    /// The shape of the result.
    pub shape: Axes,
}

#[derive(Clone)]
struct BroadcastTo(BroadcastParameters);

impl BroadcastTo {
    fn shape(&self) -> Result<Shape, Error> {
        let dims: Option<Vec<usize>> = self.0.shape.0.iter().flatten().map(|dim| usize::try_from(*dim).ok()).collect();
        let dims = dims.ok_or_else(|| Error::new(ErrorKind::BadParameter, "a size of the shape is negative"))?;
        Shape::new(&dims)
    }
}

impl OperatorProperty for BroadcastTo {
    fn get_params(&self) -> Vec<(&'static str, String)> {
        self.0.params()
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[0] else { return Ok(false) };
        Layout::contiguous(shape).broadcast_to(self.shape()?)?;
        assign_shape("output", &mut out_shape[0], self.shape()?).map(|()| true)
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

impl Operator for BroadcastTo {
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
        sum_to(&out_grad.get(0)?, &mut in_grad[0], req[0])
    }
}

/// The one.
pub(super) fn all(add: &mut Builtin<'_>) {
    let make = |given: &[(&str, &str)]| {
        Ok(Box::new(BroadcastTo(BroadcastParameters::init(given)?)) as Box<dyn OperatorProperty>)
    };
    add("broadcast_to", "The same values along a larger shape", Box::new(make));
}
