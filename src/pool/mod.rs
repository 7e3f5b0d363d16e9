//! Object pools for operation blocks.
//!
//! Every thread that pushes has a [`thread_cache::ThreadCache`] with a private stock, so allocating
//! is popping a list that no other thread sees. A thread that frees another cache's blocks collects
//! them, and sends them back as a [`magazine::Magazine`]: one compare-exchange for up to 32 blocks.
//! Spent blocks go back to the stock at once while only one thread is a registered reader, and
//! through [`reclaim`] otherwise. The [`depot`] deals out the magazines that caches have too many
//! of. It locks inside, and is used only when a stock has run dry or over.
//!
//! No call walks more than a slice of the blocks. Many magazines change hands as a
//! [`magazine_list::MagazineList`], in one step. Magazines that have to be looked at one by one are
//! looked at by later calls, a few dozen at a time. `sorting.rs` has the bound.
//!
//! Threads allocate and free through `thread/context.rs`. `engine/diagnose.rs` walks the blocks to
//! show what is pending.

pub mod beside_epoch;
pub mod class_cache;
pub mod depot;
pub mod locked;
pub mod magazine;
pub mod magazine_list;
pub mod memory;
pub mod readers;
pub mod reclaim;
pub mod registry;
pub mod slabs;
mod sorting;
pub mod stack;
pub mod thread_cache;
