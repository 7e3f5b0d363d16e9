//! The journal of the pusher: its logs, one for each worker, and which operations go into them.
//!
//! Used by `push/logged.rs`, and for enlisted operations by `engine/ticket_host.rs` (`logged`). No
//! state here: the journal hangs on the pusher's thread cache, and only the pusher appends.
//! Workers, thieves and waiting threads take operations out of the logs (`tickets/journals.rs`,
//! `tickets/log.rs`).

use crate::device::Context;
use crate::operation::block::{Block, FLAG_PHASED, FLAG_PROFILED};
use crate::thread::context::ThreadContext;
use crate::tickets::journals::Journal;
use crate::tickets::word::Word;
use crate::worker::group::Group;

/// Whether any worker may run an enlisted operation, so that it may go into a log.
///
/// `push` and `class_of` in `push/logged.rs` begin with the same rule (`is_plain`), for a request
/// instead of a block: no flags, priority 0, context CPU 0, and a property of the ordinary workers.
/// There the rule is narrower: it excludes profiled operations and `GpuPrioritized` as well.
/// `Destinations::logged` in `engine/ticket_host.rs` leaves out asynchronous operations of this
/// kind that may start in their push.
///
/// # Safety
/// The block is an operation's, and stays so during the call.
pub unsafe fn is_for_any_worker(block: *mut Block) -> bool {
    // SAFETY: the block stays an operation's, by the contract.
    unsafe {
        let property = Block::property(block);
        let any = (*block).flags & !(FLAG_PROFILED | FLAG_PHASED) == 0 && (*block).priority == 0;
        any && Block::context(block) == Context::cpu(0) && property.is_computed() && !property.runs_on_pusher()
    }
}

/// Puts an operation into one of the calling thread's logs.
///
/// # Safety
/// The group has logs; the stage of the operation's word is `PUSHED`.
pub unsafe fn log(group: &Group, local: &ThreadContext, operation: Word) {
    // SAFETY: the contract is passed on. The operation may be another thread's, so the place is
    // chosen without a look at its accesses.
    unsafe {
        let journal = journal(group, local);
        group.log(journal, journal.place(&[]), operation);
    }
}

/// The calling thread's journal. One thread at a time has the thread cache, so it is not shared.
#[inline]
pub fn journal<'a>(group: &'a Group, local: &'a ThreadContext) -> &'a Journal {
    local.journal(|| group.add_journal())
}
