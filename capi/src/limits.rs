//! Until when operations may start: tokens that cancel a group, deadlines, and pushes with both.

use crate::call::{Argument, AsyncCall, Call, SeriatimAsyncFunction, SeriatimDeleter, SeriatimFunction};
use crate::device::SeriatimContext;
use crate::engine::SeriatimEngine;
use crate::error::{guard, guard_value, Failure, SeriatimStatus};
use crate::graph::SeriatimGraph;
use crate::input::{borrow, borrow_mut, produce_handle, reclaim};
use crate::operation::{content, SeriatimOperation};
use crate::operator::SeriatimOperator;
use crate::pipeline::SeriatimPipeline;
use seriatim::{CancelToken, StartLimits};
use std::ffi::c_void;
use std::ptr::null;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Cancels a group of operations: those that are pushed with it, to any engine. An operation whose
/// turn comes after `seriatim_token_cancel()` is skipped, like one that depends on a failed
/// operation: its function is not called, its deleter runs, and it fails with
/// `SERIATIM_STATUS_CANCELLED`. That marks what it changes, so that operations that use it are
/// skipped as well, also those outside of the group, until a wait takes the error. It keeps its
/// place among the uses of its variables. What has started goes on; on a GPU that is what was
/// queued.
pub struct SeriatimToken(CancelToken);

/// Until when an operation may start. All zeros are no limits.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SeriatimLimits {
    /// The token of the operation's group; may be null. It may be deleted after the call.
    pub token: *const SeriatimToken,
    /// Not 0: the operation is skipped if it has not started so many nanoseconds after the call. It
    /// then fails with `SERIATIM_STATUS_DEADLINE_EXCEEDED`, when its turn comes.
    pub start_within: u64,
}

/// All zeros.
impl Default for SeriatimLimits {
    fn default() -> SeriatimLimits {
        SeriatimLimits { token: null(), start_within: 0 }
    }
}

/// What C gives as limits.
///
/// # Safety
/// `limits` is null or points to limits whose token is null or a live handle.
unsafe fn given(limits: *const SeriatimLimits) -> Result<StartLimits, Failure> {
    // SAFETY: by the contract.
    let (limits, token) = unsafe {
        let limits = borrow(limits, "limits")?;
        (limits, limits.token.as_ref())
    };
    let mut given = StartLimits::new();
    if let Some(token) = token {
        given = given.token(&token.0);
    }
    // A time that no clock reaches is no limit.
    let within = Duration::from_nanos(limits.start_within);
    let deadline = Instant::now().checked_add(within).filter(|_| !within.is_zero());
    Ok(match deadline {
        Some(deadline) => given.deadline(deadline),
        None => given,
    })
}

/// Makes a token that is not cancelled.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_token_new(out: *mut *mut SeriatimToken) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { produce_handle(out, || Ok(SeriatimToken(CancelToken::new()))) })
}

/// Cancels what has not started, for good. One store, whatever the size of the group; a second call
/// changes nothing. An operation that starts on another thread at this moment may still run.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `token` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_token_cancel(token: *const SeriatimToken) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        unsafe { borrow(token, "token") }?.0.cancel();
        Ok(())
    })
}

/// 1 if the token is cancelled, 0 if not. A function that runs for long may ask, and return early.
///
/// # Safety
/// `token` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_token_is_cancelled(token: *const SeriatimToken) -> u32 {
    // SAFETY: by the contract.
    guard_value(0, || Ok(u32::from(unsafe { borrow(token, "token") }?.0.is_cancelled())))
}

/// Deletes a token; a null pointer is fine. Operations that were pushed with it stay as they are:
/// cancelled if it was.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `token` is null or a live handle, which is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_token_delete(token: *mut SeriatimToken) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        unsafe { reclaim(token) };
        Ok(())
    })
}

/// As `seriatim_push()`, but the operation starts only within its limits. If it is skipped, the
/// deleter runs before it ends.
///
/// # Errors
/// As `seriatim_push()`. A token that is cancelled already is none: the operation is pushed, and
/// skipped in its turn.
///
/// # Safety
/// As for `seriatim_push()`. `limits` points to limits, whose token is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_push_limited(
    engine: *const SeriatimEngine,
    operation: *const SeriatimOperation,
    limits: *const SeriatimLimits,
    function: SeriatimFunction,
    argument: *mut c_void,
    deleter: SeriatimDeleter,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    let argument = unsafe { Argument::new(argument, deleter) };
    guard(move || {
        let call = Call::new(function, argument)?;
        // SAFETY: by the contract.
        let (engine, content, limits) = unsafe { (borrow(engine, "engine")?, content(operation)?, given(limits)?) };
        let key = call.key();
        engine.0.push_listed_limited(&content.listed()?, key, limits, move |run| call.run(run))?;
        Ok(())
    })
}

/// As `seriatim_push_async()`, but the operation starts only within its limits. It has started when
/// its function is called: from then on its completion ends it.
///
/// # Errors
/// As `seriatim_push_limited()`.
///
/// # Safety
/// As for `seriatim_push_limited()`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_push_async_limited(
    engine: *const SeriatimEngine,
    operation: *const SeriatimOperation,
    limits: *const SeriatimLimits,
    function: SeriatimAsyncFunction,
    argument: *mut c_void,
    deleter: SeriatimDeleter,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    let argument = unsafe { Argument::new(argument, deleter) };
    guard(move || {
        let call = AsyncCall::new(function, argument)?;
        // SAFETY: by the contract.
        let (engine, content, limits) = unsafe { (borrow(engine, "engine")?, content(operation)?, given(limits)?) };
        engine.0.push_listed_async_limited(&content.listed()?, limits, call)?;
        Ok(())
    })
}

/// As `seriatim_operator_push()`, but the operation starts only within its limits.
///
/// # Errors
/// As `seriatim_operator_push()`.
///
/// # Safety
/// As for `seriatim_operator_push()`. `limits` points to limits, whose token is null or a live
/// handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_operator_push_limited(
    engine: *const SeriatimEngine,
    operator_: *const SeriatimOperator,
    context: SeriatimContext,
    priority: i32,
    limits: *const SeriatimLimits,
) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        let (engine, operator, limits) =
            unsafe { (borrow(engine, "engine")?, borrow(operator_, "operator")?, given(limits)?) };
        // A clone: the function may run inside this push, and may delete the handle.
        let operator = operator.0.clone();
        engine.0.push_limited(&operator, context.resolve()?, priority, limits).map_err(Failure::from)
    })
}

/// As `seriatim_graph_replay()`, within limits, of which a replay takes one token and one time for
/// all of its operations. The token is looked at before each of them: those that have not started
/// are skipped. The time is for the beginning of the replay: all of it may start, or nothing.
///
/// # Errors
/// As `seriatim_graph_replay()`.
///
/// # Safety
/// `graph` is a live handle. `limits` points to limits, whose token is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_graph_replay_limited(
    graph: *const SeriatimGraph,
    priority: i32,
    limits: *const SeriatimLimits,
) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        let (graph, limits) = unsafe { (borrow(graph, "graph")?, given(limits)?) };
        // A share, as in `seriatim_graph_replay()`.
        let graph = Arc::clone(&graph.0);
        graph.replay_limited(priority, limits).map_err(Failure::from)
    })
}

/// As `seriatim_pipeline_replay()`, but each operation starts only within these limits, as if each
/// were pushed with them.
///
/// # Errors
/// As `seriatim_pipeline_replay()`.
///
/// # Safety
/// As for `seriatim_pipeline_replay()`. `limits` points to limits, whose token is null or a live
/// handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_pipeline_replay_limited(
    pipeline: *mut SeriatimPipeline,
    limits: *const SeriatimLimits,
) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        let (pipeline, limits) = unsafe { (borrow_mut(pipeline, "pipeline")?, given(limits)?) };
        pipeline.0.replay_limited(limits).map_err(Failure::from)
    })
}
