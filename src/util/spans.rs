//! What `tracing` is told of operations, with the feature of that name: a span around each call of
//! a named operation's closure, and an event for each failure. Without the feature the functions
//! here are empty. Used by `operation/closure.rs`, `operation/async_closure.rs`,
//! `engine/future/computed.rs` and `engine/replay/`, where closures are called, and by
//! `engine/failures.rs`; on the thread that calls or that notes the failure. The subscriber is the
//! program's, so its code is user code: closures are called where panics are caught.

#![forbid(unsafe_code)]

#[cfg(feature = "tracing")]
use crate::util::payload::drop_payload;
use std::fmt::Display;
#[cfg(feature = "tracing")]
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Where spans and events are from, for filters.
#[cfg(feature = "tracing")]
const TARGET: &str = "seriatim";

/// The span of a call, which ends when this is dropped. Nothing without the feature.
pub struct CallSpan {
    #[cfg(feature = "tracing")]
    _entered: Option<tracing::span::EnteredSpan>,
}

/// The calling thread is about to call the closure of an operation.
#[inline(always)]
pub fn call(operation: &'static str) -> CallSpan {
    #[cfg(not(feature = "tracing"))]
    let _ = operation;
    CallSpan {
        #[cfg(feature = "tracing")]
        _entered: (!operation.is_empty())
            .then(|| tracing::trace_span!(target: TARGET, "operation", operation).entered()),
    }
}

/// An operation has failed.
#[inline(always)]
pub fn failed(error: &dyn Display) {
    #[cfg(not(feature = "tracing"))]
    let _ = error;
    #[cfg(feature = "tracing")]
    catch_unwind(AssertUnwindSafe(|| tracing::error!(target: TARGET, "{error}"))).unwrap_or_else(drop_payload);
}
