//! `Cast`: the values of an array in another type.

#![forbid(unsafe_code)]

use crate::dtype::{with_type, DType, Element};
use crate::error::Error;
use crate::kernel::convert;
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::element_copy::{make, Copying};
use crate::operator::map::{copy_part, in_parts};
use crate::operator::parameters::Parameters;
use crate::operator::parts::Workers;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::Shape;

/// Of `Cast`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct CastParameters {
    /// The type of the result.
    pub dtype: DType,
}

impl Copying for CastParameters {
    fn out_shape(&self, of: &Shape) -> Result<Shape, Error> {
        Ok(*of)
    }

    fn in_shape(&self, of: &Shape) -> Option<Shape> {
        Some(*of)
    }

    fn out_type(&self) -> Option<DType> {
        Some(self.dtype)
    }

    fn forward(&self, workers: Workers<'_>, data: &Blob<'_>, out: &mut BlobMut<'_>, req: OpReq) -> Result<(), Error> {
        in_parts(workers, &[*data], &mut [out.again()], |data, outs| cast(&data[0], &mut outs[0], req))
    }

    fn backward(
        &self,
        workers: Workers<'_>,
        grad: &Blob<'_>,
        in_grad: &mut BlobMut<'_>,
        req: OpReq,
    ) -> Result<(), Error> {
        self.forward(workers, grad, in_grad, req)
    }
}

/// Runs a kernel on two arrays, if they are of these types and both give out slices.
fn by_slices<A: Element, B: Element>(data: &Blob<'_>, out: &mut BlobMut<'_>, kernel: fn(&[A], &mut [B])) -> bool {
    match (data.as_slice::<A>(), out.as_mut_slice::<B>()) {
        (Some(from), Some(out)) => {
            kernel(from, out);
            true
        }
        _ => false,
    }
}

fn cast(data: &Blob<'_>, out: &mut BlobMut<'_>, req: OpReq) -> Result<(), Error> {
    let is_done = req.overwrites()
        && match (data.dtype(), out.dtype()) {
            (DType::F32, DType::F16) => by_slices(data, out, convert::to_f16),
            (DType::F16, DType::F32) => by_slices(data, out, convert::from_f16),
            (DType::F32, DType::Bf16) => by_slices(data, out, convert::to_bf16),
            (DType::Bf16, DType::F32) => by_slices(data, out, convert::from_bf16),
            (from, to) => {
                with_type!(from, A => with_type!(to, B => by_slices(data, out, convert::convert::<A, B>)))
            }
        };
    match is_done {
        true => Ok(()),
        false => copy_part(data, out, req),
    }
}

/// The one.
pub(super) fn all(add: &mut Builtin<'_>) {
    add("Cast", "The same values in another type", make::<CastParameters>());
}
