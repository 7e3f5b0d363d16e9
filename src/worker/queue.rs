//! A private queue of ready operations: highest priority first, push order among equals.
//!
//! Most operations have the default priority and arrive in push order: they go into a ring, where adding and taking cost a
//! few instructions. All others go into a binary heap. The next operation is the better of the two fronts.

use crate::mutants::mutate;
use crate::operation::block::Block;
use crate::operation::layout::ACCESSES_OFFSET;
use crate::steps;
use crate::sync::touch;
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::ptr::null_mut;

/// What operations are ordered by: greater runs first.
pub type Key = (i32, Reverse<u64>);

/// Operations that were taken out of a queue: a list, newest first, linked by `link`.
pub struct Row {
    pub first: *mut Block,
    pub last: *mut Block,
    /// The key of the best of them.
    pub best: Key,
}

#[derive(Clone, Copy)]
struct Entry {
    key: Key,
    block: *mut Block,
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

/// Room that a queue keeps when it is empty, in operations: 400 kB in each of its parts.
const ROOM: usize = 1 << 14;

/// A private queue of ready operations. Does not own their memory.
#[derive(Default)]
pub struct Queue {
    ring: VecDeque<Entry>,
    heap: BinaryHeap<Entry>,
    /// Room to turn a list around.
    arrivals: Vec<Entry>,
}

impl Queue {
    pub fn len(&self) -> usize {
        self.ring.len() + self.heap.len()
    }

    /// Whether there is an operation of the default priority or a higher one.
    #[inline]
    pub fn is_due(&self) -> bool {
        !self.ring.is_empty() || self.heap.peek().is_some_and(|best| best.key.0 >= 0)
    }

    /// Gives back the room that only a long row needed. The queue is empty.
    pub fn trim(&mut self) {
        self.ring.shrink_to(ROOM);
        self.heap.shrink_to(ROOM);
        self.arrivals.shrink_to(ROOM);
    }

    /// Adds an operation.
    ///
    /// # Safety
    /// `block` is ready, and ours.
    #[inline]
    pub unsafe fn push(&mut self, block: *mut Block) {
        // SAFETY: ours.
        let entry = unsafe { Entry::of(block) };
        self.insert(entry);
    }

    #[inline]
    fn insert(&mut self, entry: Entry) {
        let in_order = self.ring.back().is_none_or(|back| back.key >= entry.key);
        if entry.key.0 == 0 && in_order {
            self.ring.push_back(entry);
        } else {
            self.heap.push(entry);
        }
    }

    /// Adds a list, newest first, as an inbox gives it.
    ///
    /// # Safety
    /// The operations are ready, and ours.
    pub unsafe fn add_list(&mut self, mut first: *mut Block) {
        while !first.is_null() {
            // SAFETY: ours.
            unsafe {
                self.arrivals.push(Entry::of(first));
                first = (*first).link;
            }
        }
        while let Some(entry) = self.arrivals.pop() {
            self.insert(entry);
        }
    }

    /// The key of the operation that is next.
    #[inline]
    pub fn best(&self) -> Option<Key> {
        let ring = self.ring.front().map(|entry| entry.key);
        ring.max(self.heap.peek().map(|entry| entry.key))
    }

    /// Takes the operation that is next.
    #[inline]
    pub fn pop(&mut self) -> Option<*mut Block> {
        let entry = self.take_best();
        // While this one is run, the lines of the next one come: those that running it writes.
        if let Some(next) = self.ring.front() {
            // SAFETY: ours.
            Block::expect(next.block, unsafe { Block::class(next.block) });
        }
        entry.map(|entry| entry.block)
    }

    #[inline]
    fn take_best(&mut self) -> Option<Entry> {
        match (self.ring.front(), self.heap.peek()) {
            (Some(first), Some(top)) if first.key < top.key => self.heap.pop(),
            (None, _) => self.heap.pop(),
            _ => self.ring.pop_front(),
        }
    }

    /// Takes all but `keep` operations, and no more than `most`. Takes the last of the ring, if as
    /// many stay there as would of the whole queue, or `most`.
    pub fn split_off(&mut self, keep: usize, most: usize) -> Option<Row> {
        let surplus = self.len().checked_sub(keep).filter(|surplus| *surplus > 0)?.min(most);
        if self.ring.len() < surplus + keep.min(most) {
            return self.split_best(surplus, most);
        }
        steps::count(surplus);
        Row::of(self.ring.drain(self.ring.len() - surplus..))
    }

    /// As [`Queue::split_off`], if not enough operations are in order: keeps the best ones, no more
    /// than `most`, and takes the best of the others. What is left stays as it lies: it may be
    /// any number.
    #[cold]
    fn split_best(&mut self, surplus: usize, most: usize) -> Option<Row> {
        let keep = (self.len() - surplus).min(mutate!("sorted-to-the-last": usize::MAX, most));
        steps::count(keep + surplus);
        let mut kept = std::mem::take(&mut self.arrivals);
        kept.extend((0..keep).map_while(|_| self.take_best()));
        let row = Row::of((0..surplus).map_while(|_| self.take_best()));
        // In front of worse ones: the ring only has to be sorted, of whatever priorities.
        kept.drain(..).rev().for_each(|entry| self.ring.push_front(entry));
        self.arrivals = kept;
        row
    }
}

impl Row {
    /// Links operations that were taken out of a queue.
    fn of(entries: impl Iterator<Item = Entry>) -> Option<Row> {
        let mut row: Option<Row> = None;
        for Entry { key, block } in entries {
            let (next, last, best) =
                row.map_or((null_mut(), block, key), |row| (row.first, row.last, row.best.max(key)));
            // SAFETY: the operation was in that queue only.
            unsafe {
                touch(&raw const (*block).link, 8, true);
                (*block).link = next;
            }
            row = Some(Row { first: block, last, best });
        }
        row
    }
}

impl Entry {
    /// # Safety
    /// `block` is ours.
    #[inline]
    unsafe fn of(block: *mut Block) -> Entry {
        touch(block, ACCESSES_OFFSET, false);
        // SAFETY: ours.
        let key = unsafe { ((*block).priority, Reverse((*block).sequence)) };
        Entry { key, block }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::pool::memory::Memory;

    /// However they came: what is stolen or given back can be older than what lies there.
    #[test]
    fn among_equals_the_one_that_was_pushed_first_goes_first() {
        let memory = Memory::new().unwrap();
        let mut blocks = memory.new_slab(0).pop().expect("there is always one");
        for priority in [0, 1, -1] {
            let mut queue = Queue::default();
            for sequence in [5, 3, 6, 1, 4] {
                let block = blocks.pop().expect("there are more");
                // SAFETY: free, and ours.
                unsafe {
                    ((*block).priority, (*block).sequence) = (priority, sequence);
                    queue.push(block);
                }
            }
            // SAFETY: ours.
            let popped: Vec<u64> =
                std::iter::from_fn(|| queue.pop()).map(|block| unsafe { (*block).sequence }).collect();
            assert_eq!(popped, [1, 3, 4, 5, 6], "priority {priority}");
        }
    }

    /// Of what is in no order a slice is split off, and what stays is as good as before.
    #[test]
    fn a_slice_is_split_off_behind_as_many_as_it_has() {
        let memory = Memory::new().unwrap();
        let mut blocks = memory.new_slab(0).pop().expect("there is always one");
        let mut queue = Queue::default();
        for sequence in (0..20).rev() {
            let block = blocks.pop().expect("there are more");
            // SAFETY: free, and ours.
            unsafe {
                ((*block).priority, (*block).sequence) = (0, sequence);
                queue.push(block);
            }
        }
        // Of the second call four are in order already.
        for best in [4, 8] {
            let row = queue.split_off(6, 4).expect("there are twenty");
            assert_eq!((row.best, queue.best()), ((0, Reverse(best)), Some((0, Reverse(0)))));
        }
        let popped = std::iter::from_fn(|| queue.pop());
        // SAFETY: ours.
        let popped: Vec<u64> = popped.map(|block| unsafe { (*block).sequence }).collect();
        assert_eq!(popped, [0, 1, 2, 3, 12, 13, 14, 15, 16, 17, 18, 19]);
    }

    /// What is split off says how good the best of it is: a worker takes it back when it is its turn.
    #[test]
    fn a_row_knows_the_best_of_what_is_in_it() {
        let memory = Memory::new().unwrap();
        let mut blocks = memory.new_slab(0).pop().expect("there is always one");
        for priorities in [[0; 6], [3, 0, 0, -2, 5, 0]] {
            let mut queue = Queue::default();
            let mut keys = Vec::new();
            for (sequence, priority) in priorities.into_iter().enumerate() {
                let block = blocks.pop().expect("there are more");
                // SAFETY: free, and ours.
                unsafe {
                    ((*block).priority, (*block).sequence) = (priority, sequence as u64);
                    queue.push(block);
                }
                keys.push((priority, Reverse(sequence as u64)));
            }
            keys.sort_unstable();
            let row = queue.split_off(2, usize::MAX).expect("there are six");
            assert_eq!(row.best, keys[3], "the best two stay");
            let mut count = 0;
            let mut block = row.first;
            while !block.is_null() {
                // SAFETY: ours.
                block = unsafe { (*block).link };
                count += 1;
            }
            assert_eq!((count, queue.len(), queue.best()), (4, 2, Some(keys[5])));
        }
    }
}
