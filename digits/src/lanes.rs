//! Loops over columns of numbers, compiled for the processor's vector units.
//!
//! Each loop is written once, and compiled twice on x86-64: for AVX2 with FMA, where the processor
//! has them, and for every processor. `FUSED` says whether a multiplication and an addition are one
//! instruction.

use std::f64::consts::LOG2_E;

/// Makes a function that calls `$body` in the form that is best on this processor.
macro_rules! dispatched {
    ($(#[$about:meta])* $name:ident($($argument:ident: $type:ty),*) from $body:ident) => {
        $(#[$about])*
        pub fn $name($($argument: $type),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                unsafe fn wide($($argument: $type),*) {
                    $body::<true>($($argument),*)
                }
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                    // SAFETY: the processor has what it was compiled for.
                    return unsafe { wide($($argument),*) };
                }
            }
            $body::<{ cfg!(target_arch = "aarch64") }>($($argument),*)
        }
    };
}

dispatched! {
    /// Each value `v` becomes `exp(-gamma * (v + norm + norms[row]))`: the Gaussian kernel, from −2
    /// a·b in `column`.
    ///
    /// As [`exp`], for exponents from −708 to 0. A smaller one counts as −708, which gives 3e-308.
    gaussian(column: &mut [f64], norms: &[f64], norm: f64, gamma: f64) from gaussian_body
}

dispatched! {
    /// Takes `factor` × `other` from `column`.
    subtract(column: &mut [f64], factor: f64, other: &[f64]) from subtract_body
}

#[inline(always)]
fn gaussian_body<const FUSED: bool>(column: &mut [f64], norms: &[f64], norm: f64, gamma: f64) {
    for (value, own) in column.iter_mut().zip(norms) {
        *value = exp::<FUSED>(-gamma * (own + norm + *value));
    }
}

#[inline(always)]
fn subtract_body<const FUSED: bool>(column: &mut [f64], factor: f64, other: &[f64]) {
    for (value, other) in column.iter_mut().zip(other) {
        *value = fused::<FUSED>(-factor, *other, *value);
    }
}

/// `a * b + c`.
#[inline(always)]
fn fused<const FUSED: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FUSED {
        a.mul_add(b, c)
    } else {
        a * b + c
    }
}

/// e to the power of `x`, for `x` from −708 to 700, within 2 units in the last place. Without a
/// branch or a table, so that a loop of it becomes vector instructions.
///
/// `x` = `k` ln 2 + `r` with a whole `k` and |`r`| ≤ ln 2 / 2. The Taylor series of `exp(r)` to the
/// power 13 is cut off below a hundredth of the rounding unit; 2 to the power of `k` is added to
/// the exponent's bits.
#[inline(always)]
fn exp<const FUSED: bool>(x: f64) -> f64 {
    /// Adding this to a small number rounds it to a whole one, which is then in the lowest bits of
    /// the sum.
    const ROUND: f64 = 6_755_399_441_055_744.0; // 1.5 × 2⁵²
    /// ln 2 with its last 20 bits zero, so that `k` times it is exact, and the rest of it.
    const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

    let x = x.max(-708.0);
    let rounded = fused::<FUSED>(x, LOG2_E, ROUND);
    let k = rounded - ROUND;
    let r = fused::<FUSED>(k, -LN_2_HIGH, x);
    let r = fused::<FUSED>(k, -LN_2_LOW, r);
    let mut series = TAYLOR[0];
    for &term in &TAYLOR[1..] {
        series = fused::<FUSED>(series, r, term);
    }
    f64::from_bits(series.to_bits().wrapping_add(rounded.to_bits() << 52))
}

/// 1 / n!, from n = 13 down to 0.
const TAYLOR: [f64; 14] = {
    let mut terms = [1.0; 14];
    let (mut n, mut factorial) = (1, 1.0);
    while n < 14 {
        factorial *= n as f64;
        terms[13 - n] = 1.0 / factorial;
        n += 1;
    }
    terms
};

#[cfg(test)]
mod tests {
    use super::*;

    /// How many numbers of type `f64` lie between two positive ones.
    fn apart(a: f64, b: f64) -> u64 {
        a.to_bits().abs_diff(b.to_bits())
    }

    /// Checks `exp`, or something that claims to be as good, at many exponents; says how far off it
    /// was at the worst.
    fn worst(exp: impl Fn(f64) -> f64) -> u64 {
        let mut worst = 0;
        for step in 0..2_000_000 {
            // All of the range; then close to 0, where the kernel's exponents are.
            let far = -708.0 + 1408.0 * f64::from(step) / 2e6;
            let near = -20.0 * f64::from(step) / 2e6;
            worst = worst.max(apart(exp(far), far.exp())).max(apart(exp(near), near.exp()));
        }
        worst
    }

    #[test]
    fn exp_is_within_two_units_of_the_library_fused_or_not() {
        assert!(worst(exp::<false>) <= 2, "{} units", worst(exp::<false>));
        assert!(worst(exp::<true>) <= 2, "{} units", worst(exp::<true>));
        assert_eq!((exp::<true>(0.0), exp::<false>(0.0)), (1.0, 1.0));
        assert_eq!(exp::<true>(-1e300), exp::<true>(-708.0));
    }

    #[test]
    fn the_check_of_exp_notices_a_unit_too_many() {
        assert!(worst(|x| f64::from_bits(x.exp().to_bits() + 3)) > 2);
        assert!(worst(|x| x.exp() * (1.0 + 1e-15)) > 2);
    }

    #[test]
    fn columns_of_any_length_are_as_their_elements_one_by_one() {
        for length in [0, 1, 3, 4, 7, 64, 125] {
            let norms: Vec<f64> = (0..length).map(|n| n as f64 / 16.0).collect();
            let start: Vec<f64> = (0..length).map(|n| -(n as f64) / 64.0).collect();
            let mut column = start.clone();
            gaussian(&mut column, &norms, 1.0, 0.3);
            for ((value, start), norm) in column.iter().zip(&start).zip(&norms) {
                assert!(apart(*value, (-0.3 * (norm + 1.0 + start)).exp()) <= 2);
            }
            let mut column = start.clone();
            subtract(&mut column, 2.0, &norms);
            assert!(column.iter().zip(&start).zip(&norms).all(|((value, start), norm)| *value == start - 2.0 * norm));
        }
    }
}
