//! What becomes of the elements along the axes that a reduction takes away: [`fold`], by rows or by
//! columns, as they lie in memory. Both ways give the same bits.
//!
//! Used by `reduction.rs`, which cuts long arrays into parts.

#![forbid(unsafe_code)]

use crate::dtype::{Element, Number};
use crate::error::Error;
use crate::kernel::extreme::{beats, extreme, place, Extremes};
use crate::kernel::tree::{leaf_sum, Columns, Tree, LEAF};
use crate::ndarray::access::Blob;
use crate::ndarray::cursor::Reader;
use crate::operator::parts::Workers;
use crate::shape::{Layout, Shape};
use num_traits::Num;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Sum,
    Mean,
    Prod,
    Max,
    Min,
    Norm,
    ArgMax,
    ArgMin,
}

/// The numbers that reductions compute with.
pub(super) trait Work: Element + Num + PartialOrd {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn root(self) -> Self;
}

macro_rules! work {
    ($($type:ty, |$a:ident, $b:ident| $plus:expr, $times:expr, |$x:ident| $root:expr;)*) => {$(
        impl Work for $type {
            #[inline]
            fn plus(self, other: $type) -> $type {
                let ($a, $b) = (self, other);
                $plus
            }

            #[inline]
            fn times(self, other: $type) -> $type {
                let ($a, $b) = (self, other);
                $times
            }

            fn root(self) -> $type {
                let $x = self;
                $root
            }
        }
    )*};
}

work! {
    f32, |a, b| a + b, a * b, |x| x.sqrt();
    f64, |a, b| a + b, a * b, |x| x.sqrt();
    i64, |a, b| a.wrapping_add(b), a.wrapping_mul(b), |x| x;
}

pub(super) fn is_sum(kind: Kind) -> bool {
    matches!(kind, Kind::Sum | Kind::Mean | Kind::Norm)
}

/// Adds the next elements to a sum, or their squares for a norm: whole leaves, but for the last.
pub(super) fn add<W: Work>(kind: Kind, tree: &mut Tree<W>, values: &[W]) {
    match kind {
        Kind::Norm => tree.add_leaves(values, |value| value.times(value), W::plus),
        _ => tree.add_leaves(values, |value| value, W::plus),
    }
}

/// What a sum of so many elements becomes.
pub(super) fn finish<W: Work>(kind: Kind, sum: W, count: usize) -> W {
    match kind {
        Kind::Mean => sum / number(count),
        Kind::Norm => sum.root(),
        _ => sum,
    }
}

fn number<W: Work>(value: usize) -> W {
    W::from_number(Number::Whole(value as i64))
}

fn is_greatest(kind: Kind) -> bool {
    matches!(kind, Kind::Max | Kind::ArgMax)
}

fn is_place(kind: Kind) -> bool {
    matches!(kind, Kind::ArgMax | Kind::ArgMin)
}

/// Writes the reductions of the elements along `gone`, one for each place of `kept`.
pub(super) fn fold<W: Work>(
    workers: Workers<'_>,
    kind: Kind,
    from: &Blob<'_>,
    (kept, gone): (&Layout, &Layout),
    results: &mut [W],
) -> Result<(), Error> {
    let count = gone.shape.size();
    let (by_columns, rows) = (kept.merged(), gone.merged());
    let last = |layout: &Layout| Some(layout.strides[layout.shape.rank().checked_sub(1)?].unsigned_abs());
    if last(&rows).is_some_and(|down| last(&by_columns).is_some_and(|right| right < down)) && !results.is_empty() {
        return fold_columns(workers, kind, from, (&by_columns, &rows), results);
    }
    let mut reader = from.reader_along::<W>(&kept.before(gone)?);
    results.iter_mut().for_each(|result| *result = fold_row(kind, &mut reader, count));
    Ok(())
}

/// So many elements are one leaf of a tree, which need not be made.
const FEW: usize = 32;

/// The reduction of the next elements.
fn fold_row<W: Work>(kind: Kind, reader: &mut Reader<'_, W>, count: usize) -> W {
    let mut few = [W::default(); FEW];
    if matches!(kind, Kind::Sum | Kind::Mean) && count <= FEW {
        return finish(kind, leaf_sum(reader.next(count, &mut few), &|value| value, &W::plus), count);
    }
    let (mut tree, mut product, mut best, mut at) = (Tree::new(), W::one(), None, 0);
    let mut each = |values: &[W]| match kind {
        _ if is_sum(kind) => add(kind, &mut tree, values),
        Kind::Prod => product = values.iter().fold(product, |product, value| product.times(*value)),
        _ => {
            let found = if is_place(kind) { place(values, is_greatest(kind)) } else { 0 };
            let value = if is_place(kind) { values[found] } else { extreme(values, is_greatest(kind)) };
            if best.is_none_or(|(best, _)| beats(value, best, is_greatest(kind))) {
                best = Some((value, at + found));
            }
            at += values.len();
        }
    };
    if reader.run() >= count {
        if count > 0 {
            each(reader.next(count, &mut []));
        }
    } else {
        let (mut leaf, mut left) = ([W::default(); LEAF], count);
        while left > 0 {
            let length = left.min(LEAF);
            each(reader.next(length, &mut leaf));
            left -= length;
        }
    }
    match (kind, best) {
        (Kind::Prod, _) => product,
        (_, Some((value, place))) => {
            if is_place(kind) {
                number(place)
            } else {
                value
            }
        }
        _ => finish(kind, tree.sum(W::plus), count),
    }
}

/// How many columns are reduced together.
const COLUMNS: usize = 256;
/// How many elements of rows are looked at together, if not many more lie one after the other.
const ROWS: usize = 1024;

/// The same where columns lie closer together than the elements of one: row by row. `kept` has an
/// axis, and its last one is that of the columns.
fn fold_columns<W: Work>(
    workers: Workers<'_>,
    kind: Kind,
    from: &Blob<'_>,
    (kept, gone): (&Layout, &Layout),
    results: &mut [W],
) -> Result<(), Error> {
    let (count, last) = (gone.shape.size(), kept.shape.rank() - 1);
    let columns = kept.shape.dims()[last];
    let mut scratch = workers.scratch::<W>(columns.min(COLUMNS) * Columns::<W>::room(count))?;
    let mut done = 0;
    for results in results.chunks_mut(columns).flat_map(|row| row.chunks_mut(COLUMNS)) {
        let mut of_columns = Layout { offset: kept.place(done), ..Layout::contiguous(Shape::new(&[results.len()])?) };
        of_columns.strides[0] = kept.strides[last];
        let mut layout = gone.before(&of_columns)?;
        layout.offset = of_columns.offset;
        let mut reader = from.reader_along::<W>(&layout);
        columns_of(kind, &mut reader, count, scratch.as_mut_slice(), results);
        done += results.len();
    }
    Ok(())
}

/// The reductions of as many columns as there are results, of so many rows.
fn columns_of<W: Work>(kind: Kind, reader: &mut Reader<'_, W>, count: usize, scratch: &mut [W], results: &mut [W]) {
    let (columns, mut buffer) = (results.len(), [W::default(); ROWS]);
    let mut at = 0;
    // Rows that lie one after the other are taken where they are, and others through the buffer.
    let mut each_rows = |each: &mut dyn FnMut(&[W], usize)| {
        while at < count {
            let rows = (reader.run().max(ROWS) / columns).min(count - at);
            each(reader.next(rows * columns, &mut buffer), at);
            at += rows;
        }
    };
    match kind {
        Kind::Sum | Kind::Mean | Kind::Norm => {
            let mut sums = Columns::new(scratch, columns);
            match kind {
                Kind::Norm => each_rows(&mut |rows, _| sums.add(rows, |value| value.times(value), W::plus)),
                _ => each_rows(&mut |rows, _| sums.add(rows, |value| value, W::plus)),
            }
            sums.finish(results, W::plus);
            results.iter_mut().for_each(|result| *result = finish(kind, *result, count));
        }
        Kind::Prod => {
            results.fill(W::one());
            each_rows(&mut |rows, _| {
                for row in rows.chunks_exact(columns) {
                    results.iter_mut().zip(row).for_each(|(product, value)| *product = product.times(*value));
                }
            });
        }
        _ => {
            let other = &mut scratch[..columns];
            let (best, places) = if is_place(kind) { (other, results) } else { (results, other) };
            let mut extremes = Extremes { best, places, is_greatest: is_greatest(kind) };
            each_rows(&mut |rows, first| {
                for (at, row) in rows.chunks_exact(columns).enumerate() {
                    extremes.add(row, number(first + at), first + at == 0);
                }
            });
        }
    }
}
