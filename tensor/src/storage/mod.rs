//! Storage: memory that is given out, comes back, and is given out again.
//!
//! `pool.rs` has the storage, `settings.rs` how it is chosen, `handle.rs` its blocks, `memory.rs`
//! what arrays lie in, `classes.rs` the sizes, `counts.rs` the statistics, `tags.rs` the names for
//! them, `slots.rs` the lists without a lock, `sync.rs` their atomics, and `boxed.rs` values in
//! blocks. `device.rs` has memory of devices, by the engine, and `by_context.rs` what there is once
//! for each context.
//! Programs use [`Storage`] by itself, or leave it to the arrays.

pub(crate) mod boxed;
pub(crate) mod by_context;
mod classes;
pub(crate) mod counts;
pub(crate) mod device;
mod handle;
pub(crate) mod memory;
mod pool;
mod settings;
pub(crate) mod slots;
pub(crate) mod sync;
pub(crate) mod tags;

pub use classes::Pooling;
pub use counts::Statistics;
pub use handle::Handle;
pub use pool::Storage;
pub use settings::StorageBuilder;
pub use tags::Tag;
