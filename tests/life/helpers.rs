//! Waiting threads that help: of several that sleep, one that is woken and leaves passes that on.

use crate::common::*;
use seriatim::{Engine, Kind};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::time::Duration;

/// Longer than a waiter looks for work before it sleeps.
const ASLEEP: Duration = Duration::from_millis(10);

/// The only worker is busy until the end, so what is ready is for the waiters. The first one is
/// over when it is woken.
#[test]
fn a_waiter_that_leaves_wakes_another_one_for_what_is_ready() {
    let _watchdog = Watchdog::new(200, "waiters that leave");
    let engine = Engine::builder().cpu_workers(1).build().unwrap();
    let busy = Gate::new();
    let stand = busy.clone();
    engine.op("long").push(move |_| stand.pass()).unwrap();
    busy.wait_for_someone();
    for round in 1..=20 {
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let [first, second] = [x, y].map(|variable| hold(&engine, &[], &[variable]));
        let waits_for = |variable| {
            let engine = engine.clone();
            let waiter = std::thread::spawn(move || engine.wait_for_var(variable).unwrap());
            std::thread::sleep(ASLEEP);
            waiter
        };
        let (leaves, stays) = (waits_for(x), waits_for(y));
        let ran = Arc::new(AtomicUsize::new(0));
        first.complete();
        engine.op("ready").push(counting(&ran)).unwrap();
        eventually(&format!("round {round}: a waiter runs what is ready"), || ran.load(SeqCst) == 1);
        second.complete();
        leaves.join().unwrap();
        stays.join().unwrap();
    }
    busy.open();
    engine.wait_for_all().unwrap();
}

/// The only worker is busy until the end. A waiter runs the three operations that it needs, and
/// none of those that were pushed before them.
#[test]
fn a_waiter_runs_what_it_waits_for_and_no_strangers() {
    let _watchdog = Watchdog::new(200, "waiters and strangers");
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(1).build().unwrap();
        let [x, y, z, other] = std::array::from_fn(|_| engine.new_variable());
        let busy = Gate::new();
        let stand = busy.clone();
        engine.op("long").push(move |_| stand.pass()).unwrap();
        busy.wait_for_someone();
        let (strangers, needed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        for _ in 0..1000 {
            engine.op("stranger").write(other).push(counting(&strangers)).unwrap();
        }
        engine.op("first").write(x).push(counting(&needed)).unwrap();
        engine.op("second").read(x).write(y).push(counting(&needed)).unwrap();
        engine.op("third").reads([x, y]).write(z).push(counting(&needed)).unwrap();
        engine.wait_for_var(z).unwrap();
        assert_eq!((needed.load(SeqCst), strangers.load(SeqCst)), (3, 0), "{kind:?}");
        busy.open();
        engine.wait_for_all().unwrap();
        assert_eq!(strangers.load(SeqCst), 1000);
    }
}

/// Strangers that wait for the same write come back with what is waited for, which goes first.
#[test]
fn what_is_waited_for_goes_before_strangers_that_become_ready_with_it() {
    let _watchdog = Watchdog::new(200, "strangers that become ready");
    let engine = Engine::builder().cpu_workers(1).build().unwrap();
    let [x, y, other] = std::array::from_fn(|_| engine.new_variable());
    let strangers = Arc::new(AtomicUsize::new(0));
    let write = hold(&engine, &[], &[x]);
    for _ in 0..1000 {
        engine.op("stranger").read(x).push(counting(&strangers)).unwrap();
    }
    // The worker has come along all of them, and has parked them.
    let passed = Arc::new(AtomicUsize::new(0));
    engine.op("behind them").write(other).push(counting(&passed)).unwrap();
    eventually("the worker passes", || passed.load(SeqCst) == 1);
    let busy = Gate::new();
    let stand = busy.clone();
    engine.op("long").push(move |_| stand.pass()).unwrap();
    busy.wait_for_someone();
    let (before, seen) = (Arc::clone(&strangers), Arc::new(AtomicUsize::new(usize::MAX)));
    let noted = Arc::clone(&seen);
    engine.op("waited for").read(x).write(y).push(move |_| noted.store(before.load(SeqCst), SeqCst)).unwrap();
    std::thread::scope(|scope| {
        // The thread that has pushed it: who else waits finds it only behind the next push.
        let completer = scope.spawn(|| {
            std::thread::sleep(ASLEEP);
            write.complete();
        });
        engine.wait_for_var(y).unwrap();
        completer.join().unwrap();
    });
    assert_eq!(seen.load(SeqCst), 0, "strangers ran before it");
    busy.open();
    engine.wait_for_all().unwrap();
    assert_eq!(strangers.load(SeqCst), 1000);
}

/// The wait is over at once, whatever there is to run, also when the error has been taken.
#[test]
fn a_wait_for_a_variable_that_has_failed_runs_nothing_of_others() {
    let _watchdog = Watchdog::new(60, "waits for what has failed");
    for taken in [false, true] {
        let engine = Engine::builder().cpu_workers(1).build().unwrap();
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        engine.op("fails").write(x).push(|_| Err("as it should")).unwrap();
        eventually("it has failed", || engine.version(x).unwrap() == 1);
        if taken {
            engine.wait_for_all().unwrap_err();
        }
        let (busy, ran) = (Gate::new(), Arc::new(AtomicUsize::new(0)));
        let stand = busy.clone();
        engine.op("long").push(move |_| stand.pass()).unwrap();
        busy.wait_for_someone();
        let held = hold(&engine, &[], &[y]);
        // Each makes the next one ready on the thread that runs it.
        (0..40).for_each(|_| engine.op("of others").write(y).push(counting(&ran)).unwrap());
        held.complete();
        assert_eq!(engine.wait_for_var(x).is_err(), !taken);
        assert!(ran.load(SeqCst) <= 1, "{} of others have run, error taken: {taken}", ran.load(SeqCst));
        busy.open();
        engine.wait_for_all().unwrap();
    }
}
