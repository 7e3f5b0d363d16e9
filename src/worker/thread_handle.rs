//! The handle of the thread that sleeps in a helper's place, by which any other thread unparks it.
//!
//! Each place has one (`helper_place.rs`). A helper parks, since also the end of what it waits for
//! wakes it (`engine/wait/`); workers and watchers sleep otherwise (`wake_word.rs`). The thread
//! registers before it sleeps. Wakers are those that have exchanged the state in the place's inbox.
//! A waker waits for nobody. A handle is dropped only when no waker can still use it.

use crate::sync::lock::Lock;
use crate::sync::thread::{self, Thread};
#[cfg(all(unix, not(any(loom, shuttle))))]
use crate::sync::MutexGuard;
use crate::sync::{fence, thread_local, AtomicPtr, AtomicUsize, Ordering::*, MODELLED};
use crate::util::spin::note_wake;
use std::cell::OnceCell;
use std::ptr::null_mut;
use std::sync::Arc;

thread_local! {
    /// The thread's own handle, which all the places in which it sleeps share.
    static OWN: OnceCell<Arc<Thread>> = const { OnceCell::new() };
}

/// The handle; in models another value, which is used and dropped as one.
pub struct ThreadHandle<T = Thread> {
    /// Null, or one of `kept`.
    last: AtomicPtr<T>,
    /// What `last` points to, and earlier ones that a late waker could still use.
    kept: Lock<Vec<Arc<T>>>,
    /// The number of wakers that may have read `last` and not used it yet.
    waking: AtomicUsize,
}

impl ThreadHandle {
    /// From now on the calling thread is woken. It calls this before it can sleep here. One thread
    /// at a time does so, and sees what the threads before it have done.
    pub fn register(&self) {
        self.register_as(own());
    }

    /// Unparks the thread, if one has ever registered. Called by any thread, which waits for no
    /// other.
    #[cold]
    pub fn unpark(&self) {
        self.with(|thread| {
            thread.unpark();
            note_wake();
        });
    }
}

impl<T> ThreadHandle<T> {
    pub fn new() -> ThreadHandle<T> {
        ThreadHandle { last: AtomicPtr::new(null_mut()), kept: Lock::default(), waking: AtomicUsize::new(0) }
    }

    /// What `register` does, with this handle.
    pub fn register_as(&self, own: Arc<T>) {
        // Relaxed: by the contract no other thread stores meanwhile.
        if self.last.load(Relaxed).cast_const() == Arc::as_ptr(&own) {
            return;
        }
        let mut kept = self.kept.lock();
        // Release: pairs with the acquire in `with`, so that the waker finds the handle written.
        self.last.store(Arc::as_ptr(&own).cast_mut(), Release);
        // Store buffering; the other fence is in `with`. Either this thread sees the waker counted,
        // or the waker sees this thread's handle.
        fence(SeqCst);
        // Acquire: pairs with the release in `with`, so that wakers that are not counted any more
        // have done with the earlier handles.
        if self.waking.load(Acquire) == 0 {
            kept.clear();
        }
        // Threads that take turns while a waker has lost its core come by their old handles again.
        if !kept.iter().any(|handle| Arc::ptr_eq(handle, &own)) {
            kept.push(own);
        }
    }

    /// Calls `wake` with the handle, if there is one.
    pub fn with(&self, wake: impl FnOnce(&T)) {
        self.waking.fetch_add(1, Relaxed);
        // Store buffering; the other fence is in `register_as`.
        fence(SeqCst);
        // SAFETY: `register_as` drops a handle only after it has stored another one and then seen
        // no waker counted. So the handle that is read here stays until this thread is not counted
        // any more.
        if let Some(last) = unsafe { self.last.load(Acquire).as_ref() } {
            wake(last);
        }
        // Release: pairs with the acquire in `register_as`, so that the handle is used before it
        // can be dropped.
        self.waking.fetch_sub(1, Release);
    }

    /// For the child of a `fork`, in which no thread is in `unpark`.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn forget_wakers(&self) {
        self.waking.store(0, Relaxed);
    }

    /// The lock, for `engine/fork.rs`: held across a fork.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn lock(&self) -> MutexGuard<'_, Vec<Arc<T>>> {
        self.kept.lock()
    }
}

/// The calling thread's handle. A new one if the thread is about to end, and in models, which must
/// not see in what order Loom drops thread-locals.
fn own() -> Arc<Thread> {
    let new = || Arc::new(thread::current());
    let kept = if MODELLED { None } else { OWN.try_with(|own| Arc::clone(own.get_or_init(new))).ok() };
    kept.unwrap_or_else(new)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// A waker that has read the handle may then lose its core, and meanwhile the group may be
    /// stopped and started again.
    #[test]
    fn a_handle_stays_while_a_waker_may_still_use_it() {
        let handle = <ThreadHandle>::new();
        let restart = || std::thread::scope(|scope| scope.spawn(|| handle.register()).join().unwrap());
        restart();
        handle.waking.store(1, Relaxed);
        let read = handle.last.load(Acquire).cast_const();
        restart();
        restart();
        assert!(handle.kept.lock().iter().any(|kept| Arc::as_ptr(kept) == read), "it is freed under the waker");
        handle.waking.store(0, Relaxed);
        restart();
        assert_eq!(handle.kept.lock().len(), 1, "and goes when the waker has");
    }

    /// A place of helpers is left and taken again and again.
    #[test]
    fn handles_of_threads_that_take_turns_beside_a_waker_do_not_add_up() {
        let handle = <ThreadHandle>::new();
        handle.waking.store(1, Relaxed);
        let barrier = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for own in 0..2 {
                let (handle, barrier) = (&handle, &barrier);
                scope.spawn(move || {
                    for turn in 0..100 {
                        if turn % 2 == own {
                            handle.register();
                        }
                        barrier.wait();
                    }
                });
            }
        });
        assert_eq!(handle.kept.lock().len(), 2);
    }

    /// The waker may be a thread that ends an operation, and the other one may have lost its core.
    #[test]
    fn a_waker_does_not_wait_for_a_thread_that_registers() {
        let handle = <ThreadHandle>::new();
        handle.register();
        let held = handle.kept.lock();
        handle.unpark();
        drop(held);
        // The token is there.
        std::thread::park();
    }
}
