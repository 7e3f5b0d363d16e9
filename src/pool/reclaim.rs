//! Memory reclamation: when may memory be reused that another thread may still be looking at?
//! Epoch-based, by `crossbeam-epoch`. Used by `thread/context.rs`, `pool/thread_cache.rs`,
//! `pool/sorting.rs` and `pool/memory.rs`, and by `engine/diagnose.rs`, which pins itself.
//!
//! Only registered readers (threads that push or wait) can hold the address of another thread's
//! operation, and they are pinned while they do. The thread that reuses blocks defers the reuse
//! until every earlier pin is gone. `loom-tests/tests/epoch.rs` has the models.
//!
//! A thread that loses its core while it is pinned keeps everything that is deferred from then on.
//! For the slots of variables that is so. Blocks go another way once too many of them wait here:
//! see `pool/beside_epoch.rs`.

use crate::sync::{deferred, pinned};

/// One thread's membership.
pub use crossbeam_epoch::LocalHandle as EpochHandle;

/// A pin: keeps everything alive that can be reached since it was made.
pub use crossbeam_epoch::Guard as EpochGuard;

/// Finds out when no thread can hold an address any more: epoch-based reclamation by
/// `crossbeam-epoch`, with a collector for each engine. Dropping it runs all deferred calls.
pub struct Epoch(crossbeam_epoch::Collector);

impl Epoch {
    pub fn new() -> Epoch {
        Epoch(crossbeam_epoch::Collector::new())
    }

    /// Makes the calling thread a member.
    pub fn register(&self) -> EpochHandle {
        self.0.register()
    }

    /// Pins the calling thread.
    #[inline]
    pub fn pin(handle: &EpochHandle) -> EpochGuard {
        pinned(handle);
        handle.pin()
    }

    /// Calls `reuse` when all guards that exist now are gone, at the latest when the reclaimer is
    /// dropped.
    ///
    /// # Safety
    /// The memory that `reuse` makes reusable cannot be reached any more, and `reuse` may run on
    /// any member's thread.
    pub unsafe fn defer(guard: &EpochGuard, reuse: impl FnOnce() + 'static) {
        deferred();
        // SAFETY: the caller's contract. Flushing at once keeps the garbage small: a deferred call
        // stands for tens of blocks.
        unsafe { guard.defer_unchecked(reuse) };
        guard.flush();
    }
}
