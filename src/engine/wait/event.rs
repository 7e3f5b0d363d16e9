//! A one-shot event: tells the thread that waits for a variable that the variable is free.
//!
//! Used by `wait/for_var.rs`, `wait/for_outcome.rs`, `wait/hold.rs` and `wait/reply.rs`. The
//! waiting thread takes the event, looks at it and takes its failure. The thread that runs the
//! wait's operation sets it: any that ends an operation, the watcher of a device, or the waiting
//! thread itself.

use crate::error::{Failure, Stamp};
use crate::sync::thread::{self, Thread};
use crate::sync::{thread_local, AtomicBool, AtomicPtr, Ordering::*, MODELLED};
use crate::util::spin::note_wake;
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::Arc;
use std::task::Wake;

thread_local! {
    /// The thread's event, kept from wait to wait. A wait that ran out of time leaves its event to
    /// the operation that will still set it.
    static SPARE_EVENT: Cell<Option<Arc<OneShot>>> = const { Cell::new(None) };
}

/// An event that is set once for each wait, and unparks the thread that took it.
pub struct OneShot {
    set: AtomicBool,
    /// The failure that the variable was marked with, and the stamp of the wait's push, boxed.
    /// Null: none.
    failure: AtomicPtr<(Arc<Failure>, Stamp)>,
    thread: Thread,
}

impl OneShot {
    /// The calling thread's event, or a new one.
    pub fn take() -> Arc<OneShot> {
        SPARE_EVENT.try_with(Cell::take).ok().flatten().unwrap_or_else(|| {
            Arc::new(OneShot {
                set: AtomicBool::new(false),
                failure: AtomicPtr::new(null_mut()),
                thread: thread::current(),
            })
        })
    }

    /// Keeps an event that nothing will set any more for the thread's next wait.
    pub fn put_back(event: Arc<OneShot>) {
        if MODELLED {
            return; // Loom drops thread-locals in an order that changes from run to run, which its models must not see.
        }
        event.reset();
        let _ = SPARE_EVENT.try_with(|slot| slot.set(Some(event)));
    }

    /// Sets the event, with the failure that the wait has inherited, and unparks the waiting
    /// thread.
    pub fn set(&self, failure: Option<(&Arc<Failure>, Stamp)>) {
        if let Some((failure, stamp)) = failure {
            let owned = Box::into_raw(Box::new((Arc::clone(failure), stamp)));
            self.failure.store(owned, Relaxed);
        }
        // Release: pairs with the acquire in `is_set`, for the failure and all that the writes
        // before this wait have done.
        self.set.store(true, Release);
        self.thread.unpark();
        // Also if the thread still looks: it may have yielded this very core.
        note_wake();
    }

    /// Makes the event ready for the next wait.
    pub fn reset(&self) {
        self.set.store(false, Relaxed);
    }

    pub fn is_set(&self) -> bool {
        self.set.load(Acquire)
    }

    pub fn take_failure(&self) -> Option<(Arc<Failure>, Stamp)> {
        if self.failure.load(Relaxed).is_null() {
            return None;
        }
        let failure = self.failure.swap(null_mut(), AcqRel);
        // SAFETY: `set` made the pointer from a box, and the swap took it for this call alone.
        (!failure.is_null()).then(|| *unsafe { Box::from_raw(failure) })
    }
}

/// As a waker, for a thread that waits for what wakes tasks.
impl Wake for OneShot {
    fn wake(self: Arc<Self>) {
        self.set(None);
    }
}

impl Drop for OneShot {
    fn drop(&mut self) {
        self.take_failure();
    }
}
