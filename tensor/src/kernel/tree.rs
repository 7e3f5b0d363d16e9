//! Sums in a fixed tree: the same elements in the same order have the same sum to the last bit,
//! wherever the blocks that they come in end.
//!
//! Used by `operator/reduce.rs` and others there. Elements are added in leaves of [`LEAF`] by eight
//! running sums, and the leaves in pairs, as the digits of a binary counter carry.

#![forbid(unsafe_code)]

use crate::kernel::simd::{self, Loops};
use num_traits::Num;

/// How many elements make a leaf.
pub(crate) const LEAF: usize = 256;
const LANES: usize = 8;

/// A sum under way.
#[derive(Debug)]
pub(crate) struct Tree<T> {
    /// Sums of 2ⁿ leaves, if the bit n of the number of leaves is set.
    levels: [T; 48],
    leaves: u64,
}

impl<T: Num + Copy> Tree<T> {
    pub fn new() -> Tree<T> {
        Tree { levels: [T::zero(); 48], leaves: 0 }
    }

    /// Adds the next elements: a whole leaf, but for the last call.
    pub fn add(&mut self, leaf: &[T], plus: impl Fn(T, T) -> T) {
        debug_assert!(leaf.len() <= LEAF);
        self.carry(leaf_sum(leaf, &|value| value, &plus), plus);
    }

    /// Adds what `of` makes of the next elements: whole leaves, but for the last call.
    pub fn add_leaves(&mut self, values: &[T], of: impl Fn(T) -> T, plus: impl Fn(T, T) -> T) {
        simd::run(Leaves { tree: self, values, of, plus });
    }

    /// Adds the sum of a leaf; or of as many as are in each before it, if that is a power of two.
    pub fn carry(&mut self, mut sum: T, plus: impl Fn(T, T) -> T) {
        let mut level = 0;
        while self.leaves >> level & 1 == 1 {
            sum = plus(self.levels[level], sum);
            level += 1;
        }
        self.levels[level] = sum;
        self.leaves += 1;
    }

    /// The sum of all.
    pub fn sum(&self, plus: impl Fn(T, T) -> T) -> T {
        self.sum_with(None, plus)
    }

    /// The sum of all and of what comes behind, which is less than the other sums have each.
    pub fn sum_with(&self, behind: Option<T>, plus: impl Fn(T, T) -> T) -> T {
        let (mut left, mut sum) = (self.leaves, behind);
        while left != 0 {
            let high = self.levels[left.trailing_zeros() as usize];
            sum = Some(sum.map_or(high, |low| plus(high, low)));
            left &= left - 1;
        }
        sum.unwrap_or(T::zero())
    }
}

/// Leaves that a tree adds.
struct Leaves<'a, T, Of, Plus> {
    tree: &'a mut Tree<T>,
    values: &'a [T],
    of: Of,
    plus: Plus,
}

impl<T: Num + Copy, Of: Fn(T) -> T, Plus: Fn(T, T) -> T> Loops for Leaves<'_, T, Of, Plus> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let mut some = self.values.chunks_exact(TOGETHER * LEAF);
        for leaves in &mut some {
            for sum in leaf_sums(leaves, &self.of, &self.plus) {
                self.tree.carry(sum, &self.plus);
            }
        }
        for leaf in some.remainder().chunks(LEAF) {
            self.tree.carry(leaf_sum(leaf, &self.of, &self.plus), &self.plus);
        }
    }
}

/// The sum of what `of` makes of one leaf.
#[inline(always)]
pub(crate) fn leaf_sum<T: Num + Copy>(leaf: &[T], of: &impl Fn(T) -> T, plus: &impl Fn(T, T) -> T) -> T {
    let mut sums = [T::zero(); LANES];
    let (whole, rest) = leaf.split_at(leaf.len() / LANES * LANES);
    for lanes in whole.chunks_exact(LANES) {
        sums.iter_mut().zip(lanes).for_each(|(sum, value)| *sum = plus(*sum, of(*value)));
    }
    sums.iter_mut().zip(rest).for_each(|(sum, value)| *sum = plus(*sum, of(*value)));
    lanes_sum(sums, plus)
}

/// So many leaves are summed at a time: one sum after the other would wait for each addition.
const TOGETHER: usize = 4;

/// The [`leaf_sum`] of each of so many leaves.
#[inline(always)]
fn leaf_sums<T: Num + Copy>(leaves: &[T], of: &impl Fn(T) -> T, plus: &impl Fn(T, T) -> T) -> [T; TOGETHER] {
    let mut sums = [T::zero(); TOGETHER * LANES];
    for at in (0..LEAF).step_by(LANES) {
        let mut values = [T::zero(); TOGETHER * LANES];
        for (values, leaf) in values.chunks_exact_mut(LANES).zip(leaves.chunks_exact(LEAF)) {
            values.copy_from_slice(&leaf[at..at + LANES]);
        }
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = plus(*sum, of(value)));
    }
    let sums: [[T; LANES]; TOGETHER] =
        std::array::from_fn(|leaf| std::array::from_fn(|lane| sums[leaf * LANES + lane]));
    all_lanes_sums(&sums, plus)
}

/// The sum of the running sums of each leaf. It is a function by itself: beside the loop that makes
/// them, the compiler would lay registers across leaves, as suits these few additions.
#[inline(never)]
fn all_lanes_sums<T: Copy>(sums: &[[T; LANES]; TOGETHER], plus: &impl Fn(T, T) -> T) -> [T; TOGETHER] {
    sums.map(|sums| lanes_sum(sums, plus))
}

/// The sum of the running sums of a leaf.
#[inline(always)]
fn lanes_sum<T>([a, b, c, d, e, f, g, h]: [T; LANES], plus: &impl Fn(T, T) -> T) -> T {
    plus(plus(plus(a, e), plus(c, g)), plus(plus(b, f), plus(d, h)))
}

/// How many columns are summed at a time.
const COLUMNS: usize = 8;

/// The sums of the columns of a matrix of at most [`LEAF`] rows, which lie one after the other: the
/// [`leaf_sum`] of each, in the same order.
pub(crate) fn column_sums<T: Num + Copy>(values: &[T], out: &mut [T], plus: &impl Fn(T, T) -> T) {
    if values.len() == out.len() {
        // One row. A negative zero becomes a positive one, as in a sum.
        return out.iter_mut().zip(values).for_each(|(out, value)| *out = plus(T::zero(), *value));
    }
    simd::run(ShortColumns { values, out, plus });
}

struct ShortColumns<'a, T, F> {
    values: &'a [T],
    out: &'a mut [T],
    plus: &'a F,
}

impl<T: Num + Copy, F: Fn(T, T) -> T> Loops for ShortColumns<'_, T, F> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let ShortColumns { values, out, plus } = self;
        let columns = out.len();
        let mut blocks = out.chunks_exact_mut(COLUMNS);
        let mut left = 0;
        for block in &mut blocks {
            let sums = some_sums::<T, COLUMNS>(values, (left, columns), plus);
            block.copy_from_slice(&sums);
            left += COLUMNS;
        }
        for out in blocks.into_remainder() {
            [*out] = some_sums::<T, 1>(values, (left, columns), plus);
            left += 1;
        }
    }
}

/// The sums of `N` columns from `left` on.
#[inline(always)]
fn some_sums<T: Num + Copy, const N: usize>(
    values: &[T],
    (left, columns): (usize, usize),
    plus: &impl Fn(T, T) -> T,
) -> [T; N] {
    let mut sums = [[T::zero(); N]; LANES];
    let mut whole = values.chunks_exact(columns * LANES);
    for rows in &mut whole {
        for lane in 0..LANES {
            let row = &rows[lane * columns + left..][..N];
            for at in 0..N {
                sums[lane][at] = plus(sums[lane][at], row[at]);
            }
        }
    }
    for (sums, row) in sums.iter_mut().zip(whole.remainder().chunks_exact(columns)) {
        sums.iter_mut().zip(&row[left..]).for_each(|(sum, value)| *sum = plus(*sum, *value));
    }
    std::array::from_fn(|at| lanes_sum(sums.map(|lane| lane[at]), plus))
}

/// Sums of columns under way, whose rows come one after the other: each is the sum that a [`Tree`]
/// has of the column.
pub(crate) struct Columns<'a, T> {
    /// The running sums of a leaf, which is a row of a column each; then rows as the tree's levels.
    memory: &'a mut [T],
    columns: usize,
    rows: usize,
}

impl<'a, T: Num + Copy> Columns<'a, T> {
    /// How much memory the sums of a column of so many rows take.
    pub fn room(rows: usize) -> usize {
        LANES + (rows / LEAF + 1).ilog2() as usize + 1
    }

    pub fn new(memory: &'a mut [T], columns: usize) -> Columns<'a, T> {
        memory[..LANES * columns].fill(T::zero());
        Columns { memory, columns, rows: 0 }
    }

    /// Adds what `of` makes of the next rows.
    pub fn add(&mut self, rows: &[T], of: impl Fn(T) -> T, plus: impl Fn(T, T) -> T) {
        simd::run(Rows { sums: self, rows, of, plus });
    }

    /// Carries the sums of a leaf, as [`Tree::carry`] does.
    fn carry(&mut self, leaves: usize, plus: impl Fn(T, T) -> T) {
        let (columns, plus) = (self.columns, &plus);
        let (lanes, levels) = self.memory.split_at_mut(LANES * columns);
        for at in 0..columns {
            let mut sum = lanes_sum(std::array::from_fn(|lane| lanes[lane * columns + at]), plus);
            let mut level = 0;
            while leaves >> level & 1 == 1 {
                sum = plus(levels[level * columns + at], sum);
                level += 1;
            }
            levels[level * columns + at] = sum;
        }
        lanes.fill(T::zero());
    }

    /// Writes the sums.
    pub fn finish(mut self, out: &mut [T], plus: impl Fn(T, T) -> T) {
        if self.rows % LEAF != 0 {
            self.carry(self.rows / LEAF, &plus);
        }
        let levels = self.memory[LANES * self.columns..].chunks_exact(self.columns);
        let leaves = self.rows.div_ceil(LEAF);
        out.fill(T::zero());
        for (level, sums) in levels.enumerate().take_while(|(level, _)| leaves >> level > 0) {
            if leaves >> level & 1 == 0 {
                continue;
            }
            match leaves & ((1 << level) - 1) {
                0 => out.copy_from_slice(&sums[..out.len()]),
                _ => out.iter_mut().zip(sums).for_each(|(low, high)| *low = plus(*high, *low)),
            }
        }
    }
}

/// Rows that are added to sums of columns.
struct Rows<'a, 'b, T, Of, Plus> {
    sums: &'a mut Columns<'b, T>,
    rows: &'a [T],
    of: Of,
    plus: Plus,
}

impl<T: Num + Copy, Of: Fn(T) -> T, Plus: Fn(T, T) -> T> Loops for Rows<'_, '_, T, Of, Plus> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Rows { sums, rows, of, plus } = self;
        for row in rows.chunks_exact(sums.columns) {
            let lane = &mut sums.memory[sums.rows % LANES * sums.columns..][..sums.columns];
            lane.iter_mut().zip(row).for_each(|(sum, value)| *sum = plus(*sum, of(*value)));
            sums.rows += 1;
            if sums.rows % LEAF == 0 {
                sums.carry(sums.rows / LEAF - 1, &plus);
            }
        }
    }
}

/// The sum of a slice.
pub(crate) fn sum<T: Num + Copy>(values: &[T], plus: impl Fn(T, T) -> T) -> T {
    sum_of(values, |value| value, plus)
}

/// The sum of what `of` makes of the elements of a slice.
pub(crate) fn sum_of<T: Num + Copy>(values: &[T], of: impl Fn(T) -> T, plus: impl Fn(T, T) -> T) -> T {
    if values.len() <= LEAF {
        return leaf_sum(values, &of, &plus);
    }
    let mut tree = Tree::new();
    tree.add_leaves(values, of, &plus);
    tree.sum(plus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_columns_have_the_bits_of_sums() {
        for (rows, columns) in [(1, 5), (7, 1), (8, 8), (9, 17), (100, 3), (256, 2)] {
            let values: Vec<f32> = (0..rows * columns).map(|at| 1.0 / (1.0 + at as f32)).collect();
            let mut sums = vec![f32::NAN; columns];
            column_sums(&values, &mut sums, &|a, b| a + b);
            for (at, found) in sums.iter().enumerate() {
                let column: Vec<f32> = (0..rows).map(|row| values[row * columns + at]).collect();
                assert_eq!(found.to_bits(), sum(&column, |a, b| a + b).to_bits(), "{rows} {columns}: {at}");
            }
        }
    }

    #[test]
    fn rows_that_come_in_pieces_have_the_sums_of_columns() {
        for (rows, columns, piece) in
            [(1, 5, 1), (255, 3, 7), (256, 1, 256), (257, 4, 300), (1000, 2, 13), (2048, 3, 64)]
        {
            let values: Vec<f32> = (0..rows * columns).map(|at| 1.0 / (1.0 + at as f32)).collect();
            let mut memory = vec![f32::NAN; (Columns::<f32>::room(rows) + 100) * columns];
            let (mut sums, mut found) = (Columns::new(&mut memory, columns), vec![f32::NAN; columns]);
            values.chunks(piece * columns).for_each(|rows| sums.add(rows, |value| value, |a, b| a + b));
            sums.finish(&mut found, |a, b| a + b);
            for (at, found) in found.iter().enumerate() {
                let column: Vec<f32> = (0..rows).map(|row| values[row * columns + at]).collect();
                assert_eq!(found.to_bits(), sum(&column, |a, b| a + b).to_bits(), "{rows} {columns}: {at}");
            }
        }
    }

    #[test]
    fn sums_are_right_and_lose_little() {
        for count in [0usize, 1, 7, 8, 9, 255, 256, 257, 511, 512, 1_000, 100_003] {
            let values: Vec<i64> = (0..count as i64).map(|at| at * 7 - 3).collect();
            assert_eq!(sum(&values, |a, b| a + b), values.iter().sum::<i64>());
        }
        let tenths = vec![0.1f32; 10_000_000];
        let (ours, naive) = (sum(&tenths, |a, b| a + b), tenths.iter().sum::<f32>());
        assert!((ours - 1e6).abs() < 1.0 && (naive - 1e6).abs() > 1e4, "{ours}, {naive}");
    }
}
