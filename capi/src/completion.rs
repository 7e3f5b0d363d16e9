//! The handle with which C ends an asynchronous operation: the functions that C calls, and the
//! frame of the function that was given the handle. `handle.rs` has what the handle says, and
//! `stock.rs` the memory.

use crate::call::Argument;
use crate::error::{guard, Failure, Outcome, SeriatimStatus};
use crate::error_object::SaidError;
use crate::handle::{number, Lent, Refused, ThreeWords};
use crate::input::{bad, error_text, null};
use crate::stock::{Place, Registry, Stock};
use seriatim::gpu::RawStream;
use seriatim::Completion;
use std::ffi::{c_char, c_void};
use std::mem::forget;
use std::ptr::without_provenance_mut;

/// Ends an asynchronous operation, once: each function that takes one uses it up. A second use is
/// refused.
///
/// Copy it, compare it and hand it to these functions. It is no address: keep all its bits, and do
/// not look at what it points to.
pub struct SeriatimCompletion(());

// SAFETY: it is three pointers as long as it has not ended the operation.
unsafe impl ThreeWords for Completion {}

/// The share of the frame that called C.
pub struct Frame(&'static Place<Lent<Completion, Argument>>);

static REGISTRY: Registry<Lent<Completion, Argument>> = Registry::new();

/// Gives the shared stock of the thread up when the thread ends.
struct Leaves;

impl Drop for Leaves {
    fn drop(&mut self) {
        STOCK.with(Stock::leave);
    }
}

thread_local! {
    static STOCK: Stock<Lent<Completion, Argument>> = const { Stock::new() };
    static LEAVES: Leaves = const { Leaves };
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Place<Lent<Completion, Argument>>>() == 64);

/// Gives a place back that nobody uses any more.
#[inline]
fn give_back(place: &'static Place<Lent<Completion, Argument>>) {
    // SAFETY: those who call this are the last to use the place.
    STOCK.with(|stock| unsafe { stock.give_back(place) });
}

impl SeriatimCompletion {
    /// Makes the frame's share and the handle for C.
    #[inline]
    pub(crate) fn lend(completion: Completion, argument: Argument) -> (Frame, *mut SeriatimCompletion) {
        let will_leave = || LEAVES.try_with(|_| ()).is_ok();
        let place = STOCK.with(|stock| stock.place(&REGISTRY, will_leave));
        // SAFETY: the place is this call's.
        let handle = unsafe { place.content.lend(completion, argument) };
        (Frame(place), without_provenance_mut(handle))
    }
}

impl Frame {
    #[inline]
    pub fn returned(self) {
        // SAFETY: the frame's share, which is given up.
        unsafe { self.0.content.returned(|| give_back(self.0)) };
        forget(self);
    }
}

/// While the function unwinds.
impl Drop for Frame {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: the frame's share, which is given up.
        unsafe { self.0.content.unwound(|| give_back(self.0)) };
    }
}

#[cold]
fn refused(why: Refused) -> Failure {
    bad(match why {
        Refused::Used => {
            "this completion was used before, or is none: complete, fail or drop each completion once, \
             and do not keep it"
        }
        Refused::Ended => "the operation has ended already: its function panicked",
    })
}

/// Takes the completion back from C.
#[inline(always)]
fn take_back(completion: *mut SeriatimCompletion) -> Result<Completion, Failure> {
    if completion.is_null() {
        return Err(null("completion"));
    }
    let handle = completion.addr();
    let place = REGISTRY.find(number(handle)).ok_or_else(|| refused(Refused::Used))?;
    place.content.take(handle, || give_back(place)).map_err(refused)
}

/// Ends the operation well.
///
/// # Errors
/// `SERIATIM_STATUS_BAD_ARGUMENT` if the completion was used before, or if the operation has ended
/// already, because its function unwound. No operation is touched then. Of several uses one
/// succeeds, also of two at the same time.
///
/// Completions that follow each other in one place of the memory have 2^32 values (256 on 32 bits).
/// An old one is taken for one in use if their distance is a multiple of that.
///
/// # Safety
/// `completion` is null, or was given to an asynchronous function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_completion_complete(completion: *mut SeriatimCompletion) -> SeriatimStatus {
    guard(|| {
        take_back(completion)?.complete();
        Ok(())
    })
}

/// Ends the operation when its GPU has done what is on a stream by now, such as a `CUstream` that a
/// library has put work on. Returns at once, and no thread waits; the naive engine waits here. The
/// deleter of the operation's argument does not wait for the stream: it may run in this call,
/// before the stream is looked at, and must not destroy it.
///
/// The stream is the operation's own, or one that comes after it: let it wait for an event on
/// `seriatim_run_context_stream()`, or push with `SERIATIM_PROPERTY_ASYNC`, whose function is
/// called when all that is before it is done.
///
/// The operation fails with `SERIATIM_STATUS_DEVICE_LOST` if the GPU is lost before; so it is if
/// the driver goes on to refuse the call. It fails with `SERIATIM_STATUS_STREAM_REFUSED` if the
/// stream is being captured, and with `SERIATIM_STATUS_NO_STREAM` if the operation is not one of a
/// GPU.
///
/// # Errors
/// As `seriatim_completion_complete()`.
///
/// # Safety
/// `completion` is null, or was given to an asynchronous function. `stream` is a stream of the
/// operation's GPU, and is not destroyed before the call returns. No capture of it begins before
/// the operation has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_completion_complete_after(
    completion: *mut SeriatimCompletion,
    stream: *mut c_void,
) -> SeriatimStatus {
    guard(|| {
        let completion = take_back(completion)?;
        // SAFETY: by the contract.
        unsafe { completion.complete_after(RawStream::new(stream)) };
        Ok(())
    })
}

/// Ends the operation with an error, which marks the variables that it changes. `text` says what
/// went wrong; it may be null, and bytes that are not UTF-8 are replaced, so that the operation
/// ends in any case. It may lie in the operation's argument: it is copied before the deleter runs.
///
/// # Errors
/// As `seriatim_completion_complete()`.
///
/// # Safety
/// `completion` is null, or was given to an asynchronous function.
/// `text` is null or ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_completion_fail(
    completion: *mut SeriatimCompletion,
    text: *const c_char,
) -> SeriatimStatus {
    // SAFETY: by the contract. First, for the text may lie in what the operation's deleter frees,
    // and that may run in `take_back`.
    guard(|| failed_by(completion, unsafe { error_text(text) }, None))
}

/// Ends the operation with an error that C says.
pub fn failed_by(completion: *mut SeriatimCompletion, text: Option<String>, object: Option<Argument>) -> Outcome {
    let completion = take_back(completion)?;
    let text = text.unwrap_or_else(|| "its completion was told to fail, without a reason".to_owned());
    completion.fail(SaidError::new(text, object));
    Ok(())
}

/// Gives up: the operation fails with `SERIATIM_STATUS_COMPLETION_DROPPED`, so that nothing waits
/// for ever. For destructors and paths that should not be taken. A null pointer is fine.
///
/// # Errors
/// As `seriatim_completion_complete()`.
///
/// # Safety
/// `completion` is null, or was given to an asynchronous function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_completion_drop(completion: *mut SeriatimCompletion) -> SeriatimStatus {
    guard(|| {
        if !completion.is_null() {
            drop(take_back(completion)?);
        }
        Ok(())
    })
}
