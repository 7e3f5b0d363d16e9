//! Ready operations in the order in which they run: highest priority first, push order among
//! equals.
//!
//! Most operations have the default priority and arrive in push order. They go into a ring, where
//! adding and taking cost a few instructions. All others go into a binary heap. The next operation
//! is the better one of the two fronts.
//!
//! One thread at a time has a [`Ready`]: the worker or helper that runs the operations
//! (`local_queue.rs`), or a thief that takes some of them (`stealable.rs`).

use crate::operation::access::ACCESSES_OFFSET;
use crate::operation::block::Block;
use crate::sync::touch;
use crate::util::work_counter;
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::ptr::null_mut;

/// The order of operations, priority first, then push order: the greater key runs first.
pub type OrderKey = (i32, Reverse<u64>);

#[derive(Clone, Copy)]
pub struct Entry {
    pub key: OrderKey,
    pub block: *mut Block,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.key == other.key
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl Entry {
    /// # Safety
    /// `block` is the caller's.
    #[inline]
    pub unsafe fn of(block: *mut Block) -> Entry {
        touch(block, ACCESSES_OFFSET, false);
        // SAFETY: the block is ours.
        let key = unsafe { ((*block).priority, Reverse((*block).sequence)) };
        Entry { key, block }
    }
}

/// The capacity that is kept when no operations are left: 400 kB in each of the two parts.
pub const ROOM: usize = 1 << 14;

/// The capacity that each part has from the start, so that it need not grow where rows are short.
const FIRST_ROOM: usize = 64;

/// How much memory for rows a thread keeps while it has none.
const KEPT_ROWS: usize = 8;

/// Ready operations. It does not own their memory.
#[derive(Default)]
pub struct Ready {
    ring: VecDeque<Entry>,
    heap: BinaryHeap<Entry>,
    /// Another row. Its operations are merged into this one later; without any it is kept for its
    /// memory. It has operations only if this row has some.
    next: Option<Box<Ready>>,
}

impl Ready {
    /// With room for a short row.
    pub fn roomy() -> Ready {
        let (ring, heap) = (VecDeque::with_capacity(FIRST_ROOM), BinaryHeap::with_capacity(FIRST_ROOM));
        Ready { ring, heap, next: None }
    }

    /// How many operations there are, but for those that were chained.
    #[inline]
    pub fn len(&self) -> usize {
        self.ring.len() + self.heap.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty() && self.heap.is_empty()
    }

    /// Whether there is an operation of the default priority or a higher one.
    #[inline]
    pub fn is_due(&self) -> bool {
        !self.ring.is_empty() || self.heap.peek().is_some_and(|best| best.key.0 >= 0)
    }

    #[inline]
    pub fn insert(&mut self, entry: Entry) {
        let in_order = self.ring.back().is_none_or(|back| back.key >= entry.key);
        if entry.key.0 == 0 && in_order {
            self.ring.push_back(entry);
        } else {
            self.heap.push(entry);
        }
    }

    /// Whether the next operation is that of the heap. If both fronts have the same key, as lanes
    /// of one replay do, it is that of the ring.
    #[inline]
    fn is_next_in_heap(&self) -> bool {
        match (self.ring.front(), self.heap.peek()) {
            (Some(first), Some(top)) => first.key < top.key,
            (first, _) => first.is_none(),
        }
    }

    /// The next operation.
    fn front(&self) -> Option<&Entry> {
        if self.is_next_in_heap() {
            self.heap.peek()
        } else {
            self.ring.front()
        }
    }

    /// The key of the next operation.
    #[inline]
    pub fn best(&self) -> Option<OrderKey> {
        let ring = self.ring.front().map(|entry| entry.key);
        ring.max(self.heap.peek().map(|entry| entry.key))
    }

    /// Takes the next operation.
    #[inline]
    pub fn pop(&mut self) -> Option<Entry> {
        if self.is_next_in_heap() {
            self.heap.pop()
        } else {
            self.ring.pop_front()
        }
    }

    /// Prefetch: while an operation runs, the cache lines of the next one come that running it
    /// writes.
    #[inline]
    pub fn expect_next(&self) {
        if let Some(next) = self.ring.front() {
            // SAFETY: the block is ours.
            Block::expect(next.block, unsafe { Block::class(next.block) });
        }
    }

    /// Takes the best operations, at most `most`, as a list linked by `link`, best first. The first
    /// one that `suits` refuses ends it.
    pub fn take_list(&mut self, most: usize, suits: impl Fn(*mut Block) -> bool) -> *mut Block {
        let (mut first, mut last) = (null_mut(), null_mut::<Block>());
        for _ in 0..most {
            if !self.front().is_some_and(|next| suits(next.block)) {
                break;
            }
            let Some(Entry { block, .. }) = self.pop() else { break };
            work_counter::count(1);
            // SAFETY: the operations were in here only, so they are ours.
            unsafe {
                link(block, null_mut());
                if last.is_null() {
                    first = block;
                } else {
                    (*last).link = block;
                }
            }
            last = block;
        }
        self.fill();
        first
    }

    /// If nothing is left here, takes what was chained.
    fn fill(&mut self) {
        let mut next = self.next.as_deref_mut();
        while let Some(chained) = next.filter(|_| self.ring.is_empty() && self.heap.is_empty()) {
            std::mem::swap(&mut self.ring, &mut chained.ring);
            std::mem::swap(&mut self.heap, &mut chained.heap);
            next = chained.next.as_deref_mut();
        }
    }

    /// Adds operations, or memory for them, without a look at them: the owner merges. There are as
    /// many links as threads that had operations of this owner in their hands at once.
    pub fn chain(&mut self, other: Box<Ready>) {
        let mut last = &mut self.next;
        while let Some(next) = last {
            last = &mut next.next;
        }
        *last = Some(other);
        self.fill();
    }

    /// Puts memory for more operations below this. There are no operations in either.
    pub fn stack(&mut self, below: Option<Box<Ready>>) {
        self.next = below;
    }

    /// Takes what was chained first, with all behind it.
    pub fn unchain(&mut self) -> Option<Box<Ready>> {
        self.next.take()
    }

    /// Moves all of `other` in here but what is chained to it, with as many steps as the shorter of
    /// the two has operations.
    pub fn merge(&mut self, other: &mut Ready) {
        if self.len() < other.len() {
            std::mem::swap(&mut self.ring, &mut other.ring);
            std::mem::swap(&mut self.heap, &mut other.heap);
        }
        work_counter::count(other.len());
        other.ring.drain(..).for_each(|entry| self.insert(entry));
        self.heap.append(&mut other.heap);
    }

    /// Makes as much room as another row has: once a row has grown, the next ones need not. Nothing
    /// is in here.
    #[inline]
    pub fn grow_like(&mut self, other: &Ready) {
        if self.ring.capacity() < other.ring.capacity() || self.heap.capacity() < other.heap.capacity() {
            self.ring.reserve(other.ring.capacity());
            self.heap.reserve(other.heap.capacity());
        }
    }

    /// Gives back what only a long row needed, or many threads that had some of this owner's
    /// operations in their hands at once. There are no operations.
    pub fn trim(&mut self) {
        let mut row = self;
        for _ in 1..KEPT_ROWS {
            row.shrink();
            let Some(next) = &mut row.next else { return };
            row = next;
        }
        row.shrink();
        row.next = None;
    }

    fn shrink(&mut self) {
        self.ring.shrink_to(ROOM);
        self.heap.shrink_to(ROOM);
    }

    /// How many rows there are, with those that were chained.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub fn rows(&self) -> usize {
        1 + self.next.as_deref().map_or(0, Ready::rows)
    }
}

/// Puts an operation at the front of a list.
///
/// # Safety
/// The operation is the caller's, and in no list.
pub unsafe fn link(block: *mut Block, next: *mut Block) -> *mut Block {
    // SAFETY: the block is ours.
    unsafe {
        touch(&raw const (*block).link, 8, true);
        (*block).link = next;
    }
    block
}
