//! The primitives of the engine under shuttle. `sync/loom.rs` has the same list for loom,
//! `sync/mod.rs` for std, and `sim/src/lib.rs` for the simulated machine (its types are in
//! `sim/src/atomics.rs`). A primitive that is added has to be added to all four.

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
