//! The end of an engine, and many engines.

use crate::common::*;
use seriatim::{Engine, IdlePolicy, Kind, Property, RunContext, Variable};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn dropping_an_engine_runs_what_is_in_flight() {
    let _watchdog = Watchdog::new(120, "the drop of a busy engine");
    with_every_builder(|builder| {
        for helps in [true, false] {
            let engine = builder.clone().waiters_help(helps).build().unwrap();
            let ran = Arc::new(AtomicUsize::new(0));
            let shared: Vec<Variable> = (0..10).map(|_| engine.new_variable()).collect();
            let mut random = Random(1);
            for _ in 0..5_000 {
                let builder = engine.op("step").reads([random.pick(&shared)]).writes([random.pick(&shared)]);
                builder.push(counting(&ran)).unwrap();
            }
            drop(engine);
            assert_eq!(ran.load(SeqCst), 5_000);
        }
    });
}

#[test]
fn dropping_an_engine_waits_for_what_is_behind_an_asynchronous_operation() {
    let _watchdog = Watchdog::new(120, "the drop of an engine that waits for a completion");
    on_every_engine(|engine| {
        let ran = Arc::new(AtomicUsize::new(0));
        let x = engine.new_variable();
        let completion = hold(&engine, &[], &[x]);
        (0..2_000).for_each(|_| engine.op("behind").writes([x]).push(counting(&ran)).unwrap());
        let completer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(10));
            completion.complete();
        });
        let clone = engine.clone();
        drop(engine);
        drop(clone);
        assert_eq!(ran.load(SeqCst), 2_000);
        completer.join().unwrap();
    });
}

#[test]
fn the_last_handle_may_go_inside_an_operation() {
    run_child_well(&mut child("last handle"));
}

/// In a process of its own, to see the threads end.
pub fn last_handle_inside() {
    let _watchdog = Watchdog::new(60, "the threads of an engine whose last handle went inside an operation");
    let others = thread_count();
    with_every_builder(|builder| {
        let ran = Arc::new(AtomicUsize::new(0));
        let engine = builder.build().unwrap();
        let x = engine.new_variable();
        let first = hold(&engine, &[], &[x]);
        (0..100).for_each(|_| engine.op("before").writes([x]).push(counting(&ran)).unwrap());
        let last = Arc::new(Mutex::new(None::<Engine>));
        let own = Arc::clone(&last);
        let count = counting(&ran);
        let body = move |run: &RunContext<'_>| {
            count(run);
            let last = own.lock().unwrap().take().expect("it was put there before");
            last.op("nested").writes([x]).push(count).unwrap();
            drop(last);
        };
        engine.op("drops it").writes([x]).push(body).unwrap();
        (0..100).for_each(|_| engine.op("behind").writes([x]).push(counting(&ran)).unwrap());
        *last.lock().unwrap() = Some(engine);
        first.complete();
        eventually("everything has run", || ran.load(SeqCst) == 202);
        eventually("all threads have ended", || thread_count() == others);
    });
}

#[test]
fn the_last_handle_may_go_with_a_closure_that_is_skipped() {
    run_child_well(&mut child("last handle skipped"));
}

pub fn last_handle_in_a_skipped_closure() {
    let _watchdog = Watchdog::new(90, "the drop of the last handle with a skipped closure");
    let others = thread_count();
    with_every_builder(|builder| {
        let engine = builder.build().unwrap();
        let x = engine.new_variable();
        let failing = hold(&engine, &[], &[x]);
        let last = engine.clone();
        engine.op("skipped").writes([x]).push(move |_| drop(last)).unwrap();
        let witness = Arc::new(());
        let own = Arc::clone(&witness);
        engine.op("skipped as well").writes([x]).push(move |_| drop(own)).unwrap();
        drop(engine);
        failing.fail("so the others are skipped");
        eventually("the engine is drained", || Arc::strong_count(&witness) == 1);
        eventually("all threads have ended", || thread_count() == others);
    });
}

#[test]
fn many_engines_come_and_go() {
    run_child_well(&mut child("many engines"));
}

/// In a process of its own, to count threads.
pub fn many_engines() {
    let _watchdog = Watchdog::new(100, "many engines");
    let others = thread_count();
    let ran = Arc::new(AtomicUsize::new(0));
    let use_it = |engine: &Engine| {
        let x = engine.new_variable();
        (0..50).for_each(|_| engine.op("step").writes([x]).push(counting(&ran)).unwrap());
        engine.op("copy").property(Property::CopyFromGpu).push(counting(&ran)).unwrap();
    };
    for round in 0..64 {
        let kind = [Kind::Naive, Kind::Pooled, Kind::PerDevice][round % 3];
        let engine = Engine::builder().kind(kind).cpu_workers(1 + round % 4).build().unwrap();
        use_it(&engine);
        if round % 2 == 0 {
            engine.wait_for_all().unwrap();
        }
    }
    assert_eq!(ran.load(SeqCst), 64 * 51);
    eventually("all took their threads along", || thread_count() == others);
    // Several at once, used in turn by several threads.
    let engines: Vec<Engine> =
        (0..64).map(|_| Engine::builder().cpu_workers(1).idle(IdlePolicy::Park).build().unwrap()).collect();
    let variables: Vec<Variable> = engines.iter().map(Engine::new_variable).collect();
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (engines, variables) = (engines.clone(), variables.clone());
            std::thread::spawn(move || {
                for _ in 0..10 {
                    for (engine, x) in engines.iter().zip(&variables) {
                        engine.op("step").writes([*x]).push(nothing).unwrap();
                    }
                }
                for (engine, x) in engines.iter().zip(&variables) {
                    engine.wait_for_var(*x).unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    for (engine, x) in engines.iter().zip(&variables) {
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(*x).unwrap(), 30);
    }
    eventually("each has its one worker", || thread_count() == others + 64);
    drop(engines);
    eventually("all took their threads along", || thread_count() == others);
    let memory = resident_memory();
    for _ in 0..200 {
        use_it(&Engine::builder().kind(Kind::Naive).build().unwrap());
    }
    let grown = resident_memory().saturating_sub(memory);
    assert!(grown < 16 << 20, "200 engines that are gone left {grown} bytes behind");
}
