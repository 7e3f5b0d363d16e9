//! `Slots`, records that are taken and given back without a lock, and `List`, a stack of such
//! records.
//!
//! Used by `pool.rs`, for blocks of memory, and by `ndarray/runtime.rs`, for the heads of arrays.
//! Any thread may call all of it. `loom-tests/tests/storage.rs` has its models.
//!
//! A record is never freed before the `Slots` are, so a thread may look at one that another thread
//! has taken meanwhile. What it reads there is an atomic number. A list's head counts its changes
//! beside the number of its first record. A thread that was away while the head changed and came
//! back to the same record therefore sees another word, and its exchange fails (no ABA, but after
//! 2³² changes during one call). All changes of a head are exchanges, so the taker of a record
//! comes after all that put one there.

use crate::storage::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*, MODELLED};

/// Records of the first segment. Each further one has as many as all before it. In models it is
/// small: they make all records of a segment.
const FIRST: usize = if MODELLED { 2 } else { 64 };
const SEGMENTS: usize = 26;
/// No record: records are numbered from 1.
const NONE: u32 = 0;

/// A record and its place in a list.
#[derive(Debug, Default)]
struct Slot<T> {
    /// The number of the next record of the list that this one is in.
    next: AtomicU32,
    value: T,
}

/// Records with numbers. They are made 64 at first, and twice as many whenever none is free.
#[derive(Debug)]
pub struct Slots<T> {
    free: List,
    /// How many have ever been taken for the first time.
    made: AtomicU32,
    segments: [AtomicPtr<Slot<T>>; SEGMENTS],
}

/// A stack of records.
#[derive(Debug, Default)]
pub struct List {
    /// The number of the first record, and above it how often the head has changed.
    head: AtomicU64,
}

impl List {
    /// Puts a record onto the list. The caller has it, and has it no more.
    pub fn push<T>(&self, slots: &Slots<T>, number: u32) {
        let slot = slots.slot(number);
        let mut head = self.head.load(Relaxed);
        loop {
            slot.next.store(head as u32, Relaxed);
            let new = (head >> 32).wrapping_add(1) << 32 | u64::from(number);
            // Release: the taker of the record sees its next one and what its owner has done.
            match self.head.compare_exchange_weak(head, new, Release, Relaxed) {
                Ok(_) => return,
                Err(other) => head = other,
            }
        }
    }

    /// Takes the record that was put last.
    pub fn pop<T>(&self, slots: &Slots<T>) -> Option<u32> {
        // Acquire: pairs with the release in `push`. An exchange by another `pop` between keeps the
        // release sequence, as it is a read-modify-write.
        let mut head = self.head.load(Acquire);
        while head as u32 != NONE {
            let next = slots.slot(head as u32).next.load(Relaxed);
            let new = (head >> 32).wrapping_add(1) << 32 | u64::from(next);
            match self.head.compare_exchange_weak(head, new, Acquire, Acquire) {
                Ok(_) => return Some(head as u32),
                Err(other) => head = other,
            }
        }
        None
    }
}

impl<T: Default> Slots<T> {
    pub fn new() -> Slots<T> {
        let segments = std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut()));
        Slots { free: List::default(), made: AtomicU32::new(0), segments }
    }

    /// Takes a record that nobody has; `None` after two thousand million of them. Its value is as
    /// its last owner left it.
    pub fn take(&self) -> Option<u32> {
        if let Some(number) = self.free.pop(self) {
            return Some(number);
        }
        let fits = |made: u32| made.checked_add(1).filter(|made| *made as usize <= FIRST << (SEGMENTS - 1));
        let number = self.made.fetch_update(Relaxed, Relaxed, fits).ok()? + 1;
        self.make_segment(place(number).0);
        Some(number)
    }

    /// Makes a segment, unless it is there.
    fn make_segment(&self, segment: usize) {
        let there = &self.segments[segment];
        if !there.load(Acquire).is_null() {
            return;
        }
        let slots: Box<[Slot<T>]> = (0..length(segment)).map(|_| Slot::default()).collect();
        let slots = Box::into_raw(slots).cast::<Slot<T>>();
        // Release: pairs with the acquire in `slot`. Acquire: if another thread was faster, its.
        if there.compare_exchange(std::ptr::null_mut(), slots, AcqRel, Acquire).is_err() {
            // SAFETY: made above of a box of this length, and nobody else has seen it.
            drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(slots, length(segment))) });
        }
    }
}

impl<T> Slots<T> {
    /// Gives a record back. The caller has it, and has it no more.
    pub fn give(&self, number: u32) {
        self.free.push(self, number);
    }

    /// The value of a record that was taken once.
    pub fn get(&self, number: u32) -> &T {
        &self.slot(number).value
    }

    fn slot(&self, number: u32) -> &Slot<T> {
        let (segment, at) = place(number);
        let slots = self.segments[segment].load(Acquire);
        assert!(!slots.is_null(), "record {number} was never taken");
        // SAFETY: the segment has `length(segment)` records and lives as long as `self`; `at` is
        // below that by `place`.
        unsafe { &*slots.add(at) }
    }
}

impl<T> Drop for Slots<T> {
    fn drop(&mut self) {
        for (segment, slots) in self.segments.iter().map(|slots| slots.load(Acquire)).enumerate() {
            if slots.is_null() {
                continue;
            }
            let slots = std::ptr::slice_from_raw_parts_mut(slots, length(segment));
            // SAFETY: made in `make_segment` of a box of this length; nobody else has `self`.
            drop(unsafe { Box::from_raw(slots) });
        }
    }
}

/// How many records a segment has.
fn length(segment: usize) -> usize {
    FIRST << segment.saturating_sub(1)
}

/// The segment of a record, and its place there.
fn place(number: u32) -> (usize, usize) {
    let at = number as usize - 1;
    match (at / FIRST).checked_ilog2() {
        None => (0, at),
        Some(log) => (log as usize + 1, at - (FIRST << log)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_each_other() {
        let mut expected = (0, 0);
        for number in 1..=if cfg!(miri) { 500 } else { 10_000 } {
            assert_eq!(place(number), expected);
            expected.1 += 1;
            if expected.1 == length(expected.0) {
                expected = (expected.0 + 1, 0);
            }
        }
    }

    #[test]
    fn no_two_threads_have_a_record() {
        let slots = Slots::<AtomicU32>::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..if cfg!(miri) { 60 } else { 5_000 } {
                        let taken: Vec<u32> = (0..round % 7).map(|_| slots.take().unwrap()).collect();
                        taken.iter().for_each(|number| assert_eq!(slots.get(*number).swap(1, AcqRel), 0));
                        taken.iter().for_each(|number| assert_eq!(slots.get(*number).swap(0, AcqRel), 1));
                        taken.into_iter().for_each(|number| slots.give(number));
                    }
                });
            }
        });
        assert!(slots.made.load(SeqCst) <= 24, "four threads have at most six each");
    }
}
