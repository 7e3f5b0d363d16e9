//! An inbox: a lock-free stack of ready operations that any thread pushes to and any thread may
//! empty, with the owner's state in the same word.
//!
//! The word is the first operation of a list. If there is none, the word says what the owner (the
//! worker or helper of the inbox) is doing: running something (`BUSY`), looking for work
//! (`LOOKING`) or sleeping (`ASLEEP`). A push replaces that state, so the pusher learns from its
//! own exchange whether the owner comes for it. There is no fence and no lost wake-up. `ASLEEP` has
//! the number of the sleep. Whether somebody has called the system for it is in a second word
//! (`wake_word.rs`): who pushes, calls or wakes looks there behind the exchange.
//!
//! `Group::deliver` (`group.rs`) pushes, on any thread. The owner (`run_loop.rs`, `idle.rs`) and
//! thieves (`steal.rs`) take; a group's common inbox has no owner, and any worker or helper takes.
//! The owner changes the state in `idle.rs` (workers) and `help.rs` (helpers); wakers do in
//! `wake.rs` and `helper_place.rs`, and a stop in `group.rs`. The watcher of a device sleeps by
//! such a word, too (`engine/gpu/sleep.rs`). The table of the states is in `worker/README.md`.

use crate::operation::block::Block;
use crate::platform::cache_line::fetch_now;
use crate::sync::{AtomicPtr, Ordering::*};
use crate::util::spin::note_wake;
use crate::worker::wake_word::{WakeWord, PENDING};
use crossbeam_utils::CachePadded;
use std::ptr::{null_mut, without_provenance_mut};
use std::time::Duration;

const BUSY: *mut Block = null_mut();
const LOOKING: *mut Block = without_provenance_mut(1);
/// In the lowest bits; the number of the sleep is above them.
const ASLEEP: usize = PENDING as usize;
const STATE: usize = 3;

fn is_state(word: *mut Block) -> bool {
    word.is_null() || word.addr() & STATE != 0
}

fn is_asleep(word: *mut Block) -> bool {
    word.addr() & STATE == ASLEEP
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
    /// An owner that is asleep, or whose sleep was ended by a thread that may not have called the
    /// system yet. It was woken.
    Asleep,
}

impl Met {
    fn of(head: *mut Block) -> Met {
        match head {
            BUSY => Met::Busy,
            _ if head == LOOKING => Met::Looking,
            _ if is_asleep(head) => Met::Asleep,
            _ => Met::Others,
        }
    }
}

/// A lock-free stack of ready operations.
pub struct Inbox {
    line: CachePadded<Words>,
}

/// Both words are in one line: an exchange of the first brings the second as well.
struct Words {
    head: AtomicPtr<Block>,
    wake: WakeWord,
}

impl Inbox {
    pub fn new() -> Inbox {
        Inbox { line: CachePadded::new(Words { head: AtomicPtr::new(BUSY), wake: WakeWord::new() }) }
    }

    /// Adds the operations from `first` to `last`, linked by `link`, and wakes the owner if it
    /// sleeps. Called by any thread. Lock-free: a retry means that another thread succeeded.
    ///
    /// # Safety
    /// The operations are ready, and the caller's to give away.
    pub unsafe fn push(&self, first: *mut Block, last: *mut Block) -> Met {
        fetch_now(&raw const *self.line);
        let mut head = self.line.head.load(Relaxed);
        loop {
            // SAFETY: the operations are ours until the exchange succeeds.
            unsafe { (*last).link = if is_state(head) { null_mut() } else { head } };
            // Release: pairs with the acquire in `take`, so that the taker sees the operations as
            // we do. Acquire: pairs with the release in `become_state`. If this exchange comes
            // after the owner's that said `ASLEEP`, we see that the owner sleeps in its wake word.
            match self.line.head.compare_exchange(head, first, AcqRel, Relaxed) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        self.see_to_wake(head);
        Met::of(head)
    }

    /// Calls the owner for something that lies elsewhere, if it looks for work or sleeps, and wakes
    /// it; says what it did. Others are not changed, and may not come. Called by any thread.
    /// Lock-free, like a push.
    pub fn call(&self) -> Met {
        // Acquire: the caller sees the wake word as the owner left it for the sleep that ended.
        let mut head = self.line.head.load(Acquire);
        loop {
            let met = Met::of(head);
            if !matches!(met, Met::Looking | Met::Asleep) {
                // The thread that has ended the owner's sleep may not have called the system yet.
                let Words { head: word, wake } = &*self.line;
                if !wake.is_pending() || !wake.is_still_pending() {
                    return met;
                }
                wake.wake(word);
                note_wake();
                return Met::Asleep;
            }
            // AcqRel: as in `become_state`. An exchange also where the state stays the same: the
            // owner sees what it is called for as soon as its next exchange follows this one.
            match self.line.head.compare_exchange(head, LOOKING, AcqRel, Acquire) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        self.see_to_wake(head);
        Met::of(head)
    }

    /// Wakes the owner if it sleeps, unless another thread has done so already. One that is about
    /// to does not count: it may lose its core. Returns whether it called the system. For a thread
    /// that has just exchanged `head`, or has found that its owner does not sleep by it.
    #[inline]
    fn see_to_wake(&self, head: *mut Block) -> bool {
        let Words { head: word, wake } = &*self.line;
        if is_asleep(head) {
            wake.wake_first(word, head.addr() as u32);
        } else if wake.is_pending() {
            wake.wake(word);
        } else {
            return false;
        }
        note_wake();
        true
    }

    /// Takes all operations, newest first, linked by `link`; null if there are none. Any thread may
    /// call it.
    #[inline]
    pub fn take(&self) -> *mut Block {
        let mut head = self.line.head.load(Relaxed);
        loop {
            if is_state(head) {
                return null_mut();
            }
            // Prefetch: the block's cache lines come while the inbox's own line does.
            Block::expect(head, 0);
            // Acquire: pairs with the releases in `push`, which form one release sequence. ABA does
            // no harm: the list that is there is taken whole. The owner's state is then unknown to
            // this thread. `BUSY` is always safe: it only costs a wake-up.
            match self.line.head.compare_exchange(head, BUSY, Acquire, Relaxed) {
                Ok(_) => return head,
                Err(now) => head = now,
            }
        }
    }

    /// The first operation, or null if there is none. For a caller that asks whether there is
    /// something, or something new; it does not own the operation.
    pub fn peek(&self) -> *mut Block {
        let head = self.line.head.load(Relaxed);
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
        let sleep = self.line.wake.begin();
        let falls = self.become_state(LOOKING, without_provenance_mut(sleep as usize));
        if !falls {
            self.line.wake.end();
        }
        falls
    }

    /// Sleeps for as long as the state says so, or until the time is over. May return earlier. For
    /// the owner, which then asks [`Inbox::is_asleep`], and when that is over calls
    /// [`Inbox::is_up`].
    pub fn sleep(&self, timeout: Option<Duration>) {
        let head = self.line.head.load(Relaxed);
        if is_asleep(head) {
            self.line.wake.sleep(&self.line.head, head, timeout);
        }
    }

    /// Says that the owner does not sleep any more. For the owner.
    pub fn is_up(&self) {
        self.line.wake.end();
    }

    /// Ends the sleep of the owner, and wakes nobody. Returns whether it slept. For the owner, to
    /// get up, and for wakers of helpers, which do not sleep by [`Inbox::sleep`].
    pub fn get_up(&self) -> bool {
        !self.end_sleep().is_null()
    }

    /// Wakes a sleeping owner for nothing in particular. Returns whether it slept, or has been
    /// called by a thread that has still to wake it.
    pub fn wake(&self) -> bool {
        self.see_to_wake(self.end_sleep())
    }

    /// Calls the owner, as [`Inbox::call`] does, if it looks for work; says whether it does. Wakes
    /// nobody: also for a helper, which does not sleep by [`Inbox::sleep`].
    pub fn call_looking(&self) -> bool {
        // The load keeps the line where it is, most times.
        self.line.head.load(Relaxed) == LOOKING && self.become_state(LOOKING, LOOKING)
    }

    /// Whether the owner sleeps, and should go on sleeping.
    pub fn is_asleep(&self) -> bool {
        is_asleep(self.line.head.load(Acquire))
    }

    /// Ends the sleep of the owner, if the state says that it sleeps; returns that state, else
    /// null.
    fn end_sleep(&self) -> *mut Block {
        // Acquire: as in `call`.
        let head = self.line.head.load(Acquire);
        if is_asleep(head) && self.become_state(head, LOOKING) {
            head
        } else {
            null_mut()
        }
    }

    /// For the child of a `fork`, in which the inbox's owner is gone, and the inbox holds no
    /// operation.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn reset(&self) {
        self.line.head.store(BUSY, Relaxed);
        self.line.wake.end();
    }

    fn become_state(&self, from: *mut Block, to: *mut Block) -> bool {
        // AcqRel: pairs with the other exchanges on this word. A thread that wakes a sleeper passes
        // on what it has seen, and a thread that falls asleep passes on what it has written before.
        // Acquire: an owner that stops looking when the word has changed sees what it was called
        // for before that.
        self.line.head.compare_exchange(from, to, AcqRel, Acquire).is_ok()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::pool::memory::Memory;
    use std::sync::{mpsc, Arc};
    use std::thread;

    /// The first waker has ended the sleep by the state, and goes no further.
    #[test]
    fn an_owner_is_woken_though_the_first_waker_stays_in_the_middle() {
        let memory = Memory::new().unwrap();
        let mut blocks = memory.blocks.slabs.add(0);
        let block = blocks.pop().expect("there are more");
        for (left, called) in [(LOOKING, Met::Looking), (BUSY, Met::Asleep), (block, Met::Asleep)] {
            let (inbox, (up, is_up)) = (Arc::new(Inbox::new()), mpsc::channel());
            assert!(inbox.start_looking() && inbox.fall_asleep());
            thread::spawn({
                let inbox = Arc::clone(&inbox);
                move || {
                    while inbox.is_asleep() {
                        inbox.sleep(None);
                    }
                    inbox.is_up();
                    up.send(()).unwrap();
                }
            });
            // So that it sleeps, most times.
            thread::sleep(Duration::from_millis(20));
            assert!(is_asleep(inbox.line.head.swap(left, SeqCst)));
            assert_eq!(inbox.call(), called);
            is_up.recv_timeout(Duration::from_secs(20)).expect("the first waker is trusted");
            assert!(!inbox.wake(), "it was woken, and is up");
        }
    }

    #[test]
    fn a_waker_of_an_earlier_sleep_does_not_say_that_a_later_one_is_over() {
        let inbox = Inbox::new();
        assert!(inbox.start_looking() && inbox.fall_asleep());
        let earlier = inbox.line.head.load(SeqCst).addr() as u32;
        assert!(inbox.get_up());
        inbox.is_up();
        assert!(inbox.fall_asleep());
        inbox.line.wake.wake_first(&inbox.line.head, earlier);
        assert!(inbox.line.wake.is_pending(), "nobody will wake it");
        inbox.line.wake.wake(&inbox.line.head);
        assert!(inbox.line.wake.is_pending(), "nobody will wake it");
    }
}
