//! A thread's free and spent blocks of one class.

use crate::pool::magazine::{self, Magazine};
use crate::pool::magazine_list::{DetachedList, MagazineList};

/// A thread keeps this many full magazines of a class before it gives what it has to the depot.
const KEEP: usize = 256;

/// The blocks.
pub struct ClassCache {
    pub class: u8,
    /// The blocks of a full magazine.
    pub full: usize,
    /// To be handed out.
    pub stock: Magazine,
    /// To be handed out when the stock is dry.
    pub ready: MagazineList,
    /// Spent, but perhaps still looked at: less than a magazine, and full ones. First what the
    /// owner has spent itself.
    pub limbo: Magazine,
    pub spent: MagazineList,
    /// What was taken from `incoming` and from `safe`, and is not sorted yet.
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

    /// Whether a cache should not keep so much.
    pub fn is_too_much(&self, list: &MagazineList) -> bool {
        list.blocks() > KEEP * self.full
    }
}
