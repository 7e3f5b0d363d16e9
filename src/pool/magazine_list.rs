//! Lists of packed magazines, with which any number of blocks changes hands in one step. A
//! [`MagazineList`] knows its end and its length; a [`DetachedList`], taken off a stack, does not.
//!
//! How magazines are packed and linked to one another is in [`crate::pool::magazine`]. Used by
//! `sorting.rs`, `thread_cache.rs`, `class_cache.rs`, `depot.rs` and `stack.rs`, each on one thread
//! at a time.

use crate::operation::block::Block;
use crate::pool::magazine::Magazine;
use std::ptr::null_mut;

/// A list of magazines that no other thread can see. Adding one, taking one, and adding all of
/// another magazine list take one step each.
pub struct MagazineList {
    /// The first block of the first magazine, and that of the last.
    first: *mut Block,
    last: *mut Block,
    blocks: usize,
}

// SAFETY: a magazine list owns its blocks.
unsafe impl Send for MagazineList {}

impl MagazineList {
    pub const fn new() -> MagazineList {
        MagazineList { first: null_mut(), last: null_mut(), blocks: 0 }
    }

    /// The number of blocks in all of its magazines.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    pub fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Adds a magazine, unless it is empty.
    pub fn push(&mut self, magazine: Magazine) {
        let blocks = magazine.len();
        let first = magazine.pack();
        if !first.is_null() {
            self.append(MagazineList { first, last: first, blocks });
        }
    }

    /// Takes the magazine that was added last.
    pub fn pop(&mut self) -> Option<Magazine> {
        if self.first.is_null() {
            return None;
        }
        // SAFETY: the magazine list owns its blocks. Each magazine was packed when it was added,
        // and is unpacked once, here.
        let magazine = unsafe {
            let first = self.first;
            self.first = if first == self.last { null_mut() } else { Magazine::chained(first) };
            Magazine::unpack(first)
        };
        self.blocks -= magazine.len();
        Some(magazine)
    }

    /// Adds all magazines of another magazine list.
    pub fn append(&mut self, other: MagazineList) {
        if other.first.is_null() {
            return;
        }
        if self.first.is_null() {
            *self = other;
            return;
        }
        // SAFETY: both magazine lists own their blocks.
        unsafe { Magazine::chain(other.last, self.first) };
        self.first = other.first;
        self.blocks += other.blocks;
    }

    /// Takes all magazines, and leaves the list empty.
    pub fn take(&mut self) -> MagazineList {
        std::mem::replace(self, MagazineList::new())
    }
}

/// A list of magazines that was taken off a [`Stack`](crate::pool::stack::Stack). Its length is not
/// known, and magazines can only be taken one by one.
pub struct DetachedList {
    first: *mut Block,
}

// SAFETY: a detached list owns its blocks.
unsafe impl Send for DetachedList {}

impl DetachedList {
    pub const fn new() -> DetachedList {
        DetachedList { first: null_mut() }
    }

    /// The list of magazines from the one that starts with `first`.
    ///
    /// # Safety
    /// The magazines are packed, the last is linked to null, and all of them are the caller's to
    /// give.
    pub unsafe fn of(first: *mut Block) -> DetachedList {
        DetachedList { first }
    }

    pub fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Takes a magazine.
    pub fn pop(&mut self) -> Option<Magazine> {
        if self.first.is_null() {
            return None;
        }
        // SAFETY: the detached list owns its blocks; each magazine is unpacked once.
        unsafe {
            let first = self.first;
            self.first = Magazine::chained(first);
            Some(Magazine::unpack(first))
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::pool::memory::Memory;
    use crate::pool::stack::Stack;
    use std::collections::HashSet;

    #[test]
    fn what_goes_into_a_list_comes_out_once() {
        let memory = Memory::new().unwrap();
        let stack = Stack::new();
        let mut lists = [MagazineList::new(), MagazineList::new()];
        let mut known = HashSet::new();
        for number in 0..10 {
            let mut magazine = memory.blocks.slabs.add(0);
            magazine.for_each(|block| assert!(known.insert(block)));
            // Magazines of different lengths, and an empty one, which is as good as none.
            (0..number * 7).for_each(|_| {
                known.remove(&magazine.pop().unwrap_or(null_mut()));
            });
            lists[number % 2].push(magazine);
        }
        let [mut all, other] = lists;
        all.append(other);
        all.append(MagazineList::new());
        assert_eq!(all.blocks(), known.len());
        let mut again = MagazineList::new();
        again.append(all.take());
        assert!(all.is_empty() && all.pop().is_none() && !again.is_empty());
        // Half of them go by way of a stack.
        for _ in 0..4 {
            stack.push(again.pop().expect("ten less the empty one"));
        }
        let mut detached = stack.take();
        let magazines = std::iter::from_fn(|| again.pop().or_else(|| detached.pop()));
        magazines.for_each(|magazine| magazine.for_each(|block| assert!(known.remove(&block))));
        assert!(known.is_empty() && detached.is_empty() && again.blocks() == 0);
    }

    #[test]
    fn magazines_that_are_appended_lose_nothing() {
        let memory = Memory::new().unwrap();
        let slab = || memory.blocks.slabs.add(0);
        let mut all = Magazine::new();
        let mut known = HashSet::new();
        // First onto an empty magazine, then the result onto others: the last block of the first is
        // the last of all.
        for _ in 0..3 {
            let magazine = slab();
            magazine.for_each(|block| assert!(known.insert(block)));
            let mut longer = Magazine::new();
            longer.append(magazine);
            longer.append(all);
            // Packed and unpacked: the word knows the first block, the last and the number.
            // SAFETY: it is what `pack` returned, and is unpacked once.
            all = unsafe { Magazine::unpack(longer.pack()) };
        }
        all.append(Magazine::new());
        assert_eq!(all.len(), known.len());
        while let Some(block) = all.pop() {
            assert!(known.remove(&block), "a block came twice");
        }
        assert!(known.is_empty() && all.is_empty(), "{} blocks are lost", known.len());
    }
}
