//! An inbox: a lock-free stack of ready operations that any thread pushes to and any thread may
//! empty, with the owner's state in the same word.
//!
//! The word is the first operation of a list. If there is none, the word says what the owner (the
//! worker or helper of the inbox) is doing: running something (`BUSY`), looking for work
//! (`LOOKING`) or sleeping (`ASLEEP`). A push replaces that state, so the pusher learns from its
//! own exchange whether it must wake the owner. There is no second word, no fence and no lost
//! wake-up.
//!
//! `Group::deliver` (`group.rs`) pushes, on any thread. The owner (`run_loop.rs`) and thieves
//! (`steal.rs`) take; a group's common inbox has no owner, and any worker or helper takes. The
//! owner changes the state in `run_loop.rs` (workers) and `help.rs` (helpers); wakers do in
//! `wake.rs` and `helper_place.rs`, and a stop in `group.rs`. The watcher of a device sleeps by
//! such a word, too (`engine/gpu/sleep.rs`). The table of the states is in `worker/README.md`.

use crate::operation::block::Block;
use crate::platform::cache_line::fetch_now;
use crate::sync::{AtomicPtr, Ordering::*};
use crossbeam_utils::CachePadded;
use std::ptr::{null_mut, without_provenance_mut};

const BUSY: *mut Block = null_mut();
const LOOKING: *mut Block = without_provenance_mut(1);
const ASLEEP: *mut Block = without_provenance_mut(2);

fn is_state(word: *mut Block) -> bool {
    word.addr() <= ASLEEP.addr()
}

/// What a push or a call found in the inbox.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Met {
    /// Other operations: the thread that takes them takes the new ones as well.
    Others,
    /// An owner that is running something.
    Busy,
    /// An owner that is looking for work.
    Looking,
    /// A sleeping owner: unpark it.
    Asleep,
}

impl Met {
    fn of(head: *mut Block) -> Met {
        match head {
            BUSY => Met::Busy,
            _ if head == LOOKING => Met::Looking,
            _ if head == ASLEEP => Met::Asleep,
            _ => Met::Others,
        }
    }
}

/// A lock-free stack of ready operations.
pub struct Inbox {
    head: CachePadded<AtomicPtr<Block>>,
}

impl Inbox {
    pub fn new() -> Inbox {
        Inbox { head: CachePadded::new(AtomicPtr::new(BUSY)) }
    }

    /// Adds the operations from `first` to `last`, linked by `link`. Called by any thread.
    /// Lock-free: a retry means that another thread succeeded.
    ///
    /// # Safety
    /// The operations are ready, and the caller's to give away.
    pub unsafe fn push(&self, first: *mut Block, last: *mut Block) -> Met {
        fetch_now(&raw const *self.head);
        let mut head = self.head.load(Relaxed);
        loop {
            // SAFETY: the operations are ours until the exchange succeeds.
            unsafe { (*last).link = if is_state(head) { null_mut() } else { head } };
            // Release: pairs with the acquire in `take`, so that the taker sees the operations as
            // we do. Acquire: pairs with the release in `become_state`. If this exchange replaces
            // `ASLEEP`, we see what the sleeper wrote before (its thread handle), so that it is
            // found and woken.
            match self.head.compare_exchange(head, first, AcqRel, Relaxed) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        Met::of(head)
    }

    /// Calls the owner for something that lies elsewhere, if it looks for work or sleeps; says what
    /// it did. If it slept, the caller must unpark it. Others are not changed, and may not come.
    /// Called by any thread. Lock-free, like a push.
    pub fn call(&self) -> Met {
        let mut head = self.head.load(Relaxed);
        loop {
            let met = Met::of(head);
            if !matches!(met, Met::Looking | Met::Asleep) {
                return met;
            }
            // AcqRel: as in `become_state`. An exchange also where the state stays the same: the
            // owner sees what it is called for as soon as its next exchange follows this one.
            match self.head.compare_exchange(head, LOOKING, AcqRel, Relaxed) {
                Ok(_) => return met,
                Err(now) => head = now,
            }
        }
    }

    /// Takes all operations, newest first, linked by `link`; null if there are none. Any thread may
    /// call it.
    #[inline]
    pub fn take(&self) -> *mut Block {
        let mut head = self.head.load(Relaxed);
        loop {
            if is_state(head) {
                return null_mut();
            }
            // Prefetch: the block's cache lines come while the inbox's own line does.
            Block::expect(head, 0);
            // Acquire: pairs with the releases in `push`, which form one release sequence. ABA does
            // no harm: the list that is there is taken whole. The owner's state is then unknown to
            // this thread. `BUSY` is always safe: it only costs a wake-up.
            match self.head.compare_exchange(head, BUSY, Acquire, Relaxed) {
                Ok(_) => return head,
                Err(now) => head = now,
            }
        }
    }

    /// The first operation, or null if there is none. For a caller that asks whether there is
    /// something, or something new; it does not own the operation.
    pub fn peek(&self) -> *mut Block {
        let head = self.head.load(Relaxed);
        if is_state(head) {
            null_mut()
        } else {
            head
        }
    }

    /// Called by the owner when it starts to look for work. Returns false if there is some.
    pub fn start_looking(&self) -> bool {
        self.become_state(BUSY, LOOKING)
    }

    /// Called by the owner when it has found work. `false`: more may have come meanwhile, whose
    /// pusher relied on the owner's looking.
    pub fn stop_looking(&self) -> bool {
        self.become_state(LOOKING, BUSY)
    }

    /// Called by the owner when it is about to sleep. Returns false if there is work, or if a thief
    /// has taken some and left `BUSY`: then the owner must look again.
    pub fn fall_asleep(&self) -> bool {
        self.become_state(LOOKING, ASLEEP)
    }

    /// Wakes a sleeping owner for nothing in particular. Returns true if it slept: then the caller
    /// must unpark it. The owner itself also calls this, to get up.
    pub fn wake(&self) -> bool {
        self.become_state(ASLEEP, LOOKING)
    }

    /// Whether the owner sleeps, and should go on sleeping.
    pub fn is_asleep(&self) -> bool {
        self.head.load(Acquire) == ASLEEP
    }

    /// For the child of a `fork`, in which the inbox's owner is gone, and the inbox holds no
    /// operation.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn reset(&self) {
        self.head.store(BUSY, Relaxed);
    }

    fn become_state(&self, from: *mut Block, to: *mut Block) -> bool {
        // AcqRel: pairs with the other exchanges on this word. A thread that wakes a sleeper passes
        // on what it has seen, and a thread that falls asleep passes on what it has written before.
        // Acquire: an owner that stops looking when the word has changed sees what it was called
        // for before that.
        self.head.compare_exchange(from, to, AcqRel, Acquire).is_ok()
    }
}
