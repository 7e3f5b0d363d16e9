//! How operators compute products of matrices: small ones by `kernel/tiny.rs`, others by
//! `kernel/gemm.rs`, and long ones in parts.
//!
//! Used by `matrix.rs`. An array whose elements do not lie one after the other, or are floats of 16
//! bits, is first copied into scratch.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::Error;
use crate::kernel::gemm::{gemm, matrix, matrix_mut, MatMut, Real, Sizes};
use crate::kernel::tiny::{self, is_tiny, Tiny};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::ordered::{write, Ordered};
use crate::operator::parts::{self, MOST};
use crate::operator::property::OpContext;
use crate::request::OpReq;
use smallvec::SmallVec;

/// A factor: its blob, and whether it is transposed.
pub(super) type Factor<'a> = (&'a Blob<'a>, bool);

/// Writes as many products of matrices as `count` says, each behind the other. Long ones are cut:
/// between the products, or each into blocks of its rows and columns.
pub(super) fn products(
    ctx: &OpContext<'_, '_>,
    count: usize,
    sizes: Sizes,
    (a, b): (Factor<'_>, Factor<'_>),
    out: &mut BlobMut<'_>,
    req: OpReq,
) -> Result<(), Error> {
    fn all<T: Real>(
        ctx: &OpContext<'_, '_>,
        count: usize,
        sizes: Sizes,
        ((a, turned_a), (b, turned_b)): (Factor<'_>, Factor<'_>),
        out: &mut BlobMut<'_>,
        req: OpReq,
    ) -> Result<(), Error> {
        let Sizes { m, k, n } = sizes;
        let (mut a, mut b) = (Ordered::<T>::new(ctx, a)?, Ordered::<T>::new(ctx, b)?);
        let (a, b, workers) = (a.get(), b.get(), ctx.workers());
        let factors = |number: usize| {
            (matrix(&a[number * m * k..], m, k, turned_a), matrix(&b[number * k * n..], k, n, turned_b))
        };
        let parts = parts::of_products(count * m * k * n);
        write(ctx, out, req, |values: &mut [T]| {
            if count < parts {
                for number in 0..count {
                    let (a, b) = factors(number);
                    let out = matrix_mut(&mut values[number * m * n..], m, n);
                    workers.run(blocks(out, parts), |Block { out, row, column }| {
                        let (rows, columns) = (out.nrows(), out.ncols());
                        gemm(a.subrows(row, rows), b.subcols(column, columns), out, false);
                        Ok(())
                    })?;
                }
                return Ok(());
            }
            let each = count.div_ceil(parts);
            workers.run(values.chunks_mut((each * m * n).max(1)).enumerate(), |(part, values)| {
                for (within, values) in values.chunks_mut(m * n).enumerate() {
                    let (a, b) = factors(part * each + within);
                    gemm(a, b, matrix_mut(values, m, n), false);
                }
                Ok(())
            })
        })
    }
    if req.is_null() {
        return Ok(());
    }
    match out.dtype() {
        _ if is_tiny(sizes, (a.1, b.1)) && count == 1 => tiny_product(ctx, sizes, (a, b), None, out, req),
        DType::F64 => all::<f64>(ctx, count, sizes, (a, b), out, req),
        _ => all::<f32>(ctx, count, sizes, (a, b), out, req),
    }
}

/// Writes a small product, plus a bias for each row.
pub(super) fn tiny_product(
    ctx: &OpContext<'_, '_>,
    sizes: Sizes,
    factors: (Factor<'_>, Factor<'_>),
    bias: Option<&Blob<'_>>,
    out: &mut BlobMut<'_>,
    req: OpReq,
) -> Result<(), Error> {
    fn of<T: Tiny>(
        ctx: &OpContext<'_, '_>,
        sizes: Sizes,
        ((a, turned_a), (b, turned_b)): (Factor<'_>, Factor<'_>),
        bias: Option<&Blob<'_>>,
        out: &mut BlobMut<'_>,
        req: OpReq,
    ) -> Result<(), Error> {
        let turned = (turned_a, turned_b);
        // By `Ordered` too, but for its room for copies: that took 100 ns more.
        let slices = (a.as_slice::<T>(), b.as_slice::<T>(), bias.map_or(Some(&[][..]), Blob::as_slice));
        if let ((Some(a), Some(b), Some(bias)), true) = (slices, req.overwrites()) {
            if let Some(out) = out.as_mut_slice() {
                tiny::product(tiny::Product { sizes, a, b, turned, bias, out });
                return Ok(());
            }
        }
        let (mut a, mut b) = (Ordered::<T>::new(ctx, a)?, Ordered::<T>::new(ctx, b)?);
        let mut bias = bias.map(|bias| Ordered::<T>::new(ctx, bias)).transpose()?;
        let (a, b) = (a.get(), b.get());
        let bias = bias.as_mut().map_or(&[][..], Ordered::get);
        write(ctx, out, req, |out| {
            tiny::product(tiny::Product { sizes, a, b, turned, bias, out });
            Ok(())
        })
    }
    match out.dtype() {
        DType::F64 => of::<f64>(ctx, sizes, factors, bias, out, req),
        _ => of::<f32>(ctx, sizes, factors, bias, out, req),
    }
}

/// A block of a product, and where it begins.
struct Block<'a, T> {
    out: MatMut<'a, T>,
    row: usize,
    column: usize,
}

/// Cuts a product into at most so many blocks, a power of two: the longer side is halved each time.
fn blocks<T>(out: MatMut<'_, T>, parts: usize) -> SmallVec<[Block<'_, T>; MOST]> {
    let (mut rows, mut columns) = (out.nrows(), out.ncols());
    for _ in 0..parts.ilog2() {
        let longer = if rows >= columns { &mut rows } else { &mut columns };
        // Whole registers of elements.
        *longer = longer.div_ceil(2).next_multiple_of(16);
    }
    let (mut blocks, mut below, mut row) = (SmallVec::new(), out, 0);
    while below.nrows() > 0 {
        let high = rows.min(below.nrows());
        let (mut right, rest) = below.split_at_row_mut(high);
        let mut column = 0;
        while right.ncols() > 0 {
            let wide = columns.min(right.ncols());
            let (out, rest) = right.split_at_col_mut(wide);
            blocks.push(Block { out, row, column });
            (column, right) = (column + columns, rest);
        }
        (row, below) = (row + rows, rest);
    }
    blocks
}
