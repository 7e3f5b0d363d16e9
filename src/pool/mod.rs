//! Object pools for operation blocks.
//!
//! Every thread that pushes has a [`home::ThreadCache`] with a private stock: allocating is popping a list
//! that nobody else sees. A thread that frees another home's blocks collects them and sends them
//! back as a [`magazine::Magazine`], one compare-exchange for up to 32 blocks. Blocks come back to
//! the stock at once while only one thread can look at tails, and through [`reclaim`] otherwise.
//! `object-pool` deals out the magazines that homes have too many of; it locks inside, and is
//! touched only when a stock has run dry or over.
//!
//! No call walks more than a slice of what there is: many magazines change hands as a
//! [`rack::MagazineList`], in one step, and what has to be looked at one by one is, a few dozen at a time,
//! by the calls that come later. [`home`] has the bound.

pub mod depot;
pub mod magazine;
pub mod memory;
pub mod rack;
pub mod readers;
pub mod reclaim;
pub mod registry;
pub mod shelf;
pub mod slabs;
pub mod stack;
pub mod thread_cache;
