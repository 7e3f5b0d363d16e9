//! How an operation reaches the elements of its arrays: [`Argument`] goes with the operation, and
//! becomes a [`Blob`] or a [`BlobMut`] while it runs.
//!
//! Used by `transfer.rs` and `operator/kernel_call.rs`, which declare the arguments' variables and
//! borrow the arguments in one place, so what is borrowed is what was declared. Operators see
//! blobs.
//!
//! The memory of a device is not reached from here: `device_blob.rs` has what operators of a device
//! are given.
//!
//! **Aliasing.** An output may be in the same memory as an input, if the operator allows that. Both
//! blobs then give out no slices. They are read and written block by block, through copies.

use crate::dtype::{with_type, DType, Element};
use crate::error::{Error, ErrorKind};
use crate::ndarray::array::NDArray;
use crate::ndarray::cursor::{gather, scatter, scatter_add, Gather, Reader, Scatter, Writer};
use crate::ndarray::device_blob::Reach;
use crate::ndarray::runtime::Runtime;
use crate::request::OpReq;
use crate::shape::{Layout, Shape};
use crate::storage::memory::Memory;
use seriatim::{Context, Device, Variable};
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

/// Operations with at most so many elements in all are declared short: where they are ready they
/// run inside of their push, which takes less time than the way to another core. A function of
/// shapes alone.
pub(crate) const SHORT: usize = 4096;

/// An array as an operation carries it: without a count of references.
#[derive(Clone, Copy)]
pub(crate) struct Argument {
    number: u32,
    dtype: DType,
    context: Context,
    elements: usize,
    pub layout: Layout,
    pub variable: Variable,
}

impl From<&NDArray> for Argument {
    fn from(array: &NDArray) -> Argument {
        Argument {
            number: array.number(),
            dtype: array.dtype(),
            context: array.context(),
            elements: array.elements(),
            layout: *array.layout(),
            variable: array.var(),
        }
    }
}

impl Argument {
    /// Whether both may have an element in common.
    pub fn overlaps(&self, other: &Argument) -> bool {
        let ((a, b), (c, d)) = (self.layout.extent(), other.layout.extent());
        self.number == other.number && a < d && c < b
    }

    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The number of the chunk.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether the layout shows each element of the memory, and each once.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.layout.shape.size() == self.elements && !self.layout.repeats()
    }

    /// Takes the memory away, as if nothing had written it.
    ///
    /// # Safety
    /// As for [`write`](Argument::write).
    pub unsafe fn take_memory(&self, runtime: &Runtime) {
        // SAFETY: as the caller says.
        drop(unsafe { runtime.chunks().get(self.number).memory_mut() }.take());
    }

    /// The elements, to be read. `shared` says that an output is in the same memory.
    ///
    /// # Safety
    /// The caller is in an operation that has declared the variable, and keeps `Blob` no longer. If
    /// the operation also changes the memory through another blob, both are `shared`.
    #[inline]
    pub unsafe fn read<'a>(&'a self, runtime: &'a Runtime, shared: bool) -> Result<Blob<'a>, Error> {
        // SAFETY: as the caller says.
        let memory = unsafe { runtime.chunks().get(self.number).memory() };
        let base = match memory {
            Some(memory) => memory.address(false)?.as_ptr(),
            None if self.layout.shape.size() == 0 => std::ptr::NonNull::<u64>::dangling().as_ptr().cast(),
            None => return Err(self.unwritten()),
        };
        Ok(Blob(self.place(base, Reach::of(shared))))
    }

    pub(super) fn place(&self, base: *mut u8, reach: Reach) -> Place<'_> {
        Place { base, layout: &self.layout, dtype: self.dtype, reach, of: PhantomData }
    }

    #[cold]
    fn unwritten(&self) -> Error {
        if self.context.device() == Device::Gpu {
            return unreachable_from_here(self.context);
        }
        let message = format!("{} {} is read, and nothing has written it", self.dtype, self.layout.shape);
        Error::new(ErrorKind::Unwritten, message)
    }

    /// The elements, to be written. The first time makes the memory. It is set to zero unless
    /// `covers`, which says that the operation writes every element of the layout; what the layout
    /// does not show is zero in any case.
    ///
    /// # Safety
    /// As for [`read`](Argument::read), for an operation that has declared to change the variable.
    #[inline]
    pub unsafe fn write<'a>(&'a self, runtime: &'a Runtime, covers: bool, shared: bool) -> Result<BlobMut<'a>, Error> {
        // SAFETY: as the caller says.
        let memory = unsafe { runtime.chunks().get(self.number).memory_mut() };
        let memory = match memory {
            Some(memory) => memory,
            None => memory.insert(self.new_memory(runtime, covers)?),
        };
        if memory.is_read_only() {
            return Err(self.read_only());
        }
        Ok(BlobMut(self.place(memory.address(true)?.as_ptr(), Reach::of(shared))))
    }

    #[cold]
    fn new_memory(&self, runtime: &Runtime, covers: bool) -> Result<Memory, Error> {
        let tag = runtime.chunks().get(self.number).tag();
        let mut made = runtime.storage().alloc_as(tag, self.elements * self.dtype.size(), self.context)?;
        if !(covers && self.is_whole()) || self.dtype == DType::Bool {
            made.bytes_mut().fill(0);
        }
        Ok(Memory::Block(made))
    }

    #[cold]
    fn read_only(&self) -> Error {
        let message = format!(
            "{} {} is written, and its memory was lent to be read only: change a copy of it",
            self.dtype, self.layout.shape
        );
        Error::new(ErrorKind::ReadOnly, message)
    }

    /// The address of the first element, for an asynchronous operation that stays open while
    /// somebody else uses the memory.
    ///
    /// # Safety
    /// As for [`read`](Argument::read), or for [`write`](Argument::write) if `writes`; the address
    /// is not used after the operation's end.
    pub unsafe fn address(&self, runtime: &Runtime, writes: bool) -> Result<*mut u8, Error> {
        let base = if writes {
            // SAFETY: as the caller says.
            unsafe { self.write(runtime, false, true) }?.0.base
        } else {
            // SAFETY: as the caller says.
            unsafe { self.read(runtime, true) }?.0.base
        };
        Ok(self.first(base))
    }

    /// The address of the first element in memory that begins here.
    pub fn first(&self, base: *mut u8) -> *mut u8 {
        base.wrapping_add(self.layout.offset * self.dtype.size())
    }
}

/// No call pushes an operation of the processor on an array of a device: it is refused before.
#[cold]
fn unreachable_from_here(context: Context) -> Error {
    let message = format!("an operation of the processor cannot reach an array of {context}: copy it to the processor");
    Error::new(ErrorKind::UnsupportedContext, message)
}

#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub base: *mut u8,
    /// Of the argument, or made by the operator: a copy would be most of a blob.
    pub layout: &'a Layout,
    pub dtype: DType,
    pub reach: Reach,
    of: PhantomData<&'a [u8]>,
}

impl Place<'_> {
    /// Where the memory begins, for those who walk over its elements here.
    #[inline]
    fn here(&self) -> *mut u8 {
        self.reach.check_processor();
        self.base
    }

    /// The address of the first element.
    pub fn first(&self) -> *mut u8 {
        self.base.wrapping_add(self.layout.offset * self.dtype.size())
    }
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

            /// How many elements there are.
            #[inline]
            pub fn size(&self) -> usize {
                self.0.layout.shape.size()
            }

            /// Whether [`Blob::as_slice`] or [`BlobMut::as_mut_slice`] would give a slice of `T`.
            #[inline]
            fn is_slice<T: Element>(&self) -> bool {
                self.0.dtype == T::DTYPE && self.0.reach == Reach::Alone && self.0.layout.is_contiguous()
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
    /// The elements, if they are of this type, lie one after the other, and are not also written.
    #[inline]
    pub fn as_slice<T: Element>(&self) -> Option<&'a [T]> {
        // SAFETY: in the layout's extent all bytes are initialised values of the type (`write`),
        // and nobody changes them while the operation runs.
        self.is_slice::<T>().then(|| unsafe {
            std::slice::from_raw_parts(self.0.base.cast::<T>().add(self.0.layout.offset), self.size())
        })
    }

    /// Elements in a slice, laid out one after the other or otherwise.
    pub(crate) fn of_slice<T: Element>(values: &'a [T], layout: &'a Layout) -> Blob<'a> {
        assert!(layout.extent().1 <= values.len());
        let base = values.as_ptr().cast::<u8>().cast_mut();
        Blob(Place { base, dtype: T::DTYPE, layout, reach: Reach::Alone, of: PhantomData })
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
        Blob(Place { layout, ..self.0 })
    }

    /// All elements in order, converted to `W`.
    pub fn to_vec<W: Element>(&self) -> Vec<W> {
        let mut values = vec![W::default(); self.size()];
        self.reader().fill(&mut values);
        values
    }
}

impl<'a> BlobMut<'a> {
    /// Elements in a slice, to be written.
    pub(crate) fn of_slice<T: Element>(values: &'a mut [T], layout: &'a Layout) -> BlobMut<'a> {
        assert!(layout.extent().1 <= values.len());
        let base = values.as_mut_ptr().cast::<u8>();
        BlobMut(Place { base, dtype: T::DTYPE, layout, reach: Reach::Alone, of: PhantomData })
    }

    /// Stands for an array that is not to be written: it gives out no slices, and its writers write
    /// nothing.
    pub(crate) fn nothing(argument: &'a Argument) -> BlobMut<'a> {
        BlobMut(argument.place(std::ptr::null_mut(), Reach::Shared))
    }

    /// The elements, if they are of this type, lie one after the other, and are not also read.
    #[inline]
    pub fn as_mut_slice<T: Element>(&mut self) -> Option<&mut [T]> {
        // SAFETY: as for `as_slice`, and this operation alone has the variable; `self` is borrowed
        // exclusively, and no other blob of the operation gives out slices of this memory.
        self.is_slice::<T>().then(|| unsafe {
            let first = self.0.base.cast::<T>().add(self.0.layout.offset);
            std::slice::from_raw_parts_mut(first, self.0.layout.shape.size())
        })
    }

    /// The elements as cells, if they are of this type, lie one after the other, and are at the
    /// places of those of `input`: for a computation in place, which reads `input` through them.
    pub(crate) fn as_cells<T: Element>(&mut self, input: &Blob<'_>) -> Option<&[Cell<T>]> {
        let (place, other) = (&self.0, &input.0);
        let is_same =
            std::ptr::eq(place.here(), other.here()) && place.layout == other.layout && other.dtype == T::DTYPE;
        // SAFETY: as for `as_mut_slice`. Other blobs of this memory are shared, so there are no
        // slices of it while the cells are borrowed, and cells may be changed beside reads.
        (is_same && place.dtype == T::DTYPE && place.layout.is_contiguous()).then(|| unsafe {
            let first = place.base.cast::<Cell<T>>().add(place.layout.offset);
            std::slice::from_raw_parts(first, place.layout.shape.size())
        })
    }

    /// The same, while this one is not used.
    pub(crate) fn again(&mut self) -> BlobMut<'_> {
        self.with_layout(self.layout())
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
        Blob(Place { reach: Reach::Shared, ..self.0 })
    }

    /// The same elements, shown in another way. The new layout has its extent within the old one.
    pub(crate) fn with_layout<'b>(&'b mut self, layout: &'b Layout) -> BlobMut<'b> {
        BlobMut(Place { layout, ..self.0 })
    }
}
