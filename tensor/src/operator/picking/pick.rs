//! `pick`: of each row along an axis the element at a place of its own.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::map::{with_float, with_work, zero};
use crate::operator::ordered::{write, Ordered};
use crate::operator::parameters::Parameters;
use crate::operator::picking::{around, check_places, Mode};
use crate::operator::property::{
    assign_shape, assign_type, by_parameters, Given, OpContext, Operator, OperatorProperty,
};
use crate::operator::registry::Maker;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::{Shape, MAX_RANK};
use smallvec::SmallVec;

/// Of `pick`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct PickParameters {
    /// The axis of the places, counted from the end if negative.
    #[parameter(default = -1)]
    pub axis: isize,
    /// Whether the axis stays, with size 1.
    #[parameter(default = false)]
    pub keepdims: bool,
    /// What becomes of places that there are not.
    #[parameter(default = "clip")]
    pub mode: Mode,
}

#[derive(Clone, Debug)]
struct Pick {
    parameters: PickParameters,
}

impl Pick {
    /// Calls `each` with the number of each element that is picked, in order.
    fn places(
        &self,
        shape: &Shape,
        index: &Blob<'_>,
        mut each: impl FnMut(usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let [outer, count, inner] = around(shape, shape.axis(self.parameters.axis)?);
        let (mut reader, mut place) = (index.reader::<i64>(), [0]);
        for number in 0..outer {
            for within in 0..inner {
                reader.fill(&mut place);
                let place = self.parameters.mode.place(place[0], count)?;
                each((number * count + place) * inner + within)?;
            }
        }
        Ok(())
    }
}

impl OperatorProperty for Pick {
    by_parameters!();

    fn list_arguments(&self) -> Vec<&'static str> {
        vec!["data", "index"]
    }

    /// The index may have the axis with size 1, or not.
    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[0] else { return Ok(false) };
        let axis = shape.axis(self.parameters.axis)?;
        let mut dims = SmallVec::<[usize; MAX_RANK]>::from_slice(shape.dims());
        dims[axis] = 1;
        let kept = Shape::new(&dims)?;
        dims.remove(axis);
        let gone = Shape::new(&dims)?;
        let out = if self.parameters.keepdims { kept } else { gone };
        match in_shape[1] {
            Some(known) if known != kept && known != gone => {
                let message = format!("'index' has shape {known} where {gone} or {kept} belongs");
                return Err(Error::new(ErrorKind::ShapeMismatch, message));
            }
            known => in_shape[1] = known.or(Some(out)),
        }
        assign_shape("output", &mut out_shape[0], out).map(|()| true)
    }

    fn infer_type(
        &self,
        in_type: &mut [Option<DType>],
        out_type: &mut [Option<DType>],
        _: &mut [Option<DType>],
    ) -> Result<bool, Error> {
        let is_known = check_places("index", in_type[1])?;
        let Some(dtype) = in_type[0].or(out_type[0]) else { return Ok(false) };
        assign_type("data", &mut in_type[0], dtype)?;
        assign_type("output", &mut out_type[0], dtype)?;
        Ok(is_known)
    }

    fn types(&self) -> &'static [DType] {
        &DType::ALL
    }

    fn declare_backward_dependency(&self, out_grad: &[usize], in_data: &[usize], _: &[usize]) -> Vec<usize> {
        [out_grad, &in_data[1..]].concat()
    }
}

impl Operator for Pick {
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
        with_work!(in_data[0].dtype(), W => {
            let mut elements = Ordered::<W>::new(ctx, &in_data[0])?;
            let (elements, mut writer) = (elements.get(), out_data[0].writer::<W>(req[0]));
            self.places(&in_data[0].shape(), &in_data[1], |place| {
                writer.put(&elements[place..=place]);
                Ok(())
            })
        })
    }

    fn backward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        out_grad: Given<'_>,
        in_data: Given<'_>,
        _: Given<'_>,
        req: &[OpReq],
        in_grad: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        zero(&mut in_grad[1], req[1])?;
        let (grad, index, shape) = (out_grad.get(0)?, in_data.get(1)?, in_grad[0].shape());
        with_float!(grad.dtype(), W => {
            write::<W>(ctx, &mut in_grad[0], req[0], |grads| {
                grads.fill(0.0);
                let mut reader = grad.reader::<W>();
                self.places(&shape, &index, |place| {
                    reader.fill(&mut grads[place..=place]);
                    Ok(())
                })
            })
        })
    }
}

/// The one.
pub(super) fn all(add: &mut Builtin<'_>) {
    let about = "Of each row along an axis the element at a place of its own";
    add("pick", about, Maker::of(|parameters: PickParameters| Ok(Box::new(Pick { parameters }))));
}
