//! Variables: made, looked at, deleted.

use crate::call::{Argument, Call, SeriatimDeleter, SeriatimFunction};
use crate::device::SeriatimContext;
use crate::engine::SeriatimEngine;
use crate::error::{guard, Failure, SeriatimStatus};
use crate::input::{borrow, produce, text};
use seriatim::Variable;
use std::ffi::{c_char, c_void};

/// A token for anything that operations read or change. A plain value: copying it copies the
/// handle, not the variable. It knows its engine, and whether it was deleted, so that misuse is
/// refused. All zeros are no variable of any engine. To compare two, compare both fields: the bytes
/// behind them are anything.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SeriatimVariable {
    /// The engine and the place in it.
    pub place: u64,
    /// Which of the variables that had this place one after another.
    pub generation: u32,
}

impl From<SeriatimVariable> for Variable {
    #[inline]
    fn from(variable: SeriatimVariable) -> Variable {
        Variable::from_raw((variable.place, variable.generation))
    }
}

impl From<Variable> for SeriatimVariable {
    fn from(variable: Variable) -> SeriatimVariable {
        let (place, generation) = variable.into_raw();
        SeriatimVariable { place, generation }
    }
}

/// Makes a variable, at version 0.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `engine` is a live handle. `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_variable_new(
    engine: *const SeriatimEngine,
    out: *mut SeriatimVariable,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { produce(out, || Ok(borrow(engine, "engine")?.0.new_variable().into())) })
}

/// The number of operations completed that change the variable, failed and skipped ones included.
///
/// # Errors
/// `SERIATIM_STATUS_VARIABLE_DELETED`, `SERIATIM_STATUS_FOREIGN_VARIABLE`,
/// `SERIATIM_STATUS_PRIVATE_VARIABLE`.
///
/// # Safety
/// `engine` is a live handle. `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_variable_version(
    engine: *const SeriatimEngine,
    variable: SeriatimVariable,
    out: *mut u64,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { produce(out, || Ok(borrow(engine, "engine")?.0.version(Variable::from(variable))?)) })
}

/// Names a variable, for people: the name stands in the texts of errors that tell of the variable,
/// in the graph of `seriatim_dump_dot()`, and in profiles. A second name replaces the first. The
/// text is copied, and each different text is kept for the life of the process.
///
/// # Errors
/// `SERIATIM_STATUS_VARIABLE_DELETED`, `SERIATIM_STATUS_FOREIGN_VARIABLE`.
///
/// # Safety
/// `engine` is a live handle. `name` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_variable_set_name(
    engine: *const SeriatimEngine,
    variable: SeriatimVariable,
    name: *const c_char,
) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        let (engine, name) = unsafe { (borrow(engine, "engine")?, text(name, "name")?) };
        engine.0.name_variable(Variable::from(variable), name.to_owned()).map_err(Failure::from)
    })
}

/// Deletes a variable: `function` runs after its last use, even if the variable is marked by a
/// failure, and every copy of the handle is refused from now on. `function` may be null. If the
/// deletion is refused, the variable lives on.
///
/// # Errors
/// As `seriatim_push()`. The deleter then runs before the call returns.
///
/// # Safety
/// `engine` is a live handle. `function` and `deleter` may be called with `argument` on any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_variable_delete(
    engine: *const SeriatimEngine,
    variable: SeriatimVariable,
    context: SeriatimContext,
    function: SeriatimFunction,
    argument: *mut c_void,
    deleter: SeriatimDeleter,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    let argument = unsafe { Argument::new(argument, deleter) };
    guard(move || {
        // SAFETY: by the contract.
        let engine = &unsafe { borrow(engine, "engine") }?.0;
        let (context, variable) = (context.resolve()?, variable.into());
        let deleted = if function.is_some() {
            let call = Call::new(function, argument)?;
            engine.delete_variable(move |run| call.run(run), context, variable)
        } else {
            engine.delete_variable(move |_| drop(argument), context, variable)
        };
        deleted.map_err(Failure::from)
    })
}
