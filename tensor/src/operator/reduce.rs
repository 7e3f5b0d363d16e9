//! Reductions along axes as operators: sums, means, products, extremes and their places, norms.
//! `reduction.rs` does the work.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::fold::Kind;
use crate::operator::map::{copy, map};
use crate::operator::parameters::{Axes, Parameters};
use crate::operator::property::{assign_shape, Given, OpContext, Operator, OperatorProperty, FLOATS, NUMBERS};
use crate::operator::reduction::{reduce_all, Plan};
use crate::operator::registry::Maker;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::Shape;
use seriatim::Context;

/// Of a reduction.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct ReduceParameters {
    /// The axes to reduce, counted from the end if negative.
    #[parameter(default = None)]
    pub axis: Axes,
    /// Whether reduced axes stay, with size 1.
    #[parameter(default = false)]
    pub keepdims: bool,
    /// Whether to reduce all axes but those.
    #[parameter(default = false)]
    pub exclude: bool,
}

/// Of a search for the place of an extreme.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct PlaceParameters {
    /// The one axis to search along; None searches the whole array.
    #[parameter(default = None)]
    pub axis: Axes,
    /// Whether the axis stays, with size 1.
    #[parameter(default = false)]
    pub keepdims: bool,
}

#[derive(Clone)]
struct Reduce {
    kind: Kind,
    parameters: ReduceParameters,
}

impl OperatorProperty for Reduce {
    fn get_params(&self) -> Vec<(&'static str, String)> {
        let ReduceParameters { axis, keepdims, .. } = &self.parameters;
        match self.kind {
            Kind::ArgMax | Kind::ArgMin => PlaceParameters { axis: axis.clone(), keepdims: *keepdims }.params(),
            _ => self.parameters.params(),
        }
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[0] else { return Ok(false) };
        let ReduceParameters { axis, keepdims, exclude } = &self.parameters;
        let plan = Plan::new(axis, *exclude, &shape)?;
        let is_extreme = !matches!(self.kind, Kind::Sum | Kind::Mean | Kind::Prod | Kind::Norm);
        if is_extreme && plan.turned_count(&shape) == 0 {
            let message = format!("nothing is the extreme of no elements, of an array of shape {shape}");
            return Err(Error::new(ErrorKind::ShapeMismatch, message));
        }
        assign_shape("output", &mut out_shape[0], plan.shape(&shape, *keepdims)?).map(|()| true)
    }

    fn types(&self) -> &'static [DType] {
        match self.kind {
            Kind::Mean | Kind::Norm => FLOATS,
            _ => NUMBERS,
        }
    }

    fn has_gradient(&self) -> bool {
        !matches!(self.kind, Kind::ArgMax | Kind::ArgMin)
    }

    fn declare_backward_dependency(&self, out_grad: &[usize], in_data: &[usize], out_data: &[usize]) -> Vec<usize> {
        match self.kind {
            // Of the input only the shape is used, which is that of the gradient.
            Kind::Sum | Kind::Mean => out_grad.to_vec(),
            _ => [out_grad, in_data, out_data].concat(),
        }
    }

    fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl Operator for Reduce {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let plan = Plan::new(&self.parameters.axis, self.parameters.exclude, &in_data[0].shape())?;
        reduce_all(ctx.workers(), self.kind, &plan, &in_data[0], &mut out_data[0], req[0])
    }

    fn backward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        out_grad: Given<'_>,
        in_data: Given<'_>,
        out_data: Given<'_>,
        req: &[OpReq],
        in_grad: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let (out, req) = (&mut in_grad[0], req[0]);
        let shape = out.shape();
        let plan = Plan::new(&self.parameters.axis, self.parameters.exclude, &shape)?;
        let grad = out_grad.get(0)?;
        let spread = plan.spread(grad.layout(), &shape)?;
        let grad = grad.with_layout(&spread);
        match self.kind {
            Kind::Sum => return copy(ctx.workers(), &grad, out, req),
            Kind::Mean => {
                let share = 1.0 / plan.turned_count(&shape) as f64;
                return super::elementwise::unary_map(grad, out, req, |grad| grad * share);
            }
            _ => {}
        }
        let (data, value) = (in_data.get(0)?, out_data.get(0)?);
        let spread = plan.spread(value.layout(), &shape)?;
        let value = value.with_layout(&spread);
        let kind = self.kind;
        map::<f64>(&[grad, data, value], out, req, |x, out| {
            for (at, out) in out.iter_mut().enumerate() {
                let (grad, data, value) = (x[0][at], x[1][at], x[2][at]);
                *out = match kind {
                    Kind::Prod => grad * value / data,
                    Kind::Norm if value == 0.0 => 0.0,
                    Kind::Norm => grad * data / value,
                    _ if data == value => grad,
                    _ => 0.0,
                };
            }
        })
    }
}

/// All of them.
pub(super) fn all(add: &mut Builtin<'_>) {
    let reductions = [
        ("sum", Kind::Sum, "The sum over axes"),
        ("mean", Kind::Mean, "The mean over axes"),
        ("prod", Kind::Prod, "The product over axes"),
        ("max", Kind::Max, "The greatest element over axes"),
        ("min", Kind::Min, "The least element over axes"),
        ("norm", Kind::Norm, "The root of the sum of squares over axes"),
    ];
    for (name, kind, about) in reductions {
        add(name, about, Maker::of(move |parameters: ReduceParameters| Ok(Box::new(Reduce { kind, parameters }))));
    }
    let places = [
        ("argmax", Kind::ArgMax, "The place of the first greatest element along an axis"),
        ("argmin", Kind::ArgMin, "The place of the first least element along an axis"),
    ];
    for (name, kind, about) in places {
        add(
            name,
            about,
            Maker::of(move |PlaceParameters { axis, keepdims }| {
                if axis.0.as_ref().is_some_and(|axes| axes.len() > 1) {
                    let message = format!("axis = {axis:?} has more than one axis to search along");
                    return Err(Error::new(ErrorKind::BadParameter, message));
                }
                Ok(Box::new(Reduce { kind, parameters: ReduceParameters { axis, keepdims, exclude: false } }))
            }),
        );
    }
}
