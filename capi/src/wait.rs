//! Waiting: for one variable or for everything, with and without a limit.

use crate::engine::SeriatimEngine;
use crate::error::{guard, Failure, SeriatimStatus};
use crate::input::borrow;
use crate::variable::SeriatimVariable;
use seriatim::{Engine, Error, Variable};
use std::time::Duration;

/// Waits until the operations that change `variable` and were pushed before are complete. Running
/// readers do not hold it up. The calling thread may run ready operations meanwhile (setting
/// `WAITERS_HELP`).
///
/// Returns the failure that the variable is marked with, and clears it everywhere: a second wait
/// succeeds. Operations that this thread pushed before the wait, and that depend on the failed one,
/// are skipped all the same; those of other threads are not, if they run later.
///
/// # Errors
/// That of the operation: `SERIATIM_STATUS_OPERATION_FAILED`, `SERIATIM_STATUS_OPERATION_PANICKED`,
/// `SERIATIM_STATUS_COMPLETION_DROPPED`; or what the engine or a device has refused it, such as
/// `SERIATIM_STATUS_DEVICE_LOST` or `SERIATIM_STATUS_OUT_OF_MEMORY`.
/// `SERIATIM_STATUS_WAIT_INSIDE_OPERATION` inside an operation of the same engine.
/// `SERIATIM_STATUS_VARIABLE_DELETED`, `SERIATIM_STATUS_FOREIGN_VARIABLE`,
/// `SERIATIM_STATUS_PRIVATE_VARIABLE`. `SERIATIM_STATUS_STOPPED` in the child of a `fork` that
/// could not wait for the engine, if something is pending.
///
/// # Safety
/// `engine` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_wait_for_variable(
    engine: *const SeriatimEngine,
    variable: SeriatimVariable,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { borrow(engine, "engine") }?.0.wait_for_var(Variable::from(variable)).map_err(Failure::from))
}

/// Waits until every operation that uses `variable` and was pushed before is complete, readers
/// included: then what it stands for may be freed. Operations that use it and are pushed later
/// begin after that. Otherwise as `seriatim_wait_for_variable()`.
///
/// # Errors
/// Those of `seriatim_wait_for_variable()`.
///
/// # Safety
/// `engine` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_wait_until_unused(
    engine: *const SeriatimEngine,
    variable: SeriatimVariable,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { borrow(engine, "engine") }?.0.wait_until_unused(Variable::from(variable)).map_err(Failure::from))
}

/// As `seriatim_wait_until_unused()`, but not longer than this many nanoseconds, and without
/// running operations itself. After an error the wait keeps its place in push order until the
/// variable is free: operations that use it and are pushed later begin after that.
///
/// # Errors
/// Those of `seriatim_wait_for_variable_timeout()`.
///
/// # Safety
/// `engine` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_wait_until_unused_timeout(
    engine: *const SeriatimEngine,
    variable: SeriatimVariable,
    nanoseconds: u64,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    unsafe {
        limited(engine, nanoseconds, |engine, limit| engine.wait_until_unused_timeout(Variable::from(variable), limit))
    }
}

/// As `seriatim_wait_for_variable()`, but not longer than this many nanoseconds, and without
/// running operations itself. The text of `SERIATIM_STATUS_TIMED_OUT` names what is pending and
/// behind what.
///
/// # Errors
/// As `seriatim_wait_for_variable()`, and `SERIATIM_STATUS_TIMED_OUT`.
///
/// # Safety
/// `engine` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_wait_for_variable_timeout(
    engine: *const SeriatimEngine,
    variable: SeriatimVariable,
    nanoseconds: u64,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    unsafe {
        limited(engine, nanoseconds, |engine, limit| engine.wait_for_var_timeout(Variable::from(variable), limit))
    }
}

/// Waits until every operation that was pushed before is complete. Pushes that go on meanwhile may
/// hold it up.
///
/// Returns the error of the operation that failed first in push order, of those that nobody has
/// taken; all are cleared.
///
/// # Errors
/// That of the operation: `SERIATIM_STATUS_OPERATION_FAILED`, `SERIATIM_STATUS_OPERATION_PANICKED`,
/// `SERIATIM_STATUS_COMPLETION_DROPPED`; or what the engine or a device has refused it, such as
/// `SERIATIM_STATUS_DEVICE_LOST` or `SERIATIM_STATUS_OUT_OF_MEMORY`.
/// `SERIATIM_STATUS_WAIT_INSIDE_OPERATION` inside an operation of the same engine.
/// `SERIATIM_STATUS_STOPPED` in the child of a `fork` that could not wait for the engine, if
/// something is in flight.
///
/// # Safety
/// `engine` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_wait_for_all(engine: *const SeriatimEngine) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { borrow(engine, "engine") }?.0.wait_for_all().map_err(Failure::from))
}

/// As `seriatim_wait_for_all()`, but not longer than this many nanoseconds, and without running
/// operations itself.
///
/// # Errors
/// As `seriatim_wait_for_all()`, and `SERIATIM_STATUS_TIMED_OUT`.
///
/// # Safety
/// `engine` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_wait_for_all_timeout(
    engine: *const SeriatimEngine,
    nanoseconds: u64,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    unsafe { limited(engine, nanoseconds, Engine::wait_for_all_timeout) }
}

/// Calls a wait that has a limit.
///
/// # Safety
/// `engine` is a live handle.
unsafe fn limited(
    engine: *const SeriatimEngine,
    nanoseconds: u64,
    wait: impl FnOnce(&Engine, Duration) -> Result<(), Error>,
) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        let engine = unsafe { borrow(engine, "engine") }?;
        wait(&engine.0, Duration::from_nanos(nanoseconds)).map_err(Failure::from)
    })
}
