//! A loop over operations of which none waits for another: threads take them in chunks, as they
//! come.
//!
//! Used by `engine/replay/guided.rs` and `engine/replay/seats.rs`, and by the models in
//! `loom-tests/`. The thread whose replay it is offers the operations ([`GuidedLoop::offer`]). Any
//! thread takes some, runs them and says how many have ended. The thread that ends the last one
//! ends the replay. A thread that comes late finds nothing, or what the next replay offers.
//!
//! A chunk is a part of what is left: large ones first, so that short operations cost few
//! exchanges, and single ones at the end, so that the threads end together. (Guided
//! self-scheduling, Polychronopoulos and Kuck 1987.)

use crate::sync::{AtomicUsize, Ordering::*};
use crossbeam_utils::CachePadded;
use std::ops::Range;

/// A chunk is what is left, divided by the threads and by this: so that the threads end together
/// though their operations take unequally long.
const PARTS: usize = 8;
/// The most operations of a chunk. Between chunks a thread looks whether it has something else to
/// do.
const MOST_IN_A_CHUNK: usize = 16;

/// The operations of a loop, by their numbers.
pub struct GuidedLoop {
    length: usize,
    /// How many threads are to share the loop.
    threads: usize,
    /// The first operation that nobody has taken.
    next: CachePadded<AtomicUsize>,
    /// How many operations that were offered have not ended.
    left: CachePadded<AtomicUsize>,
}

impl GuidedLoop {
    pub fn new(length: usize, threads: usize) -> GuidedLoop {
        let (next, left) = (CachePadded::new(AtomicUsize::new(length)), CachePadded::new(AtomicUsize::new(0)));
        GuidedLoop { length, threads, next, left }
    }

    /// Offers the operations from this number on.
    ///
    /// # Safety
    /// All operations that were offered before have ended, and their ends happened before.
    pub unsafe fn offer(&self, from: usize) {
        self.left.store(self.length - from, Relaxed);
        // Release: pairs with the acquire in `take`, for what the replay has done before, and for
        // `left`.
        self.next.store(from, Release);
    }

    /// Takes some of the operations that are offered; `None` if there are none. The caller runs
    /// them and then calls [`GuidedLoop::end`].
    pub fn take(&self) -> Option<Range<usize>> {
        let mut next = self.next.load(Relaxed);
        while next < self.length {
            let count = ((self.length - next) / (PARTS * self.threads)).clamp(1, MOST_IN_A_CHUNK);
            // Acquire: pairs with the release in `offer`; what other threads take in between are
            // exchanges, which pass it on. ABA is harmless: what has this number may be taken.
            match self.next.compare_exchange_weak(next, next + count, Acquire, Relaxed) {
                Ok(_) => return Some(next..next + count),
                Err(now) => next = now,
            }
        }
        None
    }

    /// Whether there may be something to take.
    pub fn has_some(&self) -> bool {
        self.next.load(Relaxed) < self.length
    }

    /// Says that so many operations have ended, which the caller has taken. `true`: they were the
    /// last, so that the caller ends the replay.
    pub fn end(&self, count: usize) -> bool {
        // AcqRel: the countdowns pair with each other, so the last one has acquired what all the
        // others did.
        self.left.fetch_sub(count, AcqRel) == count
    }
}
