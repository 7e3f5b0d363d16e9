//! Functions of one number and their derivatives, on slices.
//!
//! Used by `operator/elementwise.rs`, which registers an operator for each. A gradient uses the
//! number, the function's value or neither, and is multiplied by the gradient by the value. Loops
//! run by `simd.rs`; the functions of `math.rs` become instructions on whole registers there.

#![forbid(unsafe_code)]

use crate::kernel::math::Math;
use crate::kernel::simd::{self, Loops};
use num_traits::Float;

/// A function on slices in both types, as `fn(x, out)`.
pub(crate) type Forward<T> = fn(&[T], &mut [T]);
/// A gradient on slices, as `fn(gradient by the value, number or value, out)`. One that uses
/// neither is given as many elements of anything.
pub(crate) type Backward<T> = fn(&[T], &[T], &mut [T]);

/// What a gradient uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Uses {
    Nothing,
    Input,
    Output,
}

/// An entry of the table.
pub(crate) struct Unary {
    pub name: &'static str,
    pub about: &'static str,
    pub uses: Uses,
    pub f32: (Forward<f32>, Backward<f32>),
    pub f64: (Forward<f64>, Backward<f64>),
}

/// A constant of the type.
#[inline(always)]
fn c<F: Float>(value: f64) -> F {
    F::from(value).expect("both types of floats have it, rounded")
}

/// A function of the table on slices. It is `wide` if whole registers need the instructions that
/// `simd.rs` chooses. Others are compiled once, and cost less on short slices.
macro_rules! forward {
    ($name:ident, |$x:ident| $value:expr) => {
        pub fn $name<F: Special>(x: &[F], out: &mut [F]) {
            for (out, $x) in out.iter_mut().zip(x) {
                let $x = *$x;
                *out = $value;
            }
        }
    };
    ($name:ident, wide |$x:ident| $value:expr) => {
        pub fn $name<F: Special>(x: &[F], out: &mut [F]) {
            struct Each<'a, F>(&'a [F], &'a mut [F]);
            impl<F: Special> Loops for Each<'_, F> {
                const WIDE: bool = true;

                #[inline(always)]
                fn run<const FMA: bool>(self) {
                    for (out, $x) in self.1.iter_mut().zip(self.0) {
                        let $x = *$x;
                        *out = $value;
                    }
                }
            }
            simd::run(Each(x, out));
        }
    };
}

/// A gradient likewise.
macro_rules! backward {
    ($name:ident, |$g:ident, $v:pat_param| $gradient:expr) => {
        pub fn $name<F: Special>(g: &[F], v: &[F], out: &mut [F]) {
            for ((out, $g), v) in out.iter_mut().zip(g).zip(v) {
                let ($g, $v) = (*$g, *v);
                *out = $gradient;
            }
        }
    };
    ($name:ident, wide |$g:ident, $v:pat_param| $gradient:expr) => {
        pub fn $name<F: Special>(g: &[F], v: &[F], out: &mut [F]) {
            struct Each<'a, F>(&'a [F], &'a [F], &'a mut [F]);
            impl<F: Special> Loops for Each<'_, F> {
                const WIDE: bool = true;

                #[inline(always)]
                fn run<const FMA: bool>(self) {
                    for ((out, $g), v) in self.2.iter_mut().zip(self.0).zip(self.1) {
                        let ($g, $v) = (*$g, *v);
                        *out = $gradient;
                    }
                }
            }
            simd::run(Each(g, v, out));
        }
    };
}

macro_rules! table {
    ($($name:ident, $about:literal, $($how:ident)? |$x:ident| $value:expr,
        $uses:ident $($back:ident)? |$g:ident, $v:pat_param| $gradient:expr;)*) => {
        mod forward {
            use super::*;
            $(forward!($name, $($how)? |$x| $value);)*
        }

        mod backward {
            use super::*;
            $(backward!($name, $($back)? |$g, $v| $gradient);)*
        }

        /// All of them.
        pub(crate) const TABLE: &[Unary] = &[$(Unary {
            name: stringify!($name),
            about: $about,
            uses: Uses::$uses,
            f32: (forward::$name::<f32>, backward::$name::<f32>),
            f64: (forward::$name::<f64>, backward::$name::<f64>),
        }),*];
    };
}

table! {
    negative, "-x", |x| -x, Nothing |g, _| -g;
    reciprocal, "1 / x", |x| x.recip(), Output |g, y| -g * y * y;
    abs, "The absolute value", |x| x.abs(), Input |g, x| g * sign_of(x);
    sign, "-1, 0 or 1", |x| sign_of(x), Nothing |_g, _| F::zero();
    rint, "The nearest whole number, of two the smaller", wide |x| round_down_ties(x), Nothing |_g, _| F::zero();
    ceil, "The least whole number from x on", wide |x| x.ceil(), Nothing |_g, _| F::zero();
    floor, "The greatest whole number up to x", wide |x| x.floor(), Nothing |_g, _| F::zero();
    trunc, "x without its fraction", wide |x| x.trunc(), Nothing |_g, _| F::zero();
    fix, "The whole number next to x towards zero", wide |x| x.trunc(), Nothing |_g, _| F::zero();
    round, "The nearest whole number, of two the farther from zero", wide |x| x.round(), Nothing |_g, _| F::zero();
    square, "x²", |x| x * x, Input |g, x| g * (x + x);
    sqrt, "The square root", wide |x| x.sqrt(), Output |g, y| g * c::<F>(0.5) / y;
    rsqrt, "1 / √x", wide |x| x.sqrt().recip(), Input |g, x| g * c::<F>(-0.5) / (x * x.sqrt());
    cbrt, "The cube root", |x| x.cbrt(), Output |g, y| g / (c::<F>(3.0) * y * y);
    rcbrt, "1 / ∛x", |x| x.cbrt().recip(), Input |g, x| -g / (c::<F>(3.0) * x * x.cbrt());
    exp, "eˣ", wide |x| x.exp_by::<FMA>(), Output |g, y| g * y;
    expm1, "eˣ - 1", wide |x| x.exp_m1_by::<FMA>(), Output |g, y| g * (y + F::one());
    log, "The natural logarithm", wide |x| x.ln_by::<FMA>(), Input |g, x| g / x;
    log2, "The logarithm to the base 2", |x| x.log2(), Input |g, x| g / (x * c(std::f64::consts::LN_2));
    log10, "The logarithm to the base 10", |x| x.log10(), Input |g, x| g / (x * c(std::f64::consts::LN_10));
    log1p, "The natural logarithm of 1 + x", wide |x| x.ln_1p_by::<FMA>(), Input |g, x| g / (F::one() + x);
    sin, "The sine", |x| x.sin(), Input |g, x| g * x.cos();
    cos, "The cosine", |x| x.cos(), Input |g, x| -g * x.sin();
    tan, "The tangent", |x| x.tan(), Output |g, y| g * (F::one() + y * y);
    arcsin, "The angle whose sine is x", |x| x.asin(), Input |g, x| g / (F::one() - x * x).sqrt();
    arccos, "The angle whose cosine is x", |x| x.acos(), Input |g, x| -g / (F::one() - x * x).sqrt();
    arctan, "The angle whose tangent is x", |x| x.atan(), Input |g, x| g / (F::one() + x * x);
    sinh, "The hyperbolic sine", |x| x.sinh(), Input |g, x| g * x.cosh();
    cosh, "The hyperbolic cosine", |x| x.cosh(), Input |g, x| g * x.sinh();
    tanh, "The hyperbolic tangent", wide |x| x.tanh_by::<FMA>(), Output |g, y| g * (F::one() - y * y);
    arcsinh, "Whose hyperbolic sine x is", |x| arsinh_of(x), Input |g, x| g / (x * x + F::one()).sqrt();
    arccosh, "Whose hyperbolic cosine x is", |x| arcosh_of(x), Input |g, x| g / (x * x - F::one()).sqrt();
    arctanh, "Whose hyperbolic tangent x is", |x| x.atanh(), Input |g, x| g / (F::one() - x * x);
    degrees, "Radians as degrees", |x| x * c(180.0 / std::f64::consts::PI),
        Nothing |g, _| g * c(180.0 / std::f64::consts::PI);
    radians, "Degrees as radians", |x| x * c(std::f64::consts::PI / 180.0),
        Nothing |g, _| g * c(std::f64::consts::PI / 180.0);
    gamma, "The gamma function", |x| x.tgamma(), Input |g, x| g * x.tgamma() * x.digamma();
    gammaln, "The logarithm of the gamma function's absolute value", |x| x.lgamma(), Input |g, x| g * x.digamma();
    relu, "x if it is above 0, else 0", |x| if x > F::zero() || x.is_nan() { x } else { F::zero() },
        Output |g, y| if y > F::zero() { g } else { F::zero() };
    sigmoid, "1 / (1 + e⁻ˣ)", wide |x| x.sigmoid_by::<FMA>(), Output |g, y| g * y * (F::one() - y);
    softrelu, "The logarithm of 1 + eˣ", wide |x| x.max(F::zero()) + (-x.abs()).exp_by::<FMA>().ln_1p_by::<FMA>(),
        Input wide |g, x| g * x.sigmoid_by::<FMA>();
    softsign, "x / (1 + |x|)", |x| x / (F::one() + x.abs()),
        Input |g, x| g / ((F::one() + x.abs()) * (F::one() + x.abs()));
}

/// The table's sigmoid function.
pub(crate) fn sigmoid<F: Special>(x: &[F], out: &mut [F]) {
    forward::sigmoid(x, out);
}

#[inline(always)]
fn sign_of<F: Float>(x: F) -> F {
    if x > F::zero() {
        F::one()
    } else if x < F::zero() {
        -F::one()
    } else {
        x
    }
}

#[inline(always)]
fn round_down_ties<F: Float>(x: F) -> F {
    let (floor, ceil) = (x.floor(), x.ceil());
    if x - floor <= ceil - x {
        floor
    } else {
        ceil
    }
}

/// From here on √(x² ± 1) is x in both types. The functions of the standard library double x, which
/// has no end beyond half of the greatest number.
const LARGE: f64 = (1u64 << 28) as f64;

fn arsinh_of<F: Float>(x: F) -> F {
    if x.abs() > c(LARGE) {
        (x.abs().ln() + c(std::f64::consts::LN_2)) * x.signum()
    } else {
        x.asinh()
    }
}

fn arcosh_of<F: Float>(x: F) -> F {
    if x > c(LARGE) {
        x.ln() + c(std::f64::consts::LN_2)
    } else {
        x.acosh()
    }
}

/// Functions that the standard library has not.
pub(crate) trait Special: Math {
    fn tgamma(self) -> Self;
    fn lgamma(self) -> Self;
    fn digamma(self) -> Self;
}

impl Special for f64 {
    fn tgamma(self) -> f64 {
        libm::tgamma(self)
    }

    fn lgamma(self) -> f64 {
        libm::lgamma(self)
    }

    /// By reflection for negative numbers, by recurrence up to 10, and by the asymptotic series.
    fn digamma(self) -> f64 {
        if self <= 0.0 {
            if self == self.floor() {
                return f64::NAN;
            }
            let pi = std::f64::consts::PI;
            return (1.0 - self).digamma() - pi / (pi * self).tan();
        }
        let (mut x, mut sum) = (self, 0.0);
        while x < 10.0 {
            sum -= x.recip();
            x += 1.0;
        }
        let z = (x * x).recip();
        let series = z * (1.0 / 12.0 - z * (1.0 / 120.0 - z * (1.0 / 252.0 - z * (1.0 / 240.0 - z * (1.0 / 132.0)))));
        sum + x.ln() - 0.5 / x - series
    }
}

impl Special for f32 {
    fn tgamma(self) -> f32 {
        f64::from(self).tgamma() as f32
    }

    fn lgamma(self) -> f32 {
        f64::from(self).lgamma() as f32
    }

    fn digamma(self) -> f32 {
        f64::from(self).digamma() as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_functions_have_their_known_values() {
        // -γ, 1 - γ, and values of tables.
        let known = [(1.0, -0.577_215_664_901_532_9), (2.0, 0.422_784_335_098_467_1), (0.5, -1.963_510_026_021_423_5)];
        known.iter().for_each(|(x, value): &(f64, f64)| assert!((x.digamma() - value).abs() < 1e-13, "{x}"));
        assert!(((-0.5f64).digamma() - 0.036_489_973_978_576_52).abs() < 1e-12);
        assert!((5.0f64.tgamma() - 24.0).abs() < 1e-12 && (0.5f64.lgamma() - 0.572_364_942_924_700_1).abs() < 1e-14);
        assert!((-2.0f64).digamma().is_nan());
    }

    /// A register holds several elements, and the last ones of a slice are computed one by one.
    #[test]
    fn an_element_does_not_depend_on_its_place() {
        let x: Vec<f32> = (0..131).map(|at| (at as f32 - 60.0) * 0.37).collect();
        for entry in TABLE {
            let (forward, backward) = entry.f32;
            let mut whole = (vec![0.0; x.len()], vec![0.0; x.len()]);
            forward(&x, &mut whole.0);
            backward(&x, &x, &mut whole.1);
            for count in [1, 7, 33] {
                for from in 0..x.len() - count {
                    let (part, mut out) = (&x[from..][..count], vec![0.0; count]);
                    forward(part, &mut out);
                    let is_same = |out: &[f32], whole: &[f32]| {
                        out.iter().zip(&whole[from..]).all(|(one, other)| one.to_bits() == other.to_bits())
                    };
                    assert!(is_same(&out, &whole.0), "{} of {count} from {from}", entry.name);
                    backward(part, part, &mut out);
                    assert!(is_same(&out, &whole.1), "gradient of {}, {count} from {from}", entry.name);
                }
            }
        }
    }

    #[test]
    fn large_numbers_have_hyperbolic_areas() {
        let large = 3e38f64;
        let expected = large.ln() + std::f64::consts::LN_2;
        for (found, expected) in
            [(arsinh_of(-large as f32), -expected as f32), (arcosh_of(large as f32), expected as f32)]
        {
            assert!((found - expected).abs() < 1e-5, "{found}");
        }
        assert!(arsinh_of(f64::MAX) < 711.0 && arcosh_of(f64::MAX) < 711.0);
        assert_eq!((arsinh_of(f64::NEG_INFINITY), arcosh_of(f32::INFINITY)), (f64::NEG_INFINITY, f32::INFINITY));
        // Both formulas meet.
        for of in [arsinh_of::<f64>, arcosh_of] {
            assert!((of(LARGE * 1.000_000_01) - of(LARGE)).abs() < 2e-8);
        }
        assert!(arsinh_of(f32::NAN).is_nan() && arcosh_of(0.5f64).is_nan());
    }

    #[test]
    fn ties_are_rounded_as_mxnet_rounds_them() {
        let of = |name: &str, x: f64| {
            let entry = TABLE.iter().find(|entry| entry.name == name).unwrap();
            let mut out = [0.0];
            (entry.f64.0)(&[x], &mut out);
            out[0]
        };
        let values = [-1.5, 1.5, -1.9, 1.9, 2.1];
        assert_eq!(values.map(|x| of("rint", x)), [-2.0, 1.0, -2.0, 2.0, 2.0]);
        assert_eq!(values.map(|x| of("round", x)), [-2.0, 2.0, -2.0, 2.0, 2.0]);
        assert_eq!(values.map(|x| of("fix", x)), [-1.0, 1.0, -1.0, 1.0, 2.0]);
        assert!(of("relu", f64::NAN).is_nan() && of("sign", -0.0) == 0.0);
    }
}
