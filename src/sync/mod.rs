//! The only module through which the crate uses atomics, threads, thread-locals and the mutex. They
//! are std's in the library, loom's under `--cfg loom` and shuttle's under `--cfg shuttle`. Under
//! `--cfg seriatim_simulation` they are those of the simulated machine in `sim/`.
//!
//! All code that synchronises takes its primitives from here. So the models in `loom-tests/`
//! explore the code that ships and not a copy of it: the whole engine, not only its parts.

#![forbid(unsafe_code)]

/// Whether a model checker runs the code. Capacities shrink then, so that few operations reach
/// every path, and no thread spins before it parks: to a model, all looks are the same.
pub const MODELLED: bool = cfg!(any(loom, shuttle));

/// Returns how often to look before parking. Miri takes a thousand times as long, so it does not
/// look at all.
pub const fn looks(count: u32) -> u32 {
    if MODELLED || cfg!(miri) {
        0
    } else {
        count
    }
}

#[cfg(loom)]
#[path = "loom.rs"]
mod backend;
#[cfg(shuttle)]
#[path = "shuttle.rs"]
mod backend;
#[cfg(seriatim_simulation)]
mod backend {
    pub use seriatim_sim::*;
}

pub use backend::*;

pub mod lock;

/// The calls by which the engine tells a simulation of plain data and of epochs. They do nothing
/// here, where time is real; `sim/src/lib.rs` has the others.
#[cfg(not(seriatim_simulation))]
mod untold {
    pub use std::time::Instant;

    /// Says that a row of plain data is about to be read or written.
    #[inline(always)]
    pub fn touch<T: ?Sized>(_: *const T, _: usize, _: bool) {}

    /// Says what lies in memory.
    #[inline(always)]
    pub fn lay_out<T: ?Sized>(_: *const T, _: usize, _: usize, _: &'static str) {}

    /// Says that a member of the epoch is pinned.
    #[inline(always)]
    pub fn pinned<T>(_: &T) {}

    /// Says that a call is deferred to the end of the epoch.
    #[inline(always)]
    pub fn deferred() {}
}
#[cfg(not(seriatim_simulation))]
pub use untold::*;

#[cfg(not(any(loom, shuttle, seriatim_simulation)))]
mod backend {
    pub use std::hint::spin_loop;
    pub use std::sync::atomic::{fence, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering};
    pub use std::sync::{Mutex, MutexGuard};
    pub use std::thread;
    pub use std::thread_local;
}
