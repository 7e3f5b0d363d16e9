//! Pulling: a thread that waits for an operation searches what the operation waits for, and finds
//! an operation that can run now. Used by `src/worker/help.rs` for a wait, and by
//! `src/engine/ticket_host.rs` for an urgent push. A [`Pull`] is that thread's own.
//!
//! The thread takes the operation out of its log, wherever it lies there, notes the writes that it
//! waits for, and settles it: so it parks. Then the thread does the same with each of these writes,
//! the last one noted first, until one is ready, which it runs. The operations that have parked
//! there come back as from any other end. Nothing is looked at twice, because a taken operation is
//! not taken again.
//!
//! An operation that another thread has taken is left alone: that thread runs it, or has parked it
//! on one that comes earlier in its logs. So are the reads that a write waits for, since nothing
//! leads to them. So a pull finds some of what is needed, not all; workers find the rest.

use crate::operation::block::Block;
use crate::sync::MODELLED;
use crate::tickets::run::{settle, take, waits_for, Variables};
use crate::tickets::word::Word;
use crate::util::array_vec::ArrayVec;
use std::ptr::null_mut;

/// The most operations that are noted at a time; further ones are left to others.
const NOTED: usize = if MODELLED { 4 } else { 128 };
/// At most so many operations are parked on the way to one that is ready. If more lie before it,
/// the thread leaves that long row to the worker that runs along it.
const PARKED: u32 = if MODELLED { 4 } else { 256 };
/// Like [`PARKED`], but on behalf of an urgent operation, and counting operations that are ready as
/// well: a bound on what a push can take.
const URGED: u32 = 32;

/// The priority of an operation that a thread waits for: when it comes back, it goes before
/// unrelated ones.
const WAITED_FOR: i32 = 1;

/// A search for what an operation needs: the operations still to be looked at.
pub struct Pull {
    noted: ArrayVec<Word, NOTED>,
    /// An operation that is found gets this priority, if its own is lower.
    priority: i32,
    /// So many more operations may be looked at; and so many again after one that is ready.
    left: u32,
    again: u32,
}

impl Pull {
    /// A search for a thread that waits for this operation, which was committed and logged.
    pub fn new(wanted: Word) -> Pull {
        let mut noted = ArrayVec::new();
        noted.add(wanted);
        Pull { noted, priority: WAITED_FOR, left: PARKED, again: PARKED }
    }

    /// A search for an urgent operation: what it waits for is as urgent.
    ///
    /// # Safety
    /// The operation is the caller's.
    pub unsafe fn urge(block: *mut Block, variables: &impl Variables) -> Pull {
        let mut noted = ArrayVec::new();
        // SAFETY: the operation is the caller's.
        unsafe {
            waits_for(block, variables, |write| noted.add(write));
            Pull { noted, priority: (*block).priority, left: URGED, again: 0 }
        }
    }

    /// The next operation that is ready, as a list of one block, for the caller to run; null if
    /// there is none.
    pub fn next(&mut self, variables: &impl Variables) -> *mut Block {
        while self.left > 0 {
            let Some(operation) = self.noted.pop() else { break };
            let Some(block) = take(operation) else { continue };
            // SAFETY: taken, so this thread's until it is settled.
            unsafe {
                waits_for(block, variables, |write| self.noted.add(write));
                // A helper of a linked operation may be reading its priority.
                if self.priority > (*block).priority && !Block::is_linked(block) {
                    (*block).priority = self.priority;
                }
                let ready = settle(block, variables);
                self.left -= 1;
                if ready {
                    self.left = self.left.max(self.again);
                    (*block).link = null_mut();
                    return block;
                }
            }
        }
        null_mut()
    }
}
