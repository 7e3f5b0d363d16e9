//! The inline policy: learns which closures are so short that it does not pay to ship them to a
//! worker.
//!
//! Used by `push/mod.rs`, `inline/asynchronous.rs` and `api/operator.rs`: there pushers ask. They
//! and `engine/execute.rs` measure calls, on the threads that call the closures. The closure of an
//! asynchronous operation is measured until it returns, without the end of the operation.
//! `api/keyed_builder.rs`, `api/pipeline.rs` and `api/prepare.rs` bring keys and costs that a
//! program gives. All threads share the [`InlinePolicy`] of an engine, which `engine/core.rs` and
//! operators have: only its opinions change.
//!
//! Shipping an operation takes some 150 ns of all threads together ([`SHIPPED`]). A closure that
//! takes less on average is better run by its pusher. A longer one is better shipped if its thread
//! pushes without a pause: then the thread and the workers run closures at the same time. Else it
//! runs inside its push, up to the limit that the program sets. Closures of one type mostly take
//! alike, so what is learned is kept for each type, or for each key if the program gives one:
//! `inline/opinion.rs`. Which calls are measured is in `inline/attention.rs`.

use crate::engine::inline::attention::{self, hash, CALLS_A_LOOK};
use crate::engine::inline::opinion::{Length, Limits, Opinion};
use crate::operation::closure::{type_key, Cost, Vtable};
use crate::platform::tsc::Tsc;
use crate::sync::{thread_local, MODELLED};
use std::cell::Cell;
use std::time::Duration;

/// The cost of shipping an operation, roughly, in the time of all threads together.
const SHIPPED: Duration = Duration::from_nanos(150);
/// The longest limit: opinions have room for means up to 536 ms.
const LONGEST: Duration = Duration::from_millis(500);
/// The limit for closures that are declared to be short.
pub const DECLARED: Duration = Duration::from_micros(1);
/// How long a thread runs closures that take longer than [`SHIPPED`], without a pause, before it
/// ships them: as long as it takes to wake a worker or two.
const LONGEST_SPELL: Duration = Duration::from_micros(5);
/// Where a measurement itself takes long, the limit is so many measurements: code that is emulated
/// or not optimised takes longer throughout.
const MEASUREMENTS: u32 = 8;
/// The number of opinions. Each key has one, and keys with the same hash share it.
const KEYS: usize = if MODELLED { 1 } else { 512 };

thread_local! {
    /// What has been left out so far of the call that this thread measures, if it measures one that
    /// something may be left out of.
    static LEFT_OUT: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Names the closures that are taken to cost alike: those of one type, or those to which the
/// program gave one key. Keys with the same hash are the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CostKey(usize);

impl CostKey {
    /// A key that the program gives.
    #[inline]
    pub fn given(key: u64) -> CostKey {
        CostKey(hash(key) as usize % KEYS)
    }

    /// The key of a stored closure; `None` if nothing can be learned of it.
    ///
    /// # Safety
    /// `storage` holds a closure that `body` belongs to.
    #[inline]
    pub unsafe fn of(body: &'static Vtable, storage: *const u8) -> Option<CostKey> {
        match body.cost {
            // SAFETY: `storage` holds the closure, by the contract.
            Cost::Learned(key) => Some(CostKey::given(unsafe { key(storage) })),
            Cost::Unknown => None,
        }
    }

    /// The key of all closures of one type.
    #[inline]
    pub fn of_type<F: 'static>() -> CostKey {
        CostKey::given(type_key::<F>())
    }
}

/// What is learned of an engine's closures.
pub struct InlinePolicy {
    /// The opinions, by key; empty if nothing is to be learned.
    keys: Box<[Opinion]>,
    limits: Limits,
    tsc: Tsc,
}

impl InlinePolicy {
    /// Closures that take less than `below` on average may run inside their push.
    pub fn new(below: Duration) -> InlinePolicy {
        let mut policy = InlinePolicy::with_limit(below);
        let shipped = SHIPPED.max(MEASUREMENTS * policy.tsc.own_time());
        policy.limits.short = policy.limits.middling.min(shipped.as_nanos() as u64);
        policy
    }

    /// For an engine that need not know: nothing is learned.
    pub fn none() -> InlinePolicy {
        InlinePolicy::with_limit(Duration::ZERO)
    }

    fn with_limit(limit: Duration) -> InlinePolicy {
        let keys = if limit.is_zero() { 0 } else { KEYS };
        let limit = limit.min(LONGEST).as_nanos() as u64;
        let limits = Limits { short: limit, middling: limit };
        InlinePolicy { keys: (0..keys).map(|_| Opinion::new()).collect(), limits, tsc: Tsc::new() }
    }

    /// The opinion on a key, if anything is learned of it.
    #[inline]
    fn of(&self, key: impl FnOnce() -> Option<CostKey>) -> Option<&Opinion> {
        self.keys.get(key()?.0)
    }

    /// Whether a closure of this key, which the calling thread pushes, is to run inside the push.
    #[inline]
    pub fn runs_inside(&self, key: impl FnOnce() -> Option<CostKey>) -> bool {
        let Some(opinion) = self.of(key) else { return false };
        match opinion.length() {
            Length::Short => true,
            Length::Middling => self.has_time(opinion),
            Length::Unknown | Length::Long => false,
        }
    }

    #[cold]
    #[inline(never)]
    fn has_time(&self, opinion: &Opinion) -> bool {
        let readings = |time: Duration| self.tsc.readings(time);
        let body = readings(Duration::from_nanos(opinion.mean()));
        attention::has_time(self.tsc.reading(), body, readings(LONGEST_SPELL))
    }

    /// Calls a closure of this key, and measures the call if it is due.
    #[inline]
    pub fn measure<T>(&self, key: impl FnOnce() -> Option<CostKey>, call: impl FnOnce() -> T) -> T {
        let measured = match self.of(key) {
            Some(opinion) if self.is_due(opinion) => Some((opinion, self.tsc.start())),
            _ => None,
        };
        // There is only one call, so that it is inlined here.
        let outcome = call();
        if let Some((opinion, start)) = measured {
            self.learn(opinion, self.tsc.since(start));
        }
        outcome
    }

    /// Like [`InlinePolicy::measure`], but what [`InlinePolicy::leave_out`] calls meanwhile on this
    /// thread does not count.
    #[inline]
    pub fn measure_without_ends<T>(&self, key: Option<CostKey>, call: impl FnOnce() -> T) -> T {
        let measured = match self.of(|| key) {
            Some(opinion) if self.is_due(opinion) => {
                let outer = LEFT_OUT.with(|left_out| left_out.replace(Some(Duration::ZERO)));
                Some((opinion, outer, self.tsc.start()))
            }
            _ => None,
        };
        let outcome = call();
        if let Some((opinion, outer, start)) = measured {
            let took = self.tsc.since(start);
            let left_out = LEFT_OUT.with(|left_out| left_out.replace(outer));
            self.learn(opinion, took.saturating_sub(left_out.unwrap_or_default()));
        }
        outcome
    }

    /// Whether the calling thread is inside a call that [`InlinePolicy::measure_without_ends`]
    /// measures.
    #[inline]
    pub fn is_measuring() -> bool {
        LEFT_OUT.with(|left_out| left_out.get().is_some())
    }

    /// Calls what does not count for the closure that is measured on this thread.
    #[cold]
    pub fn leave_out(&self, call: impl FnOnce()) {
        let start = self.tsc.start();
        call();
        let took = self.tsc.since(start);
        LEFT_OUT.with(|left_out| left_out.set(left_out.get().map(|before| before + took)));
    }

    /// Takes the program's word for how long closures of this key take. What is measured later
    /// changes the opinion as it does any other.
    #[cold]
    pub fn expect(&self, key: CostKey, takes: Duration) {
        if let Some(opinion) = self.of(|| Some(key)) {
            opinion.expect(takes.as_nanos().try_into().unwrap_or(u64::MAX), self.limits);
        }
    }

    /// Whether the next call, of a closure that this opinion is of, is to be measured.
    #[inline]
    fn is_due(&self, opinion: &Opinion) -> bool {
        let short = match opinion.length() {
            Length::Unknown => return true,
            length => length == Length::Short,
        };
        attention::is_due(
            short,
            || self.tsc.reading(),
            || {
                let limit = Duration::from_nanos(self.limits.short);
                self.tsc.readings(limit).saturating_mul(u64::from(CALLS_A_LOOK))
            },
        )
    }

    #[cold]
    #[inline(never)]
    fn learn(&self, opinion: &Opinion, measured: Duration) {
        self.take_in(opinion, measured, self.tsc.own_time());
    }

    /// Takes in a measurement by a stopwatch that takes `own` itself.
    fn take_in(&self, opinion: &Opinion, measured: Duration, own: Duration) {
        let took = measured.saturating_sub(own).as_nanos() as u64;
        let was_short = opinion.length() == Length::Short;
        if opinion.learn(took, self.limits) {
            attention::changed();
        } else if was_short != (took < self.limits.short) {
            attention::suspect();
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::engine::inline::attention::MOST_LOST;
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
}
