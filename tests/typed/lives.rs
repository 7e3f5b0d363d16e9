//! A value lives until its last use is over, whatever becomes of its handles, its variable and its
//! engine, and is dropped once.

use crate::common::*;
use seriatim::{Context, Engine, ErrorKind, Kind, Value, Variable, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::Arc;

/// A value that counts its drops, and that is not to be seen afterwards.
struct Counted(Arc<AtomicUsize>, Box<u64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
        *self.1 = 0xdead;
    }
}

fn counted() -> (Counted, Arc<AtomicUsize>) {
    let drops = Arc::new(AtomicUsize::new(0));
    (Counted(Arc::clone(&drops), Box::new(7)), drops)
}

#[test]
fn a_value_outlives_its_handles_while_operations_use_it() {
    on_every_engine(|engine| {
        let (value, drops) = counted();
        let (x, gate, sum) = (engine.value(value), engine.new_variable(), Arc::new(AtomicUsize::new(0)));
        let first = hold(&engine, &[], &[gate]);
        for _ in 0..20 {
            let sum = Arc::clone(&sum);
            engine
                .op("use")
                .read(gate)
                .run(Write(&x), move |x| {
                    *x.1 += 1;
                    sum.fetch_add(*x.1 as usize, SeqCst);
                })
                .unwrap();
        }
        drop((x.clone(), x));
        assert_eq!((drops.load(SeqCst), sum.load(SeqCst)), (0, 0));
        first.complete();
        engine.wait_for_all().unwrap();
        assert_eq!((drops.load(SeqCst), sum.load(SeqCst)), (1, (8..28).sum()));
    });
}

#[test]
fn a_value_is_dropped_by_the_last_of_handles_graphs_and_operators() {
    on_every_engine(|engine| {
        let ((x, of_graph), (y, of_operator)) = (counted(), counted());
        let (x, y) = (engine.value(x), engine.value(y));
        let (graph, ()) = engine.capture(|c| c.op("step").run(Write(&x), |x| *x.1 += 1)).unwrap();
        let step = engine.op("step").operator_on(Write(&y), |y| *y.1 += 1).unwrap();
        drop((x, y));
        for _ in 0..2 {
            graph.replay().unwrap();
            engine.push(&step, Context::cpu(0), 0).unwrap();
        }
        engine.wait_for_all().unwrap();
        assert_eq!((of_graph.load(SeqCst), of_operator.load(SeqCst)), (0, 0));
        drop((graph, step));
        engine.wait_for_all().unwrap();
        // A graph may be let go of a moment after its last replay.
        let all = || (of_graph.load(SeqCst), of_operator.load(SeqCst));
        eventually("the last users have dropped them", || all() == (1, 1));
    });
}

#[test]
fn a_value_is_dropped_though_its_operations_are_skipped() {
    on_every_engine(|engine| {
        let (value, drops) = counted();
        let x = engine.value(value);
        engine.op("fails").run(Write(&x), |_| Err::<(), _>("no")).unwrap();
        engine.op("skipped").run(Write(&x), |x| *x.1 = 0).unwrap();
        drop(x);
        assert_failed(engine.wait_for_all(), "no");
        assert_eq!(drops.load(SeqCst), 1);
        let (value, drops) = counted();
        let x = engine.value(value);
        engine.notify_shutdown();
        engine.op("skipped").run(Write(&x), |x| *x.1 = 0).unwrap();
        drop(x);
        engine.wait_for_all().unwrap();
        assert_eq!(drops.load(SeqCst), 1);
    });
}

#[test]
fn a_destructor_that_panics_fails_its_operation() {
    struct Panics(#[allow(dead_code)] u8);
    impl Drop for Panics {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("while it is dropped"));
        }
    }
    let engine = Engine::builder().cpu_workers(1).waiters_help(false).build().unwrap();
    let (x, gate) = (engine.value(Panics(1)), engine.new_variable());
    let first = hold(&engine, &[], &[gate]);
    engine.op("use").read(gate).run(&x, |_| ()).unwrap();
    drop(x);
    first.complete();
    let error = engine.wait_for_all().unwrap_err();
    assert_says(&error, ErrorKind::OperationPanicked, &["drop value", "while it is dropped"]);
}

#[test]
fn a_stopped_engine_and_one_that_has_ended_let_values_go_at_once() {
    with_every_builder(|builder| {
        let engine = builder.build().unwrap();
        let ([a, b], drops): ([Value<Counted>; 2], Vec<_>) = {
            let (values, drops): (Vec<_>, Vec<_>) = [counted(), counted()].into_iter().unzip();
            let mut values = values.into_iter().map(|value| engine.value(value));
            ([values.next().unwrap(), values.next().unwrap()], drops)
        };
        engine.op("use").run([Write(&a), Write(&b)], |[a, b]| std::mem::swap(&mut a.1, &mut b.1)).unwrap();
        engine.stop().unwrap();
        drop(a);
        assert_eq!(drops[0].load(SeqCst), 1);
        engine.start().unwrap();
        drop(engine);
        drop(b);
        assert_eq!(drops[1].load(SeqCst), 1);
    });
}

/// Raw handles of the variable can end it. They reach no value, and free none.
#[test]
fn a_value_survives_the_deletion_of_its_variable() {
    with_every_builder(|builder| {
        let engine = builder.build().unwrap();
        let (value, drops) = counted();
        let (x, gate) = (engine.value(value), engine.new_variable());
        let (first, seen) = (hold(&engine, &[], &[gate]), Arc::new(AtomicUsize::new(0)));
        let sees = Arc::clone(&seen);
        engine.op("use").read(gate).run(&x, move |x| sees.store(*x.1 as usize, SeqCst)).unwrap();
        let forged = Variable::from_raw(x.variable().into_raw());
        engine.delete_variable(|_| (), Context::cpu(0), forged).unwrap();
        assert_says(&engine.op("late").run(&x, |_| ()).unwrap_err(), ErrorKind::VariableDeleted, &[]);
        assert_says(&x.read().map(drop).unwrap_err(), ErrorKind::VariableDeleted, &[]);
        drop(x);
        assert_eq!(drops.load(SeqCst), 0, "an operation still uses it");
        first.complete();
        engine.wait_for_all().unwrap();
        assert_eq!((seen.load(SeqCst), drops.load(SeqCst)), (7, 0));
        // Its slot may be another value's by now.
        let others: Vec<Value<u64>> = (0..100).map(|number| engine.value(number)).collect();
        engine.op("others").run(Write(&others[..]), |mut others| others[0] = 1).unwrap();
        engine.stop().unwrap();
        assert_eq!(drops.load(SeqCst), 1);
    });
}

/// The value is the engine's then, which drops it when it stops.
fn deleted_under_its_handle<T: Send + 'static>(engine: &Engine, value: T) {
    let x = engine.value(value);
    engine.delete_variable(|_| (), Context::cpu(0), Variable::from_raw(x.variable().into_raw())).unwrap();
}

/// Its destructor is not called under a lock of the engine.
#[test]
fn a_value_that_the_engine_has_kept_may_call_the_engine_when_it_is_dropped() {
    struct Calls(Engine, Arc<AtomicUsize>);
    impl Drop for Calls {
        fn drop(&mut self) {
            self.0.stop().unwrap();
            self.0.start().unwrap();
            self.0.op("again").push(counting(&self.1)).unwrap();
            self.0.wait_for_all().unwrap();
            std::panic::resume_unwind(Box::new("while it is dropped"));
        }
    }
    let _watchdog = Watchdog::new(60, "a destructor that stops the engine");
    on_every_engine(|engine| {
        let ran = Arc::new(AtomicUsize::new(0));
        (0..2).for_each(|_| deleted_under_its_handle(&engine, Calls(engine.clone(), Arc::clone(&ran))));
        let (value, drops) = counted();
        deleted_under_its_handle(&engine, value);
        assert_eq!((ran.load(SeqCst), drops.load(SeqCst)), (0, 0));
        engine.stop().unwrap();
        assert_eq!((ran.load(SeqCst), drops.load(SeqCst)), (2, 1));
    });
}

#[test]
fn into_inner_waits_and_takes_the_value_of_the_last_handle() {
    on_every_engine(|engine| {
        let (value, drops) = counted();
        let x = engine.value(value);
        let (open, gate) = (Arc::new(AtomicBool::new(false)), engine.new_variable());
        let first = hold(&engine, &[], &[gate]);
        engine.op("use").read(gate).run(Write(&x), |x| *x.1 += 1).unwrap();
        assert_says(&x.clone().into_inner().map(drop).unwrap_err(), ErrorKind::BorrowConflict, &["other handles"]);
        std::thread::scope(|scope| {
            let opens = Arc::clone(&open);
            scope.spawn(move || {
                opens.store(true, SeqCst);
                first.complete();
            });
            let value = x.into_inner().unwrap();
            assert!(open.load(SeqCst));
            assert_eq!((*value.1, drops.load(SeqCst)), (8, 0));
        });
        engine.wait_for_all().unwrap();
        assert_eq!(drops.load(SeqCst), 1);
        // One that is marked is lost with its handle.
        let (value, drops) = counted();
        let x = engine.value(value);
        engine.op("fails").run(Write(&x), |_| Err::<(), _>("no")).unwrap();
        assert_failed(x.into_inner().map(drop), "no");
        engine.wait_for_all().unwrap();
        assert_eq!(drops.load(SeqCst), 1);
    });
}

#[test]
fn values_come_and_go_without_end() {
    on_every_engine(|engine| {
        let (rounds, total) = (by_length(300, 10_000), engine.value(0_usize));
        for round in 0..if cfg!(miri) { 10 } else { rounds } {
            let (x, tiles) = (engine.value(vec![round]), engine.tiles(vec![round; 4], 2));
            engine.op("use").run((Write(&x), &tiles[..]), |(x, tiles)| x.extend(&tiles[1])).unwrap();
            engine.op("sum").run((&x, Write(&total)), |(x, total)| *total += x.len()).unwrap();
        }
        assert_eq!(*total.read().unwrap(), 3 * if cfg!(miri) { 10 } else { rounds });
    });
}

/// An operation may make values, push operations on its own, and drop handles.
#[test]
fn operations_make_and_drop_values() {
    on_every_engine(|engine| {
        let total = engine.value(0_u64);
        for round in 0..if cfg!(miri) { 3 } else { 50 } {
            let (inner, sum) = (engine.clone(), total.clone());
            engine
                .op("outer")
                .run(Write(&total), move |total| {
                    *total += 1;
                    let own = inner.value(round);
                    inner.op("inner").run((&own, Write(&sum)), |(own, sum)| *sum += own).unwrap();
                    drop(own);
                })
                .unwrap();
        }
        engine.wait_for_all().unwrap();
        let rounds: u64 = if cfg!(miri) { 3 } else { 50 };
        assert_eq!(*total.read().unwrap(), rounds + rounds * (rounds - 1) / 2);
    });
}

#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn values_go_through_a_fork() {
    run_child_well(&mut child("fork"));
    run_child_well(&mut child("fork beside a guard"));
    run_child_well(&mut child("fork before a guard is dropped"));
    run_child_well(&mut child("fork with a value that the engine keeps"));
}

/// The program has not stopped the engine, so the value stays: destructors would run under the
/// locks that the fork has.
pub fn fork_with_a_kept_value() {
    for kind in [Kind::Naive, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(1).build().unwrap();
        let (value, drops) = counted();
        deleted_under_its_handle(&engine, value);
        engine.wait_for_all().unwrap();
        let stays_until_a_stop = || {
            assert_eq!(drops.load(SeqCst), 0);
            engine.stop().unwrap();
            assert_eq!(drops.load(SeqCst), 1);
        };
        fork_and(stays_until_a_stop);
        stays_until_a_stop();
    }
}

/// The child has the value as it was, and goes on with it.
pub fn fork() {
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(2).build().unwrap();
        let (value, drops) = counted();
        let x = engine.value(value);
        (0..100).for_each(|_| engine.op("step").run(Write(&x), |x| *x.1 += 1).unwrap());
        fork_and(|| {
            assert_eq!(*x.read().unwrap().1, 107);
            engine.op("in the child").run(Write(&x), |x| *x.1 = 1).unwrap();
            assert_eq!(*x.read().unwrap().1, 1);
        });
        assert_eq!(*x.write().unwrap().1, 107);
        drop(x);
        engine.wait_for_all().unwrap();
        assert_eq!(drops.load(SeqCst), 1);
    }
}

/// A guard is in flight, so the engine cannot be stopped for the fork, and is abandoned in the
/// child: nothing is lent there, and the value is not dropped under a guard that still is there.
pub fn fork_beside_a_guard() {
    let engine = Engine::builder().fork_patience(std::time::Duration::from_millis(20)).build().unwrap();
    let (value, drops) = counted();
    let (x, y) = (engine.value(value), engine.value(1));
    let guard = x.write().unwrap();
    fork_and(|| {
        assert_eq!(*guard.1, 7);
        assert_says(&y.read().map(drop).unwrap_err(), ErrorKind::Stopped, &["forked"]);
        assert_says(&engine.op("late").run(&y, |_| ()).unwrap_err(), ErrorKind::Stopped, &[]);
    });
    drop(guard);
    drop(x);
    engine.wait_for_all().unwrap();
    assert_eq!((drops.load(SeqCst), *y.read().unwrap()), (1, 1));
}

/// The naive engine runs what is behind a guard on the thread that drops it, but not in the child.
pub fn fork_before_a_guard_is_dropped() {
    for kind in [Kind::Naive, Kind::PerDevice] {
        let patience = std::time::Duration::from_millis(20);
        let engine = Engine::builder().kind(kind).cpu_workers(1).fork_patience(patience).build().unwrap();
        let ((value, drops), (other, others)) = (counted(), counted());
        let (x, y, calls) = (engine.value(value), engine.value(other), Arc::new(AtomicUsize::new(0)));
        let guard = x.write().unwrap();
        let (captured, of_closure) = counted();
        let count = Arc::clone(&calls);
        let uses = move |(x, _): (&mut Counted, &mut Counted)| {
            *x.1 += *captured.1;
            count.fetch_add(1, SeqCst);
        };
        engine.op("behind").run((Write(&x), Write(&y)), uses).unwrap();
        drop(y);
        let seen = || [&calls, &drops, &others, &of_closure].map(|count| count.load(SeqCst));
        // Each side drops its own copy of the guard.
        let guard = std::cell::RefCell::new(Some(guard));
        fork_and(|| {
            drop(guard.take());
            assert_eq!(seen(), [0; 4], "{kind}: something of the parent's has ended in the child");
        });
        drop(guard);
        engine.wait_for_all().unwrap();
        assert_eq!(seen(), [1, 0, 1, 1], "{kind}");
        assert_eq!(*x.read().unwrap().1, 14);
    }
}
