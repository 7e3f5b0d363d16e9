//! A worker's post: what others can reach of it.

use crate::sync::lock::Lock;
use crate::sync::thread::{self, Thread};
use crate::sync::{fence, AtomicBool, AtomicPtr, AtomicUsize, Ordering::*};
use crate::worker::inbox::Inbox;
use crate::worker::stealable::Stealable;
use crossbeam_utils::CachePadded;
use std::ptr::null_mut;
use std::sync::Arc;

pub struct Remote {
    pub inbox: Inbox,
    /// What the worker would run next, for others.
    pub stealable: Stealable,
    /// Something has come that should not wait for the next poll.
    urgent: CachePadded<AtomicBool>,
    /// The thread that is woken for this worker.
    thread: AtomicPtr<Thread>,
    /// That thread, and those before it that a late waker could still mean.
    handles: Lock<Vec<Arc<Thread>>>,
    /// Wakers that may have read `thread` and not used it yet.
    waking: AtomicUsize,
    /// The core that the worker is, or will be, pinned to, counted from 1; 0 for none.
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

    /// Gives the worker a core: before it starts, or where it is moved.
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

    /// Makes the calling thread the one that is woken for this worker. Before it can sleep.
    pub fn register(&self) {
        let handle = Arc::new(thread::current());
        let mut handles = self.handles.lock();
        // Release: who finds the thread finds its handle written.
        self.thread.store(Arc::as_ptr(&handle).cast_mut(), Release);
        // Against the one in `unpark`: either we see the waker, or it sees this thread.
        fence(SeqCst);
        // Acquire: wakers that are not seen have done with the threads before this one.
        if self.waking.load(Acquire) == 0 {
            handles.clear();
        }
        handles.push(handle);
    }

    /// Says that what was just pushed should not wait for the next poll.
    pub fn hurry(&self) {
        // Release: with the acquire of the owner, it finds the operation when it looks.
        self.urgent.store(true, Release);
    }

    /// Whether something urgent has come that the worker has not looked for yet. Any thread may
    /// ask.
    pub fn awaits_hurry(&self) -> bool {
        self.urgent.load(Relaxed)
    }

    /// Whether something urgent has come since the last call.
    pub fn is_urgent(&self) -> bool {
        if !self.urgent.load(Relaxed) {
            return false;
        }
        // A read-modify-write, so that the look into the inbox that follows does not pass it;
        // Acquire: it finds the operation.
        self.urgent.swap(false, AcqRel);
        true
    }

    #[cold]
    pub fn unpark(&self) {
        self.waking.fetch_add(1, Relaxed);
        // Against the one in `register`.
        fence(SeqCst);
        // SAFETY: set before the worker can sleep. A handle is dropped only after another thread
        // was set and no waker was counted, so the one that is read here stays until we are not
        // counted any more.
        if let Some(thread) = unsafe { self.thread.load(Acquire).as_ref() } {
            thread.unpark();
        }
        // Release: the handle is used before it can be dropped.
        self.waking.fetch_sub(1, Release);
    }

    /// For the child of a `fork`, where no waker is.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn forget_wakers(&self) {
        self.waking.store(0, Relaxed);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// A waker that has read whom to wake may lose its core then, and the group may be stopped and
    /// started again meanwhile.
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
