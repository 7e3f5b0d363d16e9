//! What the models share: a runner that refuses vacuous models, and operations over the library's own protocol code.
//!
//! Everything here exists under `--cfg loom` only: run the models with `scripts/loom.sh`.

#![cfg(loom)]

mod blocks;
mod guarded;
mod program;
mod runner;

pub use blocks::Blocks;
pub use guarded::Guarded;
pub use program::{Program, Trace, Var};
pub use runner::{explore, spawn};
