//! What closures cost, as far as it matters: whether it pays to ship them to a worker.
//!
//! Handing an operation to another core costs some hundred nanoseconds of the pusher's time. A closure that takes less is better run by
//! the pusher. Closures of one type mostly take alike, so what is learned is kept for each type: a count of measurements in a row that were
//! short. A long one halves it, and every call is measured until it is full or empty: an interrupt costs a few calls, a change of mind two. Else one call
//! in 16 is measured, so that a clock which takes 25 ns costs 3.

#![forbid(unsafe_code)]

use crate::operation::closure::Vtable;
use crate::sync::{thread_local, AtomicU8, Instant, Ordering::*};
use std::cell::Cell;
use std::time::Duration;

/// Short measurements in a row after which a closure counts as short.
const CONVINCED: u8 = 4;
/// One call of so many is measured, on average, unless opinion is about to change.
const EVERY: u32 = 16;
const TYPES: usize = 512;

thread_local! {
    /// Calls until the next that this thread measures.
    static LEFT: Cell<u32> = const { Cell::new(0) };
    static RANDOM: Cell<u32> = const { Cell::new(0x9E37_79B9) };
}

/// How many calls are not measured next: 8 to 23, at random, so that no rhythm of the program hides a type.
fn stride() -> u32 {
    let random = RANDOM.with(|cell| {
        // Xorshift (Marsaglia 2003).
        let mut x = cell.get();
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        cell.set(x);
        x
    });
    EVERY / 2 + random % EVERY
}

/// What one type of closure costs.
struct Cost {
    /// Short measurements in a row, [`CONVINCED`] at most.
    short: AtomicU8,
    /// What is short.
    below: Duration,
}

/// What is learned of an engine's closures.
pub struct Costs {
    /// By type; types that share a place are taken to be alike. None, if nothing is to be learned.
    types: Box<[Cost]>,
}

impl Cost {
    fn new(below: Duration) -> Cost {
        Cost { short: AtomicU8::new(0), below }
    }

    /// Whether the closure has lately been short.
    #[inline]
    fn is_short(&self) -> bool {
        self.short.load(Relaxed) >= CONVINCED
    }

    /// Calls a closure, and measures it if it is its turn.
    #[inline]
    fn measure<T>(&self, call: impl FnOnce() -> T) -> T {
        let known = self.short.load(Relaxed);
        let left = LEFT.with(Cell::get);
        if left > 0 && (known == 0 || known >= CONVINCED) {
            LEFT.with(|cell| cell.set(left - 1));
            return call();
        }
        LEFT.with(|cell| cell.set(stride()));
        let start = Instant::now();
        let outcome = call();
        self.learn(start.elapsed());
        outcome
    }

    #[cold]
    fn learn(&self, took: Duration) {
        let known = self.short.load(Relaxed);
        // Measurements that race may lose one another: opinion then changes a call later.
        if took >= self.below {
            self.short.store(if known >= CONVINCED { CONVINCED / 2 } else { 0 }, Relaxed);
        } else if known < CONVINCED {
            self.short.store(known + 1, Relaxed);
        }
    }
}

impl Costs {
    /// Closures that take less than `below` are to be short; if that is zero, nothing is measured.
    pub fn new(below: Duration) -> Costs {
        let types = if below.is_zero() { 0 } else { TYPES };
        Costs { types: (0..types).map(|_| Cost::new(below)).collect() }
    }

    /// The place of a type of closure, if anything is learned of it.
    #[inline]
    fn of(&self, body: &'static Vtable) -> Option<&Cost> {
        if self.types.is_empty() || !body.alike {
            return None;
        }
        // Fibonacci hashing (Knuth, vol. 3, 6.4). Vtables are 24 bytes apart or more.
        let hash = (std::ptr::from_ref(body).addr() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        Some(&self.types[hash as usize % TYPES])
    }

    /// Whether closures of this type have lately been short.
    #[inline]
    pub fn are_short(&self, body: &'static Vtable) -> bool {
        self.of(body).is_some_and(Cost::is_short)
    }

    /// Calls a closure of this type, and measures it if it is its turn.
    #[inline]
    pub fn measure<T>(&self, body: &'static Vtable, call: impl FnOnce() -> T) -> T {
        match self.of(body) {
            Some(cost) => cost.measure(call),
            None => call(),
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn opinion_changes_after_few_short_calls_and_after_one_long_one() {
        let cost = Cost::new(Duration::from_millis(20));
        let call = |time: Duration| cost.measure(|| std::thread::sleep(time));
        assert!(!cost.is_short());
        (0..2 * EVERY + u32::from(CONVINCED)).for_each(|_| call(Duration::ZERO));
        assert!(cost.is_short());
        (0..2 * EVERY).for_each(|_| call(Duration::from_millis(20)));
        assert!(!cost.is_short());
    }

    #[test]
    fn nothing_is_learned_unless_asked_for() {
        let body = crate::operation::closure::sync_vtable(&|_: &crate::operation::context::RunContext<'_>| ());
        assert!(Costs::new(Duration::ZERO).of(body).is_none());
        assert!(Costs::new(Duration::from_nanos(1)).of(body).is_some());
    }
}
