//! `Updates`: what all optimisers are made of: an update operator, a clock, and states for each
//! weight.
//!
//! Used by the optimisers beside this file. States are made by the first step, outside of a capture
//! if there is one: they live from step to step.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::ndarray::array::NDArray;
use crate::ndarray::capturing;
use crate::operator::Op;
use crate::optimizer::clock::{Clock, LearningRate, Source};
use crate::request::OpReq;
use smallvec::SmallVec;

/// The most states that a weight has.
const MOST: usize = 2;

#[derive(Debug)]
pub(super) struct Updates {
    name: &'static str,
    /// Of the operator, but for the rate and the scale.
    parameters: Vec<(&'static str, String)>,
    rate: Source,
    /// The operator for the last scale.
    op: Option<(f64, Op)>,
    clock: Option<Clock>,
    states: Vec<SmallVec<[NDArray; MOST]>>,
}

impl Updates {
    /// Checks the parameters by making the operator.
    pub fn new(name: &'static str, rate: LearningRate, parameters: &[(&'static str, f64)]) -> Result<Updates, Error> {
        if let Source::Number(rate) = rate.0 {
            check_rate(rate)?;
        }
        let parameters = parameters.iter().map(|(name, value)| (*name, value.to_string())).collect();
        let mut updates = Updates { name, parameters, rate: rate.0, op: None, clock: None, states: Vec::new() };
        updates.operator(1.0)?;
        Ok(updates)
    }

    /// Sets another parameter of the operator.
    pub fn with(mut self, name: &'static str, value: f64) -> Result<Updates, Error> {
        self.parameters.retain(|(known, _)| *known != name);
        self.parameters.push((name, value.to_string()));
        self.op = None;
        self.operator(1.0)?;
        Ok(self)
    }

    pub fn set_learning_rate(&mut self, value: f64) -> Result<(), Error> {
        check_rate(value)?;
        let Source::Number(rate) = &mut self.rate else {
            let message = "the learning rate comes from a schedule or a parameter: set the parameter, or make the \
                           optimiser with a number";
            return Err(Error::new(ErrorKind::BadParameter, message));
        };
        self.clock.as_ref().map_or(Ok(()), |clock| clock.set_rate(value))?;
        *rate = value;
        Ok(())
    }

    pub fn step(&mut self, weights: &[&NDArray], rescale: f64) -> Result<(), Error> {
        let Some(first) = weights.first() else { return Ok(()) };
        let op = self.operator(rescale)?.clone();
        // Everything is checked before anything is pushed.
        for (number, weight) in weights.iter().enumerate() {
            let grad = weight.grad()?;
            let states = self.states.get(number).into_iter().flatten();
            if let Some(state) = states.chain([&grad]).find(|state| state.shape() != weight.shape()) {
                let message = format!(
                    "weight {number} of a step is {weight:?}, and was one of shape {} in the step before",
                    state.shape()
                );
                return Err(Error::new(ErrorKind::ShapeMismatch, message));
            }
        }
        let clock = match &mut self.clock {
            Some(clock) => clock,
            none => none.insert(Clock::new(first.runtime(), &self.rate)?),
        };
        clock.advance()?;
        for (number, weight) in weights.iter().enumerate() {
            if number == self.states.len() {
                let zeros = |_| capturing::outside(|| weight.runtime().zeros(weight.shape(), weight.dtype()));
                self.states.push((0..op.inner.auxiliary).map(zeros).collect::<Result<_, Error>>()?);
            }
            let grad = weight.grad()?;
            let mut inputs = SmallVec::<[&NDArray; 3 + MOST]>::from_slice(&[weight, &grad, &clock.array]);
            inputs.extend(&self.states[number]);
            op.invoke_into(&inputs, &[(weight, OpReq::Inplace)])?;
        }
        Ok(())
    }

    /// How many steps were done, and the states.
    pub fn states(&self) -> Vec<NDArray> {
        let clock = self.clock.iter().map(|clock| clock.array.clone());
        clock.chain(self.states.iter().flatten().cloned()).collect()
    }

    fn operator(&mut self, rescale: f64) -> Result<&Op, Error> {
        if !self.op.as_ref().is_some_and(|(scale, _)| *scale == rescale) {
            let rescale_text = rescale.to_string();
            let own = [("lr", "clock"), ("rescale_grad", rescale_text.as_str())];
            let given = self.parameters.iter().map(|(name, value)| (*name, value.as_str()));
            let parameters: Vec<(&str, &str)> = given.chain(own).collect();
            self.op = Some((rescale, Op::new(self.name, &parameters)?));
        }
        Ok(self.op.as_ref().map(|(_, op)| op).expect("it was made above"))
    }
}

fn check_rate(rate: f64) -> Result<(), Error> {
    if rate.is_finite() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::BadParameter, format!("learning rate {rate} is no finite number")))
}
