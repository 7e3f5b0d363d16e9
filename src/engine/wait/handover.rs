//! What a thread waits for, until it gives up ([`Handover`]). Used by `wait/hold.rs`: an operation
//! leaves its completion here, on the thread that runs it, and the thread that waits takes it.
//!
//! Both may come at once, when the time of the wait is over. One exchange each decides which was
//! first, so the item goes to exactly one of the two threads, and neither waits for the other.

use crate::sync::{AtomicU8, Ordering::*};
use std::cell::UnsafeCell;

const NOT_YET: u8 = 0;
const GIVEN: u8 = 1;
const GIVEN_UP: u8 = 2;

/// A place for an item that one thread gives, and another one takes or gives up.
pub struct Handover<T> {
    state: AtomicU8,
    item: UnsafeCell<Option<T>>,
}

// SAFETY: the item is the giving thread's until the state is `GIVEN`, and then the waiting
// thread's; if that has given up, it stays the giving thread's. It moves between the two.
unsafe impl<T: Send> Sync for Handover<T> {}

impl<T> Handover<T> {
    pub fn new() -> Handover<T> {
        Handover { state: AtomicU8::new(NOT_YET), item: UnsafeCell::new(None) }
    }

    /// Leaves the item for the thread that waits, or returns it if that has given up. To be called
    /// once.
    pub fn give(&self, item: T) -> Result<(), T> {
        // SAFETY: the state is not `GIVEN`, so the waiting thread does not look, and this is the
        // only call.
        unsafe { *self.item.get() = Some(item) };
        // Release: pairs with the acquire in `take`, for the item. Relaxed on
        // failure: the thread that has given up has left nothing here.
        match self.state.compare_exchange(NOT_YET, GIVEN, Release, Relaxed) {
            Ok(_) => Ok(()),
            // SAFETY: the waiting thread has given up and does not look any more.
            Err(_) => Err(unsafe { (*self.item.get()).take() }.expect("the item was left above")),
        }
    }

    /// Takes the item, if it has come. Called by the thread that waits.
    pub fn take(&self) -> Option<T> {
        // Acquire: pairs with the release in `give`.
        // SAFETY: the state is `GIVEN`, so the giving thread does not look any more.
        (self.state.load(Acquire) == GIVEN).then(|| unsafe { (*self.item.get()).take() }).flatten()
    }

    /// Wants the item no more, or takes it if it has come. Called by the thread that waits.
    pub fn give_up(&self) -> Option<T> {
        // Relaxed: the thread that gives learns nothing but that it is too late, and what has come
        // `take` acquires.
        match self.state.compare_exchange(NOT_YET, GIVEN_UP, Relaxed, Relaxed) {
            Ok(_) => None,
            Err(_) => self.take(),
        }
    }
}
