//! Whether a replay is worth more than one thread.
//!
//! Handing a segment to another core costs a cache line or two, and starting the lanes a few more. A replay is begun by one thread, which looks
//! at the clock after one operation, two, four, and so on; once the segments are seen to take longer than that costs, it spreads what is left. One
//! that was worth it is taken to be so again for some replays; then it is measured once more.

#![forbid(unsafe_code)]

use crate::sync::MODELLED;
use std::time::{Duration, Instant};

/// What a segment costs if its lane is another thread's, and what starting the lanes costs. Two and some tens of cache lines between cores.
const SEGMENT: Duration = Duration::from_nanos(100);
const START: Duration = Duration::from_micros(3);
/// Operations between two looks at the clock, at most: so a change is noticed after so many, and a look costs each a nanosecond or two.
const EVERY: u32 = 16;
/// Replays that are spread from the start before one is measured again.
const TRUST: u32 = 16;

/// What is known of the pace of a graph's replays.
pub struct Pace {
    lanes: u32,
    /// Replays that are to be spread from the start.
    trusted: u32,
    /// Whether the replay under way was begun alone, and whether it is still run so.
    begun_alone: bool,
    began: Option<Instant>,
    /// When the clock was last looked at, and how many segments were left then.
    looked: Option<Instant>,
    left: usize,
    /// Operations until the next look.
    interval: u32,
    /// The last look found that it would pay.
    suspected: bool,
}

impl Pace {
    pub fn new() -> Pace {
        Pace {
            lanes: 1,
            trusted: 0,
            begun_alone: false,
            began: None,
            looked: None,
            left: 0,
            interval: EVERY,
            suspected: false,
        }
    }

    /// A replay of `segments` begins; says whether alone. One that is not `plain` cannot be.
    pub fn begin(&mut self, plain: bool, lanes: usize, segments: usize) -> bool {
        self.lanes = lanes as u32;
        self.began = None;
        if !plain || lanes == 1 || MODELLED {
            self.interval = EVERY;
            return plain && lanes == 1;
        }
        self.began = Some(Instant::now());
        self.begun_alone = self.trusted == 0;
        if self.begun_alone {
            (self.looked, self.left, self.interval, self.suspected) = (self.began, segments, 1, false);
        } else {
            self.trusted -= 1;
        }
        self.begun_alone
    }

    /// Operations from one look to the next.
    #[inline]
    pub fn interval(&self) -> u32 {
        self.interval
    }

    /// Looks at the clock; says whether it pays to spread the `left` segments.
    pub fn spreads(&mut self, left: usize) -> bool {
        let Some(looked) = self.looked.filter(|_| self.began.is_some()) else { return false };
        let now = Instant::now();
        let pays = self.pays(now - looked, self.left - left, left);
        // One long measurement may be an interrupt: it is checked by the next.
        let sure = pays && self.suspected;
        if pays != self.suspected {
            self.interval = 1;
        } else {
            self.interval = (2 * self.interval).min(EVERY);
        }
        (self.looked, self.left, self.suspected) = (Some(now), left, pays);
        if sure {
            self.trusted = TRUST;
        }
        sure
    }

    /// Whether it pays to spread `left` segments of which some took so long.
    fn pays(&self, took: Duration, segments: usize, left: usize) -> bool {
        let share = (self.lanes - 1) as f64 / f64::from(self.lanes);
        let each = took.as_secs_f64() / segments.max(1) as f64;
        left as f64 * (each * share - SEGMENT.as_secs_f64()) > START.as_secs_f64() * f64::from(self.lanes - 1)
    }

    /// The replay of so many segments is over.
    pub fn over(&mut self, segments: usize) {
        let Some(took) = self.began.take().map(|began| began.elapsed()) else { return };
        if self.begun_alone {
            // Also what is too short to be spread in the middle can be worth it from the start.
            if self.trusted == 0 && self.pays(took, segments, segments) {
                self.trusted = TRUST;
            }
        } else if !self.pays(took * self.lanes, segments, segments) {
            self.trusted = 0;
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn long_segments_are_spread_and_short_ones_not() {
        let pace = Pace { lanes: 2, ..Pace::new() };
        assert!(pace.pays(Duration::from_micros(50), 1, 2));
        assert!(!pace.pays(Duration::from_micros(50), 1, 0));
        assert!(!pace.pays(Duration::from_nanos(50), 1, 1_000_000));
        assert!(!pace.pays(Duration::from_nanos(1600), 16, 1_000_000));
        assert!(pace.pays(Duration::from_nanos(500), 1, 1000));
    }

    #[test]
    fn a_slow_replay_is_spread_after_two_looks_and_trusted_then() {
        let mut pace = Pace::new();
        assert!(pace.begin(true, 2, 100));
        std::thread::sleep(Duration::from_millis(1));
        assert!(!pace.spreads(99), "one look is not enough");
        std::thread::sleep(Duration::from_millis(1));
        assert!(pace.spreads(98));
        pace.over(100);
        for _ in 0..TRUST {
            assert!(!pace.begin(true, 2, 100));
            std::thread::sleep(Duration::from_millis(1));
            pace.over(100);
        }
        assert!(pace.begin(true, 2, 100), "measured again");
    }

    #[test]
    fn a_quick_replay_is_run_alone_again() {
        let mut pace = Pace { trusted: TRUST, ..Pace::new() };
        assert!(!pace.begin(true, 2, 1_000_000));
        pace.over(1_000_000);
        assert!(pace.begin(true, 2, 1_000_000));
    }

    #[test]
    fn what_is_not_plain_is_never_alone_and_one_lane_always() {
        assert!(!Pace::new().begin(false, 2, 10));
        assert!(!Pace::new().begin(false, 1, 10));
        assert!(Pace::new().begin(true, 1, 10));
    }
}
