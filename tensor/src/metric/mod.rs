//! Metrics: how good predictions are, over as many batches as a program likes. Programs call them.
//!
//! An update is an operation that adds to an array of two numbers, a sum and a count. So a program
//! does not wait for each batch, and an update may be part of a captured step. `measures.rs` has
//! what is added.

#![forbid(unsafe_code)]

mod measures;

use crate::dtype::DType;
use crate::error::Error;
use crate::ndarray::array::NDArray;
use crate::ndarray::capturing;
use crate::ndarray::runtime::Runtime;
use crate::operator::Op;
use measures::{Measure, Property};

/// What is measured. A metric is a sum of such values, divided by their count.
///
/// ```
/// use seriatim_tensor::metric::Kind;
/// assert_ne!(Kind::Accuracy, Kind::TopK(5));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// Of each row: whether the greatest prediction is at the label's place. The first of equal
    /// ones counts.
    Accuracy,
    /// Of each row: whether less than so many predictions are greater than that at the label's
    /// place.
    TopK(usize),
    /// Of each element: the square of the difference. Labels have the shape of the predictions.
    MeanSquaredError,
    /// The root of the same.
    RootMeanSquaredError,
    /// Of each element: the absolute difference.
    MeanAbsoluteError,
    /// Of each row: −log (prediction at the label's place + 10⁻¹²), where predictions are
    /// probabilities.
    CrossEntropy,
    /// Of each element: the prediction. Labels are not read.
    Loss,
}

/// A measure of predictions against labels.
///
/// Predictions have their classes along the last axis. Labels are numbers of classes, one for each
/// row, of the type of the predictions; a label that is no class is left out.
///
/// ```
/// use seriatim_tensor::{metric::{Kind, Metric}, NDArray, Runtime};
/// let accuracy = Metric::new(Runtime::global()?, Kind::Accuracy)?;
/// let predictions = NDArray::from_slice(&[0.1f32, 0.9, 0.8, 0.2, 0.3, 0.7], [3, 2])?;
/// let labels = NDArray::from_slice(&[1.0f32, 0.0, 0.0], [3])?;
/// accuracy.update(&labels, &predictions)?;
/// assert_eq!(accuracy.get()?, 2.0 / 3.0);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[derive(Debug)]
pub struct Metric {
    kind: Kind,
    op: Op,
    /// The sum and the count.
    state: NDArray,
}

impl Metric {
    /// A metric that has seen nothing, for arrays of a runtime.
    ///
    /// # Errors
    /// Those of a push.
    ///
    /// ```
    /// use seriatim_tensor::{metric::{Kind, Metric}, Runtime};
    /// assert!(Metric::new(Runtime::global()?, Kind::TopK(5))?.get()?.is_nan());
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn new(runtime: &Runtime, kind: Kind) -> Result<Metric, Error> {
        let measure = match kind {
            Kind::Accuracy => Measure::Accuracy,
            Kind::TopK(most) => Measure::TopK(most),
            Kind::MeanSquaredError | Kind::RootMeanSquaredError => Measure::Squares,
            Kind::MeanAbsoluteError => Measure::Differences,
            Kind::CrossEntropy => Measure::CrossEntropy,
            Kind::Loss => Measure::Sum,
        };
        let op = Op::of_property("metric", Box::new(Property(measure)))?;
        let state = capturing::outside(|| runtime.zeros([2], DType::F64))?;
        Ok(Metric { kind, op, state })
    }

    /// Adds a batch. Does not wait.
    ///
    /// # Errors
    /// [`ShapeMismatch`](crate::ErrorKind::ShapeMismatch),
    /// [`UnsupportedType`](crate::ErrorKind::UnsupportedType) if labels and predictions do not go
    /// together; [`Recording`](crate::ErrorKind::Recording) inside of
    /// [`record`](crate::autograd::record), if gradients of the predictions are recorded; those of
    /// a push.
    ///
    /// ```
    /// use seriatim_tensor::{metric::{Kind, Metric}, NDArray, Runtime};
    /// let loss = Metric::new(Runtime::global()?, Kind::Loss)?;
    /// let values = NDArray::from_slice(&[1.0f32, 2.0], [2])?;
    /// loss.update(&values, &values)?;
    /// assert_eq!(loss.get()?, 1.5);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn update(&self, labels: &NDArray, predictions: &NDArray) -> Result<(), Error> {
        self.op.invoke_into(&[labels, predictions, &self.state], &[])
    }

    /// Waits for all updates, and returns the metric; not a number if nothing was counted.
    ///
    /// # Errors
    /// Those of a wait.
    ///
    /// ```
    /// use seriatim_tensor::{metric::{Kind, Metric}, Runtime};
    /// assert!(Metric::new(Runtime::global()?, Kind::Accuracy)?.get()?.is_nan());
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn get(&self) -> Result<f64, Error> {
        let mut state = [0.0f64; 2];
        self.state.copy_to_slice(&mut state)?;
        let mean = state[0] / state[1];
        Ok(if self.kind == Kind::RootMeanSquaredError { mean.sqrt() } else { mean })
    }

    /// Begins anew, for the updates from now on.
    ///
    /// # Errors
    /// Those of a push.
    ///
    /// ```
    /// use seriatim_tensor::{metric::{Kind, Metric}, Runtime};
    /// Metric::new(Runtime::global()?, Kind::Accuracy)?.reset()?;
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn reset(&self) -> Result<(), Error> {
        self.state.fill(0.0f64)
    }
}
