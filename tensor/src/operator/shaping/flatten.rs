//! `Flatten` and `Reshape`: the same elements in the same order, in another shape.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::element_copy::{make, Copying};
use crate::operator::map::copy_in_order;
use crate::operator::parameters::{Axes, ParameterType, Parameters};
use crate::operator::parts::Workers;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::{Shape, MAX_RANK};
use smallvec::SmallVec;

/// `Flatten` has none.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct FlattenParameters {}

/// Of `Reshape`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct ReshapeParameters {
    /// The new sizes; 0 keeps that of the axis, and -1 stands for what is left.
    pub shape: Axes,
}

impl FlattenParameters {
    fn shape(&self, of: &Shape) -> Result<Shape, Error> {
        let Some((first, others)) = of.dims().split_first() else {
            return Err(Error::new(ErrorKind::ShapeMismatch, "'data' has no axis, and one of rows is needed"));
        };
        Shape::new(&[*first, others.iter().product()])
    }
}

impl ReshapeParameters {
    fn shape(&self, of: &Shape) -> Result<Shape, Error> {
        let wrong = || {
            let message = format!("an array of shape {of} has no shape {}", self.shape.show());
            Error::new(ErrorKind::ShapeMismatch, message)
        };
        let (mut sizes, mut left) = (SmallVec::<[usize; MAX_RANK]>::new(), None);
        for (axis, size) in self.shape.0.iter().flatten().enumerate() {
            sizes.push(match size {
                0 => *of.dims().get(axis).ok_or_else(wrong)?,
                -1 if left.is_none() => {
                    left = Some(axis);
                    1
                }
                size => usize::try_from(*size).map_err(|_| wrong())?,
            });
        }
        if let Some(axis) = left {
            sizes[axis] = of.size().checked_div(Shape::new(&sizes)?.size()).ok_or_else(wrong)?;
        }
        let shape = Shape::new(&sizes)?;
        if shape.size() == of.size() {
            Ok(shape)
        } else {
            Err(wrong())
        }
    }
}

macro_rules! in_order {
    ($($parameters:ident),*) => {$(
        impl Copying for $parameters {
            fn out_shape(&self, of: &Shape) -> Result<Shape, Error> {
                self.shape(of)
            }

            fn forward(&self, _: Workers<'_>, data: &Blob<'_>, out: &mut BlobMut<'_>, req: OpReq) -> Result<(), Error> {
                copy_in_order(data, out, req)
            }

            fn backward(&self, _: Workers<'_>, grad: &Blob<'_>, in_grad: &mut BlobMut<'_>, req: OpReq) -> Result<(), Error> {
                copy_in_order(grad, in_grad, req)
            }
        }
    )*};
}

in_order!(FlattenParameters, ReshapeParameters);

/// All of them.
pub(super) fn all(add: &mut Builtin<'_>) {
    add("Flatten", "All axes but the first as one", make::<FlattenParameters>());
    for name in ["Reshape", "reshape"] {
        add(name, "The same elements in another shape", make::<ReshapeParameters>());
    }
}
