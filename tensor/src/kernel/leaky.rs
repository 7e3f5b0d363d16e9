//! Functions that let something of negative numbers through, and their gradients, on slices.
//!
//! Used by `operator/layers/leaky.rs`.

#![forbid(unsafe_code)]

use crate::kernel::math::Math;
use crate::kernel::simd::{self, Loops};

/// Such a function.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Leaky<T> {
    /// x times the share of the normal distribution below x.
    Gelu,
    /// Above 0 `scale` times x, and else `scale * slope` times eˣ - 1.
    Elu { scale: T, slope: T },
    /// Above 0 x, and else `slope` times x.
    Linear { slope: T },
}

impl<T: Math> Leaky<T> {
    /// Writes the values.
    pub fn forward(self, x: &[T], out: &mut [T]) {
        simd::run(Forward { of: self, x, out });
    }

    /// Writes the gradients by what the values were computed from.
    pub fn backward(self, grad: &[T], x: &[T], out: &mut [T]) {
        simd::run(Backward { of: self, grad, x, out });
    }
}

struct Forward<'a, T> {
    of: Leaky<T>,
    x: &'a [T],
    out: &'a mut [T],
}

impl<T: Math> Loops for Forward<'_, T> {
    const WIDE: bool = true;

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let pairs = self.out.iter_mut().zip(self.x);
        match self.of {
            Leaky::Gelu => {
                for (out, x) in pairs {
                    *out = x.gelu_by::<FMA>().0;
                }
            }
            Leaky::Elu { scale, slope } => {
                let slope = scale * slope;
                for (out, x) in pairs {
                    let below = slope * x.exp_m1_by::<FMA>();
                    *out = if *x > T::zero() { scale * *x } else { below };
                }
            }
            Leaky::Linear { slope } => {
                for (out, x) in pairs {
                    *out = if *x > T::zero() { *x } else { slope * *x };
                }
            }
        }
    }
}

struct Backward<'a, T> {
    of: Leaky<T>,
    grad: &'a [T],
    x: &'a [T],
    out: &'a mut [T],
}

impl<T: Math> Loops for Backward<'_, T> {
    const WIDE: bool = true;

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let all = self.out.iter_mut().zip(self.grad).zip(self.x);
        match self.of {
            Leaky::Gelu => {
                for ((out, grad), x) in all {
                    *out = *grad * x.gelu_by::<FMA>().1;
                }
            }
            Leaky::Elu { scale, slope } => {
                let slope = scale * slope;
                for ((out, grad), x) in all {
                    let below = slope * x.exp_by::<FMA>();
                    *out = *grad * if *x > T::zero() { scale } else { below };
                }
            }
            Leaky::Linear { slope } => {
                for ((out, grad), x) in all {
                    *out = *grad * if *x > T::zero() { T::one() } else { slope };
                }
            }
        }
    }
}
