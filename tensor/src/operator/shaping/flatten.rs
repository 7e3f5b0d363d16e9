//! `Flatten` and `Reshape`: the same elements in the same order, in another shape.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::map::copy_in_order;
use crate::operator::parameters::{Axes, Parameters};
use crate::operator::property::{assign_shape, Given, OpContext, Operator, OperatorProperty};
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::{Shape, MAX_RANK};
use seriatim::Context;
use smallvec::SmallVec;

/// Of `Reshape`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct ReshapeParameters {
    /// The new sizes; 0 keeps that of the axis, and -1 stands for what is left.
    pub shape: Axes,
}

#[derive(Clone, Debug)]
enum Ordered {
    Flatten,
    Reshape(ReshapeParameters),
}

impl Ordered {
    fn shape(&self, of: &Shape) -> Result<Shape, Error> {
        let dims = of.dims();
        let Ordered::Reshape(parameters) = self else {
            let Some((first, others)) = dims.split_first() else {
                return Err(Error::new(ErrorKind::ShapeMismatch, "'data' has no axis, and one of rows is needed"));
            };
            return Shape::new(&[*first, others.iter().product()]);
        };
        let wrong = || {
            let message = format!("an array of shape {of} has no shape {}", self.text());
            Error::new(ErrorKind::ShapeMismatch, message)
        };
        let (mut sizes, mut left) = (SmallVec::<[usize; MAX_RANK]>::new(), None);
        for (axis, size) in parameters.shape.0.iter().flatten().enumerate() {
            sizes.push(match size {
                0 => *dims.get(axis).ok_or_else(wrong)?,
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

    fn text(&self) -> String {
        self.get_params().into_iter().map(|(_, text)| text).collect()
    }
}

impl OperatorProperty for Ordered {
    fn get_params(&self) -> Vec<(&'static str, String)> {
        match self {
            Ordered::Flatten => Vec::new(),
            Ordered::Reshape(parameters) => parameters.params(),
        }
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[0] else { return Ok(false) };
        assign_shape("output", &mut out_shape[0], self.shape(&shape)?).map(|()| true)
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

impl Operator for Ordered {
    fn forward(
        &self,
        _: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        copy_in_order(&in_data[0], &mut out_data[0], req[0])
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
        copy_in_order(&out_grad.get(0)?, &mut in_grad[0], req[0])
    }
}

/// All of them.
pub(super) fn all(add: &mut Builtin<'_>) {
    add(
        "Flatten",
        "All axes but the first as one",
        Box::new(|given| {
            crate::operator::check_names(&[], given)?;
            Ok(Box::new(Ordered::Flatten))
        }),
    );
    for name in ["Reshape", "reshape"] {
        let about = "The same elements in another shape";
        add(name, about, Box::new(|given| Ok(Box::new(Ordered::Reshape(ReshapeParameters::init(given)?)))));
    }
}
