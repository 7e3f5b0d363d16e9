//! Spinning before a park: how long a thread looks for something, measured by the clock and not by
//! rounds. Used by workers and helpers (`worker/`), waiters (`engine/wait/`), threads that join
//! scopes (`engine/scope/`), watchers of devices (`engine/gpu/watch.rs`) and runners of lanes
//! (`graph/lanes.rs`). Each has a [`Spin`] of its own, which no other thread touches. The note of a
//! wake ([`note_wake`]) is the thread's own, too.
//!
//! A thread that looks again and again answers sooner than a thread that has to be woken. At first
//! it keeps its core. Then it yields its core after every few looks, for the thread that it waits
//! for may need the core. A yield has no bound: beside busy threads it takes until they have had
//! their turn, some milliseconds each. So the clock is read after every yield, and a thread that
//! has a deadline does not yield at all. A thread that has just woken another one yields once,
//! early.

use crate::sync::{spin_loop, thread, thread_local, Instant, MODELLED};
use std::cell::Cell;
use std::time::Duration;

/// The looks between two readings of the clock, and between two yields: a reading takes as long as
/// some looks, and a yield as long as ten or more.
const LOOKS_A_READING: u32 = 32;

thread_local! {
    /// When the thread last woke another one, if it has not yielded for that since.
    static WOKE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Notes that the calling thread has woken another one, or may have. If it looks for something
/// within [`STALE`], it first yields its core, which the other thread may need.
#[cold]
pub fn note_wake() {
    if !MODELLED {
        let _ = WOKE.try_with(|woke| woke.set(Some(Instant::now())));
    }
}

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
    /// Whether it has not yet asked, after [`MAY_SHARE`], if it is to yield once.
    may_share: bool,
    /// When the clock was last read, counted from the first reading; and whether that was at least
    /// [`STALL`] after the reading before.
    read: Duration,
    stalled: bool,
}

/// After so long a look a thread that has woken another one yields its core once. The system may
/// have put the woken thread on the same core, where it runs only when this one yields.
const MAY_SHARE: Duration = Duration::from_micros(2);
/// A wake that is so old is no reason to yield any more: by then the system has given the other
/// thread a core, this one or another.
const STALE: Duration = KEEP;
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
        Spin { awake, all, looks: 0, began: None, yields: false, yielded: false, may_share: true, read, stalled }
    }

    /// Like [`Spin::new`], but never yields: for a thread that has a deadline.
    #[inline]
    pub const fn awake(all: Duration) -> Spin {
        let mut spin = Spin::new(all, all);
        spin.may_share = false;
        spin
    }

    /// Passes the time until the next look. `false` when the time is up: the thread is to park. In
    /// a model the time is up at once, since every look is the same there.
    #[inline]
    pub fn pause(&mut self) -> bool {
        if MODELLED {
            return false;
        }
        spin_loop();
        self.looks = self.looks.wrapping_add(1);
        if self.looks % LOOKS_A_READING != 0 {
            return true;
        }
        if self.yields {
            thread::yield_now();
        }
        self.look_at_the_clock()
    }

    /// Returns how long ago the clock was first read, which is a few looks after the first one;
    /// `None` if it has not been read yet.
    pub fn elapsed(&self) -> Option<Duration> {
        self.began.map(|began| began.elapsed())
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
        if self.may_share && elapsed >= MAY_SHARE {
            self.may_share = false;
            let woke = WOKE.try_with(Cell::take).unwrap_or(None);
            if woke.is_some_and(|woke| woke.elapsed() < STALE) {
                thread::yield_now();
                self.yielded = true;
            }
        }
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

/// How long a thread looks before it parks, by how long the last pause was: the pause that led to a
/// park, until something came.
///
/// To look for the whole of a pause costs no wake, and answers at once. So it pays where pauses are
/// short, and where they are long it is in vain. The next pause is taken to be like the last one.
/// The halt polling of KVM grows and shrinks by the same rule.
pub struct Patience {
    awake: Duration,
    most: Duration,
    now: Duration,
}

impl Patience {
    /// For a thread that looks for the time `most` at most. For the first `awake` of that it keeps
    /// its core; after a pause longer than `most` it looks no longer than that.
    pub const fn new(awake: Duration, most: Duration) -> Patience {
        Patience { awake, most, now: most }
    }

    /// Looks for as long as the last pause says.
    #[inline]
    pub const fn spin(&self) -> Spin {
        Spin::new(self.awake, self.now)
    }

    /// To be called when the thread has parked and is awake again, this long after its first look.
    /// `None`: it never read the clock, and nothing is learned.
    #[cold]
    pub fn learn(&mut self, pause: Option<Duration>) {
        if let Some(pause) = pause {
            self.now = if pause <= self.most { self.most } else { self.awake.min(self.most) };
        }
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
        while !spin.has_stalled() {
            assert!(spin.pause());
        }
        assert!(!spin.yields && spin.has_yielded());
    }

    #[test]
    fn patience_follows_the_last_pause() {
        let [awake, most] = [50, 400].map(Duration::from_micros);
        let mut patience = Patience::new(awake, most);
        for (pause, expected) in
            [(None, most), (Some(most + awake), awake), (None, awake), (Some(awake), most), (Some(most), most)]
        {
            patience.learn(pause);
            assert_eq!(patience.spin().all, expected, "{pause:?}");
        }
        // A time that is shorter than the first part anyway stays as it is.
        let mut patience = Patience::new(awake, awake / 2);
        patience.learn(Some(most));
        assert_eq!(patience.spin().all, awake / 2);
    }

    #[test]
    fn the_count_of_looks_goes_round() {
        let mut spin = Spin { looks: u32::MAX - 1, ..Spin::awake(Duration::from_secs(60)) };
        assert!((0..3).all(|_| spin.pause()));
        assert_eq!(spin.looks, 1);
    }

    #[test]
    fn a_thread_with_a_deadline_does_not_yield() {
        let mut spin = Spin::awake(Duration::from_millis(2));
        while spin.pause() {
            assert!(!spin.has_yielded());
        }
    }

    #[test]
    fn who_has_woken_a_thread_makes_way_for_it_once() {
        let woke = || WOKE.with(Cell::get).is_some();
        note_wake();
        let mut spin = Spin::awake(Duration::from_millis(5));
        while spin.pause() {}
        assert!(woke(), "a thread with a deadline does not yield");
        // From the future, so that it is not stale however late this thread is.
        WOKE.set(Some(Instant::now() + Duration::from_secs(3600)));
        let mut spin = Spin::new(Duration::from_secs(60), Duration::from_millis(5));
        while spin.pause() {}
        assert!(!woke() && spin.has_yielded());
    }

    #[test]
    fn who_has_woken_a_thread_long_ago_does_not_make_way_for_it() {
        note_wake();
        std::thread::sleep(2 * STALE);
        let mut spin = Spin::new(Duration::from_secs(60), Duration::from_millis(5));
        while spin.pause() {}
        assert!(!spin.has_yielded() && WOKE.with(Cell::get).is_none());
    }
}
