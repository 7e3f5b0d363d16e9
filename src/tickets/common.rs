//! Variables that several threads push to. Their operations are linked, and tickets follow from
//! link to link.
//!
//! A variable's *tail* leads to its last access (Michael and Scott 1996). An access that is linked
//! behind another gets its ticket, and the reference of the write before it, from that one alone.
//! Nothing else is passed along: whether an operation may run, its tickets say
//! ([`run`](crate::tickets::run)).

use crate::operation::access::{Access, Mode, Ticket};
use crate::operation::block::Block;
use crate::sync::{AtomicPtr, AtomicU64, Ordering::*, MODELLED};
use crate::tickets::links::Links;
use crate::tickets::run::Start;
use crate::tickets::word::Word;
use std::ptr::{null_mut, without_provenance_mut};

/// A variable that several threads push to. All its bytes are zero while it is not common.
pub struct Common {
    /// The last access; [`START`] if there is none yet; [`TOMBSTONE`] after the deletion; null if
    /// the variable is not common.
    pub(super) tail: AtomicPtr<Access>,
    /// The first access.
    pub(super) first: AtomicPtr<Access>,
    /// Its [`Start`].
    pub(super) ticket: AtomicU64,
    pub(super) last: AtomicU64,
}

/// Addresses at which no access lies.
pub(super) const START: *mut Access = without_provenance_mut(16);
pub(super) const TOMBSTONE: *mut Access = without_provenance_mut(32);

/// What linking needs of its user.
pub trait Commons {
    /// The variable of this number, which is or was common.
    fn common(&self, variable: u32) -> &Common;
    /// An operation has its tickets: gives it to those who run it. Several threads may be told of
    /// one operation, some of them when it has run: it is for who takes it.
    fn logged(&mut self, operation: Word);
    /// The operation of the block has ended, and no tail leads to it: the block may be used again
    /// when all threads are gone that are pinned now.
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
        // Release: who finds it open finds where it starts.
        let _ = self.tail.compare_exchange(null_mut(), START, Release, Relaxed);
    }

    /// Ends the time in which the variable is common; says where counting goes on, `None` if it was
    /// not common. For models, which make it common again.
    ///
    /// # Safety
    /// No other thread links anything, and those that have are seen by the caller.
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
        // SAFETY: what a tail leads to is not used again before the tail leaves it, which is now.
        unsafe {
            let start = self.behind(tail);
            if tail != START {
                spend(Block::of_access(tail), commons);
            }
            Some(start)
        }
    }

    /// Closes the variable after the operation that deletes it has run.
    ///
    /// # Safety
    /// The operation in `deletion` is linked on this variable alone, by [`Mode::Delete`]; it has
    /// run and not yet ended.
    pub unsafe fn close(&self, deletion: *mut Block, commons: &mut impl Commons) {
        // A store: nothing is linked behind a deletion. Release: for who does not find the
        // deletion.
        self.tail.store(TOMBSTONE, Release);
        // SAFETY: a tail led to it until now.
        unsafe { spend(deletion, commons) };
    }

    /// Makes it that of a new variable, which nobody knows, in the slot of one that was deleted.
    ///
    /// # Safety
    /// If the variable before was common, it is [closed](Common::close), and every thread is gone
    /// that was pinned then.
    pub unsafe fn renew(&self) {
        let tail = self.tail.load(Relaxed);
        if tail.is_null() {
            return;
        }
        assert!(!MODELLED || tail == TOMBSTONE, "a variable is renewed that is in use");
        self.first.store(null_mut(), Relaxed);
        self.ticket.store(0, Relaxed);
        self.last.store(Word::NONE.0, Relaxed);
        // Release: a helper may be late with an operation that is void on the variable before. If
        // it finds this, it finds that the operation is done.
        self.tail.store(null_mut(), Release);
    }

    /// Writes pushed so far; `None` if the variable was deleted.
    ///
    /// # Safety
    /// The caller is pinned, and the variable is common, or was when it was deleted.
    pub unsafe fn writes(&self) -> Option<u32> {
        // Acquire: the access behind it.
        let tail = self.tail.load(Acquire);
        // SAFETY: held by the pin.
        (tail != TOMBSTONE).then(|| unsafe { self.behind(tail) }.ticket.writes)
    }

    /// The last write, if it is known, and linked everywhere.
    ///
    /// # Safety
    /// As [`Common::writes`].
    pub unsafe fn last_write(&self) -> Option<Word> {
        // Acquire: the access behind it.
        let tail = self.tail.load(Acquire);
        if tail == TOMBSTONE {
            return None;
        }
        // SAFETY: held by the pin. What is before a read was linked everywhere before that.
        unsafe {
            let written = tail != START && (*tail).mode() != Mode::Read;
            let is_done = !written || Links::is_done(Block::of_access(tail));
            is_done.then(|| self.behind(tail).last)
        }
    }

    /// What comes behind an access at the tail gets this.
    #[inline]
    pub(super) unsafe fn behind(&self, tail: *mut Access) -> Start {
        if tail == START {
            let ticket = Ticket::of(self.ticket.load(Relaxed));
            return Start { ticket, last: Word(self.last.load(Relaxed)) };
        }
        // SAFETY: held by the caller. Relaxed: the tail has brought all of it.
        unsafe {
            let block: *mut Block = Block::of_access(tail);
            let Ticket { writes, reads } = Ticket::of((*tail).ticket.load(Relaxed));
            if (*tail).mode() == Mode::Read {
                let last = Word((*Block::before(block, index_of(tail))).load(Relaxed));
                return Start { ticket: Ticket { writes, reads: reads.wrapping_add(1) }, last };
            }
            Start { ticket: Ticket { writes: writes.wrapping_add(1), reads }, last: refer(block) }
        }
    }

    /// Where it is noted what is behind an access at the tail.
    #[inline]
    pub(super) unsafe fn next(&self, tail: *mut Access) -> &AtomicPtr<Access> {
        if tail == START {
            return &self.first;
        }
        // SAFETY: held by the caller; only accesses with links are at tails.
        unsafe { &*Links::next(Block::of_access(tail), index_of(tail)) }
    }

    /// Whether the tail leads to an access of this block.
    #[cfg(any(loom, shuttle))]
    pub fn rests_on(&self, block: *mut Block) -> bool {
        let tail = self.tail.load(Relaxed);
        // SAFETY: models keep their blocks.
        tail > TOMBSTONE && unsafe { Block::of_access(tail) } == block
    }
}

/// Which access of its operation it is.
#[inline]
pub(super) unsafe fn index_of(access: *mut Access) -> u32 {
    // SAFETY: an access of an operation.
    unsafe { access.offset_from(Block::access(Block::of_access(access), 0)) as u32 }
}

/// The reference to the operation in a block that is held.
#[inline]
pub(super) unsafe fn refer(block: *mut Block) -> Word {
    // SAFETY: held. Relaxed: the tag stays for as long.
    Word::refers(block, Word(unsafe { (*Block::word(block)).load(Relaxed) }).tag())
}

/// One use of a block is over.
#[inline]
pub(super) unsafe fn spend<C: Commons>(block: *mut Block, commons: &mut C) {
    // SAFETY: the caller owes the use.
    if unsafe { Links::release(block) } {
        commons.spent(block);
    }
}
