//! Object pools for operation blocks.
//!
//! Every thread that pushes has a [`thread_cache::ThreadCache`] with a private stock: allocating is
//! popping a list that nobody else sees. A thread that frees another cache's blocks collects them
//! and sends them back as a [`magazine::Magazine`], one compare-exchange for up to 32 blocks.
//! Blocks come back to the stock at once while one thread only is a registered reader, and through
//! [`reclaim`] otherwise. `object-pool` deals out the magazines that caches have too many of; it
//! locks inside, and is touched only when a stock has run dry or over.
//!
//! No call walks more than a slice of what there is: many magazines change hands as a
//! [`magazine_list::MagazineList`], in one step, and what has to be looked at one by one is, a few
//! dozen at a time, by the calls that come later. [`thread_cache`] has the bound.

pub mod class_cache;
pub mod depot;
pub mod magazine;
pub mod magazine_list;
pub mod memory;
pub mod readers;
pub mod reclaim;
pub mod registry;
pub mod slabs;
pub mod stack;
pub mod thread_cache;
