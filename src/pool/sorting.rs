//! How a thread cache sorts the blocks that come back to it. Used by `thread_cache.rs`, and by
//! `thread/context.rs` for what is untidy, on the owner of the cache; the state is there.
//!
//! Returned blocks are sorted a slice at a time: by [`ThreadCache::allocate`] when a stock is dry,
//! and by [`ThreadCache::tidy`] when many blocks have come back and none are allocated. A slice is
//! at most [`SLICE`] magazines from other threads, as many from the reclaimer, and [`DEFERRALS`]
//! magazines to the reclaimer, whose blocks are looked at one by one. If too much waits there,
//! these go beside it instead, as far as no thread holds their blocks (`beside_epoch.rs`), for one
//! heavy fence a slice. The rest is left to the next slice.
//!
//! A slice sorts more than a magazine, so a backlog shrinks while its thread goes on allocating;
//! until then it is kept, and used before anything new. No block is lost to other threads for good:
//! what is too much goes to the depot, as one magazine list.

use crate::operation::block::Block;
use crate::operation::layout::size;
use crate::pool::beside_epoch::unheld;
use crate::pool::class_cache::ClassCache;
use crate::pool::depot::SLICE;
use crate::pool::magazine::Magazine;
use crate::pool::magazine_list::MagazineList;
use crate::pool::reclaim::{Epoch, EpochHandle};
use crate::pool::thread_cache::{Shared, ThreadCache};
use crate::util::work_counter;

/// The most magazines that one call gives to the reclaimer.
const DEFERRALS: usize = 2;

impl ThreadCache {
    /// Moves the full magazine in `limbo` to `spent`.
    #[cold]
    #[inline(never)]
    pub(super) fn put_up(&self, class_cache: &mut ClassCache) {
        class_cache.spent.push(std::mem::replace(&mut class_cache.limbo, Magazine::new()));
        if class_cache.is_too_much(&class_cache.spent) {
            self.untidy.set(self.untidy.get() | 1 << class_cache.class);
        }
    }

    /// Allocates when the stock has run dry. Sorts a slice of returned blocks, then takes what is
    /// there, or fetches magazines from the depot, or takes over another cache's, or makes a slab.
    #[cold]
    pub(super) unsafe fn refill(&self, class: u8, shared: &Shared, handle: &EpochHandle) -> *mut Block {
        // SAFETY: the caller is the owner, and the references are not used across the calls of
        // `sort`.
        unsafe {
            self.sort(class, shared, handle, true);
            if self.class_cache(class).ready.is_empty() {
                self.class_cache(class).ready = shared.depot.fetch(class);
            }
            if self.class_cache(class).ready.is_empty() && self.take_over(class, shared) {
                self.sort(class, shared, handle, true);
            }
        }
        // SAFETY: the caller is the owner; nothing below calls back into this cache's private part.
        let class_cache = unsafe { self.class_cache(class) };
        loop {
            if let Some(block) = class_cache.stock.pop() {
                return block;
            }
            if class_cache.ready.is_empty() {
                class_cache.ready = shared.new_slab(class);
            }
            class_cache.stock = class_cache.ready.pop().unwrap_or(Magazine::new());
        }
    }

    /// Takes all unsorted magazines that have come back to one other cache, whose owner may not
    /// need them for long. Returns whether there were any.
    ///
    /// # Safety
    /// The caller is the owner.
    unsafe fn take_over(&self, class: u8, shared: &Shared) -> bool {
        // SAFETY: the caller is the owner; nothing below calls back into this cache's private part.
        let class_cache = unsafe { self.class_cache(class) };
        if !class_cache.arrived.is_empty() || !class_cache.released.is_empty() {
            return false;
        }
        let index = usize::from(class);
        for cache in shared.caches.iter() {
            work_counter::count(1);
            class_cache.released = cache.safe[index].take();
            class_cache.arrived = cache.incoming[index].take();
            if !class_cache.arrived.is_empty() || !class_cache.released.is_empty() {
                return true;
            }
        }
        false
    }

    /// Brings returned blocks one step closer to being reused, at most a slice of them; what is too
    /// much goes to the depot. `needed` says that the caller has no free block of this class left.
    unsafe fn sort(&self, class: u8, shared: &Shared, handle: &EpochHandle, needed: bool) {
        let index = usize::from(class);
        // SAFETY: the caller is the owner; nothing below calls back into this cache's private part.
        let class_cache = unsafe { self.class_cache(class) };
        if class_cache.released.is_empty() {
            class_cache.released = self.safe[index].take();
        }
        for _ in 0..SLICE {
            let Some(magazine) = class_cache.released.pop() else { break };
            work_counter::count(1);
            class_cache.ready.push(magazine);
        }
        if class_cache.arrived.is_empty() {
            class_cache.arrived = self.incoming[index].take();
        }
        for _ in 0..SLICE {
            let Some(magazine) = class_cache.arrived.pop() else { break };
            work_counter::count(1);
            class_cache.limbo.append(magazine);
            if class_cache.limbo.len() >= class_cache.full {
                self.put_up(class_cache);
            }
        }
        if needed && class_cache.ready.is_empty() {
            class_cache.spent.push(std::mem::replace(&mut class_cache.limbo, Magazine::new()));
        }
        if !class_cache.spent.is_empty() {
            if shared.readers.has_none_but(self.is_reader.get()) {
                // No other thread is a registered reader, and the owner holds no address: all spent
                // blocks are free.
                class_cache.ready.append(class_cache.spent.take());
            } else if self.outstanding.is_stuck(shared.caches.count()) && !shared.looks.is_one_under_way() {
                // SAFETY: as below.
                unsafe { self.reuse_unheld(class_cache, shared) };
            } else {
                for _ in 0..DEFERRALS {
                    let Some(magazine) = class_cache.spent.pop() else { break };
                    // SAFETY: the blocks are spent: no tail leads to them.
                    unsafe { self.defer(class, magazine, handle) };
                }
            }
        }
        if class_cache.is_too_much(&class_cache.ready) {
            let mut kept = MagazineList::new();
            work_counter::count(SLICE);
            (0..SLICE).map_while(|_| class_cache.ready.pop()).for_each(|magazine| kept.push(magazine));
            shared.depot.put_away(class, std::mem::replace(&mut class_cache.ready, kept));
        }
    }

    /// Whether so many blocks are spent that [`ThreadCache::tidy`] is worth it.
    #[inline]
    pub fn is_untidy(&self) -> bool {
        self.untidy.get() != 0
    }

    /// Sorts a slice of returned blocks, like [`ThreadCache::allocate`] when a stock is dry, but
    /// for a thread that frees blocks and needs none. Called only if [`ThreadCache::is_untidy`].
    ///
    /// # Safety
    /// The caller is the owner, and holds no address that it read from a tail.
    #[cold]
    pub unsafe fn tidy(&self, shared: &Shared, handle: &EpochHandle) {
        let class = self.untidy.get().trailing_zeros() as u8;
        // SAFETY: the caller's contract; the reference is used only when `sort` has returned.
        unsafe {
            self.sort(class, shared, handle, false);
            let class_cache = self.class_cache(class);
            if !class_cache.is_too_much(&class_cache.spent) {
                self.untidy.set(self.untidy.get() & !(1 << class));
            }
        }
    }

    /// Takes a slice of the spent blocks that no thread holds into use, beside the reclaimer. The
    /// others are collected again.
    ///
    /// # Safety
    /// The caller is the owner.
    #[cold]
    unsafe fn reuse_unheld(&self, class_cache: &mut ClassCache, shared: &Shared) {
        let mut slice = Magazine::new();
        (0..DEFERRALS).map_while(|_| class_cache.spent.pop()).for_each(|magazine| slice.append(magazine));
        work_counter::count(slice.len());
        // SAFETY: the blocks are spent: no tail leads to them. They are the caller's.
        let [free, held] = unsafe {
            unheld(slice, class_cache.class, &shared.looks, shared.caches.iter().map(|cache| &*cache.hazards))
        };
        class_cache.ready.push(free);
        class_cache.limbo.append(held);
    }

    /// Pushes spent blocks to the `safe` stack once no thread can look at them any more.
    unsafe fn defer(&self, class: u8, spent: Magazine, handle: &EpochHandle) {
        work_counter::count(spent.len());
        let guard = Epoch::pin(handle);
        self.outstanding.add(spent.len() * size(class));
        let first = spent.pack();
        let cache: *const ThreadCache = self;
        // SAFETY: caches live until after the reclaimer is dropped. The call captures two words and
        // a byte, so nothing is allocated for it.
        unsafe {
            Epoch::defer(&guard, move || {
                let released = Magazine::unpack(first);
                (*cache).outstanding.subtract(released.len() * size(class));
                (*cache).safe[usize::from(class)].push(released);
            });
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::pool::magazine;
    use std::collections::HashSet;

    #[test]
    fn what_is_taken_over_from_another_cache_is_used() {
        let (shared, handle) = (Shared::new(), Epoch::new().register());
        let [first, second] = std::array::from_fn(|_| shared.caches.add(ThreadCache::new));
        first.safe[0].push(shared.slabs.add(0));
        let known: Vec<*mut Block> = shared.slabs.blocks().collect();
        // SAFETY: the cache is this thread's.
        let reused = known.iter().all(|_| known.contains(&unsafe { second.allocate(0, &shared, &handle) }));
        assert!(reused, "a magazine is lost");
    }

    #[test]
    fn what_is_not_sorted_yet_is_kept() {
        let (shared, handle) = (Shared::new(), Epoch::new().register());
        let cache = shared.caches.add(ThreadCache::new);
        // So that what comes back may not be used yet.
        shared.readers.add();
        let mut known = HashSet::new();
        for _ in 0..2 * SLICE {
            let magazine = shared.slabs.add(0);
            magazine.for_each(|block| _ = known.insert(block));
            cache.accept(0, magazine);
        }
        // SAFETY: the cache is this thread's, which has read no tail.
        let allocate = || unsafe { cache.allocate(0, &shared, &handle) };
        allocate();
        shared.readers.remove();
        // As many as are there, but for those that the reclaimer has, and the one above.
        let deferred = DEFERRALS * magazine::size(0);
        (deferred + 1..shared.slabs.blocks().count()).for_each(|_| _ = known.remove(&allocate()));
        assert!(known.len() <= deferred, "{} blocks are lost", known.len() - deferred);
    }
}
