//! Softmax of rows, its logarithm, and their gradients.
//!
//! Used by `operator/softmax.rs`.

#![forbid(unsafe_code)]

use crate::kernel::power::Power;
use crate::kernel::simd::{self, Loops};
use crate::kernel::tree::{sum, Tree, LEAF};

/// Turns rows of a length into their softmax, or into the logarithm of it. The greatest element is
/// taken off first, so nothing overflows.
pub(crate) fn softmax<T: Power>(rows: &mut [T], length: usize, is_log: bool) {
    simd::run(Rows { rows, length: length.max(1), is_log });
}

/// So many elements are gone through at a time, and at least a row.
const BLOCK: usize = 1024;

struct Rows<'a, T> {
    rows: &'a mut [T],
    length: usize,
    is_log: bool,
}

impl<T: Power> Loops for Rows<'_, T> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Rows { rows, length, is_log } = self;
        let some = (BLOCK / length).max(1) * length;
        for rows in rows.chunks_mut(some) {
            for row in rows.chunks_exact_mut(length) {
                let greatest = row.iter().copied().fold(T::neg_infinity(), T::max);
                row.iter_mut().for_each(|value| *value = *value - greatest);
            }
            if is_log {
                rows.chunks_exact_mut(length).for_each(less_log_of_sum::<T, FMA>);
                continue;
            }
            rows.iter_mut().for_each(|value| *value = value.power::<FMA>());
            for row in rows.chunks_exact_mut(length) {
                let inverse = sum(row, |a, b| a + b).recip();
                row.iter_mut().for_each(|value| *value = *value * inverse);
            }
        }
    }
}

/// Takes the logarithm of the sum of their powers off the elements.
#[inline(always)]
fn less_log_of_sum<T: Power, const FMA: bool>(row: &mut [T]) {
    let mut total = Tree::new();
    for leaf in row.chunks(LEAF) {
        let mut powers = [T::zero(); LEAF];
        powers.iter_mut().zip(leaf).for_each(|(power, value)| *power = value.power::<FMA>());
        total.add(&powers[..leaf.len()], |a, b| a + b);
    }
    let log = total.sum(|a, b| a + b).ln();
    row.iter_mut().for_each(|value| *value = *value - log);
}

/// Turns a row of gradients by the values into one by what they were computed from.
pub(crate) fn gradient<T: num_traits::Float>(grad: &mut [T], value: &[T], is_log: bool) {
    if is_log {
        let total = sum(grad, |a, b| a + b);
        grad.iter_mut().zip(value).for_each(|(grad, value)| *grad = *grad - value.exp() * total);
    } else {
        grad.iter_mut().zip(value).for_each(|(grad, value)| *grad = *grad * *value);
        let total = sum(grad, |a, b| a + b);
        grad.iter_mut().zip(value).for_each(|(grad, value)| *grad = *grad - *value * total);
    }
}
