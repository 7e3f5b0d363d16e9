//! The handle with which C ends an asynchronous operation.

use crate::call::Argument;
use crate::error::{guard, Failure, SeriatimStatus};
use crate::input::{bad, error_text, null};
use seriatim::Completion;
use std::cell::UnsafeCell;
use std::ffi::c_char;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel};
use std::sync::Arc;

/// Ends an asynchronous operation, once. Each function that takes one frees it.
// Two share it: C, and the frame of the function that C was called with. The frame needs it only if
// the function unwinds: nobody can know whether the function has given the handle away by then, so
// the first of them ends the operation.
pub struct SeriatimCompletion {
    taken: AtomicBool,
    /// With a share of the argument, which lives until the function has returned and the operation
    /// is about to end, whichever is later.
    content: UnsafeCell<Option<(Completion, Arc<Argument>)>>,
}

// SAFETY: the content may be used on any thread, and only by the one who sets `taken`.
unsafe impl Send for SeriatimCompletion {}
// SAFETY: as above.
unsafe impl Sync for SeriatimCompletion {}

/// The share of the frame that called C.
pub struct Frame {
    shared: Arc<SeriatimCompletion>,
    returned: bool,
}

impl SeriatimCompletion {
    /// Makes the frame's share and the handle for C.
    pub(crate) fn lend(completion: Completion, argument: &Arc<Argument>) -> (Frame, *mut SeriatimCompletion) {
        let shared = Arc::new(SeriatimCompletion {
            taken: AtomicBool::new(false),
            content: UnsafeCell::new(Some((completion, Arc::clone(argument)))),
        });
        let handle = Arc::into_raw(Arc::clone(&shared)).cast_mut();
        (Frame { shared, returned: false }, handle)
    }

    /// Takes the completion, if nobody has, and gives up the share of the argument: it is gone
    /// before the operation ends.
    fn take(&self) -> Option<Completion> {
        if self.taken.swap(true, AcqRel) {
            return None;
        }
        // SAFETY: only one call ever finds `taken` unset.
        let content = unsafe { (*self.content.get()).take() };
        content.map(|(completion, _)| completion)
    }
}

impl Frame {
    pub fn returned(mut self) {
        self.returned = true;
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        if !self.returned {
            // Dropped while unwinding, the completion ends its operation with the panic's message.
            drop(self.shared.take());
        }
    }
}

/// Takes the handle back from C.
///
/// # Safety
/// `handle` is null, or was given to an asynchronous function and not used since.
unsafe fn take_back(handle: *mut SeriatimCompletion) -> Result<Completion, Failure> {
    if handle.is_null() {
        return Err(null("completion"));
    }
    // SAFETY: `lend` made it of an `Arc`, by the contract.
    let handle = unsafe { Arc::from_raw(handle.cast_const()) };
    handle.take().ok_or_else(|| bad("the operation has ended already: its function panicked"))
}

/// Ends the operation well. The completion is freed.
///
/// # Errors
/// `SERIATIM_STATUS_BAD_ARGUMENT` if the operation has ended already, because its function unwound.
///
/// # Safety
/// `completion` was given to an asynchronous function, and is used for the first and last time.
#[no_mangle]
pub unsafe extern "C" fn seriatim_completion_complete(completion: *mut SeriatimCompletion) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        unsafe { take_back(completion) }?.complete();
        Ok(())
    })
}

/// Ends the operation with an error, which marks the variables that it changes. The completion is
/// freed. `text` says what went wrong; it may be null, and bytes that are not UTF-8 are replaced,
/// so that the operation ends in any case.
///
/// # Errors
/// As `seriatim_completion_complete()`.
///
/// # Safety
/// `completion` was given to an asynchronous function, and is used for the first and last time.
/// `text` is null or ends with a zero byte.
#[no_mangle]
pub unsafe extern "C" fn seriatim_completion_fail(
    completion: *mut SeriatimCompletion,
    text: *const c_char,
) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        let (completion, text) = unsafe { (take_back(completion)?, error_text(text)) };
        completion.fail(text.as_deref().unwrap_or("its completion was told to fail, without a reason"));
        Ok(())
    })
}

/// Gives up: the operation fails with `SERIATIM_STATUS_COMPLETION_DROPPED`, so that nothing waits
/// for ever. For destructors and paths that should not be taken. The completion is freed; a null
/// pointer is fine.
///
/// # Errors
/// As `seriatim_completion_complete()`.
///
/// # Safety
/// `completion` was given to an asynchronous function, and is used for the first and last time.
#[no_mangle]
pub unsafe extern "C" fn seriatim_completion_drop(completion: *mut SeriatimCompletion) -> SeriatimStatus {
    guard(|| {
        if !completion.is_null() {
            // SAFETY: by the contract.
            drop(unsafe { take_back(completion) }?);
        }
        Ok(())
    })
}
