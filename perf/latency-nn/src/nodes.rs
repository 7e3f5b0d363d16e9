//! What an operation on arrays costs beside its kernel: calls of an operator whose kernel is empty,
//! replayed in a captured step, and pushed one by one.
//!
//! Used by `main.rs` for `--nodes`. What is left of a node is what the crate and the engine add.

use crate::entrants;
use seriatim_tensor::operator::{Op, OpContext, Operator, OperatorProperty};
use seriatim_tensor::{Blob, BlobMut, DType, Error, NDArray, OpReq, Runtime, Shape, Step};
use std::hint::black_box;
use std::time::Instant;

/// How many inputs the operations have.
const INPUTS: [usize; 4] = [1, 2, 4, 6];
/// Operations of a short and of a long step. What a step costs by itself is in both.
const LENGTHS: [usize; 2] = [16, 80];
/// Rounds, and calls of each: the figure is the median of the rounds.
const ROUNDS: usize = 41;
const CALLS: usize = 500;

/// An operator of so many inputs, which does nothing.
#[derive(Clone)]
struct Empty(usize);

impl OperatorProperty for Empty {
    fn list_arguments(&self) -> Vec<&'static str> {
        vec!["data"; self.0]
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        out_shape[0] = in_shape[0];
        Ok(true)
    }

    fn create_operator(&self, _: seriatim::Context) -> Result<Box<dyn Operator>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl Operator for Empty {
    fn forward(
        &self,
        _: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        _: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        black_box((in_data.as_ptr(), out_data.as_mut_ptr()));
        Ok(())
    }
}

/// Nanoseconds of one of the calls that `round` makes: the median of the rounds.
fn median(calls: usize, mut round: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        round()?;
        times.push(began.elapsed().as_nanos() as f64 / calls as f64);
    }
    times.sort_unstable_by(f64::total_cmp);
    Ok(times[ROUNDS / 2])
}

/// A node of a step: each operation reads the result of the one before, and other arrays.
fn replayed(op: &Op, inputs: usize, data: &NDArray) -> Result<f64, Error> {
    let mut of_lengths = [0.0; 2];
    let others = (0..inputs).map(|_| data.copy()).collect::<Result<Vec<_>, Error>>()?;
    for (time, length) in of_lengths.iter_mut().zip(LENGTHS) {
        let mut step = Step::capture(&[data], |given| {
            let mut last = given[0].clone();
            for _ in 0..length {
                let mut all: Vec<&NDArray> = others.iter().collect();
                all[0] = &last;
                last = op.invoke(&all)?;
            }
            Ok(last)
        })?;
        let own = step.inputs()[0].clone();
        *time = median(CALLS, || (0..CALLS).try_for_each(|_| step.call(&[&own]).map(|_| ())))?;
    }
    Ok((of_lengths[1] - of_lengths[0]) / (LENGTHS[1] - LENGTHS[0]) as f64)
}

/// An operation that is pushed: with a new array for its result, and into one that is there.
fn pushed(op: &Op, inputs: usize, data: &NDArray) -> Result<[f64; 2], Error> {
    let (arrays, runtime) = ((0..=inputs).map(|_| data.copy()).collect::<Result<Vec<_>, Error>>()?, data.runtime());
    let all: Vec<&NDArray> = arrays[1..].iter().collect();
    let new = median(CALLS, || {
        (0..CALLS).try_for_each(|_| op.invoke(&all).map(|_| ()))?;
        runtime.wait_all()
    })?;
    let into = median(CALLS, || {
        (0..CALLS).try_for_each(|_| op.invoke_into(&all, &[(&arrays[0], OpReq::Write)]))?;
        runtime.wait_all()
    })?;
    Ok([new, into])
}

fn on(runtime: &Runtime, inputs: usize) -> Result<[f64; 3], Error> {
    let op = Op::of_property("empty", Box::new(Empty(inputs)))?;
    let data = runtime.ones([1, 64], DType::F32)?;
    let [new, into] = pushed(&op, inputs, &data)?;
    Ok([replayed(&op, inputs, &data)?, into, new])
}

/// Measures and prints a table.
pub fn print() -> Result<(), Box<dyn std::error::Error>> {
    println!("\n### An operation whose kernel is empty\n");
    println!("| an operation, ns | inputs | replayed | pushed | pushed, with a new array |");
    println!("|---|---:|---:|---:|---:|");
    for (name, is_one_thread) in [("one thread", true), ("default", false)] {
        let runtime = entrants::runtime(is_one_thread)?;
        for inputs in INPUTS {
            let [replayed, into, new] = on(&runtime, inputs)?;
            println!("| {name} | {inputs} | {replayed:.1} | {into:.0} | {new:.0} |");
        }
    }
    Ok(())
}
