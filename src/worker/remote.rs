//! The shared part of a worker: its inbox, the operations that it lends, and the handle by which it
//! is woken. Any thread may use it; the queue that only the worker touches is in `current.rs`.
//! `helper_place.rs` is the same for a helper. Two more have one: the group itself for its common
//! inbox, which any worker or helper empties, and the watcher of a device (`engine/gpu/sleep.rs`).

use crate::sync::lock::Lock;
use crate::sync::thread::{self, Thread};
use crate::sync::{fence, AtomicBool, AtomicPtr, AtomicUsize, Ordering::*};
use crate::util::spin::note_wake;
use crate::worker::inbox::Inbox;
use crate::worker::stealable::Stealable;
use crossbeam_utils::CachePadded;
use std::ptr::null_mut;
use std::sync::Arc;

pub struct Remote {
    pub inbox: Inbox,
    /// The operations that the worker has lent.
    pub stealable: Stealable,
    /// Whether an urgent operation has come, which should not wait for the next poll of the inbox.
    /// Set by any thread, cleared by the worker; for the common inbox by any worker.
    urgent: CachePadded<AtomicBool>,
    /// The thread that is woken for this worker, which stores it when it starts.
    thread: AtomicPtr<Thread>,
    /// The handle that `thread` points to, and earlier ones that a late waker could still use.
    handles: Lock<Vec<Arc<Thread>>>,
    /// The number of wakers that may have read `thread` and not used it yet.
    waking: AtomicUsize,
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
            thread: AtomicPtr::new(null_mut()),
            handles: Lock::default(),
            waking: AtomicUsize::new(0),
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

    /// Makes the calling thread the one that is woken for this worker. Called by a worker before it
    /// can sleep.
    pub fn register(&self) {
        let handle = Arc::new(thread::current());
        let mut handles = self.handles.lock();
        // Release: pairs with the acquire in `unpark`, so that the waker finds the handle written.
        self.thread.store(Arc::as_ptr(&handle).cast_mut(), Release);
        // Store buffering; the other fence is in `unpark`. Either this thread sees the waker
        // counted, or the waker sees this thread's handle.
        fence(SeqCst);
        // Acquire: pairs with the release in `unpark`, so that wakers that are not counted any more
        // have done with the earlier handles.
        if self.waking.load(Acquire) == 0 {
            handles.clear();
        }
        handles.push(handle);
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
    /// into the inbox: a worker does, in `run_loop.rs`.
    pub fn is_urgent(&self) -> bool {
        if !self.urgent.load(Relaxed) {
            return false;
        }
        // A read-modify-write, so that the look into the inbox that follows cannot pass it.
        // Acquire: pairs with the release in `hurry`, so that the look finds the operation.
        self.urgent.swap(false, AcqRel);
        true
    }

    #[cold]
    pub fn unpark(&self) {
        self.waking.fetch_add(1, Relaxed);
        // Store buffering; the other fence is in `register`, on the worker that starts.
        fence(SeqCst);
        // SAFETY: `thread` was set before the worker could sleep. `register` drops a handle only
        // after it has stored another one and then seen no waker counted. So the handle that is
        // read here stays until this thread is not counted any more.
        if let Some(thread) = unsafe { self.thread.load(Acquire).as_ref() } {
            thread.unpark();
            note_wake();
        }
        // Release: pairs with the acquire in `register`, so that the handle is used before it can
        // be dropped.
        self.waking.fetch_sub(1, Release);
    }

    /// For the child of a `fork`, in which no thread is in `unpark`.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn forget_wakers(&self) {
        self.waking.store(0, Relaxed);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// A waker that has read the handle may then lose its core, and meanwhile the group may be
    /// stopped and started again.
    #[test]
    fn a_handle_stays_while_a_waker_may_still_use_it() {
        let remote = Remote::new();
        let restart = || std::thread::scope(|scope| scope.spawn(|| remote.register()).join().unwrap());
        restart();
        remote.waking.store(1, Relaxed);
        let read = remote.thread.load(Acquire).cast_const();
        restart();
        restart();
        assert!(remote.handles.lock().iter().any(|handle| Arc::as_ptr(handle) == read), "it is freed under the waker");
        remote.waking.store(0, Relaxed);
        restart();
        assert_eq!(remote.handles.lock().len(), 1, "and goes when the waker has");
    }
}
