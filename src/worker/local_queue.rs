//! A thread's private priority queue of ready operations: highest priority first, push order among
//! equals. Used by its own thread only: a worker (`run_loop.rs`) or a helper (`help.rs`), by way of
//! `current.rs`.
//!
//! Most operations have the default priority and arrive in push order. They go into a ring, where
//! adding and taking cost a few instructions. All others go into a binary heap. The best operations
//! of both are [published](Stealable) for other threads. The next operation is the best of the
//! three fronts. The owner's side of the published list is here; `stealable.rs` has both sides'
//! exchanges.

use crate::operation::access::ACCESSES_OFFSET;
use crate::operation::block::Block;
use crate::sync::touch;
use crate::util::work_counter;
use crate::worker::stealable::Stealable;
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::ptr::null_mut;

/// The order of operations, priority first, then push order: the greater key runs first.
pub type Key = (i32, Reverse<u64>);

/// A list of operations that were taken out of a queue, linked by `link`.
pub struct Batch {
    pub first: *mut Block,
    pub last: *mut Block,
    /// The key of the best operation in the list.
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

/// The capacity that an empty queue keeps, in operations: 400 kB in each of its parts.
const ROOM: usize = 1 << 14;

/// The most operations that are published at a time. It bounds the work between two operations of
/// the owner, and how many a pusher that catches up has to look through.
const LAID_OUT: usize = 512;
/// So few published operations are published again with each new one: otherwise that would stand
/// still behind a long operation when other threads have taken them.
const FEW: usize = 16;

/// The ready operations of one thread. The queue does not own their memory.
#[derive(Default)]
pub struct Queue {
    ring: VecDeque<Entry>,
    heap: BinaryHeap<Entry>,
    /// The owner's copy of the published list, best first. Other threads may have taken some or all
    /// of it since.
    laid_out: VecDeque<Entry>,
    /// A buffer in which a list is turned around.
    arrivals: Vec<Entry>,
}

impl Queue {
    /// The number of operations that no other thread can see.
    fn hidden(&self) -> usize {
        self.ring.len() + self.heap.len()
    }

    /// Whether the queue is empty as far as is known: other threads may have taken the published
    /// operations.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.hidden() == 0 && self.laid_out.is_empty()
    }

    /// Whether there may be an operation of the default priority or a higher one.
    #[inline]
    pub fn is_due(&self) -> bool {
        let may_be = !self.ring.is_empty() || !self.laid_out.is_empty();
        may_be || self.heap.peek().is_some_and(|best| best.key.0 >= 0)
    }

    /// Gives back the capacity that only a long row needed. The queue is empty.
    pub fn trim(&mut self) {
        self.ring.shrink_to(ROOM);
        self.heap.shrink_to(ROOM);
        self.arrivals.shrink_to(ROOM);
    }

    /// Adds an operation.
    ///
    /// # Safety
    /// `block` is ready, and the caller's.
    #[inline]
    pub unsafe fn push(&mut self, block: *mut Block) {
        // SAFETY: the block is ours.
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

    /// Adds a list that is sorted either way: newest first, like that of an inbox, or best first,
    /// like a published one.
    ///
    /// # Safety
    /// The operations are ready, and the caller's.
    #[inline]
    pub unsafe fn add_list(&mut self, first: *mut Block) {
        if !first.is_null() {
            // SAFETY: the caller's contract.
            unsafe { self.add_some(first) };
        }
    }

    unsafe fn add_some(&mut self, first: *mut Block) {
        // SAFETY: the caller's contract.
        unsafe { self.arrive(first) };
        let mut arrivals = std::mem::take(&mut self.arrivals);
        if arrivals.first() < arrivals.last() {
            arrivals.reverse();
        }
        arrivals.drain(..).for_each(|entry| self.insert(entry));
        self.arrivals = arrivals;
    }

    /// Like [`Queue::add_list`], but for urgent operations that other threads could run as well.
    /// Keeps the best one, or of many the best 32nd part, and returns the other urgent ones.
    /// Operations that are not urgent are all kept.
    ///
    /// # Safety
    /// The operations are ready, and the caller's.
    pub unsafe fn add_best(&mut self, first: *mut Block) -> Option<Batch> {
        if first.is_null() {
            return None;
        }
        // SAFETY: the caller's contract.
        unsafe { self.arrive(first) };
        let mut arrivals = std::mem::take(&mut self.arrivals);
        arrivals.sort_unstable_by(|one, other| other.cmp(one));
        let keeps = 1 + arrivals.len() / 32;
        let urgent = arrivals.iter().take_while(|entry| entry.key.0 > 0).count().max(keeps);
        let row = Batch::of(arrivals.drain(keeps..urgent));
        arrivals.drain(..).for_each(|entry| self.insert(entry));
        self.arrivals = arrivals;
        row
    }

    /// Puts a list into `arrivals`, in its order.
    ///
    /// # Safety
    /// The operations are ready, and the caller's.
    unsafe fn arrive(&mut self, mut first: *mut Block) {
        while !first.is_null() {
            // SAFETY: the block is ours.
            unsafe {
                self.arrivals.push(Entry::of(first));
                first = (*first).link;
            }
        }
    }

    #[inline]
    fn best_hidden(&self) -> Option<Key> {
        let ring = self.ring.front().map(|entry| entry.key);
        ring.max(self.heap.peek().map(|entry| entry.key))
    }

    /// The key of the next operation.
    #[inline]
    pub fn best(&self) -> Option<Key> {
        let hidden = self.best_hidden();
        self.laid_out.front().map_or(hidden, |first| hidden.max(Some(first.key)))
    }

    /// Takes the next operation. `stealable` is the list where the owner of this queue publishes.
    #[inline]
    pub fn pop(&mut self, stealable: &Stealable) -> Option<*mut Block> {
        while let Some(first) = self.laid_out.front() {
            if self.best_hidden() > Some(first.key) {
                break;
            }
            let (first, second) = (first.block, self.laid_out.get(1).map_or(null_mut(), |entry| entry.block));
            match stealable.pop(first, second, self.laid_out.len() - 1) {
                Ok(()) => {
                    self.laid_out.pop_front();
                    return Some(first);
                }
                Err(now) => self.forget(now),
            }
        }
        let entry = self.take_best();
        // Prefetch: while this operation runs, the cache lines of the next one come that running it
        // writes.
        if let Some(next) = self.ring.front() {
            // SAFETY: the block is ours.
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

    /// Removes from the copy the published operations that other threads have taken. `now` is the
    /// operation that is first in the published list.
    #[cold]
    fn forget(&mut self, now: *mut Block) {
        let gone = self.laid_out.iter().position(|entry| entry.block == now).unwrap_or(self.laid_out.len());
        work_counter::count(gone);
        self.laid_out.drain(..gone);
    }

    /// Whether the queue should publish: some operations are hidden, and nothing is published, or so
    /// little that it costs next to nothing to publish it again, or no more than is hidden.
    ///
    /// Publishing takes as many steps as there are operations published then. It pays if half of
    /// what was published has gone since.
    #[inline]
    pub fn is_hiding(&self, stealable: &Stealable) -> bool {
        let (hidden, laid_out) = (self.hidden(), self.laid_out.len());
        let pays = laid_out <= FEW || (laid_out <= LAID_OUT / 2 && hidden >= laid_out);
        hidden > 0 && (pays || stealable.peek().is_null())
    }

    /// Publishes the best operations that there are, at most [`LAID_OUT`].
    pub fn publish(&mut self, stealable: &Stealable) {
        self.take_back(stealable);
        let count = self.hidden().min(LAID_OUT);
        work_counter::count(count);
        if self.heap.is_empty() {
            self.laid_out.extend(self.ring.drain(..count));
        } else {
            for _ in 0..count {
                let best = self.take_best();
                self.laid_out.extend(best);
            }
        }
        let blocks = self.laid_out.iter().rev().map(|entry| entry.block);
        // SAFETY: the operations are still ours until `replace` publishes them.
        let first = blocks.fold(null_mut(), |next, block| unsafe { link(block, next) });
        let back = stealable.replace(first, self.laid_out.len());
        // SAFETY: the list was taken, so it is ours.
        unsafe { self.add_list(back) };
    }

    /// Takes back the published operations.
    pub fn take_back(&mut self, stealable: &Stealable) {
        let list = stealable.take();
        self.forget(list);
        if self.laid_out.is_empty() {
            // SAFETY: the list was taken, so it is ours. It is the end of an earlier list, which a
            // thief has put back.
            unsafe { self.add_list(list) };
            return;
        }
        work_counter::count(self.laid_out.len());
        let mut row = std::mem::take(&mut self.laid_out);
        if self.ring.front().map(|entry| entry.key) < row.back().map(|entry| entry.key) {
            row.drain(..).rev().for_each(|entry| self.ring.push_front(entry));
        } else {
            row.drain(..).for_each(|entry| self.insert(entry));
        }
        self.laid_out = row;
    }

    /// Takes all operations, the published ones too; `stealable` is empty then.
    pub fn take_all(&mut self, stealable: &Stealable) -> Option<Batch> {
        self.take_back(stealable);
        Batch::of(std::iter::from_fn(|| self.take_best()))
    }
}

/// Puts an operation at the front of a list.
///
/// # Safety
/// The operation is the caller's, and in no list.
unsafe fn link(block: *mut Block, next: *mut Block) -> *mut Block {
    // SAFETY: the block is ours.
    unsafe {
        touch(&raw const (*block).link, 8, true);
        (*block).link = next;
    }
    block
}

impl Batch {
    /// Links operations that were taken out of a queue, given best first, into a list with the
    /// newest first, like that of an inbox.
    fn of(entries: impl Iterator<Item = Entry>) -> Option<Batch> {
        let mut row: Option<Batch> = None;
        for Entry { key, block } in entries {
            let (next, last, best) =
                row.map_or((null_mut(), block, key), |row| (row.first, row.last, row.best.max(key)));
            // SAFETY: the operation was in the queue only, so it is ours.
            row = Some(Batch { first: unsafe { link(block, next) }, last, best });
        }
        row
    }
}

impl Entry {
    /// # Safety
    /// `block` is the caller's.
    #[inline]
    unsafe fn of(block: *mut Block) -> Entry {
        touch(block, ACCESSES_OFFSET, false);
        // SAFETY: the block is ours.
        let key = unsafe { ((*block).priority, Reverse((*block).sequence)) };
        Entry { key, block }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::pool::memory::Memory;

    /// A free block for each pair of priority and sequence.
    fn blocks(memory: &Memory, keys: impl IntoIterator<Item = (i32, u64)>) -> Vec<*mut Block> {
        let mut blocks = memory.blocks.slabs.add(0);
        let make = |(priority, sequence)| {
            let block = blocks.pop().expect("there are more");
            // SAFETY: free, and ours.
            unsafe { ((*block).priority, (*block).sequence) = (priority, sequence) };
            block
        };
        keys.into_iter().map(make).collect()
    }

    fn sequences(blocks: impl IntoIterator<Item = *mut Block>) -> Vec<u64> {
        // SAFETY: the block is ours.
        blocks.into_iter().map(|block| unsafe { (*block).sequence }).collect()
    }

    fn list(mut first: *mut Block) -> Vec<*mut Block> {
        let mut found = Vec::new();
        while !first.is_null() {
            found.push(first);
            // SAFETY: the block is ours.
            first = unsafe { (*first).link };
        }
        found
    }

    /// A queue of these operations, pushed in this order.
    fn queue(blocks: &[*mut Block]) -> Queue {
        let mut queue = Queue::default();
        // SAFETY: ready, and ours.
        blocks.iter().for_each(|block| unsafe { queue.push(*block) });
        queue
    }

    fn all(queue: &mut Queue, stealable: &Stealable) -> Vec<u64> {
        sequences(std::iter::from_fn(|| queue.pop(stealable)))
    }

    /// The order of arrival does not matter: operations that are stolen or given back can be older
    /// than the ones in the queue.
    #[test]
    fn among_equals_the_one_that_was_pushed_first_goes_first() {
        let (memory, stealable) = (Memory::new().unwrap(), Stealable::new());
        for priority in [0, 1, -1] {
            let blocks = blocks(&memory, [5, 3, 6, 1, 4].map(|sequence| (priority, sequence)));
            assert_eq!(all(&mut queue(&blocks), &stealable), [1, 3, 4, 5, 6], "priority {priority}");
        }
    }

    /// The owner takes some published operations, other threads take what they find, and put some
    /// back.
    #[test]
    fn what_is_laid_out_is_next_and_for_others_meanwhile() {
        let (memory, stealable) = (Memory::new().unwrap(), Stealable::new());
        for priorities in [[0; 6], [3, 0, 0, -2, 5, 0]] {
            let keys = || (0..6).map(|sequence| (priorities[sequence as usize], sequence));
            let mut order: Vec<u64> = (0..6).collect();
            order.sort_by_key(|sequence| Reverse(priorities[*sequence as usize]));

            let mut queue = queue(&blocks(&memory, keys()));
            assert!(queue.is_hiding(&stealable));
            queue.publish(&stealable);
            assert!(!queue.is_hiding(&stealable));
            assert_eq!(sequences(queue.pop(&stealable)), order[..1]);
            // Everything that is left is published, best first.
            let taken = list(stealable.take());
            assert_eq!(sequences(taken.iter().copied()), order[1..]);
            assert!(stealable.put_back(taken[2]) && !stealable.put_back(taken[1]));
            assert_eq!(sequences(queue.pop(&stealable)), order[3..4]);
            assert_eq!(sequences(list(stealable.take())), order[4..]);
            // New operations go where they belong, whatever was stolen.
            // SAFETY: the block is ours.
            unsafe { queue.push(taken[1]) };
            assert!(queue.is_hiding(&stealable), "what was laid out is gone");
            queue.publish(&stealable);
            // SAFETY: the block is ours.
            unsafe { queue.push(taken[0]) };
            assert_eq!(all(&mut queue, &stealable), order[1..3]);
            assert!(queue.is_empty() && stealable.peek().is_null());
        }
    }

    /// A thief puts back the end of a list when the owner has forgotten it.
    #[test]
    fn what_is_put_back_late_is_not_lost() {
        let (memory, stealable) = (Memory::new().unwrap(), Stealable::new());
        let blocks = blocks(&memory, (0..6).map(|sequence| (0, sequence)));
        for lays_out in [false, true] {
            let mut queue = queue(&blocks[..4]);
            queue.publish(&stealable);
            let taken = list(stealable.take());
            assert_eq!(sequences(queue.pop(&stealable)), []);
            // SAFETY: the block is ours.
            unsafe { queue.push(blocks[4]) };
            if lays_out {
                queue.publish(&stealable);
                assert_eq!(sequences(list(stealable.take())), [4]);
            }
            assert!(stealable.put_back(taken[2]));
            // SAFETY: the block is ours.
            unsafe { queue.push(blocks[5]) };
            queue.publish(&stealable);
            let expected: &[u64] = if lays_out { &[2, 3, 5] } else { &[2, 3, 4, 5] };
            let mut left = list(stealable.take());
            left.extend(queue.take_all(&stealable).map(|row| list(row.first)).unwrap_or_default());
            let mut left = sequences(left);
            left.sort_unstable();
            assert_eq!(left, expected);
        }
    }

    /// A helper leaves: its queue gives all operations, hidden and published, and the key of the
    /// best one.
    #[test]
    fn who_leaves_takes_all_of_it() {
        let (memory, stealable) = (Memory::new().unwrap(), Stealable::new());
        let blocks = blocks(&memory, [(0, 3), (0, 4), (2, 5), (-1, 1), (0, 2)]);
        let mut queue = queue(&blocks[..3]);
        queue.publish(&stealable);
        // SAFETY: the block is ours.
        blocks[3..].iter().for_each(|block| unsafe { queue.push(*block) });
        let row = queue.take_all(&stealable).expect("there are five");
        assert_eq!((row.best, row.last), ((2, Reverse(5)), blocks[2]));
        assert_eq!(sequences(list(row.first)), [1, 4, 3, 2, 5], "newest first");
        assert!(queue.take_all(&stealable).is_none() && stealable.peek().is_null());
    }

    /// Of many urgent operations a worker keeps the best, and of few just one.
    #[test]
    fn urgent_operations_are_left_to_others_but_for_the_best() {
        let (memory, stealable) = (Memory::new().unwrap(), Stealable::new());
        for (urgent, others, kept) in [(0, 3, 3), (1, 2, 3), (3, 2, 3), (29, 3, 5)] {
            let keys = (0..urgent + others).map(|sequence| (if sequence < urgent { 7 } else { 0 }, sequence));
            let blocks = blocks(&memory, keys);
            // SAFETY: the block is ours.
            let first = blocks.iter().fold(null_mut(), |next, block| unsafe { link(*block, next) });
            let mut queue = Queue::default();
            // SAFETY: ready, and ours.
            let row = unsafe { queue.add_best(first) };
            let left = row.map(|row| list(row.first)).unwrap_or_default();
            assert_eq!((all(&mut queue, &stealable).len(), left.len() as u64), (kept, urgent + others - kept as u64));
        }
        // SAFETY: there is none.
        assert!(unsafe { Queue::default().add_best(null_mut()) }.is_none());
    }
}
