//! A cache: one thread's private stock of blocks, and the stacks by which its blocks come back.
//!
//! What comes back is sorted a slice at a time: by [`ThreadCache::allocate`] when a stock is dry,
//! and by [`ThreadCache::tidy`] when a lot has come back and nothing is allocated. A slice is at
//! most [`SLICE`] magazines from other threads, as many from the reclaimer, and [`DEFERRALS`]
//! magazines to the reclaimer, whose blocks are looked at one by one; the rest is left to the next
//! slice. A slice sorts more than a magazine, so that a backlog shrinks while its thread goes on
//! allocating; until then it is kept, and used before anything new. No blocks are lost to others
//! for good: what is too much goes to the depot, as one magazine list.

use crate::operation::block::Block;
use crate::operation::inline_run::InlineRun;
use crate::operation::layout::CLASSES;
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
use crate::tickets::ring::Ring;
use crate::tickets::word::Word;
use crate::util::work_counter;
use crossbeam_utils::CachePadded;
use std::cell::{Cell, UnsafeCell};
use std::ptr::null;

/// The most magazines that one call gives to the reclaimer.
const DEFERRALS: usize = 2;

/// What all caches of an engine share.
pub struct Shared {
    pub slabs: Slabs,
    pub depot: Depot,
    pub readers: Readers,
    /// Every cache there has ever been.
    pub caches: Registry<ThreadCache>,
}

impl Shared {
    pub fn new() -> Shared {
        Shared { slabs: Slabs::new(), depot: Depot::new(), readers: Readers::new(), caches: Registry::new() }
    }

    /// A magazine of new blocks.
    #[cold]
    fn new_slab(&self, class: u8) -> MagazineList {
        let mut list = MagazineList::new();
        list.push(self.slabs.add(class));
        list
    }
}

/// One thread's pool. Which fields a thread may touch: `private` and the counters' stores, the
/// owner; the rest, anyone.
pub struct ThreadCache {
    /// Magazines that other threads have emptied of operations.
    incoming: [CachePadded<Stack>; CLASSES],
    /// Magazines that the reclaimer has released.
    safe: [Stack; CLASSES],
    private: UnsafeCell<[ClassCache; CLASSES]>,
    /// Whether a live thread owns the cache. Another may adopt it after the owner's end.
    occupied: AtomicBool,
    /// Tells caches of one engine apart.
    pub number: u32,
    /// Whether the owner is a registered reader.
    pub is_reader: Cell<bool>,
    /// Operations pushed and completed by the owners of this cache. Only the owner stores;
    /// `wait_for_all` sums.
    pub pushed: CachePadded<AtomicU64>,
    pub completed: CachePadded<AtomicU64>,
    /// Asynchronous closures called by the owners, and those that have returned.
    pub called: AtomicU64,
    pub returned: AtomicU64,
    /// The rest of the range of sequence numbers that the owner draws from.
    pub next_sequence: Cell<u64>,
    pub sequences_end: Cell<u64>,
    /// The classes, a bit each, of which so much is spent that [`ThreadCache::tidy`] is worth it.
    untidy: Cell<u32>,
    /// What the thread runs inside its outermost push.
    pub running: InlineRun,
    /// Whether the owner will look for operations that others leave to it.
    pub will_look: AtomicBool,
    /// Once the owner has pushed: which variables it owns, blocks that it uses again and again, and
    /// where it logs.
    pub record: Cell<*const Record>,
    pub ring: UnsafeCell<Ring>,
    pub journal: Cell<*const Journal>,
    /// What the next operation refers to that the owner runs inside its push: see
    /// [`ThreadContext::take_word`](crate::thread::context::ThreadContext::take_word).
    pub kept: Cell<Word>,
    /// Whether the owner may be filling a block of its ring. Only the owner stores.
    pub fills: AtomicBool,
}

// SAFETY: the cells are touched by the owner only, of which `occupied` allows one at a time.
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
            ring: UnsafeCell::default(),
            journal: Cell::new(null()),
            kept: Cell::new(Word::NONE),
            fills: AtomicBool::new(false),
        }
    }

    /// Makes the calling thread the owner, if there is none.
    pub fn adopt(&self) -> bool {
        // Acquire: pairs with `leave`, so that the private part is as its last owner left it.
        !self.occupied.load(Relaxed) && self.occupied.compare_exchange(false, true, Acquire, Relaxed).is_ok()
    }

    /// Whether nobody owns the cache, and its last owner is no member of the reclaimer any more.
    pub fn is_left(&self) -> bool {
        // Acquire: pairs with `leave`.
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
            // SAFETY: passed on.
            None => unsafe { self.refill(class, shared, handle) },
        }
    }

    /// Makes sure that so many magazines of `class` are free, and their pages touched.
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

    /// Keeps a spent block of this cache.
    ///
    /// # Safety
    /// The caller is the owner; the block is spent and of this cache.
    #[inline]
    pub unsafe fn keep(&self, block: *mut Block) {
        // SAFETY: as above.
        unsafe {
            let class_cache = self.class_cache(Block::class(block));
            class_cache.limbo.push(block);
            if class_cache.limbo.len() >= class_cache.full {
                self.put_up(class_cache);
            }
        }
    }

    /// Takes back spent blocks of this cache from another thread.
    pub fn accept(&self, class: u8, magazine: Magazine) {
        self.incoming[usize::from(class)].push(magazine);
    }

    /// The owner's blocks of a class.
    ///
    /// # Safety
    /// The caller is the owner, and uses no other reference to them until it has done with this
    /// one.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    unsafe fn class_cache(&self, class: u8) -> &mut ClassCache {
        // SAFETY: the private part is the owner's.
        unsafe { &mut (*self.private.get())[usize::from(class)] }
    }

    /// A magazine of spent blocks is full.
    #[cold]
    #[inline(never)]
    fn put_up(&self, class_cache: &mut ClassCache) {
        class_cache.spent.push(std::mem::replace(&mut class_cache.limbo, Magazine::new()));
        if class_cache.is_too_much(&class_cache.spent) {
            self.untidy.set(self.untidy.get() | 1 << class_cache.class);
        }
    }

    /// The stock has run dry: sort a slice of what has come back, then take what there is, or fetch
    /// some, or make some.
    #[cold]
    unsafe fn refill(&self, class: u8, shared: &Shared, handle: &<Epoch as Reclaim>::Handle) -> *mut Block {
        // SAFETY: passed on. The caller is the owner; the references are not used across the calls
        // of `sort`.
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

    /// Takes what has come back to another cache, whose owner may not need it for long: all of it
    /// that is not sorted. Says whether there was any.
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

    /// Brings what has come back a step closer to being used again, by no more than a slice; what
    /// is too much goes to the depot. `needed`: by a caller that has nothing of this class left.
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
                // No other thread is a registered reader, and the owner holds nothing.
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

    /// Sorts a slice of what has come back, as [`ThreadCache::allocate`] does when a stock is dry,
    /// for a thread that frees blocks and needs none. Only if [`ThreadCache::is_untidy`].
    ///
    /// # Safety
    /// As there.
    #[cold]
    pub unsafe fn tidy(&self, shared: &Shared, handle: &<Epoch as Reclaim>::Handle) {
        let class = self.untidy.get().trailing_zeros() as u8;
        // SAFETY: passed on; the reference is used when `sort` has returned.
        unsafe {
            self.sort(class, shared, handle, false);
            let class_cache = self.class_cache(class);
            if !class_cache.is_too_much(&class_cache.spent) {
                self.untidy.set(self.untidy.get() & !(1 << class));
            }
        }
    }

    /// Sends spent blocks to the safe stack once nobody can look at them any more.
    unsafe fn defer(&self, class: u8, spent: Magazine, handle: &<Epoch as Reclaim>::Handle) {
        work_counter::count(spent.len());
        let guard = Epoch::pin(handle);
        let first = spent.pack();
        let cache: *const ThreadCache = self;
        // SAFETY: caches live until after the reclaimer is dropped; two words and a byte, so that
        // nothing is allocated.
        unsafe {
            Epoch::defer(&guard, move || {
                (*cache).safe[usize::from(class)].push(Magazine::unpack(first));
            });
        }
    }
}
