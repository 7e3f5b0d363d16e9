//! Dense blocks of numbers, parts of them, and the product of two parts.
//!
//! All unsafe code of this program about memory is here: a part may be cut by rows, which a slice
//! cannot be, so parts hold addresses.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A dense block of numbers, column after column.
#[derive(Clone, Debug, Default)]
pub struct Tile {
    rows: usize,
    columns: usize,
    values: Vec<f64>,
}

impl Tile {
    pub fn zeros(rows: usize, columns: usize) -> Tile {
        Tile { rows, columns, values: vec![0.0; rows * columns] }
    }

    pub fn from_fn(rows: usize, columns: usize, value: impl Fn(usize, usize) -> f64) -> Tile {
        let places = (0..columns).flat_map(|column| (0..rows).map(move |row| (row, column)));
        Tile { rows, columns, values: places.map(|(row, column)| value(row, column)).collect() }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    /// All values, column after column.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    pub fn column(&self, column: usize) -> &[f64] {
        &self.values[column * self.rows..][..self.rows]
    }

    pub fn column_mut(&mut self, column: usize) -> &mut [f64] {
        &mut self.values[column * self.rows..][..self.rows]
    }

    /// The sum of the squares of all values.
    pub fn squared_norm(&self) -> f64 {
        self.values.iter().map(|value| value * value).sum()
    }

    /// All of it, to be read.
    pub fn part(&self) -> Part<'_> {
        let (rows, columns) = (self.rows, self.columns);
        Part { at: self.values.as_ptr(), rows, columns, down: 1, right: rows, lent: PhantomData }
    }

    /// All of it, to be changed.
    pub fn part_mut(&mut self) -> PartMut<'_> {
        let (rows, columns) = (self.rows, self.columns);
        PartMut { at: self.values.as_mut_ptr(), rows, columns, right: rows, lent: PhantomData }
    }
}

impl Index<(usize, usize)> for Tile {
    type Output = f64;

    fn index(&self, (row, column): (usize, usize)) -> &f64 {
        &self.column(column)[row]
    }
}

impl IndexMut<(usize, usize)> for Tile {
    fn index_mut(&mut self, (row, column): (usize, usize)) -> &mut f64 {
        &mut self.column_mut(column)[row]
    }
}

/// A rectangle of a tile that is read, perhaps transposed.
///
/// Its element in row `r` and column `c` is at `at + r * down + c * right`. All of them lie inside
/// a tile that is borrowed for `'a`.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    at: *const f64,
    rows: usize,
    columns: usize,
    down: usize,
    right: usize,
    lent: PhantomData<&'a Tile>,
}

/// A rectangle of a tile that is changed. As [`Part`], with `down` = 1; no other part has any of
/// its elements.
pub struct PartMut<'a> {
    at: *mut f64,
    rows: usize,
    columns: usize,
    right: usize,
    lent: PhantomData<&'a mut Tile>,
}

impl<'a> Part<'a> {
    /// A rectangle of memory that is no [`Tile`], column after column, `right` numbers apart.
    ///
    /// # Safety
    /// All its elements can be read for `'a`, and nobody changes them meanwhile.
    pub unsafe fn from_raw(at: *const f64, rows: usize, columns: usize, right: usize) -> Part<'a> {
        Part { at, rows, columns, down: 1, right, lent: PhantomData }
    }

    pub fn transposed(self) -> Part<'a> {
        Part { rows: self.columns, columns: self.rows, down: self.right, right: self.down, ..self }
    }

    /// The first `count` rows, and the others.
    pub fn split_rows(self, count: usize) -> (Part<'a>, Part<'a>) {
        assert!(count <= self.rows);
        // SAFETY: at most one step past the last row; with no rows left nothing is read there.
        let below = unsafe { self.at.add(if count < self.rows { count * self.down } else { 0 }) };
        (Part { rows: count, ..self }, Part { at: below, rows: self.rows - count, ..self })
    }

    /// The first `count` columns, and the others.
    pub fn split_columns(self, count: usize) -> (Part<'a>, Part<'a>) {
        let (left, right) = self.transposed().split_rows(count);
        (left.transposed(), right.transposed())
    }

    pub fn get(self, row: usize, column: usize) -> f64 {
        assert!(row < self.rows && column < self.columns);
        // SAFETY: inside the part.
        unsafe { *self.at.add(row * self.down + column * self.right) }
    }

    /// A column of a part that is not transposed.
    pub fn column(self, column: usize) -> &'a [f64] {
        assert!(self.down == 1 && column < self.columns);
        // SAFETY: inside the part, which lies in a tile that is borrowed for `'a`.
        unsafe { std::slice::from_raw_parts(self.at.add(column * self.right), self.rows) }
    }
}

impl<'a> PartMut<'a> {
    /// A rectangle of memory that is no [`Tile`], column after column, `right` numbers apart.
    ///
    /// # Safety
    /// All its elements can be read and written for `'a`, and nobody else does so meanwhile.
    pub unsafe fn from_raw(at: *mut f64, rows: usize, columns: usize, right: usize) -> PartMut<'a> {
        PartMut { at, rows, columns, right, lent: PhantomData }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The same part for a shorter time.
    pub fn again(&mut self) -> PartMut<'_> {
        PartMut { lent: PhantomData, ..*self }
    }

    /// The same part, to be read.
    pub fn read(&self) -> Part<'_> {
        Part { at: self.at, rows: self.rows, columns: self.columns, down: 1, right: self.right, lent: PhantomData }
    }

    /// The first `count` rows, and the others.
    pub fn split_rows(self, count: usize) -> (PartMut<'a>, PartMut<'a>) {
        assert!(count <= self.rows);
        // SAFETY: inside the part, or nothing is read there; the two share no element.
        let below = unsafe { self.at.add(if count < self.rows { count } else { 0 }) };
        (PartMut { rows: count, ..self }, PartMut { at: below, rows: self.rows - count, ..self })
    }

    /// The first `count` columns, and the others.
    pub fn split_columns(self, count: usize) -> (PartMut<'a>, PartMut<'a>) {
        assert!(count <= self.columns);
        // SAFETY: as above.
        let beside = unsafe { self.at.add(if count < self.columns { count * self.right } else { 0 }) };
        (PartMut { columns: count, ..self }, PartMut { at: beside, columns: self.columns - count, ..self })
    }

    pub fn column_mut(&mut self, column: usize) -> &mut [f64] {
        assert!(column < self.columns);
        // SAFETY: inside the part, which is borrowed alone for the result's time.
        unsafe { std::slice::from_raw_parts_mut(self.at.add(column * self.right), self.rows) }
    }
}

/// `c` becomes `scale` · `a` `b` + `keep` · `c`; with a `keep` of zero the old values of `c` are
/// not read.
///
/// Single-threaded: all parallelism of this program is the engine's.
pub fn product(scale: f64, a: Part<'_>, b: Part<'_>, keep: f64, c: PartMut<'_>) {
    assert!(a.rows == c.rows && b.columns == c.columns && a.columns == b.rows, "the shapes fit");
    let stride = |step: usize| step as isize;
    // SAFETY: three parts of the asserted shapes. `c` is borrowed alone, so it has no element in
    // common with the others, and no two of its own elements are the same.
    unsafe {
        matrixmultiply::dgemm(
            a.rows,
            a.columns,
            b.columns,
            scale,
            a.at,
            stride(a.down),
            stride(a.right),
            b.at,
            stride(b.down),
            stride(b.right),
            keep,
            c.at,
            1,
            stride(c.right),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{product, Tile};

    #[test]
    fn a_product_of_parts_changes_its_part_and_no_other() {
        let a = Tile::from_fn(7, 5, |row, column| (row * 5 + column) as f64);
        let b = Tile::from_fn(9, 5, |row, column| row as f64 - column as f64);
        let mut c = Tile::from_fn(8, 10, |_, _| 100.0);
        {
            let (_, below) = c.part_mut().split_rows(2);
            let (middle, _) = below.split_columns(7);
            let (_, lower) = a.part().split_rows(1);
            let (upper, _) = b.part().split_rows(7);
            product(-2.0, lower, upper.transposed(), 0.5, middle);
        }
        for row in 0..8 {
            for column in 0..10 {
                let dot = |row: usize, column: usize| (0..5).map(|k| a[(row, k)] * b[(column, k)]).sum::<f64>();
                let inside = row >= 2 && column < 7;
                let expected = if inside { 50.0 - 2.0 * dot(row - 1, column) } else { 100.0 };
                assert_eq!(c[(row, column)], expected, "row {row}, column {column}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "the shapes fit")]
    fn a_product_of_parts_that_do_not_fit_is_refused() {
        let (a, mut c) = (Tile::zeros(3, 4), Tile::zeros(3, 3));
        product(1.0, a.part(), a.part(), 0.0, c.part_mut());
    }
}
