//! `Chunk`: the memory of an array, which its views share.
//!
//! Used by `runtime.rs`, which keeps the chunks of a runtime, by `array.rs`, whose arrays count as
//! its owners, and by `access.rs`, through which operations reach the memory.
//!
//! A chunk is a record of `storage/slots.rs`, so making an array allocates nothing. Its memory is
//! made by the first operation that writes to it, and freed by the last operation on the chunk's
//! variable, which `ending.rs` pushes. So operations keep no count of references, and no worker
//! looks at one.

use crate::dtype::DType;
use crate::shape::Layout;
use crate::storage::device::DeviceBlock;
use crate::storage::memory::Memory;
use crate::storage::owners::Owners;
use crate::storage::sync::{AtomicBool, AtomicU32, Ordering::*};
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

/// The array that shows all of a chunk. Views differ from it in their layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole {
    /// That of the chunk among those of the runtime.
    pub number: u32,
    pub variable: Variable,
    pub dtype: DType,
    pub context: Context,
    pub layout: Layout,
    /// How many elements the memory has.
    pub elements: usize,
}

#[derive(Default)]
pub struct Chunk {
    /// The arrays and views.
    pub owners: Owners,
    /// Whether the variable is private to a graph, which keeps an owner.
    is_private: AtomicBool,
    /// Whether the variable is known outside of the calls on arrays.
    is_known: AtomicBool,
    tag: AtomicU32,
    /// The number of the thread that has made the array.
    maker: AtomicU32,
    /// Set before the first owner is known to others.
    whole: UnsafeCell<Option<Whole>>,
    /// Only operations touch it that have declared the chunk's variable: those that change the
    /// variable as if by `&mut`, the others as if by `&`.
    memory: UnsafeCell<Option<Memory>>,
    /// Memory that the engine has made. Set before the first owner is known to others.
    placed: UnsafeCell<Option<Placed>>,
    /// What `autograd` attaches.
    gradient: UnsafeCell<OnceLock<Box<dyn Any + Send + Sync>>>,
}

// SAFETY: `memory` is guarded by the variable, as said there; a `Memory` is `Send` and `Sync`. The
// gradient is `Send` and `Sync`, and set once while there are several owners; `placed` and `whole`
// are too, and change only while there is one owner, or none.
unsafe impl Sync for Chunk {}

impl Chunk {
    /// Counts one owner of a chunk that has none. What is made for it counts under the tag.
    ///
    /// # Safety
    /// The caller has the record alone.
    pub unsafe fn begin(&self, tag: Tag, maker: u32, whole: Whole) {
        self.owners.begin();
        self.tag.store(tag.number() as u32, Relaxed);
        self.maker.store(maker, Relaxed);
        self.is_private.store(false, Relaxed);
        self.is_known.store(false, Relaxed);
        // SAFETY: as the caller says.
        *unsafe { &mut *self.whole.get() } = Some(whole);
    }

    /// The array that shows all of it, for owners and for operations that have declared the
    /// variable; until the next one begins, the array that has ended.
    #[inline]
    pub fn whole(&self) -> &Whole {
        // SAFETY: only `begin` changes it, and then nobody else has the record.
        unsafe { &*self.whole.get() }.as_ref().expect("a chunk that an array or an operation has was begun")
    }

    /// Says that a program or a graph has the variable, and may name it after the array's end.
    pub fn make_known(&self) {
        // Relaxed: who asks is the last owner, and has come from the one that says it, or leaves
        // later.
        self.is_known.store(true, Relaxed);
    }

    pub fn is_known(&self) -> bool {
        self.is_known.load(Relaxed)
    }

    /// Under which tag its memory counts, for operations and owners.
    pub fn tag(&self) -> Tag {
        Tag::with_number(self.tag.load(Relaxed))
    }

    /// The thread that has made the array, or has made the one before that has ended.
    pub fn maker(&self) -> u32 {
        self.maker.load(Relaxed)
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

    /// The same, if it is on a device.
    pub fn device_block(&self) -> Option<&DeviceBlock> {
        match self.placed() {
            Some(Placed::Device(block)) => Some(block),
            _ => None,
        }
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
