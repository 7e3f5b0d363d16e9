//! The handle by which a sleeping thread is woken: no waker uses one that is dropped.

#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom_tests::{explore, spawn};
use seriatim::internals::thread_handle::ThreadHandle;
use std::sync::Arc;

/// Stands for a thread's handle: a waker reads it, and who drops the last reference writes.
struct Handle(UnsafeCell<u32>);

impl Handle {
    fn new() -> Arc<Handle> {
        Arc::new(Handle(UnsafeCell::new(1)))
    }

    fn wake(&self) {
        // SAFETY: loom checks it.
        self.0.with(|value| assert_eq!(unsafe { *value }, 1, "it is dropped"));
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: loom checks it.
        self.0.with_mut(|value| unsafe { *value = 0 });
    }
}

/// Two threads take turns in a place, the first of which ends, while a waker comes late.
#[test]
fn a_late_waker_finds_no_handle_that_is_dropped() {
    explore("thread handle, one late waker", 10, 10, || {
        let place = Arc::new(ThreadHandle::new());
        place.register_as(Handle::new());
        let late = Arc::clone(&place);
        let waker = spawn(move || late.with(|handle: &Handle| handle.wake()));
        place.register_as(Handle::new());
        place.register_as(Handle::new());
        waker.join().unwrap();
    });
}

/// A thread comes back to a place in which another has been, and one waker comes after the other.
#[test]
fn two_late_wakers_find_none_either() {
    explore("thread handle, two late wakers", 3, 10, || {
        let (place, own) = (Arc::new(ThreadHandle::new()), Handle::new());
        place.register_as(Arc::clone(&own));
        let wakers = [(); 2].map(|()| {
            let late = Arc::clone(&place);
            spawn(move || late.with(|handle: &Handle| handle.wake()))
        });
        place.register_as(Handle::new());
        place.register_as(own);
        place.register_as(Handle::new());
        wakers.map(|waker| waker.join().unwrap());
    });
}
