//! Products of small matrices, such as the layers of a small network for one input, with a bias.
//!
//! Used by `operator/products.rs`, where a product is too small for a library that packs matrices
//! first: the packing would take longer than the product. Each element is one chain of
//! multiply-adds, or one for each lane of a register, which are added in pairs, always in the same
//! order.

#![forbid(unsafe_code)]

use crate::kernel::gemm::{Real, Sizes};
use crate::kernel::simd::{self, fused, Loops};
use pulp::{Arch, Simd, WithSimd};

/// Products with at most so many multiply-adds are small in any case.
const MOST: usize = 1 << 12;
/// The same for products of few rows with rows, and how many rows these are. Nothing is packed for
/// so few, and a row of `b` is read once for each.
const MOST_OF_FEW_ROWS: usize = 1 << 18;
const FEW_ROWS: usize = 4;
/// The same for sums of few products, such as the gradient by the weight of a layer for one input.
const MOST_OF_SHORT_SUMS: usize = 1 << 16;
const SHORT_SUM: usize = 16;

/// Whether a product is small. `turned` says which of the matrices are transposed. The README has
/// the times by which the limits were set.
pub(crate) fn is_tiny(Sizes { m, k, n }: Sizes, turned: (bool, bool)) -> bool {
    let work = m * k * n;
    match turned {
        (true, true) => false,
        (false, true) => work <= MOST || m <= FEW_ROWS && work <= MOST_OF_FEW_ROWS,
        (_, false) => work <= MOST || k <= SHORT_SUM && work <= MOST_OF_SHORT_SUMS,
    }
}

/// A product to be computed: `a` is (m, k), or (k, m) where it is turned; `b` is (k, n), or (n, k);
/// `out` is (m, n). Without a bias it has no elements.
#[derive(Debug)]
pub(crate) struct Product<'a, T> {
    pub sizes: Sizes,
    pub a: &'a [T],
    pub b: &'a [T],
    pub turned: (bool, bool),
    pub bias: &'a [T],
    pub out: &'a mut [T],
}

/// Computes a product that [`is_tiny`], and adds the bias to each row.
pub(crate) fn product<T: Tiny>(of: Product<'_, T>) {
    match of.turned.1 {
        true => T::by_columns(of),
        false => simd::run(of),
    }
}

/// The floats that small products are computed in.
pub(crate) trait Tiny: Real {
    /// A product of which `b` is transposed: elements are products of rows.
    fn by_columns(of: Product<'_, Self>);
}

/// How many rows of `b` are multiplied at a time.
const ROWS: usize = 8;

/// A product of which `b` is transposed.
struct Columns<'a, T>(Product<'a, T>);

// Loops are written out, since a closure would not be compiled for the instructions that they use.
macro_rules! tiny {
    ($type:ty, $dots:ident, $registers:ident, $part:ident, $splat:ident, $mul_add:ident, $sum:ident) => {
        impl Tiny for $type {
            fn by_columns(of: Product<'_, $type>) {
                Arch::new().dispatch(Columns(of));
            }
        }

        impl WithSimd for Columns<'_, $type> {
            type Output = ();

            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) {
                let Product { sizes: Sizes { m, k, n }, a, b, bias, out, .. } = self.0;
                for row in 0..m {
                    let (a, out) = (&a[row * k..][..k], &mut out[row * n..][..n]);
                    let mut at = 0;
                    while at + ROWS <= n {
                        out[at..at + ROWS].copy_from_slice(&$dots::<S, ROWS>(simd, a, &b[at * k..]));
                        at += ROWS;
                    }
                    while at < n {
                        [out[at]] = $dots::<S, 1>(simd, a, &b[at * k..]);
                        at += 1;
                    }
                    for (out, bias) in out.iter_mut().zip(bias) {
                        *out += *bias;
                    }
                }
            }
        }

        /// The products of a row with the next rows of its length, in lanes, which are added in
        /// pairs.
        #[inline(always)]
        fn $dots<S: Simd, const N: usize>(simd: S, a: &[$type], b: &[$type]) -> [$type; N] {
            let (k, (whole, rest)) = (a.len(), S::$registers(a));
            let (mut sums, mut rows) = ([simd.$splat(0.0); N], [whole; N]);
            for row in 0..N {
                rows[row] = &S::$registers(&b[row * k..][..k]).0[..whole.len()];
            }
            for at in 0..whole.len() {
                let a = whole[at];
                for row in 0..N {
                    sums[row] = simd.$mul_add(a, rows[row][at], sums[row]);
                }
            }
            if !rest.is_empty() {
                // Zeros stand behind the last elements.
                let last = simd.$part(rest);
                for row in 0..N {
                    let of_row = &b[(row + 1) * k - rest.len()..][..rest.len()];
                    sums[row] = simd.$mul_add(last, simd.$part(of_row), sums[row]);
                }
            }
            let mut results = [0.0; N];
            for row in 0..N {
                results[row] = simd.$sum(sums[row]);
            }
            results
        }
    };
}

tiny!(f32, dots_f32, as_simd_f32s, partial_load_f32s, splat_f32s, mul_add_f32s, reduce_sum_f32s);
tiny!(f64, dots_f64, as_simd_f64s, partial_load_f64s, splat_f64s, mul_add_f64s, reduce_sum_f64s);

impl<T: Real> Loops for Product<'_, T> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Product { sizes: Sizes { m, k, n }, a, b, turned, bias, out } = self;
        if out.is_empty() {
            return;
        }
        if k == 1 {
            // Nothing is summed. `a` is a row or a column.
            for (factor, out) in a.iter().zip(out.chunks_exact_mut(n)) {
                out.iter_mut().zip(b).for_each(|(out, b)| *out = fused::<T, FMA>(*factor, *b, T::zero()));
                out.iter_mut().zip(bias).for_each(|(out, bias)| *out = *out + *bias);
            }
            return;
        }
        for (row, out) in out.chunks_exact_mut(n).enumerate() {
            let factors = if turned.0 { (a.get(row..).unwrap_or_default(), m) } else { (&a[row * k..], 1) };
            let mut left = 0;
            left = by_rows::<T, FMA, 32>(factors, k, b, (left, out));
            left = by_rows::<T, FMA, 16>(factors, k, b, (left, out));
            left = by_rows::<T, FMA, 8>(factors, k, b, (left, out));
            by_rows::<T, FMA, 1>(factors, k, b, (left, out));
            out.iter_mut().zip(bias).for_each(|(out, bias)| *out = *out + *bias);
        }
    }
}

/// The sum of the rows of `b`, each times an element of a row or column of `a`, whose elements are
/// `step` apart: from `left` on, as long as there are `N` elements. Returns how far it has come.
#[inline(always)]
fn by_rows<T: Real, const FMA: bool, const N: usize>(
    (a, step): (&[T], usize),
    k: usize,
    b: &[T],
    (mut left, out): (usize, &mut [T]),
) -> usize {
    let n = out.len();
    while left + N <= n {
        let mut sums = [T::zero(); N];
        for p in 0..k {
            let (factor, row) = (a[p * step], &b[p * n + left..][..N]);
            for at in 0..N {
                sums[at] = fused::<T, FMA>(factor, row[at], sums[at]);
            }
        }
        out[left..left + N].copy_from_slice(&sums);
        left += N;
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::Philox;
    use rand_core::RngCore;

    #[test]
    fn products_are_small_by_their_work_few_rows_or_short_sums() {
        let is = |m, k, n, turned| is_tiny(Sizes { m, k, n }, turned);
        assert!(is(16, 16, 16, (false, false)) && is(16, 16, 16, (false, true)) && !is(2, 3, 1, (true, true)));
        assert!(is(4, 400, 120, (false, true)) && !is(5, 400, 120, (false, true)) && !is(4, 400, 120, (false, false)));
        assert!(!is(4, 1024, 128, (false, true)));
        assert!(is(120, 1, 400, (true, false)) && is(32, 16, 64, (false, false)) && !is(32, 17, 64, (true, false)));
        assert!(!is(300, 1, 400, (true, false)));
    }

    /// With the instructions of the processor and without; against a written-out loop.
    #[test]
    fn products_equal_a_written_out_loop() {
        let mut random = Philox::new(9, 9);
        let mut draw =
            |count: usize| -> Vec<f64> { (0..count).map(|_| f64::from(random.next_u32() >> 8) / 1e7).collect() };
        let sizes = [
            (1, 1, 1),
            (1, 64, 32),
            (1, 32, 10),
            (3, 30, 7),
            (2, 17, 33),
            (5, 9, 70),
            (2, 0, 3),
            (0, 3, 3),
            (4, 400, 43),
            (70, 1, 90),
            (33, 16, 59),
        ];
        let all = [(false, false), (true, false), (false, true)];
        for (m, k, n) in sizes {
            for turned in all.into_iter().filter(|turned| is_tiny(Sizes { m, k, n }, *turned)) {
                let (a, b, bias) = (draw(m * k), draw(k * n), draw(n));
                for bias in [&bias[..], &[]] {
                    let mut results = [vec![f64::NAN; m * n], vec![f64::NAN; m * n]];
                    let sizes = Sizes { m, k, n };
                    for (at, out) in results.iter_mut().enumerate() {
                        let of = Product { sizes, a: &a, b: &b, turned, bias, out };
                        match (at, turned.1) {
                            (0, _) => product(of),
                            (_, false) => of.run::<false>(),
                            (_, true) => Columns(of).with_simd(pulp::Scalar::new()),
                        }
                    }
                    for at in 0..m * n {
                        let (i, j) = (at / n, at % n);
                        let a = |p: usize| if turned.0 { a[p * m + i] } else { a[i * k + p] };
                        let b = |p: usize| if turned.1 { b[j * k + p] } else { b[p * n + j] };
                        let sum = (0..k).map(|p| a(p) * b(p)).sum::<f64>() + bias.get(j).copied().unwrap_or(0.0);
                        for out in &results {
                            assert!((out[at] - sum).abs() < 1e-12 * (1.0 + sum.abs()), "{m} {k} {n} {turned:?} {at}");
                        }
                    }
                }
            }
        }
    }
}
