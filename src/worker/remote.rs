//! The shared part of a worker: its inbox, by which it is also woken, and the operations that it
//! lends. Any thread may use it; the queue that only the worker touches is in `current.rs`.
//! `helper_place.rs` is the same for a helper. Two more have one: the group itself for its common
//! inbox, which any worker or helper empties, and the watcher of a device (`engine/gpu/sleep.rs`).

use crate::sync::{AtomicBool, AtomicUsize, Ordering::*};
use crate::worker::inbox::Inbox;
use crate::worker::stealable::Stealable;
use crossbeam_utils::CachePadded;

pub struct Remote {
    pub inbox: Inbox,
    /// The operations that the worker has lent.
    pub stealable: Stealable,
    /// Whether an urgent operation has come, which should not wait for the next poll of the inbox.
    /// Set by any thread, cleared by the worker; for the common inbox by any worker.
    urgent: CachePadded<AtomicBool>,
    /// The core that the worker is, or will be, pinned to, counted from 1; 0 for none. Stored by
    /// the thread that starts the worker, and by those that move it (`pinning.rs`).
    core: AtomicUsize,
}

impl Remote {
    pub fn new() -> Remote {
        Remote {
            inbox: Inbox::new(),
            stealable: Stealable::new(),
            urgent: CachePadded::new(AtomicBool::new(false)),
            core: AtomicUsize::new(0),
        }
    }

    /// Sets the worker's core: before it starts, or when it is moved.
    pub fn assign(&self, core: Option<usize>) {
        self.core.store(core.map_or(0, |core| core + 1), Relaxed);
    }

    /// The core that the worker was given.
    pub fn core(&self) -> Option<usize> {
        self.core.load(Relaxed).checked_sub(1)
    }

    /// Whether the worker is pinned to this core.
    #[inline]
    pub fn is_on(&self, core: usize) -> bool {
        self.core.load(Relaxed) == core + 1
    }

    /// Says that the operation that the caller has just pushed should not wait for the next poll.
    pub fn hurry(&self) {
        // Release: pairs with the acquire in `is_urgent`, so that the worker that asks finds the
        // operation when it looks.
        self.urgent.store(true, Release);
    }

    /// Whether something urgent has come for which the worker has not looked yet. Any thread may
    /// ask.
    pub fn awaits_hurry(&self) -> bool {
        self.urgent.load(Relaxed)
    }

    /// Whether something urgent has come since the last call. The thread that asks must then look
    /// into the inbox: a worker does, in `idle.rs`.
    pub fn is_urgent(&self) -> bool {
        if !self.urgent.load(Relaxed) {
            return false;
        }
        // A read-modify-write, so that the look into the inbox that follows cannot pass it.
        // Acquire: pairs with the release in `hurry`, so that the look finds the operation.
        self.urgent.swap(false, AcqRel);
        true
    }
}
