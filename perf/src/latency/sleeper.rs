//! What the wake of a parked thread takes that does nothing else: the floor of every push that
//! wakes one.

use std::sync::LazyLock;
use std::thread::Thread;

use hdrhistogram::Histogram;
use parking_lot::Mutex;

use super::{histogram, now};
use crate::machine::{away_from_here, use_only};
use crate::record::Percentiles;

/// What the wakes of the last run took. OpenMP lets any of its threads be the one that pushes.
static WAKES: LazyLock<Mutex<Histogram<u64>>> = LazyLock::new(|| Mutex::new(histogram()));

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
        let took = now() - start;
        WAKES.lock().saturating_record(took);
    }
}

/// Forgets the wakes so far.
pub(super) fn forget_wakes() {
    WAKES.lock().reset();
}

/// What the wakes took.
pub(super) fn wakes() -> Percentiles {
    Percentiles::from(&*WAKES.lock())
}
