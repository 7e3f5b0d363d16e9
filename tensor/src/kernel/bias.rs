//! A bias added to rows of a matrix, or to channels of images.
//!
//! Used by `operator/matrix.rs` and `operator/layers/filtering.rs`, behind products.

#![forbid(unsafe_code)]

use crate::kernel::simd::{self, Loops};
use num_traits::Float;

/// Adds the bias to each row, which is as long.
pub(crate) fn to_rows<T: Float>(values: &mut [T], bias: &[T]) {
    simd::run(ToRows { values, bias });
}

/// Adds an element of the bias to each channel of images, which has so many places.
pub(crate) fn to_channels<T: Float>(values: &mut [T], bias: &[T], places: usize) {
    simd::run(ToChannels { values, bias, places });
}

struct ToRows<'a, T> {
    values: &'a mut [T],
    bias: &'a [T],
}

impl<T: Float> Loops for ToRows<'_, T> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        const WIDE: usize = 8;
        for row in self.values.chunks_exact_mut(self.bias.len().max(1)) {
            let (mut row, mut bias) = (row.chunks_exact_mut(WIDE), self.bias.chunks_exact(WIDE));
            for (row, bias) in row.by_ref().zip(bias.by_ref()) {
                row.iter_mut().zip(bias).for_each(|(value, bias)| *value = *value + *bias);
            }
            let rest = row.into_remainder().iter_mut().zip(bias.remainder());
            rest.for_each(|(value, bias)| *value = *value + *bias);
        }
    }
}

struct ToChannels<'a, T> {
    values: &'a mut [T],
    bias: &'a [T],
    places: usize,
}

impl<T: Float> Loops for ToChannels<'_, T> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let channels = self.values.chunks_exact_mut(self.places.max(1));
        for (channel, bias) in channels.zip(self.bias.iter().cycle()) {
            channel.iter_mut().for_each(|value| *value = *value + *bias);
        }
    }
}
