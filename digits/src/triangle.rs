//! Cholesky factors and triangular solves of one tile, by halves.
//!
//! Each function cuts its matrix in two until a block is small. Nearly all of the work is then
//! products of rectangles, which is what the processor is good at.

use crate::lanes;
use crate::tile::{product, Part, PartMut};

/// Blocks up to this size are done column by column.
const SMALL: usize = 16;

/// A = L Lᵀ: L is left in the lower half. What is in the upper half afterwards means nothing.
///
/// # Errors
/// When the matrix is not positive definite.
pub fn cholesky(mut a: PartMut<'_>) -> Result<(), String> {
    let size = a.rows();
    if size > SMALL {
        let (left, right) = a.split_columns(half(size));
        let (mut corner, mut below) = left.split_rows(half(size));
        let (_, mut rest) = right.split_rows(half(size));
        cholesky(corner.again())?;
        divide(corner.read(), below.again());
        subtract_square(below.read(), rest.again());
        return cholesky(rest);
    }
    for column in 0..size {
        let (done, mut todo) = a.again().split_columns(column);
        let (_, mut todo) = todo.again().split_rows(column);
        let (_, done) = done.read().split_rows(column);
        let values = todo.column_mut(0);
        for other in 0..column {
            lanes::subtract(values, done.get(0, other), done.column(other));
        }
        let pivot = values[0].sqrt();
        // Also when it is not a number.
        if pivot.is_nan() || pivot <= 0.0 {
            return Err("the kernel matrix is not positive definite".to_owned());
        }
        values.iter_mut().for_each(|value| *value /= pivot);
    }
    Ok(())
}

/// The quarters of a lower half that are not zero: the upper triangle, what is below it, and the
/// lower triangle.
fn quarters<'a>(l: Part<'a>, middle: usize) -> (Part<'a>, Part<'a>, Part<'a>) {
    let (top, bottom) = l.split_rows(middle);
    let (corner, _) = top.split_columns(middle);
    let (below, rest) = bottom.split_columns(middle);
    (corner, below, rest)
}

/// A becomes A L⁻ᵀ, of the lower half of `l`.
pub fn divide(l: Part<'_>, mut a: PartMut<'_>) {
    let size = a.columns();
    if size > SMALL {
        let (corner, below, rest) = quarters(l, half(size));
        let (mut left, mut right) = a.split_columns(half(size));
        divide(corner, left.again());
        product(-1.0, left.read(), below.transposed(), 1.0, right.again());
        return divide(rest, right);
    }
    for column in 0..size {
        let (done, mut todo) = a.again().split_columns(column);
        let values = todo.column_mut(0);
        for other in 0..column {
            lanes::subtract(values, l.get(column, other), done.read().column(other));
        }
        let pivot = l.get(column, column);
        values.iter_mut().for_each(|value| *value /= pivot);
    }
}

/// A −= L Lᵀ, of which the lower half counts: the upper half is not worked out, but for small
/// blocks.
pub fn subtract_square(l: Part<'_>, a: PartMut<'_>) {
    let size = a.rows();
    if size <= 2 * SMALL {
        return product(-1.0, l, l.transposed(), 1.0, a);
    }
    let (upper, lower) = l.split_rows(half(size));
    let (left, right) = a.split_columns(half(size));
    let (corner, below) = left.split_rows(half(size));
    let (_, rest) = right.split_rows(half(size));
    subtract_square(upper, corner);
    product(-1.0, lower, upper.transposed(), 1.0, below);
    subtract_square(lower, rest);
}

/// Y becomes L⁻¹ Y.
pub fn solve(l: Part<'_>, mut y: PartMut<'_>) {
    let size = y.rows();
    if size > SMALL {
        let (corner, below, rest) = quarters(l, half(size));
        let (mut upper, mut lower) = y.split_rows(half(size));
        solve(corner, upper.again());
        product(-1.0, below, upper.read(), 1.0, lower.again());
        return solve(rest, lower);
    }
    for column in 0..y.columns() {
        let values = y.column_mut(column);
        for row in 0..size {
            let (value, later) = values[row..].split_first_mut().expect("a row below the size");
            *value /= l.get(row, row);
            for (later, factor) in later.iter_mut().zip(&l.column(row)[row + 1..]) {
                *later -= *value * factor;
            }
        }
    }
}

/// Y becomes L⁻ᵀ Y.
pub fn solve_transposed(l: Part<'_>, mut y: PartMut<'_>) {
    let size = y.rows();
    if size > SMALL {
        let (corner, below, rest) = quarters(l, half(size));
        let (mut upper, mut lower) = y.split_rows(half(size));
        solve_transposed(rest, lower.again());
        product(-1.0, below.transposed(), lower.read(), 1.0, upper.again());
        return solve_transposed(corner, upper);
    }
    for column in 0..y.columns() {
        let values = y.column_mut(column);
        for row in (0..size).rev() {
            let (value, later) = values[row..].split_first_mut().expect("a row below the size");
            let known: f64 = later.iter().zip(&l.column(row)[row + 1..]).map(|(value, factor)| value * factor).sum();
            *value = (*value - known) / l.get(row, row);
        }
    }
}

/// A little more than half of a large size, so that the upper part is a multiple of the product's
/// own blocks.
fn half(size: usize) -> usize {
    (size / 2).next_multiple_of(8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tile::Tile;

    const SIZES: [usize; 8] = [1, 2, 15, 16, 17, 33, 64, 125];

    /// A lower triangle with a strong diagonal; its upper half is not a number, so that reading it
    /// shows.
    fn lower(size: usize) -> Tile {
        Tile::from_fn(size, size, |row, column| match row.cmp(&column) {
            std::cmp::Ordering::Less => f64::NAN,
            std::cmp::Ordering::Equal => 2.0 + (row % 3) as f64,
            std::cmp::Ordering::Greater => ((row * 7 + column * 3) % 11) as f64 / (8.0 * size as f64),
        })
    }

    /// Some numbers without a pattern.
    fn dense(rows: usize, columns: usize) -> Tile {
        Tile::from_fn(rows, columns, |row, column| ((row * 31 + column * 17) % 23) as f64 - 11.0)
    }

    /// Element by element: `a` `b`, with 0 for what a triangle does not have.
    fn multiplied(a: &Tile, b: &Tile, a_at: impl Fn(usize, usize) -> f64) -> Tile {
        assert_eq!(a.columns(), b.rows());
        Tile::from_fn(a.rows(), b.columns(), |row, column| {
            (0..a.columns()).map(|k| a_at(row, k) * b[(k, column)]).sum()
        })
    }

    fn assert_close(seen: &Tile, expected: &Tile, what: &str) {
        for (seen, expected) in seen.values().iter().zip(expected.values()) {
            assert!((seen - expected).abs() <= 1e-11 * (1.0 + expected.abs()), "{what}: {seen} is not {expected}");
        }
    }

    #[test]
    fn the_factor_of_a_product_is_the_factor_it_was_made_from() {
        for size in SIZES {
            let l = lower(size);
            let at = |row: usize, column: usize| if column <= row { l[(row, column)] } else { 0.0 };
            let mut a = Tile::from_fn(size, size, |row, column| {
                // The upper half is not to be read.
                let dot = (0..size).map(|k| at(row, k) * at(column, k)).sum();
                if column > row {
                    f64::NAN
                } else {
                    dot
                }
            });
            cholesky(a.part_mut()).unwrap();
            for row in 0..size {
                for column in 0..=row {
                    let (seen, expected) = (a[(row, column)], l[(row, column)]);
                    assert!((seen - expected).abs() < 1e-12, "{size}: {seen} is not {expected}");
                }
            }
        }
    }

    #[test]
    fn a_matrix_that_is_not_positive_definite_is_refused_wherever_it_shows() {
        for size in SIZES {
            for bad in [0, size / 2, size - 1] {
                for pivot in [0.0, -1.0, f64::NAN] {
                    let mut a = Tile::from_fn(size, size, |row, column| f64::from(u8::from(row == column)));
                    a[(bad, bad)] = pivot;
                    assert!(cholesky(a.part_mut()).is_err(), "{size}, {bad}, {pivot}");
                }
            }
        }
    }

    #[test]
    fn solving_undoes_multiplying() {
        for size in SIZES {
            let l = lower(size);
            let at = |row: usize, column: usize| if column <= row { l[(row, column)] } else { 0.0 };
            let x = dense(size, 10);
            let mut y = multiplied(&l, &x, at);
            solve(l.part(), y.part_mut());
            assert_close(&y, &x, "L");
            let mut y = multiplied(&l, &x, |row, column| at(column, row));
            solve_transposed(l.part(), y.part_mut());
            assert_close(&y, &x, "Lᵀ");
            // A L⁻ᵀ is the transpose of L⁻¹ Aᵀ.
            let x = dense(29, size);
            let transposed = Tile::from_fn(size, 29, |row, column| x[(column, row)]);
            let y = multiplied(&l, &transposed, at);
            let mut a = Tile::from_fn(29, size, |row, column| y[(column, row)]);
            divide(l.part(), a.part_mut());
            assert_close(&a, &x, "A L⁻ᵀ");
        }
    }

    #[test]
    fn the_lower_half_of_a_square_is_taken_out() {
        for size in SIZES {
            let l = dense(size, 20);
            let mut a = dense(size, size);
            let before = a.clone();
            subtract_square(l.part(), a.part_mut());
            for row in 0..size {
                for column in 0..=row {
                    let dot: f64 = (0..20).map(|k| l[(row, k)] * l[(column, k)]).sum();
                    assert_eq!(a[(row, column)], before[(row, column)] - dot);
                }
            }
        }
    }
}
