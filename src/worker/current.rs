//! The calling thread's entry in a group: the private queue of a worker or helper that is running
//! operations. Used by `worker/run_loop.rs`, which makes it for a worker, by `worker/help.rs`,
//! which makes it for a helper, by `worker/idle.rs`, by `worker/group.rs` (`Group::submit`), and by
//! `engine/replay/mod.rs` and `engine/replay/guided.rs`, which say that a turn is over. No other
//! thread touches it: what others see is in `remote.rs` for a worker, and in `helper_place.rs` for
//! a helper.
//!
//! An operation that becomes ready on such a thread goes straight into this queue: no atomic, no
//! other core. The exception is one that becomes ready in the middle of another operation. The
//! running operation may be a long one, and other threads could not see the ready one in the
//! private queue.

use crate::operation::block::Block;
use crate::sync::thread_local;
use crate::worker::local_queue::Queue;
use std::cell::{Cell, RefCell};
use std::ptr::null;

/// A thread that runs operations of a group, seen from that thread itself.
pub struct CurrentWorker {
    /// The address of the group, only to compare with.
    group: *const (),
    pub queue: RefCell<Queue>,
    /// The number of the worker; `None` for a helper.
    worker: Option<usize>,
    /// How many operations the thread is inside of while it runs none from this queue.
    depth: u32,
    /// Whether the worker takes something out of its logs before it goes on with its queue.
    pub turn_is_over: Cell<bool>,
}

/// Where [`CurrentWorker::keep`] has left an operation that has become ready.
pub enum Left {
    /// In the thread's own queue.
    InQueue,
    /// Nowhere yet: the caller has to put it into the inbox of this worker, which is the calling
    /// thread.
    ToInbox(usize),
    /// Nowhere: the thread runs no operations of the group, or is a helper inside of an operation.
    Nowhere,
}

thread_local! {
    static CURRENT: Cell<*const CurrentWorker> = const { Cell::new(null()) };
    /// The empty queue that this thread used last as a worker or helper, with its allocations up to
    /// a limit. Helpers come and go, and would allocate each time.
    static SPARE_QUEUE: Cell<Option<Queue>> = const { Cell::new(None) };
}

impl CurrentWorker {
    pub fn new(group: *const (), worker: Option<usize>, depth: u32) -> CurrentWorker {
        let spare = SPARE_QUEUE.try_with(Cell::take).ok().flatten();
        let queue = RefCell::new(spare.unwrap_or_else(Queue::roomy));
        CurrentWorker { group, queue, worker, depth, turn_is_over: Cell::new(false) }
    }

    /// Calls `work`, with `self` as the calling thread's `CURRENT` meanwhile.
    pub fn occupy<T>(&self, work: impl FnOnce(&CurrentWorker) -> T) -> T {
        struct Leave(*const CurrentWorker);
        impl Drop for Leave {
            fn drop(&mut self) {
                CURRENT.with(|current| current.set(self.0));
            }
        }
        let _leave = Leave(CURRENT.with(|current| current.replace(self)));
        work(self)
    }

    /// Says that the calling thread, if it is a worker, has run many operations in one go, and has
    /// queued the rest of them. Called by `engine/replay/mod.rs` and `engine/replay/guided.rs`.
    pub fn end_turn() {
        let current = CURRENT.try_with(Cell::get).unwrap_or(null());
        // SAFETY: as in `keep`.
        if let Some(current) = unsafe { current.as_ref() } {
            current.turn_is_over.set(true);
        }
    }

    /// Queues an operation on the calling thread, if that runs operations of `group` and is in the
    /// middle of none. `depth` is how many operations the thread is inside of.
    ///
    /// # Safety
    /// `block` is ready, of this group, and the caller's to give away.
    #[inline]
    pub unsafe fn keep(group: *const (), block: *mut Block, depth: u32) -> Left {
        let current = CURRENT.try_with(Cell::get).unwrap_or(null());
        // SAFETY: the pointer is set only while `occupy` borrows its target, further up on this
        // stack.
        match unsafe { current.as_ref() } {
            Some(current) if current.group == group => {
                if depth > current.depth {
                    return current.worker.map_or(Left::Nowhere, Left::ToInbox);
                }
                // SAFETY: the caller's contract.
                unsafe { current.queue.borrow_mut().push(block) };
                Left::InQueue
            }
            _ => Left::Nowhere,
        }
    }
}

impl Drop for CurrentWorker {
    fn drop(&mut self) {
        let mut queue = std::mem::take(self.queue.get_mut());
        queue.trim();
        let _ = SPARE_QUEUE.try_with(|spare| spare.set(Some(queue)));
    }
}
