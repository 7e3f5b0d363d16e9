//! A home: one thread's private stock of blocks, and the stacks by which its blocks come back.

use super::magazine::{Magazine, Stack};
use super::memory::Memory;
use super::reclaim::{Epoch, Reclaim};
use super::running::Running;
use crate::mutants::{mutant, mutate};
use crate::operation::block::{Block, CLASSES};
use crate::sync::{AtomicBool, AtomicU64, Ordering::*, MODELLED};
use crate::variable::chain;
use crossbeam_utils::CachePadded;
use std::cell::{Cell, UnsafeCell};

/// Blocks in a magazine, and in a slab.
pub const MAGAZINE: usize = if MODELLED { 2 } else { 64 };
/// A home keeps this many free blocks of a class before it gives magazines to the depot.
const KEEP: usize = 256 * MAGAZINE;

/// One thread's pool. Which fields a thread may touch: `private` and the counters' stores, the owner; the rest, anyone.
pub struct Home {
    /// Magazines that other threads have emptied of operations.
    incoming: [CachePadded<Stack>; CLASSES],
    /// Magazines that the reclaimer has released.
    safe: [Stack; CLASSES],
    private: UnsafeCell<[Shelf; CLASSES]>,
    /// Whether a live thread owns the home. Another may adopt it after the owner's end.
    occupied: AtomicBool,
    /// Tells homes of one engine apart, in the stamps of failures.
    pub number: u16,
    /// Whether the owner counts among those who look at tails.
    pub looks_at_tails: Cell<bool>,
    /// Operations pushed and completed by the owners of this home. Only the owner stores; `wait_for_all` sums.
    pub pushed: CachePadded<AtomicU64>,
    pub completed: CachePadded<AtomicU64>,
    /// Asynchronous closures called by the owners, and those that have returned.
    pub called: AtomicU64,
    pub returned: AtomicU64,
    /// The rest of the range of sequence numbers that the owner draws from.
    pub sequences: Cell<std::ops::Range<u64>>,
    /// Blocks that came back on this thread since they were last sorted.
    kept: Cell<usize>,
    /// What the thread runs inside its outermost push.
    pub running: Running,
}

// SAFETY: the cells are touched by the owner only, of which `occupied` allows one at a time.
unsafe impl Sync for Home {}
// SAFETY: nothing in a home is tied to a thread.
unsafe impl Send for Home {}

/// The owner's blocks of one class.
struct Shelf {
    /// Ready for use.
    stock: Magazine,
    /// Spent by the owner itself, but perhaps still looked at.
    limbo: Magazine,
}

impl Home {
    pub fn new(number: u16) -> Home {
        Home {
            number,
            incoming: std::array::from_fn(|_| CachePadded::new(Stack::new())),
            safe: std::array::from_fn(|_| Stack::new()),
            private: UnsafeCell::new(std::array::from_fn(|_| Shelf { stock: Magazine::new(), limbo: Magazine::new() })),
            occupied: AtomicBool::new(true),
            looks_at_tails: Cell::new(false),
            pushed: CachePadded::new(AtomicU64::new(0)),
            completed: CachePadded::new(AtomicU64::new(0)),
            called: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            sequences: Cell::new(0..0),
            kept: Cell::new(0),
            running: Running::new(),
        }
    }

    /// Makes the calling thread the owner, if there is none.
    pub fn adopt(&self) -> bool {
        // Acquire: pairs with `leave`, so that the private part is as its last owner left it.
        mutate!("home-adopted-twice": true, !self.occupied.load(Relaxed) && self.occupied.compare_exchange(false, true, Acquire, Relaxed).is_ok())
    }

    /// Gives the home up.
    ///
    /// # Safety
    /// The caller is the owner, and does not use the private part again.
    pub unsafe fn leave(&self) {
        self.occupied.store(false, mutate!("home-left-relaxed": Relaxed, Release));
    }

    /// Takes a free block of `class`.
    ///
    /// # Safety
    /// The caller is the owner, and holds no address that it read from a tail.
    #[inline]
    pub unsafe fn allocate(&self, class: u8, memory: &Memory, handle: &<Epoch as Reclaim>::Handle) -> *mut Block {
        // SAFETY: the owner alone touches the private part, and no reference to it outlives this call.
        let shelf = unsafe { &mut (*self.private.get())[usize::from(class)] };
        match shelf.stock.pop() {
            Some(block) => block,
            // SAFETY: passed on.
            None => unsafe { self.refill(class, memory, handle) },
        }
    }

    /// Keeps a spent block of this home.
    ///
    /// # Safety
    /// The caller is the owner; the block is spent and of this home.
    #[inline]
    pub unsafe fn keep(&self, block: *mut Block) {
        // SAFETY: as above.
        unsafe {
            let shelf = &mut (*self.private.get())[usize::from((*block).class)];
            shelf.limbo.push(block);
            self.kept.set(self.kept.get() + 1);
        }
    }

    /// Takes back spent blocks of this home from another thread.
    pub fn accept(&self, class: u8, magazine: Magazine) {
        self.incoming[usize::from(class)].push(magazine);
    }

    /// The stock has run dry: collect what has come back, or fetch a magazine, or make one.
    #[cold]
    unsafe fn refill(&self, class: u8, memory: &Memory, handle: &<Epoch as Reclaim>::Handle) -> *mut Block {
        // SAFETY: passed on.
        unsafe { self.collect(class, memory, handle) };
        // SAFETY: the caller is the owner; nothing below calls back into this home's private part.
        let shelf = unsafe { &mut (*self.private.get())[usize::from(class)] };
        loop {
            if let Some(block) = shelf.stock.pop() {
                return block;
            }
            shelf.stock.append(memory.fetch(class));
        }
    }

    /// Makes a stock of what has come back, as far as it may be used again, and gives what is too much of it to the depot.
    unsafe fn collect(&self, class: u8, memory: &Memory, handle: &<Epoch as Reclaim>::Handle) {
        let index = usize::from(class);
        // SAFETY: the caller is the owner; nothing below calls back into this home's private part.
        let shelf = unsafe { &mut (*self.private.get())[index] };
        let mut spent = std::mem::replace(&mut shelf.limbo, Magazine::new());
        spent.append(self.incoming[index].take());
        if !spent.is_empty() {
            if memory.has_one_looker() {
                // Nobody but the owner looks at tails, and the owner holds nothing.
                shelf.stock.append(spent);
            } else {
                // SAFETY: the blocks are spent; detached, no tail leads to them.
                unsafe { self.defer(class, spent, handle) };
            }
        }
        shelf.stock.append(self.safe[index].take());
        if shelf.stock.len() > KEEP {
            let mut left = Magazine::new();
            while shelf.stock.len() > KEEP / 2 {
                left.extend_from(&mut shelf.stock, MAGAZINE);
                memory.put_away(class, std::mem::replace(&mut left, Magazine::new()));
            }
        }
    }

    /// Whether so many blocks have come back since the last time that [`Home::tidy`] is worth it.
    #[inline]
    pub fn is_untidy(&self) -> bool {
        self.kept.get() > KEEP
    }

    /// Does what [`Home::allocate`] does when a stock is dry, for a thread that frees blocks and needs none.
    ///
    /// # Safety
    /// As there.
    #[cold]
    pub unsafe fn tidy(&self, memory: &Memory, handle: &<Epoch as Reclaim>::Handle) {
        self.kept.set(0);
        // SAFETY: passed on.
        (0..CLASSES as u8).for_each(|class| unsafe { self.collect(class, memory, handle) });
    }

    /// Sends spent blocks to the safe stack once nobody can look at them any more.
    unsafe fn defer(&self, class: u8, spent: Magazine, handle: &<Epoch as Reclaim>::Handle) {
        // SAFETY: the blocks are spent.
        spent.for_each(|block| unsafe { chain::detach(block.cast()) });
        if mutant("reclaimed-without-the-epoch") {
            self.safe[usize::from(class)].push(spent);
            return;
        }
        let guard = Epoch::pin(handle);
        let first = spent.pack();
        let home: *const Home = self;
        // SAFETY: homes live until after the reclaimer is dropped; two words and a byte, so that nothing is allocated.
        unsafe {
            Epoch::defer(&guard, move || {
                (*home).safe[usize::from(class)].push(Magazine::unpack(first));
            });
        }
    }
}

impl Magazine {
    /// Moves up to `count` blocks here from another magazine.
    fn extend_from(&mut self, other: &mut Magazine, count: usize) {
        for _ in 0..count {
            let Some(block) = other.pop() else { return };
            // SAFETY: popped, so it is ours.
            unsafe { self.push(block) };
        }
    }
}
