//! What closures cost, as far as it matters: whether it pays to ship them to a worker.
//!
//! Handing an operation to another core costs some hundred nanoseconds of the pusher's time. A closure that takes less is better run by
//! the pusher. Closures of one type mostly take alike, so what is learned is kept for each type, or for each operator: a count of the
//! measurements in a row that were short. One long measurement sets it back. Most calls are not measured, so that a clock which takes 25 ns
//! costs 3.

#![forbid(unsafe_code)]

use crate::operation::closure::Vtable;
use crate::sync::{AtomicU8, Ordering::*};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Short measurements in a row after which a closure counts as short.
const CONVINCED: u8 = 4;
/// One call of so many is measured, unless opinion is about to change.
const EVERY: u32 = 16;
const TYPES: usize = 512;

/// What one type of closure, or one operator, costs.
pub struct Cost(AtomicU8);

/// The costs of all types. Types that share a place are taken to be alike, which is on the safe side: the longer counts.
pub struct Costs {
    types: Box<[Cost]>,
    below: Duration,
}

/// A thread's count of calls until the next that is measured.
pub type Ticks = Cell<u32>;

impl Cost {
    pub fn new() -> Cost {
        Cost(AtomicU8::new(0))
    }

    /// Whether the closure has lately been short.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.0.load(Relaxed) >= CONVINCED
    }
}

impl Costs {
    pub fn new(below: Duration) -> Costs {
        let types = if below.is_zero() { 0 } else { TYPES };
        Costs { types: (0..types).map(|_| Cost::new()).collect(), below }
    }

    /// Whether anything is learned at all.
    #[inline]
    pub fn are_learned(&self) -> bool {
        !self.types.is_empty()
    }

    /// The place of a type of closure.
    #[inline]
    pub fn of(&self, body: *const Vtable) -> &Cost {
        // Fibonacci hashing (Knuth, vol. 3, 6.4). Vtables are 24 bytes apart or more.
        let hash = (body.addr() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &self.types[hash as usize % TYPES]
    }

    /// The time, if this call is to be measured.
    #[inline]
    pub fn start(&self, cost: &Cost, ticks: &Ticks) -> Option<Instant> {
        let known = cost.0.load(Relaxed);
        let left = ticks.get();
        if left > 0 && (known == 0 || known >= CONVINCED) {
            ticks.set(left - 1);
            return None;
        }
        ticks.set(EVERY - 1);
        Some(Instant::now())
    }

    /// Takes note of a call that has been measured.
    pub fn end(&self, cost: &Cost, start: Instant) {
        let known = cost.0.load(Relaxed);
        // Racing measurements may lose one another: opinion then changes a call later.
        if start.elapsed() >= self.below {
            if known > 0 {
                cost.0.store(0, Relaxed);
            }
        } else if known < CONVINCED {
            cost.0.store(known + 1, Relaxed);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn opinion_changes_after_few_short_calls_and_at_once_after_a_long_one() {
        let costs = Costs::new(Duration::from_millis(20));
        let (cost, ticks) = (Cost::new(), Ticks::new(0));
        let call = |time: Duration| {
            if let Some(start) = costs.start(&cost, &ticks) {
                std::thread::sleep(time);
                costs.end(&cost, start);
            }
        };
        assert!(!cost.is_short());
        (0..u32::from(CONVINCED)).for_each(|_| call(Duration::ZERO));
        assert!(cost.is_short());
        (0..EVERY).for_each(|_| call(Duration::from_millis(20)));
        assert!(!cost.is_short());
    }
}
