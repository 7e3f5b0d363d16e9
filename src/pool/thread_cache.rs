//! A thread cache: one thread's private stock of blocks, and the stacks by which its blocks come
//! back; also the thread's counters and its state for pushing. Its owner uses it through
//! `thread/context.rs`. Other threads only bring blocks back ([`ThreadCache::accept`]), take over
//! unsorted ones, and read counters and flags (`pool/memory.rs`, `engine/diagnose.rs`). The
//! reclaimer brings blocks back to `safe`, on any thread. When the owner has ended, a thread that
//! is new to the engine adopts the cache. The child of a fork clears what its
//! threads had said. How returned blocks are sorted is in
//! `sorting.rs`.

use crate::error::Error;
use crate::operation::block::Block;
use crate::operation::inline_run::InlineRun;
use crate::operation::layout::{CLASSES, USUAL};
use crate::pool::beside_epoch::{Looks, Outstanding};
use crate::pool::class_cache::ClassCache;
use crate::pool::depot::Depot;
use crate::pool::magazine::Magazine;
use crate::pool::magazine_list::MagazineList;
use crate::pool::readers::Readers;
use crate::pool::reclaim::EpochHandle;
use crate::pool::registry::Registry;
use crate::pool::slabs::Slabs;
use crate::pool::stack::Stack;
use crate::sync::{AtomicBool, AtomicU64, Ordering::*};
use crate::tickets::hazards::Hazards;
use crate::tickets::journals::Journal;
use crate::tickets::owner::Record;
use crate::tickets::ring::Rings;
use crate::tickets::word::Word;
use crossbeam_utils::CachePadded;
use std::cell::{Cell, UnsafeCell};
use std::ptr::null;

/// The parts of the pool that all caches of an engine share.
pub struct Shared {
    pub slabs: Slabs,
    pub depot: Depot,
    pub readers: Readers,
    pub looks: Looks,
    /// Every cache that the engine has ever had; caches are not freed before the engine.
    pub caches: Registry<ThreadCache>,
}

impl Shared {
    pub fn new() -> Shared {
        Shared {
            slabs: Slabs::new(),
            depot: Depot::new(),
            readers: Readers::new(),
            looks: Looks::new(),
            caches: Registry::new(),
        }
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
    pub(super) fn new_slab(&self, class: u8) -> MagazineList {
        let mut list = MagazineList::new();
        list.push(self.slabs.add(class));
        list
    }
}

/// One thread's pool. Only the owner touches `private` and the cells, and only the owner stores the
/// counters. Any thread may touch the rest.
pub struct ThreadCache {
    /// Magazines of spent blocks from other threads.
    pub(super) incoming: [CachePadded<Stack>; CLASSES],
    /// Magazines that the reclaimer has released.
    pub(super) safe: [Stack; CLASSES],
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
    /// How many operations the owners have counted as pushed, and as completed, that were not
    /// pushed. For `Memory::given_up` only, and no part of a protocol, so models do not see it.
    pub given_up: std::sync::atomic::AtomicU64,
    /// The rest of the range of sequence numbers that the owner draws from.
    pub next_sequence: Cell<u64>,
    pub sequences_end: Cell<u64>,
    /// The blocks that the owner may touch though they are spent. Only the owner stores, but for
    /// the child of a fork.
    pub hazards: CachePadded<Hazards>,
    pub(super) outstanding: Outstanding,
    /// One bit for each class of which so much is spent that [`ThreadCache::tidy`] is worth it.
    pub(super) untidy: Cell<u32>,
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
            given_up: std::sync::atomic::AtomicU64::new(0),
            next_sequence: Cell::new(0),
            sequences_end: Cell::new(0),
            hazards: CachePadded::new(Hazards::new()),
            outstanding: Outstanding::new(),
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
    pub unsafe fn allocate(&self, class: u8, shared: &Shared, handle: &EpochHandle) -> *mut Block {
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
    pub(super) unsafe fn class_cache(&self, class: u8) -> &mut ClassCache {
        // SAFETY: the private part is the owner's.
        unsafe { &mut (*self.private.get())[usize::from(class)] }
    }

    /// For the child of a `fork`, in which other threads hold nothing, look for nothing and fill no
    /// block, and in which the reclaimer is a new one.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn forget_promises(&self) {
        self.will_look.store(false, Relaxed);
        self.fills.store(false, Relaxed);
        self.hazards.clear();
        self.outstanding.reset();
    }
}
