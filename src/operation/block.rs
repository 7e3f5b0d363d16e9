//! The operation block: everything about one pushed operation, in two to four cache lines.
//!
//! Blocks come from pools ([`crate::pool`]) in size classes: 256 bytes for up to three accesses, twice as much for each
//! class after that. The header and a small closure are at the front, the accesses behind.

use super::closure::Vtable;
use super::property::Property;
use crate::device::Device;
use crate::line::{fetch_to_write, LINE};
use crate::sync::{AtomicU8, Ordering, MODELLED};
use crate::variable::access::{Access, Node, ACCESSES_OFFSET};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// Closures up to this many bytes are stored in the block.
pub const INLINE_CLOSURE: usize = 64;
/// Accesses of a block of class 0.
pub const INLINE_ACCESSES: usize = 3;

/// The block is in a pool or being filled.
pub const FREE: u8 = 0;
/// Pushed, and not yet running.
pub const PENDING: u8 = 1;
/// Running, or waiting for its asynchronous completion.
pub const RUNNING: u8 = 2;

/// A wait: runs on the thread that finds it ready, whatever that is, and is not skipped.
pub const NOTE_WAIT: u8 = 1;
/// Deletes its variable.
pub const NOTE_DELETE: u8 = 1 << 1;
/// Pushed while the profiler was on.
pub const NOTE_PROFILED: u8 = 1 << 2;
/// Its closure is short, so that its pusher runs it if it is ready at once.
pub const NOTE_SHORT: u8 = 1 << 3;
/// Runs a graph, which looks after marks and versions itself.
pub const NOTE_GRAPH: u8 = 1 << 4;
/// In a request: parts of the operation run where copies do, or where prioritised operations do.
pub const NOTE_COPIES: u8 = 1 << 5;
pub const NOTE_PRIORITISED: u8 = 1 << 6;
/// In a request: does not wait for room, since its push is part of a destructor.
pub const NOTE_BEYOND: u8 = 1 << 7;

/// Bits of a block's `link` that hold the start of an asynchronous operation, in nanoseconds: three days. The worker's number is above.
const START_BITS: u32 = 48;

/// An operation block. Read through raw pointers: see [`crate::variable::chain`].
#[repr(C, align(128))]
pub struct Block {
    /// What the variable protocol uses.
    pub node: Node,
    /// `FREE`, `PENDING` or `RUNNING`: for diagnosis only.
    pub lifecycle: AtomicU8,
    /// The size class of the block, fixed when it is allocated.
    pub class: u8,
    pub property: Property,
    pub notes: u8,
    pub priority: i32,
    pub device: Device,
    pub device_id: u16,
    pub name: &'static str,
    /// How to run and to drop the closure.
    pub body: *const Vtable,
    /// The next block of whatever list this one is in: ready, inbox, free.
    pub link: *mut Block,
    /// The home pool; while free, the next magazine of the pool's stacks.
    pub home: *mut (),
    /// Push order.
    pub sequence: u64,
    /// When it was pushed and when it became ready, in nanoseconds of the engine's clock, if profiled. While free and the first of a
    /// magazine, the last block of the magazine and the number of its blocks.
    pub push_time: u64,
    pub ready_time: u64,
    closure: Closure,
    accesses: Accesses,
}

#[repr(C, align(32))]
struct Closure(MaybeUninit<[u8; INLINE_CLOSURE]>);

#[cfg_attr(not(any(loom, shuttle)), repr(C, align(32)))]
#[cfg_attr(any(loom, shuttle), repr(C, align(2048)))]
struct Accesses(MaybeUninit<[Access; INLINE_ACCESSES]>);

const _: () = assert!(std::mem::offset_of!(Block, node) == 0);
const _: () = assert!(std::mem::offset_of!(Block, accesses) == ACCESSES_OFFSET);
#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(std::mem::size_of::<Block>() == 256);

/// The bytes in front of the closure.
pub const HEADER: usize = std::mem::offset_of!(Block, closure);

/// The number of size classes: 256 bytes to 512 MiB.
pub const CLASSES: usize = if MODELLED { 2 } else { 22 };

/// The most accesses that an operation can have: 16 million.
pub const MOST_ACCESSES: usize = capacity(CLASSES as u8 - 1);

/// The size in bytes of a block of `class`.
pub const fn size(class: u8) -> usize {
    std::mem::size_of::<Block>() << class
}

/// The accesses that a block of `class` holds.
const fn capacity(class: u8) -> usize {
    (size(class) - ACCESSES_OFFSET) / std::mem::size_of::<Access>()
}

/// The smallest class whose blocks hold `accesses` accesses, which are at most [`MOST_ACCESSES`].
#[inline]
pub fn class_for(accesses: usize) -> u8 {
    let mut class = 0;
    while capacity(class) < accesses {
        class += 1;
    }
    class
}

impl Block {
    /// Makes fresh memory a free block.
    ///
    /// # Safety
    /// `this` is exclusively ours, aligned as `Block`, and `size(class)` bytes long.
    pub unsafe fn initialise(this: *mut Block, class: u8) {
        // SAFETY: exclusive and large enough by the contract. The closure and the accesses stay uninitialised.
        unsafe {
            this.write(Block {
                node: Node::new(0),
                lifecycle: AtomicU8::new(FREE),
                class,
                property: Property::Normal,
                notes: 0,
                priority: 0,
                device: Device::Cpu,
                device_id: 0,
                name: "",
                body: std::ptr::null(),
                link: null_mut(),
                home: null_mut(),
                sequence: 0,
                push_time: 0,
                ready_time: 0,
                closure: Closure(MaybeUninit::uninit()),
                accesses: Accesses(MaybeUninit::uninit()),
            });
        }
    }

    /// Where the closure is stored.
    ///
    /// # Safety
    /// `this` points to a block.
    #[inline]
    pub unsafe fn closure(this: *mut Block) -> *mut u8 {
        // SAFETY: a place inside the block; no reference is made.
        unsafe { (&raw mut (*this).closure).cast() }
    }

    /// Asks for the lines that running the operation writes: its counters, its closure and its first access.
    #[inline]
    pub fn expect(this: *mut Block) {
        fetch_to_write(this);
        fetch_to_write(this.cast::<u8>().wrapping_add(ACCESSES_OFFSET));
    }

    /// Asks for the lines that a push writes.
    #[inline]
    pub fn expect_push(this: *mut Block) {
        (0..3).for_each(|line| fetch_to_write(this.cast::<u8>().wrapping_add(line * LINE)));
    }

    /// Notes the stage of the operation's life, for whoever draws the pending graph.
    ///
    /// # Safety
    /// `this` points to a block of ours.
    #[inline]
    pub unsafe fn enter(this: *mut Block, lifecycle: u8) {
        // SAFETY: the block is ours. Release: a thread that reads PENDING also reads the header that was written before.
        unsafe { (*this).lifecycle.store(lifecycle, Ordering::Release) }
    }

    /// Notes when and where an asynchronous operation started, for its end.
    ///
    /// # Safety
    /// `this` points to a running operation of ours.
    pub unsafe fn keep_start(this: *mut Block, started: u64, worker: Option<usize>) {
        let place = worker.map_or(0, |worker| worker as u64 + 1);
        let packed = place << START_BITS | started & ((1 << START_BITS) - 1);
        // SAFETY: ours; the link is not used while an operation runs.
        unsafe { (*this).link = std::ptr::without_provenance_mut(packed as usize) };
    }

    /// What [`Block::keep_start`] noted.
    ///
    /// # Safety
    /// As there, and it was called.
    pub unsafe fn kept_start(this: *mut Block) -> (u64, Option<usize>) {
        // SAFETY: ours.
        let packed = unsafe { (*this).link.addr() } as u64;
        let place = packed >> START_BITS;
        (packed & ((1 << START_BITS) - 1), place.checked_sub(1).map(|worker| worker as usize))
    }
}
