//! Whether the owner of an inbox may still have to be woken, so that nobody relies on a waker that
//! has lost its core. Used by `inbox.rs` alone, whose word says *whether* the owner sleeps.
//!
//! That word alone is not enough: the first waker changes it, and calls the system afterwards. In
//! between it says that the owner looks, though nobody has woken the owner yet. So there is a
//! second word beside it, the wake word. It is the number of the owner's last sleep, and a bit,
//! `PENDING`. The owner sets the bit before it says in the inbox that it sleeps. The first waker
//! clears it behind its call, and the owner when it is up. A thread that has changed the inbox and
//! finds the bit calls the system as well. So each thread calls twice for what it brings at most,
//! and nobody waits for anybody.
//!
//! The state in the inbox has the number, too. So the first waker knows which sleep it has ended,
//! and if it comes late it does not clear the bit of a later one. The others do not know that, so
//! they clear nothing. The system compares the inbox's word: as soon as it is not the one of this
//! sleep, the owner does not sleep.
//!
//! The owner sets the bit before its exchange of the inbox's word, and a waker looks here behind
//! its own. So a waker whose exchange follows the owner's finds the bit of that sleep, or what came
//! later. The orderings here are stronger than that needs: Loom lets a thread read what an exchange
//! has written in place of a later relaxed store, which C++ forbids.

use crate::platform::futex::Sleeper;
use crate::sync::{AtomicPtr, AtomicU32, Ordering::*};
use std::time::Duration;

/// In the wake word: perhaps nobody has called the system for this sleep yet.
pub const PENDING: u32 = 2;
/// The number begins above it, and wraps around after a billion sleeps.
const ONE: u32 = 4;

/// The wake word of an inbox.
pub struct WakeWord {
    word: AtomicU32,
    sleeper: Sleeper,
}

impl WakeWord {
    pub fn new() -> WakeWord {
        WakeWord { word: AtomicU32::new(0), sleeper: Sleeper::new() }
    }

    /// Begins a sleep, before the inbox says so. For the owner, which is up. Returns the word.
    pub fn begin(&self) -> u32 {
        let next = ONE + PENDING;
        self.word.fetch_add(next, AcqRel).wrapping_add(next)
    }

    /// Says that the owner is up. For the owner.
    pub fn end(&self) {
        self.word.fetch_and(!PENDING, AcqRel);
    }

    /// Sleeps while the inbox's word is `seen`: until a wake-up, or until the time is over. May
    /// return earlier. For the owner.
    pub fn sleep<T>(&self, inbox: &AtomicPtr<T>, seen: *mut T, timeout: Option<Duration>) {
        self.sleeper.wait(inbox, seen, timeout);
    }

    /// Whether the owner may still have to be woken. For a thread that has just exchanged the
    /// inbox's word.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.word.load(Relaxed) & PENDING != 0
    }

    /// The same for a thread that has exchanged nothing. If so, the owner sees what this thread has
    /// done when it is up.
    pub fn is_still_pending(&self) -> bool {
        // An exchange, as `end` is: either that comes later and acquires this, or it has come.
        self.word.fetch_or(0, AcqRel) & PENDING != 0
    }

    /// Wakes the owner. Waits for nobody.
    #[cold]
    pub fn wake<T>(&self, inbox: &AtomicPtr<T>) {
        self.sleeper.wake(inbox);
    }

    /// The same for the thread that has ended `sleep` in the inbox; then says that this is done.
    #[cold]
    pub fn wake_first<T>(&self, inbox: &AtomicPtr<T>, sleep: u32) {
        self.sleeper.wake(inbox);
        // If it fails, the owner is up, or was.
        let _ = self.word.compare_exchange(sleep, sleep & !PENDING, AcqRel, Relaxed);
    }
}
