//! Powers of e up to 1 and hyperbolic tangents, of many numbers at a time.
//!
//! Used by `softmax.rs`, whose numbers are at most 0, and by `unary.rs`. For `f32` they are
//! polynomials without a branch or a call, so a loop becomes vectors, and takes the same time for
//! all numbers. For `f64` they are those of the standard library.

#![forbid(unsafe_code)]

use crate::kernel::simd::fused;
use num_traits::Float;

/// The floats that powers are computed in.
pub(crate) trait Power: Float {
    /// e to the power of a number that is at most 0, or little above. What is no number stays so.
    fn power<const FMA: bool>(self) -> Self;
    /// The hyperbolic tangent. What is no number stays so.
    fn tangent(self) -> Self;
}

impl Power for f64 {
    #[inline(always)]
    fn power<const FMA: bool>(self) -> f64 {
        self.exp()
    }

    fn tangent(self) -> f64 {
        self.tanh()
    }
}

/// Below it the power is 0. It would be less than 1.7e-38, and soon no normal number: processors
/// are slow with those, and so would be all that is computed from gradients with them.
const LEAST: f32 = -87.0;
/// Added and taken off, it leaves a whole number, which the lowest bits of the sum have.
const WHOLE: f32 = 12_582_912.0;
/// The logarithm of 2: bits of it that a whole number below 128 can be multiplied by, and the rest.
const LOG2_HIGH: f32 = 0.693_359_4;
const LOG2_LOW: f32 = -2.121_944_4e-4;
/// Of the polynomial for eʳ, from the highest power of r down to the second. Those of Cephes.
const SERIES: [f32; 6] = [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];

/// Below it a tangent is a polynomial: there the difference of 1 and a power has few digits.
const SMALL: f32 = 0.625;
/// Of the polynomial for tanh(x) / x - 1, from the fifth power of the square of x down to the
/// first. Those of Cephes.
const NEAR_ZERO: [f32; 5] = [-5.704_988_7e-3, 2.063_909e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1];

impl Power for f32 {
    /// 2ⁿ eʳ, with r at most half of the logarithm of 2. Wrong by at most 1e-7 of the power.
    #[inline(always)]
    fn power<const FMA: bool>(self) -> f32 {
        let shifted = fused::<f32, FMA>(self, std::f32::consts::LOG2_E, WHOLE);
        let n = shifted - WHOLE;
        let r = fused::<f32, FMA>(n, -LOG2_LOW, fused::<f32, FMA>(n, -LOG2_HIGH, self));
        let [mut sum, rest @ ..] = SERIES;
        for factor in rest {
            sum = fused::<f32, FMA>(sum, r, factor);
        }
        let of_r = fused::<f32, FMA>(sum, r * r, r) + 1.0;
        // The exponent of 2ⁿ, and no more: the bits above were those of `WHOLE`.
        let two = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
        let power = of_r * two;
        if self < LEAST {
            0.0
        } else {
            power
        }
    }

    /// Wrong by at most 2e-7 of the tangent.
    #[inline(always)]
    fn tangent(self) -> f32 {
        let (size, square) = (self.abs(), self * self);
        let power = (-2.0 * size).power::<false>();
        let large = (1.0 - power) / (1.0 + power);
        let [mut sum, rest @ ..] = NEAR_ZERO;
        for factor in rest {
            sum = sum * square + factor;
        }
        let small = sum * square * size + size;
        let tangent = if size < SMALL { small } else { large };
        tangent.copysign(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_those_of_the_standard_library_but_for_a_rounding() {
        let mut worst = 0.0f64;
        for at in 0..=1_000_000 {
            let x = -87.0 * at as f32 / 1e6;
            let expected = f64::from(x).exp();
            for found in [x.power::<true>(), x.power::<false>()] {
                worst = worst.max((f64::from(found) / expected - 1.0).abs());
            }
        }
        assert!(worst < 1e-7, "{worst}");
        assert_eq!([0.0f32.power::<true>(), 0.0f32.power::<false>()], [1.0; 2]);
    }

    #[test]
    fn tangents_are_those_of_the_standard_library_but_for_two_roundings() {
        let mut worst = 0.0f64;
        for at in -1_000_000i32..=1_000_000 {
            let x = at as f32 * 1e-5;
            let (found, expected) = (f64::from(x.tangent()), f64::from(x).tanh());
            worst = worst.max((found - expected).abs() / expected.abs().max(1e-30));
        }
        assert!(worst < 2e-7, "{worst}");
        for (x, expected) in [(f32::INFINITY, 1.0f32), (-1e30, -1.0), (0.0, 0.0), (-0.0, -0.0), (1e-30, 1e-30)] {
            assert_eq!(x.tangent().to_bits(), expected.to_bits(), "{x}");
        }
        assert!(f32::NAN.tangent().is_nan());
    }

    #[test]
    fn powers_are_normal_numbers_zero_or_no_numbers() {
        for x in [-87.0f32, -86.99, -87.01, -88.0, -103.0, -1e3, -1e30, f32::NEG_INFINITY] {
            for power in [x.power::<true>(), x.power::<false>()] {
                assert!(power == 0.0 || power.is_normal(), "{x}: {power:e}");
                assert_eq!(power == 0.0, x < LEAST, "{x}");
            }
        }
        assert!(f32::NAN.power::<true>().is_nan() && f32::NAN.power::<false>().is_nan());
    }
}
