//! What the wake of a parked thread takes that does nothing else: the floor of every push that
//! wakes one.

use std::cell::RefCell;
use std::thread::Thread;

use hdrhistogram::Histogram;

use super::{histogram, now};
use crate::machine::{away_from_here, use_only};
use crate::record::Percentiles;

thread_local! {
    /// What the wakes of the last run took, on the thread that woke.
    static WAKES: RefCell<Histogram<u64>> = RefCell::new(histogram());
}

/// A thread that does nothing but park. It ends with the process. It is pinned like a worker, so
/// that a wake finds it on another core than the pusher's.
pub(super) struct Sleeper(Thread);

impl Sleeper {
    pub(super) fn start() -> Sleeper {
        let core = away_from_here();
        let sleep = move || {
            // Without that the figure is one of an unpinned thread.
            let _ = core.map(|core| use_only(&[core]));
            loop {
                std::thread::park();
            }
        };
        Sleeper(std::thread::spawn(sleep).thread().clone())
    }

    /// Wakes it, and notes how long that took.
    pub(super) fn wake(&self) {
        let start = now();
        self.0.unpark();
        WAKES.with_borrow_mut(|wakes| wakes.saturating_record(now() - start));
    }
}

/// Forgets the wakes so far.
pub(super) fn forget_wakes() {
    WAKES.with_borrow_mut(Histogram::reset);
}

/// What the wakes took, on the calling thread.
pub(super) fn wakes() -> Percentiles {
    WAKES.with_borrow(|wakes| Percentiles::from(wakes))
}
