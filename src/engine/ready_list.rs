//! What a push or an end finds: operations that have become ready, and blocks that are spent.

use crate::operation::block::Block;
use crate::sync::touch;
use crate::thread::context::ThreadContext;
use std::ptr::null_mut;

/// Collects ready operations in order, and gives spent blocks to the pool.
pub struct ReadyList<'a> {
    local: &'a ThreadContext,
    /// The first of the ready ones, in a list; null if there are none.
    pub first: *mut Block,
    last: *mut Block,
}

impl<'a> ReadyList<'a> {
    pub fn new(local: &'a ThreadContext) -> ReadyList<'a> {
        ReadyList { local, first: null_mut(), last: null_mut() }
    }

    /// An operation waits for nothing any more: it is to be run, once.
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

    /// No thread will touch the block again, except those that are pinned and were already looking
    /// at it.
    #[inline(always)]
    pub fn spent(&mut self, block: *mut Block) {
        // SAFETY: a block of this engine's pools.
        unsafe { self.local.retire(block) }
    }
}
