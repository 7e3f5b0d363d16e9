//! The failure of an operation: the exception, and until when it marks what the operation changes.
//!
//! Used by `operation.rs`, `pending.rs`, `resource.rs` and `shared.rs`, on any attached thread. The
//! library has failures of its own, but of them a skipped operation does not learn which exception
//! was the cause. So the engine orders operations, and is not told that one has failed.

use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// `taken` of a failure that no wait has taken.
const LIVE: u64 = u64::MAX;

pub struct Failure {
    pub exception: Py<PyAny>,
    /// The operation's name.
    pub name: String,
    /// The number of the operation that failed, in the order of pushes.
    pub order: u64,
    /// What was pushed before this number is concerned: it counted on what the operation would do.
    taken: AtomicU64,
}

impl Failure {
    pub fn new(exception: Py<PyAny>, name: String, order: u64) -> Failure {
        Failure { exception, name, order, taken: AtomicU64::new(LIVE) }
    }

    /// Whether an operation with this number is skipped for the failure.
    pub fn concerns(&self, order: u64) -> bool {
        order < self.taken.load(Acquire)
    }

    /// Whether no wait has taken it.
    pub fn is_live(&self) -> bool {
        self.taken.load(Acquire) == LIVE
    }

    /// Takes it, as of now; says whether this was the first time. What is pushed from now on is not
    /// skipped for it.
    pub fn take(&self, now: u64) -> bool {
        self.taken.compare_exchange(LIVE, now, AcqRel, Acquire).is_ok()
    }
}
