//! The three ways to run ready operations, one for each [`Kind`] of engine: implementations of
//! [`Dispatch`], which `core.rs` defines.
//!
//! Used by `src/api/engine.rs`, which makes one for each engine; all else goes through the trait,
//! on any thread. Which worker runs what is decided here; how workers share it, in `src/worker/`.
//! Devices have workers of their own (`src/engine/gpu/submit.rs`). No state here.

pub mod naive;
pub mod per_device;
pub mod pooled;

use crate::engine::core::Dispatch;
use crate::engine::dispatch::naive::Naive;
use crate::engine::dispatch::per_device::PerDevice;
use crate::engine::dispatch::pooled::Pooled;
use crate::engine::settings::{Kind, Settings};

/// Makes what runs the operations of an engine with these settings. Called by `src/api/engine.rs`.
pub fn of(settings: &Settings) -> Box<dyn Dispatch> {
    match settings.kind {
        Kind::Naive => Box::new(Naive::new()),
        Kind::Pooled => Box::new(Pooled::new(settings)),
        Kind::PerDevice => Box::new(PerDevice::new(settings)),
    }
}
