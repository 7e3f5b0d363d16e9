//! How a thread finds its context for an engine.

use crate::pool::memory::Memory;
use crate::sync::thread_local;
use crate::thread::context::ThreadContext;
use crate::thread::teardown;
use std::cell::RefCell;
use std::sync::Arc;

/// This thread's state for every engine that it has used. Boxed: `LAST` points to them.
#[allow(clippy::vec_box)]
struct Locals(RefCell<Vec<Box<ThreadContext>>>);

thread_local! {
    static LOCALS: Locals = const { Locals(RefCell::new(Vec::new())) };
}

impl ThreadContext {
    /// The calling thread's state for the engine of `memory`. Costs about a nanosecond when the
    /// thread used the same engine last.
    #[inline]
    pub fn of(memory: &Arc<Memory>) -> &ThreadContext {
        let (id, local) = ThreadContext::last();
        if id == memory.id {
            // SAFETY: set by `find` for this thread; entries are dropped at the end of the thread,
            // or when their engine is gone, and then its id is never asked for again.
            return unsafe { &*local };
        }
        ThreadContext::find(memory)
    }

    #[cold]
    fn find(memory: &Arc<Memory>) -> &ThreadContext {
        // Engines that are gone: a good moment to forget them. Dropped when the list is free again,
        // should that come back here.
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
        // The thread may be ending and its states gone, while one of its destructors still uses the
        // engine: that gets a state that is kept elsewhere. `LAST` has no destructor.
        let local = found.unwrap_or_else(|_| teardown::find(memory));
        ThreadContext::set_last(memory.id, local);
        // SAFETY: boxed, so it stays where it is; see `of` for its life.
        unsafe { &*local }
    }

    /// Takes down the calling thread's state for an engine that ends while the thread does.
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
