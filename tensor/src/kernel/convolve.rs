//! Convolutions of images in two dimensions, and what they have for gradients.
//!
//! Used by `operator/layers/filtering.rs`. Windows of some images become the columns of a matrix,
//! and the convolution a product of matrices. How many images make a product is a function of the
//! shapes, so a convolution has the same bits each time.

#![forbid(unsafe_code)]

use crate::kernel::gemm::{gemm, matrix, matrix_mut, Real};
use std::ops::Range;

/// Windows along rows and columns: their size, from window to window, from tap to tap, and how many
/// places before the first element the first window begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    pub kernel: [usize; 2],
    pub stride: [usize; 2],
    pub dilate: [usize; 2],
    pub pad: [usize; 2],
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

/// Places of a row of windows, and the first element of the images' row that they are on.
struct Span {
    begin: usize,
    end: usize,
    first: usize,
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
        self.channels * self.window.kernel[0] * self.window.kernel[1]
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
        (depth + filters) * n
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

    /// Calls `row` for each row of columns of each image: where it is among `columns` columns,
    /// where the images' row is, if windows are on one, and which of its places windows are on.
    fn taps(&self, (first, count): (usize, usize), group: usize, mut row: impl FnMut(usize, Option<usize>, &Span)) {
        let Window { kernel, stride, dilate, pad } = self.window;
        let columns = count * self.places();
        for tap in 0..self.depth() {
            let (channel, within) = (tap / (kernel[0] * kernel[1]), tap % (kernel[0] * kernel[1]));
            let (down, right) = (within / kernel[1] * dilate[0], within % kernel[1] * dilate[1]);
            let span = self.inside(right as isize - pad[1] as isize);
            for image in 0..count {
                let from = self.begins(first + image, group).0 + channel * self.pixels();
                let to = tap * columns + image * self.places();
                for y in 0..self.out[0] {
                    let line = (y * stride[0] + down).wrapping_sub(pad[0]);
                    let from = (line < self.size[0]).then(|| from + line * self.size[1]);
                    row(to + y * self.out[1], from, &span);
                }
            }
        }
    }

    /// The places of a row whose windows are on the images' row, which begins `shift` before.
    fn inside(&self, shift: isize) -> Span {
        let stride = self.window.stride[1];
        let reach = |place: isize| {
            let place = (place - shift + stride as isize - 1).div_euclid(stride as isize);
            place.clamp(0, self.out[1] as isize) as usize
        };
        let (begin, end) = (reach(0), reach(self.size[1] as isize));
        Span { begin, end: end.max(begin), first: (begin * stride).wrapping_add_signed(shift) }
    }

    /// Whether there is a window for each element. A tap's rows are the image then, moved.
    fn is_moved(&self) -> bool {
        self.window.stride == [1, 1] && self.out == self.size
    }

    /// Whether windows lie side by side and nowhere beyond the image.
    fn is_inside(&self) -> bool {
        self.window.stride == [1, 1] && self.window.pad == [0, 0]
    }

    /// Calls `image` with each tap and image of those: where it is among `columns` columns, where
    /// the image is, and by how many rows and columns the tap moves it.
    fn moves(&self, (first, count): (usize, usize), group: usize, mut image: impl FnMut(usize, usize, [isize; 2])) {
        let Window { kernel, dilate, pad, .. } = self.window;
        let (pixels, places) = (self.pixels(), self.places());
        for tap in 0..self.depth() {
            let (channel, within) = (tap / (kernel[0] * kernel[1]), tap % (kernel[0] * kernel[1]));
            let at = [within / kernel[1] * dilate[0], within % kernel[1] * dilate[1]];
            let by = [0, 1].map(|axis| at[axis] as isize - pad[axis] as isize);
            for number in 0..count {
                let from = self.begins(first + number, group).0 + channel * pixels;
                image((tap * count + number) * places, from, by);
            }
        }
    }

    /// The places that have an element of the image behind a move, and where that of the first is.
    /// Some have one of another row: those that [`clear`](Geometry::clear) sets to zero.
    fn moved(&self, [down, right]: [isize; 2]) -> (Range<usize>, usize) {
        let (by, pixels) = (down * self.size[1] as isize + right, self.pixels());
        let end = pixels.saturating_sub(by.max(0).unsigned_abs());
        let begin = by.min(0).unsigned_abs().min(end);
        (begin..end, if begin < end { begin.wrapping_add_signed(by) } else { 0 })
    }

    /// Sets the places to zero that a move leaves without an element of their row.
    fn clear<T: Real>(&self, places: &mut [T], [_, right]: [isize; 2]) {
        let width = self.size[1];
        let lost = right.unsigned_abs().min(width);
        let begin = if right > 0 { width - lost } else { 0 };
        // Down the columns: there are one or two, and rows are many.
        for column in begin..begin + lost {
            places.iter_mut().skip(column).step_by(width).for_each(|place| *place = T::zero());
        }
    }

    /// Copies the elements of windows into the rows of a matrix, a row a tap.
    fn gather<T: Real>(&self, data: &[T], images: (usize, usize), group: usize, into: &mut [T]) {
        let (stride, width) = (self.window.stride[1], self.out[1]);
        if self.is_moved() {
            return self.moves(images, group, |to, from, by| {
                let into = &mut into[to..to + self.pixels()];
                let (places, first) = self.moved(by);
                into[..places.start].fill(T::zero());
                into[places.end..].fill(T::zero());
                let count = places.len();
                into[places].copy_from_slice(&data[from + first..][..count]);
                self.clear(into, by);
            });
        }
        if self.is_inside() {
            return self.moves(images, group, |to, from, [down, right]| {
                let from = (&data[from + down as usize * self.size[1] + right as usize..], self.size[1]);
                let into = (&mut into[to..to + self.places()], width);
                match width {
                    0 => (),
                    8.. => copy_rows::<T, 8>(from, into, width),
                    4.. => copy_rows::<T, 4>(from, into, width),
                    _ => copy_rows::<T, 1>(from, into, width),
                }
            });
        }
        self.taps(images, group, |to, line, &Span { begin, end, first }| {
            let into = &mut into[to..to + width];
            let Some(line) = line.filter(|_| begin < end) else { return into.fill(T::zero()) };
            into[..begin].iter_mut().for_each(|into| *into = T::zero());
            into[end..].iter_mut().for_each(|into| *into = T::zero());
            let (from, into) = (&data[line + first..], &mut into[begin..end]);
            // Rows are short: a loop takes less time than a call that copies.
            if stride == 1 {
                into.iter_mut().zip(from).for_each(|(into, from)| *into = *from);
            } else {
                into.iter_mut().zip(from.iter().step_by(stride)).for_each(|(into, from)| *into = *from);
            }
        });
    }

    /// Adds the rows of a matrix to the elements of windows.
    fn scatter<T: Real>(&self, from: &mut [T], images: (usize, usize), group: usize, data: &mut [T]) {
        let stride = self.window.stride[1];
        if self.is_inside() {
            return self.moves(images, group, |at, to, [down, right]| {
                let to = &mut data[to + down as usize * self.size[1] + right as usize..];
                for (y, from) in from[at..at + self.places()].chunks_exact(self.out[1]).enumerate() {
                    let to = &mut to[y * self.size[1]..][..self.out[1]];
                    to.iter_mut().zip(from).for_each(|(to, from)| *to = *to + *from);
                }
            });
        }
        if self.is_moved() {
            return self.moves(images, group, |at, to, by| {
                let from = &mut from[at..at + self.pixels()];
                let (places, first) = self.moved(by);
                self.clear(from, by);
                let to = &mut data[to + first..][..places.len()];
                to.iter_mut().zip(&from[places]).for_each(|(to, from)| *to = *to + *from);
            });
        }
        self.taps(images, group, |at, line, &Span { begin, end, first }| {
            let Some(line) = line.filter(|_| begin < end) else { return };
            let (to, from) = (&mut data[line + first..], &from[at + begin..at + end]);
            if stride == 1 {
                to.iter_mut().zip(from).for_each(|(to, from)| *to = *to + *from);
            } else {
                to.iter_mut().step_by(stride).zip(from).for_each(|(to, from)| *to = *to + *from);
            }
        });
    }

    /// Copies the filters' images into the rows of a matrix, a row a filter; or back.
    fn filtered<T: Real>(
        &self,
        (first, count): (usize, usize),
        group: usize,
        mut row: impl FnMut(usize, usize, usize),
    ) {
        let places = self.places();
        for filter in 0..self.filters {
            for image in 0..count {
                let at = self.begins(first + image, group).1 + filter * places;
                row((filter * count + image) * places, at, places);
            }
        }
    }
}

/// Copies rows that are `width` long, and begin `from.1` and `into.1` elements apart. They are
/// short: by so many elements at a time no call is made for one. The last of a row may have been
/// copied before.
fn copy_rows<T: Real, const N: usize>(from: (&[T], usize), into: (&mut [T], usize), width: usize) {
    let rows = into.0.chunks_exact_mut(into.1).zip(from.0.chunks(from.1));
    for (into, from) in rows {
        let (into, from) = (&mut into[..width], &from[..width]);
        let (mut at, last) = (0, width - N);
        while at < last {
            into[at..at + N].copy_from_slice(&from[at..at + N]);
            at += N;
        }
        into[last..].copy_from_slice(&from[last..last + N]);
    }
}

/// Writes the convolution of `data` with `weight` to `out`.
pub(crate) fn forward<T: Real>(of: &Geometry, data: &[T], weight: &[T], out: &mut [T], scratch: &mut [T]) {
    let (filters, depth) = (of.filters, of.depth());
    let (columns, result) = scratch.split_at_mut(depth * of.columns());
    for group in 0..of.groups {
        let weight = matrix(&weight[group * filters * depth..], filters, depth, false);
        for images in of.batches() {
            let n = images.1 * of.places();
            of.gather(data, images, group, columns);
            let columns = matrix(columns, depth, n, false);
            if images.1 == 1 {
                let out = matrix_mut(&mut out[of.begins(images.0, group).1..], filters, n);
                gemm(weight, columns, out, false);
                continue;
            }
            gemm(weight, columns, matrix_mut(result, filters, n), false);
            of.filtered::<T>(images, group, |from, to, count| {
                out[to..to + count].copy_from_slice(&result[from..from + count]);
            });
        }
    }
}

/// Writes the gradient by the data to `data`, from `grad`, that by the output.
pub(crate) fn by_data<T: Real>(of: &Geometry, grad: &[T], weight: &[T], data: &mut [T], scratch: &mut [T]) {
    data.fill(T::zero());
    let (filters, depth) = (of.filters, of.depth());
    let (columns, rows) = scratch.split_at_mut(depth * of.columns());
    for group in 0..of.groups {
        let weight = matrix(&weight[group * filters * depth..], depth, filters, true);
        for images in of.batches() {
            let n = images.1 * of.places();
            of.filtered::<T>(images, group, |to, from, count| {
                rows[to..to + count].copy_from_slice(&grad[from..from + count]);
            });
            gemm(weight, matrix(rows, filters, n, false), matrix_mut(columns, depth, n), false);
            of.scatter(columns, images, group, data);
        }
    }
}

/// Writes the gradient by the weight to `weight`.
pub(crate) fn by_weight<T: Real>(of: &Geometry, grad: &[T], data: &[T], weight: &mut [T], scratch: &mut [T]) {
    weight.fill(T::zero());
    let (filters, depth) = (of.filters, of.depth());
    let (columns, rows) = scratch.split_at_mut(depth * of.columns());
    for group in 0..of.groups {
        let values = &mut weight[group * filters * depth..][..filters * depth];
        for images in of.batches() {
            let n = images.1 * of.places();
            of.gather(data, images, group, columns);
            of.filtered::<T>(images, group, |to, from, count| {
                rows[to..to + count].copy_from_slice(&grad[from..from + count]);
            });
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
