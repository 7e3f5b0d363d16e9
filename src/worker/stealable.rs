//! A list of published operations: the ones that a worker or helper will run next, where other
//! threads can take them meanwhile.
//!
//! One word holds the first operation of a list, best first. A thief takes the whole list, and puts
//! back the end of it. The owner takes one operation at a time. Its queue (`local_queue.rs`) has a
//! copy of the list, so the owner knows the second operation without reading a block that a thief
//! may own by then. If the word is as the owner left it, it heads the list that the owner
//! published: other threads only ever put back an end of that list.
//!
//! Owner's side: `local_queue.rs`. Thieves: `steal.rs` (workers and helpers) and `catch_up.rs`
//! (pushers). Any thread may look. `remote.rs` has one for each worker, `helper_place.rs` one for
//! each helper.

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
    /// About how many operations the list has.
    count: AtomicUsize,
}

impl Stealable {
    pub fn new() -> Stealable {
        Stealable(CachePadded::new(Words { first: AtomicPtr::new(null_mut()), count: AtomicUsize::new(0) }))
    }

    /// The first operation, or null if there is none. For a caller that asks whether there is
    /// something, or something new; it does not own the operation.
    #[inline]
    pub fn peek(&self) -> *mut Block {
        self.0.first.load(Relaxed)
    }

    /// Takes the list; null if there is none. Any thread may call it.
    #[inline]
    pub fn take(&self) -> *mut Block {
        if self.peek().is_null() {
            return null_mut();
        }
        // Acquire: pairs with the release in `replace` or `put_back`.
        self.0.first.swap(null_mut(), Acquire)
    }

    /// Puts back the end of a list that was taken, if nothing lies there. Called by a thief.
    /// Returns whether it did.
    pub fn put_back(&self, list: *mut Block) -> bool {
        // Release: pairs with the acquire in `take`, `replace` and `pop`.
        self.0.first.compare_exchange(null_mut(), list, Release, Relaxed).is_ok()
    }

    /// Takes about half of the list, from its best operation on, but at most [`STOLEN`]; null if
    /// there is none. The flag says whether it has put back the others: then a thread that was
    /// about to sleep may have missed them.
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

    /// For the owner: publishes a list of `count` operations, and takes what lies there.
    pub(crate) fn replace(&self, list: *mut Block, count: usize) -> *mut Block {
        self.0.count.store(count, Relaxed);
        // Release: pairs with the acquire in `take`, so that the thief sees the operations as we
        // do. Acquire: pairs with the release in `put_back`, in case a thief has put something
        // back.
        self.0.first.swap(list, AcqRel)
    }

    /// For the owner: takes `first`, if that is still the first operation, so that `second` is the
    /// first and `left` operations stay. Otherwise returns the operation that is the first.
    #[inline]
    pub(crate) fn pop(&self, first: *mut Block, second: *mut Block, left: usize) -> Result<(), *mut Block> {
        self.0.count.store(left, Relaxed);
        // Acquire: pairs with the release in `put_back`: the thief that has put the list back has
        // read the link of its first operation before. No release: the list from `second` on was
        // published before, and the thread that takes it acquires that publication, past this
        // exchange.
        self.0.first.compare_exchange(first, second, Acquire, Relaxed).map(|_| ())
    }
}

impl Default for Stealable {
    fn default() -> Stealable {
        Stealable::new()
    }
}
