//! A worker's post: what others can reach of it.

use super::affinity;
use super::inbox::Inbox;
use crate::lock::Lock;
use crate::operation::block::Block;
use crate::sync::thread::{self, Thread};
use crate::sync::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::*};
use crossbeam_utils::CachePadded;
use std::ptr::null_mut;
use std::sync::Arc;

/// Every thread that ever worked in a group: posts point to them, and late wakers may still do.
pub type Handles = Lock<Vec<Arc<Thread>>>;

pub struct Post {
    pub inbox: Inbox,
    /// A list that others may steal, the worst of what the worker has.
    pub surplus: CachePadded<AtomicPtr<Block>>,
    /// Something has come that should not wait for the next poll.
    urgent: CachePadded<AtomicBool>,
    pub thread: AtomicPtr<Thread>,
    /// The core that the worker is, or will be, pinned to, counted from 1; 0 for none.
    core: AtomicUsize,
}

impl Post {
    pub fn new() -> Post {
        Post {
            inbox: Inbox::new(),
            surplus: CachePadded::new(AtomicPtr::new(null_mut())),
            urgent: CachePadded::new(AtomicBool::new(false)),
            thread: AtomicPtr::new(null_mut()),
            core: AtomicUsize::new(0),
        }
    }

    /// Gives the worker a core. Before it starts.
    pub fn assign(&self, core: Option<usize>) {
        self.core.store(core.map_or(0, |core| core + 1), Relaxed);
    }

    /// Pins the calling thread, which is this worker, to the core that it was given, if it was. The core, if the system refuses.
    pub fn pin(&self) -> Result<(), usize> {
        match self.core.load(Relaxed).checked_sub(1) {
            Some(core) if !affinity::pin(core) => {
                self.assign(None);
                Err(core)
            }
            _ => Ok(()),
        }
    }

    /// Whether the worker is pinned to this core.
    #[inline]
    pub fn is_on(&self, core: usize) -> bool {
        self.core.load(Relaxed) == core + 1
    }

    /// Makes the calling thread the one that is woken for this worker. Before it can sleep.
    pub fn register(&self, handles: &Handles) {
        let handle = Arc::new(thread::current());
        self.thread.store(Arc::as_ptr(&handle).cast_mut(), Release);
        handles.lock().push(handle);
    }

    /// Says that what was just pushed should not wait for the next poll.
    pub fn hurry(&self) {
        // Release: with the acquire of the owner, it finds the operation when it looks.
        self.urgent.store(true, Release);
    }

    /// Whether something urgent has come that the worker has not looked for yet. Any thread may ask.
    pub fn awaits_hurry(&self) -> bool {
        self.urgent.load(Relaxed)
    }

    /// Whether something urgent has come since the last call.
    pub fn is_urgent(&self) -> bool {
        if !self.urgent.load(Relaxed) {
            return false;
        }
        // A read-modify-write, so that the look into the inbox that follows does not pass it; Acquire: it finds the operation.
        self.urgent.swap(false, AcqRel);
        true
    }

    pub fn take_surplus(&self) -> *mut Block {
        if self.surplus.load(Relaxed).is_null() {
            return null_mut();
        }
        // Acquire: pairs with the release that laid it out.
        self.surplus.swap(null_mut(), Acquire)
    }

    #[cold]
    pub fn unpark(&self) {
        // SAFETY: set before the worker can sleep, and kept until the group is dropped.
        if let Some(thread) = unsafe { self.thread.load(Acquire).as_ref() } {
            thread.unpark();
        }
    }
}
