//! Exponential functions and logarithms of one `f32`, without branches, for loops of `simd.rs`.
//!
//! Used by `unary.rs`, `softmax.rs` and others through [`Math`], whose functions of an `f64` are
//! those of the standard library. A function of a number is the same operations wherever the number
//! lies in a slice, so its bits depend on the number and on the processor alone. Errors are given
//! in units in the last place of the result, also of results below the normal numbers.

#![forbid(unsafe_code)]

use crate::kernel::simd::fused;
use num_traits::Float;

/// Functions that loops call, with the `FMA` of the loops.
pub(crate) trait Math: Float {
    /// eˣ; at most 1 unit off.
    fn exp_by<const FMA: bool>(self) -> Self;
    /// eˣ, but 0 below e⁻⁸⁷: soon below it are the numbers that are not normal. Processors are slow
    /// with those, and so would be all that is computed from gradients with them.
    fn exp_or_zero_by<const FMA: bool>(self) -> Self;
    /// eˣ - 1; at most 2 units off.
    fn exp_m1_by<const FMA: bool>(self) -> Self;
    /// The natural logarithm; at most 1 unit off.
    fn ln_by<const FMA: bool>(self) -> Self;
    /// The natural logarithm of 1 + x; at most 2 units off.
    fn ln_1p_by<const FMA: bool>(self) -> Self;
    /// The hyperbolic tangent; at most 2 units off.
    fn tanh_by<const FMA: bool>(self) -> Self;
    /// x times the share of the normal distribution below x, and the derivative of that. The first
    /// is at most 7 units off below 0, and 4 above, where powers of e are multiplied by a fitted
    /// function; the second is at most 2.5e-7 off.
    fn gelu_by<const FMA: bool>(self) -> (Self, Self);

    /// 1 / (1 + e⁻ˣ); at most 2.1 units off.
    #[inline(always)]
    fn sigmoid_by<const FMA: bool>(self) -> Self {
        let power = (-self.abs()).exp_by::<FMA>();
        let part = if self < Self::zero() { power } else { Self::one() };
        part / (Self::one() + power)
    }
}

/// Added to a number below 2²² and taken off again, it leaves a whole number, the nearest. With it
/// added, the number is in the last bits.
const ROUND: f32 = 12_582_912.0;

/// The polynomial whose coefficients are given from the highest power down.
#[inline(always)]
fn polynomial<const FMA: bool, const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[0];
    for coefficient in &coefficients[1..] {
        sum = fused::<f32, FMA>(sum, x, *coefficient);
    }
    sum
}

/// The number n with which x + rest = n ln 2 + r, rounded to nearest, as [`ROUND`] + n; and
/// eʳ - 1 - r and r. The polynomial is that of `expf` of Moshier's Cephes library.
#[inline(always)]
fn reduced<const FMA: bool>(x: f32, rest: f32) -> (f32, f32, f32) {
    const HIGH: f32 = 0.693_359_4;
    const LOW: f32 = -2.121_944_4e-4;
    let shifted = fused::<f32, FMA>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = fused::<f32, FMA>(n, -LOW, fused::<f32, FMA>(n, -HIGH, x)) + rest;
    let of = [1.987_569_2e-4, 1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_65, 0.5];
    (shifted, polynomial::<FMA, 6>(r, of) * (r * r), r)
}

/// Two powers of 2 whose product is 2ⁿ, of [`ROUND`] + n with n from -252 to 252.
#[inline(always)]
fn halves(shifted: f32) -> (f32, f32) {
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let half = n >> 1;
    let power = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
    (power(half), power(n.wrapping_sub(half)))
}

/// e to the power x + rest, where rest is small beside 1 and x is from -104 to 89 or no number.
#[inline(always)]
fn power<const FMA: bool>(x: f32, rest: f32) -> f32 {
    let (shifted, above, r) = reduced::<FMA>(x, rest);
    let (one, other) = halves(shifted);
    (1.0 + (r + above)) * one * other
}

/// The logarithm of 2ⁿ (1 + f) + rest, where 1 + f is from √½ to √2: `logf` of FreeBSD's msun.
#[inline(always)]
fn logarithm<const FMA: bool>(n: f32, f: f32, rest: f32) -> f32 {
    const HIGH: f32 = 0.693_138_1;
    const LOW: f32 = 9.058_001e-6;
    let s = f / (2.0 + f);
    let z = s * s;
    let of = [0.242_790_79, 0.284_987_87, 0.400_009_72, 0.666_666_6];
    let half_square = 0.5 * f * f;
    let above = fused::<f32, FMA>(s, half_square + z * polynomial::<FMA, 4>(z, of), fused::<f32, FMA>(n, LOW, rest));
    fused::<f32, FMA>(n, HIGH, above - half_square + f)
}

/// The n and f of [`logarithm`] for a number above 0.
#[inline(always)]
fn parted(x: f32) -> (f32, f32) {
    const ROOT: u32 = std::f32::consts::FRAC_1_SQRT_2.to_bits();
    let beyond = x.to_bits().wrapping_sub(ROOT);
    let n = (beyond as i32) >> 23;
    (n as f32, f32::from_bits((beyond & 0x7F_FFFF).wrapping_add(ROOT)) - 1.0)
}

/// At the ends of where the logarithm is defined, of a number for which it was `inside`.
#[inline(always)]
fn with_ends(x: f32, inside: f32) -> f32 {
    let inside = if x < f32::INFINITY { inside } else { x };
    let inside = if x == 0.0 { f32::NEG_INFINITY } else { inside };
    if x < 0.0 {
        f32::NAN
    } else {
        inside
    }
}

impl Math for f32 {
    #[inline(always)]
    fn exp_by<const FMA: bool>(self) -> f32 {
        let x = if self > 89.0 { 89.0 } else { self };
        power::<FMA>(if x < -104.0 { -104.0 } else { x }, -0.0)
    }

    #[inline(always)]
    fn exp_or_zero_by<const FMA: bool>(self) -> f32 {
        let power = self.exp_by::<FMA>();
        if self < -87.0 {
            0.0
        } else {
            power
        }
    }

    #[inline(always)]
    fn exp_m1_by<const FMA: bool>(self) -> f32 {
        let x = if self > 89.0 { 89.0 } else { self };
        let x = if x < -30.0 { -30.0 } else { x };
        let (shifted, above, r) = reduced::<FMA>(x, -0.0);
        let (one, other) = halves(shifted);
        let found = fused::<f32, FMA>(r + above, one, one - other.recip()) * other;
        // So near to 0 it is x, with its sign.
        if self.abs() < 1e-8 {
            self
        } else {
            found
        }
    }

    #[inline(always)]
    fn ln_by<const FMA: bool>(self) -> f32 {
        let is_small = self < f32::MIN_POSITIVE;
        let (n, f) = parted(if is_small { self * 8_388_608.0 } else { self });
        with_ends(self, logarithm::<FMA>(if is_small { n - 23.0 } else { n }, f, 0.0))
    }

    #[inline(always)]
    fn ln_1p_by<const FMA: bool>(self) -> f32 {
        let sum = 1.0 + self;
        let (n, f) = parted(sum);
        // What the sum has lost.
        let lost = if self > 1.0 { 1.0 - (sum - self) } else { self - (sum - 1.0) };
        let (f, rest) = if n == 0.0 { (self, 0.0) } else { (f, lost / sum) };
        let found = with_ends(sum, logarithm::<FMA>(n, f, rest));
        if self.abs() < 1e-8 {
            self
        } else {
            found
        }
    }

    /// Near 0 by the polynomial of `tanhf` of Cephes, farther from it by a power of e.
    #[inline(always)]
    fn tanh_by<const FMA: bool>(self) -> f32 {
        let x = self.abs();
        let z = x * x;
        let of = [-5.704_988_5e-3, 2.063_909e-2, -5.373_971_6e-2, 0.133_314_42, -0.333_332_8];
        let near = fused::<f32, FMA>(polynomial::<FMA, 5>(z, of) * z, x, x);
        let far = if x > 10.0 { 20.0 } else { x + x };
        let far = 1.0 - 2.0 / (power::<FMA>(far, -0.0) + 1.0);
        (if x < 0.625 { near } else { far }).copysign(self)
    }

    /// The share below -u, for u from 0 on, is e to the power -u²/2 by a smooth function: here a
    /// polynomial of (u - 3) / (u + 3), fitted for the least relative error up to 14.6 (by Lawson's
    /// iteration, to 1e-8). The square is made of two parts, of which the first has no error.
    #[inline(always)]
    fn gelu_by<const FMA: bool>(self) -> (f32, f32) {
        const DENSITY: f32 = 0.398_942_3;
        let u = self.abs();
        let u = if u > 14.5 { 14.5 } else { u };
        let high = f32::from_bits(u.to_bits() & 0xFFFF_F000);
        let share = power::<FMA>(-0.5 * high * high, -0.5 * (u - high) * (u + high));
        let of = [
            5.306_265e-5,
            1.149_099_2e-4,
            -3.389_188e-4,
            -9.831_944e-4,
            2.904_353e-3,
            6.131_916_3e-3,
            -4.621_326e-2,
            0.123_225_04,
            -0.206_402_61,
            0.121_513_95,
        ];
        let smooth = polynomial::<FMA, 10>((u - 3.0) / (u + 3.0), of);
        let (value, slope) = (u * smooth * share, fused::<f32, FMA>(-u, DENSITY, smooth) * share);
        match self < 0.0 {
            true => (-value, slope),
            false => (self - value, 1.0 - slope),
        }
    }
}

impl Math for f64 {
    #[inline(always)]
    fn exp_by<const FMA: bool>(self) -> f64 {
        self.exp()
    }

    #[inline(always)]
    fn exp_or_zero_by<const FMA: bool>(self) -> f64 {
        self.exp()
    }

    #[inline(always)]
    fn exp_m1_by<const FMA: bool>(self) -> f64 {
        self.exp_m1()
    }

    #[inline(always)]
    fn ln_by<const FMA: bool>(self) -> f64 {
        self.ln()
    }

    #[inline(always)]
    fn ln_1p_by<const FMA: bool>(self) -> f64 {
        self.ln_1p()
    }

    #[inline(always)]
    fn tanh_by<const FMA: bool>(self) -> f64 {
        self.tanh()
    }

    #[inline(always)]
    fn gelu_by<const FMA: bool>(self) -> (f64, f64) {
        let below = 0.5 * libm::erfc(-self * std::f64::consts::FRAC_1_SQRT_2);
        let density = (-0.5 * self * self).exp() / std::f64::consts::TAU.sqrt();
        (self * below, below + self * density)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distance between two `f32` at a value.
    fn unit(value: f64) -> f64 {
        let exponent = (value.abs() as f32).to_bits() >> 23;
        2f64.powi(exponent.clamp(1, 254) as i32 - 150)
    }

    /// Compares a function with the truth on 2²⁰ patterns of bits, and gives the largest distance.
    fn farthest(of: impl Fn(f32) -> f32, truth: impl Fn(f64) -> f64, unit: impl Fn(f64) -> f64) -> f64 {
        let mut farthest = 0f64;
        for at in 0..1 << 20 {
            let x = f32::from_bits((at as u32).wrapping_mul(4_099));
            let (found, expected) = (of(x), truth(f64::from(x)));
            assert_eq!(found.is_nan(), expected.is_nan(), "{x:e}: {found:e}");
            if found != expected as f32 && !found.is_nan() {
                let apart = (f64::from(found) - expected).abs() / unit(expected);
                assert!(apart < 10.0, "{x:e}: {found:e} and not {expected:e}");
                farthest = farthest.max(apart);
            }
        }
        farthest
    }

    fn sigmoid(x: f64) -> f64 {
        if x < 0.0 {
            x.exp() / (1.0 + x.exp())
        } else {
            1.0 / (1.0 + (-x).exp())
        }
    }

    fn gelu(x: f64) -> (f64, f64) {
        if x.is_infinite() {
            (x.max(0.0), sigmoid(x))
        } else {
            x.gelu_by::<false>()
        }
    }

    fn functions_are_near_the_truth<const FMA: bool>() {
        let most = [
            (farthest(|x| x.exp_by::<FMA>(), f64::exp, unit), 1.0),
            (farthest(|x| x.exp_m1_by::<FMA>(), f64::exp_m1, unit), 2.0),
            (farthest(|x| x.ln_by::<FMA>(), f64::ln, unit), 1.0),
            (farthest(|x| x.ln_1p_by::<FMA>(), f64::ln_1p, unit), 2.0),
            (farthest(|x| x.tanh_by::<FMA>(), f64::tanh, unit), 2.0),
            (farthest(|x| x.sigmoid_by::<FMA>(), sigmoid, unit), 2.1),
            (farthest(|x| x.max(0.0).gelu_by::<FMA>().0, |x| gelu(x.max(0.0)).0, unit), 4.0),
            (farthest(|x| x.gelu_by::<FMA>().0, |x| gelu(x).0, unit), 7.0),
            (farthest(|x| x.gelu_by::<FMA>().1, |x| gelu(x).1, |_| 2.5e-7), 1.0),
        ];
        most.iter().enumerate().for_each(|(at, (found, most))| assert!(found <= most, "{at}: {found}, fused {FMA}"));
        let [inf, zero, tiny] = [f32::INFINITY, 0.0f32, f32::from_bits(1)];
        let bits = |values: [f32; 4]| values.map(f32::to_bits);
        assert_eq!([inf, -inf, 88.8, -104.0].map(|x| x.exp_by::<FMA>()), [inf, 0.0, inf, 0.0]);
        for x in [-87.0f32, -86.99, -87.01, -103.0, -1e30, -inf] {
            let power = x.exp_or_zero_by::<FMA>();
            assert!(power == if x < -87.0 { 0.0 } else { x.exp_by::<FMA>() } && !power.is_subnormal(), "{x}");
        }
        assert!(f32::NAN.exp_or_zero_by::<FMA>().is_nan());
        assert_eq!([-103.9f32, -87.5].map(|x| x.exp_by::<FMA>()), [tiny, (-87.5f64).exp() as f32]);
        let signed = [zero, -zero, tiny, -tiny];
        assert_eq!(bits(signed.map(|x| x.exp_m1_by::<FMA>())), bits(signed));
        assert_eq!(bits(signed.map(|x| x.ln_1p_by::<FMA>())), bits(signed));
        assert_eq!(bits(signed.map(|x| x.tanh_by::<FMA>())), bits(signed));
        assert_eq!([inf, -inf, 88.8].map(|x| x.exp_m1_by::<FMA>()), [inf, -1.0, inf]);
        assert_eq!([inf, zero, -zero, 1.0].map(|x| x.ln_by::<FMA>()), [inf, -inf, -inf, 0.0]);
        assert_eq!(tiny.ln_by::<FMA>(), f64::from(tiny).ln() as f32);
        assert_eq!([inf, -1.0].map(|x| x.ln_1p_by::<FMA>()), [inf, -inf]);
        assert!([-tiny, -inf].iter().all(|x| x.ln_by::<FMA>().is_nan()) && (-1.5f32).ln_1p_by::<FMA>().is_nan());
        assert_eq!([inf, -inf].map(|x| x.tanh_by::<FMA>()), [1.0, -1.0]);
        assert_eq!([inf, -inf, 0.0].map(|x| x.sigmoid_by::<FMA>()), [1.0, 0.0, 0.5]);
        assert_eq!([inf, -inf, 0.0].map(|x| x.gelu_by::<FMA>()), [(inf, 1.0), (0.0, 0.0), (0.0, 0.5)]);
    }

    #[test]
    fn functions_are_near_the_truth_where_products_are_fused() {
        functions_are_near_the_truth::<true>();
    }

    #[test]
    fn functions_are_near_the_truth_where_products_are_rounded() {
        functions_are_near_the_truth::<false>();
    }
}
