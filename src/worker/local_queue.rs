//! The ready operations of a thread: highest priority first, push order among equals.
//!
//! Most operations have the default priority and arrive in push order: they go into a ring, where
//! adding and taking cost a few instructions. All others go into a binary heap. The best of both
//! are [published](Stealable) for others. The next operation is the best of the three fronts.

use crate::operation::access::ACCESSES_OFFSET;
use crate::operation::block::Block;
use crate::sync::touch;
use crate::util::work_counter;
use crate::worker::stealable::Stealable;
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::ptr::null_mut;

/// What operations are ordered by: greater runs first.
pub type Key = (i32, Reverse<u64>);

/// Operations that were taken out of a queue: a list, linked by `link`.
pub struct Batch {
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

/// The most operations that are published at a time: a bound on what stands between two of a
/// thread's operations, and on what a pusher that helps has to look through.
const LAID_OUT: usize = 512;

/// The ready operations of one thread. Does not own their memory.
#[derive(Default)]
pub struct Queue {
    ring: VecDeque<Entry>,
    heap: BinaryHeap<Entry>,
    /// What is published, best first, but for what others have taken since.
    laid_out: VecDeque<Entry>,
    /// Room to turn a list around.
    arrivals: Vec<Entry>,
}

impl Queue {
    /// Operations that nobody else can see.
    fn hidden(&self) -> usize {
        self.ring.len() + self.heap.len()
    }

    /// Whether there is nothing, as far as is known: others may have taken what is published.
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

    /// Adds a list, newest first, as an inbox gives it, or best first, as it was published.
    ///
    /// # Safety
    /// The operations are ready, and ours.
    #[inline]
    pub unsafe fn add_list(&mut self, first: *mut Block) {
        if !first.is_null() {
            // SAFETY: passed on.
            unsafe { self.add_some(first) };
        }
    }

    unsafe fn add_some(&mut self, first: *mut Block) {
        // SAFETY: passed on.
        unsafe { self.arrive(first) };
        let mut arrivals = std::mem::take(&mut self.arrivals);
        if arrivals.first() < arrivals.last() {
            arrivals.reverse();
        }
        arrivals.drain(..).for_each(|entry| self.insert(entry));
        self.arrivals = arrivals;
    }

    /// As [`Queue::add_list`], of urgent operations that other threads could run as well: keeps the
    /// best of them, of many a 32nd, and gives back the other urgent ones.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn add_best(&mut self, first: *mut Block) -> Option<Batch> {
        if first.is_null() {
            return None;
        }
        // SAFETY: passed on.
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

    /// Puts a list into `arrivals`, as it is.
    ///
    /// # Safety
    /// The operations are ready, and ours.
    unsafe fn arrive(&mut self, mut first: *mut Block) {
        while !first.is_null() {
            // SAFETY: ours.
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

    /// The key of the operation that is next.
    #[inline]
    pub fn best(&self) -> Option<Key> {
        let hidden = self.best_hidden();
        self.laid_out.front().map_or(hidden, |first| hidden.max(Some(first.key)))
    }

    /// Takes the operation that is next. `stealable` is where the queue publishes what it has.
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

    /// Forgets what others have taken of what was published. `now` is the first that lies there.
    #[cold]
    fn forget(&mut self, now: *mut Block) {
        let gone = self.laid_out.iter().position(|entry| entry.block == now).unwrap_or(self.laid_out.len());
        work_counter::count(gone);
        self.laid_out.drain(..gone);
    }

    /// Whether something is hidden from others, and as much as is published.
    #[inline]
    pub fn is_hiding(&self, stealable: &Stealable) -> bool {
        self.hidden() > 0 && (self.hidden() >= self.laid_out.len() || stealable.peek().is_null())
    }

    /// Lays out the best operations that there are, [`LAID_OUT`] at most.
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
        // SAFETY: ours still.
        let first = blocks.fold(null_mut(), |next, block| unsafe { link(block, next) });
        let back = stealable.replace(first, self.laid_out.len());
        // SAFETY: taken, so ours.
        unsafe { self.add_list(back) };
    }

    /// Takes back what is published.
    pub fn take_back(&mut self, stealable: &Stealable) {
        let list = stealable.take();
        self.forget(list);
        if self.laid_out.is_empty() {
            // SAFETY: taken, so ours. What somebody has put back of an earlier list.
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

    /// Takes all operations; `stealable` is empty then.
    pub fn take_all(&mut self, stealable: &Stealable) -> Option<Batch> {
        self.take_back(stealable);
        Batch::of(std::iter::from_fn(|| self.take_best()))
    }
}

/// Puts an operation before a list.
///
/// # Safety
/// It is ours, and in no list.
unsafe fn link(block: *mut Block, next: *mut Block) -> *mut Block {
    // SAFETY: ours.
    unsafe {
        touch(&raw const (*block).link, 8, true);
        (*block).link = next;
    }
    block
}

impl Batch {
    /// Links operations that were taken out of a queue, newest first, as inboxes have them.
    fn of(entries: impl Iterator<Item = Entry>) -> Option<Batch> {
        let mut row: Option<Batch> = None;
        for Entry { key, block } in entries {
            let (next, last, best) =
                row.map_or((null_mut(), block, key), |row| (row.first, row.last, row.best.max(key)));
            // SAFETY: the operation was in that queue only.
            row = Some(Batch { first: unsafe { link(block, next) }, last, best });
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
        // SAFETY: ours.
        blocks.into_iter().map(|block| unsafe { (*block).sequence }).collect()
    }

    fn list(mut first: *mut Block) -> Vec<*mut Block> {
        let mut found = Vec::new();
        while !first.is_null() {
            found.push(first);
            // SAFETY: ours.
            first = unsafe { (*first).link };
        }
        found
    }

    /// A queue of these, pushed in this order.
    fn queue(blocks: &[*mut Block]) -> Queue {
        let mut queue = Queue::default();
        // SAFETY: ready, and ours.
        blocks.iter().for_each(|block| unsafe { queue.push(*block) });
        queue
    }

    fn all(queue: &mut Queue, stealable: &Stealable) -> Vec<u64> {
        sequences(std::iter::from_fn(|| queue.pop(stealable)))
    }

    /// However they came: what is stolen or given back can be older than what lies there.
    #[test]
    fn among_equals_the_one_that_was_pushed_first_goes_first() {
        let (memory, stealable) = (Memory::new().unwrap(), Stealable::new());
        for priority in [0, 1, -1] {
            let blocks = blocks(&memory, [5, 3, 6, 1, 4].map(|sequence| (priority, sequence)));
            assert_eq!(all(&mut queue(&blocks), &stealable), [1, 3, 4, 5, 6], "priority {priority}");
        }
    }

    /// Whether all of it is published, and the owner takes it all, or others take what they find,
    /// or put some back.
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
            // The best of what is left, and no more than that.
            let taken = list(stealable.take());
            assert_eq!(sequences(taken.iter().copied()), order[1..]);
            assert!(stealable.put_back(taken[2]) && !stealable.put_back(taken[1]));
            assert_eq!(sequences(queue.pop(&stealable)), order[3..4]);
            assert_eq!(sequences(list(stealable.take())), order[4..]);
            // What comes anew goes where it belongs, whatever was stolen.
            // SAFETY: ours.
            unsafe { queue.push(taken[1]) };
            assert!(queue.is_hiding(&stealable), "what was laid out is gone");
            queue.publish(&stealable);
            // SAFETY: ours.
            unsafe { queue.push(taken[0]) };
            assert_eq!(all(&mut queue, &stealable), order[1..3]);
            assert!(queue.is_empty() && stealable.peek().is_null());
        }
    }

    /// Somebody puts back the end of a list when the owner has forgotten it.
    #[test]
    fn what_is_put_back_late_is_not_lost() {
        let (memory, stealable) = (Memory::new().unwrap(), Stealable::new());
        let blocks = blocks(&memory, (0..6).map(|sequence| (0, sequence)));
        for lays_out in [false, true] {
            let mut queue = queue(&blocks[..4]);
            queue.publish(&stealable);
            let taken = list(stealable.take());
            assert_eq!(sequences(queue.pop(&stealable)), []);
            // SAFETY: ours.
            unsafe { queue.push(blocks[4]) };
            if lays_out {
                queue.publish(&stealable);
                assert_eq!(sequences(list(stealable.take())), [4]);
            }
            assert!(stealable.put_back(taken[2]));
            // SAFETY: ours.
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

    /// A helper leaves: its own and what it has published is all there, and it knows how good the
    /// best of it is.
    #[test]
    fn who_leaves_takes_all_of_it() {
        let (memory, stealable) = (Memory::new().unwrap(), Stealable::new());
        let blocks = blocks(&memory, [(0, 3), (0, 4), (2, 5), (-1, 1), (0, 2)]);
        let mut queue = queue(&blocks[..3]);
        queue.publish(&stealable);
        // SAFETY: ours.
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
            // SAFETY: ours.
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
