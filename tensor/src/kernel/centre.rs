//! Rows of elements around their means, as normalisations have them.
//!
//! Used by `operator/layers/`. Sums are those of `tree.rs`.

#![forbid(unsafe_code)]

use crate::kernel::simd::{self, Loops};
use crate::kernel::tree::sum;
use num_traits::Float;

/// Turns a row into differences to its mean; returns the mean and the variance. `squares` is memory
/// for as many elements.
pub(crate) fn centre<T: Float>(row: &mut [T], squares: &mut [T]) -> (T, T) {
    let count = T::from(row.len()).unwrap_or(T::one()).max(T::one());
    let mean = sum(row, |a, b| a + b) / count;
    simd::run(Differences { row, squares, mean });
    (mean, sum(squares, |a, b| a + b) / count)
}

/// Multiplies a row by one factor and by its own, and adds a bias.
pub(crate) fn scale<T: Float>(row: &mut [T], factor: T, gamma: &[T], beta: &[T]) {
    simd::run(Scaled { row, factor, gamma, beta });
}

struct Differences<'a, T> {
    row: &'a mut [T],
    squares: &'a mut [T],
    mean: T,
}

impl<T: Float> Loops for Differences<'_, T> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (value, square) in self.row.iter_mut().zip(self.squares) {
            let difference = *value - self.mean;
            *value = difference;
            *square = difference * difference;
        }
    }
}

struct Scaled<'a, T> {
    row: &'a mut [T],
    factor: T,
    gamma: &'a [T],
    beta: &'a [T],
}

impl<T: Float> Loops for Scaled<'_, T> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for ((value, gamma), beta) in self.row.iter_mut().zip(self.gamma).zip(self.beta) {
            *value = *value * self.factor * *gamma + *beta;
        }
    }
}
