//! The clock of an optimiser: an array with the number of the step and the learning rate, which one
//! operation moves on in each step. The updates read it.
//!
//! Used by `updates.rs`. Both numbers change where the operation runs, and not in the call. So a
//! captured step counts by itself in each replay.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::array::NDArray;
use crate::ndarray::capturing;
use crate::ndarray::parameter::Parameter;
use crate::ndarray::runtime::Runtime;
use crate::operator::{assign_shape, Op, OpContext, Operator, OperatorProperty};
use crate::optimizer::schedule::Schedule;
use crate::shape::Shape;
use crate::{Blob, BlobMut, OpReq};
use seriatim::Context;
use std::sync::Arc;

/// Where the learning rate of a step comes from: a number, a [`Schedule`], or a [`Parameter`].
///
/// A number can be replaced by the optimiser's `set_learning_rate`, for pushed and for captured
/// steps.
///
/// ```
/// use seriatim_tensor::{optimizer::{LearningRate, Schedule}, Runtime};
/// let _ = LearningRate::from(0.1);
/// let _ = LearningRate::from(Schedule::constant(0.1)?);
/// let _ = LearningRate::from(&Runtime::global()?.parameter(0.1f64)?);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LearningRate(pub(super) Source);

#[derive(Clone, Debug)]
pub(super) enum Source {
    Number(f64),
    Schedule(Arc<Schedule>),
    Parameter(Parameter<f64>),
}

impl From<f64> for LearningRate {
    fn from(rate: f64) -> LearningRate {
        LearningRate(Source::Number(rate))
    }
}

impl From<Schedule> for LearningRate {
    fn from(schedule: Schedule) -> LearningRate {
        LearningRate(Source::Schedule(Arc::new(schedule)))
    }
}

impl From<&Parameter<f64>> for LearningRate {
    fn from(parameter: &Parameter<f64>) -> LearningRate {
        LearningRate(Source::Parameter(parameter.clone()))
    }
}

/// The array, and what moves it on.
#[derive(Debug)]
pub(super) struct Clock {
    pub array: NDArray,
    advance: Op,
    /// What the rate is read from, if it is not a schedule.
    rate: Option<Parameter<f64>>,
}

impl Clock {
    /// A clock that stands at 0.
    pub fn new(runtime: &Runtime, source: &Source) -> Result<Clock, Error> {
        let (rate, schedule) = match source {
            Source::Number(rate) => (Some(capturing::outside(|| runtime.parameter(*rate))?), None),
            Source::Parameter(parameter) => (Some(parameter.clone()), None),
            Source::Schedule(schedule) => (None, Some(Arc::clone(schedule))),
        };
        let array = capturing::outside(|| runtime.zeros([2], DType::F64))?;
        let advance = Op::of_property("optimizer_clock", Box::new(Advance { schedule }))?;
        Ok(Clock { array, advance, rate })
    }

    /// Counts one step more, and has its learning rate computed.
    pub fn advance(&self) -> Result<(), Error> {
        match &self.rate {
            Some(rate) => self.advance.invoke_into(&[rate.array(), &self.array], &[]),
            None => self.advance.invoke_into(&[&self.array], &[]),
        }
    }

    pub fn set_rate(&self, value: f64) -> Result<(), Error> {
        self.rate.as_ref().map_or(Ok(()), |rate| rate.set(value))
    }
}

/// The operator that moves a clock on, and its property.
#[derive(Clone)]
struct Advance {
    schedule: Option<Arc<Schedule>>,
}

impl OperatorProperty for Advance {
    fn list_arguments(&self) -> Vec<&'static str> {
        match self.schedule {
            Some(_) => Vec::new(),
            None => vec!["rate"],
        }
    }

    fn list_outputs(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn list_auxiliary_states(&self) -> Vec<&'static str> {
        vec!["clock"]
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
        aux_shape: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        in_shape.iter_mut().try_for_each(|rate| assign_shape("rate", rate, Shape::new(&[])?))?;
        assign_shape("clock", &mut aux_shape[0], Shape::new(&[2])?).map(|()| true)
    }

    fn types(&self) -> &'static [DType] {
        &[DType::F64]
    }

    fn has_gradient(&self) -> bool {
        false
    }

    fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl Operator for Advance {
    fn forward(
        &self,
        _: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        _: &[OpReq],
        _: &mut [BlobMut<'_>],
        aux_states: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let Some([step, rate]) = aux_states[0].as_mut_slice::<f64>() else {
            return Err(Error::new(ErrorKind::WrongArguments, "the clock of an optimiser is not two numbers in a row"));
        };
        *step += 1.0;
        match &self.schedule {
            Some(schedule) => *rate = schedule.at(*step as u64),
            None => _ = in_data[0].reader::<f64>().fill(std::slice::from_mut(rate)),
        }
        Ok(())
    }
}
