//! The handle with which C ends an asynchronous operation.

use crate::call::Argument;
use crate::error::{guard, Failure, SeriatimStatus};
use crate::input::{bad, error_text, null};
use crate::stock::{Homes, Place, Stock};
use seriatim::Completion;
use std::cell::UnsafeCell;
use std::ffi::c_char;
use std::mem::{forget, ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering::AcqRel};
use std::sync::Arc;

/// Ends an asynchronous operation, once. Each function that takes one frees it.
// Two share it: C, and the frame of the function that C was called with. The frame needs it only if
// the function unwinds: nobody can know whether the function has given the handle away by then, so
// the first of them ends the operation.
pub struct SeriatimCompletion {
    /// The sum of [`USED`], [`RETURNED`] and [`EMPTY`], and of [`TAKEN`] for each take.
    state: AtomicU8,
    /// Never written again. Adding the first [`TAKEN`] takes it.
    completion: UnsafeCell<MaybeUninit<Completion>>,
    /// Lives until the function has returned and the operation is about to end, whichever is later.
    /// Adding the second of [`USED`] and [`RETURNED`] takes it, unless it is [`EMPTY`].
    argument: UnsafeCell<ManuallyDrop<Share>>,
}

/// Somebody has come to take the completion: C, or a frame that unwinds, or both. The first ends
/// the operation.
const TAKEN: u8 = 1;
const WAS_TAKEN: u8 = 3;
/// C has used its handle.
const USED: u8 = 4;
/// The function has returned, or unwound.
const RETURNED: u8 = 8;
/// The argument is the frame's, which has ended the operation.
const EMPTY: u8 = 16;

// SAFETY: completions and arguments may be used on any thread, and `state` says by whom.
unsafe impl Send for SeriatimCompletion {}
// SAFETY: as above.
unsafe impl Sync for SeriatimCompletion {}

/// An argument, or a share of one that further calls have as well.
pub enum Share {
    Own(#[allow(dead_code, reason = "it is kept, and then dropped")] Argument),
    Common(#[allow(dead_code, reason = "it is kept, and then dropped")] Arc<Argument>),
}

/// The share of the frame that called C.
pub struct Frame(NonNull<Place<SeriatimCompletion>>);

static HOMES: Homes<SeriatimCompletion> = Homes::new();

/// Gives the home of the thread up when the thread ends.
struct Leaves;

impl Drop for Leaves {
    fn drop(&mut self) {
        STOCK.with(Stock::leave);
    }
}

thread_local! {
    static STOCK: Stock<SeriatimCompletion> = const { Stock::new() };
    static LEAVES: Leaves = const { Leaves };
}

impl SeriatimCompletion {
    /// Makes the frame's share and the handle for C.
    #[inline]
    pub(crate) fn lend(completion: Completion, argument: Share) -> (Frame, *mut SeriatimCompletion) {
        let will_leave = || LEAVES.try_with(|_| ()).is_ok();
        let place = STOCK.with(|stock| stock.place(&HOMES, will_leave));
        // Each part is written by itself: put together elsewhere first, it would be copied.
        // SAFETY: the place is the caller's.
        unsafe {
            let lent = (*place.as_ptr()).content.as_mut_ptr();
            (&raw mut (*lent).state).write(AtomicU8::new(0));
            (&raw mut (*lent).completion).write(UnsafeCell::new(MaybeUninit::new(completion)));
            (&raw mut (*lent).argument).write(UnsafeCell::new(ManuallyDrop::new(argument)));
        }
        (Frame(place), place.as_ptr().cast())
    }
}

/// Adds to the state. Returns the completion if the caller has taken it by that. Frees the place if
/// the caller is the last one; then the argument is gone when this returns.
///
/// # Safety
/// The place is lent. The caller has a share of it, and gives it up if it adds [`USED`] or
/// [`RETURNED`].
#[inline]
unsafe fn note(place: NonNull<Place<SeriatimCompletion>>, what: u8) -> Option<Completion> {
    // SAFETY: the caller's share keeps the place until the state is changed, and afterwards the
    // caller uses the place only if it was the last one. Nobody writes to the completion meanwhile,
    // and the copy is forgotten if it is another one's.
    unsafe {
        let lent = (*place.as_ptr()).content.as_ptr();
        let completion = (*lent).completion.get().read();
        // Acquire and release: the last one comes after all that the other has done.
        let before = (*lent).state.fetch_add(what, AcqRel);
        let after = before + what;
        if after & (USED | RETURNED) == USED | RETURNED {
            let argument = (*lent).argument.get().read();
            STOCK.with(|stock| stock.give_back(place));
            if after & EMPTY == 0 {
                drop(ManuallyDrop::into_inner(argument));
            }
        }
        (what & TAKEN != 0 && before & WAS_TAKEN == 0).then(|| completion.assume_init())
    }
}

impl Frame {
    #[inline]
    pub fn returned(self) {
        // SAFETY: the frame's share, which is given up.
        unsafe { note(self.0, RETURNED) };
        forget(self);
    }
}

/// While the function unwinds.
impl Drop for Frame {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: the frame's share, which is given up by the second note. If this frame has taken
        // the completion, it takes the argument too: C's note comes before `RETURNED`, and is not
        // the last one, or it finds `EMPTY`.
        unsafe {
            let Some(completion) = note(self.0, TAKEN) else {
                note(self.0, RETURNED);
                return;
            };
            let argument = (*(*self.0.as_ptr()).content.as_ptr()).argument.get().read();
            note(self.0, RETURNED | EMPTY);
            drop(ManuallyDrop::into_inner(argument));
            // The operation ends with the panic's message.
            drop(completion);
        }
    }
}

/// Takes the handle back from C.
///
/// # Safety
/// `handle` is null, or was given to an asynchronous function and not used since.
#[inline(always)]
unsafe fn take_back(handle: *mut SeriatimCompletion) -> Result<Completion, Failure> {
    let place = NonNull::new(handle.cast()).ok_or_else(|| null("completion"))?;
    // SAFETY: `lend` made it, by the contract; C's share is given up here.
    let completion = unsafe { note(place, TAKEN | USED) };
    completion.ok_or_else(|| bad("the operation has ended already: its function panicked"))
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
