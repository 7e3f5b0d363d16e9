//! The journal of the calling thread: its logs, one for each worker, and what goes into them.

use crate::device::Context;
use crate::operation::block::{Block, FLAG_PROFILED};
use crate::thread::context::ThreadContext;
use crate::tickets::journals::Journal;
use crate::tickets::word::Word;
use crate::worker::group::Group;

/// Whether a linked operation may go into a log, for any worker.
///
/// # Safety
/// The block is an operation's, and held.
pub unsafe fn is_for_any_worker(block: *mut Block) -> bool {
    // SAFETY: held.
    unsafe {
        let property = Block::property(block);
        let any = (*block).flags & !FLAG_PROFILED == 0 && (*block).priority == 0;
        any && Block::context(block) == Context::cpu(0) && property.is_computed() && !property.runs_on_pusher()
    }
}

/// Puts an operation into one of the calling thread's logs.
///
/// # Safety
/// The group has logs; the operation's word says "pushed".
pub unsafe fn log(group: &Group, local: &ThreadContext, operation: Word) {
    // SAFETY: passed on. It may be another thread's, and its uses are not looked at.
    unsafe {
        let journal = journal(group, local);
        group.log(journal, journal.place(std::iter::empty()), operation);
    }
}

/// The calling thread's journal: one thread at a time has the cache.
#[inline]
pub fn journal<'a>(group: &'a Group, local: &'a ThreadContext) -> &'a Journal {
    local.journal(|| group.add_journal())
}
