//! Hazards: the addresses that a thread holds while it follows tails, so that blocks can be used
//! again though a pin stands still (Michael, *Hazard pointers*, 2004).
//!
//! Usually a pin keeps what a thread finds. But a pinned thread that loses its core keeps every
//! block that is spent from then on. So a thread also says, by these words, which blocks it may
//! touch. `pool/beside_epoch.rs` reads the words of all threads once too many blocks wait for the
//! pins, and lets the others go. Each thread cache has [`Hazards`], which its owner writes:
//! `engine/push/enlist.rs` and `engine/ticket_host.rs`, through them `linking.rs`, and `common.rs`
//! for threads that wait. In the child of a fork `pool/memory.rs` clears those of other threads.
//!
//! # How an address is held
//!
//! 1. The thread stores the address, and passes a light fence.
//! 2. It looks again at what has led it there: the tail is where it was, or the word of the
//!    operation has its tag and is not free. Otherwise it holds nothing, and starts over.
//!
//! The thread that wants to use spent blocks again passes a heavy fence, and then reads all words.
//! A block is spent after its tails have left it and its word was freed. So either it finds the
//! address, or the second look has found the change.
//!
//! An address that is held already may be copied to another word without a fence, but only to one
//! that is [read](Hazards::held) later. A reader that misses the first word, because it was
//! overwritten, then finds the other. A pusher's own block is stored before any other thread knows
//! it. A thread that finds the block spent comes after that, and so finds the address here.
//!
//! Slots of variables are not held here: they stay with the pins.

use crate::operation::access::Access;
use crate::operation::block::Block;
use crate::platform::asymmetric_fence::light;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering::*, MODELLED};

/// The words, in the order in which they are read: an address is copied from one to a later one.
#[derive(Clone, Copy)]
pub enum Hold {
    /// The access behind the tail.
    Next,
    /// The access at the tail.
    Tail,
    /// The operation that is being linked, to help.
    Target,
    /// The operation for which that is done.
    Start,
    /// The operation that the thread pushes.
    Own,
}

const HOLDS: usize = Hold::Own as usize + 1;

/// What one thread holds: addresses inside blocks, or 0.
pub struct Hazards {
    words: [AtomicUsize; HOLDS],
    /// Whether anybody reads the words. In models only: there most go by pins alone, and need not
    /// explore this.
    is_read: bool,
}

impl Hazards {
    pub fn new() -> Hazards {
        Hazards { words: std::array::from_fn(|_| AtomicUsize::new(0)), is_read: !MODELLED }
    }

    /// Has a model go by them.
    #[cfg(any(loom, shuttle))]
    pub fn read() -> Hazards {
        Hazards { is_read: true, ..Hazards::new() }
    }

    #[inline(always)]
    fn is_read(&self) -> bool {
        !MODELLED || self.is_read
    }

    /// Stores an address: that of a block that is held, or that no other thread knows yet.
    #[inline]
    pub fn keep(&self, hold: Hold, block: *mut Block) {
        self.store(hold, block.addr());
    }

    /// Stores the address of a block that may be spent. The caller looks afterwards whether it is.
    #[inline]
    pub fn announce(&self, hold: Hold, block: *mut Block) {
        self.publish(hold, block.addr());
    }

    /// Loads a tail, and holds the access there. Up to `marks` its values are no addresses.
    #[inline]
    pub fn tail(&self, tail: &AtomicPtr<Access>, marks: *mut Access) -> *mut Access {
        // Acquire: pairs with the swing of the tail in `linking::link`, for the access and its
        // ticket.
        let mut found = tail.load(Acquire);
        // Lock-free: each further round follows a swing by another thread.
        while found > marks && self.is_read() {
            self.publish(Hold::Tail, found.addr());
            // Acquire: as above. The block may have been used again for the same access since.
            let now = tail.load(Acquire);
            if now == found {
                break;
            }
            found = now;
        }
        found
    }

    /// Holds the access `next` that was found behind `tail`, if the tail still leads there; says
    /// whether it does. If so, the tail has not come to `next` yet, which is not spent before.
    #[inline]
    pub fn behind(&self, next: *mut Access, of: &AtomicPtr<Access>, tail: *mut Access) -> bool {
        self.publish(Hold::Next, next.addr());
        // Relaxed: what was written to the access came with its address. The fence orders the look
        // behind the store of the address.
        !self.is_read() || of.load(Relaxed) == tail
    }

    /// Lets go of everything.
    #[inline]
    pub fn clear(&self) {
        if self.is_read() {
            // Release: as in `store`.
            self.words.iter().for_each(|word| word.store(0, Release));
        }
    }

    /// Calls `visit` with each address that is held. The caller has passed a heavy fence since the
    /// blocks that it asks for were spent.
    #[inline]
    pub fn held(&self, visit: impl FnMut(usize)) {
        // Acquire: pairs with the release in `store`. So what the thread has done with an address
        // that is gone is over, and an address that was copied is found in a later word.
        self.words.iter().map(|word| word.load(Acquire)).filter(|address| *address != 0).for_each(visit);
    }

    #[inline]
    fn publish(&self, hold: Hold, address: usize) {
        if self.is_read() {
            self.store(hold, address);
            // Light side of the asymmetric fence; the heavy side is in `pool/beside_epoch.rs`.
            // Either the caller sees that the block is spent, or that thread sees the address.
            light();
        }
    }

    #[inline]
    fn store(&self, hold: Hold, address: usize) {
        if self.is_read() {
            // Release: what was done with the address that was there comes before.
            self.words[hold as usize].store(address, Release);
        }
    }
}
