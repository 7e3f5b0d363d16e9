//! Softmax of one row, its logarithm, and their gradients.
//!
//! Used by `operator/softmax.rs`.

#![forbid(unsafe_code)]

use crate::kernel::tree::sum;
use num_traits::Float;

/// Turns a row into its softmax, or into the logarithm of it. The greatest element is taken off
/// first, so nothing overflows.
pub(crate) fn softmax<T: Float>(row: &mut [T], is_log: bool) {
    let greatest = row.iter().copied().fold(T::neg_infinity(), T::max);
    if is_log {
        row.iter_mut().for_each(|value| *value = *value - greatest);
        let mut total = crate::kernel::tree::Tree::new();
        for leaf in row.chunks(crate::kernel::tree::LEAF) {
            let mut powers = [T::zero(); crate::kernel::tree::LEAF];
            powers.iter_mut().zip(leaf).for_each(|(power, value)| *power = value.exp());
            total.add(&powers[..leaf.len()], |a, b| a + b);
        }
        let log = total.sum(|a, b| a + b).ln();
        row.iter_mut().for_each(|value| *value = *value - log);
    } else {
        row.iter_mut().for_each(|value| *value = (*value - greatest).exp());
        let inverse = sum(row, |a, b| a + b).recip();
        row.iter_mut().for_each(|value| *value = *value * inverse);
    }
}

/// Turns a row of gradients by the values into one by what they were computed from.
pub(crate) fn gradient<T: Float>(grad: &mut [T], value: &[T], is_log: bool) {
    if is_log {
        let total = sum(grad, |a, b| a + b);
        grad.iter_mut().zip(value).for_each(|(grad, value)| *grad = *grad - value.exp() * total);
    } else {
        grad.iter_mut().zip(value).for_each(|(grad, value)| *grad = *grad * *value);
        let total = sum(grad, |a, b| a + b);
        grad.iter_mut().zip(value).for_each(|(grad, value)| *grad = *grad - *value * total);
    }
}
