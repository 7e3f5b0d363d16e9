//! Magazines: lists of free blocks, and the lock-free stack that carries them between threads.
//!
//! Nothing here walks a list.
//!
//! A magazine that has to fit a word is packed: it is then known by its first block, which holds
//! the number of its blocks and, in `body`, the first block of another packed magazine, of the list
//! that both are in. The `body` of its second block holds the last. Those fields are unused in a
//! free block, and neither helpers look at them nor who draws the pending graph, who may both be
//! late.

use crate::operation::block::Block;
use crate::sync::{touch, MODELLED};
use std::ptr::null_mut;

/// Blocks in a magazine of the two smallest classes that is full, and in a slab.
const MAGAZINE: usize = if MODELLED { 2 } else { 64 };

/// Blocks in a full magazine of `class`, and in a slab: of wide ones there are fewer, so that a
/// magazine is a bounded number of accesses, or a single block.
#[inline]
pub fn size(class: u8) -> usize {
    (MAGAZINE >> class.saturating_sub(1).min(8)).max(1)
}

/// A list of free blocks of one class, linked through `link`, that no other thread can see.
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
    /// The block is free and ours.
    #[inline]
    pub unsafe fn push(&mut self, block: *mut Block) {
        // SAFETY: ours by the contract.
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

    /// Asks for the lines of the block that is taken next.
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

    /// Takes the magazine apart into something that fits a word: its first block, which remembers
    /// the rest.
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
    /// Both are the first blocks of packed magazines, or `next` is null; the first is ours.
    #[inline]
    pub unsafe fn chain(first: *mut Block, next: *mut Block) {
        // SAFETY: by the contract.
        unsafe { (*first).body = next.cast_const().cast() }
    }

    /// What a packed magazine was linked to.
    ///
    /// # Safety
    /// As [`Magazine::chain`], which was called.
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
