//! What a panic carried. Used by `error.rs`, `error/fault.rs`, `util/spans.rs` and
//! `util/waker_cell.rs`, on the thread that caught the panic.

#![forbid(unsafe_code)]

use std::any::Any;
use std::mem::forget;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Drops what a panic carried. If its destructor panics, that must not end the thread.
pub fn drop_payload(payload: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        forget(again);
    }
}
