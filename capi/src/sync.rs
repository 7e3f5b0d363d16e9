//! The atomics of `stock.rs` and `handle.rs`. `loom-tests/src/sync.rs` is this module where the
//! models include those files, and has loom's. What is added here has to be added there.

pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// Whether a model checker runs the code.
pub(crate) const MODELLED: bool = false;

/// A function that makes atomics: `const` here, which loom's are not.
macro_rules! constant {
    ($(#[$attribute:meta])* $visible:vis fn $($rest:tt)*) => { $(#[$attribute])* $visible const fn $($rest)* };
}
pub(crate) use constant;

/// Null pointers.
pub const fn nulls<T, const N: usize>() -> [AtomicPtr<T>; N] {
    [const { AtomicPtr::new(std::ptr::null_mut()) }; N]
}
