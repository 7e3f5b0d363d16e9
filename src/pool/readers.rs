//! The count of registered readers: threads that may be reading a tail, the last operation of a
//! variable, which leads to blocks. A thread becomes one in `ThreadContext::pin` or `is_alone`, and
//! stops being one when its context is dropped (`thread/context.rs`).
//!
//! A spent block is reused at once while its owner is the only registered reader, and otherwise
//! through [`reclaim`](crate::pool::reclaim). That choice is made in `pool/sorting.rs`
//! (`sort`), and for variables in `api/engine.rs`.

#![forbid(unsafe_code)]

use crate::sync::{fence, AtomicUsize, Ordering::*};
use crossbeam_utils::CachePadded;

/// The number of registered readers: pushers and waiters.
pub struct Readers(CachePadded<AtomicUsize>);

impl Readers {
    pub fn new() -> Readers {
        Readers(CachePadded::new(AtomicUsize::new(0)))
    }

    /// For the child of a `fork`, in which the other threads are gone.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn reset(&self, readers: usize) {
        self.0.store(readers, SeqCst);
    }

    /// Whether no other thread is a registered reader.
    ///
    /// The caller made memory unreachable before the fence. A thread that joins is counted before a
    /// fence of its own, in `add`. If that fence comes first, the thread is counted here. If ours
    /// comes first, the thread looks only after the memory could last be reached.
    pub fn has_none_but(&self, caller_is_counted: bool) -> bool {
        fence(SeqCst);
        // Acquire: pairs with the release in `remove`, so that the last looks and tail swings of a
        // thread that left are over for us as well.
        self.0.load(Acquire) <= usize::from(caller_is_counted)
    }

    /// Whether the caller, which is counted, is the only registered reader. If so, no thread pushes
    /// beside it. Called by `engine/dispatch/naive.rs`.
    #[inline]
    pub fn has_one(&self) -> bool {
        // Acquire: pairs with the release in `remove`, as in `has_none_but`.
        self.0.load(Acquire) <= 1
    }

    /// Registers a thread as a reader.
    pub fn add(&self) {
        self.0.fetch_add(1, SeqCst);
        // Orders the count before every later look; the other fence is in `has_none_but`.
        fence(SeqCst);
    }

    /// Takes the calling thread out of the count: it has read for the last time.
    pub fn remove(&self) {
        // Release: pairs with the acquire in `has_none_but`, so that the thread's looks are over
        // before it is counted out.
        self.0.fetch_sub(1, Release);
    }
}
