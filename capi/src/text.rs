//! Texts that C is given and frees.

use crate::error::{c_text, guard, Failure, Outcome, SeriatimStatus};
use crate::input::produce_pointer;
use std::ffi::{c_char, CString};

/// Gives C a text of its own.
///
/// # Safety
/// `out` may be written to, if it is not null.
pub unsafe fn give(out: *mut *mut c_char, make: impl FnOnce() -> Result<String, Failure>) -> Outcome {
    // SAFETY: by the contract.
    unsafe { produce_pointer(out, || Ok(c_text(&make()?).into_raw())) }
}

/// Frees a text that a function of this library has put into a `char **`. Does nothing with a null
/// pointer.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `text` came from this library in that way, was not changed, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_string_free(text: *mut c_char) -> SeriatimStatus {
    guard(|| {
        if !text.is_null() {
            // SAFETY: `give` made it of a `CString`, by the contract.
            drop(unsafe { CString::from_raw(text) });
        }
        Ok(())
    })
}
