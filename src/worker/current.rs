//! The private queue of a thread that is running operations of a group, a worker or a helper.
//!
//! What becomes ready on such a thread goes straight into this queue: no atomic, no other
//! core. But not what becomes ready in the middle of an operation, which may be a long one: others
//! could not see it there.

use crate::operation::block::Block;
use crate::sync::thread_local;
use crate::worker::local_queue::Queue;
use std::cell::{Cell, RefCell};
use std::ptr::null;

/// A thread's place in a group.
pub struct CurrentWorker {
    /// The address of the group: it is not looked into.
    group: *const (),
    pub queue: RefCell<Queue>,
    /// Which worker it is that sits here, if it is one.
    worker: Option<usize>,
    /// How many operations the thread is inside of when it runs none of this queue's.
    depth: u32,
}

/// Where a thread leaves an operation that has become ready.
pub enum Left {
    /// In its own queue.
    InQueue,
    /// It is to go into the inbox of this worker, which is the thread's own.
    ToInbox(usize),
    /// The thread has no place for it.
    Nowhere,
}

thread_local! {
    static CURRENT: Cell<*const CurrentWorker> = const { Cell::new(null()) };
    /// The empty queue of the last such thread, with the room that it has grown to, up to a limit:
    /// helpers come and go.
    static SPARE: Cell<Option<Queue>> = const { Cell::new(None) };
}

impl CurrentWorker {
    pub fn new(group: *const (), worker: Option<usize>, depth: u32) -> CurrentWorker {
        let spare = SPARE.try_with(Cell::take).ok().flatten();
        CurrentWorker { group, queue: RefCell::new(spare.unwrap_or_default()), worker, depth }
    }

    /// Calls `work` with this as the calling thread's.
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

    /// Queues an operation on the calling thread, if it runs operations of `group` and is in the
    /// middle of none of its operations; `depth` is how many operations the thread is inside of.
    ///
    /// # Safety
    /// `block` is ready, of this group, and ours.
    #[inline]
    pub unsafe fn keep(group: *const (), block: *mut Block, depth: u32) -> Left {
        let current = CURRENT.try_with(Cell::get).unwrap_or(null());
        // SAFETY: the pointer is set only while `occupy` borrows it, further up on this
        // stack.
        match unsafe { current.as_ref() } {
            Some(current) if current.group == group => {
                if depth > current.depth {
                    return current.worker.map_or(Left::Nowhere, Left::ToInbox);
                }
                // SAFETY: passed on.
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
        let _ = SPARE.try_with(|spare| spare.set(Some(queue)));
    }
}
