//! Slabs: the allocations that blocks are cut from. They are freed with the engine's memory. Used
//! by `pool/thread_cache.rs`, which adds to them. `engine/diagnose.rs` walks them to show what is
//! pending, and `engine/stats.rs` asks how many there are; all on any thread. In the child of a
//! fork `engine/fork.rs` has them locked again.

use crate::operation::block::Block;
use crate::operation::layout::size;
use crate::platform::low_memory::Low;
use crate::pool::locked::BlockMemory;
use crate::pool::magazine::{self, Magazine};
use crate::sync::{lay_out, AtomicPtr, Ordering::*};
use crate::tickets::word::UNUSED;
use crate::util::work_counter;
use std::alloc::Layout;
use std::ptr::null_mut;

/// All slabs of an engine, in the order in which they were made.
pub struct Slabs {
    first: AtomicPtr<Slab>,
    /// One of the last slabs, from where the end is found.
    newest: AtomicPtr<Slab>,
    pub memory: BlockMemory,
}

/// One allocation, cut into blocks of one class.
struct Slab {
    blocks: Low,
    class: u8,
    count: usize,
    next: AtomicPtr<Slab>,
}

impl Slabs {
    pub fn new() -> Slabs {
        Slabs { first: AtomicPtr::new(null_mut()), newest: AtomicPtr::new(null_mut()), memory: BlockMemory::new() }
    }

    /// Allocates a slab, and returns its blocks as a magazine.
    #[cold]
    pub fn add(&self, class: u8) -> Magazine {
        let count = magazine::size(class);
        work_counter::count(count);
        let layout = slab_layout(class, count);
        let blocks = self.memory.allocate(layout);
        lay_out(blocks.start, layout.size(), size(class), "block");
        let mut magazine = Magazine::new();
        for index in (0..count).rev() {
            // SAFETY: the block is inside the fresh allocation, and no other thread's.
            unsafe {
                let block = blocks.start.add(index * size(class)).cast::<Block>();
                Block::initialise(block, class, UNUSED.0);
                magazine.push(block);
            }
        }
        let slab = Box::into_raw(Box::new(Slab { blocks, class, count, next: AtomicPtr::new(null_mut()) }));
        // The slab goes to the end of the list: a report that has no time for all slabs looks at
        // the oldest first. Acquire: pairs with the release of `newest` below.
        // SAFETY: slabs are written before they are published, and live as long as the memory.
        let newest = unsafe { self.newest.load(Acquire).as_ref() };
        let mut end = newest.map_or(&self.first, |newest| &newest.next);
        // Release: pairs with the acquire in `blocks`, so that the blocks are initialised before a
        // thread that draws the graph can find them. Acquire: pairs with the same release by
        // another thread.
        while let Err(next) = end.compare_exchange(null_mut(), slab, Release, Acquire) {
            // SAFETY: as above.
            end = unsafe { &(*next).next };
        }
        // The slower of two threads may set `newest` back to its own slab: then the next one walks
        // one step more.
        self.newest.store(slab, Release);
        magazine
    }

    /// For the child of a `fork`, which inherits no locks: see [`BlockMemory::lock_again`].
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn lock_again(&self) {
        let mut slab = self.first.load(Acquire);
        let slabs = std::iter::from_fn(|| {
            // SAFETY: slabs are written before they are published, and live as long as the memory.
            let this = unsafe { slab.as_ref() }?;
            slab = this.next.load(Acquire);
            Some((this.blocks, slab_layout(this.class, this.count)))
        });
        // SAFETY: `add` has allocated all of them with these layouts.
        unsafe { self.memory.lock_again(slabs) };
    }

    /// How many blocks were made, and their bytes. Called by any thread.
    pub fn made(&self) -> (u64, u64) {
        let (mut slab, mut blocks, mut bytes) = (self.first.load(Acquire), 0, 0);
        // SAFETY: slabs are written before they are published, and live as long as the memory.
        while let Some(this) = unsafe { slab.as_ref() } {
            blocks += this.count as u64;
            bytes += (this.count * size(this.class)) as u64;
            slab = this.next.load(Acquire);
        }
        (blocks, bytes)
    }

    /// Every block, whatever its state, in the order in which they were made. Called by any thread.
    pub fn blocks(&self) -> impl Iterator<Item = *mut Block> {
        let mut slab = self.first.load(Acquire);
        let mut index = 0;
        std::iter::from_fn(move || loop {
            // SAFETY: slabs are written before they are published, and live as long as the memory.
            let this = unsafe { slab.as_ref() }?;
            if index < this.count {
                // SAFETY: inside the slab.
                let block = unsafe { this.blocks.start.add(index * size(this.class)) };
                index += 1;
                return Some(block.cast());
            }
            slab = this.next.load(Acquire);
            index = 0;
        })
    }
}

fn slab_layout(class: u8, count: usize) -> Layout {
    Layout::from_size_align(size(class) * count, std::mem::align_of::<Block>()).expect("a slab fits the address space")
}

impl Drop for Slabs {
    fn drop(&mut self) {
        let mut slab = self.first.load(Acquire);
        while !slab.is_null() {
            // SAFETY: `add` has made the slab from a box, and its blocks with this layout.
            unsafe {
                let this = Box::from_raw(slab);
                this.blocks.free(slab_layout(this.class, this.count));
                // Acquire: pairs with the release in `add` that published the slab.
                slab = this.next.load(Acquire);
            }
        }
    }
}
