//! Tests of `policy.rs`.

use super::*;
use crate::engine::inline::attention::{hash, MOST_LOST};
use std::thread::sleep;

const LONG: Duration = Duration::from_millis(2);

#[test]
fn the_mind_is_changed_in_time() {
    let key = || Some(CostKey::given(1));
    let policy = InlinePolicy::with_limit(LONG);
    let call = |time: Duration| policy.measure(key, || sleep(time));
    for _ in 0..3 {
        assert!(!policy.runs_inside(key));
        (0..400 * CALLS_A_LOOK).for_each(|_| policy.measure(key, || ()));
        assert!(policy.runs_inside(key), "nothing is short");
        let late = (0..1_000).position(|_| {
            call(2 * LONG);
            !policy.runs_inside(key)
        });
        // The mean of 128 measurements is above the limit when half of them are twice as long.
        assert!(late.is_some_and(|late| late < 400), "{late:?}");
    }
}

#[test]
fn the_end_of_an_operation_does_not_count_for_its_closure() {
    let (key, policy) = (Some(CostKey::given(1)), InlinePolicy::with_limit(LONG));
    (0..10).for_each(|_| policy.measure_without_ends(key, || policy.leave_out(|| sleep(2 * LONG))));
    assert!(policy.runs_inside(|| key), "what was left out counts");
    assert!(!InlinePolicy::is_measuring());
    let late = (0..1_000).position(|_| {
        policy.measure_without_ends(key, || sleep(2 * LONG));
        !policy.runs_inside(|| key)
    });
    assert!(late.is_some(), "what was not left out does not count");
}

#[test]
fn a_call_that_was_none_is_not_learned_of() {
    let (key, policy) = (Some(CostKey::given(1)), InlinePolicy::with_limit(LONG));
    (0..1_000).for_each(|_| policy.measure(|| key, InlinePolicy::forget_call));
    (0..1_000).for_each(|_| policy.measure_without_ends(key, InlinePolicy::forget_call));
    assert!(!policy.runs_inside(|| key), "it is taken to be short");
    (0..10).for_each(|_| policy.measure(|| key, || ()));
    assert!(policy.runs_inside(|| key), "nothing is learned any more");
}

#[test]
fn a_wrong_word_is_corrected_in_time() {
    let key = || Some(CostKey::given(1));
    let until = |said: Duration, call: fn()| {
        let policy = InlinePolicy::with_limit(LONG);
        policy.expect(CostKey::given(1), said);
        let inside = policy.runs_inside(key);
        let corrected = |_: &usize| {
            policy.measure(key, call);
            policy.runs_inside(key) != inside
        };
        (1..1_000).find(corrected).expect("it is wrong")
    };
    // The first call that is measured is one of the first 18. From then on all are.
    let calls = until(Duration::ZERO, || sleep(2 * LONG));
    assert!(calls <= 18 + 33, "they take too long: {calls} calls");
    // A busy machine makes a short call long now and then.
    let calls = (0..5).map(|_| until(Duration::from_secs(1), || ())).min().unwrap();
    assert!(calls <= 18 + 24, "they are short: {calls} calls");
}

#[test]
fn of_types_that_take_turns_each_is_measured() {
    let key = || Some(CostKey::given(1));
    // In rounds of many lengths, one long call: it makes the mean long.
    for turns in [2, 3, 7, 8, 12, 13, 16, 17, 23, 32] {
        let policy = InlinePolicy::with_limit(Duration::from_micros(1));
        (0..1000).for_each(|_| policy.measure(key, || ()));
        let found = (0..2_000 * turns).any(|call| {
            policy.measure(key, || {
                if call % turns == 0 {
                    sleep(Duration::from_micros(50));
                }
            });
            !policy.runs_inside(key)
        });
        assert!(found, "{turns} turns");
    }
}

#[test]
fn each_key_is_learned_by_itself() {
    // A busy machine makes a short call long now and then: more often than twice in a row it
    // does not.
    let learns = || {
        let policy = InlinePolicy::with_limit(LONG);
        let [short, long] = [1, 2].map(|key| move || Some(CostKey::given(key)));
        for _ in 0..4 * CALLS_A_LOOK {
            policy.measure(short, || ());
            policy.measure(long, || sleep(LONG));
        }
        assert!(!policy.runs_inside(long));
        policy.runs_inside(short)
    };
    assert!((0..5).any(|_| learns()));
}

#[test]
fn nothing_is_learned_unless_asked_for() {
    assert!(InlinePolicy::none().of(|| Some(CostKey::given(1))).is_none());
    assert!(InlinePolicy::new(Duration::from_nanos(1)).of(|| Some(CostKey::given(1))).is_some());
    assert!(InlinePolicy::new(Duration::from_nanos(1)).of(|| None).is_none());
}

#[test]
fn a_limit_without_bound_is_one() {
    let key = || Some(CostKey::given(1));
    let policy = InlinePolicy::new(Duration::MAX);
    (0..100).for_each(|_| policy.measure(key, || ()));
    assert!(policy.runs_inside(key));
}

/// What a measurement of nothing comes to, in nanoseconds.
const OWN: u64 = 25;

/// A policy on a clock that moves on when the test says so. As on a real machine a measurement
/// adds its own time, and as much again, as the processor cannot overlap the call with what is
/// around it.
struct MadeUp {
    policy: InlinePolicy,
    now: u64,
}

impl MadeUp {
    fn new() -> MadeUp {
        let mut policy = InlinePolicy::with_limit(DECLARED);
        policy.limits.short = u64::from(MEASUREMENTS) * OWN;
        MadeUp { policy, now: 1_000_000 }
    }

    fn opinion(&self) -> &Opinion {
        self.policy.of(|| Some(KEY)).expect("it is learned")
    }

    fn length(&self) -> Length {
        self.opinion().length()
    }

    /// What [`CALLS_A_LOOK`] short calls may take.
    fn limit(&self) -> u64 {
        u64::from(CALLS_A_LOOK) * self.policy.limits.short
    }

    /// Calls a closure as [`InlinePolicy::measure`] does.
    fn call(&mut self, takes: u64) {
        let is_due = match self.length() {
            Length::Unknown => true,
            length => attention::is_due(length == Length::Short, || self.now, || self.limit()),
        };
        self.now += takes;
        if is_due {
            self.now += 2 * OWN;
            let measured = Duration::from_nanos(takes + 2 * OWN);
            self.policy.take_in(self.opinion(), measured, Duration::from_nanos(OWN));
        }
    }

    /// Pushes such a closure; says whether it runs inside the push. What is middling does here,
    /// as for a thread that pauses.
    fn push(&mut self, takes: u64) -> bool {
        self.now += 25;
        let inside = matches!(self.length(), Length::Short | Length::Middling);
        if inside {
            self.call(takes);
        }
        inside
    }
}

const KEY: CostKey = CostKey(1);

/// Runs `test` on a thread of its own, so that its attention is new.
fn anew<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::spawn(test).join().expect("it does not panic")
}

#[test]
fn a_closure_that_is_shorter_than_its_shipping_is_short_again_however_it_was_once() {
    anew(|| {
        let mut made_up = MadeUp::new();
        for _ in 0..3 {
            (0..5_000).for_each(|_| made_up.call(300));
            assert_eq!(made_up.length(), Length::Middling, "300 ns");
            (0..50_000).for_each(|_| made_up.call(130));
            assert_eq!(made_up.length(), Length::Short, "130 ns, and shipping takes 150");
        }
    });
}

/// Calls of one closure, of which some are long.
#[derive(Clone, Copy)]
struct Mix {
    one_in: u64,
    random: bool,
    length: u64,
    /// Whether bursts have been in vain before, so that suspicions are skipped.
    wary: bool,
    seed: u64,
}

impl Mix {
    fn is_long(&self, call: u64, chance: &mut impl FnMut() -> u64) -> bool {
        if self.random {
            chance() % self.one_in == 0
        } else {
            call % self.one_in == self.one_in - 1
        }
    }

    /// How long calls ran inside their pushes that were long, in nanoseconds, until the closure
    /// was shipped; and what calls may take that nobody looks at closer.
    fn time_inside(self) -> (u64, u64) {
        const SHORT: u64 = 5;
        let mut made_up = MadeUp::new();
        (0..4).for_each(|_| made_up.call(SHORT));
        let mut random = self.seed;
        // Marsaglia, Xorshift RNGs, 2003.
        let mut chance = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            u64::from(hash(random))
        };
        for call in 0..2_000 + chance() % 3_000 {
            made_up.push(if self.wary && call % 499 == 0 { 5_000 } else { SHORT });
        }
        let (mut inside, mut call) = (0, 0);
        while made_up.length() != Length::Long {
            let long = self.is_long(call, &mut chance);
            if made_up.push(if long { self.length } else { SHORT }) && long {
                inside += self.length;
            }
            call += 1;
            assert!(call < 1_000_000, "it is never shipped");
        }
        (inside, MOST_LOST * made_up.limit())
    }
}

/// The bound that `Builder::inline_below` and `src/engine/README.md` say.
#[test]
fn the_time_in_long_calls_is_bounded_until_the_closure_is_shipped() {
    // Distinct odd numbers.
    let seeds = |count: u64| (1..=count).map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    for (wary, one_in) in [false, true].into_iter().flat_map(|wary| [64, 16, 4].map(|one_in| (wary, one_in))) {
        for length in [5_000, 50_000] {
            let of = |random, count| -> Vec<(u64, u64)> {
                let mix = |seed| Mix { one_in, random, length, wary, seed };
                seeds(count).map(mix).map(|mix| anew(move || mix.time_inside())).collect()
            };
            let what = format!("one in {one_in} takes {length} ns, wary {wary}");
            for (inside, unseen) in of(false, 20) {
                assert!(inside <= 2 * unseen + 4 * length, "{inside} ns in turn, {what}");
            }
            for (inside, unseen) in of(true, 100) {
                assert!(inside <= 5 * (2 * unseen + 4 * length), "{inside} ns at random, {what}");
            }
        }
    }
}
