//! What closures cost, as far as it matters: whether it pays to ship them to a worker.
//!
//! Handing an operation to another core costs some hundred nanoseconds of the pusher's time. A
//! closure that takes less is better run by the pusher. Closures of one type mostly take alike, so
//! what is learned is kept for each type, or for each key if the program gives one: a count of
//! measurements in a row that were short. While the count rises every call is measured. A long
//! measurement takes one from a full count, and if the next is long too the count is empty: an
//! interrupt changes nothing, and a change of mind costs two calls.
//!
//! While the count is full or empty, a thread looks at the clock once in 12 calls. If those have
//! taken, all together and with what the program did between them, no longer than 12 short ones
//! may, none of them was long. Else, and now and then in any case, one of the next 4 is measured,
//! chosen at random so that no rhythm of the program hides a type: where the 4 lie depends on which
//! one it was the last time.

use crate::operation::closure::{Cost, Vtable};
use crate::platform::tsc::Stopwatch;
use crate::sync::{thread_local, AtomicU8, Ordering::*};
use std::cell::Cell;
use std::time::Duration;

/// Short measurements in a row after which a closure counts as short.
const SHORT: u8 = 4;
/// One more, after which not every call is measured any more. A long one then leads back to
/// `SHORT`, and a second to nothing.
const CONVINCED: u8 = SHORT + 1;
/// Calls between two looks at the clock, unless opinion is about to change.
const CALLS_A_READING: u32 = 12;
/// Calls of which one is measured after a look that says so. Together with `CALLS_A_READING`, and
/// two more, they are what a change of mind takes at most, if closures become so long that a few of
/// them are longer than `CALLS_A_READING` short ones may be.
const WINDOW: u32 = 4;
/// One look of so many leads to a measurement, however quick the calls were: one in a long row that
/// is slow is found some time.
const SELDOM: u32 = 32;
/// Places for keys.
const KEYS: usize = 512;

thread_local! {
    /// Calls of this thread until it looks at the clock, or measures.
    static LEFT: Cell<u32> = const { Cell::new(0) };
    /// The last look.
    static LOOKED: Cell<u64> = const { Cell::new(0) };
    /// Whether the call at the end of `LEFT` is to be measured.
    static CHOSEN: Cell<bool> = const { Cell::new(false) };
}

/// Fibonacci hashing (Knuth, vol. 3, 6.4).
#[inline]
fn hash(key: u64) -> u32 {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

/// What is taken to cost alike: closures of one type, or those that the program gave one key. Keys
/// that come to the same place are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CostKey(usize);

impl CostKey {
    /// The program's own.
    #[inline]
    pub fn given(key: u64) -> CostKey {
        CostKey(hash(key) as usize % KEYS)
    }

    /// The key of a stored closure; none, if nothing can be learned of it.
    ///
    /// # Safety
    /// `storage` holds a closure that `body` belongs to.
    #[inline]
    pub unsafe fn of(body: &'static Vtable, storage: *const u8) -> Option<CostKey> {
        match body.cost {
            Cost::Type => Some(CostKey::of_type(body)),
            Cost::Unknown => None,
            // SAFETY: by the contract.
            Cost::Given(key) => Some(CostKey::given(unsafe { key(storage) })),
        }
    }

    /// That of all closures of one type.
    #[inline]
    pub fn of_type(body: &'static Vtable) -> CostKey {
        CostKey::given(std::ptr::from_ref(body).addr() as u64)
    }
}

/// What the closures of one key cost: short measurements in a row, [`CONVINCED`] at most.
struct Learned(AtomicU8);

impl Learned {
    /// Whether the closure has lately been short.
    #[inline]
    fn is_short(&self) -> bool {
        self.0.load(Relaxed) >= SHORT
    }

    #[cold]
    fn learn(&self, short: bool) {
        let known = self.0.load(Relaxed);
        // Measurements that race may lose one another: opinion then changes a call later.
        if !short {
            self.0.store(if known >= CONVINCED { SHORT } else { 0 }, Relaxed);
        } else if known < CONVINCED {
            self.0.store(known + 1, Relaxed);
        }
    }
}

/// What is learned of an engine's closures.
pub struct InlinePolicy {
    /// By key. None, if nothing is to be learned.
    keys: Box<[Learned]>,
    /// What is short.
    below: Duration,
    stopwatch: Stopwatch,
}

impl InlinePolicy {
    /// Closures that take less than `below` are to be short; if that is zero, nothing is measured.
    pub fn new(below: Duration) -> InlinePolicy {
        let keys = if below.is_zero() { 0 } else { KEYS };
        InlinePolicy {
            keys: (0..keys).map(|_| Learned(AtomicU8::new(0))).collect(),
            below,
            stopwatch: Stopwatch::new(),
        }
    }

    /// The place of a key, if anything is learned of it. The key is not asked for if nothing is
    /// learned at all.
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

    /// Calls a closure of this key, and measures it if it is its turn.
    #[inline]
    pub fn measure<T>(&self, key: impl FnOnce() -> Option<CostKey>, call: impl FnOnce() -> T) -> T {
        let measured = match self.of(key) {
            Some(cost) if self.is_due(cost) => Some((cost, self.stopwatch.start())),
            _ => None,
        };
        // The one call, so that it is inlined here.
        let outcome = call();
        if let Some((cost, start)) = measured {
            cost.learn(self.stopwatch.since(start) < self.below);
        }
        outcome
    }

    /// Whether the next call, of that key, is to be measured.
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

    /// As [`InlinePolicy::is_due`], where that is not plain.
    #[cold]
    #[inline(never)]
    fn look(&self, known: u8) -> bool {
        if known > 0 && known < CONVINCED {
            return true;
        }
        let chosen = CHOSEN.with(Cell::take);
        let now = self.stopwatch.reading();
        let passed = LOOKED.with(|cell| now.wrapping_sub(cell.replace(now)));
        // What the clock says just now is as good as chance.
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
