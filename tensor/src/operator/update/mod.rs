//! Updates: one operator for a step of each optimiser, which changes a weight and the optimiser's
//! states by the gradient, in place and in one walk over the elements.
//!
//! `src/optimizer/` calls them. This file has the walk, `rules.rs` what becomes of an element, and
//! `parameters.rs` what it goes by.
//!
//! **The learning rate** is a parameter, or `lr = "clock"`: then the operator has one more argument
//! `clock`, an array of two `f64`: the number of the step, counted from 1, and the learning rate.
//! Both are read when the operation runs. So a captured step sees new values in each replay.

#![forbid(unsafe_code)]

mod parameters;
mod rules;

use crate::dtype::{DType, Element};
use crate::error::{Error, ErrorKind};
use crate::kernel::simd::{self, Loops};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::map::{in_parts, with_float};
use crate::operator::parameters::{ParameterType, Parameters};
use crate::operator::parts::{self, Workers, ELEMENTS};
use crate::operator::property::{assign_shape, OpContext, Operator, OperatorProperty, Scratch};
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::Shape;
use num_traits::Float;
use parameters::UpdateParameters;
use seriatim::Context;
use smallvec::SmallVec;
use std::cell::Cell;

/// How many elements are computed at a time.
const BLOCK: usize = 256;

/// A learning rate as a parameter; without a value it is in the argument `clock`.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
struct Rate(Option<f64>);

impl ParameterType for Rate {
    fn kind() -> String {
        "a number, or clock: it is in the last argument then".into()
    }

    fn parse(text: &str) -> Option<Rate> {
        match text.trim() {
            "clock" => Some(Rate(None)),
            number => number.parse().ok().map(|rate| Rate(Some(rate))),
        }
    }

    fn show(&self) -> String {
        self.0.map_or("clock".into(), |rate| rate.to_string())
    }
}

/// When a step is done.
#[derive(Clone, Copy)]
struct Moment {
    rate: f64,
    /// The number of the step, from 1 on, if the operator is told of it.
    step: Option<f64>,
}

/// What a step does to an element that has `S` states.
trait Rule<const S: usize>: 'static {
    type Parameters: UpdateParameters;

    /// The names of the states.
    const STATES: [&'static str; S];

    /// Whether it divides by the learning rate, so that none may be 0.
    const DIVIDES: bool = false;

    /// The next weight and states, of the weight, the gradient and the states.
    fn element<W: Element + Float>(
        by: &Self::Parameters,
        at: Moment,
    ) -> impl Fn(W, W, [W; S]) -> (W, [W; S]) + Copy + Sync;
}

/// The operator of a rule, and its property.
struct Update<R: Rule<S>, const S: usize>(R::Parameters);

impl<R: Rule<S>, const S: usize> OperatorProperty for Update<R, S> {
    fn get_params(&self) -> Vec<(&'static str, String)> {
        self.0.params()
    }

    fn list_arguments(&self) -> Vec<&'static str> {
        match self.0.rate() {
            Rate(Some(_)) => vec!["weight", "grad"],
            Rate(None) => vec!["weight", "grad", "clock"],
        }
    }

    fn list_auxiliary_states(&self) -> Vec<&'static str> {
        R::STATES.into()
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        aux_shape: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[0].or(in_shape[1]).or(out_shape[0]) else { return Ok(false) };
        assign_shape("weight", &mut in_shape[0], shape)?;
        assign_shape("grad", &mut in_shape[1], shape)?;
        in_shape[2..].iter_mut().try_for_each(|clock| assign_shape("clock", clock, Shape::new(&[2])?))?;
        aux_shape.iter_mut().zip(R::STATES).try_for_each(|(aux, name)| assign_shape(name, aux, shape))?;
        assign_shape("output", &mut out_shape[0], shape).map(|()| true)
    }

    fn infer_type(
        &self,
        in_type: &mut [Option<DType>],
        out_type: &mut [Option<DType>],
        aux_type: &mut [Option<DType>],
    ) -> Result<bool, Error> {
        let (arrays, clock) = in_type.split_at_mut(2);
        let all = || arrays.iter().chain(&*out_type).chain(&*aux_type).flatten().copied();
        let Some(first) = all().next() else { return Ok(false) };
        if let Some(other) = all().find(|other| *other != first) {
            let message = format!("{first} and {other} in one update: convert one");
            return Err(Error::new(ErrorKind::UnsupportedType, message));
        }
        if let Some(other) = clock.iter().flatten().find(|other| **other != DType::F64) {
            let message = format!("'clock' is {other} where float64 belongs");
            return Err(Error::new(ErrorKind::UnsupportedType, message));
        }
        clock.fill(Some(DType::F64));
        arrays.iter_mut().chain(out_type).chain(aux_type).for_each(|dtype| *dtype = Some(first));
        Ok(true)
    }

    fn has_gradient(&self) -> bool {
        false
    }

    fn forward_inplace_option(&self, _: &[usize], _: &[usize]) -> Vec<(usize, usize)> {
        vec![(0, 0)]
    }

    fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
        Ok(Box::new(Update::<R, S>(self.0.clone())))
    }
}

impl<R: Rule<S>, const S: usize> Operator for Update<R, S> {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        aux_states: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let at = match (self.0.rate(), in_data.get(2)) {
            (Rate(Some(rate)), _) => Moment { rate, step: None },
            (Rate(None), clock) => {
                let mut values = [0.0; 2];
                match clock.and_then(Blob::as_slice::<f64>) {
                    Some([step, rate]) => values = [*step, *rate],
                    _ => clock.iter().for_each(|clock| _ = clock.reader::<f64>().fill(&mut values)),
                }
                Moment { rate: values[1], step: Some(values[0]) }
            }
        };
        check_rate(R::DIVIDES, at.rate)?;
        let (data, out) = ([in_data[0], in_data[1]], &mut out_data[0]);
        let workers = ctx.workers();
        with_float!(in_data[0].dtype(), W => {
            let element = R::element::<W>(&self.0, at);
            if parts::count(data[0].size(), ELEMENTS) == 1 {
                return walk(workers, data, (out, req[0]), aux_states, element);
            }
            let mut outs = SmallVec::<[BlobMut<'_>; 3]>::new();
            outs.push(out.again());
            outs.extend(aux_states.iter_mut().map(BlobMut::again));
            in_parts(workers, &data, &mut outs, |data, outs| {
                let [out, states @ ..] = outs else { return Ok(()) };
                walk(workers, [data[0], data[1]], (out, req[0]), states, element)
            })
        })
    }
}

/// Refuses a rate of 0 by which a rule divides: weights and states would be no numbers from then
/// on.
fn check_rate(divides: bool, rate: f64) -> Result<(), Error> {
    if divides && rate == 0.0 {
        let message = "the learning rate is 0, and the update divides by it: give another one, or leave the step out";
        return Err(Error::new(ErrorKind::BadParameter, message));
    }
    Ok(())
}

/// Changes all elements by `element`, which comes as a value: the loops have its numbers in
/// registers then, and not in memory that the elements might lie in. Those of the weight may be in
/// the same memory as those of `out`: each block is read before it is written.
fn walk<W: Element + Float, const S: usize>(
    workers: Workers<'_>,
    [weight, grad]: [Blob<'_>; 2],
    (out, req): (&mut BlobMut<'_>, OpReq),
    states: &mut [BlobMut<'_>],
    element: impl Fn(W, W, [W; S]) -> (W, [W; S]),
) -> Result<(), Error> {
    let size = weight.size();
    let in_place = if req.overwrites() { out.as_cells::<W>(&weight) } else { None };
    if let (Some(weights), Some(grads)) = (in_place, grad.as_slice::<W>()) {
        let mut rest = states.iter_mut();
        let own: [Option<&mut [W]>; S] = std::array::from_fn(|_| rest.next()?.as_mut_slice());
        if own.iter().all(Option::is_some) {
            let states = own.map(|slice| &mut slice.unwrap_or_default()[..size]);
            simd::run(InPlace { weights, grads, states, element });
            return Ok(());
        }
    }
    // States that are no slices of this type are copied, and written back.
    let mut copies = SmallVec::<[Option<Scratch<W>>; 2]>::new();
    for state in states.iter_mut() {
        let mut copy = None;
        if state.as_mut_slice::<W>().is_none() {
            let copy = copy.insert(workers.scratch::<W>(size)?);
            state.as_blob().reader().fill(copy.as_mut_slice());
        }
        copies.push(copy);
    }
    let mut slices = SmallVec::<[&mut [W]; 2]>::new();
    for (state, copy) in states.iter_mut().zip(&mut copies) {
        let own = match copy {
            Some(copy) => Some(copy.as_mut_slice()),
            None => state.as_mut_slice::<W>(),
        };
        slices.push(own.unwrap_or_default());
    }
    let (mut weights, mut grads) = (weight.reader::<W>(), grad.reader::<W>());
    let mut writer = out.writer::<W>(req);
    let [mut w, mut g] = [[W::default(); BLOCK]; 2];
    for first in (0..size).step_by(BLOCK) {
        let count = BLOCK.min(size - first);
        let (w, g) = (&mut w[..count], &mut g[..count]);
        weights.fill(w);
        grads.fill(g);
        let mut rest = slices.iter_mut();
        let mut parts: [&mut [W]; S] =
            std::array::from_fn(|_| rest.next().map(|slice| &mut slice[first..first + count]).unwrap_or_default());
        for (at, (w, g)) in w.iter_mut().zip(&*g).enumerate() {
            let (weight, next) = element(*w, *g, std::array::from_fn(|state| parts[state][at]));
            *w = weight;
            parts.iter_mut().zip(next).for_each(|(part, next)| part[at] = settled(next));
        }
        writer.put(w);
    }
    drop(slices);
    write_back(states, &mut copies)
}

/// A state without numbers that are too small to be normal, with which processors are slow. The
/// momentum of a weight that gets no gradient any more would come to them and stay there.
#[inline(always)]
fn settled<W: Float>(state: W) -> W {
    if state.abs() < W::min_positive_value() {
        W::zero()
    } else {
        state
    }
}

/// An update of elements that lie in slices.
struct InPlace<'a, W, const S: usize, F> {
    weights: &'a [Cell<W>],
    grads: &'a [W],
    states: [&'a mut [W]; S],
    element: F,
}

impl<W: Element + Float, const S: usize, F: Fn(W, W, [W; S]) -> (W, [W; S])> Loops for InPlace<'_, W, S, F> {
    /// One loop over slices for each number of states: so the compiler makes vectors of it.
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        const { assert!(S <= 2, "a rule with more states needs a loop below") };
        let InPlace { weights, grads, mut states, element } = self;
        let all = weights.iter().zip(grads);
        match &mut states[..] {
            [] => {
                for (weight, grad) in all {
                    weight.set(element(weight.get(), *grad, [W::zero(); S]).0);
                }
            }
            [one] => {
                for ((weight, grad), one) in all.zip(one.iter_mut()) {
                    let (value, next) = element(weight.get(), *grad, [*one; S]);
                    weight.set(value);
                    *one = settled(next[0]);
                }
            }
            [one, two] => {
                for (((weight, grad), one), two) in all.zip(one.iter_mut()).zip(two.iter_mut()) {
                    let mut of = [*one; S];
                    of[1] = *two;
                    let (value, next) = element(weight.get(), *grad, of);
                    weight.set(value);
                    (*one, *two) = (settled(next[0]), settled(next[1]));
                }
            }
            _ => unreachable!("there are at most two"),
        }
    }
}

fn write_back<W: Element>(states: &mut [BlobMut<'_>], copies: &mut [Option<Scratch<W>>]) -> Result<(), Error> {
    for (state, copy) in states.iter_mut().zip(copies) {
        copy.iter_mut().for_each(|copy| state.writer(OpReq::Write).put(copy.as_mut_slice()));
    }
    Ok(())
}

/// All of them.
pub(super) fn all(add: &mut Builtin<'_>) {
    rules::all(add);
}
