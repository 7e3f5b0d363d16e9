//! Objects of the program that errors carry, such as an exception of C++: given where an operation
//! fails, found again where the failure arrives. `error.rs` keeps a thread's last one.

use crate::call::{Argument, SeriatimDeleter};
use crate::completion::{failed_by, SeriatimCompletion};
use crate::error::{guard, guard_value, last_object, SeriatimStatus};
use crate::input::{borrow, error_text};
use crate::run_context::SeriatimRunContext;
use std::ffi::{c_char, c_void};
use std::fmt;
use std::ptr::null_mut;

/// The error of an operation that C has failed: a text, and an object if there is one.
pub struct SaidError {
    text: String,
    object: Option<Argument>,
}

impl SaidError {
    pub fn new(text: String, object: Option<Argument>) -> SaidError {
        SaidError { text, object }
    }

    /// The object, if it came with this deleter.
    pub fn object(&self, deleter: SeriatimDeleter) -> Option<*mut c_void> {
        self.object.as_ref().filter(|object| object.has(deleter)).map(Argument::pointer)
    }
}

impl fmt::Display for SaidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for SaidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SaidError({:?})", self.text)
    }
}

impl std::error::Error for SaidError {}

/// Says why the operation is about to fail, as `seriatim_run_context_set_error()` does, and gives
/// the error an object, such as an exception. Who is told of the failure by a status finds it with
/// `seriatim_last_error_object()`. Errors are shared: several threads may have the object at once.
/// `deleter` runs when the function has returned 0, or when nothing keeps the error any more: the
/// variables that it marks, and threads whose last error it is.
///
/// # Errors
/// Only those of every function. The deleter then runs before the call returns.
///
/// # Safety
/// `run` was given to the function that is running on this thread. `text` is null or ends with a
/// zero byte. `object` may be used and deleted on any thread, and used by several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_run_context_set_error_object(
    run: *const SeriatimRunContext,
    text: *const c_char,
    object: *mut c_void,
    deleter: SeriatimDeleter,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    let object = unsafe { Argument::new(object, deleter) };
    guard(move || {
        // SAFETY: by the contract.
        let (run, text) = unsafe { (borrow(run, "run")?, error_text(text)) };
        run.set_error(text, Some(object));
        Ok(())
    })
}

/// Ends the operation with an error, as `seriatim_completion_fail()` does, and gives the error an
/// object, as `seriatim_run_context_set_error_object()` does.
///
/// # Errors
/// As `seriatim_completion_complete()`. The deleter then runs before the call returns.
///
/// # Safety
/// `completion` is null, or was given to an asynchronous function. `text` is null or ends with a
/// zero byte. `object` may be used and deleted on any thread, and used by several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_completion_fail_object(
    completion: *mut SeriatimCompletion,
    text: *const c_char,
    object: *mut c_void,
    deleter: SeriatimDeleter,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    let object = unsafe { Argument::new(object, deleter) };
    // SAFETY: by the contract. First, for the text may lie in what the operation's deleter frees.
    let text = unsafe { error_text(text) };
    guard(move || failed_by(completion, text, Some(object)))
}

/// The object that came with the error of this thread's last failing call, if it was given with
/// this deleter, which says what kind of object is meant; else null. It is the program's to look
/// at, and not to delete, until the next failing call of the thread: the thread keeps the error as
/// long.
///
/// # Safety
/// `deleter` is not called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_last_error_object(deleter: SeriatimDeleter) -> *mut c_void {
    guard_value(null_mut(), || Ok(last_object(deleter).unwrap_or(null_mut())))
}
