//! A seat: the private queue of a thread that is running operations of a group, a worker or a guest.
//!
//! What becomes ready on such a thread goes straight into its seat's queue: no atomic, no other core.

use super::group::Group;
use super::queue::Queue;
use crate::operation::block::Block;
use crate::sync::thread_local;
use std::cell::{Cell, RefCell};
use std::ptr::null;

/// A thread's place in a group.
pub struct Seat {
    group: *const Group,
    pub queue: RefCell<Queue>,
}

thread_local! {
    static SEAT: Cell<*const Seat> = const { Cell::new(null()) };
    /// The empty queue of the last seat, with the room that it has grown to, up to a limit: guests come and go.
    static SPARE: Cell<Option<Queue>> = const { Cell::new(None) };
}

impl Seat {
    pub fn new(group: &Group) -> Seat {
        Seat { group, queue: RefCell::new(SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default()) }
    }

    /// Calls `work` with this seat taken by the calling thread.
    pub fn occupy<T>(&self, work: impl FnOnce(&Seat) -> T) -> T {
        struct Leave(*const Seat);
        impl Drop for Leave {
            fn drop(&mut self) {
                SEAT.with(|seat| seat.set(self.0));
            }
        }
        let _leave = Leave(SEAT.with(|seat| seat.replace(self)));
        work(self)
    }

    /// Queues an operation on the calling thread, if it has a seat in `group`.
    ///
    /// # Safety
    /// `block` is ready, of this group, and ours.
    #[inline]
    pub unsafe fn keep(group: &Group, block: *mut Block) -> bool {
        let seat = SEAT.try_with(Cell::get).unwrap_or(null());
        // SAFETY: the pointer is set only while `occupy` borrows the seat, further up on this stack.
        match unsafe { seat.as_ref() } {
            Some(seat) if std::ptr::eq(seat.group, group) => {
                // SAFETY: passed on.
                unsafe { seat.queue.borrow_mut().push(block) };
                true
            }
            _ => false,
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut queue = std::mem::take(self.queue.get_mut());
        queue.trim();
        let _ = SPARE.try_with(|spare| spare.set(Some(queue)));
    }
}
