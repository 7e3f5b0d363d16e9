//! Rows of elements around their means, as normalisations have them.
//!
//! Used by `operator/layers/`. Sums are those of `tree.rs`.

#![forbid(unsafe_code)]

use crate::kernel::simd::{self, Loops};
use crate::kernel::tree::{sum, sum_of};
use num_traits::Float;

/// The mean and the variance of a row.
pub(crate) fn moments<T: Float>(row: &[T]) -> (T, T) {
    let count = T::from(row.len()).unwrap_or(T::one()).max(T::one());
    let mean = sum(row, |a, b| a + b) / count;
    let square = |value: T| (value - mean) * (value - mean);
    (mean, sum_of(row, square, |a, b| a + b) / count)
}

/// Writes what is left of a row without its mean, multiplied by a factor.
pub(crate) fn centre<T: Float>(row: &[T], (mean, factor): (T, T), out: &mut [T]) {
    simd::run(Each { row, out, of: |value| (value - mean) * factor });
}

/// The same, multiplied by one more number and with a bias.
pub(crate) fn scale<T: Float>(row: &[T], (mean, factor): (T, T), (gamma, beta): (T, T), out: &mut [T]) {
    simd::run(Each { row, out, of: |value| (value - mean) * factor * gamma + beta });
}

/// The same with a number and a bias for each element.
pub(crate) fn scale_each<T: Float>(row: &[T], (mean, factor): (T, T), (gamma, beta): (&[T], &[T]), out: &mut [T]) {
    simd::run(Scaled { row, mean, factor, gamma, beta, out });
}

struct Each<'a, T, F> {
    row: &'a [T],
    out: &'a mut [T],
    of: F,
}

impl<T: Float, F: Fn(T) -> T> Loops for Each<'_, T, F> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (out, value) in self.out.iter_mut().zip(self.row) {
            *out = (self.of)(*value);
        }
    }
}

struct Scaled<'a, T> {
    row: &'a [T],
    mean: T,
    factor: T,
    gamma: &'a [T],
    beta: &'a [T],
    out: &'a mut [T],
}

impl<T: Float> Loops for Scaled<'_, T> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Scaled { row, mean, factor, gamma, beta, out } = self;
        for (((out, value), gamma), beta) in out.iter_mut().zip(row).zip(gamma).zip(beta) {
            *out = (*value - mean) * factor * *gamma + *beta;
        }
    }
}

/// Turns gradients by what [`centre`] has made, which are `of`, into those by the row. `values` is
/// what was made, and `factor` what it was multiplied by; gradients are also multiplied by `gamma`.
/// The part of each element in mean and deviation is the mean of `of` and of its products with
/// `values`.
pub(crate) fn gradient<T: Float>(of: &mut [T], values: &[T], (mean, product): (T, T), factor: T, gamma: T) {
    simd::run(Gradient { of, values, mean, product, factor, gamma });
}

struct Gradient<'a, T> {
    of: &'a mut [T],
    values: &'a [T],
    mean: T,
    product: T,
    factor: T,
    gamma: T,
}

impl<T: Float> Loops for Gradient<'_, T> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Gradient { of, values, mean, product, factor, gamma } = self;
        for (grad, value) in of.iter_mut().zip(values) {
            *grad = (*grad - mean - *value * product) * factor * gamma;
        }
    }
}
