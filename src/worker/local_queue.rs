//! A thread's private queue of ready operations. Used by its own thread only: a worker
//! (`run_loop.rs`) or a helper (`help.rs`), by way of `current.rs`.
//!
//! Before the thread runs an operation it lends what is left to the other threads (`stealable.rs`),
//! since the operation may be a long one. Behind the operation it takes back what they have left.
//! Both are one exchange, however many operations there are.

use crate::operation::block::Block;
use crate::worker::ready::{link, Entry, OrderKey, Ready, ROOM};
use crate::worker::stealable::Stealable;
use std::ptr::null_mut;

/// A list of operations that were taken out of a queue, linked by `link`.
pub struct Batch {
    pub first: *mut Block,
    pub last: *mut Block,
    /// The key of the best operation in the list.
    pub best: OrderKey,
}

/// The ready operations of one thread.
#[derive(Default)]
pub struct Queue {
    ready: Ready,
    /// The memory in which operations are lent, while none are. More is chained to it if several
    /// threads have had some of them in their hands at once.
    spare: Option<Box<Ready>>,
    /// A buffer in which a list is turned around.
    arrivals: Vec<Entry>,
}

impl Queue {
    /// With all memory that it needs where rows are short, and another thread takes some of a row
    /// while the owner has the next one.
    pub fn roomy() -> Queue {
        let mut spare = Box::new(Ready::roomy());
        spare.chain(Box::new(Ready::roomy()));
        Queue { ready: Ready::roomy(), spare: Some(spare), arrivals: Vec::new() }
    }

    /// Whether the queue is empty. What is lent is not in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// Whether there is an operation of the default priority or a higher one.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.ready.is_due()
    }

    /// Gives back the capacity that only a long row needed. The queue is empty.
    pub fn trim(&mut self) {
        self.ready.trim();
        if let Some(spare) = &mut self.spare {
            spare.trim();
        }
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
        self.ready.insert(entry);
    }

    /// Adds a list that is sorted either way: newest first, like that of an inbox, or best first,
    /// like a stolen one.
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
        if self.arrivals.first() < self.arrivals.last() {
            self.arrivals.reverse();
        }
        self.arrivals.drain(..).for_each(|entry| self.ready.insert(entry));
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
        let arrivals = &mut self.arrivals;
        arrivals.sort_unstable_by(|one, other| other.cmp(one));
        let keeps = 1 + arrivals.len() / 32;
        let urgent = arrivals.iter().take_while(|entry| entry.key.0 > 0).count().max(keeps);
        let row = Batch::of(arrivals.drain(keeps..urgent));
        arrivals.drain(..).for_each(|entry| self.ready.insert(entry));
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

    /// The key of the next operation.
    #[inline]
    pub fn best(&self) -> Option<OrderKey> {
        self.ready.best()
    }

    /// Takes the next operation.
    #[inline]
    pub fn pop(&mut self) -> Option<*mut Block> {
        let entry = self.ready.pop();
        self.ready.expect_next();
        entry.map(|entry| entry.block)
    }

    /// Lends all operations to the other threads. The queue is empty then.
    pub fn lend(&mut self, stealable: &Stealable) {
        // Allocates if several other threads have the memory in their hands: at most as often as
        // there are such threads, since all of it comes back.
        let mut lent = self.spare.take().unwrap_or_else(|| Box::new(Ready::roomy()));
        self.spare = lent.unchain();
        std::mem::swap(&mut self.ready, &mut lent);
        self.ready.grow_like(&lent);
        stealable.put(lent);
    }

    /// Takes back what other threads have left of the operations that were lent, and the memory.
    #[inline]
    pub fn take_back(&mut self, stealable: &Stealable) {
        if stealable.is_there() {
            self.take_some_back(stealable);
        }
    }

    fn take_some_back(&mut self, stealable: &Stealable) {
        let mut next = stealable.take();
        while let Some(mut lent) = next {
            next = lent.unchain();
            self.ready.merge(&mut lent);
            lent.stack(self.spare.take());
            self.spare = Some(lent);
        }
    }

    /// Takes all operations, those that were lent too; `stealable` is empty then.
    pub fn take_all(&mut self, stealable: &Stealable) -> Option<Batch> {
        self.take_back(stealable);
        Batch::of(std::iter::from_fn(|| self.ready.pop()))
    }
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

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
