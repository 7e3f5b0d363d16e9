//! The failures of an engine that no wait has taken yet: a lock-free stack, emptied as a whole.
//!
//! Used by `execute.rs` (`Core::record`), `gpu/loss.rs` and `gpu/turn.rs`, which add failures, on
//! any thread. Used by `wait/for_all.rs`, `future/all.rs` and, at the engine's end, by
//! `lifecycle.rs`, which take them. `core.rs` has the list. A failure that was taken through its
//! variable stays in the list until it is pruned. Which operations inherit a failure is decided
//! elsewhere: `complete.rs` marks variables, and `execute.rs` skips operations. `fork.rs` holds the
//! lock of `aside` around a fork. A failure itself is shared with the marks of variables
//! (`variable/slot.rs`), where `wait/for_var.rs` takes it.

use crate::error::{Beyond, Error, ErrorKind, Failure, Fault, Stamp};
use crate::sync::lock::Lock;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering::*};
use crate::util::{spans, work_counter};
use std::ptr::null_mut;
use std::sync::Arc;

/// The most failures that are kept until a wait takes them. Further ones are known to their
/// variables only; here they are counted. The docs of `Engine::wait_for_all`, two chapters of the
/// guide (`errors.md`, `limits.md`) and `tests/live_bytes.rs` give this number.
const MOST_KEPT: usize = 1000;

/// The most other records that one new failure looks at.
const SLICE: usize = 8;

struct FailureRecord {
    failure: Arc<Failure>,
    /// How many failures were noted before this one. It tells which of the failures of one replay
    /// came first: they all have the sequence number of the replay.
    number: usize,
    next: *mut FailureRecord,
}

/// A list of failures.
pub struct Failures {
    head: AtomicPtr<FailureRecord>,
    /// How many records there are, on the stack and in `aside` together: at most [`MOST_KEPT`], and
    /// one more for each thread that is in [`Failures::record_first`].
    count: AtomicUsize,
    /// How many failures were ever noted.
    noted: AtomicUsize,
    /// Records that are yet to be looked at. Locked by a thread that waits for everything, by the
    /// thread that closes the engine, by a thread that forks, and by [`Failures::record`] when
    /// [`MOST_KEPT`] failures are kept.
    pub(super) aside: Lock<Aside>,
    /// Shared by the failures beyond [`MOST_KEPT`], which are counted and not kept.
    beyond: Arc<Beyond>,
}

/// Records that were taken off the stack, by the first of their list.
pub struct Aside(*mut FailureRecord);

// SAFETY: the list owns its records, and failures may be dropped on any thread.
unsafe impl Send for Aside {}

impl Failures {
    pub fn new() -> Failures {
        Failures {
            head: AtomicPtr::new(null_mut()),
            count: AtomicUsize::new(0),
            noted: AtomicUsize::new(0),
            aside: Lock::new(Aside(null_mut())),
            beyond: Arc::default(),
        }
    }

    /// Makes the failure of the operation of this name, and keeps it if there is room. Tells who
    /// listens for it.
    pub fn record_fault(&self, mut fault: Fault, name: &'static str, sequence: u64) -> Arc<Failure> {
        let listener = fault.take_listener();
        let failure = self.record(Error::of_operation(name, fault), sequence);
        if let Some(listener) = listener {
            listener.hear(&failure);
        }
        failure
    }

    /// Makes a failure, and keeps it if there is room. Any number of threads may do so at once.
    /// Looks at no more than [`SLICE`] other records, and waits for no thread.
    fn record(&self, error: Error, sequence: u64) -> Arc<Failure> {
        spans::failed(&error);
        if self.count.load(Relaxed) >= MOST_KEPT {
            self.prune();
        }
        let number = self.noted.fetch_add(1, Relaxed);
        let one_more = |count| (count < MOST_KEPT).then_some(count + 1);
        if self.count.fetch_update(Relaxed, Relaxed, one_more).is_err() {
            return Arc::new(Failure::beyond(error, sequence, &self.beyond));
        }
        let failure = Arc::new(Failure::new(error, sequence));
        self.push(Box::new(FailureRecord { failure: Arc::clone(&failure), number, next: null_mut() }));
        failure
    }

    /// Makes a failure and gives it to `place`; keeps it if that takes it. For what several threads
    /// find out at once and only one of them is to tell.
    pub fn record_first(&self, error: Error, place: impl FnOnce(&Arc<Failure>) -> bool) {
        if self.count.load(Relaxed) >= MOST_KEPT {
            let failure = Arc::new(Failure::beyond(error, 0, &self.beyond));
            if !place(&failure) {
                // Another thread was first: this one is not to be told, so it is not counted.
                let _ = failure.take(Stamp::LAST);
            }
            return;
        }
        let failure = Arc::new(Failure::new(error, 0));
        if place(&failure) {
            spans::failed(&failure.error);
            let number = self.noted.fetch_add(1, Relaxed);
            self.count.fetch_add(1, Relaxed);
            self.push(Box::new(FailureRecord { failure, number, next: null_mut() }));
        }
    }

    /// Looks at some records, and drops those whose failures were taken through a variable. Does
    /// nothing if another thread has the lock.
    #[cold]
    fn prune(&self) {
        // Dropped after the lock is released: the destructor of an error is user code.
        let mut gone = Aside(null_mut());
        let Some(mut aside) = self.aside.try_lock() else { return };
        if aside.is_empty() {
            *aside = self.take_all();
        }
        for _ in 0..SLICE {
            let Some(record) = aside.pop() else { break };
            work_counter::count(1);
            if record.failure.is_live() {
                self.push(record);
            } else {
                self.count.fetch_sub(1, Relaxed);
                gone.put(record);
            }
        }
    }

    fn push(&self, mut record: Box<FailureRecord>) {
        record.next = self.head.load(Relaxed);
        let record = Box::into_raw(record);
        loop {
            // SAFETY: ours until the exchange succeeds.
            let next = unsafe { (*record).next };
            // Release: pairs with the acquire in `take_all`, so the thread that takes the record
            // finds it written.
            match self.head.compare_exchange(next, record, Release, Relaxed) {
                Ok(_) => return,
                // SAFETY: still ours.
                Err(now) => unsafe { (*record).next = now },
            }
        }
    }

    fn take_all(&self) -> Aside {
        // Acquire: pairs with the releases of `push`. The list is taken as a whole, so there is no
        // ABA.
        Aside(self.head.swap(null_mut(), Acquire))
    }

    /// Takes all failures; returns the error of the operation that was pushed first.
    pub fn take_first(&self) -> Option<Error> {
        let (errors, more) = self.take_all_live();
        let first = errors.into_iter().next();
        if more == 0 {
            return first;
        }
        Some(first.map_or_else(|| only_counted(more), |first| first.and_more(more)))
    }

    /// Takes all failures that no wait has taken. Returns the errors of those that are kept, in the
    /// order in which their operations were pushed, and how many more there were.
    pub fn take_all_live(&self) -> (Vec<Error>, usize) {
        // Relaxed: the operations that the caller has waited for had noted their failures before
        // they counted as completed.
        if self.noted.load(Relaxed) == 0 {
            return (Vec::new(), 0);
        }
        let mut failures: Vec<Box<FailureRecord>> = self.aside.lock().drain().chain(self.take_all().drain()).collect();
        self.count.fetch_sub(failures.len(), Relaxed);
        failures.sort_by_key(|record| (record.failure.sequence, record.number));
        let errors = failures.iter().filter_map(|record| record.failure.take(Stamp::LAST)).collect();
        (errors, self.beyond.sweep())
    }
}

/// The error of a wait that finds no failure that was kept, but `count` that were only counted.
fn only_counted(count: usize) -> Error {
    let text =
        format!("{count} operations failed whose errors were not kept: wait for their variables, or wait more often");
    Error::new(ErrorKind::OperationFailed, text)
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

    fn put(&mut self, mut record: Box<FailureRecord>) {
        record.next = self.0;
        self.0 = Box::into_raw(record);
    }

    fn pop(&mut self) -> Option<Box<FailureRecord>> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: made from a box, and taken out of view, so ours.
        let record = unsafe { Box::from_raw(self.0) };
        self.0 = record.next;
        Some(record)
    }

    fn drain(&mut self) -> impl Iterator<Item = Box<FailureRecord>> + '_ {
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

    fn fail(failures: &Failures, n: u64) -> Arc<Failure> {
        failures.record(Error::of_operation("op", Fault::failed(n.to_string().into())), n)
    }

    #[test]
    fn the_first_live_failure_wins_and_all_are_cleared() {
        let failures = Failures::new();
        let made = [3, 1, 2].map(|n| fail(&failures, n));
        made[1].take(Stamp::LAST);
        assert!(failures.take_first().unwrap().to_string().contains(": 2"));
        assert!(made.iter().all(|failure| !failure.is_live()));
        assert!(failures.take_first().is_none());
    }

    #[test]
    fn one_that_is_not_told_is_not_counted_either() {
        let failures = Failures::new();
        for n in 0..MOST_KEPT as u64 {
            let _ = fail(&failures, n).take(Stamp::LAST);
        }
        failures.record_first(Error::new(ErrorKind::DeviceLost, "lost"), |_| false);
        assert!(failures.take_first().is_none());
    }

    #[test]
    fn what_was_taken_elsewhere_does_not_pile_up() {
        let failures = Failures::new();
        for n in 0..10 * MOST_KEPT as u64 {
            fail(&failures, n).take(Stamp::LAST);
        }
        assert!(failures.take_all().drain().count() <= MOST_KEPT);
        assert_eq!(failures.beyond.sweep(), 0, "there was always room");
    }

    #[test]
    fn beyond_the_most_they_are_counted_and_cleared_with_the_others() {
        let failures = Failures::new();
        for _ in 0..3 {
            let made: Vec<Arc<Failure>> = (0..MOST_KEPT as u64 + 500).map(|n| fail(&failures, n)).collect();
            assert!(made.iter().all(|failure| failure.is_live()));
            // Through their variables: one that is kept, and two that are counted.
            assert!([0, MOST_KEPT, MOST_KEPT + 1].iter().all(|n| made[*n].take(Stamp::LAST).is_some()));
            let first = failures.take_first().unwrap().to_string();
            assert!(first.contains(": 1 (and 498 more failed"), "{first}");
            assert!(made.iter().all(|failure| !failure.is_live() && failure.take(Stamp::LAST).is_none()));
            assert!(failures.take_first().is_none());
            assert_eq!(failures.count.load(Relaxed), 0);
        }
        // All that are kept were taken, and one that is not.
        let made: Vec<Arc<Failure>> = (0..MOST_KEPT as u64 + 2).map(|n| fail(&failures, n)).collect();
        made[..=MOST_KEPT].iter().for_each(|failure| drop(failure.take(Stamp::LAST)));
        assert!(failures.take_first().unwrap().to_string().starts_with("1 operations failed"));
    }
}
