//! The greatest or the least of elements, and its place: that of the first one of equal elements.
//! What is not a number is beyond all others.
//!
//! Used by `operator/fold.rs`, on rows, and on columns whose rows come one after the other.

#![forbid(unsafe_code)]

use crate::kernel::simd::{self, Loops};

/// How many elements are looked at together.
const LANES: usize = 32;

#[expect(clippy::eq_op, reason = "only what is not a number differs from itself")]
#[inline(always)]
fn is_nan<T: PartialOrd>(value: T) -> bool {
    value != value
}

/// Whether an element comes before the best one so far, in whose place it was not seen.
#[inline(always)]
pub(crate) fn beats<T: PartialOrd + Copy>(value: T, best: T, is_greatest: bool) -> bool {
    is_beyond(value, best, is_greatest) | (is_nan(value) & !is_nan(best))
}

#[inline(always)]
fn is_beyond<T: PartialOrd>(value: T, best: T, is_greatest: bool) -> bool {
    if is_greatest {
        value > best
    } else {
        value < best
    }
}

/// The place of the extreme of elements, of which there is one.
pub(crate) fn place<T: PartialOrd + Copy>(values: &[T], is_greatest: bool) -> usize {
    let best = one_of_extremes(values, is_greatest);
    let mut place = 0;
    simd::run(First { values, best, place: &mut place });
    place
}

/// The extreme of elements, of which there is one.
pub(crate) fn extreme<T: PartialOrd + Copy + Default>(values: &[T], is_greatest: bool) -> T {
    let best = one_of_extremes(values, is_greatest);
    // Zeros of both signs are equal, and so are numbers that are none.
    if best == T::default() || is_nan(best) {
        return values[place(values, is_greatest)];
    }
    best
}

/// An element that is equal to the extreme one.
fn one_of_extremes<T: PartialOrd + Copy>(values: &[T], is_greatest: bool) -> T {
    let mut best = values[0];
    match is_greatest {
        true => simd::run(Search::<T, true> { values, best: &mut best }),
        false => simd::run(Search::<T, false> { values, best: &mut best }),
    }
    best
}

struct Search<'a, T, const GREATEST: bool> {
    values: &'a [T],
    best: &'a mut T,
}

impl<T: PartialOrd + Copy, const GREATEST: bool> Loops for Search<'_, T, GREATEST> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        // Once a lane has what is not a number, it keeps that: nothing is beyond it.
        let better = |value: T, best: T| {
            if is_beyond(value, best, GREATEST) | is_nan(value) {
                value
            } else {
                best
            }
        };
        let (mut best, chunks) = (self.values[0], self.values.chunks_exact(LANES));
        let rest = chunks.remainder();
        if self.values.len() > rest.len() {
            let mut lanes = [best; LANES];
            for values in chunks {
                lanes.iter_mut().zip(values).for_each(|(best, value)| *best = better(*value, *best));
            }
            best = lanes.iter().fold(best, |best, value| better(*value, best));
        }
        *self.best = rest.iter().fold(best, |best, value| better(*value, best));
    }
}

/// Where the first element is that is equal to the best one, or no number like that.
struct First<'a, T> {
    values: &'a [T],
    best: T,
    place: &'a mut usize,
}

impl<T: PartialOrd + Copy> Loops for First<'_, T> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let First { values, best, place } = self;
        let is_it = |value: T| (value == best) | (is_nan(value) & is_nan(best));
        let has_it = |values: &[T]| values.iter().fold(false, |has, value| has | is_it(*value));
        let first = values.chunks(LANES).position(has_it).unwrap_or(0) * LANES;
        *place = first + values[first..].iter().position(|value| is_it(*value)).unwrap_or(0);
    }
}

/// Columns of which the extremes and their places are known so far.
pub(crate) struct Extremes<'a, T> {
    pub best: &'a mut [T],
    pub places: &'a mut [T],
    pub is_greatest: bool,
}

impl<T: PartialOrd + Copy> Extremes<'_, T> {
    /// Looks at the next row, which has this number. The first one is taken as it is.
    pub fn add(&mut self, row: &[T], number: T, is_first: bool) {
        if is_first {
            self.best.copy_from_slice(row);
            self.places.fill(number);
        } else {
            simd::run(Row { of: self, row, number });
        }
    }
}

struct Row<'a, 'b, T> {
    of: &'a mut Extremes<'b, T>,
    row: &'a [T],
    number: T,
}

impl<T: PartialOrd + Copy> Loops for Row<'_, '_, T> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Row { of: Extremes { best, places, is_greatest }, row, number } = self;
        for ((best, place), value) in best.iter_mut().zip(places.iter_mut()).zip(row) {
            let is_better = beats(*value, *best, *is_greatest);
            *best = if is_better { *value } else { *best };
            *place = if is_better { number } else { *place };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place as one comparison after the other finds it.
    fn slowly(values: &[f32], is_greatest: bool) -> usize {
        (1..values.len()).fold(0, |best, at| if beats(values[at], values[best], is_greatest) { at } else { best })
    }

    #[test]
    fn places_are_those_of_the_first_extremes() {
        for length in [1, 2, 31, 32, 33, 64, 200] {
            for seed in 0..40usize {
                // Few values, so that many are equal; at times one or two that are no numbers.
                let mut values: Vec<f32> =
                    (0..length).map(|at| [0.0, -0.0, 1.0, -1.0][(at * 7 + seed) % 5 % 4]).collect();
                if seed % 3 > 0 {
                    values[seed * 13 % length] = f32::NAN;
                    values[seed * 29 % length] = if seed % 3 == 1 { f32::NAN } else { f32::INFINITY };
                }
                for is_greatest in [true, false] {
                    let expected = slowly(&values, is_greatest);
                    assert_eq!(place(&values, is_greatest), expected, "{is_greatest} {values:?}");
                    assert_eq!(extreme(&values, is_greatest).to_bits(), values[expected].to_bits(), "{values:?}");
                    let (mut best, mut places) = ([0.0; 1], [0.0; 1]);
                    let mut column = Extremes { best: &mut best, places: &mut places, is_greatest };
                    values.iter().enumerate().for_each(|(at, value)| column.add(&[*value], at as f32, at == 0));
                    assert_eq!((places[0] as usize, best[0].to_bits()), (expected, values[expected].to_bits()));
                }
            }
        }
    }
}
