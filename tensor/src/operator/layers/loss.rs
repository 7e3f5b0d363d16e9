//! Outputs whose gradients are not those of their values: `MakeLoss`, and the regressions
//! `LinearRegressionOutput`, `LogisticRegressionOutput` and `MAERegressionOutput`.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::kernel::unary::sigmoid;
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::map::{copy, map, map_in_parts, with_float, zero};
use crate::operator::parameters::Parameters;
use crate::operator::property::{assign_shape, by_parameters, Given, OpContext, Operator, OperatorProperty};
use crate::operator::registry::Maker;
use crate::operator::softmax::Normalization;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::{Layout, Shape};

/// Of `MakeLoss`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct LossParameters {
    /// The gradient by each element.
    #[parameter(default = 1)]
    pub grad_scale: f64,
    /// Elements above it count as valid ones.
    #[parameter(default = 0)]
    pub valid_thresh: f64,
    /// Whether the gradient is divided by the first axis's size, or by the number of valid
    /// elements.
    #[parameter(default = "null")]
    pub normalization: Normalization,
}

/// Of a regression.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct RegressionParameters {
    /// What the gradient is multiplied by.
    #[parameter(default = 1)]
    pub grad_scale: f64,
}

#[derive(Clone, Debug)]
struct MakeLoss {
    parameters: LossParameters,
}

impl OperatorProperty for MakeLoss {
    by_parameters!();

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

    fn declare_backward_dependency(&self, _: &[usize], in_data: &[usize], _: &[usize]) -> Vec<usize> {
        match self.parameters.normalization {
            Normalization::Valid => in_data.to_vec(),
            _ => Vec::new(),
        }
    }

    fn forward_inplace_option(&self, _: &[usize], _: &[usize]) -> Vec<(usize, usize)> {
        vec![(0, 0)]
    }
}

impl Operator for MakeLoss {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        copy(ctx.workers(), &in_data[0], &mut out_data[0], req[0])
    }

    fn backward(
        &self,
        _: &mut OpContext<'_, '_>,
        _: Given<'_>,
        in_data: Given<'_>,
        _: Given<'_>,
        req: &[OpReq],
        in_grad: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let LossParameters { grad_scale, valid_thresh, normalization } = self.parameters;
        let divisor = match normalization {
            Normalization::Null => 1,
            Normalization::Batch => in_grad[0].shape().dims().first().copied().unwrap_or(1),
            Normalization::Valid => {
                let (data, mut one, mut valid) = (in_data.get(0)?, [0.0f64], 0);
                let mut reader = data.reader::<f64>();
                while reader.fill(&mut one) == 1 {
                    valid += usize::from(one[0] > valid_thresh);
                }
                valid.max(1)
            }
        };
        map::<f64>(&[], &mut in_grad[0], req[0], |_, out| out.fill(grad_scale / divisor as f64))
    }
}

/// What a regression makes of the data, and of the difference to the label.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Linear,
    Logistic,
    Absolute,
}

#[derive(Clone, Debug)]
struct Regression {
    kind: Kind,
    parameters: RegressionParameters,
}

impl OperatorProperty for Regression {
    by_parameters!();

    fn list_arguments(&self) -> Vec<&'static str> {
        vec!["data", "label"]
    }

    /// A label may have another shape than the data, if it has as many elements for each row.
    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[0].or(out_shape[0]) else { return Ok(false) };
        assign_shape("data", &mut in_shape[0], shape)?;
        let label = match shape.dims() {
            [rows, 1] => Shape::new(&[*rows])?,
            _ => shape,
        };
        let label = *in_shape[1].get_or_insert(label);
        if label.size() != shape.size() || label.dims().first() != shape.dims().first() {
            let message = format!("'label' has shape {label}, and 'data' {shape}: each row needs as many elements");
            return Err(Error::new(ErrorKind::ShapeMismatch, message));
        }
        assign_shape("output", &mut out_shape[0], shape).map(|()| true)
    }

    fn declare_backward_dependency(&self, _: &[usize], in_data: &[usize], out_data: &[usize]) -> Vec<usize> {
        [&in_data[1..], out_data].concat()
    }

    fn forward_inplace_option(&self, _: &[usize], _: &[usize]) -> Vec<(usize, usize)> {
        vec![(0, 0)]
    }
}

impl Operator for Regression {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        if self.kind != Kind::Logistic {
            return copy(ctx.workers(), &in_data[0], &mut out_data[0], req[0]);
        }
        with_float!(in_data[0].dtype(), W => {
            map_in_parts::<W>(ctx.workers(), &in_data[..1], &mut out_data[0], req[0], |x, out| sigmoid(x[0], out))
        })
    }

    fn backward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        _: Given<'_>,
        in_data: Given<'_>,
        out_data: Given<'_>,
        req: &[OpReq],
        in_grad: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        // A label has no gradient.
        zero(&mut in_grad[1], req[1])?;
        if req[0].is_null() {
            return Ok(());
        }
        let (label, value) = (in_data.get(1)?, out_data.get(0)?);
        let rows = value.shape().dims().first().copied().unwrap_or(1);
        let scale = self.parameters.grad_scale / value.size().checked_div(rows).unwrap_or(1).max(1) as f64;
        with_float!(value.dtype(), W => {
            // The label in the shape of the data.
            let mut labels = ctx.scratch::<W>(value.size())?;
            label.reader::<W>().fill(labels.as_mut_slice());
            let layout = Layout::contiguous(value.shape());
            let label = Blob::of_slice(labels.as_mut_slice(), &layout);
            let (kind, scale) = (self.kind, scale as W);
            map::<W>(&[value, label], &mut in_grad[0], req[0], |x, out| {
                for ((out, value), label) in out.iter_mut().zip(x[0]).zip(x[1]) {
                    let difference = value - label;
                    *out = scale * match kind {
                        Kind::Absolute if difference > 0.0 => 1.0,
                        Kind::Absolute if difference < 0.0 => -1.0,
                        _ => difference,
                    };
                }
            })
        })
    }
}

/// All of them.
pub(super) fn all(add: &mut Builtin<'_>) {
    for name in ["MakeLoss", "make_loss"] {
        let about = "The same elements, whose gradient is a number";
        add(name, about, Maker::of(|parameters: LossParameters| Ok(Box::new(MakeLoss { parameters }))));
    }
    for (name, kind, about) in [
        ("LinearRegressionOutput", Kind::Linear, "The data, with the gradient of half the squared distance to a label"),
        (
            "LogisticRegressionOutput",
            Kind::Logistic,
            "The sigmoid, with the gradient of the cross entropy with a label",
        ),
        ("MAERegressionOutput", Kind::Absolute, "The data, with the gradient of the absolute distance to a label"),
    ] {
        add(name, about, Maker::of(move |parameters| Ok(Box::new(Regression { kind, parameters }))));
    }
}
