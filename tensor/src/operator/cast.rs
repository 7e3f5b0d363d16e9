//! `Cast`: the values of an array in another type.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::Error;
use crate::operator::copied::{make, Copying};
use crate::operator::parameters::Parameters;
use crate::operator::Builtin;
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
}

/// The one.
pub(super) fn all(add: &mut Builtin<'_>) {
    add("Cast", "The same values in another type", Box::new(make::<CastParameters>));
}
