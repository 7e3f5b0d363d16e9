//! Softmax of rows, its logarithm, and their gradients.
//!
//! Used by `operator/softmax.rs`.

#![forbid(unsafe_code)]

use crate::kernel::math::Math;
use crate::kernel::simd::{self, Loops};
use crate::kernel::tree::{sum, Tree, LEAF};

/// Turns rows of a length into their softmax, or into the logarithm of it. The greatest element is
/// taken off first, so nothing overflows.
pub(crate) fn softmax<T: Math>(rows: &mut [T], length: usize, is_log: bool) {
    simd::run(Rows { rows, length: length.max(1), is_log });
}

/// Turns a row of gradients by the values into one by what they were computed from.
pub(crate) fn gradient<T: Math>(grad: &mut [T], value: &[T], is_log: bool) {
    simd::run(Gradient { grad, value, is_log });
}

/// How many elements are compared at a time.
const LANES: usize = 32;

/// The greatest element; those that are no numbers do not count.
#[inline(always)]
fn greatest<T: Math>(row: &[T]) -> T {
    let mut lanes = [T::neg_infinity(); LANES];
    let (whole, rest) = row.split_at(row.len() / LANES * LANES);
    for values in whole.chunks_exact(LANES) {
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane = if *value > *lane { *value } else { *lane };
        }
    }
    let mut greatest = T::neg_infinity();
    let lanes = if whole.is_empty() { &[] } else { &lanes[..] };
    for value in lanes.iter().chain(rest) {
        greatest = if *value > greatest { *value } else { greatest };
    }
    greatest
}

/// So many elements are gone through at a time, and at least a row.
const BLOCK: usize = 1024;

struct Rows<'a, T> {
    rows: &'a mut [T],
    length: usize,
    is_log: bool,
}

impl<T: Math> Loops for Rows<'_, T> {
    const WIDE: bool = true;

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Rows { rows, length, is_log } = self;
        let some = (BLOCK / length).max(1) * length;
        for rows in rows.chunks_mut(some) {
            for row in rows.chunks_exact_mut(length) {
                let greatest = greatest(row);
                row.iter_mut().for_each(|value| *value = *value - greatest);
            }
            if is_log {
                for row in rows.chunks_exact_mut(length) {
                    less_log_of_sum::<T, FMA>(row);
                }
                continue;
            }
            for value in rows.iter_mut() {
                *value = value.exp_or_zero_by::<FMA>();
            }
            for row in rows.chunks_exact_mut(length) {
                let inverse = sum(row, |a, b| a + b).recip();
                row.iter_mut().for_each(|value| *value = *value * inverse);
            }
        }
    }
}

/// Takes the logarithm of the sum of their powers off the elements.
#[inline(always)]
fn less_log_of_sum<T: Math, const FMA: bool>(row: &mut [T]) {
    let mut total = Tree::new();
    for leaf in row.chunks(LEAF) {
        let mut powers = [T::zero(); LEAF];
        for (power, value) in powers.iter_mut().zip(leaf) {
            *power = value.exp_or_zero_by::<FMA>();
        }
        total.add(&powers[..leaf.len()], |a, b| a + b);
    }
    let log = total.sum(|a, b| a + b).ln_by::<FMA>();
    row.iter_mut().for_each(|value| *value = *value - log);
}

struct Gradient<'a, T> {
    grad: &'a mut [T],
    value: &'a [T],
    is_log: bool,
}

impl<T: Math> Loops for Gradient<'_, T> {
    const WIDE: bool = true;

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Gradient { grad, value, is_log } = self;
        if is_log {
            let total = sum(grad, |a, b| a + b);
            for (grad, value) in grad.iter_mut().zip(value) {
                *grad = *grad - value.exp_by::<FMA>() * total;
            }
        } else {
            for (grad, value) in grad.iter_mut().zip(value) {
                *grad = *grad * *value;
            }
            let total = sum(grad, |a, b| a + b);
            for (grad, value) in grad.iter_mut().zip(value) {
                *grad = *grad - *value * total;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_is_found_wherever_it_lies() {
        for count in [1, 7, 31, 32, 33, 64, 100] {
            for at in 0..count {
                let mut row = vec![-5.0f32; count];
                row[at] = -1.0;
                row[(at + 1) % count] = if count > 1 { f32::NAN } else { -1.0 };
                assert_eq!(greatest(&row), -1.0, "{at} of {count}");
            }
        }
        assert_eq!(greatest::<f64>(&[]), f64::NEG_INFINITY);
    }

    #[test]
    fn rows_sum_to_one_and_stay_finite() {
        for count in [1usize, 9, 300] {
            let mut row: Vec<f32> = (0..count).map(|at| 1e4 + (at % 17) as f32).collect();
            let mut logs = row.clone();
            softmax(&mut row, count, false);
            softmax(&mut logs, count, true);
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6);
            row.iter().zip(&logs).for_each(|(value, log)| assert!((value.ln() - log).abs() < 2e-5, "{value} {log}"));
        }
    }
}
