//! When a call is measured, and whether the thread has time to run it: a thread's attention to the
//! closures that it runs and pushes, of whatever engine and key.
//!
//! Used by `inline/policy.rs`; `inline/cost_key.rs` has [`hash`] from here. A measurement takes two
//! readings of the counter, as long as a short closure. So a thread looks at the counter once in
//! [`CALLS_A_LOOK`] calls. If these calls, with all that the program did between them, have taken
//! no longer than so many short ones may, none of them was long. Else, and now and then in any
//! case, one of the next [`WINDOW`] is measured, chosen at random, so that no rhythm of the program
//! hides a type.
//!
//! Rare long calls need more: if the calls since the last look have taken far longer than usual,
//! each of the next [`BURST`] is measured. Bursts that have changed no opinion become rare; but
//! calls that took too long lead to the next one once they have taken [`MOST_LOST`] times as long
//! as those between two looks may. So long calls delay a pusher for a bounded time, however few of
//! them there are and whatever happened before.
//!
//! A thread that pushes one closure after the other for long had better ship them, and run what is
//! left while it waits ([`has_time`]). A thread that pushes now and then runs them at once: no
//! worker has to be woken for them.
//!
//! Both parts are thread-local, one for all engines, and only their own thread touches them:
//! `ATTENTION` when it calls a closure, as a pusher, worker or helper; `PACE` when it pushes.

use crate::sync::thread_local;
use std::cell::Cell;

/// Calls between two looks at the counter.
pub const CALLS_A_LOOK: u32 = 12;
/// One of this many calls is measured if a look says so. If closures become so long that a few take
/// longer than [`CALLS_A_LOOK`] short ones may, a change of mind takes at most `CALLS_A_LOOK` +
/// `WINDOW` + 2 calls.
const WINDOW: u32 = 4;
/// One look in this many leads to a measurement, however quick the calls were.
const SELDOM: u32 = 32;
/// Calls that are measured one after the other, if something was suspicious.
const BURST: u32 = 64;
/// Of so many suspicions one leads to a burst, if bursts have found nothing for long.
const MOST_SKIPPED: u32 = 31;
/// Calls are suspicious if they took this many times as long as is usual.
const UNUSUAL: u64 = 2;
/// No suspicion is skipped once calls that took longer than short ones may have taken so many times
/// as long as [`CALLS_A_LOOK`] short ones, since the last burst. A burst takes a fiftieth of that.
pub const MOST_LOST: u64 = 64;

/// A thread pauses between two pushes if it takes so many times as long as the closure.
const PAUSE: u64 = 2;

thread_local! {
    static PACE: Pace = const { Pace { decided: Cell::new(0), ran: Cell::new(0), spent: Cell::new(0) } };
    static ATTENTION: Attention = const { Attention::new() };
}

/// The attention of one thread.
struct Attention {
    /// Calls until the thread looks at the counter or measures.
    left: Cell<u32>,
    /// The counter at the last look.
    looked: Cell<u64>,
    /// Whether the call at the end of `left` is to be measured.
    chosen: Cell<bool>,
    /// Calls of a burst that are still to be measured.
    burst: Cell<u32>,
    /// How long the calls between two looks took when a burst was begun because of it.
    usual: Cell<u64>,
    /// Suspicions that are skipped before the next burst, and how many of them are left.
    skips: Cell<u32>,
    skipping: Cell<u32>,
    /// How long calls have taken, since the last burst, between looks that found too long a time.
    lost: Cell<u64>,
}

impl Attention {
    const fn new() -> Attention {
        Attention {
            left: Cell::new(0),
            looked: Cell::new(0),
            chosen: Cell::new(false),
            burst: Cell::new(0),
            usual: Cell::new(0),
            skips: Cell::new(0),
            skipping: Cell::new(0),
            lost: Cell::new(0),
        }
    }

    /// Begins a burst, unless the last ones were in vain and this suspicion is to be skipped.
    /// Returns whether it has begun.
    fn suspect(&self) -> bool {
        let skipping = self.skipping.get();
        if self.burst.get() > 0 {
            return false;
        }
        if skipping > 0 {
            self.skipping.set(skipping - 1);
            return false;
        }
        let skips = self.skips.get();
        self.skips.set((2 * skips + 1).min(MOST_SKIPPED));
        self.skipping.set(skips);
        self.lost.set(0);
        self.burst.set(BURST);
        self.left.set(0);
        true
    }

    /// Looks at the counter, which stands at `now`; says whether the next call is measured.
    /// `limit`: what [`CALLS_A_LOOK`] short calls may take.
    fn look(&self, short: bool, now: u64, limit: u64) -> bool {
        let burst = self.burst.get();
        if burst > 0 {
            self.burst.set(burst - 1);
            if burst == 1 {
                self.left.set(CALLS_A_LOOK - 1);
                self.looked.set(now);
                self.chosen.set(false);
            }
            return true;
        }
        let chosen = self.chosen.take();
        let passed = now.wrapping_sub(self.looked.replace(now));
        if short && passed >= UNUSUAL * limit {
            self.lost.set(self.lost.get().saturating_add(passed));
            if self.lost.get() >= MOST_LOST * limit {
                self.skipping.set(0);
                self.suspect();
                return false;
            }
        }
        let usual = self.usual.get().max(limit);
        if passed < usual / 4 {
            self.usual.set(passed);
        } else if short && !chosen && passed >= UNUSUAL * usual {
            self.usual.set(passed);
            if self.suspect() {
                return false;
            }
        }
        // The counter is as good as chance.
        let random = hash(now);
        let quick = short && passed < limit && random >= u32::MAX / SELDOM;
        self.left.set(if chosen || quick { CALLS_A_LOOK - 1 } else { random % WINDOW });
        self.chosen.set(!chosen && !quick);
        chosen
    }
}

/// How fast a thread pushes closures that it may run itself, by the counter.
struct Pace {
    /// When it last asked [`has_time`].
    decided: Cell<u64>,
    /// About how long the closure of that time ran inside its push: 0 if it was shipped.
    ran: Cell<u64>,
    /// How long the thread has run closures inside their pushes since it last paused.
    spent: Cell<u64>,
}

/// Whether the calling thread may run the closure that it pushes inside the push. It may if it has
/// done so for less than `patience` since it last paused. `body` is the time that the closure
/// takes, and is counted if the answer is yes.
pub fn has_time(now: u64, body: u64, patience: u64) -> bool {
    PACE.with(|pace| {
        let between = now.saturating_sub(pace.decided.replace(now).saturating_add(pace.ran.get()));
        if between >= PAUSE * body {
            pace.spent.set(0);
        }
        let spent = pace.spent.get();
        let runs = spent < patience;
        pace.ran.set(if runs { body } else { 0 });
        pace.spent.set(if runs { spent + body } else { spent });
        runs
    })
}

/// Fibonacci hashing (Knuth, vol. 3, 6.4).
#[inline]
pub fn hash(key: u64) -> u32 {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

/// Counts a call of a closure; says whether it is to be measured. `short`: whether the closure
/// counts as short. `counter` and `limit` are called if the thread looks at the counter: where it
/// stands, and by how much it grows while [`CALLS_A_LOOK`] short closures run.
#[inline]
pub fn is_due(short: bool, counter: impl FnOnce() -> u64, limit: impl FnOnce() -> u64) -> bool {
    ATTENTION.with(|attention| {
        let left = attention.left.get();
        if left > 0 {
            attention.left.set(left - 1);
            return false;
        }
        look(attention, short, counter(), limit())
    })
}

#[cold]
#[inline(never)]
fn look(attention: &Attention, short: bool, now: u64, limit: u64) -> bool {
    attention.look(short, now, limit)
}

/// Says that a measurement does not fit what was known: the next calls are measured, unless that
/// has been in vain lately.
#[cold]
pub fn suspect() {
    ATTENTION.with(|attention| _ = attention.suspect());
}

/// Says that an opinion has changed: measurements pay.
#[cold]
pub fn changed() {
    ATTENTION.with(|attention| {
        attention.skips.set(0);
        attention.skipping.set(0);
    });
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// What twelve short calls may take.
    const LIMIT: u64 = 1_200;

    /// Makes `calls` calls that take what `time` says; returns which of them were measured.
    fn measured(attention: &Attention, short: bool, calls: usize, time: impl Fn(usize) -> u64) -> Vec<usize> {
        let mut now = 1_000_000;
        (0..calls)
            .filter(|call| {
                let left = attention.left.get();
                let due = left == 0 && attention.look(short, now, LIMIT);
                if left > 0 {
                    attention.left.set(left - 1);
                }
                now += time(*call) + u64::from(call % 7 == 0);
                due
            })
            .collect()
    }

    #[test]
    fn of_quick_calls_few_are_measured() {
        let few = measured(&Attention::new(), true, 100_000, |_| 30).len();
        assert!((50..1_000).contains(&few), "{few}");
    }

    #[test]
    fn of_slow_calls_one_in_fourteen_is_measured() {
        let some = measured(&Attention::new(), false, 100_000, |_| 400).len();
        assert!((100_000 / 16..100_000 / 12).contains(&some), "{some}");
    }

    #[test]
    fn a_row_of_calls_is_measured_after_a_long_one() {
        for at in 1_000..1_020 {
            let calls = measured(&Attention::new(), true, 2_000, |call| if call == at { 50_000 } else { 30 });
            let row = calls.windows(2).filter(|pair| pair[1] == pair[0] + 1 && pair[0] > at).count();
            assert!(row >= BURST as usize - 2, "{row} after {at}");
        }
    }

    #[test]
    fn what_a_row_finds_does_not_shorten_the_pause_behind_it() {
        let attention = Attention::new();
        let mut measured = 0;
        for call in 0..100_000_u64 {
            let left = attention.left.get();
            attention.left.set(left.saturating_sub(1));
            if left == 0 && attention.look(false, call * 100, LIMIT) {
                measured += 1;
                // As if each measurement contradicted the opinion.
                attention.suspect();
            }
        }
        assert!(measured < 100_000 / 4, "{measured}");
    }

    #[test]
    fn a_thread_that_pauses_has_time_and_one_that_does_not_has_some() {
        let runs = |between: u64| {
            let mut now = 1_000_000;
            (0..1_000)
                .filter(|_| {
                    now += between;
                    let runs = has_time(now, 300, 5_000);
                    now += if runs { 300 } else { 0 };
                    runs
                })
                .count()
        };
        assert_eq!(runs(2_000), 1_000, "with pauses");
        assert!((16..=17).contains(&runs(40)), "5 µs, at 300 ns each");
    }

    #[test]
    fn rows_that_find_nothing_become_rare() {
        // One call in 64 takes 5 µs, and nothing ever changes.
        let many = measured(&Attention::new(), true, 1_000_000, |call| if call % 64 == 0 { 5_000 } else { 30 }).len();
        assert!(many < 1_000_000 / 8, "{many}");
    }
}
