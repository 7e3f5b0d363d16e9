//! What the models share: runners that refuse vacuous models, values that detect simultaneous use,
//! and operations over the library's own protocol code.
//!
//! Everything here exists under `--cfg loom` or `--cfg shuttle` only: run the models with
//! `scripts/loom.sh`.

#![cfg(any(loom, shuttle))]

mod blocks;
mod guarded;
pub mod mixed;
mod places;
pub mod pushers;

pub use blocks::Blocks;
pub use guarded::Guarded;
pub use places::Places;

#[cfg(loom)]
#[allow(dead_code, unused_imports, unused_macros)]
#[path = "../../tensor/src/dtype.rs"]
mod dtype;
#[cfg(loom)]
#[allow(dead_code)]
#[path = "../../tensor/src/error.rs"]
mod error;
/// The handles of the C interface: its own files, with loom's atomics.
#[cfg(loom)]
#[path = "../../capi/src/handle.rs"]
pub mod handle;
#[cfg(loom)]
#[path = "../../capi/src/stock.rs"]
pub mod stock;
/// The arrays' storage, and what its files need.
#[cfg(loom)]
pub mod storage;
#[cfg(loom)]
mod sync;

#[cfg(loom)]
mod owners;
#[cfg(loom)]
mod runner;
#[cfg(loom)]
mod waits;

#[cfg(loom)]
pub use owners::{Model, Step, Uses};
#[cfg(loom)]
pub use runner::{explore, explore_light_fences, explore_once, spawn};
#[cfg(loom)]
pub use waits::explore_wait_for_another_thread_s_write;

#[cfg(shuttle)]
mod schedules;
#[cfg(shuttle)]
pub use schedules::schedules;
