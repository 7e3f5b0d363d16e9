//! The whole engine with a worker: handing over, sleeping and waking, the bound, priorities,
//! stopping and the end. Several workers are in `group.rs`, without an engine around them: with it,
//! three threads take too many steps.

#![cfg(loom)]

use loom_tests::{explore, spawn, Guarded};
use seriatim::{Completion, Engine, ErrorKind, Kind, Property, Variable, WhenFull};

fn engine(kind: Kind, workers: usize) -> Engine {
    Engine::builder().kind(kind).cpu_workers(workers).waiters_help(false).build().expect("the settings are valid")
}

fn push_step(engine: &Engine, variable: Variable, value: &Guarded) {
    let value = value.clone();
    engine.op("").writes([variable]).push(move |_| value.step()).expect("the engine runs");
}

/// Two writes one after the other, and a wait: the worker may sleep at any point of it. Urgent
/// operations are in no log.
fn two_writes_and_a_wait(kind: Kind, priority: i32) {
    let engine = engine(kind, 1);
    let x = engine.new_variable();
    let value = Guarded::new();
    for _ in 0..2 {
        let value = value.clone();
        engine.op("").writes([x]).priority(priority).push(move |_| value.step()).expect("the engine runs");
    }
    engine.wait_for_var(x).unwrap();
    assert_eq!(value.get(), 2);
    assert_eq!(engine.version(x).unwrap(), 2, "a write is counted before its version");
    drop(engine);
}

#[test]
fn a_worker_that_sleeps_is_woken_for_what_comes() {
    explore("one worker of one queue, sleep and wake, urgent", 1, 200, || two_writes_and_a_wait(Kind::Pooled, 1));
    explore("one worker with an inbox, sleep and wake, urgent", 1, 200, || two_writes_and_a_wait(Kind::PerDevice, 1));
    explore("one worker of one queue, sleep and wake", 2, 10000, || two_writes_and_a_wait(Kind::Pooled, 0));
}

#[test]
fn an_urgent_operation_and_a_copy_find_their_workers() {
    explore("priorities and the copy worker", 1, 10000, || {
        let engine = engine(Kind::PerDevice, 1);
        let x = engine.new_variable();
        let value = Guarded::new();
        let (first, second) = (value.clone(), value.clone());
        engine.op("").writes([x]).priority(1).push(move |_| first.step()).unwrap();
        engine.op("").writes([x]).property(Property::CopyToGpu).push(move |_| second.step()).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(value.get(), 2);
        drop(engine);
    });
}

#[test]
fn no_more_is_in_flight_than_the_bound_allows() {
    explore("the bound, two pushers", 2, 100, || {
        let engine = Engine::builder().kind(Kind::Naive).bound(1).when_full(WhenFull::Block).build().expect("valid");
        // Changed without a variable that guards it: only the bound keeps the two apart.
        let value = Guarded::new();
        let (theirs, cell) = (engine.clone(), value.clone());
        let other = spawn(move || {
            theirs.op("").push(move |_| cell.step()).unwrap();
        });
        let cell = value.clone();
        engine.op("").push(move |_| cell.step()).unwrap();
        other.join().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(value.get(), 2);
    });
}

/// Another thread may still be in the end of what was waited for.
#[test]
fn after_a_wait_for_everything_there_is_room() {
    explore("a push after a wait for everything, at the bound", 2, 50, || {
        let builder = Engine::builder().kind(Kind::Naive).bound(1).when_full(WhenFull::WouldBlock);
        let engine = builder.waiters_help(false).build().expect("the settings are valid");
        engine.op("").push_async(|_, completion| drop(spawn(move || completion.complete()))).expect("there is room");
        engine.wait_for_all().unwrap();
        engine.op("").push(|_| ()).expect("there is room again");
    });
}

#[test]
fn at_the_bound_a_push_waits_for_a_worker_or_is_refused() {
    for when_full in [WhenFull::Block, WhenFull::Help, WhenFull::WouldBlock] {
        // With a pusher that helps there are too many ways for more.
        let (preemptions, floor) = if when_full == WhenFull::Help { (0, 20) } else { (1, 2000) };
        explore(&format!("the bound with a worker, {when_full}"), preemptions, floor, move || {
            let engine = Engine::builder().kind(Kind::Pooled).cpu_workers(1).bound(1).when_full(when_full);
            let engine = engine.build().expect("the settings are valid");
            let value = Guarded::new();
            let mut accepted = 0;
            for _ in 0..2 {
                let cell = value.clone();
                match engine.op("").push(move |_| cell.step()) {
                    Ok(()) => accepted += 1,
                    Err(error) => assert_eq!((error.kind(), when_full), (ErrorKind::EngineFull, WhenFull::WouldBlock)),
                }
            }
            engine.wait_for_all().unwrap();
            assert_eq!(value.get(), accepted);
            drop(engine);
        });
    }
}

#[test]
fn a_waiter_that_helps_and_a_worker_run_everything_once() {
    for (all, floor) in [(false, 3000), (true, 2000)] {
        let name = if all { "a waiter that helps, for everything" } else { "a waiter that helps" };
        explore(name, 1, floor, move || {
            let engine = Engine::builder().kind(Kind::Pooled).cpu_workers(1).waiters_help(true).build().unwrap();
            let x = engine.new_variable();
            let value = Guarded::new();
            push_step(&engine, x, &value);
            push_step(&engine, x, &value);
            if all {
                engine.wait_for_all().unwrap();
            } else {
                engine.wait_for_var(x).unwrap();
            }
            assert_eq!(value.get(), 2);
            drop(engine);
        });
    }
}

#[test]
fn a_waiter_that_helps_sleeps_until_the_last_operation_ends_elsewhere() {
    explore("a waiter that helps, beside an end elsewhere", 0, 2, || {
        let engine = Engine::builder().kind(Kind::Pooled).cpu_workers(1).waiters_help(true).build().unwrap();
        let elsewhere = |completion: Completion| _ = spawn(move || completion.complete());
        engine.op("").push_async(move |_, completion| elsewhere(completion)).unwrap();
        engine.wait_for_all().unwrap();
        loom::stop_exploring();
        drop(engine);
    });
}

#[test]
fn stopping_and_starting_again_loses_nothing() {
    explore("stop and start with a worker", 1, 500, || {
        let engine = engine(Kind::Pooled, 1);
        let x = engine.new_variable();
        let value = Guarded::new();
        push_step(&engine, x, &value);
        engine.stop().unwrap();
        assert_eq!(value.get(), 1);
        engine.start().unwrap();
        push_step(&engine, x, &value);
        drop(engine);
        assert_eq!(value.get(), 2);
    });
}

/// The worker is started already, so the push goes into its log.
#[test]
fn stopping_waits_for_what_is_logged_or_refuses_it() {
    explore("stop against a push into a log", 1, 500, || {
        let builder = Engine::builder().kind(Kind::Pooled).cpu_workers(1).waiters_help(false).without_inline();
        let engine = builder.build().expect("the settings are valid");
        let x = engine.new_variable();
        let value = Guarded::new();
        push_step(&engine, x, &value);
        engine.wait_for_all().unwrap();
        let (theirs, cell) = (engine.clone(), value.clone());
        let other = spawn(move || match theirs.op("").writes([x]).push(move |_| cell.step()) {
            Ok(()) => 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Stopped);
                0
            }
        });
        engine.stop().unwrap();
        let seen = value.get();
        assert_eq!(seen, 1 + other.join().unwrap(), "what was accepted has run when the engine has stopped");
    });
}
