//! The failures that nobody has taken yet, for `wait_for_all`: a lock-free list.

use crate::error::{Error, Failure, Stamp};
use crate::lock::Lock;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering::*};
use std::ptr::null_mut;
use std::sync::Arc;

/// After this many records, and then whenever their number has doubled, those that were taken through a variable are dropped.
const PRUNE: usize = 256;

struct Record {
    failure: Arc<Failure>,
    next: *mut Record,
}

/// A list of failures.
pub struct Failures {
    head: AtomicPtr<Record>,
    count: AtomicUsize,
    /// The number of records at which to prune.
    limit: AtomicUsize,
    /// Held while all records are taken out of view. Only by whoever waits for everything, and by one failure in hundreds.
    pub(super) taking: Lock<()>,
}

impl Failures {
    pub fn new() -> Failures {
        Failures {
            head: AtomicPtr::new(null_mut()),
            count: AtomicUsize::new(0),
            limit: AtomicUsize::new(PRUNE),
            taking: Lock::new(()),
        }
    }

    /// Keeps a failure. Any number of threads may do so at once.
    pub fn record(&self, failure: Arc<Failure>) {
        if self.count.fetch_add(1, Relaxed) >= self.limit.load(Relaxed) {
            let _taking = self.taking.lock();
            let live: Vec<_> = self.take_all().filter(|failure| failure.is_live()).collect();
            self.count.store(live.len(), Relaxed);
            self.limit.store(PRUNE.max(2 * live.len()), Relaxed);
            live.into_iter().for_each(|failure| self.push(failure));
        }
        self.push(failure);
    }

    fn push(&self, failure: Arc<Failure>) {
        let record = Box::into_raw(Box::new(Record { failure, next: self.head.load(Relaxed) }));
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

    fn take_all(&self) -> impl Iterator<Item = Arc<Failure>> {
        // Acquire: pairs with the releases of `push`. Taken whole, so there is no ABA.
        let mut head = self.head.swap(null_mut(), Acquire);
        std::iter::from_fn(move || {
            if head.is_null() {
                return None;
            }
            // SAFETY: made from a box, and the swap made the whole list ours.
            let record = unsafe { Box::from_raw(head) };
            head = record.next;
            Some(record.failure)
        })
    }

    /// Takes all failures; returns the error of the operation that was pushed first.
    pub fn take_first(&self) -> Option<Error> {
        let _taking = self.taking.lock();
        let mut failures: Vec<Arc<Failure>> = self.take_all().collect();
        // Those of one graph have the number of its replay: then the first that was noted.
        failures.reverse();
        self.count.store(0, Relaxed);
        self.limit.store(PRUNE, Relaxed);
        failures.sort_by_key(|failure| failure.sequence);
        // All are taken, the first is returned.
        failures.iter().filter_map(|failure| failure.take(Stamp::LAST)).reduce(|first, _| first)
    }
}

impl Drop for Failures {
    fn drop(&mut self) {
        self.take_all().for_each(drop);
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
        assert!(failures.take_all().count() <= PRUNE + 1);
    }
}
