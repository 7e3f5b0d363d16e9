//! An inbox: a lock-free stack of ready operations that any thread pushes to and anyone may empty,
//! with the owner's state in the same word.
//!
//! The word is the first operation of a list, or, when there is none, what the owner is doing:
//! running something (`BUSY`), looking for work (`LOOKING`) or sleeping (`ASLEEP`). Because a push
//! replaces that state, the pusher learns from its own exchange whether it must wake the owner: no
//! second word, no fence, no lost wake-up.

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

/// What a push met.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Met {
    /// Other operations: the thread that comes for them gets this one as well.
    Others,
    /// An owner that is running something.
    Busy,
    /// An owner that is looking for work.
    Looking,
    /// A sleeping owner: wake it.
    Asleep,
}

/// A lock-free stack of ready operations.
pub struct Inbox {
    head: CachePadded<AtomicPtr<Block>>,
}

impl Inbox {
    pub fn new() -> Inbox {
        Inbox { head: CachePadded::new(AtomicPtr::new(BUSY)) }
    }

    /// Adds the operations from `first` to `last`, linked by `link`. Lock-free: a retry means that
    /// another thread succeeded.
    ///
    /// # Safety
    /// The operations are ready, and ours.
    pub unsafe fn push(&self, first: *mut Block, last: *mut Block) -> Met {
        fetch_now(&raw const *self.head);
        let mut head = self.head.load(Relaxed);
        loop {
            // SAFETY: ours until the exchange succeeds.
            unsafe { (*last).link = if is_state(head) { null_mut() } else { head } };
            // Release: the operations go to the thread that takes them as we see them. Acquire: if
            // this replaces a sleeper's mark, what the sleeper wrote before is seen, so that it is
            // found and woken.
            match self.head.compare_exchange(head, first, AcqRel, Relaxed) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        match head {
            BUSY => Met::Busy,
            _ if head == LOOKING => Met::Looking,
            _ if head == ASLEEP => Met::Asleep,
            _ => Met::Others,
        }
    }

    /// Takes all operations, newest first, linked by `link`; null if there are none. For anyone.
    #[inline]
    pub fn take(&self) -> *mut Block {
        let mut head = self.head.load(Relaxed);
        loop {
            if is_state(head) {
                return null_mut();
            }
            // Its lines come while the inbox's own does.
            Block::expect(head, 0);
            // Acquire: pairs with the pushes, which form one release sequence. ABA does no harm:
            // whatever list is there is taken whole. The owner's state is then unknown to us;
            // `BUSY` is always safe, it only costs a wake-up.
            match self.head.compare_exchange(head, BUSY, Acquire, Relaxed) {
                Ok(_) => return head,
                Err(now) => head = now,
            }
        }
    }

    /// The first operation, null if there is none: to see whether anything has changed.
    pub fn peek(&self) -> *mut Block {
        let head = self.head.load(Relaxed);
        if is_state(head) {
            null_mut()
        } else {
            head
        }
    }

    /// The owner starts looking for work. Fails if there is some.
    pub fn start_looking(&self) -> bool {
        self.become_state(BUSY, LOOKING)
    }

    /// The owner has found work elsewhere. `false`: something may have come meanwhile, whose pusher
    /// relied on the owner's looking.
    #[must_use]
    pub fn stop_looking(&self) -> bool {
        self.become_state(LOOKING, BUSY)
    }

    /// The owner is about to sleep. Fails if there is work, or after a thief has taken it: look
    /// again.
    pub fn fall_asleep(&self) -> bool {
        self.become_state(LOOKING, ASLEEP)
    }

    /// Wakes a sleeping owner: `true` if it slept, and the caller must unpark it. The owner itself
    /// uses it to get up.
    pub fn wake(&self) -> bool {
        self.become_state(ASLEEP, LOOKING)
    }

    /// Whether the owner should go on sleeping.
    pub fn is_asleep(&self) -> bool {
        self.head.load(Acquire) == ASLEEP
    }

    /// For the child of a `fork`, whose threads are gone: nothing is there, and the owner is not
    /// either.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn reset(&self) {
        self.head.store(BUSY, Relaxed);
    }

    fn become_state(&self, from: *mut Block, to: *mut Block) -> bool {
        // AcqRel: who wakes a sleeper passes on what it has seen; who falls asleep has left
        // everything in order.
        self.head.compare_exchange(from, to, AcqRel, Relaxed).is_ok()
    }
}
