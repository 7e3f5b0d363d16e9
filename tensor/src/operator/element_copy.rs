//! What operators share that copy elements of one array to one result: `Cast`, `broadcast_to`,
//! `Reshape`, `slice`, `tile` and others. All types go, and the gradient needs no values.
//!
//! `cast.rs`, `broadcast.rs` and `shaping/` have what each copies.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::Error;
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::map::copy;
use crate::operator::parameters::Parameters;
use crate::operator::parts::Workers;
use crate::operator::property::{assign_shape, assign_type, Given, OpContext, Operator, OperatorProperty};
use crate::operator::registry::Maker;
use crate::request::OpReq;
use crate::shape::Shape;
use seriatim::Context;

/// What is an operator's own: its parameters, the shape of the result, and the copies.
pub(super) trait Copying: Parameters + Clone + Send + Sync + 'static {
    /// The shape of the result, of that of the input.
    fn out_shape(&self, of: &Shape) -> Result<Shape, Error>;

    /// The shape of the input, where it follows from that of the result.
    fn in_shape(&self, _of: &Shape) -> Option<Shape> {
        None
    }

    /// The type of the result, unless it is that of the input.
    fn out_type(&self) -> Option<DType> {
        None
    }

    /// Writes the result.
    fn forward(&self, workers: Workers<'_>, data: &Blob<'_>, out: &mut BlobMut<'_>, req: OpReq) -> Result<(), Error> {
        copy(workers, data, out, req)
    }

    /// Writes the gradient by the input.
    fn backward(
        &self,
        workers: Workers<'_>,
        grad: &Blob<'_>,
        in_grad: &mut BlobMut<'_>,
        req: OpReq,
    ) -> Result<(), Error> {
        copy(workers, grad, in_grad, req)
    }
}

/// How the operator is made.
pub(super) fn make<C: Copying>() -> Maker {
    Maker::of(|parameters: C| Ok(Box::new(Copied(parameters))))
}

/// The operator, and its property.
#[derive(Clone)]
struct Copied<C>(C);

impl<C: Copying> OperatorProperty for Copied<C> {
    fn get_params(&self) -> Vec<(&'static str, String)> {
        self.0.params()
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let follows = out_shape[0].and_then(|out| self.0.in_shape(&out));
        let Some(shape) = in_shape[0].or(follows) else { return Ok(false) };
        in_shape[0] = Some(shape);
        assign_shape("output", &mut out_shape[0], self.0.out_shape(&shape)?).map(|()| true)
    }

    fn infer_type(
        &self,
        in_type: &mut [Option<DType>],
        out_type: &mut [Option<DType>],
        _: &mut [Option<DType>],
    ) -> Result<bool, Error> {
        if let Some(dtype) = self.0.out_type() {
            return assign_type("output", &mut out_type[0], dtype).map(|()| in_type[0].is_some());
        }
        let Some(dtype) = in_type[0].or(out_type[0]) else { return Ok(false) };
        in_type[0] = Some(dtype);
        assign_type("output", &mut out_type[0], dtype).map(|()| true)
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

impl<C: Copying> Operator for Copied<C> {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        self.0.forward(ctx.workers(), &in_data[0], &mut out_data[0], req[0])
    }

    fn backward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        out_grad: Given<'_>,
        _: Given<'_>,
        _: Given<'_>,
        req: &[OpReq],
        in_grad: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        self.0.backward(ctx.workers(), &out_grad.get(0)?, &mut in_grad[0], req[0])
    }
}
