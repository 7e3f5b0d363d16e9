//! The wait list: a thread that makes the condition true waits for no other, and every thread that
//! waits for it is woken, also if another one had the list meanwhile.

#![cfg(loom)]

use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom_tests::{explore, explore_light_fences, spawn};
use seriatim::internals::wait_list::WaitList;
use std::sync::Arc;

/// A list, and what its threads wait for: that nothing is in flight.
struct Model {
    list: WaitList,
    in_flight: AtomicUsize,
}

impl Model {
    fn new(in_flight: usize) -> Arc<Model> {
        Arc::new(Model { list: WaitList::new(), in_flight: AtomicUsize::new(in_flight) })
    }

    fn is_over(&self) -> bool {
        self.in_flight.load(Relaxed) == 0
    }

    /// Ends one operation, and wakes whether or not it was the last.
    fn end_one(&self) {
        self.in_flight.fetch_sub(1, Relaxed);
        self.list.notify(|| true);
    }

    fn wait(&self) {
        assert!(self.list.wait(None, || self.is_over(), || ()));
    }
}

/// One waiter may come while the other is parked already.
#[test]
fn each_of_two_waiters_is_woken() {
    explore("wait list, two waiters", 2, 100, || {
        let model = Model::new(1);
        let waiters = [(); 2].map(|()| {
            let model = Arc::clone(&model);
            spawn(move || model.wait())
        });
        model.end_one();
        waiters.map(|waiter| waiter.join().unwrap());
    });
}

/// A thread has the list when the operation ends, and wakes the waiter instead of the one that ends
/// it.
#[test]
fn a_thread_that_has_the_list_wakes() {
    explore("wait list, one has it", 3, 100, || {
        let model = Model::new(1);
        let (own, theirs) = (Arc::clone(&model), Arc::clone(&model));
        let waiter = spawn(move || own.wait());
        let holder = spawn(move || {
            let _held = theirs.list.hold();
            theirs.is_over(); // A step, between which and the next others take theirs.
        });
        model.end_one();
        holder.join().unwrap();
        waiter.join().unwrap();
    });
}

/// The one that finds the list locked relies on the other, which may have woken the waiter too
/// early for it.
#[test]
fn the_last_of_two_ends_wakes() {
    explore_light_fences("wait list, two ends", 3, 100, || {
        let model = Model::new(2);
        let (own, theirs) = (Arc::clone(&model), Arc::clone(&model));
        let waiter = spawn(move || own.wait());
        let other = spawn(move || theirs.end_one());
        model.end_one();
        other.join().unwrap();
        waiter.join().unwrap();
    });
}
