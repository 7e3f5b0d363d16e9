//! `one_hot`: rows that have one value at a place, and another one elsewhere. It has no gradient.

#![forbid(unsafe_code)]

use crate::dtype::{DType, Element};
use crate::error::Error;
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::map::with_work;
use crate::operator::parameters::Parameters;
use crate::operator::property::{
    assign_shape, assign_type, by_parameters, OpContext, Operator, OperatorProperty, NUMBERS,
};
use crate::operator::registry::Maker;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::{Shape, MAX_RANK};
use smallvec::SmallVec;

/// Of `one_hot`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct OneHotParameters {
    /// How many elements a row has.
    #[parameter(range = 1..)]
    pub depth: usize,
    /// The element at the place.
    #[parameter(default = 1)]
    pub on_value: f64,
    /// The elements elsewhere.
    #[parameter(default = 0)]
    pub off_value: f64,
    /// The type of the result.
    #[parameter(default = "float32")]
    pub dtype: DType,
}

#[derive(Clone, Debug)]
struct OneHot {
    parameters: OneHotParameters,
}

impl OperatorProperty for OneHot {
    by_parameters!();

    fn list_arguments(&self) -> Vec<&'static str> {
        vec!["indices"]
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[0] else { return Ok(false) };
        let mut dims = SmallVec::<[usize; MAX_RANK]>::from_slice(shape.dims());
        dims.push(self.parameters.depth);
        assign_shape("output", &mut out_shape[0], Shape::new(&dims)?).map(|()| true)
    }

    fn infer_type(
        &self,
        in_type: &mut [Option<DType>],
        out_type: &mut [Option<DType>],
        _: &mut [Option<DType>],
    ) -> Result<bool, Error> {
        assign_type("output", &mut out_type[0], self.parameters.dtype)?;
        Ok(in_type[0].is_some())
    }

    fn types(&self) -> &'static [DType] {
        NUMBERS
    }

    fn has_gradient(&self) -> bool {
        false
    }
}

impl Operator for OneHot {
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
        let OneHotParameters { depth, on_value, off_value, dtype } = self.parameters;
        with_work!(dtype, W => {
            let [on, off] = [on_value, off_value].map(|value| W::from_number(value.to_number()));
            let (mut row, mut place) = (ctx.scratch::<W>(depth)?, [0i64]);
            let (row, mut reader) = (row.as_mut_slice(), in_data[0].reader::<i64>());
            let mut writer = out_data[0].writer::<W>(req[0]);
            row.fill(off);
            while reader.fill(&mut place) == 1 {
                // A place that there is not has a row without the value.
                let at = usize::try_from(place[0]).ok().filter(|at| *at < depth);
                at.into_iter().for_each(|at| row[at] = on);
                writer.put(row);
                at.into_iter().for_each(|at| row[at] = off);
            }
        });
        Ok(())
    }
}

/// The one.
pub(super) fn all(add: &mut Builtin<'_>) {
    let about = "Rows that have one value at a place, and another one elsewhere";
    add("one_hot", about, Maker::of(|parameters: OneHotParameters| Ok(Box::new(OneHot { parameters }))));
}
