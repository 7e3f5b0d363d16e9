//! Operators: described once, pushed any number of times.

use crate::call::{Argument, AsyncCall, Call, SeriatimAsyncFunction, SeriatimDeleter, SeriatimFunction};
use crate::device::SeriatimContext;
use crate::engine::SeriatimEngine;
use crate::error::{guard, Failure, SeriatimStatus};
use crate::input::{borrow, produce_handle, reclaim};
use crate::operation::{content, SeriatimOperation};
use seriatim::Operator;
use std::ffi::c_void;

/// A reusable operation. May be pushed again while earlier uses are in flight, and may outlive its
/// engine.
pub struct SeriatimOperator(pub(crate) Operator);

/// Makes a reusable operator. If it changes no variable, several of its uses may run at the same
/// time, with the same argument. `deleter` runs when the operator is deleted and its last use is
/// over.
///
/// # Errors
/// `SERIATIM_STATUS_VARIABLE_DELETED`, `SERIATIM_STATUS_FOREIGN_VARIABLE`,
/// `SERIATIM_STATUS_PRIVATE_VARIABLE`. The deleter then runs before the call returns.
///
/// # Safety
/// `engine` is a live handle. `operation` points to an operation whose pointers are as it describes
/// them, and whose texts end with a zero byte. `function` and `deleter` may be called with
/// `argument` on any thread, `function` on several at once if the operator changes no variable.
/// `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_operator_new(
    engine: *const SeriatimEngine,
    operation: *const SeriatimOperation,
    function: SeriatimFunction,
    argument: *mut c_void,
    deleter: SeriatimDeleter,
    out: *mut *mut SeriatimOperator,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    let argument = unsafe { Argument::new(argument, deleter) };
    let make = move || {
        let call = Call::new(function, argument)?;
        // SAFETY: by the contract.
        let (engine, content) = unsafe { (borrow(engine, "engine")?, content(operation)?) };
        let builder = content.reusable(engine);
        Ok(SeriatimOperator(builder.cost_key(call.key()).operator(move |run| call.run(run))?))
    };
    // SAFETY: by the contract.
    guard(|| unsafe { produce_handle(out, make) })
}

/// Makes a reusable operator whose uses end when their completions say so; otherwise as
/// `seriatim_operator_new()`.
///
/// # Errors
/// As `seriatim_operator_new()`.
///
/// # Safety
/// As for `seriatim_operator_new()`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_operator_new_async(
    engine: *const SeriatimEngine,
    operation: *const SeriatimOperation,
    function: SeriatimAsyncFunction,
    argument: *mut c_void,
    deleter: SeriatimDeleter,
    out: *mut *mut SeriatimOperator,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    let argument = unsafe { Argument::new(argument, deleter) };
    let make = move || {
        let call = AsyncCall::new(function, argument)?.shared();
        // SAFETY: by the contract.
        let (engine, content) = unsafe { (borrow(engine, "engine")?, content(operation)?) };
        let builder = content.reusable(engine);
        let builder = builder.cost_key(call.key());
        Ok(SeriatimOperator(builder.async_operator(move |run, completion| call.run(run, completion))?))
    };
    // SAFETY: by the contract.
    guard(|| unsafe { produce_handle(out, make) })
}

/// Pushes an operator once more, to the engine that made it.
///
/// # Errors
/// As `seriatim_push()`, and `SERIATIM_STATUS_FOREIGN_OPERATOR`.
///
/// # Safety
/// `engine` and `operator_` are live handles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_operator_push(
    engine: *const SeriatimEngine,
    operator_: *const SeriatimOperator,
    context: SeriatimContext,
    priority: i32,
) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        let (engine, operator) = unsafe { (borrow(engine, "engine")?, borrow(operator_, "operator")?) };
        // A clone: the function may run inside this push, and may delete the handle.
        let operator = operator.0.clone();
        engine.0.push(&operator, context.resolve()?, priority).map_err(Failure::from)
    })
}

/// Deletes an operator; a null pointer is fine. Uses in flight go on.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `operator_` is null or a live handle, which is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_operator_delete(operator_: *mut SeriatimOperator) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        unsafe { reclaim(operator_) };
        Ok(())
    })
}
