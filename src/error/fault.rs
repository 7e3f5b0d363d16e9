//! `Fault`, the failure of an operation whose name is not known yet, and who hears of it.
//!
//! `src/operation/closure.rs`, `src/operation/completion.rs` and `src/engine/` make faults, on the
//! thread that runs or ends the operation. `src/engine/failures.rs` makes an [`Error`] of one, and
//! tells the failure to the one that listens: the result that a program has asked for
//! (`src/engine/future/cell.rs`). One thread at a time has a fault.

use super::{Error, ErrorDetails, ErrorKind, Failure, Source};
use crate::util::payload::drop_payload;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// What hears of the failure that a fault becomes.
pub trait HearsFailure: Send {
    /// Called at most once, on the thread that records the failure.
    fn hear(self: Box<Self>, failure: &Arc<Failure>);
}

/// Why an operation failed, before its name is known. It is one word, so that `Result<(), Fault>`
/// is one word too and is returned in a register.
pub struct Fault(Box<FaultDetails>);

struct FaultDetails {
    error: ErrorDetails,
    listener: Option<Box<dyn HearsFailure>>,
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fault({:?}: {})", self.0.error.kind, self.0.error.message)
    }
}

impl Fault {
    pub fn new(kind: ErrorKind, message: String, source: Option<Source>) -> Fault {
        let error = ErrorDetails { kind, operation: None, message, source, with_more: None };
        Fault(Box::new(FaultDetails { error, listener: None }))
    }

    /// Makes the fault of an operation that returned an error. Calls the error's `Display`, which
    /// may unwind.
    pub fn failed(source: Source) -> Fault {
        let kind = source.downcast_ref().map_or(ErrorKind::OperationFailed, Error::kind);
        Fault::new(kind, source.to_string(), Some(source))
    }

    /// Makes the fault of an operation that unwound with `payload`.
    pub fn panicked(payload: Box<dyn Any + Send>) -> Fault {
        let message = if let Some(text) = payload.downcast_ref::<&str>() {
            (*text).to_owned()
        } else if let Some(text) = payload.downcast_ref::<String>() {
            text.clone()
        } else {
            "(the panic carried no message)".to_owned()
        };
        drop_payload(payload);
        Fault::new(ErrorKind::OperationPanicked, message, None)
    }

    /// The same fault, of which `listener` will hear.
    pub fn heard_by(mut self, listener: Box<dyn HearsFailure>) -> Fault {
        self.0.listener = Some(listener);
        self
    }

    /// Takes out who listens.
    pub fn take_listener(&mut self) -> Option<Box<dyn HearsFailure>> {
        self.0.listener.take()
    }

    pub(super) fn into_details(self) -> ErrorDetails {
        self.0.error
    }
}
