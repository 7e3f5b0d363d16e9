//! The greatest elements, means, sums and norms of windows of an image, and their gradients.
//!
//! Used by `operator/layers/pooling.rs`, for one image at a time. Images have three dimensions;
//! those with fewer have one plane, or one row.

#![forbid(unsafe_code)]

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

    /// Writes a value for each of dense windows, some of a row at a time: their rows first, which
    /// are contiguous.
    fn dense<T: Float, const WIDE: usize>(&self, image: &[T], out: &mut [T], first: T, next: impl Fn(T, T) -> T) {
        const WINDOWS: usize = 16;
        let ([_, _, columns], width) = (self.out, self.size[2]);
        for (y, out) in out.chunks_exact_mut(columns.max(1)).enumerate() {
            for (block, out) in out.chunks_mut(WINDOWS).enumerate() {
                let mut values = [[first; WIDE]; WINDOWS];
                let left = (y * self.stride[1] * width) + block * WINDOWS * WIDE;
                for down in 0..self.kernel[1] {
                    let line = &image[left + down * width..][..out.len() * WIDE];
                    let values = values.as_flattened_mut().iter_mut();
                    values.zip(line).for_each(|(value, element)| *value = next(*value, *element));
                }
                // All of them, as loops of a fixed length become vectors.
                let whole: [T; WINDOWS] = std::array::from_fn(|at| {
                    values[at][1..].iter().fold(values[at][0], |value, other| next(value, *other))
                });
                out.copy_from_slice(&whole[..out.len()]);
            }
        }
    }

    /// The gradient of the greatest elements of dense windows that share no row.
    fn dense_backward<T: Float, const WIDE: usize>(&self, grad: &[T], image: &[T], values: &[T], out: &mut [T]) {
        let ([_, _, columns], width) = (self.out, self.size[2]);
        for at in 0..grad.len() {
            let first = at / columns * self.stride[1] * width + at % columns * WIDE;
            let (mut share, value) = (grad[at], values[at]);
            for line in (first..).step_by(width).take(self.kernel[1]) {
                let (image, out) = (&image[line..line + WIDE], &mut out[line..line + WIDE]);
                for (out, element) in out.iter_mut().zip(image) {
                    let is_it = (*element == value) | element.is_nan();
                    *out = if is_it { share } else { T::zero() };
                    share = if is_it { T::zero() } else { share };
                }
            }
        }
    }

    /// Writes a value for each window.
    pub fn forward<T: Float>(&self, image: &[T], out: &mut [T]) {
        match self.kind {
            Kind::Max if self.is_dense::<2>() => return self.dense::<T, 2>(image, out, T::neg_infinity(), greater),
            Kind::Max if self.is_dense::<3>() => return self.dense::<T, 3>(image, out, T::neg_infinity(), greater),
            Kind::Sum if self.is_dense::<2>() => return self.dense::<T, 2>(image, out, T::zero(), |sum, x| sum + x),
            Kind::Mean if self.is_dense::<2>() => {
                self.dense::<T, 2>(image, out, T::zero(), |sum, x| sum + x);
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
            return self.dense_backward::<T, 2>(grad, image, values, out);
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

/// The greater of two; what is not a number stays.
fn greater<T: Float>(value: T, element: T) -> T {
    // Without a branch: what is compared is as good as random.
    if (element > value) | element.is_nan() {
        element
    } else {
        value
    }
}

fn of<T: Float>(count: usize) -> T {
    T::from(count).expect("both types of floats have it, rounded")
}
