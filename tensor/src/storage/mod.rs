//! Storage: memory that is given out, comes back, and is given out again.
//!
//! `pool.rs` has the storage, `settings.rs` how it is chosen, `handle.rs` its blocks, `memory.rs`
//! what arrays lie in, `classes.rs` the sizes, `counts.rs` the statistics, `tags.rs` the names for
//! them, `slots.rs` the lists without a lock, `owners.rs` how many have a record, `sync.rs` their
//! atomics, and `copies.rs` lists of values in blocks. `device.rs` has memory of devices, by the
//! engine, and `by_context.rs` what there is once for each context.
//! Programs use [`Storage`] by itself, or leave it to the arrays.

pub(crate) mod by_context;
mod classes;
pub(crate) mod copies;
pub(crate) mod counts;
pub(crate) mod device;
mod handle;
pub(crate) mod memory;
pub(crate) mod owners;
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
