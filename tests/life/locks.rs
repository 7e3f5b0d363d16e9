//! A lock that a waiting thread holds and an operation takes: what `waiters_help` warns of.

use crate::common::*;
use seriatim::{Builder, Engine, Kind};
use std::sync::{Arc, Mutex, TryLockError};

/// Holds a lock, pushes an operation that takes it, and waits for another one, which ends
/// meanwhile. Says whether the waiting thread has met its own lock: the operation only tries to
/// take it then, so that the test ends. `waited` is called after the wait.
fn waits_with_a_lock(engine: &Engine, waited: impl FnOnce()) -> bool {
    let lock = Arc::new(Mutex::new(()));
    let x = engine.new_variable();
    let waiter = std::thread::current().id();
    let met = Arc::new(Mutex::new(false));
    let held = lock.lock().unwrap();
    let (own, found) = (Arc::clone(&lock), Arc::clone(&met));
    // What can be run of that for which it waits the thread runs first: this cannot.
    let other = hold(engine, &[], &[x]);
    let takes = move || {
        other.complete();
        if std::thread::current().id() == waiter {
            *found.lock().unwrap() = matches!(own.try_lock(), Err(TryLockError::WouldBlock));
        } else {
            drop(own.lock().unwrap());
        }
    };
    engine.op("takes the lock").push(move |_| takes()).unwrap();
    engine.wait_for_var(x).unwrap();
    waited();
    drop(held);
    engine.wait_for_all().unwrap();
    *met.lock().unwrap()
}

#[test]
fn a_helping_waiter_may_run_an_operation_that_takes_its_lock_and_another_does_not() {
    let _watchdog = Watchdog::new(100, "a lock that is held in a wait");
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let builder = Engine::builder().kind(kind).cpu_workers(2);
        let quiet = builder.clone().waiters_help(false).build().unwrap();
        assert!(
            (0..200).all(|_| !waits_with_a_lock(&quiet, || ())),
            "{kind}: a waiter that does not help ran something"
        );
        // The waiter begins with the log of one worker or of the other.
        let met = (0..50).any(|_| waits_while_workers_are_occupied(&builder));
        assert!(met, "{kind}: the waiter did not run the first operation");
    }
}

/// As [`waits_with_a_lock`], while the workers are in something else until it has waited, or for
/// long.
fn waits_while_workers_are_occupied(builder: &Builder) -> bool {
    let engine = builder.clone().build().unwrap();
    let gates: Vec<Gate> = (0..2).map(|_| Gate::new()).collect();
    for gate in &gates {
        let stand = gate.clone();
        engine.op("occupies a worker").push(move |_| stand.pass()).unwrap();
    }
    gates.iter().for_each(Gate::wait_for_someone);
    let (has_waited, waited) = std::sync::mpsc::channel();
    let release = std::thread::spawn(move || {
        let _ = waited.recv_timeout(std::time::Duration::from_secs(10));
        gates.iter().for_each(Gate::open);
    });
    let met = waits_with_a_lock(&engine, || has_waited.send(()).unwrap());
    release.join().unwrap();
    met
}
