//! A count of the steps that are not an operation's own: list nodes that a thread visits in order
//! to recycle, to reclaim and to hand on what is left over. What a call may take of them is in
//! `src/engine/README.md`; a test holds the calls to it.
//!
//! Counted on the paths that are cold anyway, a whole row at a time, and for each thread by itself.

#![forbid(unsafe_code)]

use std::cell::Cell;

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// Counts nodes that the calling thread visits.
pub fn count(nodes: usize) {
    TAKEN.with(|taken| taken.set(taken.get() + nodes as u64));
}

/// How many the calling thread has visited so far.
pub fn taken() -> u64 {
    TAKEN.with(Cell::get)
}
