//! Operations that commute: commutative variables, and pushes that name some.

use crate::call::{Argument, AsyncCall, Call, SeriatimAsyncFunction, SeriatimDeleter, SeriatimFunction};
use crate::engine::SeriatimEngine;
use crate::error::{guard, SeriatimStatus};
use crate::input::{borrow, list, produce};
use crate::operation::{content, SeriatimOperation};
use crate::variable::SeriatimVariable;
use std::ffi::c_void;

/// Makes a commutative variable, at version 0: operations may commute there, in any order, one at a
/// time. All other functions take it as any variable.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `engine` is a live handle. `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_variable_new_commutative(
    engine: *const SeriatimEngine,
    out: *mut SeriatimVariable,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { produce(out, || Ok(borrow(engine, "engine")?.0.new_commutative_variable().into())) })
}

/// As `seriatim_push()`, but the operation also commutes on the `count` variables of `commutes`: it
/// changes them, in any order with others that commute there, one at a time. A variable that the
/// operation also writes counts as written.
///
/// # Errors
/// As `seriatim_push()`; also `SERIATIM_STATUS_CANNOT_COMMUTE` if a variable was not made by
/// `seriatim_variable_new_commutative()`, or if the operation is one of a GPU.
///
/// # Safety
/// As for `seriatim_push()`. `commutes` points to so many variables, or is null if there are none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_push_commuting(
    engine: *const SeriatimEngine,
    operation: *const SeriatimOperation,
    commutes: *const SeriatimVariable,
    count: usize,
    function: SeriatimFunction,
    argument: *mut c_void,
    deleter: SeriatimDeleter,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    let argument = unsafe { Argument::new(argument, deleter) };
    guard(move || {
        let call = Call::new(function, argument)?;
        // SAFETY: by the contract.
        let (engine, content, commutes) = unsafe {
            (borrow(engine, "engine")?, content(operation)?, list(commutes, count, "what an operation commutes on")?)
        };
        content.commuting(engine, commutes)?.push(move |run| call.run(run))?;
        Ok(())
    })
}

/// As `seriatim_push_async()`, but the operation also commutes, until its completion is used.
///
/// # Errors
/// As `seriatim_push_commuting()`.
///
/// # Safety
/// As for `seriatim_push_commuting()`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_push_async_commuting(
    engine: *const SeriatimEngine,
    operation: *const SeriatimOperation,
    commutes: *const SeriatimVariable,
    count: usize,
    function: SeriatimAsyncFunction,
    argument: *mut c_void,
    deleter: SeriatimDeleter,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    let argument = unsafe { Argument::new(argument, deleter) };
    guard(move || {
        let call = AsyncCall::new(function, argument)?;
        // SAFETY: by the contract.
        let (engine, content, commutes) = unsafe {
            (borrow(engine, "engine")?, content(operation)?, list(commutes, count, "what an operation commutes on")?)
        };
        content.commuting(engine, commutes)?.push_async(move |run, completion| call.run_once(run, completion))?;
        Ok(())
    })
}
