//! Memory reclamation: when may memory be reused that another thread may still be looking at?
//! Epoch-based, by `crossbeam-epoch`. Used by `thread/context.rs`, `pool/thread_cache.rs`,
//! `pool/sorting.rs` and `pool/memory.rs`, and by `engine/diagnose.rs`, which pins itself.
//!
//! Only registered readers (threads that push or wait) can hold the address of another thread's
//! operation, and they are pinned while they do. The thread that reuses blocks defers the reuse
//! until every earlier pin is gone. The trait is the seam for the models in `loom-tests/`.
//!
//! A thread that loses its core while it is pinned keeps everything that is deferred from then on.
//! For the slots of variables that is so. Blocks go another way once too many of them wait here:
//! see `pool/beside_epoch.rs`.

use crate::sync::{deferred, pinned};

/// A way to find out when no thread can hold an address any more.
pub trait Reclaim {
    /// One thread's membership.
    type Handle;
    /// A pin: keeps everything alive that can be reached since it was made.
    type Guard;

    /// Makes the calling thread a member.
    fn register(&self) -> Self::Handle;
    /// Pins the calling thread.
    fn pin(handle: &Self::Handle) -> Self::Guard;
    /// Calls `reuse` when all guards that exist now are gone, at the latest when the reclaimer is
    /// dropped.
    ///
    /// # Safety
    /// The memory that `reuse` makes reusable cannot be reached any more, and `reuse` may run on
    /// any member's thread.
    unsafe fn defer(guard: &Self::Guard, reuse: impl FnOnce() + 'static);
}

/// Epoch-based reclamation by `crossbeam-epoch`, with a collector for each engine: dropping it runs
/// all deferred calls.
pub struct Epoch(crossbeam_epoch::Collector);

impl Epoch {
    pub fn new() -> Epoch {
        Epoch(crossbeam_epoch::Collector::new())
    }
}

impl Reclaim for Epoch {
    type Handle = crossbeam_epoch::LocalHandle;
    type Guard = crossbeam_epoch::Guard;

    fn register(&self) -> Self::Handle {
        self.0.register()
    }

    #[inline]
    fn pin(handle: &Self::Handle) -> Self::Guard {
        pinned(handle);
        handle.pin()
    }

    unsafe fn defer(guard: &Self::Guard, reuse: impl FnOnce() + 'static) {
        deferred();
        // SAFETY: the caller's contract. Flushing at once keeps the garbage small: a deferred call
        // stands for tens of blocks.
        unsafe { guard.defer_unchecked(reuse) };
        guard.flush();
    }
}
