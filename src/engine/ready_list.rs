//! The list of operations that a push or an end has made ready, in the order in which it found
//! them. Spent blocks go to the pool at once.
//!
//! Used by pushes (`push/enlist.rs`, `push/acquire.rs`, `push/logged.rs`, `inline/fast_path.rs`,
//! `ticket_host.rs`) and by ends (`complete.rs`, `execute.rs`, `holds.rs`). A list belongs to the
//! thread that makes it. `Core::hand_out` (`complete.rs`) submits the operations from `first` on.
//! That order is not the order of running: a worker sorts its queue again by priority, then by
//! sequence number (`worker/local_queue.rs`).

use crate::operation::block::Block;
use crate::sync::touch;
use crate::thread::context::ThreadContext;
use std::ptr::null_mut;

/// Collects ready operations in the order of the calls, and gives spent blocks to the pool.
pub struct ReadyList<'a> {
    local: &'a ThreadContext,
    /// The first ready operation, which leads to the others by `link`; null if there are none.
    pub first: *mut Block,
    last: *mut Block,
}

impl<'a> ReadyList<'a> {
    pub fn new(local: &'a ThreadContext) -> ReadyList<'a> {
        ReadyList { local, first: null_mut(), last: null_mut() }
    }

    /// Adds an operation that waits for nothing any more, behind the others. It is to be run, once.
    #[inline]
    pub fn ready(&mut self, block: *mut Block) {
        // SAFETY: a ready operation is ours, and in no other list.
        unsafe {
            touch(&raw const (*block).link, 8, true);
            (*block).link = null_mut();
            if self.last.is_null() {
                self.first = block;
            } else {
                (*self.last).link = block;
            }
        }
        self.last = block;
    }

    /// Retires a block. No thread will touch it again, except threads that are pinned and were
    /// already looking at it.
    #[inline(always)]
    pub fn spent(&mut self, block: *mut Block) {
        // SAFETY: a block of this engine's pools.
        unsafe { self.local.retire(block) }
    }
}
