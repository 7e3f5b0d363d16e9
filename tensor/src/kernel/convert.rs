//! Changes of the type of elements, on slices.
//!
//! Used by `operator/cast.rs`. A value goes by way of an `f64`, or of an `i64` between whole
//! numbers, as it does where elements are read and written one by one.

#![forbid(unsafe_code)]

use crate::dtype::Element;
use crate::kernel::simd::{self, Loops};
use half::bf16;

pub(crate) use crate::kernel::simd::{from_f16, to_f16};

/// Writes the values of one slice into another one of its length.
pub(crate) fn convert<A: Element, B: Element>(from: &[A], out: &mut [B]) {
    match A::DTYPE.is_float() && B::DTYPE.is_float() {
        true => simd::run(Converted(from, out)),
        false => each(from, out),
    }
}

/// Narrows to the upper half of the bits.
pub(crate) fn to_bf16(from: &[f32], out: &mut [bf16]) {
    simd::run(Narrowed(from, out));
}

/// Widens by zeros.
pub(crate) fn from_bf16(from: &[bf16], out: &mut [f32]) {
    simd::run(Widened(from, out));
}

#[inline(always)]
fn each<A: Element, B: Element>(from: &[A], out: &mut [B]) {
    for (out, value) in out.iter_mut().zip(from) {
        *out = match A::DTYPE.is_float() || B::DTYPE.is_float() {
            true => B::from_number(f64::from_number(value.to_number()).to_number()),
            false => B::from_number(i64::from_number(value.to_number()).to_number()),
        };
    }
}

struct Converted<'a, A, B>(&'a [A], &'a mut [B]);

impl<A: Element, B: Element> Loops for Converted<'_, A, B> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        each(self.0, self.1);
    }
}

struct Narrowed<'a>(&'a [f32], &'a mut [bf16]);

impl Loops for Narrowed<'_> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (out, value) in self.1.iter_mut().zip(self.0) {
            let bits = value.to_bits();
            // Half of the last place is added, or a bit less if the last place is even.
            let near = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16;
            let bits = if value.is_nan() { bits >> 16 | 0x40 } else { near };
            *out = bf16::from_bits(bits as u16);
        }
    }
}

struct Widened<'a>(&'a [bf16], &'a mut [f32]);

impl Loops for Widened<'_> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (out, value) in self.1.iter_mut().zip(self.0) {
            *out = f32::from_bits(u32::from(value.to_bits()) << 16);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    /// Patterns of bits of all kinds of numbers.
    fn patterns() -> Vec<f32> {
        (0..1 << 20).map(|at: u32| f32::from_bits(at.wrapping_mul(4_099) ^ (at & 0xFF) << 10)).collect()
    }

    #[test]
    fn the_bits_of_an_element_do_not_depend_on_its_place() {
        let values = patterns();
        let mut whole = vec![f16::ZERO; values.len()];
        to_f16(&values, &mut whole);
        let mut wide = vec![0.0; values.len()];
        from_f16(&whole, &mut wide);
        for (at, value) in values.iter().enumerate() {
            let (mut one, mut back) = ([f16::ZERO], [0.0]);
            to_f16(&[*value], &mut one);
            from_f16(&one, &mut back);
            assert_eq!((one[0].to_bits(), back[0].to_bits()), (whole[at].to_bits(), wide[at].to_bits()), "{value}");
        }
    }

    /// Equal, or both no numbers.
    fn assert_same<T: Element>(found: &[T], of: impl Fn(usize) -> T) {
        for (at, found) in found.iter().enumerate() {
            let (found, expected) = (f64::from_number(found.to_number()), f64::from_number(of(at).to_number()));
            assert!(found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(), "{at}: {found}");
        }
    }

    #[test]
    fn slices_are_converted_as_elements_are() {
        let values = patterns();
        let (mut halves, mut upper) = (vec![f16::ZERO; values.len()], vec![bf16::ZERO; values.len()]);
        to_f16(&values, &mut halves);
        to_bf16(&values, &mut upper);
        assert_same(&halves, |at| f16::from_number(values[at].to_number()));
        assert_same(&upper, |at| bf16::from_number(values[at].to_number()));
        assert_same(&upper, |at| bf16::from_f32(values[at]));
        let mut wide = vec![0.0; values.len()];
        from_f16(&halves, &mut wide);
        assert_same(&wide, |at| f32::from_number(halves[at].to_number()));
        from_bf16(&upper, &mut wide);
        assert_same(&wide, |at| upper[at].to_f32());
        let mut whole = vec![0i32; values.len()];
        convert(&values, &mut whole);
        assert_same(&whole, |at| values[at] as i32);
        let (large, mut float) = ([(1i64 << 60) + 1, -7, i64::MIN], [0f32; 3]);
        convert(&large, &mut float);
        assert_eq!(float, large.map(|value| value as f64 as f32));
    }
}
