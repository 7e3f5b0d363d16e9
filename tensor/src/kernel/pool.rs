//! The greatest elements, means, sums and norms of windows of an image, and their gradients.
//!
//! Used by `operator/layers/pooling.rs`, for an image, or for several that lie below each
//! other. Images have three dimensions; those with fewer have one plane, or one row.

#![forbid(unsafe_code)]

use crate::kernel::rows::copy_rows;
use crate::kernel::simd::{self, Loops};
use num_traits::Float;
use std::ops::{ControlFlow, Range};

/// How many dimensions an image has.
pub(crate) const DIMENSIONS: usize = 3;

/// What becomes of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Max,
    Mean,
    Sum,
    /// The root of this order of the sum of such powers.
    Norm(Power),
}

/// The order of a norm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Power {
    Two,
    Three,
}

/// Windows on images of one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    pub kind: Kind,
    pub size: [usize; DIMENSIONS],
    pub out: [usize; DIMENSIONS],
    pub kernel: [usize; DIMENSIONS],
    pub stride: [usize; DIMENSIONS],
    pub pad: [usize; DIMENSIONS],
    /// Whether the zeros around the image count in a mean.
    pub counts_pad: bool,
}

/// A window: its elements on the image.
struct Window {
    number: usize,
    planes: Range<usize>,
    rows: Range<usize>,
    columns: Range<usize>,
    /// What a mean divides by.
    count: usize,
}

impl Pool {
    /// The places of a window along an axis that are on the image; and how many it has, as far as
    /// the zeros go that are around.
    fn span(&self, axis: usize, place: usize) -> (Range<usize>, usize) {
        let begin = place * self.stride[axis];
        let end = (begin + self.kernel[axis]).min(self.size[axis] + 2 * self.pad[axis]);
        let on_image = |at: usize| at.saturating_sub(self.pad[axis]).min(self.size[axis]);
        (on_image(begin)..on_image(end), end - begin)
    }

    /// Calls `each` with every window.
    fn windows(&self, mut each: impl FnMut(Window)) {
        let mut number = 0;
        for z in 0..self.out[0] {
            let (planes, deep) = self.span(0, z);
            for y in 0..self.out[1] {
                let (rows, high) = self.span(1, y);
                for x in 0..self.out[2] {
                    let (columns, wide) = self.span(2, x);
                    let count =
                        if self.counts_pad { deep * high * wide } else { planes.len() * rows.len() * columns.len() };
                    each(Window { number, planes: planes.clone(), rows: rows.clone(), columns, count });
                    number += 1;
                }
            }
        }
    }

    /// Calls `each` with the places in an image of each row of a window, until it breaks.
    #[inline]
    fn lines(&self, window: &Window, mut each: impl FnMut(Range<usize>) -> ControlFlow<()>) {
        let [_, height, width] = self.size;
        for plane in window.planes.clone() {
            for row in window.rows.clone() {
                let first = (plane * height + row) * width;
                if each(first + window.columns.start..first + window.columns.end).is_break() {
                    return;
                }
            }
        }
    }

    /// Calls `each` with each element of a window.
    #[inline]
    fn elements<T: Float>(&self, window: &Window, image: &[T], mut each: impl FnMut(T)) {
        self.lines(window, |line| {
            image[line].iter().for_each(|element| each(*element));
            ControlFlow::Continue(())
        });
    }

    #[inline]
    fn sum<T: Float>(&self, window: &Window, image: &[T], of: impl Fn(T) -> T) -> T {
        let mut sum = T::zero();
        self.elements(window, image, |element| sum = sum + of(element));
        sum
    }

    /// Adds a share to the gradient by each element of a window, as `by` says of the element.
    #[inline]
    fn spread<T: Float>(&self, window: &Window, out: &mut [T], by: impl Fn(usize) -> T) {
        self.lines(window, |line| {
            line.for_each(|at| out[at] = out[at] + by(at));
            ControlFlow::Continue(())
        });
    }

    /// Whether windows of `WIDE` columns lie side by side on one plane, and each on the image as a
    /// whole.
    fn is_dense<const WIDE: usize>(&self) -> bool {
        let end = |axis: usize| (self.out[axis].max(1) - 1) * self.stride[axis] + self.kernel[axis];
        let is_plane = self.size[0] == 1 && self.out[0] == 1 && self.kernel[0] == 1;
        let is_side_by_side = self.kernel[2] == WIDE && self.stride[2] == WIDE && self.pad == [0; DIMENSIONS];
        is_plane && is_side_by_side && end(1) <= self.size[1] && end(2) <= self.size[2]
    }

    /// The windows on so many images below each other, if they are those on each: none is on two.
    pub fn stacked(&self, images: usize) -> Option<Pool> {
        let is_plane = self.size[0] == 1 && self.out[0] == 1 && self.kernel[0] == 1 && self.pad[0] == 0;
        let is_tiled = self.out[1] * self.stride[1] == self.size[1] && self.kernel[1] <= self.stride[1];
        let of_all = |[planes, rows, columns]: [usize; DIMENSIONS]| [planes, rows * images, columns];
        let all = Pool { size: of_all(self.size), out: of_all(self.out), ..*self };
        (is_plane && is_tiled && self.pad[1] == 0).then_some(all)
    }

    /// Writes a value for each window.
    pub fn forward<T: Float>(&self, image: &[T], out: &mut [T]) {
        match self.kind {
            Kind::Max if self.is_dense::<2>() => {
                return simd::run(Dense::<_, _, 2> { of: self, image, out, first: T::neg_infinity(), next: greater })
            }
            Kind::Max if self.is_dense::<3>() => {
                return simd::run(Dense::<_, _, 3> { of: self, image, out, first: T::neg_infinity(), next: greater })
            }
            Kind::Sum if self.is_dense::<2>() => {
                return simd::run(Dense::<_, _, 2> { of: self, image, out, first: T::zero(), next: plus })
            }
            Kind::Mean if self.is_dense::<2>() => {
                simd::run(Dense::<_, _, 2> { of: self, image, out: &mut *out, first: T::zero(), next: plus });
                let count = of(2 * self.kernel[1]);
                return out.iter_mut().for_each(|value| *value = *value / count);
            }
            _ => (),
        }
        self.windows(|window| {
            out[window.number] = match self.kind {
                Kind::Max => {
                    let mut value = T::neg_infinity();
                    self.elements(&window, image, |element| value = greater(value, element));
                    value
                }
                Kind::Mean => self.sum(&window, image, |element| element) / of(window.count),
                Kind::Sum => self.sum(&window, image, |element| element),
                Kind::Norm(Power::Two) => self.sum(&window, image, |element| element * element).sqrt(),
                Kind::Norm(Power::Three) => self.sum(&window, image, |element| element * element * element).cbrt(),
            };
        });
    }

    /// Writes the gradient by the image. For the greatest elements and for norms it needs the
    /// image, and the values. The gradient of a greatest element goes to the first element of a
    /// window that is the greatest; that of a norm of 0 is 0.
    pub fn backward<T: Float>(&self, grad: &[T], image: &[T], values: &[T], out: &mut [T]) {
        out.fill(T::zero());
        if self.kind == Kind::Max && self.is_dense::<2>() && self.stride[1] >= self.kernel[1] {
            return simd::run(DenseBackward { of: self, grad, image, values, out });
        }
        self.windows(|window| {
            let (grad, value) = (grad[window.number], values[window.number]);
            match self.kind {
                Kind::Max => self.lines(&window, |line| {
                    for at in line {
                        if image[at] == value || image[at].is_nan() {
                            out[at] = out[at] + grad;
                            return ControlFlow::Break(());
                        }
                    }
                    ControlFlow::Continue(())
                }),
                Kind::Mean => {
                    let share = grad / of(window.count);
                    self.spread(&window, out, |_| share);
                }
                Kind::Sum => self.spread(&window, out, |_| grad),
                Kind::Norm(_) if value == T::zero() => {}
                Kind::Norm(Power::Two) => {
                    let share = grad / value;
                    self.spread(&window, out, |at| share * image[at]);
                }
                Kind::Norm(Power::Three) => {
                    let share = grad / (value * value);
                    self.spread(&window, out, |at| share * (image[at] * image[at]));
                }
            }
        });
    }
}

/// A value for each of dense windows, some of a row at a time: their rows first, which are
/// contiguous.
struct Dense<'a, T, F, const WIDE: usize> {
    of: &'a Pool,
    image: &'a [T],
    out: &'a mut [T],
    first: T,
    next: F,
}

impl<T: Float, F: Fn(T, T) -> T + Copy, const WIDE: usize> Loops for Dense<'_, T, F, WIDE> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Dense { of, image, out, first, next } = self;
        let (columns, width) = (of.out[2], of.size[2]);
        for (y, out) in out.chunks_exact_mut(columns.max(1)).enumerate() {
            let lines = (&image[y * of.stride[1] * width..], width, of.kernel[1]);
            match columns {
                16.. => row::<T, WIDE, 16>(lines, out, first, next),
                8.. => row::<T, WIDE, 8>(lines, out, first, next),
                4.. => row::<T, WIDE, 4>(lines, out, first, next),
                _ => row::<T, WIDE, 1>(lines, out, first, next),
            }
        }
    }
}

/// The values of a row of windows, `N` at a time: loops of a fixed length become vectors. The last
/// may be some that were there before, with the same values.
#[inline(always)]
fn row<T: Float, const WIDE: usize, const N: usize>(
    (image, width, high): (&[T], usize, usize),
    out: &mut [T],
    first: T,
    next: impl Fn(T, T) -> T,
) {
    for block in (0..out.len()).step_by(N) {
        let at = block.min(out.len() - N);
        let mut values = [[first; WIDE]; N];
        for down in 0..high {
            let line = &image[down * width + at * WIDE..][..N * WIDE];
            let values = values.as_flattened_mut().iter_mut();
            values.zip(line).for_each(|(value, element)| *value = next(*value, *element));
        }
        for (out, value) in out[at..at + N].iter_mut().zip(&values) {
            *out = value[1..].iter().fold(value[0], |value, other| next(value, *other));
        }
    }
}

/// So many dense windows are computed together, of as many rows as they fill: loops of a fixed
/// length become vectors, and rows are often shorter.
const TOGETHER: usize = 64;

/// Windows that are computed together: those of some rows, or some of a long row.
#[derive(Clone, Copy)]
struct Block {
    /// The first of the windows; and where its elements begin on the image.
    window: usize,
    element: usize,
    rows: usize,
    columns: usize,
    /// From row to row of windows.
    step: usize,
}

impl Block {
    /// Copies a line of elements of each row of windows into the place of those of all.
    #[inline(always)]
    fn copy_in<T: Copy>(self, wide: usize, image: &[T], into: &mut [T]) {
        let length = wide * self.columns;
        copy_rows((image, self.step), (&mut into[..self.rows * length], length), length);
    }

    /// Copies them back.
    #[inline(always)]
    fn copy_out<T: Copy>(self, wide: usize, from: &[T], image: &mut [T]) {
        let length = wide * self.columns;
        copy_rows((&from[..self.rows * length], length), (image, self.step), length);
    }
}

impl Pool {
    /// Calls `each` with all windows, which are dense.
    #[inline(always)]
    fn blocks(&self, wide: usize, mut each: impl FnMut(Block)) {
        let (step, [_, high, across]) = (self.stride[1] * self.size[2], self.out);
        let (rows, columns) = ((TOGETHER / across.max(1)).max(1), across.clamp(1, TOGETHER));
        for y in (0..high).step_by(rows) {
            for x in (0..across).step_by(columns) {
                let (window, element) = (y * across + x, y * step + x * wide);
                each(Block { window, element, rows: rows.min(high - y), columns: columns.min(across - x), step });
            }
        }
    }
}

/// The gradient of the greatest elements of dense windows of two columns that share no row.
struct DenseBackward<'a, T> {
    of: &'a Pool,
    grad: &'a [T],
    image: &'a [T],
    values: &'a [T],
    out: &'a mut [T],
}

impl<T: Float> Loops for DenseBackward<'_, T> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let DenseBackward { of, grad, image, values, out } = self;
        let none = [[T::zero(); 2]; TOGETHER];
        let (mut line, mut values_of, mut shares) = (none, none, none);
        of.blocks(2, |block| {
            let windows = block.window..block.window + block.rows * block.columns;
            shares.iter_mut().zip(&grad[windows.clone()]).for_each(|(share, grad)| *share = [*grad; 2]);
            values_of.iter_mut().zip(&values[windows]).for_each(|(of, value)| *of = [*value; 2]);
            let mut is_found = [0; TOGETHER];
            for down in 0..of.kernel[1] {
                let first = block.element + down * of.size[2];
                block.copy_in(2, &image[first..], line.as_flattened_mut());
                // Loops with one condition each, of which none becomes a branch: what is compared
                // is as good as random.
                let mut is_it = [[0u32; 2]; TOGETHER];
                let elements = line.as_flattened().iter().zip(values_of.as_flattened());
                for (is_it, (element, value)) in is_it.as_flattened_mut().iter_mut().zip(elements) {
                    *is_it = u32::from((element == value) | element.is_nan());
                }
                for ([left, right], is_found) in is_it.iter_mut().zip(&mut is_found) {
                    let (is_left, is_right) = (*left, *right);
                    *left &= !*is_found;
                    *right &= !(*is_found | is_left);
                    *is_found |= is_left | is_right;
                }
                let all = is_it.as_flattened().iter().zip(shares.as_flattened());
                for (out, (is_it, share)) in line.as_flattened_mut().iter_mut().zip(all) {
                    *out = if *is_it != 0 { *share } else { T::zero() };
                }
                block.copy_out(2, line.as_flattened(), &mut out[first..]);
            }
        });
    }
}

/// The greater of two; what is not a number stays.
#[inline(always)]
fn greater<T: Float>(value: T, element: T) -> T {
    // Without a branch: what is compared is as good as random.
    if (element > value) | element.is_nan() {
        element
    } else {
        value
    }
}

#[inline(always)]
fn plus<T: Float>(sum: T, element: T) -> T {
    sum + element
}

fn of<T: Float>(count: usize) -> T {
    T::from(count).expect("both types of floats have it, rounded")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of windows are computed some at a time, so their number counts. A window of one plane
    /// more is none of those, and has the same elements.
    #[test]
    fn rows_of_any_length_are_pooled_window_by_window() {
        for (columns, wide, high, stride) in (1..=35)
            .chain([63, 64, 65, 130])
            .flat_map(|columns| [(columns, 2, 2, 2), (columns, 3, 2, 2), (columns, 2, 3, 2), (columns, 2, 1, 3)])
        {
            let size = [1, 2 * stride + high, columns * wide + columns % 2];
            let (kernel, steps, out) = ([1, high, wide], [1, stride, wide], [1, 3, columns]);
            let image = drawn(size[1] * size[2]);
            let grad: Vec<f32> = (0..3 * columns).map(|at| 1.0 + at as f32).collect();
            for kind in [Kind::Max, Kind::Mean, Kind::Sum] {
                let dense = Pool { kind, size, out, kernel, stride: steps, pad: [0; 3], counts_pad: false };
                // Of two planes, and the window is cut to the one that there is.
                let other = Pool { kernel: [2, high, wide], ..dense };
                assert!(!other.is_dense::<2>() && !other.is_dense::<3>());
                let all = [dense, other].map(|pool| pooled(&pool, &image, &grad));
                assert_eq!(all[0], all[1], "{kind:?} {columns} {wide} {high} {stride}");
            }
        }
    }

    #[test]
    fn images_below_each_other_are_pooled_as_each() {
        for (rows, columns, high) in [(4, 4, 2), (2, 2, 2), (14, 14, 2), (3, 5, 1), (5, 70, 2)] {
            let (size, out) = ([1, 2 * rows, 2 * columns], [1, rows, columns]);
            let (kernel, stride) = ([1, high, 2], [1, 2, 2]);
            for kind in [Kind::Max, Kind::Mean, Kind::Sum, Kind::Norm(Power::Two)] {
                let each = Pool { kind, size, out, kernel, stride, pad: [0; 3], counts_pad: false };
                let (pixels, places) = (size[1] * size[2], rows * columns);
                let (images, grad) = (drawn(3 * pixels), drawn(3 * places));
                let mut expected = [Vec::new(), Vec::new()];
                for (image, grad) in images.chunks(pixels).zip(grad.chunks(places)) {
                    let found = pooled(&each, image, grad);
                    expected.iter_mut().zip(found).for_each(|(all, found)| all.extend(found));
                }
                let all = each.stacked(3).expect("a window ends where the next one begins");
                assert_eq!(pooled(&all, &images, &grad), expected, "{kind:?} {rows} {columns} {high}");
            }
        }
        let tiled = Pool {
            kind: Kind::Max,
            size: [1, 6, 6],
            out: [1, 3, 3],
            kernel: [1, 2, 2],
            stride: [1, 2, 2],
            pad: [0; 3],
            counts_pad: true,
        };
        let others = [
            // A row is left over; windows share rows; windows begin above the image; two planes.
            Pool { size: [1, 7, 6], ..tiled },
            Pool { kernel: [1, 3, 2], ..tiled },
            Pool { pad: [0, 1, 0], ..tiled },
            Pool { size: [2, 6, 6], ..tiled },
        ];
        assert!(tiled.stacked(2).is_some() && others.iter().all(|other| other.stacked(2).is_none()));
    }

    /// Whole numbers, of which many are equal, and some that are none.
    fn drawn(count: usize) -> Vec<f32> {
        (0..count).map(|at| if at % 37 == 36 { f32::NAN } else { ((at * 7919 + 13) % 11) as f32 - 5.0 }).collect()
    }

    /// The bits of the values of windows, and of the gradient by the image.
    fn pooled(pool: &Pool, image: &[f32], grad: &[f32]) -> [Vec<u32>; 2] {
        let (mut values, mut back) = (vec![f32::NAN; grad.len()], vec![f32::NAN; image.len()]);
        pool.forward(image, &mut values);
        pool.backward(grad, image, &values, &mut back);
        [values, back].map(|all| all.iter().map(|value| value.to_bits()).collect())
    }
}
