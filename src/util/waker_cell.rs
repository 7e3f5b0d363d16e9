//! A place for the waker of one task, without a lock: the task stores its waker, and any thread
//! takes it out and wakes the task.
//!
//! Used by `engine/future/cell.rs` and `engine/wait/waker_list.rs`. One thread at a time stores:
//! the one that polls the task. Any number of threads may wake and take meanwhile.
//!
//! The algorithm is that of `AtomicWaker` of futures-rs (in the package futures-core). The state
//! says who has the place: the storing thread, a taking one, or nobody. Nobody waits for anybody. A
//! thread that finds the place with the storing one leaves the wake-up to that thread, by a flag. A
//! storing thread that finds the place with a taking one wakes its own task at once.
//!
//! The promise, for a task that stores its waker and then looks at a condition, and a thread that
//! makes the condition true and then wakes: the task sees the condition, or its waker is called.

use crate::sync::{AtomicU8, Ordering::*};
use crate::util::payload::drop_payload;
use std::cell::UnsafeCell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::task::Waker;

/// Nobody has the place.
const FREE: u8 = 0;
/// The task's thread has it.
const STORES: u8 = 1;
/// A thread that takes the waker has it; together with [`STORES`]: wants it.
const TAKES: u8 = 1 << 1;

/// A place for one waker.
pub struct WakerCell {
    state: AtomicU8,
    waker: UnsafeCell<Option<Waker>>,
}

// SAFETY: `state` gives the waker to one thread at a time. A waker may be used on any thread.
unsafe impl Sync for WakerCell {}
// SAFETY: as above.
unsafe impl Send for WakerCell {}

impl WakerCell {
    pub fn new() -> WakerCell {
        WakerCell { state: AtomicU8::new(FREE), waker: UnsafeCell::new(None) }
    }

    /// Stores a waker in place of the one before. If another thread wakes meanwhile, this waker is
    /// called, perhaps inside this call.
    pub fn store(&self, waker: &Waker) {
        // Copying, dropping and calling a waker is user code: the place is nobody's or ours, but
        // no other thread depends on the end of it.
        let new = waker.clone();
        // Acquire: pairs with the release of the thread that had the place last. On failure it
        // pairs with that of the thread that takes: what that thread did before is seen by the
        // task when it is polled next, since this thread wakes it.
        if self.state.compare_exchange(FREE, STORES, Acquire, Acquire).is_err() {
            return quietly(|| new.wake());
        }
        // SAFETY: the state says that the place is ours.
        let old = unsafe { (*self.waker.get()).replace(new) };
        // Release: pairs with the acquire in `take`, so that the waker is found as it was stored.
        // Acquire, on failure as well: what the other thread did before it wanted the waker is
        // seen by the task, which looks after this call.
        if self.state.compare_exchange(STORES, FREE, AcqRel, Acquire).is_err() {
            // SAFETY: the other thread has left the place to us.
            let new = unsafe { (*self.waker.get()).take() };
            // AcqRel, as above: other threads may have wanted the waker since.
            self.state.swap(FREE, AcqRel);
            quietly(|| new.into_iter().for_each(Waker::wake));
        }
        quietly(|| drop(old));
    }

    /// Takes the waker out, if there is one, and nobody else has the place.
    fn take(&self) -> Option<Waker> {
        // Acquire: pairs with the release in `store`. Release: what this thread has done before is
        // seen by the task's thread, which finds the flag and then looks, or wakes the task.
        if self.state.fetch_or(TAKES, AcqRel) != FREE {
            // The thread that has the place calls the waker, or takes it for the same end.
            return None;
        }
        // SAFETY: the state says that the place is ours.
        let waker = unsafe { (*self.waker.get()).take() };
        // Release: pairs with the acquires in `store` and `take`.
        self.state.fetch_and(!TAKES, Release);
        waker
    }

    /// Calls the waker, if there is one, and forgets it.
    pub fn wake(&self) {
        let waker = self.take();
        quietly(|| waker.into_iter().for_each(Waker::wake));
    }

    /// Drops the waker, if there is one; says whether there was.
    pub fn forget(&self) -> bool {
        let waker = self.take();
        let had_one = waker.is_some();
        quietly(|| drop(waker));
        had_one
    }
}

/// Calls or drops a waker. A panic of it is swallowed: the thread has nobody to tell.
fn quietly(call: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
        drop_payload(payload);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::sync::Arc;
    use std::task::Wake;

    #[derive(Default)]
    struct Counts(AtomicUsize);

    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
            std::panic::resume_unwind(Box::new("a waker that panics"));
        }
    }

    #[test]
    fn a_waker_whose_destructor_panics_harms_nobody() {
        #[derive(Default)]
        struct Panics(Arc<AtomicUsize>);
        impl Wake for Panics {
            fn wake(self: Arc<Self>) {}
        }
        impl Drop for Panics {
            fn drop(&mut self) {
                self.0.fetch_add(1, SeqCst);
                std::panic::resume_unwind(Box::new("while a waker is dropped"));
            }
        }
        let (cell, drops) = (WakerCell::new(), Arc::new(AtomicUsize::new(0)));
        let store = || {
            let waker = Waker::from(Arc::new(Panics(Arc::clone(&drops))));
            cell.store(&waker);
        };
        store();
        store();
        assert_eq!(drops.load(SeqCst), 1, "the first one is dropped");
        assert!(cell.forget());
        assert!(!cell.forget());
        store();
        cell.wake();
        assert_eq!(drops.load(SeqCst), 3);
    }

    #[test]
    fn a_waker_is_called_once_and_dropped() {
        let (cell, counts) = (WakerCell::new(), Arc::new(Counts::default()));
        let waker = Waker::from(Arc::clone(&counts));
        cell.wake();
        cell.store(&waker);
        cell.store(&waker);
        assert_eq!(Arc::strong_count(&counts), 3, "the first one is dropped");
        cell.wake();
        cell.wake();
        assert_eq!((counts.0.load(SeqCst), Arc::strong_count(&counts)), (1, 2));
        cell.store(&waker);
        assert!(cell.forget());
        cell.wake();
        assert_eq!((counts.0.load(SeqCst), Arc::strong_count(&counts)), (1, 2));
    }
}
