//! The ready children of a scope: a row of places that is filled in order, and taken from in order.
//!
//! Used by `scope/state.rs`. Any thread may put a child in, or take one. A place holds nothing,
//! then a child, then [`GONE`], and never anything else until the scope is over: so an exchange of
//! a place cannot be mistaken about what it finds. The two numbers only say where to begin, and may
//! lag behind. A thread that finds that does the missing step, so no thread waits for another.

use crate::operation::block::Block;
use crate::sync::{AtomicPtr, AtomicU32, Ordering::*};
use crate::util::bucket_array::{BucketArray, Vacant};
use crossbeam_utils::CachePadded;
use std::ptr::{null_mut, without_provenance_mut};

/// In a place whose child was taken.
const GONE: *mut Block = without_provenance_mut(1);

struct ReadyPlace(AtomicPtr<Block>);

// SAFETY: zeros are a null pointer, and a place needs no destructor.
unsafe impl Vacant for ReadyPlace {
    const NAME: &'static str = "ready child";

    fn vacant() -> ReadyPlace {
        ReadyPlace(AtomicPtr::new(null_mut()))
    }
}

/// Ready children, in the order in which they became ready.
pub struct ReadyRow {
    places: BucketArray<ReadyPlace>,
    /// All places before this one are filled.
    filled: CachePadded<AtomicU32>,
    /// All places before this one are taken.
    taken: CachePadded<AtomicU32>,
}

impl Default for ReadyRow {
    fn default() -> ReadyRow {
        ReadyRow::new()
    }
}

impl ReadyRow {
    pub fn new() -> ReadyRow {
        ReadyRow {
            places: BucketArray::new(),
            filled: CachePadded::new(AtomicU32::new(0)),
            taken: CachePadded::new(AtomicU32::new(0)),
        }
    }

    /// Adds a child. Lock-free: a further round means that another thread has added one.
    pub fn put(&self, child: *mut Block) {
        // Acquire: pairs with the release below. A thread that begins behind a place finds that
        // filled when it takes, and so comes to its own child.
        let mut at = self.filled.load(Acquire);
        loop {
            let place = self.places.get_or_add(at).expect("a scope has no more children than a row has places");
            // Release: pairs with the acquire in `take`. The thread that takes the child finds it
            // written.
            let added = place.0.compare_exchange(null_mut(), child, Release, Relaxed).is_ok();
            // Release: pairs with the acquire above.
            let _ = self.filled.compare_exchange(at, at + 1, Release, Relaxed);
            if added {
                return;
            }
            at += 1;
        }
    }

    /// Takes the oldest child; null if there is none. Lock-free, as [`ReadyRow::put`].
    pub fn take(&self) -> *mut Block {
        let mut at = self.taken.load(Relaxed);
        loop {
            let Some(place) = self.places.get(at) else { return null_mut() };
            let child = place.0.load(Relaxed);
            if child.is_null() {
                // Places are filled in order: there is nothing behind it either.
                return null_mut();
            }
            // Acquire: pairs with the release in `put`.
            let took = child != GONE && place.0.compare_exchange(child, GONE, Acquire, Relaxed).is_ok();
            // Relaxed: only where to begin. A thread that begins too early finds the places taken.
            let _ = self.taken.compare_exchange(at, at + 1, Relaxed, Relaxed);
            if took {
                return child;
            }
            at += 1;
        }
    }

    /// Whether there was nothing to take at some moment of this call.
    pub fn is_empty(&self) -> bool {
        let mut at = self.taken.load(Relaxed);
        loop {
            let Some(place) = self.places.get(at) else { return true };
            let child = place.0.load(Relaxed);
            if child != GONE {
                return child.is_null();
            }
            at += 1;
        }
    }

    /// How many places there are, so far.
    pub fn length(&self) -> u32 {
        self.filled.load(Relaxed)
    }

    /// Empties all places, for the next scope. All children were taken.
    pub fn reset(&mut self) {
        let mut at = 0;
        while let Some(place) = self.places.get(at).filter(|place| !place.0.load(Relaxed).is_null()) {
            place.0.store(null_mut(), Relaxed);
            at += 1;
        }
        self.filled.store(0, Relaxed);
        self.taken.store(0, Relaxed);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// The children are addresses that nobody follows.
    fn child(number: usize) -> *mut Block {
        without_provenance_mut(number * align_of::<Block>())
    }

    #[test]
    fn children_come_in_order_and_once_also_when_the_row_is_used_again() {
        let mut row = ReadyRow::new();
        for round in 1..=3 {
            let count = 40 * round;
            for number in 1..=count {
                row.put(child(number));
                row.put(child(1000 + number));
                assert_eq!(row.take(), child(if number % 2 == 1 { number.div_ceil(2) } else { 1000 + number / 2 }));
            }
            assert!(!row.is_empty());
            let rest = std::iter::from_fn(|| Some(row.take()).filter(|child| !child.is_null())).count();
            assert_eq!((rest, row.length() as usize), (count, 2 * count));
            assert!(row.is_empty() && row.take().is_null());
            row.reset();
            assert!(row.is_empty() && row.take().is_null());
        }
    }

    #[test]
    fn threads_that_add_and_take_lose_nothing() {
        const EACH: usize = if cfg!(miri) { 20 } else { 5000 };
        let (row, sum) = (ReadyRow::new(), std::sync::atomic::AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for part in 0..2 {
                let (row, sum) = (&row, &sum);
                scope.spawn(move || {
                    for number in 1..=EACH {
                        row.put(child(part * EACH + number));
                        // Null, which counts for nothing, if the other thread was faster.
                        sum.fetch_add(row.take().addr() / align_of::<Block>(), Relaxed);
                    }
                });
            }
        });
        let left = std::iter::from_fn(|| Some(row.take()).filter(|child| !child.is_null()));
        let left: usize = left.map(|child| child.addr() / align_of::<Block>()).sum();
        assert_eq!(sum.into_inner() + left, EACH * (2 * EACH + 1));
    }
}
