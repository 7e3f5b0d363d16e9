//! A thread cache: one thread's private stock of blocks, and the stacks by which its blocks come
//! back; also the thread's counters and its state for pushing. Its owner uses it through
//! `thread/context.rs`. Other threads only bring blocks back ([`ThreadCache::accept`]), take over
//! unsorted ones, and read counters and flags (`pool/memory.rs`, `engine/diagnose.rs`). The
//! reclaimer brings blocks back to `safe`, on any thread. When the owner has ended, a thread that
//! is new to the engine adopts the cache. The child of a fork clears `will_look`.
//!
//! Returned blocks are sorted a slice at a time: by [`ThreadCache::allocate`] when a stock is dry,
//! and by [`ThreadCache::tidy`] when many blocks have come back and none are allocated. A slice is
//! at most [`SLICE`] magazines from other threads, as many from the reclaimer, and [`DEFERRALS`]
//! magazines to the reclaimer, whose blocks are looked at one by one. The rest is left to the next
//! slice. A slice sorts more than a magazine, so a backlog shrinks while its thread goes on
//! allocating; until then it is kept, and used before anything new. No block is lost to other
//! threads for good: what is too much goes to the depot, as one magazine list.

use crate::error::Error;
use crate::operation::block::Block;
use crate::operation::inline_run::InlineRun;
use crate::operation::layout::{CLASSES, USUAL};
use crate::pool::class_cache::ClassCache;
use crate::pool::depot::{Depot, SLICE};
use crate::pool::magazine::Magazine;
use crate::pool::magazine_list::MagazineList;
use crate::pool::readers::Readers;
use crate::pool::reclaim::{Epoch, Reclaim};
use crate::pool::registry::Registry;
use crate::pool::slabs::Slabs;
use crate::pool::stack::Stack;
use crate::sync::{AtomicBool, AtomicU64, Ordering::*};
use crate::tickets::journals::Journal;
use crate::tickets::owner::Record;
use crate::tickets::ring::Rings;
use crate::tickets::word::Word;
use crate::util::work_counter;
use crossbeam_utils::CachePadded;
use std::cell::{Cell, UnsafeCell};
use std::ptr::null;

/// The most magazines that one call gives to the reclaimer.
const DEFERRALS: usize = 2;

/// The parts of the pool that all caches of an engine share.
pub struct Shared {
    pub slabs: Slabs,
    pub depot: Depot,
    pub readers: Readers,
    /// Every cache that the engine has ever had; caches are not freed before the engine.
    pub caches: Registry<ThreadCache>,
}

impl Shared {
    pub fn new() -> Shared {
        Shared { slabs: Slabs::new(), depot: Depot::new(), readers: Readers::new(), caches: Registry::new() }
    }

    /// Has all blocks locked in memory, of which it makes the first: if the system locks nothing,
    /// that is known before the engine is.
    pub fn lock_memory(&mut self) -> Result<(), Error> {
        self.slabs.memory.set_locked();
        self.depot.put_away(USUAL, self.new_slab(USUAL));
        self.slabs.memory.check()
    }

    /// A list of one magazine of new blocks.
    #[cold]
    fn new_slab(&self, class: u8) -> MagazineList {
        let mut list = MagazineList::new();
        list.push(self.slabs.add(class));
        list
    }
}

/// One thread's pool. Only the owner touches `private` and the cells, and only the owner stores the
/// counters. Any thread may touch the rest.
pub struct ThreadCache {
    /// Magazines of spent blocks from other threads.
    incoming: [CachePadded<Stack>; CLASSES],
    /// Magazines that the reclaimer has released.
    safe: [Stack; CLASSES],
    private: UnsafeCell<[ClassCache; CLASSES]>,
    /// Whether a live thread owns the cache. After the owner's end another thread may adopt it.
    occupied: AtomicBool,
    /// The cache's number, which tells caches of one engine apart.
    pub number: u32,
    /// Whether the owner is a registered reader.
    pub is_reader: Cell<bool>,
    /// The operations pushed and completed by the owners of this cache. Only the owner stores;
    /// `Memory::tally` sums over all caches.
    pub pushed: CachePadded<AtomicU64>,
    pub completed: CachePadded<AtomicU64>,
    /// The asynchronous closures called by the owners, and the ones that have returned. Only the
    /// owner stores; `Memory::tally_inside` sums.
    pub called: AtomicU64,
    pub returned: AtomicU64,
    /// The rest of the range of sequence numbers that the owner draws from.
    pub next_sequence: Cell<u64>,
    pub sequences_end: Cell<u64>,
    /// One bit for each class of which so much is spent that [`ThreadCache::tidy`] is worth it.
    untidy: Cell<u32>,
    /// The operation that the owner runs inside its outermost push; `engine/diagnose.rs` reads it.
    pub running: InlineRun,
    /// Whether the owner will look for operations that others leave to it: see `worker/handoff.rs`.
    pub will_look: AtomicBool,
    /// Set once the owner has pushed: its record (the variables that it owns), its rings (blocks
    /// that it uses again and again), and its journal (where it logs). `thread/pusher.rs` uses
    /// them.
    pub record: Cell<*const Record>,
    pub rings: UnsafeCell<Rings>,
    pub journal: Cell<*const Journal>,
    /// The reference for the next operation that the owner runs inside its push: see
    /// [`ThreadContext::take_word`](crate::thread::context::ThreadContext::take_word).
    pub kept: Cell<Word>,
    /// Whether the owner may be filling a block of a ring. Only the owner stores, in
    /// `engine/push/logged.rs`; `engine/diagnose.rs` reads.
    pub fills: AtomicBool,
}

// SAFETY: only the owner touches the cells, and `occupied` allows one owner at a time.
unsafe impl Sync for ThreadCache {}
// SAFETY: nothing in a cache is tied to a thread.
unsafe impl Send for ThreadCache {}

const _: () = assert!(CLASSES <= u32::BITS as usize, "a bit for each class");

impl ThreadCache {
    pub fn new(number: u32) -> ThreadCache {
        ThreadCache {
            number,
            incoming: std::array::from_fn(|_| CachePadded::new(Stack::new())),
            safe: std::array::from_fn(|_| Stack::new()),
            private: UnsafeCell::new(std::array::from_fn(|class| ClassCache::new(class as u8))),
            occupied: AtomicBool::new(true),
            is_reader: Cell::new(false),
            pushed: CachePadded::new(AtomicU64::new(0)),
            completed: CachePadded::new(AtomicU64::new(0)),
            called: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            next_sequence: Cell::new(0),
            sequences_end: Cell::new(0),
            untidy: Cell::new(0),
            running: InlineRun::new(),
            will_look: AtomicBool::new(false),
            record: Cell::new(null()),
            rings: UnsafeCell::new(Rings::new()),
            journal: Cell::new(null()),
            kept: Cell::new(Word::NONE),
            fills: AtomicBool::new(false),
        }
    }

    /// Makes the calling thread the owner, if there is none. Returns whether it did.
    pub fn adopt(&self) -> bool {
        // Acquire: pairs with the release in `leave`, so that the private part is as its last owner
        // left it.
        !self.occupied.load(Relaxed) && self.occupied.compare_exchange(false, true, Acquire, Relaxed).is_ok()
    }

    /// Whether no thread owns the cache. Its last owner is then no member of the reclaimer any
    /// more, or keeps the memory for as long as it is one.
    pub fn is_left(&self) -> bool {
        // Acquire: pairs with the release in `leave`.
        !self.occupied.load(Acquire)
    }

    /// Gives the cache up.
    ///
    /// # Safety
    /// The caller is the owner, and does not use the private part again.
    pub unsafe fn leave(&self) {
        self.occupied.store(false, Release);
    }

    /// Takes a free block of `class`.
    ///
    /// # Safety
    /// The caller is the owner, and holds no address that it read from a tail.
    #[inline]
    pub unsafe fn allocate(&self, class: u8, shared: &Shared, handle: &<Epoch as Reclaim>::Handle) -> *mut Block {
        // SAFETY: the owner alone touches the private part, and no reference to it outlives this
        // call.
        let class_cache = unsafe { self.class_cache(class) };
        match class_cache.stock.pop() {
            Some(block) => {
                class_cache.stock.expect(class);
                block
            }
            // SAFETY: the caller's contract.
            None => unsafe { self.refill(class, shared, handle) },
        }
    }

    /// Makes sure that so many magazines of `class` are free, and their pages touched. Called by
    /// `thread/context.rs`, for `Engine::prepare`.
    ///
    /// # Safety
    /// The caller is the owner.
    #[cold]
    pub unsafe fn fill(&self, class: u8, magazines: usize, shared: &Shared) {
        // SAFETY: the owner alone touches the private part, and nothing below calls back into it.
        let class_cache = unsafe { self.class_cache(class) };
        while class_cache.ready.blocks() < magazines * class_cache.full {
            let list = shared.depot.fetch(class);
            class_cache.ready.append(if list.is_empty() { shared.new_slab(class) } else { list });
        }
    }

    /// Keeps a spent block of this cache, for reuse once no other thread can look at it.
    ///
    /// # Safety
    /// The caller is the owner. The block is spent and of this cache.
    #[inline]
    pub unsafe fn keep(&self, block: *mut Block) {
        // SAFETY: the caller's contract.
        unsafe {
            let class_cache = self.class_cache(Block::class(block));
            class_cache.limbo.push(block);
            if class_cache.limbo.len() >= class_cache.full {
                self.put_up(class_cache);
            }
        }
    }

    /// Takes back spent blocks of this cache from another thread, which is the caller.
    pub fn accept(&self, class: u8, magazine: Magazine) {
        self.incoming[usize::from(class)].push(magazine);
    }

    /// The owner's blocks of a class.
    ///
    /// # Safety
    /// The caller is the owner, and uses no other reference to these blocks until it has done with
    /// this one.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    unsafe fn class_cache(&self, class: u8) -> &mut ClassCache {
        // SAFETY: the private part is the owner's.
        unsafe { &mut (*self.private.get())[usize::from(class)] }
    }

    /// Moves the full magazine in `limbo` to `spent`.
    #[cold]
    #[inline(never)]
    fn put_up(&self, class_cache: &mut ClassCache) {
        class_cache.spent.push(std::mem::replace(&mut class_cache.limbo, Magazine::new()));
        if class_cache.is_too_much(&class_cache.spent) {
            self.untidy.set(self.untidy.get() | 1 << class_cache.class);
        }
    }

    /// Allocates when the stock has run dry. Sorts a slice of returned blocks, then takes what is
    /// there, or fetches magazines from the depot, or takes over another cache's, or makes a slab.
    #[cold]
    unsafe fn refill(&self, class: u8, shared: &Shared, handle: &<Epoch as Reclaim>::Handle) -> *mut Block {
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
    unsafe fn sort(&self, class: u8, shared: &Shared, handle: &<Epoch as Reclaim>::Handle, needed: bool) {
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
    pub unsafe fn tidy(&self, shared: &Shared, handle: &<Epoch as Reclaim>::Handle) {
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

    /// Pushes spent blocks to the `safe` stack once no thread can look at them any more.
    unsafe fn defer(&self, class: u8, spent: Magazine, handle: &<Epoch as Reclaim>::Handle) {
        work_counter::count(spent.len());
        let guard = Epoch::pin(handle);
        let first = spent.pack();
        let cache: *const ThreadCache = self;
        // SAFETY: caches live until after the reclaimer is dropped. The call captures two words and
        // a byte, so nothing is allocated for it.
        unsafe {
            Epoch::defer(&guard, move || {
                (*cache).safe[usize::from(class)].push(Magazine::unpack(first));
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
