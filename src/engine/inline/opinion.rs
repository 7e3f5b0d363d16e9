//! The opinion of the closures of one key: the mean of the times that they took, and what they
//! count as by it.
//!
//! Used by `inline/policy.rs` alone: threads that call closures learn, pushers look, and a thread
//! that calls `Engine::expect_cost` stores, all by one atomic word. Time counts and not calls: a
//! type whose calls are mostly short, and of which one in 64 takes 50 µs, has a mean of 800 ns.

use crate::sync::{AtomicU64, Ordering::*};

/// How far back the mean reaches: each measurement weighs one in so many.
const REACH: u64 = 128;
/// Measurements before there is an opinion.
const FOR_AN_OPINION: u8 = 4;
/// As so many measurements the program's word counts. A cold first call, which is not yet an
/// [`OUTLIER`], takes up to 16 limits: it must not change the opinion on closures that were said to
/// take up to half a limit. So at least 31 others have to be beside it.
const SAID: u8 = 32;
/// As so many, if the closures are said to be long: no cold call speaks against that.
const SAID_LONG: u8 = 8;
/// A measurement of so many limits is an outlier. One may be an interrupt. With a second one the
/// closures are long, if it is above both limits.
const OUTLIER: u64 = 16;
/// For so many measurements an outlier is remembered.
const REMEMBERED: u8 = 255;
/// The mean is at most so many limits, so that closures that have become short are soon found so.
const MOST: u64 = 3;
/// By so many eighths of the limit the mean of long closures has to be below it for them to be
/// middling.
const LESS_THAN_LONG: u64 = 2;
/// The same, for middling closures to be short. It is less: a closure is measured to take longer
/// where it was shipped to, as its data comes from another core, so that closures near the limit
/// would be shipped for ever once they were.
const LESS_THAN_MIDDLING: u64 = 1;
/// Times are kept in this part of a nanosecond.
const PARTS: u64 = 8;

/// What closures of a key count as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// Too little is known: every call is to be measured.
    Unknown,
    /// To ship them costs more than to run them: they run inside their push.
    Short,
    /// They may run inside their push, and it pays to ship them if there are many.
    Middling,
    /// They are shipped.
    Long,
}

/// The limits by which closures are [`Short`](Length::Short) and [`Middling`](Length::Middling), in
/// nanoseconds. `short` is at most `middling`.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub short: u64,
    pub middling: u64,
}

/// What is known of the closures of one key, in one word: the mean, for how long an outlier is
/// remembered, the number of measurements, and the [`Length`]. Threads that learn at once may lose
/// one another's measurements: then the opinion changes a call later.
pub struct Opinion(AtomicU64);

/// The fields of an [`Opinion`].
#[derive(Clone, Copy)]
struct Fields {
    /// In eighths of a nanosecond.
    mean: u64,
    remembered: u8,
    measured: u8,
    length: Length,
}

impl Fields {
    fn of(word: u64) -> Fields {
        let length = match word as u8 {
            1 => Length::Short,
            2 => Length::Middling,
            3 => Length::Long,
            _ => Length::Unknown,
        };
        Fields { mean: word >> 32, remembered: (word >> 16) as u8, measured: (word >> 8) as u8, length }
    }

    fn word(self) -> u64 {
        self.mean.min(u64::from(u32::MAX)) << 32
            | u64::from(self.remembered) << 16
            | u64::from(self.measured) << 8
            | self.length as u64
    }
}

impl Opinion {
    pub fn new() -> Opinion {
        Opinion(AtomicU64::new(0))
    }

    #[inline]
    pub fn length(&self) -> Length {
        Fields::of(self.0.load(Relaxed)).length
    }

    /// The mean, in nanoseconds.
    pub fn mean(&self) -> u64 {
        Fields::of(self.0.load(Relaxed)).mean / PARTS
    }

    /// Takes the opinion that [`SAID`] measurements would have led to, had each been `took`
    /// nanoseconds; [`SAID_LONG`], if the closures are long. One cold call does not change it, and
    /// a word that is wrong does not outweigh what is measured for long.
    #[cold]
    pub fn expect(&self, took: u64, limits: Limits) {
        let length = match took {
            took if took >= limits.middling => Length::Long,
            took if took >= limits.short => Length::Middling,
            _ => Length::Short,
        };
        let mean = took.min(MOST * limits.middling).saturating_mul(PARTS);
        let measured = if length == Length::Long { SAID_LONG } else { SAID };
        self.0.store(Fields { mean, remembered: 0, measured, length }.word(), Relaxed);
    }

    /// Takes in a measurement, in nanoseconds. Closures whose mean reaches a limit are what is
    /// above it, and are what is below it again when the mean is a quarter less ([`Length::Long`])
    /// or an eighth less. Returns whether what they count as has changed.
    #[cold]
    pub fn learn(&self, took: u64, limits: Limits) -> bool {
        let mut now = Fields::of(self.0.load(Relaxed));
        let before = now.length;
        if took >= OUTLIER * limits.short {
            let first = std::mem::replace(&mut now.remembered, REMEMBERED) == 0;
            if first && before != Length::Long {
                self.0.store(now.word(), Relaxed);
                return false;
            }
            if took >= limits.middling {
                now.mean = now.mean.max(limits.middling * PARTS);
            }
        } else {
            now.remembered = now.remembered.saturating_sub(1);
        }
        now.measured = now.measured.saturating_add(1).min(REACH as u8);
        let weight = u64::from(now.measured);
        let mean = (now.mean * (weight - 1) + took.saturating_mul(PARTS).min(u64::from(u32::MAX))) / weight;
        now.mean = mean.min(MOST * limits.middling * PARTS);
        let settled = now.measured >= FOR_AN_OPINION;
        // Whether the mean has reached the limit, or was above and is not yet by so many eighths
        // below.
        let is_above =
            |limit: u64, was: bool, less: u64| now.mean * 8 >= limit * PARTS * if was { 8 - less } else { 8 };
        now.length = match before {
            _ if is_above(limits.middling, before == Length::Long, LESS_THAN_LONG) => Length::Long,
            Length::Unknown if !settled => Length::Unknown,
            _ if is_above(limits.short, matches!(before, Length::Long | Length::Middling), LESS_THAN_MIDDLING) => {
                Length::Middling
            }
            _ => Length::Short,
        };
        self.0.store(now.word(), Relaxed);
        now.length != before
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { short: 100, middling: 100 };

    fn learned(times: impl IntoIterator<Item = u64>) -> Opinion {
        let opinion = Opinion::new();
        times.into_iter().for_each(|took| _ = opinion.learn(took, LIMITS));
        opinion
    }

    #[test]
    fn a_few_short_calls_make_an_opinion() {
        assert_eq!(learned([20; 3]).length(), Length::Unknown);
        assert_eq!(learned([20; 4]).length(), Length::Short);
        assert_eq!(learned([120; 1]).length(), Length::Long);
    }

    #[test]
    fn calls_above_the_longest_limit_are_long() {
        let limits = Limits { short: 150, middling: 500_000_000 };
        let opinion = Opinion::new();
        (0..300).for_each(|_| _ = opinion.learn(2_000_000_000, limits));
        assert_eq!(opinion.length(), Length::Long);
    }

    #[test]
    fn one_outlier_among_short_calls_changes_nothing_and_two_do() {
        let opinion = learned([20; 100]);
        for _ in 0..5 {
            opinion.learn(50_000, LIMITS);
            assert_eq!(opinion.length(), Length::Short);
            (0..300).for_each(|_| _ = opinion.learn(20, LIMITS));
        }
        opinion.learn(50_000, LIMITS);
        assert!(opinion.learn(50_000, LIMITS));
        assert_eq!(opinion.length(), Length::Long);
    }

    #[test]
    fn time_counts_and_not_calls() {
        // One call in 64 takes 50 µs, the others nothing: the mean is 780 ns.
        let rare = |call: u64| if call % 64 == 63 { 50_000 } else { 5 };
        let opinion = learned((0..256).map(rare));
        for call in 256..2_000 {
            opinion.learn(rare(call), LIMITS);
            assert_eq!(opinion.length(), Length::Long, "call {call}");
        }
        // One call in 16 takes 600 ns: the mean is 42 ns.
        let mild = |call: u64| if call % 16 == 15 { 600 } else { 5 };
        assert_eq!(learned((0..2_000).map(mild)).length(), Length::Short);
    }

    #[test]
    fn closures_that_have_become_short_are_soon_found_so() {
        let opinion = learned([1_000_000; 100]);
        let calls = (0..1_000).position(|_| opinion.learn(20, LIMITS)).expect("they are short");
        assert!(calls < 400, "{calls}");
        assert_eq!(opinion.length(), Length::Short);
    }

    #[test]
    fn what_is_between_the_limits_is_neither_short_nor_long() {
        let limits = Limits { short: 100, middling: 1_000 };
        let learned = |took: u64| {
            let opinion = Opinion::new();
            (0..300).for_each(|_| _ = opinion.learn(took, limits));
            opinion.length()
        };
        assert_eq!([50, 300, 3_000].map(learned), [Length::Short, Length::Middling, Length::Long]);
    }

    #[test]
    fn what_is_expected_counts_like_what_was_measured() {
        let limits = Limits { short: 100, middling: 1_000 };
        for (took, length) in [(50, Length::Short), (300, Length::Middling), (3_000, Length::Long)] {
            let (told, found) = (Opinion::new(), Opinion::new());
            told.expect(took, limits);
            (0..300).for_each(|_| _ = found.learn(took, limits));
            assert_eq!((told.length(), told.mean()), (length, found.mean()));
        }
        // A first call that finds nothing in the caches does not count for more than a later one.
        let told = Opinion::new();
        told.expect(50, limits);
        assert!(!told.learn(1_500, limits) && told.length() == Length::Short);
        // What was said was wrong.
        let calls = (0..100).position(|_| told.learn(1_500, limits)).expect("they are not short");
        assert!(calls < 20, "{calls}");
    }

    #[test]
    fn a_wrong_word_is_corrected_in_time() {
        let corrected = |said: u64, took: u64, limits: Limits| {
            let told = Opinion::new();
            told.expect(said, limits);
            let said = told.length();
            1 + (0..1_000).position(|_| told.learn(took, limits) && told.length() != said).expect("it is wrong")
        };
        let limits = Limits { short: 100, middling: 1_000 };
        // `Engine::expect_cost` says these numbers. Twice the limit or more, said to be next to
        // nothing:
        assert_eq!([200, 400, 1_500].map(|took| corrected(1, took, limits)), [33, 11, 3]);
        // Half the limit or less, said to be as long as can be:
        assert_eq!([500, 100, 1].map(|took| corrected(1_000_000, took, limits)), [72, 28, 24]);
        assert_eq!(corrected(1_000_000, 50, LIMITS), 66);
    }

    #[test]
    fn one_cold_call_does_not_change_what_was_said() {
        for said in [1, 20, 50] {
            let told = Opinion::new();
            told.expect(said, LIMITS);
            assert!(!told.learn(OUTLIER * LIMITS.short - 1, LIMITS), "{said}");
        }
    }

    #[test]
    fn a_mean_near_the_limit_does_not_waver() {
        let opinion = learned([120; 64]);
        assert_eq!(opinion.length(), Length::Long);
        assert!((0..1_000).all(|_| !opinion.learn(90, LIMITS)), "90 is not a quarter less");
    }
}
