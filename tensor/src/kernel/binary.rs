//! Functions of two numbers and their derivatives, on slices.
//!
//! Used by `operator/elementwise.rs`, which registers an operator of two arrays for each, one that
//! broadcasts, and one or two of an array and a scalar.

#![forbid(unsafe_code)]

use num_traits::Float;

/// A function on slices, as `fn(a, b, out)`.
pub(crate) type Forward<T> = fn(&[T], &[T], &mut [T]);
/// A gradient by one operand, as `fn(gradient by the value, a, b, out)`.
pub(crate) type Backward<T> = fn(&[T], &[T], &[T], &mut [T]);

/// In one type: the function, and the gradients by both operands.
pub(crate) struct Of<T> {
    pub forward: Forward<T>,
    pub lhs: Backward<T>,
    pub rhs: Backward<T>,
}

/// An entry of the table.
pub(crate) struct Binary {
    /// In the middle of the names of its operators.
    pub name: &'static str,
    /// The name of the operator of a scalar and an array, if the order counts.
    pub reversed: Option<&'static str>,
    pub about: &'static str,
    /// Whether the gradients use nothing but the gradient by the value.
    pub is_linear: bool,
    /// Whether the result says something of the operands and has no gradient.
    pub is_comparison: bool,
    pub f32: Of<f32>,
    pub f64: Of<f64>,
    /// For whole numbers, if there is such a function.
    pub i64: Option<Forward<i64>>,
}

macro_rules! each {
    ($name:ident, $T:ident: $bound:ident, |$a:ident, $b:ident| $value:expr) => {
        pub fn $name<$T: $bound>(a: &[$T], b: &[$T], out: &mut [$T]) {
            out.iter_mut().zip(a).zip(b).for_each(|((out, $a), $b)| {
                let ($a, $b) = (*$a, *$b);
                *out = $value;
            });
        }
    };
    ($name:ident, $T:ident: $bound:ident, |$g:ident, $a:ident, $b:ident| $value:expr) => {
        pub fn $name<$T: $bound>(g: &[$T], a: &[$T], b: &[$T], out: &mut [$T]) {
            out.iter_mut().zip(g).zip(a).zip(b).for_each(|(((out, $g), $a), $b)| {
                let ($g, $a, $b) = (*$g, *$a, *$b);
                let _ = ($a, $b);
                *out = $value;
            });
        }
    };
}

macro_rules! table {
    ($($name:ident, $reversed:expr, $about:literal, $linear:literal, $comparison:literal,
        |$a:ident, $b:ident| $value:expr, $whole:expr, |$g:ident, $p:ident, $q:ident| $lhs:expr, $rhs:expr;)*) => {
        mod forward {
            use super::*;
            $(each!($name, T: Float, |$a, $b| $value);)*
        }
        mod lhs {
            use super::*;
            $(each!($name, T: Float, |$g, $p, $q| $lhs);)*
        }
        mod rhs {
            use super::*;
            $(each!($name, T: Float, |$g, $p, $q| $rhs);)*
        }
        /// All of them.
        pub(crate) const TABLE: &[Binary] = &[$(Binary {
            name: stringify!($name),
            reversed: $reversed,
            about: $about,
            is_linear: $linear,
            is_comparison: $comparison,
            f32: Of { forward: forward::$name::<f32>, lhs: lhs::$name::<f32>, rhs: rhs::$name::<f32> },
            f64: Of { forward: forward::$name::<f64>, lhs: lhs::$name::<f64>, rhs: rhs::$name::<f64> },
            i64: $whole,
        }),*];
    };
}

macro_rules! whole {
    (|$a:ident, $b:ident| $value:expr) => {{
        each!(of, W: WholeNumber, |$a, $b| $value);
        Some(of::<i64>)
    }};
}

/// What whole numbers are computed by.
trait WholeNumber: Copy + PartialOrd + From<i8> {
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

impl WholeNumber for i64 {
    fn plus(self, other: i64) -> i64 {
        self.wrapping_add(other)
    }

    fn minus(self, other: i64) -> i64 {
        self.wrapping_sub(other)
    }

    fn times(self, other: i64) -> i64 {
        self.wrapping_mul(other)
    }
}

/// 1 or 0.
fn truth<T: num_traits::Zero + num_traits::One>(is_so: bool) -> T {
    if is_so {
        T::one()
    } else {
        T::zero()
    }
}

table! {
    add, None, "a + b", true, false, |a, b| a + b, whole!(|a, b| a.plus(b)), |g, _a, _b| g, g;
    sub, Some("_rminus_scalar"), "a - b", true, false, |a, b| a - b, whole!(|a, b| a.minus(b)), |g, _a, _b| g, -g;
    mul, None, "a b", false, false, |a, b| a * b, whole!(|a, b| a.times(b)), |g, a, b| g * b, g * a;
    div, Some("_rdiv_scalar"), "a / b", false, false, |a, b| a / b, None, |g, a, b| g / b, -g * a / (b * b);
    power, Some("_rpower_scalar"), "a to the power b", false, false, |a, b| a.powf(b), None,
        |g, a, b| g * b * a.powf(b - T::one()), g * a.powf(b) * a.ln();
    maximum, None, "The greater of both", false, false, |a, b| if a >= b || a.is_nan() { a } else { b },
        whole!(|a, b| if a >= b { a } else { b }),
        |g, a, b| g * truth::<T>(a >= b), g * truth::<T>(a < b);
    minimum, None, "The lesser of both", false, false, |a, b| if a <= b || a.is_nan() { a } else { b },
        whole!(|a, b| if a <= b { a } else { b }),
        |g, a, b| g * truth::<T>(a <= b), g * truth::<T>(a > b);
    hypot, None, "√(a² + b²)", false, false, |a, b| a.hypot(b), None,
        |g, a, b| g * a / a.hypot(b), g * b / a.hypot(b);
    equal, None, "1 where both are equal, else 0", true, true, |a, b| truth::<T>(a == b),
        whole!(|a, b| W::from(i8::from(a == b))), |_g, _a, _b| T::zero(), T::zero();
    not_equal, None, "1 where both differ, else 0", true, true, |a, b| truth::<T>(a != b),
        whole!(|a, b| W::from(i8::from(a != b))), |_g, _a, _b| T::zero(), T::zero();
    greater, None, "1 where a > b, else 0", true, true, |a, b| truth::<T>(a > b),
        whole!(|a, b| W::from(i8::from(a > b))), |_g, _a, _b| T::zero(), T::zero();
    greater_equal, None, "1 where a ≥ b, else 0", true, true, |a, b| truth::<T>(a >= b),
        whole!(|a, b| W::from(i8::from(a >= b))), |_g, _a, _b| T::zero(), T::zero();
    lesser, None, "1 where a < b, else 0", true, true, |a, b| truth::<T>(a < b),
        whole!(|a, b| W::from(i8::from(a < b))), |_g, _a, _b| T::zero(), T::zero();
    lesser_equal, None, "1 where a ≤ b, else 0", true, true, |a, b| truth::<T>(a <= b),
        whole!(|a, b| W::from(i8::from(a <= b))), |_g, _a, _b| T::zero(), T::zero();
}
