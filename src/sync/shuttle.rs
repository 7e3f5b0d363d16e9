//! The primitives of the engine under shuttle. `sync/loom.rs` has the same list for loom, and
//! `sync/mod.rs` for std; a primitive that is added has to be added to each.

pub use shuttle::hint::spin_loop;
pub use shuttle::sync::atomic::{fence, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering};
pub use shuttle::sync::{Mutex, MutexGuard};
pub use shuttle::thread_local;

pub mod thread {
    pub use shuttle::thread::*;

    /// Time does not pass in a model: a thread that would wait for it lets the others go first.
    pub fn park_timeout(_: std::time::Duration) {
        yield_now();
    }
}
