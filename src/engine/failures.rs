//! The failures that nobody has taken yet, for `wait_for_all`: a lock-free list.

use crate::error::{Error, Failure, Stamp};
use crate::lock::Lock;
use crate::mutants::mutate;
use crate::steps;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering::*};
use std::ptr::null_mut;
use std::sync::Arc;

/// When there are this many records, and whenever their number has doubled since, those that were taken through a variable are looked for
/// and dropped: a few by each failure that comes then.
const PRUNE: usize = 256;

/// The most records that one failure looks at.
const SLICE: usize = 8;

struct Record {
    failure: Arc<Failure>,
    /// How many were noted before: those of one graph have the number of its replay, and the first of them was noted first.
    number: usize,
    next: *mut Record,
}

/// A list of failures.
pub struct Failures {
    head: AtomicPtr<Record>,
    count: AtomicUsize,
    noted: AtomicUsize,
    /// The number of records at which to prune.
    limit: AtomicUsize,
    /// Records that are yet to be looked at. Locked by whoever waits for everything, and by failures while there are hundreds of records.
    pub(super) aside: Lock<Aside>,
}

/// Records that were taken out of view: the first of a list.
pub struct Aside(*mut Record);

// SAFETY: the list owns its records, and failures may be dropped on any thread.
unsafe impl Send for Aside {}

impl Failures {
    pub fn new() -> Failures {
        Failures {
            head: AtomicPtr::new(null_mut()),
            count: AtomicUsize::new(0),
            noted: AtomicUsize::new(0),
            limit: AtomicUsize::new(PRUNE),
            aside: Lock::new(Aside(null_mut())),
        }
    }

    /// Keeps a failure. Any number of threads may do so at once. Looks at no more than a few others, and waits for nobody.
    pub fn record(&self, failure: Arc<Failure>) {
        if self.count.fetch_add(1, Relaxed) >= self.limit.load(Relaxed) {
            self.prune();
        }
        let number = self.noted.fetch_add(1, Relaxed);
        self.push(Box::new(Record { failure, number, next: null_mut() }));
    }

    /// Looks at some records, and drops those that were taken, unless somebody else is doing so.
    #[cold]
    fn prune(&self) {
        let Some(mut aside) = self.aside.try_lock() else { return };
        if aside.is_empty() {
            *aside = self.take_all();
            // Until all of these were looked at, every failure looks at a few: that is done before as many have come again.
            self.limit.store(0, Relaxed);
        }
        let mut dropped = 0;
        for _ in 0..mutate!("failures-pruned-without-a-limit": usize::MAX, SLICE) {
            let Some(record) = aside.pop() else { break };
            steps::count(1);
            if record.failure.is_live() {
                self.push(record);
            } else {
                dropped += 1;
            }
        }
        // The count is a guess where it races with other failures, and with a wait that takes everything.
        self.count.store(self.count.load(Relaxed).saturating_sub(dropped), Relaxed);
        if aside.is_empty() {
            self.limit.store(PRUNE.max(2 * self.count.load(Relaxed)), Relaxed);
        }
    }

    fn push(&self, mut record: Box<Record>) {
        record.next = self.head.load(Relaxed);
        let record = Box::into_raw(record);
        loop {
            // SAFETY: ours until the exchange succeeds.
            let next = unsafe { (*record).next };
            // Release: the record is written before it can be taken.
            match self.head.compare_exchange(next, record, Release, Relaxed) {
                Ok(_) => return,
                // SAFETY: still ours.
                Err(now) => unsafe { (*record).next = now },
            }
        }
    }

    fn take_all(&self) -> Aside {
        // Acquire: pairs with the releases of `push`. Taken whole, so there is no ABA.
        Aside(self.head.swap(null_mut(), Acquire))
    }

    /// Takes all failures; returns the error of the operation that was pushed first.
    pub fn take_first(&self) -> Option<Error> {
        // Relaxed: what the caller has waited for had noted its failures before it counted as completed.
        if self.noted.load(Relaxed) == 0 {
            return None;
        }
        let mut aside = self.aside.lock();
        let mut failures: Vec<Box<Record>> = aside.drain().chain(self.take_all().drain()).collect();
        self.count.store(0, Relaxed);
        self.limit.store(PRUNE, Relaxed);
        failures.sort_by_key(|record| (record.failure.sequence, record.number));
        // All are taken, the first is returned.
        failures.iter().filter_map(|record| record.failure.take(Stamp::LAST)).reduce(|first, _| first)
    }
}

impl Drop for Failures {
    fn drop(&mut self) {
        drop(self.take_all());
    }
}

impl Aside {
    fn is_empty(&self) -> bool {
        self.0.is_null()
    }

    fn pop(&mut self) -> Option<Box<Record>> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: made from a box, and taken out of view, so ours.
        let record = unsafe { Box::from_raw(self.0) };
        self.0 = record.next;
        Some(record)
    }

    fn drain(&mut self) -> impl Iterator<Item = Box<Record>> + '_ {
        std::iter::from_fn(|| self.pop())
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.drain().for_each(drop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn the_first_live_failure_wins_and_all_are_cleared() {
        let failures = Failures::new();
        let made: Vec<_> = [3, 1, 2]
            .map(|n| {
                let error = Error::of_operation(ErrorKind::OperationFailed, "op", n.to_string());
                Arc::new(Failure::new(error, n))
            })
            .into();
        made.iter().for_each(|failure| failures.record(Arc::clone(failure)));
        made[1].take(Stamp::LAST);
        assert!(failures.take_first().unwrap().to_string().contains(": 2"));
        assert!(made.iter().all(|failure| !failure.is_live()));
        assert!(failures.take_first().is_none());
    }

    #[test]
    fn what_was_taken_elsewhere_does_not_pile_up() {
        let failures = Failures::new();
        for n in 0..10 * PRUNE as u64 {
            let error = Error::of_operation(ErrorKind::OperationFailed, "op", String::new());
            let failure = Arc::new(Failure::new(error, n));
            failure.take(Stamp::LAST);
            failures.record(failure);
        }
        assert!(failures.take_all().drain().count() <= PRUNE + SLICE);
    }
}
