//! Parameters of graphs: values that captured operations read, and that can be replaced between
//! replays.

use crate::call::{Argument, SeriatimDeleter};
use crate::error::{guard, Failure, SeriatimStatus};
use crate::input::{borrow, produce_pointer, reclaim};
use crate::run_context::SeriatimRunContext;
use seriatim::Parameter;
use std::ffi::c_void;

/// A parameter of a graph, from `seriatim_capture_parameter()`. Its value is a pointer with a
/// deleter.
pub struct SeriatimParameter(pub(crate) Parameter<Argument>);

/// The value, inside an operation of the parameter's graph: a comparison, no lock. It stays as it
/// is until the operation ends, also for an asynchronous one, whose completion may use it.
///
/// # Errors
/// `SERIATIM_STATUS_BORROW_CONFLICT` anywhere but in an operation of the graph, because the value
/// could be replaced at any time.
///
/// # Safety
/// `parameter` is a live handle. `run` was given to the function that is running on this thread.
/// `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_parameter_get(
    parameter: *const SeriatimParameter,
    run: *const SeriatimRunContext,
    out: *mut *mut c_void,
) -> SeriatimStatus {
    let make = || {
        // SAFETY: by the contract.
        let (parameter, run) = unsafe { (borrow(parameter, "parameter")?, borrow(run, "run")?) };
        Ok(parameter.0.get(run.run())?.pointer())
    };
    // SAFETY: by the contract.
    guard(|| unsafe { produce_pointer(out, make) })
}

/// Replaces the value for replays that are pushed from now on. Those in flight see the old one,
/// whose deleter runs after the last of them. Does not wait for them: it pushes an operation, which
/// allocates nothing, and waits for room under a bound as any push does.
///
/// # Errors
/// `SERIATIM_STATUS_VARIABLE_DELETED` once the graph is deleted, or the capture if no graph was
/// made. `SERIATIM_STATUS_ENGINE_FULL`, `SERIATIM_STATUS_STOPPED`,
/// `SERIATIM_STATUS_THREAD_REFUSED`, `SERIATIM_STATUS_PRIORITY_REFUSED`, as for `seriatim_push()`.
/// The new value's deleter then runs before the call returns.
///
/// # Safety
/// `parameter` is a live handle. `value` may be used and deleted on any thread, and used by several
/// at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_parameter_set(
    parameter: *const SeriatimParameter,
    value: *mut c_void,
    deleter: SeriatimDeleter,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    let value = unsafe { Argument::new(value, deleter) };
    guard(move || {
        // SAFETY: by the contract.
        unsafe { borrow(parameter, "parameter") }?.0.set(value).map_err(Failure::from)
    })
}

/// Deletes a handle; a null pointer is fine. Operations of the graph must not use it any more:
/// delete it after the graph's last replay.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `parameter` is null or a live handle, which is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_parameter_delete(parameter: *mut SeriatimParameter) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        unsafe { reclaim(parameter) };
        Ok(())
    })
}
