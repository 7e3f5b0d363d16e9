//! Status codes, the text behind them, and the wall that panics do not pass.

use crate::call::SeriatimDeleter;
use crate::error_object::SaidError;
use seriatim::{Error, ErrorKind};
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{c_char, c_void, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// What became of a call. More codes may be added: treat unknown ones as failures.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeriatimStatus {
    /// It succeeded.
    Ok = 0,
    /// An operation returned an error, or its completion was told of one.
    OperationFailed = 1,
    /// An operation panicked. Only operations written in Rust can.
    OperationPanicked = 2,
    /// The completion of an asynchronous operation was dropped.
    CompletionDropped = 3,
    /// The variable was deleted before this call.
    VariableDeleted = 4,
    /// The variable belongs to another engine.
    ForeignVariable = 5,
    /// The operator belongs to another engine.
    ForeignOperator = 6,
    /// No device has this number.
    UnknownDevice = 7,
    /// The device exists in principle, but this build, machine or process cannot use it, or its
    /// driver has refused a call. The text says which.
    DeviceUnavailable = 8,
    /// As many operations are in flight as the bound allows, and the engine was told not to wait;
    /// or an operation has more than 8 million variables, or a graph more than 500 million
    /// operations.
    EngineFull = 9,
    /// A setting has a name or a value that is not valid; the text lists those that are.
    BadSetting = 10,
    /// The system refused to start a thread.
    ThreadRefused = 11,
    /// A wait inside an operation could wait for that very operation.
    WaitInsideOperation = 12,
    /// The time was up first; the text names what is pending and behind what.
    TimedOut = 13,
    /// The engine is stopped, or was told of the shutdown.
    Stopped = 14,
    /// A value is in use, in a way that does not go with this use: an array, also by a GPU that has
    /// still to copy; a parameter outside of its graph; or a handle of a library where it is made.
    BorrowConflict = 15,
    /// The process has made four thousand million engines, and has no numbers for more.
    EnginesExhausted = 16,
    /// An operation uses an array that it has not declared, or a value of Rust.
    UndeclaredAccess = 17,
    /// The variable is private to a graph, and this call is not an operation of that graph.
    PrivateVariable = 18,
    /// The system refused the real-time priority that `FIFO_PRIORITY` asks for, or has none.
    PriorityRefused = 19,
    /// The system refused to lock memory as `LOCK_MEMORY` asks for, or cannot.
    MemoryLockRefused = 20,
    /// The device takes no more work in this process: its driver said so.
    DeviceLost = 21,
    /// There is no memory left for an array on a GPU.
    OutOfMemory = 22,
    /// Arrays do not go together, or do not belong to the operation's GPU.
    BufferMismatch = 23,
    /// A stream of the program's cannot be put in order with the engine's, such as one that is
    /// being captured.
    StreamRefused = 24,
    /// The call is for operations that have a stream. This one runs on the processor, or is
    /// asynchronous.
    NoStream = 25,
    /// The token of an operation was cancelled before the operation started, so it was skipped.
    Cancelled = 26,
    /// The time in which an operation had to start was up, so it was skipped.
    DeadlineExceeded = 27,
    /// An operation is to commute on a variable that was not made for that, or on a GPU.
    CannotCommute = 28,
    /// A failure that this version of the interface has no code for.
    Other = 99,
    /// A pointer that must not be null is null.
    NullPointer = 100,
    /// An argument is outside its range: the number of an enumeration, or the length of a list.
    BadArgument = 101,
    /// A text is not valid UTF-8.
    InvalidUtf8 = 102,
    /// A file could not be written.
    InputOutput = 103,
    /// The library itself panicked; the call may have been carried out in part.
    Panicked = 104,
}

impl SeriatimStatus {
    pub(crate) fn of(kind: ErrorKind) -> SeriatimStatus {
        match kind {
            ErrorKind::OperationFailed => SeriatimStatus::OperationFailed,
            ErrorKind::OperationPanicked => SeriatimStatus::OperationPanicked,
            ErrorKind::CompletionDropped => SeriatimStatus::CompletionDropped,
            ErrorKind::VariableDeleted => SeriatimStatus::VariableDeleted,
            ErrorKind::ForeignVariable => SeriatimStatus::ForeignVariable,
            ErrorKind::ForeignOperator => SeriatimStatus::ForeignOperator,
            ErrorKind::UnknownDevice => SeriatimStatus::UnknownDevice,
            ErrorKind::DeviceUnavailable => SeriatimStatus::DeviceUnavailable,
            ErrorKind::EngineFull => SeriatimStatus::EngineFull,
            ErrorKind::BadSetting => SeriatimStatus::BadSetting,
            ErrorKind::ThreadRefused => SeriatimStatus::ThreadRefused,
            ErrorKind::WaitInsideOperation => SeriatimStatus::WaitInsideOperation,
            ErrorKind::TimedOut => SeriatimStatus::TimedOut,
            ErrorKind::Stopped => SeriatimStatus::Stopped,
            ErrorKind::BorrowConflict => SeriatimStatus::BorrowConflict,
            ErrorKind::EnginesExhausted => SeriatimStatus::EnginesExhausted,
            ErrorKind::UndeclaredAccess => SeriatimStatus::UndeclaredAccess,
            ErrorKind::PrivateVariable => SeriatimStatus::PrivateVariable,
            ErrorKind::PriorityRefused => SeriatimStatus::PriorityRefused,
            ErrorKind::MemoryLockRefused => SeriatimStatus::MemoryLockRefused,
            ErrorKind::DeviceLost => SeriatimStatus::DeviceLost,
            ErrorKind::OutOfMemory => SeriatimStatus::OutOfMemory,
            ErrorKind::BufferMismatch => SeriatimStatus::BufferMismatch,
            ErrorKind::StreamRefused => SeriatimStatus::StreamRefused,
            ErrorKind::NoStream => SeriatimStatus::NoStream,
            ErrorKind::Cancelled => SeriatimStatus::Cancelled,
            ErrorKind::DeadlineExceeded => SeriatimStatus::DeadlineExceeded,
            ErrorKind::CannotCommute => SeriatimStatus::CannotCommute,
            _ => SeriatimStatus::Other,
        }
    }
}

/// Why a call failed: what it returns, and what it says.
#[derive(Debug)]
pub struct Failure {
    status: SeriatimStatus,
    text: String,
    /// Kept if it carries an object of the program's.
    error: Option<Error>,
}

/// What the body of a call comes to.
pub type Outcome = Result<(), Failure>;

impl Failure {
    pub fn new(status: SeriatimStatus, text: impl Into<String>) -> Failure {
        Failure { status, text: text.into(), error: None }
    }

    #[cold]
    fn panicked(payload: Box<dyn Any + Send>) -> Failure {
        let message = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
            (Some(text), _) => text,
            (_, Some(text)) => text.as_str(),
            _ => "without a message",
        };
        let failure = Failure::new(SeriatimStatus::Panicked, format!("the library panicked: {message}"));
        // Its destructor might panic in turn.
        std::mem::forget(payload);
        failure
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Failure {
        let (status, text) = (SeriatimStatus::of(error.kind()), error.to_string());
        Failure { status, text, error: said(&error).is_some().then_some(error) }
    }
}

thread_local! {
    /// The text of the thread's last failure, and its error if that carries an object. Kept as C
    /// reads them, because C is given pointers into them.
    static LAST: RefCell<(CString, Option<Error>)> = RefCell::default();
}

/// What an operation of C has said, if the error comes from one.
fn said(error: &Error) -> Option<&SaidError> {
    std::error::Error::source(error)?.downcast_ref()
}

/// The object of the thread's last failure, if it came with this deleter.
pub fn last_object(deleter: SeriatimDeleter) -> Option<*mut c_void> {
    LAST.try_with(|last| said(last.borrow().1.as_ref()?)?.object(deleter)).ok()?
}

#[cold]
fn remember(failure: Failure) -> SeriatimStatus {
    let text = c_text(&failure.text);
    // A thread that is at its end has nobody left to read the text. What was there before is
    // dropped behind the borrow: an object's deleter may fail in turn.
    let before = LAST.try_with(|last| last.replace((text, failure.error)));
    drop(before);
    failure.status
}

/// A text as C has them. C could not see what is behind a zero byte, so there is none.
pub fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

/// The wall around every call that reports a status: failures become codes, and so do panics.
#[inline]
pub fn guard(body: impl FnOnce() -> Outcome) -> SeriatimStatus {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => SeriatimStatus::Ok,
        Ok(Err(failure)) => remember(failure),
        Err(payload) => remember(Failure::panicked(payload)),
    }
}

/// The wall around every call that returns a value: a failure leaves its text, and `otherwise` is
/// returned.
pub fn guard_value<T>(otherwise: T, body: impl FnOnce() -> Result<T, Failure>) -> T {
    let mut value = otherwise;
    guard(|| {
        value = body()?;
        Ok(())
    });
    value
}

/// What the last failing call of this thread has to say: what went wrong, where, and what to do
/// about it. Empty if none has failed. Valid until the next failing call of the thread; calls that
/// succeed leave it as it is. What functions, deleters and hooks do inside a call counts as well,
/// so copy what is to be kept across one.
#[unsafe(no_mangle)]
pub extern "C" fn seriatim_last_error() -> *const c_char {
    guard_value(c"".as_ptr(), || Ok(LAST.try_with(|last| last.borrow().0.as_ptr()).unwrap_or(c"".as_ptr())))
}

/// What a status code means, in a few words that live as long as the program; for codes whose error
/// text is gone.
#[unsafe(no_mangle)]
pub extern "C" fn seriatim_status_text(status: i32) -> *const c_char {
    describe(status).as_ptr()
}

fn describe(status: i32) -> &'static CStr {
    match status {
        0 => c"success",
        1 => c"an operation failed",
        2 => c"an operation panicked",
        3 => c"a completion was dropped",
        4 => c"the variable was deleted",
        5 => c"the variable belongs to another engine",
        6 => c"the operator belongs to another engine",
        7 => c"no device has this number",
        8 => c"the device cannot be used",
        9 => c"the engine is full",
        10 => c"a setting is not valid",
        11 => c"the system refused a thread",
        12 => c"an operation cannot wait for its own engine",
        13 => c"the time was up",
        14 => c"the engine is stopped",
        15 => c"a value is in use",
        16 => c"there are no numbers for more engines",
        17 => c"a value was not declared",
        18 => c"the variable is private to a graph",
        19 => c"the system refused a real-time priority",
        20 => c"the system refused to lock memory",
        21 => c"the device takes no more work",
        22 => c"there is no memory for a buffer",
        23 => c"buffers do not go together",
        24 => c"a stream was refused",
        25 => c"the operation has no stream",
        26 => c"the operation was cancelled",
        27 => c"the operation came too late",
        28 => c"the operation cannot commute there",
        99 => c"another failure",
        100 => c"a pointer is null",
        101 => c"an argument is outside its range",
        102 => c"a text is not valid UTF-8",
        103 => c"a file could not be written",
        104 => c"the library panicked",
        _ => c"an unknown status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_status_and_a_text() {
        assert_eq!(guard(|| panic!("one\0two")), SeriatimStatus::Panicked);
        // SAFETY: the text is this thread's, and nothing fails meanwhile.
        let text = unsafe { CStr::from_ptr(seriatim_last_error()) };
        assert_eq!(text.to_str(), Ok("the library panicked: one\u{fffd}two"));
        assert_eq!(guard_value(7, || std::panic::panic_any(5)), 7);
        // SAFETY: as above.
        let text = unsafe { CStr::from_ptr(seriatim_last_error()) };
        assert_eq!(text.to_str(), Ok("the library panicked: without a message"));
    }

    #[test]
    fn every_kind_of_error_has_a_code_of_its_own() {
        let kinds = [
            ErrorKind::OperationFailed,
            ErrorKind::OperationPanicked,
            ErrorKind::CompletionDropped,
            ErrorKind::VariableDeleted,
            ErrorKind::ForeignVariable,
            ErrorKind::ForeignOperator,
            ErrorKind::UnknownDevice,
            ErrorKind::DeviceUnavailable,
            ErrorKind::EngineFull,
            ErrorKind::BadSetting,
            ErrorKind::ThreadRefused,
            ErrorKind::WaitInsideOperation,
            ErrorKind::TimedOut,
            ErrorKind::Stopped,
            ErrorKind::BorrowConflict,
            ErrorKind::EnginesExhausted,
            ErrorKind::UndeclaredAccess,
            ErrorKind::PrivateVariable,
            ErrorKind::PriorityRefused,
            ErrorKind::MemoryLockRefused,
            ErrorKind::DeviceLost,
            ErrorKind::OutOfMemory,
            ErrorKind::BufferMismatch,
            ErrorKind::StreamRefused,
            ErrorKind::NoStream,
            ErrorKind::Cancelled,
            ErrorKind::DeadlineExceeded,
            ErrorKind::CannotCommute,
        ];
        for (index, kind) in kinds.into_iter().enumerate() {
            let status = SeriatimStatus::of(kind) as i32;
            assert_eq!(status, index as i32 + 1);
            assert_ne!(describe(status), describe(-1));
        }
        assert_eq!(describe(29), describe(-1));
    }
}
