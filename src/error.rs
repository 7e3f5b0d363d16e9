//! The one error type of the crate, and the failure that travels along variables.

#![forbid(unsafe_code)]

use crate::mutants::mutate;
use crate::sync::{AtomicU64, Ordering};
use std::fmt;
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
    /// An operation returned an error, or its completion was told of one.
    OperationFailed,
    /// An operation panicked; the message is the panic's.
    OperationPanicked,
    /// An asynchronous operation dropped its [`Completion`](crate::Completion) without completing or failing it.
    CompletionDropped,
    /// The variable was deleted before this call.
    VariableDeleted,
    /// The variable belongs to another engine.
    ForeignVariable,
    /// The operator belongs to another engine.
    ForeignOperator,
    /// No device has this number.
    UnknownDevice,
    /// The device exists in principle, but this build or machine cannot use it.
    DeviceUnavailable,
    /// As many operations are in flight as the bound allows, and the engine was told not to wait.
    EngineFull,
    /// A setting has a value that is not valid; the message lists those that are.
    BadSetting,
    /// The system refused to start a thread.
    ThreadRefused,
    /// A wait inside an operation could wait for that very operation.
    WaitInsideOperation,
    /// The time was up first; the message names what is pending and behind what.
    TimedOut,
    /// The engine is stopped, or was told of the shutdown.
    Stopped,
    /// A [`Data`](crate::Data) value is in use in a way that its operation did not declare.
    BorrowConflict,
}

/// What went wrong, where, and what to do about it.
///
/// Cheap to clone. An error that one operation causes is shared by all who learn of it.
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// let x = engine.new_variable();
/// engine.op("parse").writes([x]).push(|_| "12a".parse::<u32>().map(|_| ()))?;
/// let error = engine.wait_for_var(x).unwrap_err();
/// assert_eq!(error.kind(), seriatim::ErrorKind::OperationFailed);
/// assert_eq!(error.operation(), Some("parse"));
/// assert!(error.to_string().contains("invalid digit"));
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    operation: Option<&'static str>,
    message: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Arc::new(Inner { kind, operation: None, message: message.into() }))
    }

    pub(crate) fn of_operation(kind: ErrorKind, operation: &'static str, message: String) -> Error {
        Error(Arc::new(Inner { kind, operation: Some(operation), message }))
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
        let message = &self.0.message;
        let Some(operation) = self.0.operation else {
            return f.write_str(message);
        };
        match self.0.kind {
            ErrorKind::OperationPanicked => write!(f, "operation '{operation}' panicked: {message}"),
            _ => write!(f, "operation '{operation}' failed: {message}"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}: {self})", self.kind())
    }
}

impl std::error::Error for Error {}

/// Why an operation failed, before it is known which one it was.
#[derive(Debug)]
pub struct Fault {
    pub kind: ErrorKind,
    pub message: String,
}

impl Fault {
    pub fn failed(message: String) -> Fault {
        Fault { kind: ErrorKind::OperationFailed, message }
    }

    /// The fault of an operation that unwound with `payload`.
    pub fn panicked(payload: Box<dyn std::any::Any + Send>) -> Fault {
        let message = if let Some(text) = payload.downcast_ref::<&str>() {
            (*text).to_owned()
        } else if let Some(text) = payload.downcast_ref::<String>() {
            text.clone()
        } else {
            "(the panic carried no message)".to_owned()
        };
        // A payload whose destructor panics must not take the worker with it.
        if let Err(again) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(again);
        }
        Fault { kind: ErrorKind::OperationPanicked, message }
    }
}

/// The failure of one operation, shared by every variable that it marked. The first wait that meets it takes it, which
/// clears it everywhere at once, but for operations that the same thread pushed before that wait: they are skipped
/// whether they come to run before the wait returns or after.
#[derive(Debug)]
pub struct Failure {
    pub error: Error,
    /// The push order of the operation, by which `wait_for_all` finds the first of several.
    pub sequence: u64,
    /// The stamp of the wait that took it, 0 before.
    taken: AtomicU64,
}

/// When and where something was pushed: comparable among the pushes of one home.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp(u64);

impl Stamp {
    const SEQUENCE: u32 = 48;

    /// For a wait that follows everything: no operation in flight was pushed before it.
    pub const LAST: Stamp = Stamp(1);

    /// Of an operation that the owner of the home of that number pushed. Past what a stamp has room for homes are none, which compares with nothing.
    pub fn new(home: u32, sequence: u64) -> Stamp {
        let home = u16::try_from(home + 1).unwrap_or(0);
        Stamp(u64::from(home) << Stamp::SEQUENCE | sequence & ((1 << Stamp::SEQUENCE) - 1))
    }

    /// Its number in the order of pushes.
    pub fn sequence(self) -> u64 {
        self.0 & ((1 << Stamp::SEQUENCE) - 1)
    }

    fn is_before(self, other: Stamp) -> bool {
        let (home, others) = (self.0 >> Stamp::SEQUENCE, other.0 >> Stamp::SEQUENCE);
        home != 0 && home == others && self.0 < other.0
    }
}

impl Failure {
    pub fn new(error: Error, sequence: u64) -> Failure {
        Failure { error, sequence, taken: AtomicU64::new(0) }
    }

    /// Whether nobody has taken the error yet.
    pub fn is_live(&self) -> bool {
        self.taken.load(Ordering::Acquire) == 0
    }

    /// Whether an operation that was pushed at `stamp` is to be skipped because of it.
    pub fn concerns(&self, stamp: Stamp) -> bool {
        let taken = self.taken.load(Ordering::Acquire);
        taken == 0 || stamp.is_before(Stamp(taken))
    }

    /// Takes the error, for a wait that was pushed at `stamp`; only the first call gets it.
    pub fn take(&self, stamp: Stamp) -> Option<Error> {
        // AcqRel: the one who takes it clears it before anything that it does later.
        let first = self.taken.compare_exchange(0, stamp.0, Ordering::AcqRel, Ordering::Relaxed);
        mutate!("failure-taken-twice": true, first.is_ok()).then(|| self.error.clone())
    }
}
