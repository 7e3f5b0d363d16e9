//! The one door to atomics, threads, thread-locals and the mutex: std in the library, loom under `--cfg loom`, shuttle under
//! `--cfg shuttle`.
//!
//! Everything that synchronises takes what it needs from here, so that the models in `loom-tests/` explore the code that ships and not
//! a copy of it: the whole engine, not only its parts.

#![forbid(unsafe_code)]

/// Whether a model checker runs the code. Capacities shrink then, so that every path is reached by few operations, and nobody looks
/// again and again before parking: to a model that is the same look.
pub const MODELLED: bool = cfg!(any(loom, shuttle));

/// How often to look before parking.
pub const fn looks(count: u32) -> u32 {
    if MODELLED {
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

pub use backend::*;

#[cfg(not(any(loom, shuttle)))]
mod backend {
    pub use std::hint::spin_loop;
    pub use std::sync::atomic::{fence, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering};
    pub use std::sync::{Mutex, MutexGuard};
    pub use std::thread;
    pub use std::thread_local;
}
