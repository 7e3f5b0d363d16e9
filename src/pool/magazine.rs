//! Magazines: linked lists of free or spent blocks of one class, and how a magazine is packed into
//! one word.
//!
//! Nothing here walks a list. `magazine_list.rs` and `stack.rs` link packed magazines to one
//! another.
//!
//! A packed magazine is known by its first block. That block holds the number of its blocks, and in
//! `body` the first block of the next packed magazine in the same list. The `body` of its second
//! block holds its last block. These fields are unused in a free block. Neither threads that help
//! to link (`tickets/linking.rs`) nor threads that draw the pending graph (`engine/diagnose.rs`)
//! look at them, and both may be late.

use crate::operation::block::Block;
use crate::operation::layout::USUAL;
use crate::sync::{touch, MODELLED};
use std::ptr::null_mut;

/// Blocks in a full magazine, and in a slab, of the classes that usual operations need.
const MAGAZINE: usize = if MODELLED { 2 } else { 64 };

/// Blocks in a full magazine of `class`, and in a slab. Wide blocks are fewer, so that a magazine
/// has a bounded number of accesses, or is a single block.
#[inline]
pub fn size(class: u8) -> usize {
    if class <= USUAL {
        return MAGAZINE;
    }
    (MAGAZINE >> class.saturating_sub(1).min(8)).max(1)
}

/// A list of blocks of one class, linked by `link`, that no other thread can see.
pub struct Magazine {
    first: *mut Block,
    last: *mut Block,
    count: usize,
}

// SAFETY: a magazine owns its blocks.
unsafe impl Send for Magazine {}

impl Magazine {
    pub const fn new() -> Magazine {
        Magazine { first: null_mut(), last: null_mut(), count: 0 }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a block.
    ///
    /// # Safety
    /// The block is free or spent, of this magazine's class, and the caller's.
    #[inline]
    pub unsafe fn push(&mut self, block: *mut Block) {
        // SAFETY: the block is ours by the contract.
        unsafe {
            touch(&raw const (*block).link, 8, true);
            (*block).link = self.first;
        }
        if self.first.is_null() {
            self.last = block;
        }
        self.first = block;
        self.count += 1;
    }

    /// Takes the block that was added last.
    #[inline]
    pub fn pop(&mut self) -> Option<*mut Block> {
        if self.first.is_null() {
            return None;
        }
        let block = self.first;
        // SAFETY: the magazine owns the block.
        self.first = unsafe {
            touch(&raw const (*block).link, 8, false);
            (*block).link
        };
        self.count -= 1;
        if self.first.is_null() {
            self.last = null_mut();
        }
        Some(block)
    }

    /// Prefetches the cache lines of the block that is taken next.
    #[inline]
    pub fn expect(&self, class: u8) {
        Block::expect(self.first, class);
    }

    /// Adds all blocks of another magazine.
    pub fn append(&mut self, other: Magazine) {
        if other.first.is_null() {
            return;
        }
        // SAFETY: both magazines own their blocks.
        unsafe { (*other.last).link = self.first };
        if self.first.is_null() {
            self.last = other.last;
        }
        self.first = other.first;
        self.count += other.count;
    }

    /// Calls `visit` for every block.
    #[cfg(any(test, loom, shuttle))]
    pub fn for_each(&self, mut visit: impl FnMut(*mut Block)) {
        let mut block = self.first;
        while !block.is_null() {
            visit(block);
            // SAFETY: the magazine owns the block.
            block = unsafe { (*block).link };
        }
    }

    /// Turns the magazine into one word: its first block, which remembers the rest.
    pub fn pack(self) -> *mut Block {
        if !self.first.is_null() {
            // SAFETY: the magazine owns its blocks; if there are two, the first is linked to the
            // second.
            unsafe {
                Block::set_number(self.first, self.count as u32);
                if self.count > 1 {
                    (*(*self.first).link).body = self.last.cast_const().cast();
                }
            }
        }
        self.first
    }

    /// Links a packed magazine to another.
    ///
    /// # Safety
    /// `first` and `next` are the first blocks of packed magazines, or `next` is null. The first
    /// magazine is the caller's.
    #[inline]
    pub unsafe fn chain(first: *mut Block, next: *mut Block) {
        // SAFETY: by the contract.
        unsafe { (*first).body = next.cast_const().cast() }
    }

    /// The packed magazine to which `first` was linked.
    ///
    /// # Safety
    /// `first` is the first block of a packed magazine of the caller's, and [`Magazine::chain`] was
    /// called for it.
    #[inline]
    pub unsafe fn chained(first: *mut Block) -> *mut Block {
        // SAFETY: by the contract.
        unsafe { (*first).body.cast_mut().cast() }
    }

    /// Undoes [`Magazine::pack`].
    ///
    /// # Safety
    /// `first` is what `pack` returned, and is unpacked once.
    pub unsafe fn unpack(first: *mut Block) -> Magazine {
        if first.is_null() {
            return Magazine::new();
        }
        // SAFETY: by the contract.
        unsafe {
            let count = Block::number(first) as usize;
            let last = if count > 1 { (*(*first).link).body.cast_mut().cast() } else { first };
            Magazine { first, last, count }
        }
    }
}
