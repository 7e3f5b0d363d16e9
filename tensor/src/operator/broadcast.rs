//! `broadcast_to`: the same values along a larger shape. Its gradient is a sum.

#![forbid(unsafe_code)]

use crate::error::Error;
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::element_copy::{make, Copying};
use crate::operator::parameters::Parameters;
use crate::operator::parts::Workers;
use crate::operator::reduction::sum_to;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::{Layout, Shape};

/// Of `broadcast_to`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct BroadcastParameters {
    /// The shape of the result.
    pub shape: Shape,
}

impl Copying for BroadcastParameters {
    fn out_shape(&self, of: &Shape) -> Result<Shape, Error> {
        Layout::contiguous(*of).broadcast_to(self.shape).map(|layout| layout.shape)
    }

    fn backward(
        &self,
        workers: Workers<'_>,
        grad: &Blob<'_>,
        in_grad: &mut BlobMut<'_>,
        req: OpReq,
    ) -> Result<(), Error> {
        sum_to(workers, grad, in_grad, req)
    }
}

/// The one.
pub(super) fn all(add: &mut Builtin<'_>) {
    add("broadcast_to", "The same values along a larger shape", make::<BroadcastParameters>());
}
