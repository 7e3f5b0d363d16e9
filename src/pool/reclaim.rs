//! Reclamation: when may memory be reused that a helper may still be looking at?
//!
//! Only readers (threads that push or wait) can hold the address of another thread's
//! operation, and they pin while they do. The thread that reuses blocks defers it until every pin
//! from before is gone. The trait is the seam for the models: they run the protocol with real
//! epochs, with none, and with a reclaimer that is wrong on purpose.

use crate::sync::{deferred, pinned};

/// A way to find out when no thread can hold an address any more.
pub trait Reclaim {
    /// One thread's membership.
    type Handle;
    /// Keeps everything alive that could be reached since it was made.
    type Guard;

    /// Makes the calling thread a member.
    fn register(&self) -> Self::Handle;
    /// Becomes a reader.
    fn pin(handle: &Self::Handle) -> Self::Guard;
    /// Calls `reuse` when all guards that exist now are gone; at the latest when the reclaimer is
    /// dropped.
    ///
    /// # Safety
    /// What `reuse` makes reusable cannot be reached any more, and `reuse` may run on any member's
    /// thread.
    unsafe fn defer(guard: &Self::Guard, reuse: impl FnOnce() + 'static);
}

/// Epoch-based reclamation by `crossbeam-epoch`, with a collector of its own: dropping it runs all
/// that was deferred.
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
        // SAFETY: passed on. Flushing at once keeps the garbage in step: a deferred call stands for
        // tens of blocks.
        unsafe { guard.defer_unchecked(reuse) };
        guard.flush();
    }
}
