//! Walks over the elements of a layout, run by run: [`Reader`] and [`Writer`], which convert
//! between the type of the elements and that of a computation.
//!
//! Used by `access.rs`, whose blobs make them for operators.

use crate::dtype::Element;
use crate::shape::{Layout, MAX_RANK};
use std::fmt;
use std::marker::PhantomData;

/// Reads run after run: from the first element of a run, its stride, into the buffer.
pub(super) type Gather<W> = unsafe fn(*const u8, isize, isize, &mut [W]);
pub(super) type Scatter<W> = unsafe fn(*mut u8, (isize, isize), &[W]);

/// # Safety
/// At `place`, `place + stride`, … are as many readable values of `T` as `into` is long.
pub(super) unsafe fn gather<T: Element, W: Element>(base: *const u8, place: isize, stride: isize, into: &mut [W]) {
    // SAFETY: as the caller says.
    let first = unsafe { base.cast::<T>().offset(place) };
    if stride == 1 {
        for (at, value) in into.iter_mut().enumerate() {
            // SAFETY: as the caller says.
            *value = W::from_number(unsafe { first.add(at).read() }.to_number());
        }
    } else {
        for (at, value) in into.iter_mut().enumerate() {
            // SAFETY: as the caller says.
            *value = W::from_number(unsafe { first.offset(at as isize * stride).read() }.to_number());
        }
    }
}

/// # Safety
/// At `place`, `place + stride`, … are as many values of `T` as `from` is long, to be written.
pub(super) unsafe fn scatter<T: Element, W: Element>(base: *mut u8, (place, stride): (isize, isize), from: &[W]) {
    // SAFETY: as the caller says.
    let first = unsafe { base.cast::<T>().offset(place) };
    for (at, value) in from.iter().enumerate() {
        // SAFETY: as the caller says.
        unsafe { first.offset(at as isize * stride).write(T::from_number(value.to_number())) };
    }
}

/// # Safety
/// As for [`scatter`], and the values may be read.
pub(super) unsafe fn scatter_add<T: Element, W: Element>(base: *mut u8, (place, stride): (isize, isize), from: &[W]) {
    // SAFETY: as the caller says.
    let first = unsafe { base.cast::<T>().offset(place) };
    for (at, value) in from.iter().enumerate() {
        // SAFETY: as the caller says.
        let element = unsafe { first.offset(at as isize * stride) };
        // SAFETY: as the caller says.
        let sum = add(W::from_number(unsafe { element.read() }.to_number()), *value);
        // SAFETY: as the caller says.
        unsafe { element.write(T::from_number(sum.to_number())) };
    }
}

/// The sum of two values of one type; whole numbers wrap around.
fn add<W: Element>(one: W, two: W) -> W {
    use crate::dtype::Number::*;
    match (one.to_number(), two.to_number()) {
        (Whole(one), Whole(two)) => W::from_number(Whole(one.wrapping_add(two))),
        (Float(one), Float(two)) => W::from_number(Float(one + two)),
        _ => unreachable!("both are of one type"),
    }
}

/// Walks over the places of a layout, run by run. Axes that lie within each other are one.
struct Walk {
    dims: [usize; MAX_RANK],
    strides: [isize; MAX_RANK],
    /// How far it is along each axis; the last one counts runs' elements.
    at: [usize; MAX_RANK],
    rank: usize,
    place: isize,
    left: usize,
}

impl Walk {
    fn new(layout: &Layout) -> Walk {
        let mut walk = Walk {
            dims: [1; MAX_RANK],
            strides: [0; MAX_RANK],
            at: [0; MAX_RANK],
            rank: 0,
            place: layout.offset as isize,
            left: layout.shape.size(),
        };
        for (dim, stride) in layout.shape.dims().iter().copied().zip(layout.strides).filter(|(dim, _)| *dim != 1) {
            let last = walk.rank.wrapping_sub(1);
            if walk.rank > 0 && walk.strides[last] == stride.wrapping_mul(dim as isize) {
                walk.dims[last] *= dim;
                walk.strides[last] = stride;
            } else {
                (walk.dims[walk.rank], walk.strides[walk.rank]) = (dim, stride);
                walk.rank += 1;
            }
        }
        walk.rank = walk.rank.max(1);
        walk
    }

    /// The next run of at most `most` elements: its place, its stride and its length.
    fn next(&mut self, most: usize) -> Option<(isize, isize, usize)> {
        let last = self.rank - 1;
        let length = most.min(self.dims[last] - self.at[last]).min(self.left);
        if length == 0 {
            return None;
        }
        let run = (self.place, self.strides[last], length);
        self.left -= length;
        self.at[last] += length;
        self.place += self.strides[last] * length as isize;
        for axis in (1..self.rank).rev() {
            if self.at[axis] < self.dims[axis] {
                break;
            }
            self.at[axis] = 0;
            self.place -= self.strides[axis] * self.dims[axis] as isize;
            self.at[axis - 1] += 1;
            self.place += self.strides[axis - 1];
        }
        Some(run)
    }
}

/// Reads the elements of a [`Blob`](crate::Blob) in order.
pub struct Reader<'a, W> {
    base: *const u8,
    walk: Walk,
    gather: Gather<W>,
    of: PhantomData<&'a [u8]>,
}

impl<W: Element> Reader<'_, W> {
    /// A reader of a chunk's memory: all of the layout's extent is readable, and by `gather`.
    pub(super) fn new(base: *const u8, layout: &Layout, gather: Gather<W>) -> Self {
        Reader { base, walk: Walk::new(layout), gather, of: PhantomData }
    }

    /// Reads as many elements as there are, and as there is room for; says how many.
    pub fn fill(&mut self, into: &mut [W]) -> usize {
        let mut filled = 0;
        while let Some((place, stride, length)) = self.walk.next(into.len() - filled) {
            // SAFETY: the walk gives places of the layout, whose extent lies in the chunk's memory.
            unsafe { (self.gather)(self.base, place, stride, &mut into[filled..filled + length]) };
            filled += length;
        }
        filled
    }
}

/// Writes the elements of a [`BlobMut`](crate::BlobMut) in order.
pub struct Writer<'a, W> {
    base: *mut u8,
    walk: Walk,
    scatter: Scatter<W>,
    of: PhantomData<&'a mut [u8]>,
}

impl<W: Element> Writer<'_, W> {
    /// A writer to a chunk's memory: all of the layout's extent may be written, and by `scatter`.
    pub(super) fn new(base: *mut u8, layout: &Layout, scatter: Scatter<W>) -> Self {
        Writer { base, walk: Walk::new(layout), scatter, of: PhantomData }
    }

    /// Writes the next elements; those beyond the end are left out.
    pub fn put(&mut self, from: &[W]) {
        let mut put = 0;
        while let Some((place, stride, length)) = self.walk.next(from.len() - put) {
            // SAFETY: as for `fill`, and the operation may change the memory.
            unsafe { (self.scatter)(self.base, (place, stride), &from[put..put + length]) };
            put += length;
        }
    }
}

impl<W> fmt::Debug for Reader<'_, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reader({} left)", self.walk.left)
    }
}

impl<W> fmt::Debug for Writer<'_, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Writer({} left)", self.walk.left)
    }
}
