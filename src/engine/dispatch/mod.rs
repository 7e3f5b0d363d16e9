//! The three ways to run operations.

pub mod naive;
pub mod per_device;
pub mod pooled;

use crate::engine::core::Dispatch;
use crate::engine::dispatch::naive::Naive;
use crate::engine::dispatch::per_device::PerDevice;
use crate::engine::dispatch::pooled::Pooled;
use crate::engine::settings::{Kind, Settings};

/// What runs the operations of an engine with such settings.
pub fn of(settings: &Settings) -> Box<dyn Dispatch> {
    match settings.kind {
        Kind::Naive => Box::new(Naive::new()),
        Kind::Pooled => Box::new(Pooled::new(settings)),
        Kind::PerDevice => Box::new(PerDevice::new(settings)),
    }
}
