//! The private part of a thread cache for one size class: its free and its spent blocks. Only the
//! owner of the cache touches it, in `pool/thread_cache.rs` and `pool/sorting.rs`, which has the
//! bounds and the way to the depot.

use crate::pool::magazine::{self, Magazine};
use crate::pool::magazine_list::{DetachedList, MagazineList};

/// The owner keeps this many full magazines of a class before it gives some to the depot.
const KEEP: usize = 256;

/// A thread cache's free and spent blocks of one class.
pub struct ClassCache {
    pub class: u8,
    /// The number of blocks in a full magazine.
    pub full: usize,
    /// Free blocks, to be allocated next.
    pub stock: Magazine,
    /// Free magazines, to be used when the stock is dry.
    pub ready: MagazineList,
    /// Spent blocks that other threads may still look at: `limbo` collects a magazine, `spent` has
    /// full ones.
    pub limbo: Magazine,
    pub spent: MagazineList,
    /// Magazines that were taken from `incoming` and from `safe` and are not sorted yet.
    pub arrived: DetachedList,
    pub released: DetachedList,
}

impl ClassCache {
    pub fn new(class: u8) -> ClassCache {
        ClassCache {
            class,
            full: magazine::size(class),
            stock: Magazine::new(),
            ready: MagazineList::new(),
            limbo: Magazine::new(),
            spent: MagazineList::new(),
            arrived: DetachedList::new(),
            released: DetachedList::new(),
        }
    }

    /// Whether a cache should not keep a list so long.
    pub fn is_too_much(&self, list: &MagazineList) -> bool {
        list.blocks() > KEEP * self.full
    }
}
