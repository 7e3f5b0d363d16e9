//! How a thread finds its context for an engine: a thread-local list, and in `thread/context.rs`
//! the one used last. Used by `engine/core.rs` (`Core::local`), in every call into the engine
//! ([`ThreadContext::of`]), and by `engine/lifecycle.rs`. If the list is gone already,
//! `thread/teardown.rs` has the context. No other thread touches the list.

use crate::pool::memory::Memory;
use crate::sync::thread_local;
use crate::thread::context::ThreadContext;
use crate::thread::teardown;
use std::cell::RefCell;
use std::sync::Arc;

/// This thread's contexts, one for every engine that it has used. Boxed: `LAST` points to them.
#[allow(clippy::vec_box)]
struct Locals(RefCell<Vec<Box<ThreadContext>>>);

thread_local! {
    static LOCALS: Locals = const { Locals(RefCell::new(Vec::new())) };
}

impl ThreadContext {
    /// The calling thread's context for the engine of `memory`. Costs about a nanosecond when the
    /// thread used the same engine last.
    #[inline]
    pub fn of(memory: &Arc<Memory>) -> &ThreadContext {
        let (id, local) = ThreadContext::last();
        if id == memory.id {
            // SAFETY: `find` has set the pointer for this thread. A context is dropped at the end
            // of the thread, or when its engine is gone; the engine's id is then never asked for
            // again.
            return unsafe { &*local };
        }
        ThreadContext::find(memory)
    }

    #[cold]
    fn find(memory: &Arc<Memory>) -> &ThreadContext {
        // Contexts of engines that are gone are dropped here, but only after the list is no longer
        // borrowed: dropping one may call this function again.
        let mut gone = Vec::new();
        let found = LOCALS.try_with(|locals| {
            let mut locals = locals.0.borrow_mut();
            if let Some(known) = locals.iter().find(|local| local.memory.id == memory.id) {
                return &raw const **known;
            }
            let (over, living) = locals.drain(..).partition(|local| local.memory.is_over());
            (gone, *locals) = (over, living);
            locals.push(Box::new(ThreadContext::new(memory)));
            &raw const **locals.last().expect("pushed just now")
        });
        drop(gone);
        // The thread may be ending and its list gone, while one of its destructors still uses the
        // engine. Then the context is kept by `teardown`. `LAST` has no destructor, so it still
        // works.
        let local = found.unwrap_or_else(|_| teardown::find(memory));
        ThreadContext::set_last(memory.id, local);
        // SAFETY: the context is boxed, so it stays where it is; `of` says how long it lives.
        unsafe { &*local }
    }

    /// Drops the calling thread's context in `teardown`, if it has one, for an engine that ends on
    /// this thread while the thread itself ends. Called by `engine/lifecycle.rs`.
    pub fn end_fallback(memory: &Arc<Memory>) {
        if teardown::end(memory) {
            ThreadContext::forget_last();
        }
    }
}

impl Drop for Locals {
    fn drop(&mut self) {
        ThreadContext::forget_last();
    }
}
