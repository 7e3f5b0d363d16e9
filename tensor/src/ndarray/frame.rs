//! What an operation carries of its arrays: an [`Argument`] each, and one [`Frame`] for all.
//!
//! Used by `transfer.rs`, `create.rs`, `operator/kernel_call.rs` and others that push operations:
//! they declare the arguments' variables and borrow the arguments in one place, so what is borrowed
//! is what was declared.
//!
//! An argument names a chunk and counts no reference: the chunk is freed behind all operations on
//! its variable. What an array is stands in its chunk. Only the layouts of views go along.

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Blob, BlobMut};
use crate::ndarray::array::NDArray;
use crate::ndarray::capturing::Use;
use crate::ndarray::chunk::{Chunk, Whole};
use crate::ndarray::runtime::Runtime;
use crate::request::OpReq;
use crate::shape::{Layout, Shape};
use crate::storage::copies::Copies;
use crate::storage::memory::Memory;
use seriatim::Variable;
use std::ptr::NonNull;

/// The place of an argument that is no view.
const WHOLE: u16 = u16::MAX;

/// An array of an operation.
#[derive(Clone, Copy)]
pub(crate) struct Argument {
    chunk: NonNull<Chunk>,
    pub variable: Variable,
    /// Where the layout of a view stands in the frame.
    view: u16,
    /// How a result is written.
    pub req: OpReq,
    /// Whether a result and another argument are in the same memory.
    pub shared: bool,
}

// SAFETY: a `Chunk` is `Sync`, and only frames give out references to it.
unsafe impl Send for Argument {}
// SAFETY: as above.
unsafe impl Sync for Argument {}

/// What the arguments of an operation have in common.
pub(crate) struct Frame {
    pub runtime: Runtime,
    views: Copies<Layout>,
}

impl Frame {
    pub fn new(runtime: &Runtime) -> Frame {
        Frame { runtime: runtime.clone(), views: Copies::new() }
    }

    /// The frame of an operation on one array.
    pub fn of(array: &NDArray) -> Result<(Frame, Argument), Error> {
        let mut frame = Frame::new(array.runtime());
        let argument = frame.add(array)?;
        Ok((frame, argument))
    }

    /// Adds an array of the runtime. A view takes memory of the storage.
    #[inline]
    pub fn add(&mut self, array: &NDArray) -> Result<Argument, Error> {
        let view = if array.is_view() { self.add_view(array)? } else { WHOLE };
        let (chunk, variable) = (array.chunk().into(), array.variable());
        Ok(Argument { chunk, variable, view, req: OpReq::Write, shared: false })
    }

    #[cold]
    fn add_view(&mut self, array: &NDArray) -> Result<u16, Error> {
        let place = self.views.push(self.runtime.storage(), *array.layout())?;
        u16::try_from(place).ok().filter(|place| *place != WHOLE).ok_or_else(|| {
            let message = format!("an operation of more than {WHOLE} views: give it copies of some");
            Error::new(ErrorKind::WrongArguments, message)
        })
    }

    /// The chunk of an argument that was added to this frame.
    #[inline]
    pub(super) fn chunk(&self, argument: Argument) -> &Chunk {
        // SAFETY: it is a record of the runtime of the array that was added, and records stay as
        // long as the runtime. That is this one: calls refuse arrays of several.
        unsafe { argument.chunk.as_ref() }
    }

    #[inline]
    fn whole(&self, argument: Argument) -> &Whole {
        self.chunk(argument).whole()
    }

    #[inline]
    pub fn layout(&self, argument: Argument) -> &Layout {
        match argument.view {
            WHOLE => &self.whole(argument).layout,
            view => &self.views.as_slice()[view as usize],
        }
    }

    /// How an operation uses it, for a capture; `covers` says that it writes each element of the
    /// layout and reads none.
    pub fn used(&self, argument: Argument, covers: bool) -> Use {
        let covers = covers && self.is_whole(argument);
        Use { number: self.whole(argument).number, variable: argument.variable, covers }
    }

    pub fn shape(&self, argument: Argument) -> Shape {
        self.layout(argument).shape
    }

    pub fn dtype(&self, argument: Argument) -> DType {
        self.whole(argument).dtype
    }

    /// Whether the layout shows each element of the memory, and each once.
    #[inline]
    pub fn is_whole(&self, argument: Argument) -> bool {
        self.layout(argument).is_all_of(self.whole(argument).elements)
    }

    /// The elements, to be read.
    ///
    /// # Safety
    /// The caller is in an operation that has declared the variable, and keeps `Blob` no longer. If
    /// the operation also changes the memory through another blob, both are `shared`.
    #[inline]
    pub unsafe fn read(&self, argument: Argument) -> Result<Blob<'_>, Error> {
        // SAFETY: as the caller says.
        unsafe { self.chunk(argument).read(self.layout(argument), argument.shared) }
    }

    /// Where the memory is, if it is a block of the storage.
    ///
    /// # Safety
    /// As for [`read`](Frame::read).
    #[inline]
    pub(super) unsafe fn block(&self, argument: Argument) -> Option<*mut u8> {
        // SAFETY: as the caller says.
        match unsafe { self.chunk(argument).memory() } {
            Some(Memory::Block(block)) => Some(block.address().as_ptr()),
            _ => None,
        }
    }

    /// The elements, to be written. The first time makes the memory. It is set to zero unless
    /// `covers`, which says that the operation writes every element of the layout; what the layout
    /// does not show is zero in any case.
    ///
    /// # Safety
    /// As for [`read`](Frame::read), for an operation that has declared to change the variable.
    #[inline]
    pub unsafe fn write(&self, argument: Argument, covers: bool) -> Result<BlobMut<'_>, Error> {
        let (chunk, layout) = (self.chunk(argument), self.layout(argument));
        // SAFETY: as the caller says.
        unsafe { chunk.write(self.runtime.storage(), layout, covers, argument.shared) }
    }

    /// The address of the first element, for an asynchronous operation that stays open while
    /// somebody else uses the memory.
    ///
    /// # Safety
    /// As for [`read`](Frame::read), or for [`write`](Frame::write) if `writes`; the address is not
    /// used after the operation's end.
    pub unsafe fn address(&self, argument: Argument, writes: bool) -> Result<*mut u8, Error> {
        let shared = argument.beside(true);
        if writes {
            // SAFETY: as the caller says.
            Ok(unsafe { self.write(shared, false) }?.first())
        } else {
            // SAFETY: as the caller says.
            Ok(unsafe { self.read(shared) }?.first())
        }
    }

    /// The address of the first element in memory that begins here.
    pub fn first(&self, argument: Argument, base: *mut u8) -> *mut u8 {
        base.wrapping_add(self.layout(argument).offset * self.dtype(argument).size())
    }
}

impl Argument {
    /// The same, to be written so, `shared` with another argument of the operation.
    pub fn written(self, req: OpReq, shared: bool) -> Argument {
        Argument { req, shared, ..self }
    }

    /// The same, `shared` with a result of the operation.
    pub fn beside(self, shared: bool) -> Argument {
        Argument { shared, ..self }
    }
}

impl NDArray {
    /// How an operation uses it that reaches it in another way: see [`Frame::used`].
    pub(super) fn used(&self, covers: bool) -> Use {
        let covers = covers && self.layout().is_all_of(self.elements());
        Use { number: self.number(), variable: self.variable(), covers }
    }

    /// Whether both may have an element in common.
    #[inline]
    pub(crate) fn overlaps(&self, other: &NDArray) -> bool {
        std::ptr::eq(self.chunk(), other.chunk()) && self.layout().overlaps(other.layout())
    }
}
