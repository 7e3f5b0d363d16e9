//! Registered readers: threads that may be reading a tail, the last operation of a variable, which
//! leads to blocks.
//!
//! A spent block is used again at once while nobody does but its owner, and else through
//! [`reclaim`](crate::pool::reclaim).

#![forbid(unsafe_code)]

use crate::sync::{fence, AtomicUsize, Ordering::*};
use crossbeam_utils::CachePadded;

/// A count of registered readers: pushers and waiters.
pub struct Readers(CachePadded<AtomicUsize>);

impl Readers {
    pub fn new() -> Readers {
        Readers(CachePadded::new(AtomicUsize::new(0)))
    }

    /// For the child of a `fork`, where the others are gone.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn reset(&self, readers: usize) {
        self.0.store(readers, SeqCst);
    }

    /// Whether no other thread is a registered reader.
    ///
    /// What became unreachable did so before the fence. A thread that joins does so before a fence
    /// of its own: if that one comes first, it is counted here; if ours does, its looks come after
    /// the time at which the memory could last be reached.
    pub fn has_none_but(&self, caller_is_counted: bool) -> bool {
        fence(SeqCst);
        // Acquire: with the release of the thread that left, so that its last looks and swings are
        // over for us as well.
        self.0.load(Acquire) <= usize::from(caller_is_counted)
    }

    /// Whether the caller, who is counted, is the only one who has ever been a reader and is
    /// still there: so nobody pushes beside it.
    #[inline]
    pub fn has_one(&self) -> bool {
        // Acquire: as in `has_none_but`.
        self.0.load(Acquire) <= 1
    }

    /// Registers a thread as a reader.
    pub fn add(&self) {
        self.0.fetch_add(1, SeqCst);
        // Orders the count before every later look: `has_none_but` is the other side.
        fence(SeqCst);
    }

    /// The thread has read for the last time.
    pub fn remove(&self) {
        // Release: its looks are over before it is counted out.
        self.0.fetch_sub(1, Release);
    }
}
