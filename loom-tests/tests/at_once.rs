//! Engines whose operations run inside their push: beside other pushers, and with pushes from
//! inside.

#![cfg(loom)]

use loom::sync::mpsc::channel;
use loom_tests::{explore, explore_wait_for_another_thread_s_write, spawn, Guarded};
use seriatim::{Engine, ErrorKind, Kind, RunContext, Variable};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

fn naive() -> Engine {
    Engine::builder().kind(Kind::Naive).build().expect("the settings are valid")
}

fn push_step(engine: &Engine, variable: Variable, value: &Guarded) {
    let value = value.clone();
    engine.op("").writes([variable]).push(move |_| value.step()).expect("the variable is alive");
}

#[test]
fn two_pushers_do_not_overlap_and_are_counted() {
    explore("at once, two pushers", 3, 200, || {
        let engine = naive();
        let x = engine.new_variable();
        let value = Guarded::new();
        let (theirs, cell) = (engine.clone(), value.clone());
        let other = spawn(move || push_step(&theirs, x, &cell));
        push_step(&engine, x, &value);
        other.join().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!((value.get(), engine.version(x).unwrap()), (2, 2));
    });
}

/// One has pushed alone, and goes on while the other comes.
#[test]
fn a_newcomer_sees_what_was_done_and_is_seen() {
    explore("at once, a newcomer", 2, 200, || {
        let engine = naive();
        let x = engine.new_variable();
        let value = Guarded::new();
        push_step(&engine, x, &value);
        let (theirs, cell) = (engine.clone(), value.clone());
        let other = spawn(move || push_step(&theirs, x, &cell));
        let cell = value.clone();
        engine.op("").reads([x]).push(move |_| assert!(cell.get() > 0)).unwrap();
        push_step(&engine, x, &value);
        other.join().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!((value.get(), engine.version(x).unwrap()), (3, 3));
    });
}

#[test]
fn a_wait_returns_after_what_another_thread_runs() {
    explore("at once, a wait beside it", 2, 500, || {
        let engine = naive();
        let x = engine.new_variable();
        let value = Guarded::new();
        let (theirs, cell) = (engine.clone(), value.clone());
        let other = spawn(move || push_step(&theirs, x, &cell));
        engine.wait_for_var(x).unwrap();
        if engine.version(x).unwrap() == 1 {
            assert_eq!(value.get(), 1);
        }
        engine.wait_for_all().unwrap();
        other.join().unwrap();
        assert_eq!(value.get(), 1);
    });
}

#[test]
fn a_wait_for_what_one_has_heard_of_comes_after_it() {
    explore_wait_for_another_thread_s_write("at once, a wait for what is heard of", naive);
}

#[test]
fn after_a_wait_for_everything_nothing_is_pending() {
    for writes in [true, false] {
        explore(&format!("at once, a wait for everything beside it, writes: {writes}"), 2, 500, move || {
            let engine = naive();
            let x = engine.new_variable();
            let theirs = engine.clone();
            let (say, runs) = channel();
            let other = spawn(move || {
                let op = theirs.op("");
                let op = if writes { op.writes([x]) } else { op.reads([x]) };
                op.push(move |_| say.send(()).unwrap()).unwrap();
            });
            runs.recv().unwrap();
            engine.wait_for_all().unwrap();
            assert_eq!(engine.version(x).unwrap(), u64::from(writes), "what it has changed is not counted");
            assert!(engine.wait_for_var_timeout(x, Duration::ZERO).is_ok(), "it is pending");
            other.join().unwrap();
        });
    }
}

#[test]
fn crossed_pushes_run_in_the_same_order_on_both_variables() {
    explore("at once, crossed", 2, 1000, || {
        let engine = naive();
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let [a, b] = [Guarded::new(), Guarded::new()];
        let (theirs, from, to) = (engine.clone(), b.clone(), a.clone());
        let other = spawn(move || {
            theirs.op("").reads([y]).writes([x]).push(move |_| to.set(from.get() + 1)).unwrap();
        });
        let (from, to) = (a.clone(), b.clone());
        engine.op("").reads([x]).writes([y]).push(move |_| to.set(from.get() + 1)).unwrap();
        other.join().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!((a.get().min(b.get()), a.get().max(b.get())), (1, 2));
    });
}

/// A write that pushes another on its variable, beside a third.
#[test]
fn what_is_pushed_from_inside_comes_after_it() {
    explore("at once, a write pushed from inside", 2, 200, || {
        let engine = naive();
        let x = engine.new_variable();
        let value = Guarded::new();
        let (theirs, cell) = (engine.clone(), value.clone());
        let other = spawn(move || push_step(&theirs, x, &cell));
        let (inner, first) = (engine.clone(), value.clone());
        let body = move |_: &RunContext<'_>| {
            push_step(&inner, x, &first);
            first.step();
        };
        engine.op("").writes([x]).push(body).unwrap();
        other.join().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!((value.get(), engine.version(x).unwrap()), (3, 3));
    });
}

/// A read that pushes a write of its variable, beside another read: the write comes after both.
#[test]
fn a_read_is_counted_if_a_write_was_pushed_meanwhile() {
    explore("at once, a write pushed from inside of a read", 2, 200, || {
        let engine = naive();
        let x = engine.new_variable();
        let value = Guarded::new();
        let (theirs, cell) = (engine.clone(), value.clone());
        let other = spawn(move || {
            theirs.op("").reads([x]).push(move |_| _ = cell.get()).unwrap();
        });
        let (inner, outer) = (engine.clone(), value.clone());
        let body = move |_: &RunContext<'_>| {
            push_step(&inner, x, &outer);
            assert_eq!(outer.get(), 0);
        };
        engine.op("").reads([x]).push(body).unwrap();
        other.join().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!((value.get(), engine.version(x).unwrap()), (1, 1));
    });
}

#[test]
fn a_failure_reaches_who_comes_behind_it() {
    explore("at once, a failure", 2, 200, || {
        let engine = naive();
        let x = engine.new_variable();
        // Not the model's: they order nothing.
        let (failed, late) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (theirs, sets) = (engine.clone(), failed.clone());
        let other = spawn(move || {
            let fail = move |_: &RunContext<'_>| {
                sets.store(true, Relaxed);
                Err::<(), _>("no")
            };
            theirs.op("").writes([x]).push(fail).unwrap();
        });
        let behind = late.clone();
        engine.op("").writes([x]).push(move |_| behind.store(failed.load(Relaxed), Relaxed)).unwrap();
        other.join().unwrap();
        engine.op("").writes([x]).push::<_, ()>(|_| panic!("runs in spite of a mark")).unwrap();
        let error = engine.wait_for_var(x).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OperationFailed, "{error}");
        assert!(engine.wait_for_var(x).is_ok());
        assert!(!late.load(Relaxed), "an operation behind a failure has run");
    });
}
