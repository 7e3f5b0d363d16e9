//! Counter, for tests, of the steps that are not an operation's own: list nodes that a thread
//! visits in order to recycle, to reclaim and to hand on what is left over. The bounds for each
//! call are in `src/engine/README.md`; a test holds the calls to them.
//!
//! Each thread has a counter of its own. Only cold paths count, a whole list at a time.

#![forbid(unsafe_code)]

use std::cell::Cell;

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// Counts nodes that the calling thread visits.
pub fn count(nodes: usize) {
    TAKEN.with(|taken| taken.set(taken.get() + nodes as u64));
}

/// Returns how many nodes the calling thread has visited so far.
pub fn taken() -> u64 {
    TAKEN.with(Cell::get)
}
