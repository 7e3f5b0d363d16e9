//! Pulling: how a thread that waits for an operation finds what of that can run now.
//!
//! It takes the operation out of its log, wherever that is, notes the writes that it waits for, and
//! settles it: so it parks. Then it does the same with each of these, the last one noted first,
//! until one is ready, which it runs. What has parked there comes back as from any other end.
//! Nothing is looked at twice, because what was taken is not taken again.
//!
//! What somebody else has taken is left alone: that thread runs it, or has parked it on something
//! that comes earlier in its logs. So are the reads that a write waits for, since nothing leads to
//! them. So this finds some of what is needed, not all; workers find the rest.

use crate::operation::block::Block;
use crate::sync::MODELLED;
use crate::tickets::run::{settle, take, waits_for, Variables};
use crate::tickets::word::Word;
use crate::util::array_vec::ArrayVec;
use std::ptr::null_mut;

/// The most operations that are noted at a time; more are left to others.
const NOTED: usize = if MODELLED { 4 } else { 128 };
/// So many operations at most are parked on the way to one that is ready. Who is further away
/// from it leaves a long row to the worker that comes along it.
const PARKED: u32 = if MODELLED { 4 } else { 256 };
/// As that, and of those that are ready as well, on behalf of an urgent operation: a bound on what
/// a push can take.
const URGED: u32 = 32;

/// The priority of what somebody waits for: when it comes back, it goes before strangers.
const WAITED_FOR: i32 = 1;

/// What is needed of an operation, and still to be looked at.
pub struct Pull {
    noted: ArrayVec<Word, NOTED>,
    /// What is found gets this priority, if its own is less.
    priority: i32,
    /// So many more may be looked at, and so many again behind one that is ready.
    left: u32,
    again: u32,
}

impl Pull {
    /// For a thread that waits for this operation, which was committed and logged.
    pub fn new(wanted: Word) -> Pull {
        let mut noted = ArrayVec::new();
        noted.add(wanted);
        Pull { noted, priority: WAITED_FOR, left: PARKED, again: PARKED }
    }

    /// For an urgent operation: what it waits for is as urgent.
    ///
    /// # Safety
    /// The operation is the caller's.
    pub unsafe fn urge(block: *mut Block, variables: &impl Variables) -> Pull {
        let mut noted = ArrayVec::new();
        // SAFETY: ours.
        unsafe {
            waits_for(block, variables, |write| noted.add(write));
            Pull { noted, priority: (*block).priority, left: URGED, again: 0 }
        }
    }

    /// The next operation that is ready, as a list of one, and the caller's to run; null if there
    /// is none.
    pub fn next(&mut self, variables: &impl Variables) -> *mut Block {
        while self.left > 0 {
            let Some(operation) = self.noted.pop() else { break };
            let Some(block) = take(operation) else { continue };
            // SAFETY: taken, so ours until it is settled.
            unsafe {
                waits_for(block, variables, |write| self.noted.add(write));
                // Who helps with one that is linked may be looking at its priority.
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
