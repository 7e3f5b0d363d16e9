//! The way for spent blocks beside the epoch: which of them no thread holds, by what all threads
//! say that they hold (`tickets/hazards.rs`). Used by `pool/sorting.rs`, on the owner of the
//! blocks, once too much waits in the reclaimer: then some thread stands still inside its pin. The
//! counts are in `pool/thread_cache.rs`.
//!
//! A thread that looks at all blocks (`engine/diagnose.rs`) holds each of them. It says so before
//! it looks, by [`Looks`], and blocks go only by way of the reclaimer meanwhile.

use crate::operation::layout::size;
use crate::platform::asymmetric_fence::heavy;
use crate::pool::magazine::Magazine;
use crate::sync::{AtomicUsize, Ordering::*, MODELLED};
use crate::tickets::hazards::Hazards;
use crate::util::work_counter;

/// If so many bytes of the blocks of an engine wait in the reclaimer, a thread stands still inside
/// its pin. Each cache has an equal part of this, and at least [`OUTSTANDING_EACH`].
const OUTSTANDING: usize = if MODELLED { isize::MAX as usize } else { 8 << 20 };
const OUTSTANDING_EACH: usize = if MODELLED { 0 } else { 128 << 10 };

/// Addresses that are compared with the blocks at a time.
const BATCH: usize = 64;

/// The bytes of a cache's blocks that wait in the reclaimer. The owner adds, and any thread may
/// subtract. Relaxed all through: the number decides only which of two ways is taken.
pub struct Outstanding(AtomicUsize);

impl Outstanding {
    pub fn new() -> Outstanding {
        Outstanding(AtomicUsize::new(0))
    }

    pub fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Relaxed);
    }

    pub fn subtract(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Relaxed);
    }

    /// Whether so much waits that a thread must stand still inside its pin.
    pub fn is_stuck(&self, caches: u32) -> bool {
        let own = (OUTSTANDING / caches.max(1) as usize).max(OUTSTANDING_EACH);
        // In the child of a fork the number goes below zero if old calls run after all.
        self.0.load(Relaxed) as isize > own as isize
    }

    /// For the child of a `fork`, in which the reclaimer is a new one.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

/// How many threads look at all blocks.
pub struct Looks(AtomicUsize);

impl Looks {
    pub fn new() -> Looks {
        Looks(AtomicUsize::new(0))
    }

    /// The calling thread will look at blocks of others. It passes a heavy fence before it does.
    pub fn begin(&self) {
        self.0.fetch_add(1, SeqCst);
    }

    /// The calling thread has looked for the last time.
    pub fn end(&self) {
        // Release: pairs with the acquire in `unheld`, so the looks are over before a block is used
        // again.
        self.0.fetch_sub(1, Release);
    }

    /// Whether a thread looks. Relaxed: `unheld` asks again, behind its fence.
    pub fn is_one_under_way(&self) -> bool {
        self.0.load(Relaxed) > 0
    }

    /// For the child of a `fork`, in which the other threads are gone.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn reset(&self) {
        self.0.store(0, SeqCst);
    }
}

/// Parts spent blocks of a class: first those that no thread holds, which may be used again at
/// once; then the others. `hazards` are those of all caches.
///
/// # Safety
/// The blocks are spent, and the caller's.
pub unsafe fn unheld<'a>(
    spent: Magazine,
    class: u8,
    looks: &Looks,
    hazards: impl Iterator<Item = &'a Hazards>,
) -> [Magazine; 2] {
    // Heavy side of the asymmetric fence; the light side is in `tickets/hazards.rs`, and in `Look`
    // of `engine/diagnose.rs` another heavy one. The blocks were spent before. So a thread that
    // holds one is seen below, or sees that it is spent.
    heavy();
    // Acquire: pairs with the release in `end`.
    if looks.0.load(Acquire) > 0 {
        return [Magazine::new(), spent];
    }
    let (mut free, mut held) = (spent, Magazine::new());
    let (mut batch, mut count) = ([0; BATCH], 0);
    for hazards in hazards {
        work_counter::count(1);
        hazards.held(|address| {
            batch[count] = address;
            count += 1;
            if count == BATCH {
                // SAFETY: the caller's contract.
                unsafe { part(&mut free, &mut held, &batch, size(class)) };
                count = 0;
            }
        });
    }
    if count > 0 {
        // SAFETY: the caller's contract.
        unsafe { part(&mut free, &mut held, &batch[..count], size(class)) };
    }
    [free, held]
}

/// Moves the blocks with one of the addresses in them, each of so many bytes, from `free` to
/// `held`.
///
/// # Safety
/// The blocks are the caller's.
unsafe fn part(free: &mut Magazine, held: &mut Magazine, addresses: &[usize], bytes: usize) {
    let mut rest = Magazine::new();
    while let Some(block) = free.pop() {
        let is_held = addresses.iter().any(|address| address.wrapping_sub(block.addr()) < bytes);
        // SAFETY: the block was in the other magazine.
        unsafe { if is_held { &mut *held } else { &mut rest }.push(block) };
    }
    *free = rest;
}
