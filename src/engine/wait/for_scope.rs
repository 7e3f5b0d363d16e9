//! Waiting for the operations of a scope that is outside of operations.
//!
//! Used by `engine/scope/open.rs`, on the thread that has opened the scope. The thread may run what
//! it has pushed last, and then any ready operations, as in `for_outcome.rs`. The end of the last
//! child unparks it. No state here.

use crate::engine::core::Core;
use crate::engine::nesting::may_help;
use crate::engine::push::admission::cut_off;
use crate::engine::scope::state::ScopeState;
use crate::engine::wait::pull::pull_last;
use crate::error::Error;
use crate::sync::thread;
use crate::util::spin::Spin;
use std::sync::Arc;
use std::time::Duration;

/// How long the thread looks before it parks, and how long of that it does not yield its core.
const CALLER_SPINS: Duration = Duration::from_micros(300);
const CALLER_SPINS_AWAKE: Duration = Duration::from_micros(20);

/// Waits until no child is left.
pub fn for_scope(core: &Arc<Core>, state: &ScopeState) -> Result<(), Error> {
    let is_over = || state.is_over() || core.is_cut_off();
    if state.is_over() {
        return Ok(());
    }
    core.dispatch.before_waiting(core);
    let helps = core.settings.waiters_help && may_help();
    if helps && !core.is_cut_off() {
        pull_last(core);
    }
    if !is_over() && state.falls_asleep() {
        if helps {
            core.dispatch.serve(core, &mut || !is_over(), &mut || is_over());
            core.flush(core.local());
        }
        let mut spin = Spin::new(CALLER_SPINS_AWAKE, CALLER_SPINS);
        while !is_over() {
            if !spin.pause() {
                thread::park();
            }
        }
        core.make_way();
    }
    // In the child of a fork by one of these operations the others never end.
    if state.is_over() {
        Ok(())
    } else {
        Err(cut_off())
    }
}
