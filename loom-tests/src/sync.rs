//! What `capi/src/sync.rs` and `tensor/src/storage/sync.rs` have, for the files of the C interface
//! and of the arrays' storage that are included here.

pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Whether a model checker runs the code.
pub const MODELLED: bool = true;

/// A function that makes atomics.
macro_rules! constant {
    ($($function:tt)*) => { $($function)* };
}
pub(crate) use constant;

/// Null pointers.
pub fn nulls<T, const N: usize>() -> [AtomicPtr<T>; N] {
    std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut()))
}
