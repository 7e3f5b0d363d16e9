//! The one door to atomics: std in the library, loom under `--cfg loom`.
//!
//! Everything that the models in `loom-tests/` explore takes its atomics from here, so that they run the code that
//! ships and not a copy of it.

#![forbid(unsafe_code)]

#[cfg(not(loom))]
pub use std::sync::atomic::{fence, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering};

#[cfg(loom)]
pub use loom::sync::atomic::{fence, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering};
