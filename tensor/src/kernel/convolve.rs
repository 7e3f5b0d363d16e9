//! Convolutions of images in two dimensions, and what they have for gradients.
//!
//! Used by `operator/layers/filtering.rs`. Windows of some images become the columns of a matrix,
//! and the convolution a product of matrices. How many images make a product is a function of the
//! shapes, so a convolution has the same bits each time.

#![forbid(unsafe_code)]

mod windows;

use crate::kernel::gemm::{gemm, matrix, matrix_mut, Real};
use crate::kernel::rows::copy_rows;

/// Windows along rows and columns: their size, from window to window, from tap to tap, and how many
/// places before the first element the first window begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    pub kernel: [usize; 2],
    pub stride: [usize; 2],
    pub dilate: [usize; 2],
    pub pad: [usize; 2],
}

impl Window {
    /// How many elements it has.
    fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// By how many rows and columns the element of a tap lies behind the place of its window.
    fn moved_by(&self, tap: usize) -> [isize; 2] {
        let at = [tap / self.kernel[1] * self.dilate[0], tap % self.kernel[1] * self.dilate[1]];
        [0, 1].map(|axis| at[axis] as isize - self.pad[axis] as isize)
    }
}

/// The sizes of a convolution: from images with `channels` to images with `filters`, for each of
/// the groups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub images: usize,
    pub groups: usize,
    pub channels: usize,
    pub filters: usize,
    /// Rows and columns of the images that windows are on.
    pub size: [usize; 2],
    /// How many windows there are along both.
    pub out: [usize; 2],
    pub window: Window,
}

/// How many columns a product has at least, if there are as many.
const COLUMNS: usize = 256;

impl Geometry {
    pub fn pixels(&self) -> usize {
        self.size[0] * self.size[1]
    }

    pub fn places(&self) -> usize {
        self.out[0] * self.out[1]
    }

    /// How many elements a window has.
    pub fn depth(&self) -> usize {
        self.channels * self.window.taps()
    }

    /// How many images make a product.
    fn batch(&self) -> usize {
        COLUMNS.div_ceil(self.places().max(1)).clamp(1, self.images.max(1))
    }

    /// The columns of a product, and its sizes by the number of columns.
    fn columns(&self) -> usize {
        self.batch() * self.places()
    }

    /// How many elements of scratch a pass needs.
    pub fn scratch(&self) -> usize {
        let (n, depth, filters) = (self.columns(), self.depth(), self.filters);
        (depth + filters) * n + self.masks()
    }

    /// The parts of the scratch: the matrices of windows and of filters, and the masks, written.
    fn parted<'a, T: Real>(&self, scratch: &'a mut [T]) -> (&'a mut [T], &'a mut [T], &'a [T]) {
        let (windows, rest) = scratch.split_at_mut(self.depth() * self.columns());
        let (filters, masks) = rest.split_at_mut(self.filters * self.columns());
        let masks = &mut masks[..self.masks()];
        self.write_masks(masks);
        (windows, filters, masks)
    }

    /// Where the images of a group begin, on the side of the channels and on that of the filters.
    fn begins(&self, image: usize, group: usize) -> (usize, usize) {
        let place = image * self.groups + group;
        (place * self.channels * self.pixels(), place * self.filters * self.places())
    }

    /// The first of the images of each product, and how many they are.
    fn batches(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let batch = self.batch();
        (0..self.images).step_by(batch).map(move |first| (first, batch.min(self.images - first)))
    }
}

/// Writes the convolution of `data` with `weight` to `out`.
pub(crate) fn forward<T: Real>(of: &Geometry, data: &[T], weight: &[T], out: &mut [T], scratch: &mut [T]) {
    let (filters, depth) = (of.filters, of.depth());
    let (columns, result, masks) = of.parted(scratch);
    for group in 0..of.groups {
        let weight = matrix(&weight[group * filters * depth..], filters, depth, false);
        for images in of.batches() {
            let n = images.1 * of.places();
            of.gather(data, images, group, (columns, masks));
            let columns = matrix(columns, depth, n, false);
            if images.1 == 1 {
                let out = matrix_mut(&mut out[of.begins(images.0, group).1..], filters, n);
                gemm(weight, columns, out, false);
                continue;
            }
            gemm(weight, columns, matrix_mut(result, filters, n), false);
            of.filtered(images, group, |from, to, step| {
                copy_rows((&result[from..from + n], of.places()), (&mut out[to..], step), of.places());
            });
        }
    }
}

/// Writes the gradient by the data to `data`, from `grad`, that by the output.
pub(crate) fn by_data<T: Real>(of: &Geometry, grad: &[T], weight: &[T], data: &mut [T], scratch: &mut [T]) {
    data.fill(T::zero());
    let (filters, depth) = (of.filters, of.depth());
    let (columns, rows, masks) = of.parted(scratch);
    for group in 0..of.groups {
        let weight = matrix(&weight[group * filters * depth..], depth, filters, true);
        for images in of.batches() {
            let n = images.1 * of.places();
            of.gather_filters(images, group, grad, rows);
            gemm(weight, matrix(rows, filters, n, false), matrix_mut(columns, depth, n), false);
            of.scatter((columns, masks), images, group, data);
        }
    }
}

/// Writes the gradient by the weight to `weight`.
pub(crate) fn by_weight<T: Real>(of: &Geometry, grad: &[T], data: &[T], weight: &mut [T], scratch: &mut [T]) {
    weight.fill(T::zero());
    let (filters, depth) = (of.filters, of.depth());
    let (columns, rows, masks) = of.parted(scratch);
    for group in 0..of.groups {
        let values = &mut weight[group * filters * depth..][..filters * depth];
        for images in of.batches() {
            let n = images.1 * of.places();
            of.gather(data, images, group, (columns, masks));
            of.gather_filters(images, group, grad, rows);
            let (rows, columns) = (matrix(rows, filters, n, false), matrix(columns, n, depth, true));
            gemm(rows, columns, matrix_mut(values, filters, depth), true);
        }
    }
}

/// A convolution in parts, each of some images, or of some groups where there is one image. The
/// parts write disjoint pieces of the images; those of images add their gradients by the weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    whole: Geometry,
    /// What a part has, but for the last, which may have less.
    part: Geometry,
}

impl Cut {
    /// Cuts into at most so many parts.
    pub fn new(whole: &Geometry, parts: usize) -> Cut {
        let part = match whole.images {
            0 | 1 => Geometry { groups: whole.groups.div_ceil(parts), ..*whole },
            images => Geometry { images: images.div_ceil(parts), ..*whole },
        };
        Cut { whole: *whole, part }
    }

    pub fn parts(&self) -> usize {
        let Cut { whole, part } = self;
        whole.images.div_ceil(part.images.max(1)).max(whole.groups.div_ceil(part.groups.max(1)))
    }

    /// Whether each part has the whole of the weight.
    pub fn shares_weight(&self) -> bool {
        self.part.groups == self.whole.groups
    }

    /// How many elements of the images with channels a part has, and of those with filters.
    pub fn sides(&self) -> (usize, usize) {
        let Geometry { images, groups, channels, filters, .. } = self.part;
        (images * groups * channels * self.part.pixels(), images * groups * filters * self.part.places())
    }

    /// The sizes of a part.
    pub fn part(&self, number: usize) -> Geometry {
        let Cut { whole, part } = *self;
        let left = |whole: usize, part: usize| part.min(whole.saturating_sub(number * part));
        match self.shares_weight() {
            true => Geometry { images: left(whole.images, part.images), ..part },
            false => Geometry { groups: left(whole.groups, part.groups), ..part },
        }
    }

    /// What a part has of an array with so many elements for each group, such as the weight.
    pub fn of_groups<'a, T>(&self, values: &'a [T], each: usize, number: usize) -> &'a [T] {
        match self.shares_weight() {
            true => values,
            false => &values[number * self.part.groups * each..][..self.part(number).groups * each],
        }
    }
}

#[cfg(test)]
mod tests;
