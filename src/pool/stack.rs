//! A lock-free stack of magazines, by which spent blocks come back to their thread cache, a whole
//! magazine with each push. Used by `pool/thread_cache.rs`: other threads push to `incoming`, and
//! the reclaimer to `safe`, on any thread. The owner of the cache takes all of a stack at once, and
//! so does the owner of another cache that has run dry (`pool/sorting.rs`).

use crate::operation::block::Block;
use crate::pool::magazine::Magazine;
use crate::pool::magazine_list::DetachedList;
use crate::sync::{AtomicPtr, Ordering::*};
use std::ptr::null_mut;

/// A lock-free stack of magazines: any thread pushes, and any thread takes all. Taking all at once
/// leaves no room for ABA.
pub struct Stack {
    head: AtomicPtr<Block>,
}

impl Stack {
    pub fn new() -> Stack {
        Stack { head: AtomicPtr::new(null_mut()) }
    }

    /// Adds a magazine. Lock-free: a retry means that another push or a take succeeded.
    pub fn push(&self, magazine: Magazine) {
        let first = magazine.pack();
        if first.is_null() {
            return;
        }
        let mut head = self.head.load(Relaxed);
        loop {
            // SAFETY: the magazine is ours until the exchange succeeds.
            unsafe { Magazine::chain(first, head) };
            // Release: pairs with the acquire in `take`, so that the owner finds the blocks as we
            // left them.
            match self.head.compare_exchange(head, first, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes all magazines, in one step.
    pub fn take(&self) -> DetachedList {
        if self.head.load(Relaxed).is_null() {
            return DetachedList::new();
        }
        // Acquire: pairs with the releases in `push`, which form one release sequence.
        let first = self.head.swap(null_mut(), Acquire);
        // SAFETY: the swap made every magazine of the stack ours. `push` packed them, and linked
        // the first one pushed to null.
        unsafe { DetachedList::of(first) }
    }
}
