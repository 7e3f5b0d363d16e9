//! Pulling for a waiting thread: before it does anything else it runs the operation that it waits
//! for, and the predecessors of that operation. The operation is the last write of a variable, or
//! what the thread has pushed last.
//!
//! Used by `wait/for_var.rs` ([`pull`]), `wait/for_all.rs`, `wait/for_outcome.rs` and
//! `wait/for_scope.rs` ([`pull_last`]), on the thread that waits. How the predecessors are found is
//! in `tickets/pull.rs`. No state here.

use crate::engine::core::Core;
use crate::engine::resolve::resolve;
use crate::thread::context::ThreadContext;
use crate::tickets::word::Word;
use crate::variable::handle::Variable;
use std::sync::Arc;

/// Runs the last write of a variable and its predecessors, as far as they can be found: see
/// [`Pull`](crate::tickets::pull::Pull). Returns when that write has ended, or when no more
/// predecessors are found.
pub fn pull(core: &Arc<Core>, variable: Variable) {
    let local = core.local();
    let Some(workers) = core.workers.as_ref() else { return };
    let Some(write) = last_write(core, local, variable) else { return };
    workers.run_awaited(core, write, &core.memory.table);
    core.flush(local);
}

/// Like [`pull`], but for the operation that the calling thread has pushed last, if that used a
/// variable of its own and was after its last call of this.
pub fn pull_last(core: &Arc<Core>) {
    let local = core.local();
    let Some(workers) = core.workers.as_ref() else { return };
    if let Some(last) = local.pusher().pushed_since() {
        workers.run_awaited(core, last, &core.memory.table);
        core.flush(local);
    }
}

/// The last write of a variable that was committed, as far as the calling thread can know.
fn last_write(core: &Core, local: &ThreadContext, variable: Variable) -> Option<Word> {
    let found = local.pusher().last_write(variable.index, variable.generation).or_else(|| {
        let _pin = local.pin();
        let owner = resolve(core, variable).ok()?.owner();
        match core.memory.table.common(variable.index).filter(|common| common.is_open()) {
            // SAFETY: the thread is pinned and holds nothing, and the variable is common.
            Some(common) => unsafe { common.last_write(&local.cache().hazards) },
            None => owner.last_finished(variable.index, |pusher| core.memory.records.get(pusher)),
        }
    });
    found.filter(|write| *write != Word::NONE)
}
