//! Spinning before a park: how long a thread looks for something, measured by the clock and not by
//! rounds. Used by workers and helpers (`worker/`), waiters (`engine/wait/`) and runners of lanes
//! (`graph/lanes.rs`).
//!
//! A thread that looks again and again answers sooner than a thread that has to be woken. At first
//! it keeps its core. Then it yields its core between two looks, for the thread that it waits for
//! may need the core. A yield has no bound: beside busy threads it takes until they have had their
//! turn, some milliseconds each. So the clock is read after every yield, and a thread that has a
//! deadline does not yield at all.

use crate::sync::{spin_loop, thread, Instant, MODELLED};
use std::time::Duration;

/// The looks between two readings of the clock while the core is kept: a reading takes as long as
/// some looks.
const LOOKS_A_READING: u32 = 32;

/// The state of a thread that looks before it parks.
pub struct Spin {
    /// How long it keeps its core, from the first reading of the clock.
    awake: Duration,
    /// How long it looks in all.
    all: Duration,
    looks: u32,
    began: Option<Instant>,
    /// Whether it yields between two looks now, and whether it ever has.
    yields: bool,
    yielded: bool,
    /// When the clock was last read, counted from the first reading; and whether that was at least
    /// [`STALL`] after the reading before.
    read: Duration,
    stalled: bool,
}

/// If so much time lies between two readings of the clock, the thread was without its core.
const STALL: Duration = Duration::from_millis(1);
/// The longest time for which a thread that got its core back late keeps it before it yields again:
/// about a scheduler's slice.
const KEEP: Duration = Duration::from_millis(4);

impl Spin {
    /// Looks for the time `all`, and keeps the core for the first `awake` of it.
    #[inline]
    pub const fn new(awake: Duration, all: Duration) -> Spin {
        let (read, stalled) = (Duration::ZERO, false);
        Spin { awake, all, looks: 0, began: None, yields: false, yielded: false, read, stalled }
    }

    /// Like [`Spin::new`], but never yields: for a thread that has a deadline.
    #[inline]
    pub const fn awake(all: Duration) -> Spin {
        Spin::new(all, all)
    }

    /// Passes the time until the next look. `false` when the time is up: the thread is to park. In
    /// a model the time is up at once, since every look is the same there.
    #[inline]
    pub fn pause(&mut self) -> bool {
        if MODELLED {
            return false;
        }
        if self.yields {
            thread::yield_now();
        } else {
            spin_loop();
            self.looks += 1;
            if self.looks % LOOKS_A_READING != 0 {
                return true;
            }
        }
        self.look_at_the_clock()
    }

    /// Returns whether the thread has ever yielded its core: another thread may have run there.
    pub fn has_yielded(&self) -> bool {
        self.yielded
    }

    /// Returns whether the thread was without its core for [`STALL`] before the last reading of the
    /// clock. It says so once for each stall.
    #[inline]
    pub fn has_stalled(&mut self) -> bool {
        self.stalled && std::mem::take(&mut self.stalled)
    }

    #[cold]
    fn look_at_the_clock(&mut self) -> bool {
        let elapsed = self.began.get_or_insert_with(Instant::now).elapsed();
        let gap = elapsed.saturating_sub(std::mem::replace(&mut self.read, elapsed));
        self.stalled = gap >= STALL;
        if self.stalled && self.yields {
            // Busy threads have had the core. This thread keeps it for as long as they ran,
            // [`KEEP`] at most: if it yielded at every look, it would almost never have the core
            // when something comes.
            self.awake = elapsed + gap.min(KEEP);
        }
        self.yields = elapsed >= self.awake;
        self.yielded |= self.yields;
        elapsed < self.all
    }
}

#[cfg(all(test, not(any(loom, shuttle, seriatim_simulation))))]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_up_by_the_clock() {
        let (awake, all) = (Duration::from_millis(2), Duration::from_millis(5));
        // If a busy thread has had the core for most of the time, the spin looks longer before it
        // yields. So there are several attempts.
        let yields = (0..200).any(|_| {
            let start = Instant::now();
            let mut spin = Spin::new(awake, all);
            while spin.pause() {
                // It keeps the core until `awake` has passed. The clock of this test was read
                // first.
                assert!(!spin.has_yielded() || start.elapsed() >= awake);
            }
            assert!(start.elapsed() >= all);
            spin.has_yielded()
        });
        assert!(yields, "it never yields");
    }

    #[test]
    fn who_keeps_the_core_again_after_a_stall_has_yielded_all_the_same() {
        let mut spin = Spin::new(Duration::ZERO, Duration::from_secs(60));
        while !spin.has_yielded() {
            assert!(spin.pause());
        }
        std::thread::sleep(2 * STALL);
        assert!(spin.pause() && spin.has_stalled());
        assert!(!spin.yields && spin.has_yielded());
    }

    #[test]
    fn a_thread_with_a_deadline_does_not_yield() {
        let mut spin = Spin::awake(Duration::from_millis(2));
        while spin.pause() {
            assert!(!spin.has_yielded());
        }
    }
}
