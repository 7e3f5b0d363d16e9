//! The ready operations of a worker or helper, where other threads can take some of them while that
//! thread runs an operation.
//!
//! One word holds all of them, or nothing. The owner puts them there before it runs an operation,
//! and takes them back behind it. A thief takes all of them, keeps some, and puts the others back.
//! The thread that has taken them is alone with them. Each of these is one exchange.
//!
//! The owner may come while a thief has them in its hands. Then it goes on with what else it has,
//! and finds them the next time. If it has lent other operations by then, one row is chained to the
//! other, and the owner merges them when it takes them back.
//!
//! Owner's side: `local_queue.rs`. Thieves: `steal.rs` (workers and helpers) and `catch_up.rs`
//! (pushers). Any thread may look. `remote.rs` has one for each worker, `helper_place.rs` one for
//! each helper.

use crate::operation::block::Block;
use crate::sync::{AtomicPtr, Ordering::*};
use crate::worker::ready::Ready;
use crossbeam_utils::CachePadded;
use std::ptr::null_mut;

/// The most operations that a thief keeps. While it runs one, the others can be stolen from it.
const STOLEN: usize = 32;

/// A bit of the word: there are no operations, only the memory for them, for the owner's next ones.
const ONLY_MEMORY: usize = 1;

/// The operations that a thread has lent to others.
pub struct Stealable(CachePadded<AtomicPtr<Ready>>);

impl Stealable {
    pub fn new() -> Stealable {
        Stealable(CachePadded::new(AtomicPtr::new(null_mut())))
    }

    /// Not null if there are operations. It points to their memory, so it may be the same for other
    /// operations.
    #[inline]
    pub fn peek(&self) -> *const () {
        let word = self.0.load(Relaxed);
        if word.addr() & ONLY_MEMORY == 0 {
            word.cast()
        } else {
            null_mut()
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.peek().is_null()
    }

    /// Whether the operations, or the memory for them, are here, and in no thread's hands.
    #[inline]
    pub fn is_there(&self) -> bool {
        !self.0.load(Relaxed).is_null()
    }

    /// Takes all operations, or `None` if another thread has them, or there are none. Any thread
    /// may call it.
    pub fn take(&self) -> Option<Box<Ready>> {
        if !self.is_there() {
            return None;
        }
        // Acquire: pairs with the release in `put`.
        let word = self.0.swap(null_mut(), Acquire);
        // SAFETY: `put` has made the word of a box, and it was taken out once.
        (!word.is_null()).then(|| unsafe { Box::from_raw(word.map_addr(|word| word & !ONLY_MEMORY)) })
    }

    /// Puts a row of operations here, or what a thread has left of one. If another row is here by
    /// now, the two are chained, and the call returns `true`: a thread that was about to sleep may
    /// have missed the other row.
    ///
    /// Lock-free: it starts over only if another thread has put or taken operations meanwhile.
    pub fn put(&self, mut ready: Box<Ready>) -> bool {
        let mut are_more = false;
        loop {
            let mark = if ready.is_empty() { ONLY_MEMORY } else { 0 };
            let word = Box::into_raw(ready).map_addr(|word| word | mark);
            // Release: pairs with the acquire in `take`.
            if self.0.compare_exchange(null_mut(), word, Release, Relaxed).is_ok() {
                return are_more;
            }
            // SAFETY: made above, and not given away.
            ready = unsafe { Box::from_raw(word.map_addr(|word| word & !ONLY_MEMORY)) };
            if let Some(mut other) = self.take() {
                // Thieves look at the first row only.
                if other.best() > ready.best() {
                    std::mem::swap(&mut ready, &mut other);
                }
                ready.chain(other);
                are_more = true;
            }
        }
    }

    /// Takes about half of the operations, from the best one on, but at most [`STOLEN`], or one if
    /// they are urgent; null if there are none. The flag says whether it has put back others: then
    /// a thread that was about to sleep may have missed them.
    pub fn take_half(&self) -> (*mut Block, bool) {
        if self.is_empty() {
            return (null_mut(), false);
        }
        let Some(mut ready) = self.take() else { return (null_mut(), false) };
        let half = (ready.len() / 2).clamp(1, STOLEN);
        // Urgent operations are for as many threads as there are.
        let is_urgent = ready.best().is_some_and(|best| best.0 > 0);
        let list = ready.take_list(if is_urgent { 1 } else { half }, |_| true);
        let are_some_left = !ready.is_empty();
        (list, self.put(ready) || are_some_left)
    }
}

impl Default for Stealable {
    fn default() -> Stealable {
        Stealable::new()
    }
}

impl Drop for Stealable {
    fn drop(&mut self) {
        drop(self.take());
    }
}
