//! What a thread of a group has published: the operations that it will run next, where others can
//! take them meanwhile.
//!
//! They are a list, best first, whose first operation is in one word. Others take the list whole,
//! and put back the end of it. The owner takes one at a time: it keeps the batch for itself as
//! well, so it knows what comes second without a look into a block that a thief may have by then. A
//! word that is as the owner left it heads the list that the owner published: what comes back from
//! others is the end of that list.

use crate::operation::block::Block;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering::*};
use crossbeam_utils::CachePadded;
use std::ptr::null_mut;

/// The most operations that a thief keeps of a list.
const STOLEN: usize = 8;

/// A list of ready operations, linked by `link`.
pub struct Stealable(CachePadded<Words>);

struct Words {
    first: AtomicPtr<Block>,
    /// About how many there are.
    count: AtomicUsize,
}

impl Stealable {
    pub fn new() -> Stealable {
        Stealable(CachePadded::new(Words { first: AtomicPtr::new(null_mut()), count: AtomicUsize::new(0) }))
    }

    /// The first operation, null if there is none: to see whether anything has changed.
    #[inline]
    pub fn peek(&self) -> *mut Block {
        self.0.first.load(Relaxed)
    }

    /// Takes the list; null if there is none. For anyone.
    #[inline]
    pub fn take(&self) -> *mut Block {
        if self.peek().is_null() {
            return null_mut();
        }
        // Acquire: pairs with the release that laid it out.
        self.0.first.swap(null_mut(), Acquire)
    }

    /// Puts back the end of a list that was taken, if nothing lies there.
    pub fn put_back(&self, list: *mut Block) -> bool {
        // Release: as when it was published.
        self.0.first.compare_exchange(null_mut(), list, Release, Relaxed).is_ok()
    }

    /// Takes about half of the list, the best of it, but no more than [`STOLEN`]; null if there is
    /// none. Says also whether it has put back the others: then somebody who sleeps may have missed
    /// them.
    pub fn take_half(&self) -> (*mut Block, bool) {
        let first = self.take();
        if first.is_null() {
            return (first, false);
        }
        let count = self.0.count.load(Relaxed);
        let keeps = (count / 2).clamp(1, STOLEN);
        let mut last = first;
        // SAFETY: the list is ours.
        unsafe {
            for _ in 1..keeps {
                if (*last).link.is_null() {
                    return (first, false);
                }
                last = (*last).link;
            }
            let rest = std::mem::replace(&mut (*last).link, null_mut());
            if rest.is_null() {
                return (first, false);
            }
            self.0.count.store(count - keeps.min(count), Relaxed);
            let is_back = self.put_back(rest);
            if !is_back {
                (*last).link = rest;
            }
            (first, is_back)
        }
    }

    /// For the owner: publishes a list of so many operations, and takes what lies there.
    pub(crate) fn replace(&self, list: *mut Block, count: usize) -> *mut Block {
        self.0.count.store(count, Relaxed);
        // Release: the operations go to the thief as we see them. Acquire: somebody may have put
        // something back.
        self.0.first.swap(list, AcqRel)
    }

    /// For the owner: takes `first`, behind which `second` comes and so many in all, if it is still
    /// the first. Else: what is.
    #[inline]
    pub(crate) fn pop(&self, first: *mut Block, second: *mut Block, left: usize) -> Result<(), *mut Block> {
        self.0.count.store(left, Relaxed);
        // Acquire: who has put it back has looked at its link. No release: what the list says was
        // published before, and the thread that takes it acquires that, past this exchange.
        self.0.first.compare_exchange(first, second, Acquire, Relaxed).map(|_| ())
    }
}

impl Default for Stealable {
    fn default() -> Stealable {
        Stealable::new()
    }
}
