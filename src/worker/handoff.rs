//! Handing over: a thread that has run its share of the operations of others leaves the rest to a thread that stands ready.
//!
//! For engines without workers, where nobody comes for what is left lying. So operations are left only while a thread stands ready,
//! and a thread that goes looks once more for what was left to it: see [`Handoff::leave`].

use crate::mutants::mutate;
use crate::operation::block::Block;
use crate::sync::{fence, AtomicBool, AtomicPtr, AtomicUsize, Ordering::*};
use crossbeam_utils::CachePadded;
use std::ptr::null_mut;

/// Ready operations in a list, linked by `link`.
#[derive(Clone, Copy)]
pub struct List {
    pub first: *mut Block,
    pub last: *mut Block,
}

/// Where threads hand over ready operations to each other.
pub struct Handoff {
    /// Whether a thread has run its share and asks for another one to go on.
    wanted: CachePadded<AtomicBool>,
    /// Threads that stand ready.
    takers: CachePadded<AtomicUsize>,
    /// The last operation of the list that was left, which leads to the first; null if there is none.
    left: CachePadded<AtomicPtr<Block>>,
}

impl Handoff {
    pub fn new() -> Handoff {
        Handoff {
            wanted: CachePadded::new(AtomicBool::new(false)),
            takers: CachePadded::new(AtomicUsize::new(0)),
            left: CachePadded::new(AtomicPtr::new(null_mut())),
        }
    }

    /// Asks for a thread that takes over, or takes that back. Only a hint: nothing is lost if it is missed.
    pub fn want(&self, wanted: bool) {
        // Looked at first, since it is asked again and again.
        if self.is_wanted() != wanted {
            self.wanted.store(wanted, Relaxed);
        }
    }

    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed)
    }

    /// Leaves a list to a thread that stands ready. Returns what the caller has to run itself: that list if nobody stands ready,
    /// nothing if somebody has it or will find it.
    ///
    /// # Safety
    /// The operations are ready, and ours; so are those that come back.
    pub unsafe fn leave(&self, list: List) -> Option<List> {
        if self.takers.load(Relaxed) == 0 {
            return Some(list);
        }
        // SAFETY: ours until the exchange succeeds.
        unsafe {
            (*list.last).link = list.first;
            // Release: the operations go to the taker as we see them.
            let order = mutate!("left-relaxed": Relaxed, Release);
            if self.left.compare_exchange(null_mut(), list.last, order, Relaxed).is_err() {
                // Another list lies there.
                (*list.last).link = null_mut();
                return Some(list);
            }
        }
        if mutate!("left-to-nobody": true, false) {
            return None;
        }
        // Against the one in `stand_ready`: either that thread finds the list after it has counted itself out, or we see nobody.
        mutate!("leaver-without-a-fence": (), fence(SeqCst));
        if self.takers.load(Relaxed) > 0 {
            return None;
        }
        self.take()
    }

    /// Takes the list that was left, if there is one.
    pub fn take(&self) -> Option<List> {
        if self.left.load(Relaxed).is_null() {
            return None;
        }
        // Acquire: pairs with the release that left it.
        let last = self.left.swap(null_mut(), mutate!("what-was-left-taken-relaxed": Relaxed, Acquire));
        if last.is_null() {
            return None;
        }
        // SAFETY: the swap took the list, so it is ours.
        unsafe { Some(List { first: std::mem::replace(&mut (*last).link, null_mut()), last }) }
    }

    /// Stands ready to take over, as long as `go_on` says so. Returns what it has to run: one list, or two.
    pub fn stand_ready(&self, mut go_on: impl FnMut() -> bool) -> [Option<List>; 2] {
        self.takers.fetch_add(1, Relaxed);
        let taken = loop {
            let taken = self.take();
            if taken.is_some() || !go_on() {
                break taken;
            }
        };
        self.takers.fetch_sub(1, Relaxed);
        // Against the one in `leave`.
        mutate!("taker-without-a-fence": (), fence(SeqCst));
        // Who has left it may have relied on us.
        [taken, mutate!("taker-does-not-look-again": None, self.take())]
    }

    /// For the child of a `fork`: nothing is in flight, and the threads that stood ready are gone.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn forget_other_threads(&self) {
        self.takers.store(0, Relaxed);
        self.want(false);
    }
}
