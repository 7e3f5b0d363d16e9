//! Walks over the elements of a layout, tile by tile: [`Reader`] and [`Writer`], which convert
//! between the type of the elements and that of a computation, and [`blocks`], which computes
//! elements of one from those of others.
//!
//! Used by `access.rs`, whose blobs make them for operators. Elements of the computation's type
//! that lie one after the other are used where they are; others are copied, a block at a time.

use crate::dtype::Element;
use crate::shape::{Layout, MAX_RANK};
use std::fmt;
use std::marker::PhantomData;

/// The most readers of [`blocks`].
pub(crate) const INPUTS: usize = 4;

/// Shorter runs are copied into blocks.
const SHORTEST: usize = 64;

/// Rows of elements. The first lies at `place`; `down` and `right` are the steps to the next row
/// and to the next column.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    place: isize,
    rows: usize,
    columns: usize,
    down: isize,
    right: isize,
}

impl Tile {
    /// Calls `each` for every element, as `each(number, step from the first)`: in the order in
    /// which they lie in memory, so far as one of both steps is the shorter one.
    #[inline(always)]
    fn each(&self, mut each: impl FnMut(usize, isize)) {
        if self.rows > 1 && self.down.abs() < self.right.abs() {
            for column in 0..self.columns {
                (0..self.rows).for_each(|row| {
                    each(row * self.columns + column, column as isize * self.right + row as isize * self.down);
                });
            }
            return;
        }
        for row in 0..self.rows {
            let (first, begin) = (row * self.columns, row as isize * self.down);
            // Each of these loops is compiled for its step.
            match self.right {
                0 => (0..self.columns).for_each(|column| each(first + column, begin)),
                1 => (0..self.columns).for_each(|column| each(first + column, begin + column as isize)),
                right => (0..self.columns).for_each(|column| each(first + column, begin + column as isize * right)),
            }
        }
    }

    fn size(&self) -> usize {
        self.rows * self.columns
    }
}

/// Reads a tile's elements, row by row, into the buffer.
pub(super) type Gather<W> = unsafe fn(*const u8, &Tile, &mut [W]);
/// Writes a tile's elements, row by row, from the buffer.
pub(super) type Scatter<W> = unsafe fn(*mut u8, &Tile, &[W]);

/// # Safety
/// The elements of the tile are readable values of `T`.
pub(super) unsafe fn gather<T: Element, W: Element>(base: *const u8, tile: &Tile, into: &mut [W]) {
    assert_eq!(tile.size(), into.len());
    // SAFETY: as the caller says.
    let first = unsafe { base.cast::<T>().offset(tile.place) };
    if T::DTYPE == W::DTYPE && tile.right == 1 {
        for (row, into) in into.chunks_exact_mut(tile.columns).enumerate() {
            // SAFETY: as the caller says; each type of elements has a name of its own, so both are
            // one type. What is copied to is borrowed exclusively.
            unsafe {
                let from = first.offset(row as isize * tile.down).cast::<W>();
                std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), tile.columns);
            }
        }
        return;
    }
    if tile.right == 0 && tile.columns > 1 {
        for (row, into) in into.chunks_exact_mut(tile.columns).enumerate() {
            // SAFETY: as the caller says.
            into.fill(W::from_number(unsafe { first.offset(row as isize * tile.down).read() }.to_number()));
        }
        return;
    }
    tile.each(|at, step| {
        // SAFETY: as the caller says; `into` has a place for each.
        unsafe { *into.get_unchecked_mut(at) = W::from_number(first.offset(step).read().to_number()) };
    });
}

/// # Safety
/// The elements of the tile are values of `T`, to be written.
pub(super) unsafe fn scatter<T: Element, W: Element>(base: *mut u8, tile: &Tile, from: &[W]) {
    assert_eq!(tile.size(), from.len());
    // SAFETY: as the caller says.
    let first = unsafe { base.cast::<T>().offset(tile.place) };
    tile.each(|at, step| {
        // SAFETY: as the caller says; `from` has a value for each.
        unsafe { first.offset(step).write(T::from_number(from.get_unchecked(at).to_number())) };
    });
}

/// # Safety
/// As for [`scatter`], and the values may be read.
pub(super) unsafe fn scatter_add<T: Element, W: Element>(base: *mut u8, tile: &Tile, from: &[W]) {
    assert_eq!(tile.size(), from.len());
    // SAFETY: as the caller says.
    let first = unsafe { base.cast::<T>().offset(tile.place) };
    tile.each(|at, step| {
        // SAFETY: as the caller says; `from` has a value for each.
        let (element, value) = unsafe { (first.offset(step), *from.get_unchecked(at)) };
        // SAFETY: as the caller says.
        let sum = add(W::from_number(unsafe { element.read() }.to_number()), value);
        // SAFETY: as the caller says.
        unsafe { element.write(T::from_number(sum.to_number())) };
    });
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

/// Walks over the places of a layout, tile by tile. Axes that lie within each other are one.
struct Walk {
    dims: [usize; MAX_RANK],
    strides: [isize; MAX_RANK],
    /// How far it is along each axis; the last one counts the elements of a row.
    at: [usize; MAX_RANK],
    rank: usize,
    place: isize,
    left: usize,
}

impl Walk {
    fn new(layout: &Layout) -> Walk {
        let merged = layout.merged();
        let mut walk = Walk {
            dims: [1; MAX_RANK],
            strides: merged.strides,
            at: [0; MAX_RANK],
            rank: merged.shape.rank().max(1),
            place: layout.offset as isize,
            left: layout.shape.size(),
        };
        walk.dims[..merged.shape.rank()].copy_from_slice(merged.shape.dims());
        walk
    }

    /// How many of the next elements lie one after the other, as far as the end of the row.
    fn run(&self) -> usize {
        let last = self.rank - 1;
        let row = self.dims[last] - self.at[last];
        if self.strides[last] == 1 || row == 1 {
            row.min(self.left)
        } else {
            0
        }
    }

    /// The next tile of at most `most` elements: whole rows, or a part of one.
    fn next(&mut self, most: usize) -> Option<Tile> {
        let (most, mut axis) = (most.min(self.left), self.rank - 1);
        if most == 0 {
            return None;
        }
        let row = self.dims[axis];
        let mut tile = Tile { place: self.place, rows: 1, columns: row, down: 0, right: self.strides[axis] };
        if axis > 0 && self.at[axis] == 0 && most >= 2 * row {
            axis -= 1;
            tile.rows = (most / row).min(self.dims[axis] - self.at[axis]);
            tile.down = self.strides[axis];
        } else {
            tile.columns = most.min(row - self.at[axis]);
        }
        let along = if axis + 1 == self.rank { tile.columns } else { tile.rows };
        self.left -= tile.size();
        self.at[axis] += along;
        self.place += self.strides[axis] * along as isize;
        for axis in (1..=axis).rev() {
            if self.at[axis] < self.dims[axis] {
                break;
            }
            self.at[axis] = 0;
            self.place -= self.strides[axis] * self.dims[axis] as isize;
            self.at[axis - 1] += 1;
            self.place += self.strides[axis - 1];
        }
        Some(tile)
    }
}

/// Reads the elements of a [`Blob`](crate::Blob) in order.
pub struct Reader<'a, W> {
    base: *const u8,
    walk: Walk,
    gather: Gather<W>,
    /// Whether the elements are of type `W`, and nobody writes them meanwhile.
    is_direct: bool,
    of: PhantomData<&'a [u8]>,
}

impl<'a, W: Element> Reader<'a, W> {
    /// A reader of a chunk's memory: all of the layout's extent is readable, and by `gather`. If
    /// `is_direct`, it has values of `W` that nobody changes during `'a`.
    pub(super) fn new(base: *const u8, layout: &Layout, gather: Gather<W>, is_direct: bool) -> Self {
        Reader { base, walk: Walk::new(layout), gather, is_direct, of: PhantomData }
    }

    /// Reads as many elements as there are, and as there is room for; says how many.
    pub fn fill(&mut self, into: &mut [W]) -> usize {
        let mut filled = 0;
        while let Some(tile) = self.walk.next(into.len() - filled) {
            // SAFETY: the walk gives places of the layout, whose extent lies in the chunk's memory.
            unsafe { (self.gather)(self.base, &tile, &mut into[filled..filled + tile.size()]) };
            filled += tile.size();
        }
        filled
    }

    /// How many of the next elements can be had where they are.
    pub(crate) fn run(&self) -> usize {
        if self.is_direct {
            self.walk.run()
        } else {
            0
        }
    }

    /// The next elements: where they are if [`run`](Reader::run) says so, else in the buffer.
    pub(crate) fn next<'b>(&mut self, count: usize, buffer: &'b mut [W]) -> &'b [W]
    where
        'a: 'b,
    {
        if self.run() < count {
            let filled = self.fill(&mut buffer[..count]);
            return &buffer[..filled];
        }
        let Some(tile) = self.walk.next(count) else { return &[] };
        // SAFETY: as for `fill`; as in `new`, the values are of this type and stay. By `run`, they
        // lie one after the other in one row, of which the walk has taken `count`.
        unsafe { std::slice::from_raw_parts(self.base.cast::<W>().offset(tile.place), tile.columns) }
    }
}

/// Writes the elements of a [`BlobMut`](crate::BlobMut) in order.
pub struct Writer<'a, W> {
    base: *mut u8,
    walk: Walk,
    scatter: Scatter<W>,
    /// Whether the elements are of type `W`, and what was there does not count.
    is_direct: bool,
    of: PhantomData<&'a mut [u8]>,
}

impl<W: Element> Writer<'_, W> {
    /// A writer to a chunk's memory: all of the layout's extent may be written, and by `scatter`.
    /// If `is_direct`, it has values of `W`.
    pub(super) fn new(base: *mut u8, layout: &Layout, scatter: Scatter<W>, is_direct: bool) -> Self {
        Writer { base, walk: Walk::new(layout), scatter, is_direct, of: PhantomData }
    }

    /// Writes the next elements; those beyond the end are left out.
    pub fn put(&mut self, from: &[W]) {
        let mut put = 0;
        while let Some(tile) = self.walk.next(from.len() - put) {
            // SAFETY: as for `fill`, and the operation may change the memory.
            unsafe { (self.scatter)(self.base, &tile, &from[put..put + tile.size()]) };
            put += tile.size();
        }
    }

    fn run(&self) -> usize {
        if self.is_direct {
            self.walk.run()
        } else {
            0
        }
    }
}

/// Computes elements, of as many of each input.
pub(crate) type Function<'f, W> = dyn Fn(&[&[W]], &mut [W]) + 'f;

/// Writes `f` of what the readers give, which have as many elements as the writer: block by block,
/// or in longer runs where all have their elements in memory as `f` is given them.
///
/// `f` computes from its arguments alone: what it writes may be in the memory of a reader that is
/// not direct, and has been read into a buffer before.
pub(crate) fn blocks<W: Element, const BLOCK: usize>(
    readers: &mut [Reader<'_, W>],
    writer: &mut Writer<'_, W>,
    f: &Function<'_, W>,
) {
    let (mut buffers, mut result) = ([[W::default(); BLOCK]; INPUTS], [W::default(); BLOCK]);
    while writer.walk.left > 0 {
        let run = readers.iter().map(Reader::run).fold(writer.run(), usize::min);
        let count = if run >= SHORTEST { run } else { writer.walk.left.min(BLOCK) };
        let mut slices = [&[][..]; INPUTS];
        for ((reader, buffer), slice) in readers.iter_mut().zip(&mut buffers).zip(&mut slices) {
            *slice = reader.next(count, buffer);
        }
        let slices = &slices[..readers.len()];
        if writer.run() < count {
            f(slices, &mut result[..count]);
            writer.put(&result[..count]);
        } else if let Some(tile) = writer.walk.next(count) {
            // SAFETY: as for `put` and in `new`; by `run`, the places lie one after the other. No
            // slice of them is left: readers of memory that is written have filled buffers.
            f(slices, unsafe { std::slice::from_raw_parts_mut(writer.base.cast::<W>().offset(tile.place), count) });
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
