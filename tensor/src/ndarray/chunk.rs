//! `Chunk`: the memory of an array, which its views share.
//!
//! Used by `runtime.rs`, which keeps the chunks of a runtime, by `array.rs`, whose arrays count as
//! its owners, and by `access.rs`, through which operations reach the memory.
//!
//! A chunk is a record of `storage/slots.rs`, so making an array allocates nothing. Its memory is
//! made by the first operation that writes to it, and freed by the deletion of the chunk's
//! variable, which comes after all operations that name the variable. So operations keep no count
//! of references, and no worker looks at one.

use crate::storage::device::DeviceBlock;
use crate::storage::memory::Memory;
use crate::storage::sync::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};
use crate::storage::tags::Tag;
use seriatim::gpu::PinnedData;
use seriatim::{Context, Variable};
use std::any::Any;
use std::cell::UnsafeCell;
use std::sync::OnceLock;

/// Memory that the engine has made for an array, with the array's variable.
#[derive(Debug)]
pub(crate) enum Placed {
    /// On a device. No operation of the processor reaches it.
    Device(DeviceBlock),
    /// Of the processor, where a device copies from and to, in this context. The chunk's memory is
    /// the same.
    Pinned(PinnedData<u8>, Context),
}

impl Placed {
    pub fn variable(&self) -> Variable {
        match self {
            Placed::Device(block) => block.variable(),
            Placed::Pinned(pinned, _) => pinned.variable(),
        }
    }

    pub fn context(&self) -> Context {
        match self {
            Placed::Device(block) => block.context(),
            Placed::Pinned(_, context) => *context,
        }
    }

    /// How many bytes were asked for.
    pub fn bytes(&self) -> usize {
        match self {
            Placed::Device(block) => block.bytes(),
            Placed::Pinned(pinned, _) => pinned.len(),
        }
    }
}

#[derive(Default)]
pub struct Chunk {
    /// How many arrays and views there are.
    references: AtomicUsize,
    /// Whether the variable is private to a graph, which keeps an owner.
    is_private: AtomicBool,
    tag: AtomicU32,
    /// Only operations touch it that have declared the chunk's variable: those that change the
    /// variable as if by `&mut`, the others as if by `&`.
    memory: UnsafeCell<Option<Memory>>,
    /// Memory that the engine has made. Set before the first owner is known to others.
    placed: UnsafeCell<Option<Placed>>,
    /// What `autograd` attaches.
    gradient: UnsafeCell<OnceLock<Box<dyn Any + Send + Sync>>>,
}

// SAFETY: `memory` is guarded by the variable, as said there; a `Memory` is `Send` and `Sync`. The
// gradient is `Send` and `Sync`, and set once while there are several owners; `placed` is too, and
// changes only while there is one owner, or none.
unsafe impl Sync for Chunk {}

impl Chunk {
    /// Counts one owner of a chunk that has none. What is made for it counts under the tag.
    pub fn begin(&self, tag: Tag) {
        self.references.store(1, Relaxed);
        self.tag.store(tag.number() as u32, Relaxed);
        self.is_private.store(false, Relaxed);
    }

    /// Under which tag its memory counts, for operations and owners.
    pub fn tag(&self) -> Tag {
        Tag::with_number(self.tag.load(Relaxed))
    }

    /// Counts one more owner. The caller is one.
    pub fn share(&self) {
        // Relaxed: a new owner comes from one that stays meanwhile.
        self.references.fetch_add(1, Relaxed);
    }

    /// Counts one owner less; says whether it was the last.
    pub fn leave(&self) -> bool {
        // Release: what this owner has done comes before the end that the last one begins.
        // Acquire: the last one sees it.
        self.references.fetch_sub(1, AcqRel) == 1
    }

    /// Says that only a graph uses the memory from now on, which keeps an owner.
    pub fn make_private(&self) {
        // Relaxed: who asks is an owner, and has come from the one that says it, or leaves later.
        self.is_private.store(true, Relaxed);
    }

    pub fn is_private(&self) -> bool {
        self.is_private.load(Relaxed)
    }

    /// Puts memory there that the engine has made.
    ///
    /// # Safety
    /// The caller has the record alone: it has just begun.
    pub unsafe fn place(&self, placed: Placed) {
        if let Placed::Pinned(pinned, _) = &placed {
            // SAFETY: as the caller says.
            *unsafe { self.memory_mut() } = Some(Memory::Pinned(pinned.clone()));
        }
        // SAFETY: as the caller says.
        *unsafe { &mut *self.placed.get() } = Some(placed);
    }

    /// The memory that the engine has made, if it has.
    pub fn placed(&self) -> Option<&Placed> {
        // SAFETY: only `place` and `clear` change it, and then nobody else has the record.
        unsafe { (*self.placed.get()).as_ref() }
    }

    /// What is attached, if anything is.
    pub fn gradient(&self) -> &OnceLock<Box<dyn Any + Send + Sync>> {
        // SAFETY: only `clear` changes it otherwise, and then nobody else has the record.
        unsafe { &*self.gradient.get() }
    }

    /// The memory, to be read.
    ///
    /// # Safety
    /// The caller is in an operation that has declared the chunk's variable, and the borrow ends
    /// with it.
    #[inline]
    pub unsafe fn memory(&self) -> Option<&Memory> {
        // SAFETY: operations that change the memory have the variable to themselves.
        unsafe { (*self.memory.get()).as_ref() }
    }

    /// The memory, to be changed.
    ///
    /// # Safety
    /// The caller is in an operation that has declared to change the chunk's variable. The borrow
    /// ends with the operation, and there is no other one meanwhile.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the variable says who may have it")]
    pub unsafe fn memory_mut(&self) -> &mut Option<Memory> {
        // SAFETY: no other operation has the variable meanwhile.
        unsafe { &mut *self.memory.get() }
    }

    /// Makes the record ready for another array: takes the memory, of both kinds, and what is
    /// attached.
    ///
    /// # Safety
    /// The caller has the record alone: no owner is left and no operation that names the variable.
    pub unsafe fn clear(&self) -> (Option<Memory>, Option<Placed>, Option<Box<dyn Any + Send + Sync>>) {
        // SAFETY: nobody else has the record.
        let attached = unsafe { &mut *self.gradient.get() }.take();
        // SAFETY: as above.
        let placed = unsafe { &mut *self.placed.get() }.take();
        // SAFETY: as above.
        (unsafe { self.memory_mut() }.take(), placed, attached)
    }
}
