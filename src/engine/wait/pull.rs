//! A thread that waits runs what it waits for before it does anything else: the last write of a
//! variable, or what it has pushed last, and what that comes after.

use crate::engine::core::Core;
use crate::engine::resolve::resolve;
use crate::thread::context::ThreadContext;
use crate::tickets::word::Word;
use crate::variable::handle::Variable;
use std::sync::Arc;

/// Runs what the writes of a variable wait for that were pushed, as far as it can be found: see
/// [`Pull`](crate::tickets::pull::Pull). Returns when the last of them has ended, or when nothing
/// more is found.
pub fn pull(core: &Arc<Core>, variable: Variable) {
    let local = core.local();
    let Some(workers) = core.workers.as_ref() else { return };
    let Some(write) = last_write(core, local, variable) else { return };
    workers.run_awaited(core, write, &core.memory.table);
    core.settle(local);
}

/// As [`pull`], for the operation that the calling thread has pushed last, if that was since its
/// last call and with a variable of its own: for a thread that waits for everything.
pub fn pull_last(core: &Arc<Core>) {
    let local = core.local();
    let Some(workers) = core.workers.as_ref() else { return };
    if let Some(last) = local.pusher().pushed_since() {
        workers.run_awaited(core, last, &core.memory.table);
        core.settle(local);
    }
}

/// The last write of a variable whose push is over, as far as is known.
fn last_write(core: &Core, local: &ThreadContext, variable: Variable) -> Option<Word> {
    let found = local.pusher().last_write(variable.index, variable.generation).or_else(|| {
        let _pin = local.pin();
        let owner = resolve(core, variable).ok()?.owner();
        match core.memory.table.common(variable.index).filter(|common| common.is_open()) {
            // SAFETY: pinned, and common.
            Some(common) => unsafe { common.last_write() },
            None => owner.last_finished(variable.index, |pusher| core.memory.records.get(pusher)),
        }
    });
    found.filter(|write| *write != Word::NONE)
}
