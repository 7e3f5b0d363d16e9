//! Products of matrices, by the crate faer, on one thread each.
//!
//! Used by `convolve.rs` and `operator/products.rs`, which cuts long products into parts. faer
//! chooses its instructions by the processor, and its loops by the sizes and strides, so a product
//! has the same bits each time on one machine. The README says why it is faer.

#![forbid(unsafe_code)]

use faer::{linalg::matmul::matmul, Accum, Par};
pub(crate) use faer::{MatMut, MatRef};
use num_traits::Float;

/// The sizes of a product: of (m, k) and (k, n).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sizes {
    pub m: usize,
    pub k: usize,
    pub n: usize,
}

/// The floats that products are computed in.
pub(crate) trait Real: Float + crate::dtype::Element {
    #[doc(hidden)]
    fn product(out: MatMut<'_, Self>, how: Accum, a: MatRef<'_, Self>, b: MatRef<'_, Self>);

    /// A mask that lets a number through, or not.
    fn mask(lets_through: bool) -> Self;

    /// The number, or zero where the mask does not let it through.
    fn masked(self, mask: Self) -> Self;
}

macro_rules! real {
    ($($type:ty),*) => {$(
        impl Real for $type {
            fn product(out: MatMut<'_, $type>, how: Accum, a: MatRef<'_, $type>, b: MatRef<'_, $type>) {
                matmul(out, how, a, b, 1.0, Par::Seq);
            }

            #[inline(always)]
            fn mask(lets_through: bool) -> $type {
                <$type>::from_bits(if lets_through { !0 } else { 0 })
            }

            #[inline(always)]
            fn masked(self, mask: $type) -> $type {
                <$type>::from_bits(self.to_bits() & mask.to_bits())
            }
        }
    )*};
}

real!(f32, f64);

/// A matrix of so many rows and columns; its elements lie row after row, or column after column if
/// it is transposed.
pub(crate) fn matrix<T>(values: &[T], rows: usize, columns: usize, is_transposed: bool) -> MatRef<'_, T> {
    let values = &values[..rows * columns];
    match is_transposed {
        false => MatRef::from_row_major_slice(values, rows, columns),
        true => MatRef::from_column_major_slice(values, rows, columns),
    }
}

/// A matrix to be written, whose elements lie row after row.
pub(crate) fn matrix_mut<T>(values: &mut [T], rows: usize, columns: usize) -> MatMut<'_, T> {
    MatMut::from_row_major_slice_mut(&mut values[..rows * columns], rows, columns)
}

/// Writes a product, or adds it to what is there.
pub(crate) fn gemm<T: Real>(a: MatRef<'_, T>, b: MatRef<'_, T>, out: MatMut<'_, T>, adds: bool) {
    T::product(out, if adds { Accum::Add } else { Accum::Replace }, a, b);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::Philox;
    use rand_core::RngCore;

    const SIZES: [(usize, usize, usize); 15] = [
        (1, 1, 1),
        (1, 64, 32),
        (2, 3, 1),
        (3, 300, 7),
        (6, 16, 16),
        (6, 25, 576),
        (7, 17, 33),
        (16, 150, 64),
        (32, 64, 10),
        (50, 300, 70),
        (100, 520, 40),
        (120, 400, 1),
        (0, 3, 3),
        (3, 0, 3),
        (3, 3, 0),
    ];
    const TURNS: [(bool, bool, bool); 4] =
        [(false, false, false), (true, false, true), (false, true, true), (true, true, false)];

    fn drawn(count: usize, random: &mut Philox) -> Vec<f64> {
        (0..count).map(|_| f64::from(random.next_u32() >> 8) / 1e7).collect()
    }

    #[test]
    fn products_equal_a_written_out_loop() {
        let mut random = Philox::new(9, 9);
        for (m, k, n) in SIZES {
            for (turned_a, turned_b, adds) in TURNS {
                let [a, b, before] = [m * k, k * n, m * n].map(|count| drawn(count, &mut random));
                let (a, b) = (matrix(&a, m, k, turned_a), matrix(&b, k, n, turned_b));
                let mut out = if adds { before.clone() } else { vec![f64::NAN; m * n] };
                gemm(a, b, matrix_mut(&mut out, m, n), adds);
                for (at, value) in out.iter().enumerate() {
                    let products = (0..k).map(|p| a[(at / n, p)] * b[(p, at % n)]);
                    let expected = products.sum::<f64>() + if adds { before[at] } else { 0.0 };
                    assert!((value - expected).abs() < 1e-12 * (1.0 + expected.abs()), "{m} {k} {n}: {at}");
                }
            }
        }
    }

    /// Neither where the elements lie in memory nor what was there before changes a bit.
    #[test]
    fn products_have_the_same_bits_wherever_they_lie() {
        let mut random = Philox::new(9, 10);
        for (m, k, n) in SIZES {
            for (turned_a, turned_b, _) in TURNS {
                let [a, b] = [m * k, k * n].map(|count| drawn(count, &mut random));
                let of = |shift: usize| -> Vec<u32> {
                    let moved = |values: &[f64]| {
                        let values = values.iter().map(|value| *value as f32);
                        std::iter::repeat_n(0.0, shift).chain(values).collect::<Vec<f32>>()
                    };
                    let (a, b, mut out) = (moved(&a), moved(&b), vec![f32::NAN; shift + m * n]);
                    let (a, b) = (matrix(&a[shift..], m, k, turned_a), matrix(&b[shift..], k, n, turned_b));
                    gemm(a, b, matrix_mut(&mut out[shift..], m, n), false);
                    out[shift..].iter().map(|value| value.to_bits()).collect()
                };
                let first = of(0);
                assert!([1, 3, 4, 7].iter().all(|shift| of(*shift) == first), "{m} {k} {n}");
            }
        }
    }

    #[test]
    fn what_is_no_number_stays_so() {
        for (m, k, n) in [(1, 2, 1), (3, 5, 4), (40, 64, 40), (64, 300, 70)] {
            let (mut a, mut b) = (vec![0.0f32; m * k], vec![1.0f32; k * n]);
            b[0] = f32::INFINITY;
            a[(m - 1) * k + 1] = f32::NAN;
            let mut out = vec![f32::NAN; m * n];
            gemm(matrix(&a, m, k, false), matrix(&b, k, n, false), matrix_mut(&mut out, m, n), false);
            // Zero times infinity is no number, in column 0; and row m - 1 has one that is none.
            for (at, value) in out.iter().enumerate() {
                let is_number = at % n != 0 && at / n != m - 1;
                assert_eq!(!value.is_nan(), is_number, "{m} {k} {n}: {at} is {value}");
                assert!(value.is_nan() || *value == 0.0);
            }
        }
    }
}
