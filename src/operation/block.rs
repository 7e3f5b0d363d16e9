//! The operation block: all data of one pushed operation, in two cache lines if it is a usual one.
//!
//! One thread at a time has a block, and only that thread writes its plain fields. The pusher fills
//! it (`src/engine/push/`), a queue or an inbox hands it on, and the thread that has taken the
//! operation runs it (`src/engine/execute.rs`). An asynchronous operation belongs to the thread
//! that has its completion, and a free block to the pool.
//!
//! Other threads may look at the word and at atomic fields at any time. They park operations in the
//! word (`src/tickets/run.rs`). Helpers of a push write tickets and links, and may void the
//! operation (`src/tickets/linking.rs`). They and `src/engine/diagnose.rs` also read the header.
//!
//! A block is *held* while a thread keeps it from being used again: by owning the operation, by a
//! use that its links count, or by a pin or a hazard (`src/tickets/hazards.rs`).
//!
//! Blocks come from pools ([`crate::pool`]), in the sizes of [`layout`](crate::operation::layout).
//! They stay blocks for as long as the engine is there. So a reference to an operation that has
//! ended is harmless: the tag in the block's word is another one by then.

use crate::operation::access::{Access, ACCESSES_OFFSET};
use crate::operation::closure::Vtable;
pub use crate::operation::flags::*;
use crate::operation::layout::{behind, behind_accesses, size, Layout, Timestamps, CLOSURE_ALIGN, SMALLEST};
use crate::platform::cache_line::{fetch_to_write, LINE};
use crate::sync::{touch, AtomicU32, AtomicU64, AtomicU8, Ordering, MODELLED};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// Value of [`Block::kind`]: a block of the pool.
const POOLED: u8 = 0;
/// A block of a [ring](crate::tickets::ring).
const RINGED: u8 = 1;
/// A block of the pool of which only the word is used, by operations that run inside their push,
/// one after the other.
const INSIDE: u8 = 2;
/// A block of the pool, of an operation that is linked on common variables
/// ([`common`](crate::tickets::common)).
const LINKED: u8 = 3;
/// Like [`LINKED`], but a variable was deleted meanwhile: the operation completes without running.
const VOIDED: u8 = 4;

/// An operation block. Read through raw pointers on purpose: a reference to a block would claim
/// more than any one thread may.
#[repr(C, align(128))]
pub struct Block {
    /// Stage, parked blocks and tag: see [`Word`](crate::tickets::word::Word).
    word: AtomicU64,
    /// The number of accesses, from the first on, whose tickets have come. For the thread that has
    /// the operation.
    pub tested: AtomicU32,
    /// Number of accesses.
    pub count: u32,
    /// `POOLED`, `RINGED`, `INSIDE`, `LINKED` or `VOIDED`, which any helper of the push may store.
    kind: AtomicU8,
    /// `BLANK`, `ASSEMBLED`, `PENDING` or `RUNNING`: for `src/engine/diagnose.rs` only.
    pub lifecycle: AtomicU8,
    pub flags: u16,
    /// The length of the name.
    pub(super) name_length: u16,
    /// Property and context, packed in `header.rs`.
    pub(super) destination: u16,
    pub priority: i32,
    /// The size class, and the number of the cache, packed in `header.rs`. In the first block of a
    /// magazine, while free: the number of its blocks.
    pub(super) origin: u32,
    pub(super) name: *const u8,
    /// The functions that run and drop the closure. While free: see [`crate::pool::magazine`].
    pub body: *const Vtable,
    /// The next block of the list that this one is in: parked, ready, inbox or free.
    pub link: *mut Block,
    /// The operation's number in push order.
    pub sequence: u64,
    payload: Payload,
}

/// Accesses, links, times and closure: see [`layout`](crate::operation::layout).
#[cfg_attr(not(any(loom, shuttle)), repr(C, align(16)))]
#[cfg_attr(any(loom, shuttle), repr(C, align(2048)))]
struct Payload(MaybeUninit<[u8; if MODELLED { 2048 } else { 64 }]>);

const _: () = assert!(std::mem::offset_of!(Block, word) == 0);
const _: () = assert!(std::mem::offset_of!(Block, payload) == ACCESSES_OFFSET);
const _: () = assert!(std::mem::size_of::<Block>() == SMALLEST);

impl Block {
    /// Makes fresh memory a free block, with this word.
    ///
    /// # Safety
    /// The caller has `this` to itself; it is aligned as `Block`, and `size(class)` bytes long.
    pub unsafe fn initialise(this: *mut Block, class: u8, word: u64) {
        // SAFETY: exclusive and large enough by the contract. The payload stays uninitialised.
        unsafe {
            this.write(Block {
                word: AtomicU64::new(word),
                tested: AtomicU32::new(0),
                count: 0,
                kind: AtomicU8::new(POOLED),
                lifecycle: AtomicU8::new(BLANK),
                flags: 0,
                name_length: 0,
                destination: 0,
                priority: 0,
                origin: u32::from(class),
                name: std::ptr::NonNull::dangling().as_ptr(),
                body: std::ptr::null(),
                link: null_mut(),
                sequence: 0,
                payload: Payload(MaybeUninit::uninit()),
            });
        }
    }

    /// Prepares the block for a new operation with so many accesses. Leaves the word alone: other
    /// threads may still look at it.
    ///
    /// # Safety
    /// `this` points to a block that the caller owns.
    #[inline]
    pub unsafe fn renew(this: *mut Block, count: u32, ringed: bool) {
        // SAFETY: the caller owns the block.
        unsafe {
            (&raw mut (*this).count).write(count);
            (*this).tested.store(0, Ordering::Relaxed);
            (*this).kind.store(if ringed { RINGED } else { POOLED }, Ordering::Relaxed);
        }
    }

    /// Makes the block one for operations that run inside their push. After [`Block::renew`].
    ///
    /// # Safety
    /// `this` points to a block that the caller owns.
    pub unsafe fn set_inside(this: *mut Block) {
        // SAFETY: the caller owns the block.
        unsafe { (*this).kind.store(INSIDE, Ordering::Relaxed) }
    }

    /// Whether the block is for operations that run inside their push. An operation without a
    /// ticket may not park there (`park_without_ticket` in `src/tickets/run.rs`).
    ///
    /// # Safety
    /// `this` points to a block of the engine.
    pub unsafe fn is_inside(this: *mut Block) -> bool {
        // SAFETY: blocks stay blocks.
        unsafe { (*this).kind.load(Ordering::Relaxed) == INSIDE }
    }

    /// Notes that the block's new operation has links. After [`Block::renew`].
    ///
    /// # Safety
    /// `this` points to a block that the caller owns.
    #[inline]
    pub unsafe fn set_linked(this: *mut Block) {
        // SAFETY: the caller owns the block.
        unsafe { (*this).kind.store(LINKED, Ordering::Relaxed) }
    }

    /// Notes that a common variable of the operation was deleted before the operation was linked
    /// there.
    ///
    /// # Safety
    /// `this` points to a block that is held.
    pub unsafe fn set_voided(this: *mut Block) {
        // SAFETY: held.
        unsafe { (*this).kind.store(VOIDED, Ordering::Relaxed) }
    }

    /// Whether [`Block::set_voided`] was called. Final once the operation is in a log.
    ///
    /// # Safety
    /// As [`Block::set_voided`].
    #[inline]
    pub unsafe fn is_voided(this: *mut Block) -> bool {
        // SAFETY: held.
        unsafe { (*this).kind.load(Ordering::Relaxed) == VOIDED }
    }

    /// Whether the operation has [`Links`](crate::tickets::links::Links).
    ///
    /// # Safety
    /// As [`Block::set_voided`].
    #[inline]
    pub unsafe fn is_linked(this: *mut Block) -> bool {
        // SAFETY: held.
        unsafe { (*this).kind.load(Ordering::Relaxed) >= LINKED }
    }

    /// Whether the block is one of a ring.
    ///
    /// # Safety
    /// As [`Block::set_voided`].
    #[inline]
    pub unsafe fn is_ringed(this: *mut Block) -> bool {
        // SAFETY: held.
        unsafe { (*this).kind.load(Ordering::Relaxed) == RINGED }
    }

    /// The address of access `index`.
    ///
    /// # Safety
    /// `this` is a block with room for more than `index` accesses, and its provenance covers them.
    #[inline]
    pub unsafe fn access(this: *mut Block, index: u32) -> *mut Access {
        // SAFETY: in bounds by the contract.
        unsafe { this.cast::<u8>().add(ACCESSES_OFFSET).cast::<Access>().add(index as usize) }
    }

    /// The block of the operation that an access belongs to.
    ///
    /// # Safety
    /// `access` is alive, and its provenance covers the operation.
    #[inline]
    pub unsafe fn of_access(access: *mut Access) -> *mut Block {
        // SAFETY: alive; an access lies where `Block::access` finds it.
        unsafe { access.byte_sub((*access).distance()).cast() }
    }

    /// The address of the times of a profiled operation.
    ///
    /// # Safety
    /// `this` points to an operation with [`FLAG_PROFILED`], whose block was made for that.
    pub unsafe fn times(this: *mut Block) -> *mut Timestamps {
        // SAFETY: a place inside the block; no reference is made.
        unsafe { this.cast::<u8>().add(behind((*this).count as usize, Block::layout(this))).cast() }
    }

    /// The layout: what lies before the times or the closure of an operation.
    ///
    /// # Safety
    /// `this` points to an operation.
    #[inline(always)]
    pub unsafe fn layout(this: *mut Block) -> Layout {
        // SAFETY: an operation.
        if unsafe { Block::is_linked(this) } {
            Layout::Linked
        } else {
            Layout::Plain
        }
    }

    /// The address of the closure of an operation of this layout.
    ///
    /// # Safety
    /// `this` points to an operation: the count of its accesses and its flags are written.
    #[inline(always)]
    pub unsafe fn closure(this: *mut Block, layout: Layout) -> *mut u8 {
        // SAFETY: a place inside the block; no reference is made.
        unsafe {
            let times = if (*this).flags & FLAG_PROFILED != 0 { std::mem::size_of::<Timestamps>() } else { 0 };
            this.cast::<u8>().add(behind((*this).count as usize, layout) + times)
        }
    }

    /// The address of the block's [`Word`](crate::tickets::word::Word).
    #[inline(always)]
    pub fn word(this: *mut Block) -> *const AtomicU64 {
        // The word is the first field.
        this.cast::<AtomicU64>().cast_const()
    }

    /// The address of the write before access `index`: the reference to the write that the
    /// operation comes after on this variable, a [`Word`](crate::tickets::word::Word).
    ///
    /// # Safety
    /// `this` points to an operation with no fewer accesses than `index`.
    #[inline]
    pub unsafe fn before(this: *mut Block, index: u32) -> *mut AtomicU64 {
        // SAFETY: a place inside the block; no reference is made.
        unsafe {
            let first = this.cast::<u8>().add(behind_accesses((*this).count as usize));
            first.cast::<AtomicU64>().add(index as usize)
        }
    }

    /// Writes to each cache line behind the header in which something of the operation lies, so
    /// that its next pusher gets the line soon: [`crate::platform::cache_line`] says why. Called by
    /// `run::end`. The further lines of a long closure are written when it is taken out
    /// (`mark_lines` in `closure.rs`, the same rule). Does nothing for an operation with links,
    /// which all enlisted operations have: other threads may look at it when it has ended.
    ///
    /// # Safety
    /// `this` points to an operation that has run and that the caller owns.
    #[inline]
    pub unsafe fn mark_lines(this: *mut Block) {
        // So many accesses and the beginning of a closure need one line.
        const IN_ONE_LINE: u32 = 2;
        const { assert!(MODELLED || behind(IN_ONE_LINE as usize, Layout::Plain) + CLOSURE_ALIGN <= 2 * LINE) };
        // SAFETY: the caller owns the operation, which is of this layout; each block has two lines.
        // At the start of a line lies a ticket, a write before, what was the closure's, or nothing.
        // Nothing is needed any more, and what other threads could still look at is atomic.
        unsafe {
            if MODELLED || Block::is_linked(this) {
                return;
            }
            (*this.cast::<u8>().add(LINE).cast::<AtomicU64>()).store(0, Ordering::Relaxed);
            if (*this).count > IN_ONE_LINE {
                Block::mark_further_lines(this);
            }
        }
    }

    #[inline(never)]
    unsafe fn mark_further_lines(this: *mut Block) {
        // SAFETY: as in `mark_lines`.
        unsafe {
            // If there is nothing to store, a closure may begin where the block ends.
            let used = behind((*this).count as usize, Layout::Plain) + CLOSURE_ALIGN;
            let end = this.cast::<u8>().add(used.min(size(Block::class(this))));
            let mut line = this.cast::<u8>().add(2 * LINE);
            while line < end {
                (*line.cast::<AtomicU64>()).store(0, Ordering::Relaxed);
                line = line.add(LINE);
            }
        }
    }

    /// The address of the [`Links`](crate::tickets::links::Links) of an operation that has some.
    ///
    /// # Safety
    /// `this` points to an operation with links, the count of whose accesses is written.
    #[inline]
    pub unsafe fn links(this: *mut Block) -> *mut u8 {
        // SAFETY: a place inside the block; no reference is made.
        unsafe { Block::before(this, (*this).count).cast() }
    }

    /// Tells a simulated machine that an operation is used as a whole, up to the closure's first
    /// bytes.
    ///
    /// # Safety
    /// As [`Block::closure`].
    #[inline]
    #[cfg_attr(seriatim_simulation, track_caller)]
    pub unsafe fn touch(this: *mut Block, writes: bool) {
        // SAFETY: by the contract.
        unsafe { touch(this, behind((*this).count as usize, Layout::Plain) + CLOSURE_ALIGN, writes) }
    }

    /// Prefetches the lines that a push and a run of the operation write: the header, the first
    /// accesses and the closure.
    #[inline]
    pub fn expect(this: *mut Block, class: u8) {
        let lines = if class == 0 { 2 } else { 3 };
        (0..lines).for_each(|line| fetch_to_write(this.cast::<u8>().wrapping_add(line * LINE)));
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::operation::layout::class_for;

    #[test]
    fn each_line_of_an_operation_is_marked_and_no_other() {
        const WORD: usize = LINE / size_of::<u64>();
        const BLOCKS: usize = 8;
        let mut memory = MaybeUninit::<[Block; BLOCKS]>::uninit();
        let block: *mut Block = memory.as_mut_ptr().cast();
        // Accesses, and the lines up to the beginning of the closure, which has no bytes. So eight
        // accesses fill their block to the end.
        for (count, lines) in
            [(0, 1..2), (1, 1..2), (2, 1..2), (3, 1..3), (4, 1..3), (5, 1..4), (8, 1..4), (9, 1..5), (18, 1..8)]
        {
            let class = class_for(count, 0, false, Layout::Plain);
            assert!(size(class) <= size_of::<[Block; BLOCKS]>());
            // SAFETY: the memory is ours, long enough, and written.
            let words = unsafe {
                block.cast::<u8>().write_bytes(0xff, size_of::<[Block; BLOCKS]>());
                Block::initialise(block, class, 0);
                block.cast::<u64>().add(WORD).write_bytes(0xff, WORD);
                (*block).count = count as u32;
                Block::mark_lines(block);
                std::slice::from_raw_parts(block.cast::<u64>().add(WORD), (2 * BLOCKS - 1) * WORD)
            };
            let written = |line: usize| words[(line - 1) * WORD..line * WORD].contains(&0);
            let found: Vec<_> = (1..2 * BLOCKS).filter(|line| written(*line)).collect();
            assert_eq!(found, lines.collect::<Vec<_>>(), "{count} accesses in {} bytes", size(class));
        }
    }

    #[test]
    fn the_worker_and_the_start_are_kept_however_long_the_engine_has_run() {
        let mut memory = MaybeUninit::<[Block; 2]>::uninit();
        let block: *mut Block = memory.as_mut_ptr().cast();
        // SAFETY: the memory is ours, and as long as two blocks of the smallest class.
        unsafe {
            Block::initialise(block, 1, 0);
            (*block).count = 3;
            (*block).flags = FLAG_PROFILED;
            // Four days, and five centuries.
            for start in [4 * 86_400_000_000_000, u64::MAX] {
                let times = Timestamps { push: 1, ready: 2, start, pushed_on: 3, started_on: 4 };
                Block::times(block).write(times);
                for worker in [None, Some(0), Some(70_000)] {
                    Block::keep_worker(block, worker);
                    assert_eq!(Block::kept_worker(block), worker);
                }
                assert_eq!((*Block::times(block)).start, start);
            }
        }
    }
}
