//! `_shuffle`: the places of the first axis in a random order, each order alike. It has no
//! gradient.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::Error;
use crate::ndarray::access::{Blob, BlobMut};
use crate::ndarray::array::NDArray;
use crate::operator::map::with_work;
use crate::operator::op::Op;
use crate::operator::ordered::Ordered;
use crate::operator::property::{assign_shape, OpContext, Operator, OperatorProperty};
use crate::operator::registry::Maker;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::resource::{Distribution, Philox, ResourceRequest};
use crate::shape::Shape;
use seriatim::Context;
use std::sync::OnceLock;

impl NDArray {
    /// The places of the first axis in a random order, in new memory (`mx.random.shuffle`). Every
    /// order is alike. An array without axes is copied.
    ///
    /// # Errors
    /// Those of a call; [`NoGradient`](crate::ErrorKind::NoGradient) in a backward pass that comes
    /// through it.
    ///
    /// ```
    /// let x = seriatim_tensor::NDArray::from_slice(&[1, 1, 2, 2, 3, 3], [3, 2])?;
    /// let rows = x.shuffle()?.to_vec::<i32>()?;
    /// assert!(rows.chunks(2).all(|row| row[0] == row[1]));
    /// assert_eq!(rows.iter().sum::<i32>(), 12);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn shuffle(&self) -> Result<NDArray, Error> {
        static OP: OnceLock<Result<Op, Error>> = OnceLock::new();
        OP.get_or_init(|| Op::new("_shuffle", &[])).as_ref().map_err(Error::clone)?.invoke(&[self])
    }
}

/// Writes the numbers from 0 on in a random order. Takes a block of the generator a number, which
/// the caller leaves out afterwards.
pub(super) fn permute(generator: &Philox, order: &mut [i64]) {
    order.iter_mut().zip(0..).for_each(|(place, number)| *place = number);
    for last in (1..order.len()).rev() {
        let of = Distribution::Whole { low: 0, high: last as i64 + 1 };
        let [other, _] = of.whole_pair(generator, last as u64);
        order.swap(last, other as usize);
    }
}

#[derive(Clone, Debug)]
struct Shuffle;

impl OperatorProperty for Shuffle {
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

    fn types(&self) -> &'static [DType] {
        &DType::ALL
    }

    fn forward_resource(&self) -> Vec<ResourceRequest> {
        vec![ResourceRequest::Random]
    }

    fn has_gradient(&self) -> bool {
        false
    }

    fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl Operator for Shuffle {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let rows = in_data[0].shape().dims().first().copied().unwrap_or(1);
        let mut order = ctx.scratch::<i64>(rows)?;
        let generator = ctx.requested[0].get_random()?;
        permute(generator, order.as_mut_slice());
        // Also where nothing is written: the draws after it do not depend on the request.
        generator.skip(rows as u64);
        if req[0].is_null() || in_data[0].size() == 0 {
            return Ok(());
        }
        let row = in_data[0].size() / rows;
        with_work!(in_data[0].dtype(), W => {
            let mut elements = Ordered::<W>::new(ctx, &in_data[0])?;
            let (elements, mut writer) = (elements.get(), out_data[0].writer::<W>(req[0]));
            for place in order.as_mut_slice() {
                writer.put(&elements[*place as usize * row..][..row]);
            }
        });
        Ok(())
    }
}

/// The one.
pub(super) fn all(add: &mut Builtin<'_>) {
    let about = "The places of the first axis in a random order";
    add("_shuffle", about, Maker::of(|()| Ok(Box::new(Shuffle))));
}
