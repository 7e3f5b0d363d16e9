//! Finds an operation that comes right behind a running one on all of its variables. Called by
//! `src/engine/replay/ahead.rs`, for the next replay of a graph.
//!
//! An operation that lacks a write is parked on that write, and stays there until the write has
//! ended. So the thread that runs the write, and does not end it meanwhile, may look at all that
//! has parked there: nobody takes it away, and only new operations come.

use crate::operation::access::{Mode, Ticket};
use crate::operation::block::Block;
use crate::sync::Ordering::*;
use crate::tickets::word::Word;

/// At most so many parked operations are looked at.
const LOOKED_AT: u32 = 8;

/// The operation that uses the same variables in the same way as the one in `block`, and of which
/// every ticket waits for that one or has come. `None` if no such operation is found, or if it is
/// not `wanted`.
///
/// Nothing that was pushed between the two is in conflict with the second one. So when the first
/// one has used a variable for the last time, the second one may use it.
///
/// # Safety
/// All tickets of the operation in `block` have come, and it does not end during the call, of which
/// all that was done with it happened before.
pub unsafe fn behind(block: *mut Block, wanted: impl Fn(*mut Block) -> bool) -> Option<*mut Block> {
    // SAFETY: the operation does not end. So what has parked on it stays there, and no thread
    // changes it.
    unsafe {
        // Acquire: pairs with the exchange in `park_behind`, for what has parked.
        let mut parked = Word((*Block::word(block)).load(Acquire)).block();
        for _ in 0..LOOKED_AT {
            if parked.is_null() {
                return None;
            }
            if wanted(parked) && follows(parked, block) {
                return Some(parked);
            }
            parked = (*parked).link;
        }
        None
    }
}

/// Whether each ticket of `next` has come when `block` has ended, which comes before it.
unsafe fn follows(next: *mut Block, block: *mut Block) -> bool {
    // SAFETY: by the contract of `behind`, and neither operation's accesses change any more. The
    // tickets were stored before the operations were parked and taken.
    unsafe {
        if (*next).count != (*block).count || Block::is_voided(next) || Block::is_voided(block) {
            return false;
        }
        (0..(*block).count).all(|index| {
            let [own, theirs] = [next, block].map(|block| &*Block::access(block, index));
            let [ticket, before] = [own, theirs].map(|access| Ticket::of(access.ticket.load(Relaxed)));
            own.variable == theirs.variable
                && own.mode() == theirs.mode()
                && match own.mode() {
                    Mode::Read => ticket.writes == before.writes,
                    // Reads in between would have added to the reads.
                    Mode::Write => ticket.writes == before.writes.wrapping_add(1) && ticket.reads == before.reads,
                    Mode::Delete => false,
                }
        })
    }
}
