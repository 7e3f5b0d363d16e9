//! Waiting until nothing is in flight.
//!
//! Used by `api/control.rs` ([`for_all`]) and by `engine/lifecycle.rs` ([`drain`]), on the thread
//! that waits. It sleeps in the list `Core::quiescence` (`wait_list.rs`). The failures that it
//! returns are those of `engine/failures.rs`. No state here.

#![forbid(unsafe_code)]

use crate::engine::core::Core;
use crate::engine::diagnose;
use crate::engine::nesting::{may_help, refuse_wait_inside};
use crate::engine::push::admission::cut_off;
use crate::engine::wait::held_list;
use crate::engine::wait::pull::pull_last;
use crate::engine::wait::wait_list::deadline;
use crate::error::{Error, ErrorKind};
use crate::operation::property::Property;
use crate::sync::{spin_loop, Ordering::*, MODELLED};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a waiter looks whether nothing is in flight, before it becomes a helper.
const GLIMPSE: Duration = Duration::from_micros(3);

/// Waits until nothing is in flight; then takes all errors and returns the first.
pub fn for_all(core: &Arc<Core>, timeout: Option<Duration>) -> Result<(), Error> {
    refuse_wait_inside(core)?;
    held_list::refuse_any(core, "wait for everything")?;
    if !core.is_cut_off() {
        core.dispatch.before_waiting(core);
    }
    if !all_done(core, timeout)? {
        let pending = diagnose::pending_report(core, None);
        return Err(Error::new(
            ErrorKind::TimedOut,
            format!("operations are in flight after {:?}: {pending}", timeout.unwrap_or_default()),
        ));
    }
    core.failures.take_first().map_or(Ok(()), Err)
}

/// Waits until nothing is in flight.
pub fn drain(core: &Arc<Core>) {
    let _ = all_done(core, None);
}

/// Waits until nothing is in flight; `false` if the deadline came first. An error if the operations
/// in flight will never end, in the child of a `fork`.
fn all_done(core: &Arc<Core>, timeout: Option<Duration>) -> Result<bool, Error> {
    if core.is_quiescent() {
        return Ok(true);
    }
    if core.is_cut_off() {
        return Err(cut_off());
    }
    if timeout.is_none() && core.settings.waiters_help && may_help() && !core.state.load(Relaxed).is_stopped() {
        if becomes_quiescent(core) {
            return Ok(true);
        }
        core.quiescence.announced(|| {
            // While this thread runs a batch, operations are in flight: so the batch goes on
            // without a look whether all is over.
            let mut is_over = || core.is_quiescent() || core.is_cut_off();
            core.dispatch.serve(core, &mut || !core.is_cut_off(), &mut is_over);
            core.flush(core.local());
        });
        // An operation that this thread ran has forked, and this is the child.
        if core.is_cut_off() && !core.is_quiescent() {
            return Err(cut_off());
        }
    }
    Ok(core.quiescence.wait(deadline(timeout), || core.is_quiescent(), || core.make_way()))
}

/// Runs the operation that the calling thread has pushed last, and looks for a moment whether
/// nothing is in flight. Most waits end here, without an entry in the wait list and without a lock.
fn becomes_quiescent(core: &Arc<Core>) -> bool {
    pull_last(core);
    let [normal, prioritised] = [Property::Normal, Property::CpuPrioritized].map(|of| core.dispatch.group(of));
    // Both are the same group, except on the per-device engine.
    let prioritised = prioritised.filter(|other| !normal.is_some_and(|group| Arc::ptr_eq(group, other)));
    let has_work = || [normal, prioritised].into_iter().flatten().any(|group| group.has_work());
    let mut began = None;
    loop {
        if core.is_quiescent() {
            return true;
        }
        // With many threads one look takes long, so the clock decides and not the number of looks.
        let is_over = MODELLED || began.get_or_insert_with(Instant::now).elapsed() > GLIMPSE;
        if is_over || has_work() {
            return false;
        }
        spin_loop();
    }
}
