//! The depot: one shared store of magazines, from thread caches that have too many to those that
//! have too few. Used by `pool/thread_cache.rs` and `pool/sorting.rs`, on any thread.
//!
//! The crate `object-pool` keeps them. It locks inside, and is used only when a thread's stock has
//! run dry or over.

use crate::operation::layout::CLASSES;
use crate::pool::magazine_list::MagazineList;
use crate::sync::lock;
use crate::util::work_counter;

/// The most magazines that one call moves from one list to another.
pub const SLICE: usize = 16;

/// For each class, lists of free magazines.
pub struct Depot([object_pool::Pool<MagazineList>; CLASSES]);

impl Depot {
    pub fn new() -> Depot {
        Depot(std::array::from_fn(|_| object_pool::Pool::from_vec(Vec::new())))
    }

    /// A few magazines from the depot, if it has any.
    #[cold]
    pub fn fetch(&self, class: u8) -> MagazineList {
        lock::count();
        let Some(list) = self.0[usize::from(class)].try_pull() else { return MagazineList::new() };
        let mut rest = list.detach().1;
        let mut few = MagazineList::new();
        work_counter::count(SLICE);
        (0..SLICE).map_while(|_| rest.pop()).for_each(|magazine| few.push(magazine));
        if !rest.is_empty() {
            self.put_away(class, rest);
        }
        few
    }

    /// Gives any number of magazines to the depot.
    #[cold]
    pub fn put_away(&self, class: u8, list: MagazineList) {
        lock::count();
        self.0[usize::from(class)].attach(list);
    }
}
