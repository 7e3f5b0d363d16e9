//! Products of matrices, on one thread and always in the same order of additions.
//!
//! Used by `operator/matrix.rs`. Which loop is taken is a function of the sizes and of the
//! processor's instruction set, so a product has the same bits each time. Each element of the
//! result is one chain of multiply-adds along the inner dimension, block after block of [`KC`].
//!
//! The loops are written once. They are compiled a second time for AVX2 and FMA, and that version
//! is called where the processor has both.

#![forbid(unsafe_code)]

use crate::kernel::simd::{self, fused, Loops};
use num_traits::Float;

/// A matrix in a slice: element (i, j) is at `i * rows + j * columns`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix<'a, T> {
    pub values: &'a [T],
    pub row_stride: usize,
    pub column_stride: usize,
}

impl<'a, T: Copy> Matrix<'a, T> {
    /// One whose rows lie one after the other; or its transpose.
    pub fn of(values: &'a [T], columns: usize, is_transposed: bool) -> Matrix<'a, T> {
        match is_transposed {
            false => Matrix { values, row_stride: columns, column_stride: 1 },
            true => Matrix { values, row_stride: 1, column_stride: columns },
        }
    }

    #[inline(always)]
    fn at(&self, row: usize, column: usize) -> T {
        self.values[row * self.row_stride + column * self.column_stride]
    }
}

/// The sizes of a product: of (m, k) and (k, n).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sizes {
    pub m: usize,
    pub k: usize,
    pub n: usize,
}

/// Rows of a tile of the result.
const MR: usize = 6;
/// How much of the inner dimension is packed at a time.
const KC: usize = 256;
/// How many rows are packed at a time.
const MC: usize = 96;
/// Products with fewer multiply-adds are not packed, nor those with few rows.
const SMALL: usize = 8 * 1024;

/// The floats that products are computed in.
pub(crate) trait Real: Float + crate::dtype::Element {
    /// Computes a tile: as many columns as make two registers of AVX.
    #[doc(hidden)]
    fn product<const FMA: bool>(sizes: Sizes, a: Matrix<'_, Self>, b: Matrix<'_, Self>, out: Out<'_, Self>);
}

impl Real for f32 {
    #[inline(always)]
    fn product<const FMA: bool>(sizes: Sizes, a: Matrix<'_, f32>, b: Matrix<'_, f32>, out: Out<'_, f32>) {
        product::<f32, 16, FMA>(sizes, a, b, out);
    }
}

impl Real for f64 {
    #[inline(always)]
    fn product<const FMA: bool>(sizes: Sizes, a: Matrix<'_, f64>, b: Matrix<'_, f64>, out: Out<'_, f64>) {
        product::<f64, 8, FMA>(sizes, a, b, out);
    }
}

/// Where a product goes: rows one after the other, and whether it is added to what is there.
#[derive(Debug)]
pub(crate) struct Out<'a, T> {
    pub values: &'a mut [T],
    pub adds: bool,
    /// At least [`scratch`] elements.
    pub scratch: &'a mut [T],
}

/// How many elements of scratch a product needs.
pub(crate) fn scratch(sizes: Sizes) -> usize {
    if is_small(sizes) {
        return sizes.n;
    }
    KC * sizes.n.next_multiple_of(16) + KC * MC
}

fn is_small(Sizes { m, k, n }: Sizes) -> bool {
    m < 4 || m * k * n < SMALL
}

/// A product that is to be computed.
struct Product<'a, T> {
    sizes: Sizes,
    a: Matrix<'a, T>,
    b: Matrix<'a, T>,
    out: Out<'a, T>,
}

impl<T: Real> Loops for Product<'_, T> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        T::product::<FMA>(self.sizes, self.a, self.b, self.out);
    }
}

/// Computes a product.
pub(crate) fn gemm<'a, T: Real>(sizes: Sizes, a: Matrix<'a, T>, b: Matrix<'a, T>, out: Out<'a, T>) {
    simd::run(Product { sizes, a, b, out });
}

#[inline(always)]
fn product<T: Real, const NR: usize, const FMA: bool>(
    sizes: Sizes,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    out: Out<'_, T>,
) {
    let Sizes { m, k, n } = sizes;
    let Out { values, adds, scratch } = out;
    let values = &mut values[..m * n];
    if !adds {
        values.fill(T::zero());
    }
    if m * n * k == 0 {
        return;
    }
    if is_small(sizes) {
        return small::<T, FMA>(sizes, a, b, values, scratch);
    }
    let (packed_b, packed_a) = scratch.split_at_mut(KC * n.next_multiple_of(NR));
    for first in (0..k).step_by(KC) {
        let depth = KC.min(k - first);
        pack_b::<T, NR>(b, first, depth, n, packed_b);
        for top in (0..m).step_by(MC) {
            let rows = MC.min(m - top);
            pack_a(a, first, depth, top, rows, packed_a);
            for (panel, left) in (0..n).step_by(NR).enumerate() {
                let b = &packed_b[panel * depth * NR..][..depth * NR];
                for (panel, up) in (0..rows).step_by(MR).enumerate() {
                    let tile = tile::<T, NR, FMA>(&packed_a[panel * depth * MR..][..depth * MR], b);
                    for (row, sums) in tile.iter().enumerate().take(rows - up) {
                        let at = (top + up + row) * n + left;
                        let out = &mut values[at..at + NR.min(n - left)];
                        out.iter_mut().zip(sums).for_each(|(out, sum)| *out = *out + *sum);
                    }
                }
            }
        }
    }
}

/// Sums of products along the packed depth.
#[inline(always)]
fn tile<T: Float, const NR: usize, const FMA: bool>(a: &[T], b: &[T]) -> [[T; NR]; MR] {
    let mut sums = [[T::zero(); NR]; MR];
    for (a, b) in a.chunks_exact(MR).zip(b.chunks_exact(NR)) {
        for row in 0..MR {
            for column in 0..NR {
                sums[row][column] = fused::<T, FMA>(a[row], b[column], sums[row][column]);
            }
        }
    }
    sums
}

/// Panels of `NR` columns, row after row; columns beyond the last are zero.
#[inline(always)]
fn pack_b<T: Real, const NR: usize>(b: Matrix<'_, T>, first: usize, depth: usize, n: usize, into: &mut [T]) {
    for (panel, left) in (0..n).step_by(NR).enumerate() {
        let panel = &mut into[panel * depth * NR..][..depth * NR];
        let columns = NR.min(n - left);
        for (row, into) in panel.chunks_exact_mut(NR).enumerate() {
            if b.column_stride == 1 {
                let at = (first + row) * b.row_stride + left;
                into[..columns].copy_from_slice(&b.values[at..at + columns]);
            } else {
                (0..columns).for_each(|column| into[column] = b.at(first + row, left + column));
            }
            into[columns..].fill(T::zero());
        }
    }
}

/// Panels of `MR` rows, column after column; rows beyond the last are zero.
#[inline(always)]
fn pack_a<T: Real>(a: Matrix<'_, T>, first: usize, depth: usize, top: usize, rows: usize, into: &mut [T]) {
    for (panel, up) in (0..rows).step_by(MR).enumerate() {
        let panel = &mut into[panel * depth * MR..][..depth * MR];
        let count = MR.min(rows - up);
        for (column, into) in panel.chunks_exact_mut(MR).enumerate() {
            (0..count).for_each(|row| into[row] = a.at(top + up + row, first + column));
            into[count..].fill(T::zero());
        }
    }
}

/// How many sums a product of two rows is kept in.
const LANES: usize = 8;

/// The product of two rows of one length, in lanes, which are added in pairs.
#[inline(always)]
fn dot<T: Float, const FMA: bool>(a: &[T], b: &[T]) -> T {
    let mut sums = [T::zero(); LANES];
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = a.remainder().iter().zip(b.remainder());
    for (a, b) in a.zip(b) {
        for lane in 0..LANES {
            sums[lane] = fused::<T, FMA>(a[lane], b[lane], sums[lane]);
        }
    }
    sums.iter_mut().zip(rest).for_each(|(sum, (a, b))| *sum = fused::<T, FMA>(*a, *b, *sum));
    paired(sums)
}

#[inline(always)]
fn paired<T: Float>([a0, a1, a2, a3, a4, a5, a6, a7]: [T; LANES]) -> T {
    ((a0 + a4) + (a2 + a6)) + ((a1 + a5) + (a3 + a7))
}

/// Without packing: a row of the result is a sum of rows, or of products of rows.
#[inline(always)]
fn small<T: Real, const FMA: bool>(sizes: Sizes, a: Matrix<'_, T>, b: Matrix<'_, T>, out: &mut [T], row: &mut [T]) {
    let Sizes { m, k, n } = sizes;
    for i in 0..m {
        if b.column_stride == 1 || b.row_stride != 1 {
            let sums = &mut row[..n];
            sums.fill(T::zero());
            for p in 0..k {
                let factor = a.at(i, p);
                if b.column_stride == 1 {
                    let of = &b.values[p * b.row_stride..][..n];
                    sums.iter_mut().zip(of).for_each(|(sum, b)| *sum = fused::<T, FMA>(factor, *b, *sum));
                } else {
                    (0..n).for_each(|j| sums[j] = fused::<T, FMA>(factor, b.at(p, j), sums[j]));
                }
            }
            out[i * n..][..n].iter_mut().zip(sums).for_each(|(out, sum)| *out = *out + *sum);
            continue;
        }
        // Columns of `b` lie one after the other.
        let column = |j: usize| &b.values[j * b.column_stride..][..k];
        let out = &mut out[i * n..][..n];
        if a.column_stride == 1 {
            let row = &a.values[i * a.row_stride..][..k];
            out.iter_mut().enumerate().for_each(|(j, out)| *out = *out + dot::<T, FMA>(row, column(j)));
            continue;
        }
        for (j, out) in out.iter_mut().enumerate() {
            let of = column(j);
            let mut sums = [T::zero(); LANES];
            let whole = k / LANES * LANES;
            for (p, b) in of.iter().enumerate() {
                let lane = if p < whole { p % LANES } else { p - whole };
                sums[lane] = fused::<T, FMA>(a.at(i, p), *b, sums[lane]);
            }
            *out = *out + paired(sums);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::Philox;
    use rand_core::RngCore;

    #[test]
    fn products_equal_a_written_out_loop() {
        let mut random = Philox::new(9, 9);
        let mut draw =
            |count: usize| -> Vec<f64> { (0..count).map(|_| f64::from(random.next_u32() >> 8) / 1e7).collect() };
        let sizes = [
            (1, 1, 1),
            (1, 64, 32),
            (3, 300, 7),
            (6, 16, 16),
            (7, 17, 33),
            (32, 64, 10),
            (50, 300, 70),
            (100, 520, 40),
        ];
        for (m, k, n) in sizes.into_iter().chain([(0, 3, 3), (3, 0, 3), (3, 3, 0)]) {
            for (turned_a, turned_b, adds) in
                [(false, false, false), (true, false, true), (false, true, true), (true, true, false)]
            {
                let (a, b, before) = (draw(m * k), draw(k * n), draw(m * n));
                let (a, b) = (
                    Matrix::of(&a, if turned_a { m } else { k }, turned_a),
                    Matrix::of(&b, if turned_b { k } else { n }, turned_b),
                );
                let sizes = Sizes { m, k, n };
                let (mut out, mut scratch) = (before.clone(), vec![0.0; scratch(sizes)]);
                gemm(sizes, a, b, Out { values: &mut out, adds, scratch: &mut scratch });
                let mut plain = before.clone();
                f64::product::<false>(sizes, a, b, Out { values: &mut plain, adds, scratch: &mut scratch });
                for (at, (value, plain)) in out.iter().zip(&plain).enumerate() {
                    let products = (0..k).map(|p| a.at(at / n, p) * b.at(p, at % n));
                    let expected = products.sum::<f64>() + if adds { before[at] } else { 0.0 };
                    let near = 1e-12 * (1.0 + expected.abs());
                    assert!((value - expected).abs() < near && (plain - expected).abs() < near, "{sizes:?}: {at}");
                }
            }
        }
    }
}
