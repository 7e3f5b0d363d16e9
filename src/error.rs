//! `Error`, the one error type of the crate, and `Failure`, an operation's error that marks
//! variables.
//!
//! An `Error` is what users see. A [`Fault`] (`error/fault.rs`) becomes one when the name of its
//! operation is known.
//!
//! A [`Failure`] goes from variable to variable by their marks (`src/variable/slot.rs`), and is
//! kept for `wait_for_all` in `src/engine/failures.rs`. Those for which that list has no more room
//! are counted in [`Beyond`]. Any thread may touch a failure at any time, so its state is atomic. A
//! thread that runs or ends operations, a device's watcher too, makes failures and asks whether one
//! concerns an operation. A thread that waits takes failures, and so does the thread that closes
//! the engine. An `Error` does not change; the thread that drops its last clone drops the source.

#![forbid(unsafe_code)]

mod fault;

use crate::sync::{AtomicU64, Ordering};
use crate::util::payload::drop_payload;
pub use fault::{Fault, HearsFailure};
use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe, RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// What went wrong. More kinds may be added: match with a wildcard.
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// let x = engine.new_variable();
/// engine.delete_variable(|_| (), seriatim::Context::default(), x)?;
/// assert_eq!(engine.version(x).unwrap_err().kind(), seriatim::ErrorKind::VariableDeleted);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorKind {
    /// An operation returned an error that is not an [`Error`] of this crate, or its completion was
    /// given one. The error is the [`source`](std::error::Error::source). An operation that
    /// returned an [`Error`] fails with the kind of that error.
    OperationFailed,
    /// An operation panicked; the message is the panic's.
    OperationPanicked,
    /// An asynchronous operation dropped its [`Completion`](crate::Completion) without completing
    /// or failing it.
    CompletionDropped,
    /// The [`CancelToken`](crate::CancelToken) of an operation was cancelled before the operation
    /// started, so it was skipped.
    Cancelled,
    /// The deadline of an operation had passed before the operation started, so it was skipped.
    DeadlineExceeded,
    /// The variable was deleted before this call, or during a wait.
    VariableDeleted,
    /// The variable belongs to another engine.
    ForeignVariable,
    /// The operator belongs to another engine.
    ForeignOperator,
    /// No device has this number.
    UnknownDevice,
    /// The device exists in principle, but this build, machine or process cannot use it, or its
    /// driver has refused a call. The message says which.
    DeviceUnavailable,
    /// The device takes no more work in this process: its driver said so. The message names the
    /// operations that may have caused it.
    DeviceLost,
    /// A stream of the program's cannot be put in order with the engine's, such as one that is
    /// being captured.
    StreamRefused,
    /// The call is for operations that have a stream. This one runs on the processor, or is
    /// asynchronous, or runs on another thread than the one that calls.
    NoStream,
    /// There is no memory left for a buffer: on a device, or within the limit that
    /// [`Builder::gpu_memory`](crate::Builder::gpu_memory) has set. Of the call that makes an
    /// array; or of the operation that fills it, if memory had to be freed first.
    OutOfMemory,
    /// Buffers do not go together, or do not belong to the operation's device.
    BufferMismatch,
    /// As many operations are in flight as the bound allows, and the engine was told not to wait;
    /// or one has more than 8 million variables, or a graph more than 500 million operations. Or a
    /// thread has too many [scopes](crate::Engine::scope) open inside each other.
    EngineFull,
    /// A setting has a value that is not valid; the message lists the valid values.
    BadSetting,
    /// The system refused to start a thread.
    ThreadRefused,
    /// The system refused the real-time priority that the settings ask for, or has none.
    PriorityRefused,
    /// The system refused to lock memory as the settings ask for, or cannot.
    MemoryLockRefused,
    /// A wait inside an operation could wait for that very operation, or a
    /// [scope](crate::Engine::scope) there for an operation that does.
    WaitInsideOperation,
    /// A wait ran out of time; the message names what is pending and behind what.
    TimedOut,
    /// The engine is stopped, or was told of the shutdown.
    Stopped,
    /// A value is in use, in a way that does not go with this use. A [`Data`](crate::Data) or an
    /// array of a device is borrowed already. Or a device has still to copy from or to a
    /// [`PinnedData`](crate::gpu::PinnedData). Or a [`Parameter`](crate::Parameter) is read outside
    /// of its graph. Or a [handle of a library](crate::RunContext::with_handle) is asked for in its
    /// own use. Or an operation or a thread would have a [`Value`](crate::Value) twice.
    BorrowConflict,
    /// An operation borrows a [`Data`](crate::Data) value or an array that it has not declared, or
    /// changes one that it has declared to read.
    UndeclaredAccess,
    /// The variable is private to a graph, and this call is not an operation of that graph.
    PrivateVariable,
    /// An operation is to commute on a variable that was not made for that
    /// ([`Engine::new_commutative_variable`](crate::Engine::new_commutative_variable)), or on a
    /// device.
    CannotCommute,
    /// The process has made four thousand million engines, and has no numbers for more.
    EnginesExhausted,
}

/// What went wrong, where, and what to do about it.
///
/// Cheap to clone. The error of an operation is one object, however many calls return it. The error
/// that the operation's closure returned is kept as the [`source`](std::error::Error::source). If
/// it was an `Error` itself, the new error has the same kind.
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// let x = engine.new_variable();
/// engine.op("parse").writes([x]).push(|_| "12a".parse::<u32>().map(|_| ()))?;
/// let error = engine.wait_for_var(x).unwrap_err();
/// assert_eq!(error.kind(), seriatim::ErrorKind::OperationFailed);
/// assert_eq!(error.operation(), Some("parse"));
/// assert!(error.to_string().contains("invalid digit"));
/// let source = std::error::Error::source(&error).unwrap();
/// assert!(source.is::<std::num::ParseIntError>());
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone)]
pub struct Error(Arc<ErrorDetails>);

struct ErrorDetails {
    kind: ErrorKind,
    operation: Option<&'static str>,
    message: String,
    source: Option<Source>,
    /// Set by `and_more`: the same error without the number of failures that were only counted.
    with_more: Option<Error>,
}

/// What an operation returned as its error.
pub type Source = Box<dyn std::error::Error + Send + Sync>;

impl Drop for ErrorDetails {
    fn drop(&mut self) {
        // This is the user's destructor, and runs on the thread that drops the last clone: its
        // panic is swallowed.
        let source = self.source.take();
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(source))) {
            drop_payload(payload);
        }
    }
}

// An error is not changed after it was made, so an unwinding call cannot leave it half changed.
impl UnwindSafe for Error {}
impl RefUnwindSafe for Error {}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Arc::new(ErrorDetails { kind, operation: None, message: message.into(), source: None, with_more: None }))
    }

    /// Like [`Error::new`], with what it comes from.
    pub(crate) fn with_source(kind: ErrorKind, message: String, source: impl Into<Source>) -> Error {
        let source = Some(source.into());
        Error(Arc::new(ErrorDetails { kind, operation: None, message, source, with_more: None }))
    }

    /// Makes the error of the operation that is called `operation`.
    pub(crate) fn of_operation(operation: &'static str, fault: Fault) -> Error {
        let mut inner = fault.into_details();
        inner.operation = Some(operation);
        Error(Arc::new(inner))
    }

    /// Makes the error of a call that is no operation's.
    pub(crate) fn of_call(fault: Fault) -> Error {
        Error(Arc::new(fault.into_details()))
    }

    /// The same error, which also tells of `more` failures that were only counted.
    pub(crate) fn and_more(self, more: usize) -> Error {
        let (kind, operation) = (self.0.kind, self.0.operation);
        let message = format!("{self} (and {more} more failed, whose errors were not kept)");
        Error(Arc::new(ErrorDetails { kind, operation, message, source: None, with_more: Some(self) }))
    }

    /// What went wrong, to match on.
    ///
    /// ```
    /// let error = "sideways".parse::<seriatim::Kind>().unwrap_err();
    /// assert_eq!(error.kind(), seriatim::ErrorKind::BadSetting);
    /// ```
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The name of the operation that failed, if one did.
    ///
    /// ```
    /// let error = "sideways".parse::<seriatim::Kind>().unwrap_err();
    /// assert_eq!(error.operation(), None);
    /// ```
    pub fn operation(&self) -> Option<&str> {
        self.0.operation
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorDetails { kind, operation, ref message, ref source, ref with_more } = *self.0;
        let (Some(operation), None) = (operation, with_more) else {
            return f.write_str(message);
        };
        match kind {
            // With a source, this operation did not panic: it returned the error of another one
            // that did.
            ErrorKind::OperationPanicked if source.is_none() => {
                write!(f, "operation '{operation}' panicked: {message}")
            }
            _ => write!(f, "operation '{operation}' failed: {message}"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}: {self})", self.kind())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.with_more {
            Some(error) => error.source(),
            None => self.0.source.as_deref().map(|source| source as _),
        }
    }
}

/// The failure of one operation, shared by every variable that it marked. The first wait that meets
/// it takes it. This clears it on all variables at once, with one exception: operations that the
/// same thread pushed before that wait are skipped, whether they come to run before the wait
/// returns or after.
#[derive(Debug)]
pub struct Failure {
    pub error: Error,
    /// The operation's number in push order, by which `wait_for_all` finds the first of several
    /// failures.
    pub sequence: u64,
    /// The stamp of the wait that took the failure; 0 before.
    taken: AtomicU64,
    /// If the failure is only counted: where, and how many sweeps there had been before it.
    counted: Option<(Arc<Beyond>, u32)>,
}

/// The failures of an engine that are only counted, because `Failures` in `src/engine/failures.rs`
/// was full when they came. Each is known only to the variables that it marked.
///
/// In the lower half, how many of them no wait has taken: if it is full, further ones are not
/// counted. In the upper half, how many sweeps there were: waits for everything, which took all of
/// them. It is one word, so each failure is either swept or taken through a variable.
#[derive(Debug, Default)]
pub struct Beyond(AtomicU64);

impl Beyond {
    /// Takes all of them, for a wait for everything, and returns how many there were.
    pub fn sweep(&self) -> usize {
        let swept = |now: u64| (now as u32 != 0).then(|| ((now >> 32) + 1) << 32);
        // AcqRel, as in `Failure::take`: pairs with the acquires in `sweeps` and `add`, and this
        // thread clears the failures before anything that it does later.
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, swept).map_or(0, |before| before as u32 as usize)
    }

    fn sweeps(&self) -> u32 {
        (self.0.load(Ordering::Acquire) >> 32) as u32
    }

    /// Counts one more, and returns how many sweeps there were before it.
    fn add(&self) -> u32 {
        let more = |now: u64| (now as u32 != u32::MAX).then(|| now + 1);
        match self.0.fetch_update(Ordering::Acquire, Ordering::Acquire, more) {
            Ok(before) | Err(before) => (before >> 32) as u32,
        }
    }

    /// Counts one less, if there was no sweep since; says whether that is so.
    fn remove(&self, sweeps: u32) -> bool {
        let less = |now: u64| ((now >> 32) as u32 == sweeps).then(|| now - 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

/// When and by which thread something was pushed: a push's number, and the number of the pusher's
/// thread cache. Stamps of one cache can be compared.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Stamp(u64);

impl Stamp {
    const SEQUENCE: u32 = 48;

    /// The stamp of a wait that follows everything. It compares with no other stamp, since no
    /// operation in flight was pushed before such a wait.
    pub const LAST: Stamp = Stamp(1);

    /// The stamp of an operation that the owner of cache number `cache` pushed. A cache number that
    /// a stamp has no room for becomes 0, and such a stamp compares with no other.
    pub fn new(cache: u32, sequence: u64) -> Stamp {
        let cache = u16::try_from(cache + 1).unwrap_or(0);
        Stamp(u64::from(cache) << Stamp::SEQUENCE | sequence & ((1 << Stamp::SEQUENCE) - 1))
    }

    /// The operation's number in push order.
    pub fn sequence(self) -> u64 {
        self.0 & ((1 << Stamp::SEQUENCE) - 1)
    }

    fn is_before(self, other: Stamp) -> bool {
        let (cache, others) = (self.0 >> Stamp::SEQUENCE, other.0 >> Stamp::SEQUENCE);
        cache != 0 && cache == others && self.0 < other.0
    }
}

impl Failure {
    pub fn new(error: Error, sequence: u64) -> Failure {
        Failure { error, sequence, taken: AtomicU64::new(0), counted: None }
    }

    /// Like [`Failure::new`], but for a failure that is only counted, in `beyond`: no list keeps
    /// it, only the variables that it marked know it.
    pub fn beyond(error: Error, sequence: u64, beyond: &Arc<Beyond>) -> Failure {
        Failure { counted: Some((Arc::clone(beyond), beyond.add())), ..Failure::new(error, sequence) }
    }

    /// Whether a sweep has taken the failure, with all others that are only counted.
    fn is_swept(&self) -> bool {
        self.counted.as_ref().is_some_and(|(beyond, sweeps)| beyond.sweeps() != *sweeps)
    }

    /// Whether no wait has taken the error yet.
    pub fn is_live(&self) -> bool {
        self.taken.load(Ordering::Acquire) == 0 && !self.is_swept()
    }

    /// Whether an operation that was pushed at `stamp` is to be skipped because of this failure.
    pub fn concerns(&self, stamp: Stamp) -> bool {
        match self.taken.load(Ordering::Acquire) {
            0 => !self.is_swept(),
            taken => stamp.is_before(Stamp(taken)),
        }
    }

    /// Takes the error, for a wait that was pushed at `stamp`; only the first call gets it.
    pub fn take(&self, stamp: Stamp) -> Option<Error> {
        if self.is_swept() {
            return None;
        }
        // AcqRel: pairs with the acquires in `is_live` and `concerns`; the thread that takes the
        // failure clears it before anything that it does later.
        let first = self.taken.compare_exchange(0, stamp.0, Ordering::AcqRel, Ordering::Relaxed);
        // A sweep at the same time may have told it already.
        let is_told = || self.counted.as_ref().is_some_and(|(beyond, sweeps)| !beyond.remove(*sweeps));
        (first.is_ok() && !is_told()).then(|| self.error.clone())
    }
}
