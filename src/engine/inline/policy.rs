//! The inline policy: learns which closures are so short that it does not pay to ship them to a
//! worker.
//!
//! Called by `push/mod.rs`, `api/operator.rs` and `engine/execute.rs`, on the threads that run the
//! closures. All of them share one [`InlinePolicy`] an engine; the counters of calls are per
//! thread.
//!
//! Handing an operation to another core costs some hundred nanoseconds of the pusher's time. A
//! closure that takes less is better run by the pusher. Closures of one type mostly take alike, so
//! what is learned is kept for each type, or for each key if the program gives one: a *score*, the
//! number of short measurements in a row. While the score rises every call is measured. A long
//! measurement takes one from a full score, and the next long one sets it to zero: an interrupt
//! changes nothing, and a change of mind costs two calls.
//!
//! While the score is full or zero, a thread looks at the clock once in 12 calls. If these 12, with
//! all that the program did between them, have taken no longer than 12 short ones may, none of them
//! was long. Else, and now and then in any case, one of the next 4 is measured. It is chosen at
//! random, so that no rhythm of the program hides a type: where the 4 lie depends on which one was
//! chosen the last time.

use crate::operation::closure::{Cost, Vtable};
use crate::platform::tsc::Stopwatch;
use crate::sync::{thread_local, AtomicU8, Ordering::*};
use std::cell::Cell;
use std::time::Duration;

/// The score from which on a closure counts as short.
const SHORT: u8 = 4;
/// The full score, at which not every call is measured any more. A long measurement then leads back
/// to `SHORT`, and a second one to zero.
const CONVINCED: u8 = SHORT + 1;
/// Calls between two looks at the clock, while the score is full or zero.
const CALLS_A_READING: u32 = 12;
/// One of this many calls is measured if a look at the clock says so. If closures become so long
/// that a few take longer than `CALLS_A_READING` short ones may, a change of mind takes at most
/// `CALLS_A_READING` + `WINDOW` + 2 calls.
const WINDOW: u32 = 4;
/// One look in this many leads to a measurement, however quick the calls were, so that a slow one
/// in a long row is found some time.
const SELDOM: u32 = 32;
/// The number of scores. Each key has one, and keys with the same hash share it.
const KEYS: usize = 512;

thread_local! {
    /// Calls of this thread until it looks at the clock or measures.
    static LEFT: Cell<u32> = const { Cell::new(0) };
    /// The clock at this thread's last look.
    static LOOKED: Cell<u64> = const { Cell::new(0) };
    /// Whether the call at the end of `LEFT` is to be measured.
    static CHOSEN: Cell<bool> = const { Cell::new(false) };
}

/// Fibonacci hashing (Knuth, vol. 3, 6.4).
#[inline]
fn hash(key: u64) -> u32 {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
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
            Cost::Type => Some(CostKey::of_type(body)),
            Cost::Unknown => None,
            // SAFETY: `storage` holds the closure, by the contract.
            Cost::Given(key) => Some(CostKey::given(unsafe { key(storage) })),
        }
    }

    /// The key of all closures of one type.
    #[inline]
    pub fn of_type(body: &'static Vtable) -> CostKey {
        CostKey::given(std::ptr::from_ref(body).addr() as u64)
    }
}

/// The score of one key: short measurements in a row, [`CONVINCED`] at most.
struct Learned(AtomicU8);

impl Learned {
    /// Whether the closures of this key have lately been short.
    #[inline]
    fn is_short(&self) -> bool {
        self.0.load(Relaxed) >= SHORT
    }

    #[cold]
    fn learn(&self, short: bool) {
        let known = self.0.load(Relaxed);
        // Relaxed, and not one step: measurements that race may lose one another. Opinion then
        // changes a call later.
        if !short {
            self.0.store(if known >= CONVINCED { SHORT } else { 0 }, Relaxed);
        } else if known < CONVINCED {
            self.0.store(known + 1, Relaxed);
        }
    }
}

/// What is learned of an engine's closures.
pub struct InlinePolicy {
    /// The scores, by key; empty if nothing is to be learned.
    keys: Box<[Learned]>,
    /// A closure that takes less is short.
    below: Duration,
    stopwatch: Stopwatch,
}

impl InlinePolicy {
    /// Closures that take less than `below` count as short. If it is zero, nothing is measured.
    pub fn new(below: Duration) -> InlinePolicy {
        let keys = if below.is_zero() { 0 } else { KEYS };
        InlinePolicy {
            keys: (0..keys).map(|_| Learned(AtomicU8::new(0))).collect(),
            below,
            stopwatch: Stopwatch::new(),
        }
    }

    /// The score of a key, if anything is learned of it. `key` is not called if nothing is learned
    /// at all.
    #[inline]
    fn of(&self, key: impl FnOnce() -> Option<CostKey>) -> Option<&Learned> {
        if self.keys.is_empty() {
            return None;
        }
        self.keys.get(key()?.0)
    }

    /// Whether closures of this key have lately been short.
    #[inline]
    pub fn are_short(&self, key: impl FnOnce() -> Option<CostKey>) -> bool {
        self.of(key).is_some_and(Learned::is_short)
    }

    /// Calls a closure of this key, and measures the call if it is due.
    #[inline]
    pub fn measure<T>(&self, key: impl FnOnce() -> Option<CostKey>, call: impl FnOnce() -> T) -> T {
        let measured = match self.of(key) {
            Some(cost) if self.is_due(cost) => Some((cost, self.stopwatch.start())),
            _ => None,
        };
        // There is only one call, so that it is inlined here.
        let outcome = call();
        if let Some((cost, start)) = measured {
            cost.learn(self.stopwatch.since(start) < self.below);
        }
        outcome
    }

    /// Whether the next call, of a closure with this score, is to be measured.
    #[inline]
    fn is_due(&self, cost: &Learned) -> bool {
        let known = cost.0.load(Relaxed);
        let left = LEFT.with(Cell::get);
        if left > 0 && (known == 0 || known >= CONVINCED) {
            LEFT.with(|cell| cell.set(left - 1));
            return false;
        }
        self.look(known)
    }

    /// The uncommon part of [`InlinePolicy::is_due`]: the score is changing, or the thread looks at
    /// the clock.
    #[cold]
    #[inline(never)]
    fn look(&self, known: u8) -> bool {
        if known > 0 && known < CONVINCED {
            return true;
        }
        let chosen = CHOSEN.with(Cell::take);
        let now = self.stopwatch.reading();
        let passed = LOOKED.with(|cell| now.wrapping_sub(cell.replace(now)));
        // The clock's reading is as good as chance.
        let random = hash(now);
        let quick = known >= CONVINCED
            && passed < self.stopwatch.readings(self.below).saturating_mul(u64::from(CALLS_A_READING));
        let quick = quick && random >= u32::MAX / SELDOM;
        let left = if chosen || quick { CALLS_A_READING - 1 } else { random % WINDOW };
        CHOSEN.with(|cell| cell.set(!chosen && !quick));
        LEFT.with(|cell| cell.set(left));
        chosen
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn opinion_changes_after_few_short_calls_and_after_two_long_ones() {
        let key = || Some(CostKey::given(1));
        let costs = InlinePolicy::new(Duration::from_millis(20));
        let call = |time: Duration| costs.measure(key, || std::thread::sleep(time));
        for _ in 0..3 {
            assert!(!costs.are_short(key));
            (0..2 * CALLS_A_READING + u32::from(CONVINCED)).for_each(|_| call(Duration::ZERO));
            assert!(costs.are_short(key));
            (0..1000).for_each(|_| call(Duration::ZERO));
            assert!(costs.are_short(key));
            (0..=3 * CALLS_A_READING).for_each(|_| call(Duration::from_millis(20)));
            assert!(!costs.are_short(key), "of so many in a row one is measured, and so is the next");
        }
    }

    #[test]
    fn of_types_that_take_turns_each_is_measured() {
        let key = || Some(CostKey::given(1));
        let costs = InlinePolicy::new(Duration::from_micros(1));
        // In rounds of many lengths, one long call: some time it is the one that is measured.
        for turns in [2, 3, 7, 8, 12, 13, 16, 17, 23, 32, 100] {
            (0..1000).for_each(|_| costs.measure(key, || ()));
            let long = |call: usize| call % turns == 0;
            let found = (0..20_000 * turns).any(|call| {
                costs.measure(key, || {
                    if long(call) {
                        std::thread::sleep(Duration::from_micros(2))
                    }
                });
                costs.of(key).expect("something is learned").0.load(Relaxed) < CONVINCED
            });
            assert!(found, "{turns} turns");
        }
    }

    #[test]
    fn each_key_is_learned_by_itself() {
        // A busy machine makes a short call long now and then: more often than twice in a row it
        // does not.
        let learns = || {
            let costs = InlinePolicy::new(Duration::from_millis(20));
            let [short, long] = [1, 2].map(|key| move || Some(CostKey::given(key)));
            for _ in 0..4 * CALLS_A_READING {
                costs.measure(short, || ());
                costs.measure(long, || std::thread::sleep(Duration::from_millis(20)));
            }
            assert!(!costs.are_short(long));
            costs.are_short(short)
        };
        assert!((0..5).any(|_| learns()));
    }

    #[test]
    fn one_long_call_among_short_ones_changes_nothing() {
        let cost = Learned(AtomicU8::new(0));
        (0..CONVINCED).for_each(|_| cost.learn(true));
        for _ in 0..10 {
            cost.learn(false);
            assert!(cost.is_short());
            cost.learn(true);
        }
        cost.learn(false);
        cost.learn(false);
        assert!(!cost.is_short());
    }

    #[test]
    fn nothing_is_learned_unless_asked_for() {
        assert!(InlinePolicy::new(Duration::ZERO).of(|| Some(CostKey::given(1))).is_none());
        assert!(InlinePolicy::new(Duration::from_nanos(1)).of(|| Some(CostKey::given(1))).is_some());
        assert!(InlinePolicy::new(Duration::from_nanos(1)).of(|| None).is_none());
    }
}
