//! `Error`, the one error type of the crate: what went wrong, where, and what to do.
//!
//! Every call that can fail returns it. An operation that fails returns it to the engine, which
//! keeps it as the source of its own error. The conversion from the engine's error finds it there
//! again.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;

/// What went wrong. More kinds may be added: match with a wildcard.
///
/// ```
/// use seriatim_tensor::{ErrorKind, NDArray};
/// let refused = NDArray::from_slice(&[1.0f32, 2.0], [3]).unwrap_err();
/// assert_eq!(refused.kind(), ErrorKind::ShapeMismatch);
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorKind {
    /// The engine refused a push or a wait, or an operation panicked. The engine's error is the
    /// [`source`](std::error::Error::source).
    Engine,
    /// The storage's limit is reached, or the system has no more memory.
    OutOfMemory,
    /// A shape has too many dimensions, or more elements than memory can have.
    TooLarge,
    /// Shapes do not go together.
    ShapeMismatch,
    /// Element types do not go together, or an operator has no kernel for one.
    UnsupportedType,
    /// The arrays belong to different runtimes, and so to different engines or storages.
    ForeignArray,
    /// There is no such device, no storage there, or no kernel for it.
    UnsupportedContext,
    /// Arrays of different contexts are used in one call that has no way from one to the other.
    ContextMismatch,
    /// The driver of a device has refused work that was queued, or the device is lost. The engine's
    /// error is the [`source`](std::error::Error::source).
    DeviceFailed,
    /// An array is read that nothing has written.
    Unwritten,
    /// An axis, index or range lies outside of the array.
    OutOfRange,
    /// The call would write to a view that shows one element at several places.
    OverlappingView,
    /// The array's memory was lent to be read only, and an operation writes to it.
    ReadOnly,
    /// No operator has the name.
    UnknownOperator,
    /// An operator of the name is registered already.
    AlreadyRegistered,
    /// A parameter is unknown, missing, ill-formed, or out of its range.
    BadParameter,
    /// The operator has another number of arguments.
    WrongArguments,
    /// The operator has no gradient.
    NoGradient,
    /// The array has no gradient attached, or was not computed while recording.
    NotRecorded,
    /// The call may not be used while operations are recorded.
    Recording,
    /// The call may not be used while a step is captured, or not in a captured step.
    Capturing,
    /// The array was made inside of a captured step, which has not returned it.
    InsideStep,
    /// A file or a text is not of the format that it should have.
    BadFormat,
    /// The system refused to read or write a file. Its error is the
    /// [`source`](std::error::Error::source).
    Io,
}

type Source = Arc<dyn std::error::Error + Send + Sync>;

/// What went wrong, where, and what to do about it. Cheap to clone.
///
/// The error of an operation that failed is returned where the program waits. It names the
/// operation, and the shapes and types of its arguments; an operation that was skipped because of
/// it has the same error.
///
/// ```
/// use seriatim_tensor::{DType, ErrorKind, NDArray};
/// let empty = NDArray::empty([2, 3], DType::F32)?;
/// let error = empty.to_vec::<f32>().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Unwritten);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[derive(Clone)]
pub struct Error(Arc<Details>);

struct Details {
    kind: ErrorKind,
    message: String,
    source: Option<Source>,
}

impl Error {
    /// An error of this kind with this message. For crates that register operators too.
    ///
    /// ```
    /// use seriatim_tensor::{Error, ErrorKind};
    /// let error = Error::new(ErrorKind::BadParameter, "num_hidden is 0: give a number from 1");
    /// assert!(error.to_string().contains("num_hidden"));
    /// ```
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Arc::new(Details { kind, message: message.into(), source: None }))
    }

    /// The same with what it comes from.
    pub(crate) fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Error {
        Error(Arc::new(Details { kind, message: message.into(), source: Some(Arc::new(source)) }))
    }

    /// The same error, told of what it happened in: `place` comes before the message.
    pub(crate) fn within(&self, place: impl fmt::Display) -> Error {
        let Details { kind, ref message, ref source } = *self.0;
        Error(Arc::new(Details { kind, message: format!("{place}: {message}"), source: source.clone() }))
    }

    /// What went wrong, to match on.
    ///
    /// ```
    /// use seriatim_tensor::{Error, ErrorKind};
    /// assert_eq!(Error::new(ErrorKind::NoGradient, "").kind(), ErrorKind::NoGradient);
    /// ```
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}: {self})", self.kind())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// An error of the engine. If it carries an error of this crate, which an operation returned, the
/// new error has the kind of that one.
impl From<seriatim::Error> for Error {
    fn from(error: seriatim::Error) -> Error {
        let inner = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<Error>());
        let kind = inner.map(Error::kind);
        match (kind, error.kind()) {
            // Variables of arrays are deleted with the last handle, but for those of a step.
            (None, seriatim::ErrorKind::PrivateVariable | seriatim::ErrorKind::VariableDeleted) => {
                let message = format!("an array that was made inside of a captured step is used: return it; {error}");
                Error::with_source(ErrorKind::InsideStep, message, error)
            }
            (kind, of) => {
                let kind = kind.unwrap_or(match of {
                    seriatim::ErrorKind::OutOfMemory => ErrorKind::OutOfMemory,
                    seriatim::ErrorKind::DeviceUnavailable | seriatim::ErrorKind::DeviceLost => ErrorKind::DeviceFailed,
                    _ => ErrorKind::Engine,
                });
                Error::with_source(kind, error.to_string(), error)
            }
        }
    }
}
