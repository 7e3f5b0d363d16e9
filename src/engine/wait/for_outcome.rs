//! Waiting for the result of an operation, on a thread.
//!
//! Used by `api/pending.rs`, on the thread that waits. The thread runs what it has pushed last, if
//! it may help, which mostly is the operation itself. Then it has the cell of the result
//! (`engine/future/cell.rs`) set an event, and sleeps. No state here.

use crate::engine::future::cell::Awaited;
use crate::engine::nesting::{may_help, refuse_wait_inside};
use crate::engine::push::admission::cut_off;
use crate::engine::wait::event::OneShot;
use crate::engine::wait::for_var::listen;
use crate::engine::wait::pull::pull_last;
use crate::engine::wait::wait_list::deadline;
use crate::error::Error;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// Waits until the outcome is there; says whether it is, which without a limit it is.
pub fn for_outcome<T: Send>(awaited: &Awaited<T>, timeout: Option<Duration>) -> Result<bool, Error> {
    let core = awaited.core();
    if awaited.is_set() {
        return Ok(true);
    }
    refuse_wait_inside(core)?;
    if core.is_cut_off() {
        return Err(cut_off());
    }
    core.dispatch.before_waiting(core);
    if timeout.is_none() && core.settings.waiters_help && may_help() {
        pull_last(core);
        if awaited.is_set() {
            return Ok(true);
        }
    }
    let event = OneShot::take();
    awaited.wake_later(&Waker::from(Arc::clone(&event)));
    if !awaited.is_set() {
        listen(core, &event, deadline(timeout));
    }
    // If the waker is still there, nothing will set the event; if it was called, nothing will any
    // more. Else a thread is about to, so the event is not for the next wait.
    if awaited.forget_waker() || event.is_set() {
        OneShot::put_back(event);
    }
    match awaited.is_set() {
        false if core.is_cut_off() => Err(cut_off()),
        is_set => Ok(is_set),
    }
}
