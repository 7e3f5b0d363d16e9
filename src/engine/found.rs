//! What a push or an end finds on the variables' chains: operations that have become ready, and blocks that are spent.

use crate::operation::block::*;
use crate::pool::local::Local;
use crate::sync::touch;
use crate::variable::access::{Mode, Node, Sink};
use crate::variable::chain::Chain;
use std::ptr::null_mut;

/// Collects what the protocol finds: ready operations in order, spent blocks into the pool.
pub struct Found<'a> {
    local: &'a Local,
    pub first: *mut Block,
    last: *mut Block,
    /// The worker that has used the variables of the operation last that is being pushed; rather one that it changes.
    pub near: Option<usize>,
}

impl<'a> Found<'a> {
    pub fn new(local: &'a Local) -> Found<'a> {
        Found { local, first: null_mut(), last: null_mut(), near: None }
    }
}

impl Sink for Found<'_> {
    #[inline]
    fn chain(&self, variable: u32) -> *const Chain {
        // SAFETY: every access of this engine names a variable that its push has resolved.
        unsafe { &raw const self.local.memory.table.at(variable).chain }
    }

    #[inline]
    fn follows(&mut self, worker: usize, mode: Mode) {
        if mode != Mode::Read || self.near.is_none() {
            self.near = Some(worker);
        }
    }

    #[inline]
    fn ready(&mut self, node: *mut Node) {
        let block: *mut Block = node.cast();
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

    #[inline(always)]
    fn spent(&mut self, node: *mut Node) {
        // SAFETY: every node of this engine is the start of a block from its pools.
        unsafe { self.local.retire(node.cast()) }
    }
}
