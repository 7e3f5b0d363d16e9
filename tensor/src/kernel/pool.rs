//! The greatest elements, means and sums of windows of an image, and their gradients.
//!
//! Used by `operator/layers/pooling.rs`, for one image at a time.

#![forbid(unsafe_code)]

use num_traits::Float;

/// What becomes of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Max,
    Mean,
    Sum,
}

/// Windows on images of one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    pub kind: Kind,
    pub size: [usize; 2],
    pub out: [usize; 2],
    pub kernel: [usize; 2],
    pub stride: [usize; 2],
    pub pad: [usize; 2],
    /// Whether the zeros around the image count in a mean.
    pub counts_pad: bool,
}

impl Pool {
    /// The places of a window along an axis that are on the image; and how many it has, as far as
    /// the zeros go that are around.
    fn span(&self, axis: usize, place: usize) -> (usize, usize, usize) {
        let begin = place * self.stride[axis];
        let end = (begin + self.kernel[axis]).min(self.size[axis] + 2 * self.pad[axis]);
        let on_image = |at: usize| at.saturating_sub(self.pad[axis]).min(self.size[axis]);
        (on_image(begin), on_image(end), end - begin)
    }

    /// Calls `each` with every window: its number, its rows, its columns, and what a mean divides
    /// by.
    fn windows(&self, mut each: impl FnMut(usize, [usize; 2], [usize; 2], usize)) {
        for y in 0..self.out[0] {
            let (top, bottom, high) = self.span(0, y);
            for x in 0..self.out[1] {
                let (left, right, wide) = self.span(1, x);
                let count = if self.counts_pad { high * wide } else { (bottom - top) * (right - left) };
                each(y * self.out[1] + x, [top, bottom], [left, right], count);
            }
        }
    }

    /// Writes a value for each window.
    pub fn forward<T: Float>(&self, image: &[T], out: &mut [T]) {
        let width = self.size[1];
        self.windows(|number, [top, bottom], [left, right], count| {
            let mut value = if self.kind == Kind::Max { T::neg_infinity() } else { T::zero() };
            for line in top..bottom {
                let elements = &image[line * width + left..line * width + right];
                if self.kind == Kind::Max {
                    for element in elements {
                        // What is not a number stays.
                        if *element > value || element.is_nan() {
                            value = *element;
                        }
                    }
                } else {
                    elements.iter().for_each(|element| value = value + *element);
                }
            }
            out[number] = if self.kind == Kind::Mean { value / of(count) } else { value };
        });
    }

    /// Writes the gradient by the image. For the greatest elements it needs the image, and the
    /// values: the gradient goes to the first element of a window that is the greatest.
    pub fn backward<T: Float>(&self, grad: &[T], image: &[T], values: &[T], out: &mut [T]) {
        let width = self.size[1];
        out.fill(T::zero());
        self.windows(|number, [top, bottom], [left, right], count| {
            let share = if self.kind == Kind::Mean { grad[number] / of(count) } else { grad[number] };
            for line in top..bottom {
                let (begin, end) = (line * width + left, line * width + right);
                if self.kind != Kind::Max {
                    out[begin..end].iter_mut().for_each(|out| *out = *out + share);
                    continue;
                }
                for at in begin..end {
                    if image[at] == values[number] || image[at].is_nan() {
                        out[at] = out[at] + share;
                        return;
                    }
                }
            }
        });
    }
}

fn of<T: Float>(count: usize) -> T {
    T::from(count).expect("both types of floats have it, rounded")
}
