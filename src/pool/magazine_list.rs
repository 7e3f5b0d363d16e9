//! Magazine lists and detached lists: many magazines as one list, so that any number of blocks
//! changes hands in one step.
//!
//! The magazines in a list are packed, and linked to one another: see [`crate::pool::magazine`].

use crate::operation::block::Block;
use crate::pool::magazine::Magazine;
use std::ptr::null_mut;

/// Magazines that no other thread can see. Adding one, taking one, and adding all of another
/// magazine list take one step each.
pub struct MagazineList {
    /// The first blocks of the first magazine and of the last.
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
        // SAFETY: the magazine list owns its blocks; each magazine was packed when it came, and is
        // unpacked as it goes.
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

    /// Takes everything.
    pub fn take(&mut self) -> MagazineList {
        std::mem::replace(self, MagazineList::new())
    }
}

/// Magazines as a [`Stack`](crate::pool::stack::Stack) held them: how many there are is not
/// known, and they can only be taken one by one.
pub struct DetachedList {
    first: *mut Block,
}

// SAFETY: a detached list owns its blocks.
unsafe impl Send for DetachedList {}

impl DetachedList {
    pub const fn new() -> DetachedList {
        DetachedList { first: null_mut() }
    }

    /// The magazines from the one that starts with `first`.
    ///
    /// # Safety
    /// They are packed, the last is linked to null, and all of them are the caller's to give.
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
    fn what_goes_into_racks_comes_out_once() {
        let memory = Memory::new().unwrap();
        let stack = Stack::new();
        let mut lists = [MagazineList::new(), MagazineList::new()];
        let mut known = HashSet::new();
        for number in 0..10 {
            let mut magazine = memory.blocks.slabs.add(0);
            magazine.for_each(|block| assert!(known.insert(block)));
            // Of different lengths, and an empty one: that is as good as none.
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
        // Half by way of a stack.
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
        // Onto none, and then what was so appended onto others: the last of the first is the last
        // of all.
        for _ in 0..3 {
            let magazine = slab();
            magazine.for_each(|block| assert!(known.insert(block)));
            let mut longer = Magazine::new();
            longer.append(magazine);
            longer.append(all);
            // By way of a word, which knows the first block, the last and the number.
            // SAFETY: packed just now.
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
