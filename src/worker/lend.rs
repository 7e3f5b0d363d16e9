//! Lending: before a thread runs an operation, it shows the other ones that it has ready to the
//! other threads. Used by workers (`run_loop.rs`) and helpers (`help.rs`), each for its own queue.
//! There are only functions here: the state is in `stealable.rs`.

use crate::sync::Ordering::Relaxed;
use crate::worker::group::Group;
use crate::worker::local_queue::Queue;
use crate::worker::stealable::Stealable;

impl Group {
    /// Whether a worker lends what is in its queue, before it runs an operation: even if no thread
    /// looks for work yet, since the operation may be a long one.
    #[inline]
    pub(super) fn lends(&self, queue: &Queue) -> bool {
        !queue.is_empty() && (self.workers.len() > 1 || self.idle.load(Relaxed) > 0)
    }

    /// Like [`Group::lend_all`], but behind an operation that came out of a log: with what was lent
    /// before that and is left, in one row.
    #[cold]
    #[inline(never)]
    pub(super) fn lend_more(&self, queue: &mut Queue, stealable: &Stealable) {
        queue.take_back(stealable);
        self.lend_all(queue, stealable);
    }

    /// Lends all that is in the queue, and calls a thread that looks or sleeps.
    pub(super) fn lend_all(&self, queue: &mut Queue, stealable: &Stealable) {
        queue.lend(stealable);
        // Always: what `idle` says may be out of date.
        self.call_one();
    }
}
