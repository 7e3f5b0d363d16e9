//! Common variables: the state of a variable that several threads write. Its operations are linked
//! at a tail, and each gets its ticket from the one before it.
//!
//! The *tail* of a variable leads to its last access (Michael and Scott 1996). An access that is
//! linked behind another one gets its ticket, and the reference to the write before it, from that
//! access alone. Nothing else is passed along: the tickets say whether an operation may run
//! ([`run`](crate::tickets::run)).
//!
//! The linking itself is in `linking.rs`. `src/variable/table.rs` has a [`Common`] for each
//! variable; `src/engine/ticket_host.rs` implements [`Commons`]. `owner/handover.rs` decides that a
//! variable becomes common.
//!
//! Pinned threads that push change a [`Common`], for their own operation or as helpers. Threads
//! that wait (`engine/wait/`) read it. The thread that ends a deletion closes it, and the thread
//! that makes the next variable of the slot renews it.

use crate::operation::access::{Access, Mode, Ticket};
use crate::operation::block::Block;
use crate::sync::{AtomicPtr, AtomicU64, Ordering::*, MODELLED};
use crate::tickets::hazards::Hazards;
use crate::tickets::links::Links;
use crate::tickets::phases;
use crate::tickets::run::Start;
use crate::tickets::word::Word;
use std::ptr::{null_mut, without_provenance_mut};

/// The linked state of a variable. All its bytes are zero while the variable is not common.
pub struct Common {
    /// The last access; [`START`] if there is none yet; [`TOMBSTONE`] after the deletion; null if
    /// the variable is not common.
    pub(super) tail: AtomicPtr<Access>,
    /// The access that is linked first, behind [`START`].
    pub(super) first: AtomicPtr<Access>,
    /// The ticket and the last write of the [`Start`] that the first access gets.
    pub(super) ticket: AtomicU64,
    pub(super) last: AtomicU64,
}

/// Values of a tail that are not addresses of accesses.
pub(super) const START: *mut Access = without_provenance_mut(16);
pub(super) const TOMBSTONE: *mut Access = without_provenance_mut(32);

/// What linking needs of the engine.
pub trait Commons {
    /// The state of the variable of this number, which is or was common.
    fn common(&self, variable: u32) -> &Common;
    /// What the calling thread holds.
    fn hazards(&self) -> &Hazards;
    /// Called when an operation has its tickets: makes it one that can be taken, or takes it.
    /// Several threads may call this for one operation, some of them after it has run: only one
    /// take succeeds.
    fn logged(&mut self, operation: Word);
    /// The operation of the block has ended, and no tail leads to it. The block may be used again
    /// when all threads have unpinned that are pinned now, or when none holds it.
    fn spent(&mut self, block: *mut Block);
}

impl Default for Common {
    fn default() -> Common {
        Common {
            tail: AtomicPtr::new(null_mut()),
            first: AtomicPtr::new(null_mut()),
            ticket: AtomicU64::new(0),
            last: AtomicU64::new(0),
        }
    }
}

impl Common {
    /// Whether the variable is common, or was when it was deleted.
    #[inline]
    pub fn is_open(&self) -> bool {
        !self.tail.load(Relaxed).is_null()
    }

    /// Makes the variable common, unless it is. Several threads may do it at once, with the same
    /// `start`.
    pub fn open(&self, start: Start) {
        self.ticket.store(start.ticket.packed(), Relaxed);
        self.last.store(start.last.0, Relaxed);
        // Release: pairs with the acquire loads of the tail, so a thread that finds the variable
        // open finds its start.
        let _ = self.tail.compare_exchange(null_mut(), START, Release, Relaxed);
    }

    /// Ends the time in which the variable is common. Returns where counting goes on; `None` if it
    /// was not common or was deleted. For models, which make it common again.
    ///
    /// # Safety
    /// No other thread links anything, and the caller sees all links.
    #[cfg(any(loom, shuttle))]
    pub unsafe fn take_back(&self, commons: &mut impl Commons) -> Option<Start> {
        let tail = self.tail.load(Relaxed);
        if tail.is_null() {
            return None;
        }
        self.tail.store(null_mut(), Relaxed);
        self.first.store(null_mut(), Relaxed);
        if tail == TOMBSTONE {
            return None;
        }
        // SAFETY: the block that a tail leads to is not used again before the tail leaves it, which
        // is now.
        unsafe {
            let start = self.behind(tail);
            if tail != START {
                spend(Block::of_access(tail), commons);
            }
            Some(start)
        }
    }

    /// Closes the variable after the operation that deletes it has run. Called by
    /// `src/engine/complete.rs`.
    ///
    /// # Safety
    /// The operation in `deletion` is linked on this variable alone, by [`Mode::Delete`]; it has
    /// run and not yet ended.
    pub unsafe fn close(&self, deletion: *mut Block, commons: &mut impl Commons) {
        // A store is enough: nothing is linked behind a deletion. Release: pairs with the acquire
        // in `linking::link`, for a thread that finds the tombstone and not the deletion.
        self.tail.store(TOMBSTONE, Release);
        // SAFETY: the tail led to the deletion until now.
        unsafe { spend(deletion, commons) };
    }

    /// Makes this the state of a new variable, which nobody knows yet, in the slot of a deleted
    /// one. Called by `src/variable/table.rs`.
    ///
    /// # Safety
    /// If the variable before was common, it is [closed](Common::close), and every thread has
    /// unpinned that was pinned then.
    pub unsafe fn renew(&self) {
        let tail = self.tail.load(Relaxed);
        if tail.is_null() {
            return;
        }
        assert!(!MODELLED || tail == TOMBSTONE, "a variable is renewed that is in use");
        self.first.store(null_mut(), Relaxed);
        self.ticket.store(0, Relaxed);
        self.last.store(Word::NONE.0, Relaxed);
        // Release: pairs with the acquire in `linking::link`. A helper may be late with an
        // operation that is void on the variable before. If it finds null, it also finds that the
        // operation is done.
        self.tail.store(null_mut(), Release);
    }

    /// The number of writes pushed so far; `None` if the variable was deleted, or if operations
    /// commute there: then this number does not tell when they have ended.
    ///
    /// # Safety
    /// The caller is pinned, and the variable is common, or was when it was deleted. `hazards` are
    /// the caller's, and hold nothing.
    pub unsafe fn writes(&self, hazards: &Hazards) -> Option<u32> {
        let tail = hazards.tail(&self.tail, TOMBSTONE);
        // SAFETY: the access at the tail is held.
        let is_known = tail != TOMBSTONE && (tail == START || unsafe { (*tail).mode() } != Mode::Commute);
        // SAFETY: as above.
        let writes = is_known.then(|| unsafe { self.behind(tail) }.ticket.writes);
        hazards.clear();
        writes
    }

    /// The last write, if it is linked everywhere; `None` if it is not, or if the variable was
    /// deleted.
    ///
    /// # Safety
    /// As [`Common::writes`].
    pub unsafe fn last_write(&self, hazards: &Hazards) -> Option<Word> {
        let tail = hazards.tail(&self.tail, TOMBSTONE);
        if tail == TOMBSTONE {
            hazards.clear();
            return None;
        }
        // SAFETY: the access at the tail is held. The write before a read was linked everywhere
        // before the read was linked.
        let last = unsafe {
            let written = tail != START && (*tail).mode() != Mode::Read;
            let is_done = !written || Links::is_done(Block::of_access(tail));
            is_done.then(|| self.behind(tail).last)
        };
        hazards.clear();
        last
    }

    /// The ticket and the last write for the access that comes behind `tail`.
    ///
    /// # Safety
    /// `tail` was loaded from this variable by [`Hazards::tail`], and is held since; the caller is
    /// pinned.
    #[inline]
    pub(super) unsafe fn behind(&self, tail: *mut Access) -> Start {
        if tail == START {
            let ticket = Ticket::of(self.ticket.load(Relaxed));
            return Start { ticket, last: Word(self.last.load(Relaxed)) };
        }
        // SAFETY: the caller keeps the block. Relaxed: the load of the tail has acquired all of it.
        unsafe {
            let block: *mut Block = Block::of_access(tail);
            let Ticket { writes, reads } = Ticket::of((*tail).ticket.load(Relaxed));
            if (*tail).mode() == Mode::Read || phases::is_shared(block, index_of(tail)) {
                let last = Word((*Block::before(block, index_of(tail))).load(Relaxed));
                return Start { ticket: Ticket { writes, reads: reads.wrapping_add(1) }, last };
            }
            Start { ticket: Ticket { writes: writes.wrapping_add(1), reads }, last: refer(block) }
        }
    }

    /// The field in which the access behind `tail` is noted.
    ///
    /// # Safety
    /// As [`Common::behind`].
    #[inline]
    pub(super) unsafe fn next(&self, tail: *mut Access) -> &AtomicPtr<Access> {
        if tail == START {
            return &self.first;
        }
        // SAFETY: the caller keeps the block; only accesses of operations with links are at tails.
        unsafe { &*Links::next(Block::of_access(tail), index_of(tail)) }
    }

    /// Puts an access behind the tail, as a thread leaves it that stops before it swings the tail.
    /// For models.
    ///
    /// # Safety
    /// No other thread links anything. The operation is announced.
    #[cfg(any(loom, shuttle))]
    pub unsafe fn leave_behind(&self, access: *mut Access) {
        // SAFETY: as by the contract, the block that the tail leads to is not used again.
        unsafe { self.next(self.tail.load(Relaxed)) }.store(access, Release);
    }

    /// Whether the tail leads to an access of this block.
    #[cfg(any(loom, shuttle))]
    pub fn rests_on(&self, block: *mut Block) -> bool {
        let tail = self.tail.load(Relaxed);
        // SAFETY: models keep their blocks.
        tail > TOMBSTONE && unsafe { Block::of_access(tail) } == block
    }
}

/// The index of an access in its operation.
///
/// # Safety
/// The access is alive, and the caller keeps its block from being used again.
#[inline]
pub(super) unsafe fn index_of(access: *mut Access) -> u32 {
    // SAFETY: an access of an operation, in one block with access 0.
    unsafe { access.offset_from(Block::access(Block::of_access(access), 0)) as u32 }
}

/// The reference to the operation in a block.
///
/// # Safety
/// The caller keeps the block from being used again.
#[inline]
pub(super) unsafe fn refer(block: *mut Block) -> Word {
    // SAFETY: kept by the caller. Relaxed: the tag stays for as long.
    Word::refers(block, Word(unsafe { (*Block::word(block)).load(Relaxed) }).tag())
}

/// Ends one use of a block; the last one gives the block to [`Commons::spent`].
///
/// # Safety
/// The use is the caller's to end, and is ended once.
#[inline]
pub(super) unsafe fn spend<C: Commons>(block: *mut Block, commons: &mut C) {
    // SAFETY: the caller owes this use.
    if unsafe { Links::release(block) } {
        commons.spent(block);
    }
}
