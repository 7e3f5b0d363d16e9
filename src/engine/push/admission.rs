//! Whether the engine takes a push: it runs, and someone is there for what is pushed.

#![forbid(unsafe_code)]

use crate::engine::core::{Core, ABANDONED, FORKING, STOPPED, YIELDING};
use crate::engine::nesting::may_help;
use crate::engine::request::Request;
use crate::error::{Error, ErrorKind};
use crate::operation::block::{FLAG_COPIES, FLAG_PRIORITISED, FLAG_WAIT};
use crate::operation::property::Property;
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use std::sync::Arc;

/// Makes sure that an operation finds someone to run it, and what it is made of too.
pub fn admit(core: &Arc<Core>, request: &Request) -> Result<(), Error> {
    if request.flags & FLAG_WAIT != 0 {
        return Ok(());
    }
    core.dispatch.admit(core, request.property, request.context)?;
    if request.flags & (FLAG_COPIES | FLAG_PRIORITISED) != 0 {
        admit_parts(core, request)?;
    }
    Ok(())
}

/// Makes sure that the parts of a graph find someone to run them. Under the pin of the push, like
/// the rest: a stop waits for it before it ends the threads.
#[cold]
fn admit_parts(core: &Arc<Core>, request: &Request) -> Result<(), Error> {
    let parts = [(FLAG_COPIES, Property::CopyFromGpu), (FLAG_PRIORITISED, Property::CpuPrioritized)];
    let mut needed = parts.iter().filter(|(note, _)| request.flags & note != 0);
    needed.try_for_each(|(_, property)| core.dispatch.admit(core, *property, request.context))
}

/// The engine's flags, if it takes pushes.
#[inline]
pub fn refuse_if_stopped(core: &Core, local: &ThreadContext, request: &Request) -> Result<u32, Error> {
    let state = core.state.load(Relaxed);
    if state & STOPPED != 0 {
        check_stopped(local, request, state)?;
    }
    Ok(state)
}

#[cold]
fn check_stopped(local: &ThreadContext, request: &Request, state: u32) -> Result<(), Error> {
    // Operations that are still running while the engine drains may push what they need, and waits
    // are part of draining. But one that a thread is in the middle of when the process forks would
    // be in flight for ever in the child. Inside an operation, of whatever engine, none is: the
    // fork waits for that.
    let inside = !may_help();
    let may_wait = state & FORKING == 0 || inside;
    if local.depth.get() > 0 || request.flags & FLAG_WAIT != 0 && may_wait || state & YIELDING != 0 && inside {
        return Ok(());
    }
    Err(if state & ABANDONED != 0 { cut_off() } else { stopped() })
}

#[cold]
pub fn stopped() -> Error {
    Error::new(ErrorKind::Stopped, "the engine is stopped: call start() before pushing")
}

/// Whether the engine that has just refused a push is stopped only while another thread forks, or
/// not any more.
#[cold]
pub fn is_over_soon(core: &Core) -> bool {
    let state = core.state.load(Acquire);
    state & FORKING != 0 || state & STOPPED == 0
}

/// What an engine says in the child of a `fork` that could not stop it.
#[cold]
pub fn cut_off() -> Error {
    Error::new(
        ErrorKind::Stopped,
        "the process was forked while operations of this engine were in flight, and its threads are gone: make another engine in the \
         child. For an engine that works in both, fork when nothing is in flight, or raise fork_patience",
    )
}
