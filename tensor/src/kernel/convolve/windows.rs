//! The windows of a convolution as the columns of a matrix: elements of images are copied there,
//! and what became of the columns is added to the elements.
//!
//! Used by `convolve.rs`. Where there is a window for each element, a row of the matrix is the
//! image, moved. Where images are small, a mask for each move says which places have an element of
//! the image.

#![forbid(unsafe_code)]

use crate::kernel::convolve::{Geometry, Window};
use crate::kernel::gemm::Real;
use crate::kernel::rows::{add_where, copy_rows, copy_where};
use crate::kernel::simd::{self, Loops};
use std::ops::Range;

/// Places of a row of windows, and the first element of the images' row that they are on.
struct Span {
    begin: usize,
    end: usize,
    first: usize,
}

/// The number of a tap in its channel, and by how many rows and columns it moves an image.
type Tap = (usize, [isize; 2]);

/// How many elements masks have at most. Those of larger images would take longer than they save.
const MASKS: usize = 1 << 12;

impl Geometry {
    /// How many elements the masks have.
    pub fn masks(&self) -> usize {
        if self.is_masked() {
            self.window.taps() * self.pixels()
        } else {
            0
        }
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
    /// the image is, and the number of the tap in its channel with the rows and columns by which it
    /// moves the image.
    #[inline(always)]
    fn moves(&self, (first, count): (usize, usize), group: usize, mut image: impl FnMut(usize, usize, Tap)) {
        let (pixels, places, taps) = (self.pixels(), self.places(), self.window.taps());
        let (mut to, step) = (0, self.groups * self.channels * pixels);
        for tap in 0..self.depth() {
            let mut from = self.begins(first, group).0 + tap / taps * pixels;
            let tap = (tap % taps, self.window.moved_by(tap % taps));
            for _ in 0..count {
                image(to, from, tap);
                (to, from) = (to + places, from + step);
            }
        }
    }

    /// Whether windows are the image, moved, and small: each move has a mask then.
    fn is_masked(&self) -> bool {
        self.is_moved() && self.window.taps() * self.pixels() <= MASKS
    }

    /// Writes the masks, one for each tap: which places have an element of the image.
    pub fn write_masks<T: Real>(&self, masks: &mut [T]) {
        let is_inside = |axis: usize, at: usize, by: [isize; 2]| {
            at.checked_add_signed(by[axis]).is_some_and(|at| at < self.size[axis])
        };
        for (tap, mask) in masks.chunks_mut(self.pixels().max(1)).enumerate() {
            let by = self.window.moved_by(tap);
            for (y, row) in mask.chunks_mut(self.size[1]).enumerate() {
                let is_row = is_inside(0, y, by);
                row.iter_mut().enumerate().for_each(|(x, mask)| *mask = T::mask(is_row && is_inside(1, x, by)));
            }
        }
    }

    /// Calls `image` with each tap and image of those: where it is among the columns, which of its
    /// places have an element of all `elements`, where the first of these is, and the mask of
    /// these places.
    ///
    /// Most have all places: a move off the image ends on the image before or behind, and the mask
    /// lets nothing of that through. Only the first and the last image of all have fewer.
    #[inline(always)]
    fn masked<T: Real>(
        &self,
        images: (usize, usize),
        group: usize,
        (elements, masks): (usize, &[T]),
        mut image: impl FnMut(usize, Range<usize>, usize, &[T]),
    ) {
        let pixels = self.pixels();
        self.moves(images, group, |at, from, (tap, by)| {
            let along = by[0] * self.size[1] as isize + by[1];
            let (places, first) = match from.checked_add_signed(along).filter(|first| first + pixels <= elements) {
                Some(first) => (0..pixels, first),
                None => {
                    let (places, first) = self.moved(by);
                    (places, from + first)
                }
            };
            // Called in one place: so it is compiled for the instructions of the loops around.
            image(at, places.clone(), first, &masks[tap * pixels..][places]);
        });
    }

    /// The places that have an element of the image behind a move, and where that of the first is.
    /// Some have one of another row: a mask hides those, or [`clear`](Geometry::clear) does.
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
    pub fn gather<T: Real>(&self, data: &[T], images: (usize, usize), group: usize, (into, masks): (&mut [T], &[T])) {
        let (stride, width) = (self.window.stride[1], self.out[1]);
        if self.is_masked() {
            return simd::run(Gather { of: self, data, images, group, into, masks });
        }
        if self.is_moved() {
            return self.moves(images, group, |to, from, (_, by)| {
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
            return self.moves(images, group, |to, from, (_, [down, right])| {
                let from = (&data[from + down as usize * self.size[1] + right as usize..], self.size[1]);
                copy_rows(from, (&mut into[to..to + self.places()], width), width);
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
    pub fn scatter<T: Real>(
        &self,
        (from, masks): (&mut [T], &[T]),
        images: (usize, usize),
        group: usize,
        data: &mut [T],
    ) {
        let stride = self.window.stride[1];
        if self.is_masked() {
            return simd::run(Scatter { of: self, from, images, group, data, masks });
        }
        if self.is_inside() {
            return self.moves(images, group, |at, to, (_, [down, right])| {
                let to = &mut data[to + down as usize * self.size[1] + right as usize..];
                for (y, from) in from[at..at + self.places()].chunks_exact(self.out[1]).enumerate() {
                    let to = &mut to[y * self.size[1]..][..self.out[1]];
                    to.iter_mut().zip(from).for_each(|(to, from)| *to = *to + *from);
                }
            });
        }
        if self.is_moved() {
            return self.moves(images, group, |at, to, (_, by)| {
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

    /// Calls `filter` with each filter: where its images begin among the columns of a matrix, and
    /// where among all images, and how far these are apart.
    pub fn filtered(&self, (first, count): (usize, usize), group: usize, mut filter: impl FnMut(usize, usize, usize)) {
        let places = self.places();
        for number in 0..self.filters {
            let at = self.begins(first, group).1 + number * places;
            filter(number * count * places, at, self.groups * self.filters * places);
        }
    }

    /// Copies the filters' images into the rows of a matrix, a row a filter.
    pub fn gather_filters<T: Real>(&self, images: (usize, usize), group: usize, from: &[T], rows: &mut [T]) {
        let places = self.places();
        self.filtered(images, group, |to, at, step| {
            copy_rows((&from[at..], step), (&mut rows[to..to + images.1 * places], places), places);
        });
    }
}

/// Copies the elements of images, moved, into the rows of a matrix.
struct Gather<'a, T> {
    of: &'a Geometry,
    data: &'a [T],
    images: (usize, usize),
    group: usize,
    into: &'a mut [T],
    masks: &'a [T],
}

impl<T: Real> Loops for Gather<'_, T> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Gather { of, data, images, group, into, masks } = self;
        of.masked(images, group, (data.len(), masks), |to, places, first, mask| {
            let into = &mut into[to..to + of.pixels()];
            if places.len() < into.len() {
                into[..places.start].fill(T::zero());
                into[places.end..].fill(T::zero());
            }
            copy_where(mask, &data[first..first + places.len()], &mut into[places]);
        });
    }
}

/// Adds the rows of a matrix to the elements of images, moved.
struct Scatter<'a, T> {
    of: &'a Geometry,
    from: &'a [T],
    images: (usize, usize),
    group: usize,
    data: &'a mut [T],
    masks: &'a [T],
}

impl<T: Real> Loops for Scatter<'_, T> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Scatter { of, from, images, group, data, masks } = self;
        of.masked(images, group, (data.len(), masks), |at, places, first, mask| {
            let to = &mut data[first..first + places.len()];
            add_where(mask, &from[at + places.start..at + places.end], to);
        });
    }
}
