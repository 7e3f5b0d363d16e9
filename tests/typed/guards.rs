//! Guards: a thread outside of operations has an access in the chain until it drops the guard.

use crate::common::*;
use seriatim::{Engine, ErrorKind, Kind, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Barrier};
use std::time::Duration;

#[test]
fn a_guard_holds_back_what_conflicts_and_nothing_else() {
    on_every_engine(|engine| {
        let (x, ran) = (engine.value(1), Arc::new(AtomicUsize::new(0)));
        let count = |bits: usize| {
            let ran = Arc::clone(&ran);
            move || _ = ran.fetch_or(bits, SeqCst)
        };
        let reader = x.read().unwrap();
        let (read, changed, after) = (count(1), count(2), count(4));
        engine.op("read").run(&x, move |_| read()).unwrap();
        let other = engine.value(0);
        engine.op("beside").run((&x, Write(&other)), |(x, other)| *other = *x).unwrap();
        engine.wait_for_var(other.variable()).unwrap();
        eventually("the read runs", || ran.load(SeqCst) == 1);
        engine
            .op("change")
            .run(Write(&x), move |x| {
                *x += 1;
                changed();
            })
            .unwrap();
        engine.op("after").run(&x, move |_| after()).unwrap();
        std::thread::sleep(Duration::from_millis(if cfg!(miri) { 0 } else { 2 }));
        assert_eq!((*reader, ran.load(SeqCst)), (1, 1), "the change waits for the guard");
        drop(reader);
        let mut writer = x.write().unwrap();
        assert_eq!((*writer, ran.load(SeqCst)), (2, 7), "the guard waits for what was pushed before");
        let version = engine.version(x.variable()).unwrap();
        engine.op("look").run((&x, Write(&other)), |(x, other)| *other = *x).unwrap();
        *writer = 10;
        drop(writer);
        assert_eq!(*other.read().unwrap(), 10);
        assert_eq!(engine.version(x.variable()).unwrap(), version + 1, "a write guard is a change");
    });
}

#[test]
fn readers_on_several_threads_have_guards_at_once() {
    on_every_engine(|engine| {
        let (x, all) = (engine.value(String::from("shared")), Barrier::new(3));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let guard = x.read().unwrap();
                    all.wait();
                    assert_eq!(*guard, "shared");
                });
            }
        });
    });
}

#[test]
fn writers_on_several_threads_take_turns() {
    on_every_engine(|engine| {
        let x = engine.value((0_u64, 0_u64));
        let rounds = if cfg!(miri) { 5 } else { 100 };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        let mut pair = x.write().unwrap();
                        pair.0 += 1;
                        std::thread::yield_now();
                        pair.1 += 1;
                        assert_eq!(pair.0, pair.1);
                        drop(pair);
                        engine.op("step").run(Write(&x), |pair| *pair = (pair.0 + 1, pair.1 + 1)).unwrap();
                        let pair = x.read().unwrap();
                        assert_eq!(pair.0, pair.1);
                    }
                });
            }
        });
        assert_eq!(*x.read().unwrap(), (6 * rounds, 6 * rounds));
    });
}

/// What would wait for ever is an error.
#[test]
fn a_thread_is_refused_to_wait_for_its_own_guard() {
    on_every_engine(|engine| {
        let (x, y) = (engine.value(1), engine.value(2));
        let refused = |error: seriatim::Error| assert_says(&error, ErrorKind::BorrowConflict, &["guard", "drop"]);
        let reader = x.read().unwrap();
        refused(x.read().map(drop).unwrap_err());
        refused(x.clone().write().map(drop).unwrap_err());
        refused(engine.wait_until_unused(x.variable()).unwrap_err());
        refused(engine.wait_for_all().unwrap_err());
        refused(engine.stop().unwrap_err());
        // These do not wait for it.
        engine.wait_for_var(x.variable()).unwrap();
        let writer = y.write().unwrap();
        refused(engine.wait_for_var(y.variable()).unwrap_err());
        refused(y.read().map(drop).unwrap_err());
        drop(reader);
        refused(engine.wait_for_all().unwrap_err());
        // Another thread waits, and says for what.
        std::thread::scope(|scope| {
            let waits = || engine.wait_for_var_timeout(y.variable(), Duration::from_millis(1)).unwrap_err();
            assert_says(&scope.spawn(waits).join().unwrap(), ErrorKind::TimedOut, &["guard"]);
        });
        drop(writer);
        engine.wait_for_all().unwrap();
        assert_eq!((*x.write().unwrap(), *y.read().unwrap()), (1, 2));
    });
}

#[test]
fn a_handle_reaches_nothing_inside_an_operation() {
    on_every_engine(|engine| {
        let (x, y, said) = (engine.value(1), engine.value(2), Arc::new(AtomicUsize::new(0)));
        let (captured, own, heard) = (x.clone(), y.clone(), Arc::clone(&said));
        engine
            .op("inside")
            .run(Write(&y), move |_| {
                let refused = |error: seriatim::Error| error.kind() == ErrorKind::WaitInsideOperation;
                let all = [
                    refused(captured.read().map(drop).unwrap_err()),
                    refused(captured.write().map(drop).unwrap_err()),
                    refused(own.read().map(drop).unwrap_err()),
                    refused(own.write().map(drop).unwrap_err()),
                ];
                heard.store(all.into_iter().filter(|refused| *refused).count(), SeqCst);
            })
            .unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(said.load(SeqCst), 4);
    });
}

/// On the naive engine the drop of a guard runs what it makes ready.
#[test]
fn operations_behind_a_guard_run_when_it_is_dropped() {
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    let x = engine.value(0);
    let guard = x.write().unwrap();
    for _ in 0..100 {
        engine.op("step").run(Write(&x), |x| *x += 1).unwrap();
    }
    assert_eq!((*guard, engine.version(x.variable()).unwrap()), (0, 0));
    drop(guard);
    assert_eq!(engine.version(x.variable()).unwrap(), 101);
    assert_eq!(*x.read().unwrap(), 100);
}

#[test]
fn a_stopped_engine_gives_guards() {
    on_every_engine(|engine| {
        let x = engine.value(1);
        engine.op("double").run(Write(&x), |x| *x *= 2).unwrap();
        engine.stop().unwrap();
        assert_eq!(*x.read().unwrap(), 2);
        *x.write().unwrap() += 1;
        let late = engine.op("late").run(Write(&x), |x| *x = 0);
        assert_says(&late.unwrap_err(), ErrorKind::Stopped, &[]);
        engine.start().unwrap();
        engine.op("again").run(Write(&x), |x| *x *= 2).unwrap();
        assert_eq!(*x.read().unwrap(), 6);
    });
}

#[test]
fn a_guard_keeps_its_engine_from_ending() {
    with_every_builder(|builder| {
        let engine = builder.build().unwrap();
        let x = engine.value(1);
        let mut guard = x.write().unwrap();
        drop(engine);
        *guard += 1;
        assert_eq!(*guard, 2);
        drop(guard);
        assert_says(&x.read().map(drop).unwrap_err(), ErrorKind::Stopped, &["has ended"]);
        assert_eq!(x.into_inner().unwrap(), 2);
    });
}

#[test]
fn a_guard_that_is_forgotten_keeps_its_value_locked() {
    on_every_engine(|engine| {
        let (x, done) = (engine.value(1), Arc::new(AtomicBool::new(false)));
        std::thread::scope(|scope| _ = scope.spawn(|| std::mem::forget(x.write().unwrap())));
        let says = Arc::clone(&done);
        engine.op("behind").run(&x, move |_| says.store(true, SeqCst)).unwrap();
        let waited = engine.wait_for_var_timeout(x.variable(), Duration::from_millis(1));
        assert_says(&waited.unwrap_err(), ErrorKind::TimedOut, &[]);
        assert!(!done.load(SeqCst));
        // The forgotten guard has a handle of the engine, which so does not end.
        drop((x, engine));
    });
}

#[test]
fn a_guard_takes_the_failure_once() {
    on_every_engine(|engine| {
        let x = engine.value(1);
        for round in 0..3 {
            engine.op("fails").run(Write(&x), |_| Err::<(), _>("no paper")).unwrap();
            let said = if round == 0 { x.read().map(drop) } else { x.write().map(drop) };
            assert_failed(said, "no paper");
            drop(x.write().unwrap());
            drop(x.read().unwrap());
        }
        assert_eq!(engine.version(x.variable()).unwrap(), 6);
        engine.wait_for_all().unwrap();
    });
}
