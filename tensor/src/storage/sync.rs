//! The atomics of the storage and of the heads of arrays.
//!
//! Used by `slots.rs`, `owners.rs`, `pool.rs` and others. `loom-tests/src/sync.rs` is this module
//! where the models include those files, and has loom's. What is added here has to be added there.

#![forbid(unsafe_code)]

pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Whether a model checker runs the code.
pub(crate) const MODELLED: bool = false;
