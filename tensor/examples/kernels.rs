//! How long kernels take on arrays of a million floats: medians of fifteen calls, in microseconds,
//! one kernel a line. `perf/latency-nn/entrants/kernels.py` does the same with PyTorch.
//!
//!     cargo run --release -p seriatim-tensor --example kernels -- one
//!     … -- default
//!
//! With `one` all runs on the calling thread.

use seriatim::{Engine, Kind};
use seriatim_tensor::{autograd, DType, Distribution, Error, NDArray, Runtime};
use std::time::Instant;

const SIDE: usize = 1024;
const CALLS: usize = 15;

fn median(name: &str, call: impl Fn() -> Result<NDArray, Error>) -> Result<(), Error> {
    let mut times = [0.0; CALLS];
    for round in 0..CALLS + 3 {
        let begin = Instant::now();
        call()?.wait_to_read()?;
        // The first three do not count.
        times[round.saturating_sub(3)] = begin.elapsed().as_secs_f64() * 1e6;
    }
    times.sort_by(f64::total_cmp);
    println!("{name}\t{:.1}", times[CALLS / 2]);
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = match std::env::args().nth(1).as_deref() {
        Some("one") => Engine::builder().kind(Kind::Naive).build()?,
        Some("default") => Engine::new()?,
        other => return Err(format!("there are `one` and `default`, and not {other:?}").into()),
    };
    let runtime = Runtime::new(&engine);
    let values: Vec<f32> = (0..SIDE * SIDE).map(|at| (at * 7919 % 1000) as f32 / 500.0 - 1.0).collect();
    let of = |shape: &[usize]| runtime.from_slice(&values[..shape.iter().product()], shape);
    let (x, y, sum) = (of(&[SIDE, SIDE])?, of(&[SIDE, SIDE])?, of(&[SIDE, SIDE])?);
    let (row, column, small, images) = (of(&[SIDE])?, of(&[SIDE, 1])?, of(&[256, 256])?, of(&[16, 16, 32, 32])?);
    let places: Vec<i64> = (0..SIDE as i64).map(|at| at * 37 % SIDE as i64).collect();
    let places = runtime.from_slice(&places, [SIDE])?;
    let shape = [SIDE, SIDE];

    median("add", || x.add(&y))?;
    median("add in place", || sum.add_assign(&y).map(|()| sum.clone()))?;
    median("add a row", || x.add(&row))?;
    median("add a column", || x.add(&column))?;
    median("multiply by a number", || x.mul_scalar(1.5))?;
    median("exp", || x.exp())?;
    median("log of abs", || x.abs()?.log())?;
    median("tanh", || x.tanh())?;
    median("sigmoid", || x.sigmoid())?;
    median("relu", || x.relu())?;
    median("gelu", || x.gelu())?;
    median("greater", || x.greater(&y))?;
    median("where", || x.greater_scalar(0.0)?.choose(&x, &y))?;
    median("sum of all", || x.sum())?;
    median("sum over axis 0", || x.sum_axes(&[0], false))?;
    median("sum over axis 1", || x.sum_axes(&[1], false))?;
    median("max over axis 1", || x.max_axes(&[1], false))?;
    median("softmax", || x.softmax())?;
    median("log softmax", || x.log_softmax())?;
    median("layer norm", || x.layer_norm(&row, &row))?;
    median("transpose, copied", || x.transpose()?.copy())?;
    median("transpose, added", || x.transpose()?.add(&y))?;
    median("columns, copied", || x.slice(1, 100, 900, 1)?.copy())?;
    median("take rows", || x.take(&places, 0))?;
    median("concat", || NDArray::concat(&[&x, &y], 1))?;
    median("to f64", || x.astype(DType::F64))?;
    median("to f16", || x.astype(DType::F16))?;
    median("sort rows", || x.sort(-1, true))?;
    median("topk of 8", || x.topk(8, -1).map(|(values, _)| values))?;
    median("one hot", || places.one_hot(SIDE, DType::F32))?;
    median("dot, 256", || small.dot(&small))?;
    median("dot, 1024", || x.dot(&y))?;
    median("dot, transposed", || x.dot(&y.transpose()?))?;
    median("dropout", || autograd::record(|| x.dropout(0.5)))?;
    median("max pool", || images.max_pool(&[2, 2], &[2, 2], &[0, 0]))?;
    median("normal", || runtime.random(shape, DType::F32, Distribution::Normal { mean: 0.0, deviation: 1.0 }))?;
    median("uniform", || runtime.random(shape, DType::F32, Distribution::Uniform { low: 0.0, high: 1.0 }))?;
    Ok(())
}
