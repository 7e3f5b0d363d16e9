//! The storage of the arrays: its own files, with loom's atomics. What the models do not call of
//! them is unused here.

#![allow(dead_code, private_interfaces)]

pub(crate) use crate::sync;

#[path = "../../tensor/src/storage/classes.rs"]
mod classes;
#[path = "../../tensor/src/storage/copies.rs"]
pub mod copies;
#[path = "../../tensor/src/storage/counts.rs"]
mod counts;
#[path = "../../tensor/src/storage/device.rs"]
mod device;
#[path = "../../tensor/src/storage/handle.rs"]
mod handle;
#[path = "../../tensor/src/storage/memory.rs"]
pub mod memory;
#[path = "../../tensor/src/storage/owners.rs"]
pub mod owners;
#[path = "../../tensor/src/storage/pool.rs"]
mod pool;
#[path = "../../tensor/src/storage/settings.rs"]
mod settings;
#[path = "../../tensor/src/storage/slots.rs"]
pub mod slots;
#[path = "../../tensor/src/storage/tags.rs"]
pub mod tags;

pub use classes::Pooling;
pub use handle::Handle;
pub use pool::Storage;
pub use tags::Tag;
