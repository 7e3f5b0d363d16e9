//! Admission of a push: whether the engine runs, and whether threads are there for the operation.
//!
//! Used by `push/enlist.rs`, on the pusher, and by `push/mod.rs`. `push/logged.rs` and
//! `inline/fast_path.rs` do not come here: they test the engine's flags themselves, and refuse the
//! operation if any but `FAILED` is set, so that it is enlisted. The errors are also used by
//! `api/`, `engine/lifecycle.rs`, `engine/scope/`, `engine/wait/` and `engine/future/`.
//! `api/prepare.rs` asks here before it starts workers. No state here: `engine/lifecycle.rs` and
//! `engine/fork.rs` set the flags.

#![forbid(unsafe_code)]

use crate::engine::core::Core;
use crate::engine::gpu;
use crate::engine::holds::check_commuting;
use crate::engine::nesting::{is_kept_outside, may_help};
use crate::engine::request::{Claim, Request};
use crate::engine::state::StateSnapshot;
use crate::error::{Error, ErrorKind};
use crate::operation::block::{
    FLAG_COPIES, FLAG_GPU, FLAG_GRAPH, FLAG_PHASED, FLAG_PRIORITISED, FLAG_UNLOOKED, FLAG_WAIT,
};
use crate::operation::property::Property;
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use std::sync::Arc;

/// Makes sure that the workers for an operation are there, and those for the parts of a graph, and
/// that it commutes only where it can.
#[inline]
pub fn admit(core: &Arc<Core>, request: &Request, claims: &[Claim]) -> Result<(), Error> {
    if request.flags & (FLAG_WAIT | FLAG_GPU) != 0 {
        return if request.flags & FLAG_GPU != 0 { gpu::admit::admit(core, request.context) } else { Ok(()) };
    }
    core.dispatch.admit(core, request.property, request.context)?;
    if request.flags & (FLAG_COPIES | FLAG_PRIORITISED | FLAG_UNLOOKED | FLAG_PHASED) != 0 {
        admit_special(core, request, claims)?;
    }
    Ok(())
}

/// Makes sure that the workers for the parts of a graph are there; or refuses an operation that is
/// to commute where it cannot. Called under the pin of the
/// push, like [`admit`]: a stop waits until the pin is gone before it ends the threads.
#[cold]
fn admit_special(core: &Arc<Core>, request: &Request, claims: &[Claim]) -> Result<(), Error> {
    if request.flags & FLAG_PHASED != 0 {
        return check_commuting(core, request, claims);
    }
    let parts = [(FLAG_COPIES, Property::CopyFromGpu), (FLAG_PRIORITISED, Property::CpuPrioritized)];
    let mut needed = parts.iter().filter(|(note, _)| request.flags & note != 0);
    needed.try_for_each(|(_, property)| core.dispatch.admit(core, *property, request.context))?;
    let uses_devices = request.flags & FLAG_GRAPH != 0 && request.flags & FLAG_UNLOOKED != 0;
    if uses_devices {
        gpu::admit::admit_used(core)
    } else {
        Ok(())
    }
}

/// Returns the state of the engine if it takes this push, else the error.
#[inline]
pub fn refuse_if_stopped(core: &Core, local: &ThreadContext, request: &Request) -> Result<StateSnapshot, Error> {
    let state = core.state.load(Relaxed);
    if state.is_stopped() {
        check_stopped(local, request, state)?;
    }
    Ok(state)
}

#[cold]
fn check_stopped(local: &ThreadContext, request: &Request, state: StateSnapshot) -> Result<(), Error> {
    // Also inside an operation that has forked.
    if state.is_abandoned() {
        return Err(cut_off());
    }
    // Operations that still run while the engine drains may push what they need, and waits are part
    // of draining. But a wait that a thread is in when the process forks would be in flight for
    // ever in the child. Inside an operation, of any engine, a wait is safe: the fork waits for the
    // operation. Not once the engine is sealed: it may be one that the fork does not wait for.
    let inside = !may_help() && !state.is_sealed();
    let may_wait = !state.is_forking() || inside;
    if local.depth.get() > 0 || request.flags & FLAG_WAIT != 0 && may_wait || state.is_yielding() && inside {
        return Ok(());
    }
    Err(stopped())
}

#[cold]
pub fn stopped() -> Error {
    Error::new(ErrorKind::Stopped, "the engine is stopped: call start() before pushing")
}

/// Whether an engine that has just refused a push is stopped only while another thread forks, or
/// runs again by now. Not so is one that the program has stopped, also while a thread forks. And
/// to a thread of an engine outside of operations a fork is not over soon: the fork waits for its
/// end.
#[cold]
pub fn is_over_soon(core: &Core) -> bool {
    let state = core.state.load(Acquire);
    !state.is_stopped() || state.is_yielding() && !is_kept_outside(core)
}

/// Whether a wait whose push was refused tries again. A wait is refused only while another thread
/// forks, and in a child in which the engine is cut off.
#[cold]
pub fn may_wait_again(core: &Core, refusal: &Error) -> bool {
    refusal.kind() == ErrorKind::Stopped && !core.is_cut_off() && !is_kept_outside(core)
}

/// The error of an engine in the child of a `fork` that could not stop the engine before.
#[cold]
pub fn cut_off() -> Error {
    Error::new(
        ErrorKind::Stopped,
        "the process was forked while operations of this engine were in flight, and its threads are gone: make another engine in the \
         child. For an engine that works in both, fork when nothing is in flight, or raise fork_patience",
    )
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::engine::nesting::inside;
    use crate::engine::state::EngineState;
    use crate::operation::name::Name;
    use crate::Engine;

    /// What an engine says to a wait inside an operation of another one while a thread forks.
    fn says(was_stopped: bool, is_sealed: bool) -> Result<(), Error> {
        let state = EngineState::new();
        if was_stopped {
            state.stop();
        }
        assert_eq!(state.begin_fork(), !was_stopped);
        if is_sealed {
            state.seal();
        }
        let [own, other] = [(); 2].map(|()| Engine::builder().cpu_workers(1).build().unwrap());
        let request = Request { flags: FLAG_WAIT, ..Request::named(Name::default()) };
        inside(own.core().local(), || check_stopped(other.core().local(), &request, state.load(Relaxed)))
    }

    #[test]
    fn a_sealed_engine_lets_no_wait_in_that_its_fork_does_not_wait_for() {
        for was_stopped in [false, true] {
            assert!(says(was_stopped, false).is_ok());
            assert_eq!(says(was_stopped, true).unwrap_err().kind(), ErrorKind::Stopped);
        }
    }
}
