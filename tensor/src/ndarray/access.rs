//! How an operation reaches the elements of its arrays: while it runs, it has a [`Blob`] or a
//! [`BlobMut`] of each.
//!
//! `frame.rs` has what goes with an operation, and makes blobs of that here. Operators see blobs.
//!
//! The memory of a device is not reached from here: `device_blob.rs` has what operators of a device
//! are given.
//!
//! **Aliasing.** An output may be in the same memory as an input, if the operator allows that. Both
//! blobs then give out no slices. They are read and written block by block, through copies.

use crate::dtype::{with_type, DType, Element};
use crate::error::{Error, ErrorKind};
use crate::ndarray::chunk::{Chunk, Whole};
use crate::ndarray::cursor::{gather, scatter, scatter_add, Gather, Reader, Scatter, Writer};
use crate::ndarray::device_blob::Reach;
use crate::ndarray::frame::{Argument, Frame};
use crate::ndarray::place::Place;
use crate::request::OpReq;
use crate::shape::{Layout, Shape};
use crate::storage::memory::Memory;
use crate::storage::Storage;
use seriatim::{Context, Device};
use std::cell::Cell;
use std::fmt;

/// Operations with at most so many elements in all are declared short: where they are ready they
/// run inside of their push, which takes less time than the way to another core. A function of
/// shapes alone.
pub(crate) const SHORT: usize = 4096;

impl Chunk {
    /// The elements of a layout, as [`Frame::read`](crate::ndarray::frame::Frame::read) has them.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub(super) unsafe fn read<'a>(&'a self, layout: &'a Layout, shared: bool) -> Result<Blob<'a>, Error> {
        // SAFETY: as the caller says.
        let base = match unsafe { self.memory() } {
            Some(memory) => memory.address(false)?.as_ptr(),
            None if layout.shape.size() == 0 => std::ptr::NonNull::<u64>::dangling().as_ptr().cast(),
            None => return Err(self.unwritten(layout)),
        };
        Ok(Blob(self.show(base, layout, Reach::of(shared))))
    }

    #[inline]
    pub(super) fn show<'a>(&self, base: *mut u8, layout: &'a Layout, reach: Reach) -> Place<'a> {
        Place::new(base, layout, self.whole().dtype, reach)
    }

    #[cold]
    fn unwritten(&self, layout: &Layout) -> Error {
        let Whole { context, dtype, .. } = self.whole();
        if context.device() == Device::Gpu {
            return unreachable_from_here(*context);
        }
        let message = format!("{dtype} {} is read, and nothing has written it", layout.shape);
        Error::new(ErrorKind::Unwritten, message)
    }

    /// The elements of a layout, as [`Frame::write`](crate::ndarray::frame::Frame::write) has them.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub(super) unsafe fn write<'a>(
        &'a self,
        storage: &Storage,
        layout: &'a Layout,
        covers: bool,
        shared: bool,
    ) -> Result<BlobMut<'a>, Error> {
        // SAFETY: as the caller says.
        let memory = match unsafe { self.memory_mut() } {
            Some(memory) => memory,
            none => none.insert(self.new_memory(storage, covers && layout.is_all_of(self.whole().elements))?),
        };
        if memory.is_read_only() {
            return Err(self.read_only(layout));
        }
        Ok(BlobMut(self.show(memory.address(true)?.as_ptr(), layout, Reach::of(shared))))
    }

    fn new_memory(&self, storage: &Storage, covers: bool) -> Result<Memory, Error> {
        let Whole { elements, dtype, context, .. } = *self.whole();
        let mut made = storage.alloc_as(self.tag(), elements * dtype.size(), context)?;
        if !covers || dtype == DType::Bool {
            made.bytes_mut().fill(0);
        }
        Ok(Memory::Block(made))
    }

    #[cold]
    fn read_only(&self, layout: &Layout) -> Error {
        let message = format!(
            "{} {} is written, and its memory was lent to be read only: change a copy of it",
            self.whole().dtype,
            layout.shape
        );
        Error::new(ErrorKind::ReadOnly, message)
    }
}

/// No call pushes an operation of the processor on an array of a device: it is refused before.
#[cold]
fn unreachable_from_here(context: Context) -> Error {
    let message = format!("an operation of the processor cannot reach an array of {context}: copy it to the processor");
    Error::new(ErrorKind::UnsupportedContext, message)
}

/// An array that an operator reads (`TBlob` of `in_data`).
///
/// Its elements can be had as a slice if they lie one after the other, and else block by block.
#[derive(Clone, Copy)]
pub struct Blob<'a>(pub(super) Place<'a>);

/// An array that an operator writes (`TBlob` of `out_data`).
pub struct BlobMut<'a>(pub(super) Place<'a>);

macro_rules! facts {
    ($($type:ident),*) => {$(
        impl<'a> $type<'a> {
            /// The type of the elements.
            #[inline]
            pub fn dtype(&self) -> DType {
                self.0.dtype
            }

            /// The sizes of the dimensions.
            #[inline]
            pub fn shape(&self) -> Shape {
                self.0.layout.shape
            }

            #[inline]
            pub(crate) fn layout(&self) -> &'a Layout {
                self.0.layout
            }

            /// The address of the first element.
            pub(super) fn first(&self) -> *mut u8 {
                self.0.first()
            }

            /// How many elements there are.
            #[inline]
            pub fn size(&self) -> usize {
                self.0.row().unwrap_or_else(|| self.0.layout.shape.size())
            }

            /// The first element and their number, if [`Blob::as_slice`] or
            /// [`BlobMut::as_mut_slice`] gives a slice of `T`.
            #[inline]
            fn slice_of<T: Element>(&self) -> Option<(*mut T, usize)> {
                let is_slice = self.0.dtype == T::DTYPE && self.0.reach == Reach::Alone;
                self.0.row().filter(|_| is_slice).map(|elements| (self.0.first().cast(), elements))
            }
        }

        impl fmt::Debug for $type<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} {}", self.dtype(), self.shape())
            }
        }
    )*};
}

facts!(Blob, BlobMut);

impl<'a> Blob<'a> {
    /// Follows the memory of an argument: see [`Place::follow`].
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub(crate) unsafe fn follow(&mut self, frame: &'a Frame, argument: Argument) -> bool {
        // SAFETY: as the caller says.
        unsafe { self.0.follow(frame, argument) }
    }

    /// The elements, if they are of this type, lie one after the other, and are not also written.
    #[inline]
    pub fn as_slice<T: Element>(&self) -> Option<&'a [T]> {
        // SAFETY: in the layout's extent all bytes are initialised values of the type (`write`),
        // and nobody changes them while the operation runs.
        self.slice_of::<T>().map(|(first, elements)| unsafe { std::slice::from_raw_parts(first, elements) })
    }

    /// Elements in a slice, laid out one after the other or otherwise.
    pub(crate) fn of_slice<T: Element>(values: &'a [T], layout: &'a Layout) -> Blob<'a> {
        assert!(layout.extent().1 <= values.len());
        let base = values.as_ptr().cast::<u8>().cast_mut();
        Blob(Place::new(base, layout, T::DTYPE, Reach::Alone))
    }

    /// Reads the elements in order, converted to `W`.
    pub fn reader<W: Element>(&self) -> Reader<'a, W> {
        self.reader_along(self.0.layout)
    }

    /// Reads the elements in the order of another layout, which has its extent within this one.
    pub(crate) fn reader_along<W: Element>(&self, layout: &Layout) -> Reader<'a, W> {
        let gather = with_type!(self.0.dtype, T => gather::<T, W> as Gather<W>);
        Reader::new(self.0.here(), layout, gather, self.0.dtype == W::DTYPE && self.0.reach == Reach::Alone)
    }

    /// Reads the elements in order, which are of this type. Compiled for one type, and not for each
    /// two.
    pub(crate) fn same_reader<T: Element>(&self) -> Reader<'a, T> {
        assert_eq!(self.0.dtype, T::DTYPE);
        Reader::new(self.0.here(), self.0.layout, gather::<T, T>, self.0.reach == Reach::Alone)
    }

    /// The same elements, shown in another way. The new layout has its extent within the old one.
    #[inline]
    pub(crate) fn with_layout<'b>(&self, layout: &'b Layout) -> Blob<'b>
    where
        'a: 'b,
    {
        Blob(self.0.shown(layout))
    }

    /// All elements in order, converted to `W`.
    pub fn to_vec<W: Element>(&self) -> Vec<W> {
        let mut values = vec![W::default(); self.size()];
        self.reader().fill(&mut values);
        values
    }
}

impl<'a> BlobMut<'a> {
    /// Whether it shows this argument, written as that is to be.
    #[inline]
    pub(crate) fn is_of(&self, frame: &Frame, argument: Argument) -> bool {
        self.0.is_of(frame, argument) && self.0.base.is_null() == argument.req.is_null()
    }

    /// Follows the memory of an argument: see [`Place::follow`].
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub(crate) unsafe fn follow(&mut self, frame: &'a Frame, argument: Argument) -> bool {
        // SAFETY: as the caller says.
        unsafe { self.0.follow(frame, argument) }
    }

    /// Elements in a slice, to be written.
    pub(crate) fn of_slice<T: Element>(values: &'a mut [T], layout: &'a Layout) -> BlobMut<'a> {
        assert!(layout.extent().1 <= values.len());
        let base = values.as_mut_ptr().cast::<u8>();
        BlobMut(Place::new(base, layout, T::DTYPE, Reach::Alone))
    }

    /// Stands for an array that is not to be written: it gives out no slices, and its writers write
    /// nothing.
    pub(crate) fn nothing(layout: &'a Layout, dtype: DType) -> BlobMut<'a> {
        BlobMut(Place::new(std::ptr::null_mut(), layout, dtype, Reach::Shared))
    }

    /// The elements, if they are of this type, lie one after the other, and are not also read.
    #[inline]
    pub fn as_mut_slice<T: Element>(&mut self) -> Option<&mut [T]> {
        // SAFETY: as for `as_slice`, and this operation alone has the variable; `self` is borrowed
        // exclusively, and no other blob of the operation gives out slices of this memory.
        self.slice_of::<T>().map(|(first, elements)| unsafe { std::slice::from_raw_parts_mut(first, elements) })
    }

    /// The elements as cells, if they are of this type, lie one after the other, and are at the
    /// places of those of `input`: for a computation in place, which reads `input` through them.
    pub(crate) fn as_cells<T: Element>(&mut self, input: &Blob<'_>) -> Option<&[Cell<T>]> {
        let (place, other) = (&self.0, &input.0);
        let is_same =
            std::ptr::eq(place.here(), other.here()) && place.layout == other.layout && other.dtype == T::DTYPE;
        // SAFETY: as for `as_mut_slice`. Other blobs of this memory are shared, so there are no
        // slices of it while the cells are borrowed, and cells may be changed beside reads.
        place
            .row()
            .filter(|_| is_same && place.dtype == T::DTYPE)
            .map(|elements| unsafe { std::slice::from_raw_parts(place.first().cast::<Cell<T>>(), elements) })
    }

    /// The same, while this one is not used.
    #[inline]
    pub(crate) fn again(&mut self) -> BlobMut<'_> {
        BlobMut(self.0)
    }

    /// Writes the elements in order, converted from `W`, as the request says.
    pub fn writer<W: Element>(&mut self, req: OpReq) -> Writer<'_, W> {
        self.writer_along(self.0.layout, req)
    }

    /// Writes the elements in the order of another layout, which has its extent within this one.
    pub(crate) fn writer_along<W: Element>(&mut self, layout: &Layout, req: OpReq) -> Writer<'_, W> {
        let scatter = match req {
            _ if self.0.base.is_null() => (|_, _, _| ()) as Scatter<W>,
            OpReq::Null => (|_, _, _| ()) as Scatter<W>,
            OpReq::Add => with_type!(self.0.dtype, T => scatter_add::<T, W> as Scatter<W>),
            OpReq::Write | OpReq::Inplace => with_type!(self.0.dtype, T => scatter::<T, W> as Scatter<W>),
        };
        let is_direct = self.0.dtype == W::DTYPE && req.overwrites() && !self.0.base.is_null();
        Writer::new(self.0.here(), layout, scatter, is_direct)
    }

    /// Writes the elements in order, which are of this type.
    pub(crate) fn same_writer<T: Element>(&mut self) -> Writer<'_, T> {
        assert_eq!(self.0.dtype, T::DTYPE);
        Writer::new(self.0.here(), self.0.layout, scatter::<T, T>, true)
    }

    /// What is there now, to be read besides: block by block, as it may be written meanwhile.
    pub(crate) fn as_blob(&mut self) -> Blob<'_> {
        self.0.here();
        Blob(self.0.beside())
    }

    /// The same elements, shown in another way. The new layout has its extent within the old one.
    pub(crate) fn with_layout<'b>(&'b mut self, layout: &'b Layout) -> BlobMut<'b> {
        BlobMut(self.0.shown(layout))
    }
}
