//! Convolutions of small images without a matrix: sums for some filters and places of a row stay in
//! registers while the window is gone through.
//!
//! Used by `convolve.rs`.

#![forbid(unsafe_code)]

use crate::kernel::convolve::{Geometry, Window};
use crate::kernel::gemm::Real;
use crate::kernel::simd::{self, fused, Loops};

/// Places of a row whose sums are made together.
const WIDE: usize = 16;
/// The same for rows of at most so many.
const NARROW: usize = 8;
/// Images with rows of more windows are not small.
const ROW: usize = 32;
/// Filters whose sums are made together.
const FILTERS: usize = 4;

/// Whether a convolution is faster without a matrix. A function of its shapes: windows lie side by
/// side, and rows fill half of the places whose sums are made together.
pub(crate) fn is_faster(of: &Geometry) -> bool {
    let Window { stride, dilate, .. } = of.window;
    let row = of.out[1];
    let is_filled = row <= ROW && 2 * row >= row.next_multiple_of(block(row));
    stride == [1, 1] && dilate == [1, 1] && is_filled
}

fn block(row: usize) -> usize {
    if row <= NARROW {
        NARROW
    } else {
        WIDE
    }
}

/// Rows and columns of an image with zeros around, and behind each row so many that whole blocks
/// can be read.
fn padded(of: &Geometry) -> [usize; 2] {
    [of.size[0] + 2 * of.window.pad[0], of.out[1].next_multiple_of(block(of.out[1])) + of.window.kernel[1] - 1]
}

/// How many elements of scratch the convolution needs.
pub(crate) fn scratch(of: &Geometry) -> usize {
    let [rows, columns] = padded(of);
    if is_faster(of) {
        of.channels * rows * columns
    } else {
        0
    }
}

struct Convolution<'a, T> {
    of: &'a Geometry,
    /// The channels of an image, padded.
    image: &'a [T],
    /// The weights of the filters of a group.
    weight: &'a [T],
    out: &'a mut [T],
}

impl<T: Real> Loops for Convolution<'_, T> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        if block(self.of.out[1]) == NARROW {
            self.blocks::<NARROW, FMA>();
        } else {
            self.blocks::<WIDE, FMA>();
        }
    }
}

impl<T: Real> Convolution<'_, T> {
    #[inline(always)]
    fn blocks<const COLUMNS: usize, const FMA: bool>(self) {
        let of = self.of;
        let ([_, pitch], [rows, columns]) = (padded(of), of.out);
        for first in (0..of.filters).step_by(FILTERS) {
            let count = FILTERS.min(of.filters - first);
            for y in 0..rows {
                for left in (0..columns).step_by(COLUMNS) {
                    let at = y * pitch + left;
                    let sums = if count == FILTERS {
                        self.sums::<FILTERS, COLUMNS, FMA>(first, at)
                    } else {
                        let mut sums = [[T::zero(); COLUMNS]; FILTERS];
                        for (filter, sums) in sums.iter_mut().enumerate().take(count) {
                            [*sums] = self.sums::<1, COLUMNS, FMA>(first + filter, at);
                        }
                        sums
                    };
                    for (filter, sums) in sums.iter().enumerate().take(count) {
                        let width = COLUMNS.min(columns - left);
                        let to = ((first + filter) * rows + y) * columns + left;
                        self.out[to..to + width].copy_from_slice(&sums[..width]);
                    }
                }
            }
        }
    }

    /// The sums for some filters, over the windows from a place on.
    #[inline(always)]
    fn sums<const COUNT: usize, const COLUMNS: usize, const FMA: bool>(
        &self,
        first: usize,
        at: usize,
    ) -> [[T; COLUMNS]; COUNT] {
        let ([height, width], [rows, pitch]) = (self.of.window.kernel, padded(self.of));
        let depth = self.of.depth();
        let weights: [&[T]; COUNT] = std::array::from_fn(|filter| &self.weight[(first + filter) * depth..][..depth]);
        let mut sums = [[T::zero(); COLUMNS]; COUNT];
        let mut tap = 0;
        for channel in 0..self.of.channels {
            for down in 0..height {
                let line = &self.image[(channel * rows + down) * pitch + at..][..width - 1 + COLUMNS];
                for place in line.windows(COLUMNS) {
                    for filter in 0..COUNT {
                        let weight = weights[filter][tap];
                        for column in 0..COLUMNS {
                            sums[filter][column] = fused::<T, FMA>(weight, place[column], sums[filter][column]);
                        }
                    }
                    tap += 1;
                }
            }
        }
        sums
    }
}

/// Writes the convolution of `data` with `weight` to `out`.
pub(crate) fn forward<T: Real>(of: &Geometry, data: &[T], weight: &[T], out: &mut [T], scratch: &mut [T]) {
    let ([rows, pitch], [height, width]) = (padded(of), of.size);
    let [above, before] = of.window.pad;
    let image = &mut scratch[..of.channels * rows * pitch];
    // What lies around the image is zero, and stays so from image to image.
    image.fill(T::zero());
    for number in 0..of.images * of.groups {
        let group = number % of.groups;
        let data = &data[number * of.channels * height * width..][..of.channels * height * width];
        for (line, from) in data.chunks_exact(width.max(1)).enumerate() {
            let (channel, y) = (line / height, line % height);
            let to = (channel * rows + above + y) * pitch + before;
            image[to..to + width].copy_from_slice(from);
        }
        let weight = &weight[group * of.filters * of.depth()..][..of.filters * of.depth()];
        let size = of.filters * of.out[0] * of.out[1];
        simd::run(Convolution { of, image, weight, out: &mut out[number * size..][..size] });
    }
}
