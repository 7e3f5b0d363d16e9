//! The spread policy: whether a replay is worth more than one thread.
//!
//! Used by `replay/runner.rs`, on the one thread that begins or ends a replay, or runs it alone.
//! `replay/assemble.rs` makes one for each graph, and `replay/program.rs` has it.
//!
//! Handing a segment to another core costs a cache line or two, and starting the lanes costs a few
//! more. The first replay is spread from the start: what its operations take is not known, and the
//! other threads cannot find out while one of them runs. Later replays are begun by one thread,
//! which looks at the clock after one operation, two, four, and so on. Once the segments are seen
//! to take longer than handing them over costs, it spreads what is left.
//!
//! A replay that was worth spreading is trusted: some replays are then spread from the start, and
//! after them one is measured again. A replay that was not worth it, though it seemed so, doubles
//! what a segment is taken to cost. If a replay takes many times what it costs to spread it, there
//! is nothing to measure: the next one is spread as well.

#![forbid(unsafe_code)]

use crate::platform::tsc::{Reading, Tsc};
use crate::sync::MODELLED;
use std::time::Duration;

/// What a segment costs when several threads run the lanes; what each wait for another lane adds (a
/// cache line that moves); and what it costs to start the lanes. In seconds.
const SEGMENT: f64 = 20e-9;
const WAIT: f64 = 70e-9;
const START: f64 = 3e-6;
/// A replay that takes this many times the cost of spreading it is spread without further looks: at
/// most a twentieth is lost.
const BEYOND_DOUBT: f64 = 20.0;
/// The learned cost of a segment is at most this many times the expected one.
const MOST_LEARNED: f64 = 16.0;
/// A look judges nothing if less time than this has passed since the last one.
const LEAST_JUDGED: Duration = Duration::from_micros(4);
/// Operations between two looks at the clock, at most. So a change is noticed after this many, and
/// a look costs each a nanosecond or two.
const OPERATIONS_A_LOOK: u32 = 16;
/// Replays that are spread from the start before one is measured again.
const TRUST: u32 = 16;

/// What is known of the times of a graph's replays.
pub struct SpreadPolicy {
    plain: bool,
    lanes: u32,
    segments: usize,
    /// What a segment costs more on several threads, in seconds: as expected, and as learned.
    expected: f64,
    learned: f64,
    /// Replays that are to be spread from the start.
    trusted: u32,
    /// Whether the replay under way was begun alone, and when. `None`: it is not measured.
    begun_alone: bool,
    began: Option<Reading>,
    /// When the clock was last looked at, and how many segments were left then.
    looked: Option<Reading>,
    left: usize,
    /// Where the counter is when enough time has passed since then to judge it.
    judged_from: u64,
    /// Operations until the next look.
    interval: u32,
    /// Whether the last look found that it pays to spread, and whether some look of this replay
    /// found that it does not.
    suspected: bool,
    refuted: bool,
    /// Replays in a row that were begun alone and were worth spreading as a whole, but too short
    /// for that to show in the middle.
    long: u32,
    /// What a segment took at the last look, and whether the replay under way was spread in the
    /// middle.
    each: f64,
    spread: bool,
    /// Whether no replay has ended yet.
    cold: bool,
    /// After how many operations replays are spread, if the clock does not decide it.
    forced: Option<u32>,
    /// What a replay takes on one thread, in seconds, by the last replay that was begun alone.
    alone: f64,
}

impl SpreadPolicy {
    /// For a graph with this many lanes and segments, and `waits` waits of one lane for another.
    /// Only a `plain` graph may be run by one thread alone.
    pub fn new(plain: bool, lanes: usize, segments: usize, waits: usize) -> SpreadPolicy {
        let expected = SEGMENT + WAIT * waits as f64 / segments.max(1) as f64;
        SpreadPolicy {
            plain,
            lanes: lanes as u32,
            segments,
            expected,
            learned: expected,
            trusted: 0,
            begun_alone: false,
            began: None,
            looked: None,
            left: 0,
            judged_from: 0,
            interval: OPERATIONS_A_LOOK,
            suspected: false,
            refuted: false,
            long: 0,
            each: 0.0,
            spread: false,
            cold: true,
            forced: None,
            alone: f64::MAX,
        }
    }

    /// Spreads every replay after this many operations, for tests.
    pub fn spread_after(mut self, operations: Option<u32>) -> SpreadPolicy {
        self.forced = operations;
        self
    }

    /// A replay begins; `true`: on one thread alone.
    pub fn begin(&mut self, clock: &Tsc) -> bool {
        if !self.plain || self.lanes == 1 {
            return self.plain;
        }
        if let Some(operations) = self.forced {
            self.interval = operations;
            return operations > 0;
        }
        // Of one segment no part can run at once with another.
        if self.segments <= 1 || MODELLED {
            return self.segments <= 1;
        }
        let now = clock.start();
        self.began = Some(now);
        self.begun_alone = self.trusted == 0 && !self.cold;
        if self.begun_alone {
            self.look_from(now, clock);
            (self.left, self.interval) = (self.segments, 1);
            (self.suspected, self.refuted, self.spread, self.each) = (false, false, false, 0.0);
        } else {
            self.trusted = self.trusted.saturating_sub(1);
        }
        self.begun_alone
    }

    /// Operations from one look at the clock to the next.
    #[inline]
    pub fn interval(&self) -> u32 {
        self.interval
    }

    /// Looks at the clock; says whether it pays to spread the `left` segments.
    pub fn spreads(&mut self, clock: &Tsc, left: usize) -> bool {
        if self.forced.is_some() {
            return true;
        }
        let Some(looked) = self.looked.filter(|_| self.began.is_some()) else { return false };
        // Most looks end here, without a measurement.
        let took = if clock.reading() < self.judged_from { Duration::ZERO } else { clock.since(looked) };
        if took < LEAST_JUDGED {
            // Too little time to tell: a few operations whose cache lines were lost look as long as
            // many others.
            self.interval = (2 * self.interval).min(OPERATIONS_A_LOOK);
            return false;
        }
        self.look_from(clock.start(), clock);
        self.judge_part(took, left)
    }

    /// Looks at what is to come from this reading of the clock on.
    fn look_from(&mut self, now: Reading, clock: &Tsc) {
        self.looked = Some(now);
        self.judged_from = clock.reading_at(now, LEAST_JUDGED);
    }

    /// Judges the time since the last look, of a replay that has `left` segments to come; says
    /// whether it pays to spread them.
    fn judge_part(&mut self, took: Duration, left: usize) -> bool {
        let took = took.as_secs_f64();
        let each = took / (self.left - left).max(1) as f64;
        let pays = self.pays(each, left);
        // One long measurement may be an interrupt, so the next one has to confirm it. If it was
        // very long, to spread in vain adds little to it.
        let sure = pays && (self.suspected || took > BEYOND_DOUBT * self.start());
        if pays != self.suspected {
            self.interval = 1;
        } else {
            self.interval = (2 * self.interval).min(OPERATIONS_A_LOOK);
        }
        (self.left, self.suspected) = (left, pays);
        self.refuted |= !pays && left > 0;
        if sure {
            self.spread = true;
            self.alone = if self.each > 0.0 { each.min(self.each) } else { each } * self.segments as f64;
            self.trusted = TRUST;
        }
        self.each = each;
        sure
    }

    /// Whether it pays to spread `left` segments that take `each` seconds each.
    fn pays(&self, each: f64, left: usize) -> bool {
        let others = f64::from(self.lanes - 1);
        left as f64 * (each * others / f64::from(self.lanes) - self.learned) > self.start()
    }

    /// What it costs to start the lanes, in seconds.
    fn start(&self) -> f64 {
        START * f64::from(self.lanes - 1)
    }

    /// The replay is over.
    pub fn over(&mut self, clock: &Tsc) {
        let Some(began) = self.began.take() else { return };
        // Not one look has judged anything.
        let is_first = self.begun_alone && !self.suspected && !self.refuted && self.each == 0.0;
        if is_first && clock.reading() < self.judged_from {
            self.judge_short();
        } else {
            self.judge_whole(clock.since(began));
        }
    }

    /// Judges a replay that is over, was begun alone, and took so little time that to start a lane
    /// takes as long: like [`SpreadPolicy::judge_whole`], without a measurement.
    fn judge_short(&mut self) {
        (self.long, self.alone) = (0, LEAST_JUDGED.as_secs_f64());
        self.forget();
    }

    /// Judges a replay that is over.
    fn judge_whole(&mut self, took: Duration) {
        let took = took.as_secs_f64();
        let cold = std::mem::take(&mut self.cold);
        if took > BEYOND_DOUBT * (self.start() + self.learned * self.segments as f64) {
            self.trusted = TRUST;
            return;
        }
        if cold {
            return;
        }
        let each = took / self.segments.max(1) as f64;
        let useless = took >= self.alone;
        if !self.begun_alone {
            // A replay that was spread from the start, and took no less time than one alone, or
            // little on all threads together, leads to a measurement: what the operations do may
            // have changed.
            if useless || !self.pays(each * f64::from(self.lanes), self.segments) {
                self.trusted = 0;
            }
        } else if self.spread && useless {
            self.trusted = 0;
            self.learned = (2.0 * self.learned).min(MOST_LEARNED * self.expected);
            return;
        } else if !self.spread {
            // A replay that is too short to be spread in the middle can be worth it from the start.
            // Two in a row have to show this, because one may have met an interrupt.
            self.long = if !self.refuted && self.pays(each, self.segments) { self.long + 1 } else { 0 };
            if self.long >= 2 {
                self.trusted = TRUST;
            }
            self.alone = took;
        }
        self.forget();
    }

    /// The learned cost is forgotten little by little.
    fn forget(&mut self) {
        self.learned = (0.9 * self.learned).max(self.expected);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    // All tests but one say how long their replays take, so that a slow machine changes nothing.
    const SHORT: Duration = Duration::from_nanos(50);
    const MILLISECOND: Duration = Duration::from_millis(1);
    /// So many lanes that what is long enough to be judged is not beyond doubt.
    const MANY: usize = 10_000;

    fn of_lanes(lanes: usize, segments: usize) -> SpreadPolicy {
        SpreadPolicy { cold: false, ..SpreadPolicy::new(true, lanes, segments, segments) }
    }

    fn two_lanes(segments: usize) -> SpreadPolicy {
        of_lanes(2, segments)
    }

    #[test]
    fn long_segments_are_spread_and_short_ones_not() {
        let pace = two_lanes(100);
        assert!(pace.pays(50e-6, 2));
        assert!(!pace.pays(50e-6, 0));
        assert!(!pace.pays(100e-9, 1_000_000));
        assert!(pace.pays(1e-6, 1000));
        let apart = SpreadPolicy::new(true, 2, 100, 0);
        assert!(apart.pays(100e-9, 1000), "lanes that do not wait for each other");
    }

    #[test]
    fn a_first_replay_is_spread_and_so_is_each_that_follows_a_long_one() {
        let mut pace = SpreadPolicy::new(true, 2, 2, 0);
        for _ in 0..3 * TRUST {
            assert!(!pace.begin(&Tsc::new()));
            pace.judge_whole(MILLISECOND);
        }
        assert!(!pace.begin(&Tsc::new()));
        pace.judge_whole(SHORT);
        assert!(pace.begin(&Tsc::new()), "a short one is measured");
        assert!(pace.judge_part(MILLISECOND, 1), "one look is enough if it is long");
    }

    #[test]
    fn a_slow_replay_is_spread_after_two_looks_and_trusted_then() {
        let mut pace = of_lanes(MANY, 1_000_000);
        assert!(pace.begin(&Tsc::new()));
        assert!(!pace.judge_part(MILLISECOND, 999_999), "one look is not enough");
        assert!(pace.judge_part(MILLISECOND, 999_998));
        pace.judge_whole(2 * MILLISECOND);
        for _ in 0..TRUST {
            assert!(!pace.begin(&Tsc::new()));
            pace.judge_whole(MILLISECOND);
        }
        assert!(pace.begin(&Tsc::new()), "measured again");
    }

    #[test]
    fn few_long_segments_are_spread_from_the_start_the_third_time() {
        let mut pace = of_lanes(MANY, 2);
        for _ in 0..2 {
            assert!(pace.begin(&Tsc::new()));
            assert!(!pace.judge_part(40 * MILLISECOND, 1), "one look is not enough");
            assert!(!pace.judge_part(40 * MILLISECOND, 0), "nothing is left");
            pace.judge_whole(80 * MILLISECOND);
        }
        assert!(!pace.begin(&Tsc::new()));
    }

    #[test]
    fn what_is_slower_on_two_lanes_is_run_alone_again_and_remembered_for_a_while() {
        let mut pace = SpreadPolicy { alone: 1e-6, trusted: TRUST, ..of_lanes(MANY, 2) };
        assert!(!pace.begin(&Tsc::new()));
        pace.judge_whole(MILLISECOND);
        assert!(pace.begin(&Tsc::new()), "it may have changed: it is measured");
        (pace.spread, pace.alone) = (true, 0.0);
        pace.judge_whole(SHORT);
        assert!(pace.learned > 1.5 * pace.expected);
        for _ in 0..10 {
            assert!(pace.begin(&Tsc::new()));
            pace.judge_whole(SHORT);
        }
        assert!(pace.learned < 1.1 * pace.expected);
    }

    #[test]
    fn a_quick_replay_is_run_alone_again() {
        let mut pace = SpreadPolicy { trusted: TRUST, ..two_lanes(1_000_000) };
        assert!(!pace.begin(&Tsc::new()));
        pace.judge_whole(SHORT);
        assert!(pace.begin(&Tsc::new()));
    }

    /// What is not measured would have been judged so, had it been.
    #[test]
    fn a_short_replay_is_judged_without_a_measurement() {
        for lanes in 2..=64 {
            let [mut short, mut whole] = [of_lanes(lanes, 100), of_lanes(lanes, 100)];
            for pace in [&mut short, &mut whole] {
                assert!(pace.begin(&Tsc::new()));
                (pace.long, pace.learned) = (1, 8.0 * pace.expected);
            }
            short.judge_short();
            whole.judge_whole(LEAST_JUDGED - Duration::from_nanos(1));
            assert_eq!((short.long, short.trusted, short.learned), (whole.long, whole.trusted, whole.learned));
            assert!((short.alone - whole.alone).abs() < 2e-9, "{lanes} lanes");
        }
    }

    #[test]
    fn the_clock_is_looked_at() {
        let (mut pace, clock) = (two_lanes(2), Tsc::new());
        assert!(pace.begin(&clock));
        std::thread::sleep(MILLISECOND);
        assert!(pace.spreads(&clock, 1));
        pace.over(&clock);
        assert!(pace.alone >= 1e-3, "{} s", pace.alone);
    }

    #[test]
    fn what_is_not_plain_is_never_alone_and_one_lane_or_segment_always() {
        let mut one_segment = SpreadPolicy::new(true, 2, 1, 0);
        for _ in 0..3 {
            assert!(one_segment.begin(&Tsc::new()));
            assert!(one_segment.began.is_none(), "there is nothing to measure");
        }
        assert!(!SpreadPolicy::new(false, 2, 10, 0).begin(&Tsc::new()));
        assert!(!SpreadPolicy::new(false, 1, 10, 0).begin(&Tsc::new()));
        assert!(SpreadPolicy::new(true, 1, 10, 0).begin(&Tsc::new()));
    }
}
