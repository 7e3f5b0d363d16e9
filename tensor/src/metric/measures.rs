//! What metrics add up: the operator that reads labels and predictions and changes a sum and a
//! count.
//!
//! Used by `mod.rs` beside this file. Values are added one by one in `f64`, in the order of the
//! elements.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::operator::{assign_shape, OpContext, Operator, OperatorProperty};
use crate::shape::Shape;
use crate::{Blob, BlobMut, OpReq};
use seriatim::Context;

/// How many elements are read at a time, where rows do not count.
const BLOCK: usize = 256;

#[derive(Clone, Copy, Debug)]
pub(super) enum Measure {
    Accuracy,
    TopK(usize),
    CrossEntropy,
    Squares,
    Differences,
    Sum,
}

impl Measure {
    /// Whether labels are numbers of classes.
    fn has_classes(self) -> bool {
        matches!(self, Measure::Accuracy | Measure::TopK(_) | Measure::CrossEntropy)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Property(pub Measure);

impl OperatorProperty for Property {
    fn list_arguments(&self) -> Vec<&'static str> {
        vec!["label", "pred"]
    }

    fn list_outputs(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn list_auxiliary_states(&self) -> Vec<&'static str> {
        vec!["sum_and_count"]
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
        aux_shape: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[1] else { return Ok(false) };
        assign_shape("sum_and_count", &mut aux_shape[0], Shape::new(&[2])?)?;
        match (self.0, shape.dims()) {
            (Measure::Sum, _) => Ok(in_shape[0].is_some()),
            (measure, [rows @ .., _]) if measure.has_classes() => {
                assign_shape("label", &mut in_shape[0], Shape::new(rows)?).map(|()| true)
            }
            (measure, []) if measure.has_classes() => {
                let message = "predictions without axes have no classes: give them along the last axis";
                Err(Error::new(ErrorKind::ShapeMismatch, message))
            }
            _ => assign_shape("label", &mut in_shape[0], shape).map(|()| true),
        }
    }

    fn infer_type(
        &self,
        in_type: &mut [Option<DType>],
        _: &mut [Option<DType>],
        aux_type: &mut [Option<DType>],
    ) -> Result<bool, Error> {
        let wrong = in_type.iter().flatten().find(|dtype| !dtype.is_float());
        if let Some(wrong) = wrong.or(aux_type.iter().flatten().find(|dtype| **dtype != DType::F64)) {
            let message = format!("labels and predictions of a metric are floats, and one is {wrong}: use astype");
            return Err(Error::new(ErrorKind::UnsupportedType, message));
        }
        aux_type.fill(Some(DType::F64));
        Ok(in_type.iter().all(Option::is_some))
    }

    fn has_gradient(&self) -> bool {
        false
    }

    fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
        Ok(Box::new(*self))
    }
}

impl Operator for Property {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        _: &[OpReq],
        _: &mut [BlobMut<'_>],
        aux_states: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let Some([sum, count]) = aux_states[0].as_mut_slice::<f64>() else {
            return Err(Error::new(ErrorKind::WrongArguments, "the state of a metric is not two numbers in a row"));
        };
        let (labels, predictions) = (in_data[0], in_data[1]);
        if self.0.has_classes() {
            let classes = predictions.shape().dims().last().copied().unwrap_or_default();
            let mut row = ctx.scratch::<f64>(classes)?;
            return rows(self.0, (labels, predictions), row.as_mut_slice(), (sum, count));
        }
        let (mut labels, mut predicted) = (labels.reader::<f64>(), predictions.reader::<f64>());
        let [mut label, mut prediction] = [[0.0f64; BLOCK]; 2];
        for first in (0..predictions.size()).step_by(BLOCK) {
            let length = BLOCK.min(predictions.size() - first);
            predicted.fill(&mut prediction[..length]);
            if !matches!(self.0, Measure::Sum) {
                labels.fill(&mut label[..length]);
            }
            for (label, prediction) in label[..length].iter().zip(&prediction[..length]) {
                *sum += match self.0 {
                    Measure::Sum => *prediction,
                    Measure::Differences => (label - prediction).abs(),
                    _ => (label - prediction) * (label - prediction),
                };
            }
            *count += length as f64;
        }
        Ok(())
    }
}

/// Adds a value for each row of predictions.
fn rows(
    measure: Measure,
    (labels, predictions): (Blob<'_>, Blob<'_>),
    row: &mut [f64],
    (sum, count): (&mut f64, &mut f64),
) -> Result<(), Error> {
    let (mut next_label, mut next_row) = (labels.reader::<f64>(), predictions.reader::<f64>());
    for _ in 0..labels.size() {
        let mut label = [0.0];
        next_label.fill(&mut label);
        next_row.fill(row);
        let class = label[0] as usize;
        let (true, Some(own)) = (label[0] >= 0.0, row.get(class).copied()) else { continue };
        let greater = || row.iter().filter(|other| **other > own).count();
        *sum += match measure {
            Measure::CrossEntropy => -(own + 1e-12).ln(),
            Measure::TopK(most) => f64::from(u8::from(greater() < most)),
            _ => f64::from(u8::from(greater() == 0 && !row[..class].contains(&own))),
        };
        *count += 1.0;
    }
    Ok(())
}
