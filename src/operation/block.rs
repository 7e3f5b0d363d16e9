//! The operation block: everything about one pushed operation, in two cache lines if it is a usual
//! one.
//!
//! Blocks come from pools ([`crate::pool`]), in the sizes of [`layout`](crate::operation::layout).
//! They stay blocks for as long as the engine is there, so a reference to an operation that has
//! ended is harmless: the tag in its word tells.

use crate::operation::access::{Access, ACCESSES_OFFSET};
use crate::operation::closure::Vtable;
use crate::operation::layout::{behind, behind_accesses, size, Layout, Timestamps, CLOSURE_ALIGN, SMALLEST};
use crate::platform::cache_line::{fetch_to_write, LINE};
use crate::sync::{touch, AtomicU32, AtomicU64, AtomicU8, Ordering, MODELLED};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// The block is in a pool or being filled.
pub const FREE: u8 = 0;
/// Pushed, and not yet running.
pub const PENDING: u8 = 1;
/// Running, or waiting for its asynchronous completion.
pub const RUNNING: u8 = 2;
/// All of it is written but its accesses, which may be written again.
pub const ASSEMBLED: u8 = 3;

/// A wait: runs on the thread that finds it ready, whatever that is, and is not skipped.
pub const FLAG_WAIT: u8 = 1;
/// Deletes its variable.
pub const FLAG_DELETE: u8 = 1 << 1;
/// Pushed while the profiler was on.
pub const FLAG_PROFILED: u8 = 1 << 2;
/// Its closure is short, so that its pusher runs it if it is ready at once.
pub const FLAG_SHORT: u8 = 1 << 3;
/// Runs a graph, which looks after marks and versions itself.
pub const FLAG_GRAPH: u8 = 1 << 4;
/// In a request: parts of the operation run where copies do, or where prioritised operations do.
pub const FLAG_COPIES: u8 = 1 << 5;
pub const FLAG_PRIORITISED: u8 = 1 << 6;
/// In a request: does not wait for room, since its push is part of a destructor.
pub const FLAG_BEYOND: u8 = 1 << 7;

/// In [`Block::kind`]: the block is one of the pool's.
const POOLED: u8 = 0;
/// The block is one of a [ring](crate::tickets::ring).
const RINGED: u8 = 1;
/// A block of the pool, of which operations that run inside their push use the word alone, one
/// after the other.
const INSIDE: u8 = 2;
/// A block of the pool, of an operation that is linked on common variables
/// ([`common`](crate::tickets::common)).
const LINKED: u8 = 3;
/// As that, but a variable was deleted meanwhile: the operation completes without running.
const VOIDED: u8 = 4;

/// An operation block. Read through raw pointers on purpose: a reference to a block would claim
/// more than any one thread may.
#[repr(C, align(128))]
pub struct Block {
    /// See [`Word`](crate::tickets::word::Word).
    word: AtomicU64,
    /// Accesses whose tickets have come, in order. For who has the operation.
    pub tested: AtomicU32,
    /// Number of accesses.
    pub count: u32,
    /// `POOLED`, `RINGED`, `INSIDE`, `LINKED` or `VOIDED`.
    kind: AtomicU8,
    /// `FREE`, `ASSEMBLED`, `PENDING` or `RUNNING`: for diagnosis only.
    pub lifecycle: AtomicU8,
    pub flags: u8,
    /// The length of the name.
    pub(super) name_length: u16,
    /// Property and context.
    pub(super) room: u16,
    pub priority: i32,
    /// The size class, and the number of the cache. While free and the first of a magazine, the
    /// number of its blocks.
    pub(super) origin: u32,
    pub(super) name: *const u8,
    /// How to run and to drop the closure. While free: see [`crate::pool::magazine`].
    pub body: *const Vtable,
    /// The next block of whatever list this one is in: ready, inbox, free.
    pub link: *mut Block,
    /// Push order.
    pub sequence: u64,
    payload: Payload,
}

/// Accesses, times, closure.
#[cfg_attr(not(any(loom, shuttle)), repr(C, align(16)))]
#[cfg_attr(any(loom, shuttle), repr(C, align(2048)))]
struct Payload(MaybeUninit<[u8; if MODELLED { 2048 } else { 64 }]>);

const _: () = assert!(std::mem::offset_of!(Block, word) == 0);
const _: () = assert!(std::mem::offset_of!(Block, payload) == ACCESSES_OFFSET);
const _: () = assert!(std::mem::size_of::<Block>() == SMALLEST);

impl Block {
    /// Makes fresh memory a free block, of that word.
    ///
    /// # Safety
    /// `this` is exclusively ours, aligned as `Block`, and `size(class)` bytes long.
    pub unsafe fn initialise(this: *mut Block, class: u8, word: u64) {
        // SAFETY: exclusive and large enough by the contract. The payload stays uninitialised.
        unsafe {
            this.write(Block {
                word: AtomicU64::new(word),
                tested: AtomicU32::new(0),
                count: 0,
                kind: AtomicU8::new(POOLED),
                lifecycle: AtomicU8::new(FREE),
                flags: 0,
                name_length: 0,
                room: 0,
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

    /// Makes the block that of a fresh operation with so many accesses. It leaves the word alone:
    /// others may still look at that.
    ///
    /// # Safety
    /// `this` points to a block of ours.
    #[inline]
    pub unsafe fn renew(this: *mut Block, count: u32, ringed: bool) {
        // SAFETY: ours.
        unsafe {
            (&raw mut (*this).count).write(count);
            (*this).tested.store(0, Ordering::Relaxed);
            (*this).kind.store(if ringed { RINGED } else { POOLED }, Ordering::Relaxed);
        }
    }

    /// Makes it one for operations that run inside their push, after [`Block::renew`].
    ///
    /// # Safety
    /// `this` points to a block of ours.
    pub unsafe fn set_inside(this: *mut Block) {
        // SAFETY: ours.
        unsafe { (*this).kind.store(INSIDE, Ordering::Relaxed) }
    }

    /// Whether operations that run inside their push use it: nobody can park there who has no
    /// ticket.
    ///
    /// # Safety
    /// `this` points to a block of the engine.
    pub unsafe fn is_inside(this: *mut Block) -> bool {
        // SAFETY: blocks stay blocks.
        unsafe { (*this).kind.load(Ordering::Relaxed) == INSIDE }
    }

    /// Makes it that of a fresh operation on common variables, after [`Block::renew`].
    ///
    /// # Safety
    /// `this` points to a block of ours.
    #[inline]
    pub unsafe fn set_linked(this: *mut Block) {
        // SAFETY: ours.
        unsafe { (*this).kind.store(LINKED, Ordering::Relaxed) }
    }

    /// Notes that a common variable of the operation was deleted.
    ///
    /// # Safety
    /// `this` points to a block that is held.
    pub unsafe fn set_voided(this: *mut Block) {
        // SAFETY: held.
        unsafe { (*this).kind.store(VOIDED, Ordering::Relaxed) }
    }

    /// Whether [`Block::set_voided`] was called: final once the operation is in a log.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub unsafe fn is_voided(this: *mut Block) -> bool {
        // SAFETY: held.
        unsafe { (*this).kind.load(Ordering::Relaxed) == VOIDED }
    }

    /// Whether the operation has [`Links`](crate::tickets::links::Links).
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub unsafe fn is_linked(this: *mut Block) -> bool {
        // SAFETY: held.
        unsafe { (*this).kind.load(Ordering::Relaxed) >= LINKED }
    }

    /// Whether the block is one of a ring.
    ///
    /// # Safety
    /// As there.
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

    /// The operation that an access is of.
    ///
    /// # Safety
    /// `access` is alive, and its provenance covers the operation.
    #[inline]
    pub unsafe fn of_access(access: *mut Access) -> *mut Block {
        // SAFETY: alive; an access lies where `Block::access` finds it.
        unsafe { access.byte_sub((*access).distance()).cast() }
    }

    /// Where the times of a profiled operation are.
    ///
    /// # Safety
    /// `this` points to an operation with [`FLAG_PROFILED`], whose block was made for that.
    pub unsafe fn times(this: *mut Block) -> *mut Timestamps {
        // SAFETY: a place inside the block; no reference is made.
        unsafe { this.cast::<u8>().add(behind((*this).count as usize, Block::layout(this))).cast() }
    }

    /// What lies before the times or the closure of an operation.
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

    /// Where the closure of an operation of this layout is stored.
    ///
    /// # Safety
    /// `this` points to an operation: the count of its accesses and its notes are written.
    #[inline(always)]
    pub unsafe fn closure(this: *mut Block, layout: Layout) -> *mut u8 {
        // SAFETY: a place inside the block; no reference is made.
        unsafe {
            let times = if (*this).flags & FLAG_PROFILED != 0 { std::mem::size_of::<Timestamps>() } else { 0 };
            this.cast::<u8>().add(behind((*this).count as usize, layout) + times)
        }
    }

    /// The [`Word`](crate::tickets::word::Word) of an operation.
    #[inline(always)]
    pub fn word(this: *mut Block) -> *const AtomicU64 {
        // It is the first field.
        this.cast::<AtomicU64>().cast_const()
    }

    /// Where the reference of the write is kept that the operation comes after on the variable of
    /// access `index`: a [`Word`](crate::tickets::word::Word).
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

    /// Writes to each line behind the header in which something of the operation lies, so that its
    /// next pusher gets it soon: see [`crate::platform::cache_line`]. What is further back of a
    /// long closure is for who takes that out. Not of an operation that is linked, as all are that
    /// have not gone the quick way: others may look at it when it has ended.
    ///
    /// # Safety
    /// `this` points to an operation that has run and is ours.
    #[inline]
    pub unsafe fn mark_lines(this: *mut Block) {
        // So many and the beginning of a closure need one line.
        const FEW: u32 = 2;
        const { assert!(MODELLED || behind(FEW as usize, Layout::Plain) + CLOSURE_ALIGN <= 2 * LINE) };
        // SAFETY: ours, and of this layout; each block has two lines. At the start of a line lies a
        // ticket, a write before, what was the closure's, or nothing. Nothing is needed any more,
        // and what others could still look at is atomic.
        unsafe {
            if MODELLED || Block::is_linked(this) {
                return;
            }
            (*this.cast::<u8>().add(LINE).cast::<AtomicU64>()).store(0, Ordering::Relaxed);
            if (*this).count > FEW {
                Block::mark_further_lines(this);
            }
        }
    }

    #[inline(never)]
    unsafe fn mark_further_lines(this: *mut Block) {
        // SAFETY: as in `mark_lines`.
        unsafe {
            // Without anything to store, a closure may begin where the block ends.
            let used = behind((*this).count as usize, Layout::Plain) + CLOSURE_ALIGN;
            let end = this.cast::<u8>().add(used.min(size(Block::class(this))));
            let mut line = this.cast::<u8>().add(2 * LINE);
            while line < end {
                (*line.cast::<AtomicU64>()).store(0, Ordering::Relaxed);
                line = line.add(LINE);
            }
        }
    }

    /// Where the [`Links`](crate::tickets::links::Links) of an operation on common variables are.
    ///
    /// # Safety
    /// `this` points to such an operation, the count of whose accesses is written.
    #[inline]
    pub unsafe fn links(this: *mut Block) -> *mut u8 {
        // SAFETY: a place inside the block; no reference is made.
        unsafe { Block::before(this, (*this).count).cast() }
    }

    /// Tells a simulated machine that all of an operation is used, up to the closure's first bytes.
    ///
    /// # Safety
    /// As [`Block::closure`].
    #[inline]
    #[cfg_attr(seriatim_simulation, track_caller)]
    pub unsafe fn touch(this: *mut Block, writes: bool) {
        // SAFETY: by the contract.
        unsafe { touch(this, behind((*this).count as usize, Layout::Plain) + CLOSURE_ALIGN, writes) }
    }

    /// Asks for the lines that running the operation writes, and that a push does: the header with
    /// its counters, the first accesses and the closure.
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
