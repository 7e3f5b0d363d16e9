//! Waiting until nothing uses a variable, and what else changes while an engine runs: nested
//! threads, the record of one operation, the I/O worker beside the workers that compute.

use crate::common::*;
use seriatim::{Engine, ErrorKind, Kind, Property, RunContext};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{mpsc, Arc};
use std::thread::ThreadId;
use std::time::Duration;

#[test]
fn a_wait_until_unused_waits_for_readers_and_writers() {
    let _watchdog = Watchdog::new(60, "unused");
    on_every_engine(|engine| {
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        engine.wait_until_unused(x).unwrap();
        for (reads, writes) in [(vec![x], vec![]), (vec![x], vec![y]), (vec![], vec![x])] {
            let held = hold(&engine, &reads, &writes);
            let version = engine.version(x).unwrap();
            let timed = engine.wait_until_unused_timeout(x, Duration::from_millis(5));
            assert_eq!(timed.unwrap_err().kind(), ErrorKind::TimedOut);
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| {
                    engine.wait_until_unused(x).unwrap();
                    assert!(over.load(SeqCst), "the operation still uses it");
                });
                std::thread::sleep(Duration::from_millis(5));
                over.store(true, SeqCst);
                held.complete();
                waiter.join().unwrap();
            });
            assert_eq!(engine.version(x).unwrap(), version + u64::from(writes.contains(&x)));
        }
    });
}

#[test]
fn waits_until_unused_lose_nothing_beside_pushers() {
    let _watchdog = Watchdog::new(120, "unused beside pushers");
    on_every_engine(|engine| {
        let (x, inside) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)));
        let pushed = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for pusher in 0..2 {
                let (engine, pushed, inside) = (&engine, &pushed, &inside);
                scope.spawn(move || {
                    for turn in 0..2_000 {
                        let ran = Arc::clone(inside);
                        let body = move |_: &seriatim::RunContext<'_>| _ = ran.fetch_add(1, SeqCst);
                        let operation = engine.op("use");
                        let operation =
                            if (turn + pusher) % 3 == 0 { operation.writes([x]) } else { operation.reads([x]) };
                        operation.push(body).unwrap();
                        pushed.fetch_add(1, SeqCst);
                    }
                });
            }
            for _ in 0..200 {
                let before = pushed.load(SeqCst);
                engine.wait_until_unused(x).unwrap();
                assert!(inside.load(SeqCst) >= before, "what was pushed before has not ended");
            }
        });
        engine.wait_for_all().unwrap();
        assert_eq!(inside.load(SeqCst), 4_000);
    });
}

#[test]
fn a_wait_until_unused_returns_and_clears_the_error() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        engine.op("fails").writes([x]).push(|_| Err("no")).unwrap();
        let error = engine.wait_until_unused(x).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OperationFailed);
        engine.wait_until_unused(x).unwrap();
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn blocking_io_takes_no_worker_that_computes() {
    let _watchdog = Watchdog::new(60, "I/O beside computation");
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(1).waiters_help(false).build().unwrap();
        let (open, gate) = mpsc::channel::<()>();
        let (x, y) = (engine.new_variable(), engine.new_variable());
        engine.op("read").writes([x]).property(Property::Io).push(move |_| _ = gate.recv()).unwrap();
        engine.op("compute").writes([y]).push(nothing).unwrap();
        engine.wait_for_var(y).unwrap();
        drop(open);
        engine.wait_for_var(x).unwrap();
    }
}

/// It takes no turn from what computes, even if all workers that compute are idle.
#[test]
fn what_blocks_runs_on_a_thread_of_its_own() {
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(2).waiters_help(false).build().unwrap();
        let threads = |property: Property| -> HashSet<ThreadId> {
            let (send, seen) = mpsc::channel();
            for _ in 0..100 {
                let send = send.clone();
                let body = move |_: &RunContext<'_>| _ = send.send(std::thread::current().id());
                engine.op("where").property(property).push(body).unwrap();
            }
            engine.wait_for_all().unwrap();
            seen.try_iter().collect()
        };
        let [computes, blocks] = [Property::Normal, Property::Io].map(threads);
        assert_eq!(blocks.len(), 1, "{kind}: one runs at a time");
        assert!(computes.is_disjoint(&blocks), "{kind}: {blocks:?} also computes: {computes:?}");
    }
}

#[test]
fn nested_threads_change_for_operations_that_begin_later() {
    on_every_engine(|engine| {
        let seen = |engine: &Engine| {
            let (send, receive) = mpsc::channel();
            engine.op("asks").push(move |run| _ = send.send(run.nested_threads())).unwrap();
            engine.wait_for_all().unwrap();
            receive.recv().unwrap()
        };
        assert_eq!(seen(&engine), 1);
        engine.set_nested_threads(5).unwrap();
        assert_eq!(seen(&engine), 5);
        for bad in [0, 1025] {
            assert_eq!(engine.set_nested_threads(bad).unwrap_err().kind(), ErrorKind::BadSetting);
        }
        assert_eq!(seen(&engine), 5);
    });
}

#[test]
fn one_operation_is_recorded_where_none_else_is() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        for turn in 0..6 {
            let operation = engine.op("turn").writes([x]);
            let operation = if turn == 3 { operation.profiled() } else { operation };
            operation.push(nothing).unwrap();
            // Without a name nothing is recorded.
            engine.op("").writes([x]).profiled().push(nothing).unwrap();
        }
        let operator = engine.op("operator").writes([x]).profiled().operator(|_| ()).unwrap();
        engine.push(&operator, seriatim::Context::default(), 0).unwrap();
        engine.wait_for_all().unwrap();
        let profile = engine.profile();
        let names: Vec<&str> = profile.events().iter().map(|event| event.name).collect();
        assert_eq!(names, ["turn", "operator"]);
    });
}
