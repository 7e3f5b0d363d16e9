//! The one door to atomics, threads, thread-locals and the mutex: std in the library, loom under
//! `--cfg loom`, shuttle under `--cfg shuttle`, a machine of many cores under `--cfg
//! seriatim_simulation`.
//!
//! Everything that synchronises takes what it needs from here, so that the models in `loom-tests/`
//! explore the code that ships and not a copy of it: the whole engine, not only its parts.

#![forbid(unsafe_code)]

/// Whether a model checker runs the code. Capacities shrink then, so that every path is reached by
/// few operations, and nobody looks again and again before parking: to a model that is the same
/// look.
pub const MODELLED: bool = cfg!(any(loom, shuttle));

/// How often to look before parking. To Miri, which takes a thousand times as long, each look would
/// be one too many.
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

/// What the simulation is told of plain data and of epochs: nothing, where time is real.
#[cfg(not(seriatim_simulation))]
mod untold {
    pub use std::time::Instant;

    /// A row of plain data is about to be read or written.
    #[inline(always)]
    pub fn touch<T: ?Sized>(_: *const T, _: usize, _: bool) {}

    /// What lies in memory.
    #[inline(always)]
    pub fn lay_out<T: ?Sized>(_: *const T, _: usize, _: usize, _: &'static str) {}

    /// A member of an epoch is pinned.
    #[inline(always)]
    pub fn pinned<T>(_: &T) {}

    /// A call is deferred.
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
