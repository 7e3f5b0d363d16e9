//! Random programs on arrays of several contexts, against vectors of the host.

use crate::common::Draws;
use seriatim::{Context, Device};
use seriatim_tensor::{DType, ErrorKind, NDArray, Runtime};

const ARRAYS: usize = 6;

/// An array and what is in it.
struct Pair {
    array: NDArray,
    values: Vec<i32>,
}

fn transposed(values: &[i32], side: usize) -> Vec<i32> {
    (0..side * side).map(|at| values[at % side * side + at / side]).collect()
}

/// A program of so many steps; says what differs.
pub fn program(runtime: &Runtime, contexts: &[Context], seed: u64, steps: usize) -> Result<(), String> {
    let mut draws = Draws::new(seed);
    // The last has more elements than an operation may have that is declared short.
    let side = [1, 3, 8, 70][draws.below(4)];
    let shape = [side, side];
    let said = |error: seriatim_tensor::Error| format!("seed {seed}: {error}");
    let fresh = |draws: &mut Draws| (0..side * side).map(|_| draws.below(1000) as i32).collect::<Vec<i32>>();
    let mut pairs = Vec::new();
    for at in 0..ARRAYS {
        let (values, context) = (fresh(&mut draws), contexts[at % contexts.len()]);
        pairs.push(Pair { array: runtime.from_slice_in(&values, shape, context).map_err(said)?, values });
    }
    for _ in 0..steps {
        let (from, to) = (draws.below(ARRAYS), draws.below(ARRAYS));
        let (source, values) = (pairs[from].array.clone(), pairs[from].values.clone());
        let is_on_device = pairs[to].array.context().device() == Device::Gpu;
        match draws.below(8) {
            0 | 1 if from != to => {
                let (turns, lands) = (draws.below(3) == 0, draws.below(3) == 0);
                let source = if turns { source.transpose().map_err(said)? } else { source };
                let target = pairs[to].array.clone();
                let target = if lands { target.transpose().map_err(said)? } else { target };
                source.copy_to(&target).map_err(said)?;
                pairs[to].values = if turns == lands { values } else { transposed(&values, side) };
            }
            2 => {
                pairs[to].values = fresh(&mut draws);
                pairs[to].array.copy_from_slice(&pairs[to].values).map_err(said)?;
            }
            3 if is_on_device => {
                let refused = pairs[to].array.mul_scalar_assign(2.0).err().map(|error| error.kind());
                if refused != Some(ErrorKind::UnsupportedContext) {
                    return Err(format!("seed {seed}: an operator on a device: {refused:?}"));
                }
            }
            3 => {
                pairs[to].array.add_scalar_assign(7.0).map_err(said)?;
                pairs[to].values.iter_mut().for_each(|value| *value += 7);
            }
            4 => {
                let context = contexts[draws.below(contexts.len())];
                pairs[to] = Pair { array: source.as_in_context(context).map_err(said)?, values };
                // Without a copy it is the same array.
                if pairs[to].array.var() == source.var() {
                    pairs[to].array = source.copy().map_err(said)?;
                }
            }
            5 => {
                let context = contexts[draws.below(contexts.len())];
                let array = runtime.zeros_in(shape, DType::I32, context).map_err(said)?;
                pairs[to] = Pair { array, values: vec![0; side * side] };
            }
            6 if from != to => {
                let first = draws.below(side);
                let rows = |array: &NDArray| array.slice(0, first, side, 1);
                rows(&source).and_then(|source| source.copy_to(&rows(&pairs[to].array)?)).map_err(said)?;
                pairs[to].values[first * side..].copy_from_slice(&values[first * side..]);
            }
            _ => {
                if source.to_vec::<i32>().map_err(said)? != values {
                    return Err(format!("seed {seed}: an array of {} differs on the way", source.context()));
                }
            }
        }
    }
    for Pair { array, values } in &pairs {
        if array.to_vec::<i32>().map_err(said)? != *values {
            return Err(format!("seed {seed}: an array of {} differs at the end", array.context()));
        }
    }
    runtime.wait_all().map_err(said)
}
