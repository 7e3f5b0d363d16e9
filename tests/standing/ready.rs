//! Operations that become ready, or are pushed, where a thread takes a long one.

use crate::common::*;
use crate::{engines, is_soon, outlast};
use seriatim::{Engine, IdlePolicy, Kind, RunContext};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A worker ends a write on which reads are parked, the first of them long, while the other worker
/// has something to do.
#[test]
fn what_becomes_ready_with_a_long_operation() {
    let _watchdog = Watchdog::new(200, "ready with a long operation");
    for (engine, reads) in engines().zip([8, 20_000]).chain(engines().zip([20_000, 8])) {
        let x = engine.new_variable();
        let [write, other] = [Gate::new(), Gate::new()];
        let stand = write.clone();
        engine.op("write").write(x).push(move |_| stand.pass()).unwrap();
        write.wait_for_someone();
        let (ran, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (begins, short) = (Arc::clone(&begun), Arc::clone(&ran));
        let long = move |_: &RunContext<'_>| {
            begins.store(true, SeqCst);
            outlast(&short, reads);
        };
        engine.op("long").read(x).push(long).unwrap();
        for _ in 0..reads {
            engine.op("short").read(x).push(counting(&ran)).unwrap();
        }
        // Behind them: so the other worker has parked them when it comes here.
        let stand = other.clone();
        engine.op("other").push(move |_| stand.pass()).unwrap();
        other.wait_for_someone();
        write.open();
        eventually("the long one begins", || begun.load(SeqCst));
        let began = Instant::now();
        other.open();
        is_soon("short reads", began, &ran, reads);
        engine.wait_for_all().unwrap();
    }
}

/// An operation pushes others, the long way, and then takes its time.
#[test]
fn what_a_long_operation_pushes() {
    let _watchdog = Watchdog::new(200, "pushed by a long operation");
    for engine in engines() {
        let (ran, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (child, begins, inner) = (Arc::clone(&ran), Arc::clone(&begun), engine.clone());
        let long = move |_: &RunContext<'_>| {
            for _ in 0..10 {
                let (count, large) = (counting(&child), [1_u8; 200]);
                let child = move |run: &RunContext<'_>| {
                    std::hint::black_box(&large);
                    count(run);
                };
                inner.op("child").priority(1).push(child).unwrap();
            }
            begins.store(true, SeqCst);
            outlast(&child, 10);
        };
        engine.op("long").push(long).unwrap();
        eventually("the long one begins", || begun.load(SeqCst));
        is_soon("its children", Instant::now(), &ran, 10);
        engine.wait_for_all().unwrap();
    }
}

/// A worker parks what a thread pushes that never pauses, and an operation gets ready that counts
/// its runs. Says whether it ran meanwhile: not if the worker comes to it only behind the row, or
/// has no core.
fn runs_beside_a_row(engine: &Engine, get_ready: impl FnOnce(), ran: &AtomicUsize) -> bool {
    let x = engine.new_variable();
    let row = hold(engine, &[], &[x]);
    let mut get_ready = Some(get_ready);
    for pushed in 0..1_000_000 {
        engine.op("row").read(x).push(nothing).unwrap();
        if pushed == 200_000 {
            get_ready.take().unwrap()();
        }
        if ran.load(Relaxed) == 1 {
            break;
        }
    }
    let has_run = ran.load(SeqCst) == 1;
    row.complete();
    engine.wait_for_all().unwrap();
    has_run
}

/// Of several tries one must do: a thread may lose its core for as long as one takes.
fn a_try_does(mut run: impl FnMut(&Engine) -> bool) {
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let make = || Engine::builder().kind(kind).cpu_workers(1).waiters_help(false).build().unwrap();
        assert!((0..3).any(|_| run(&make())), "{kind}: a worker parks a row and looks at nothing else");
    }
}

/// Each operation of a row makes the next one ready. In the middle of it the worker takes a turn at
/// its log, where a long operation comes first.
#[test]
fn what_is_ready_when_a_worker_takes_a_long_operation_out_of_its_log() {
    const ROW: usize = 1_000;
    let _watchdog = Watchdog::new(200, "a long operation in a log");
    for engine in engines() {
        let x = engine.new_variable();
        let held = hold(&engine, &[], &[x]);
        let ran = Arc::new(AtomicUsize::new(0));
        (0..ROW).for_each(|_| engine.op("row").write(x).push(counting(&ran)).unwrap());
        // When both stand there, the row is parked.
        let gates = [Gate::new(), Gate::new()];
        for gate in &gates {
            let stand = gate.clone();
            engine.op("gate").push(move |_| stand.pass()).unwrap();
            gate.wait_for_someone();
        }
        let begun = Arc::new(AtomicBool::new(false));
        // Enough for both logs.
        for _ in 0..100 {
            let (begun, row) = (Arc::clone(&begun), Arc::clone(&ran));
            let first_is_long = move |_: &RunContext<'_>| {
                if !begun.swap(true, SeqCst) {
                    outlast(&row, ROW);
                }
            };
            engine.op("first is long").push(first_is_long).unwrap();
        }
        held.complete();
        gates[0].open();
        eventually("the long one begins", || begun.load(SeqCst));
        let began = Instant::now();
        gates[1].open();
        is_soon("the row", began, &ran, ROW);
        engine.wait_for_all().unwrap();
    }
}

/// It comes into the inbox of the worker.
#[test]
fn what_becomes_ready_beside_a_row_that_waits() {
    let _watchdog = Watchdog::new(200, "beside a row that waits");
    a_try_does(|engine| {
        let y = engine.new_variable();
        let write = hold(engine, &[], &[y]);
        let ran = Arc::new(AtomicUsize::new(0));
        engine.op("parked").read(y).push(counting(&ran)).unwrap();
        sleep(Duration::from_millis(20));
        runs_beside_a_row(engine, || write.complete(), &ran)
    });
}

/// It comes into the common inbox.
#[test]
fn what_is_urgent_beside_a_row_that_waits() {
    let _watchdog = Watchdog::new(200, "urgent beside a row that waits");
    a_try_does(|engine| {
        let ran = Arc::new(AtomicUsize::new(0));
        let count = counting(&ran);
        let push = || engine.op("urgent").priority(1).push(count).unwrap();
        runs_beside_a_row(engine, push, &ran)
    });
}

/// A thread that waits has run what makes two operations ready. It runs the long one, and the
/// worker sleeps.
#[test]
fn what_a_waiter_has_made_ready_with_a_long_operation() {
    let _watchdog = Watchdog::new(200, "a waiter beside a worker that sleeps");
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let builder = Engine::builder().kind(kind).cpu_workers(1).idle(IdlePolicy::Park);
        let engine = builder.build().unwrap();
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let (stand, ran) = (Gate::new(), Arc::new(AtomicUsize::new(0)));
        let stands = stand.clone();
        engine.op("occupies the worker").push(move |_| stands.pass()).unwrap();
        stand.wait_for_someone();
        let first = move |_: &RunContext<'_>| {
            stand.open();
            sleep(Duration::from_millis(50)); // The worker sleeps by then.
        };
        engine.op("first").write(x).push(first).unwrap();
        let (short, seen) = (Arc::clone(&ran), Arc::new(AtomicUsize::new(0)));
        let sees = Arc::clone(&seen);
        let long = move |_: &RunContext<'_>| {
            outlast(&short, 1);
            sees.store(short.load(SeqCst), SeqCst);
        };
        engine.op("long").read(x).write(y).push(long).unwrap();
        engine.op("short").read(x).push(counting(&ran)).unwrap();
        engine.wait_for_var(y).unwrap();
        assert_eq!(seen.load(SeqCst), 1, "{kind}: the worker was not called");
        engine.wait_for_all().unwrap();
    }
}

/// More threads wait than have places in which to lend. One that has none makes a long operation
/// ready, and with it another.
#[test]
fn what_a_waiter_without_a_place_has_made_ready() {
    let _watchdog = Watchdog::new(200, "a waiter without a place");
    /// As many as have places.
    const OTHERS: usize = 16;
    const WORKERS: usize = 2;
    struct Opens(Gate);
    impl Drop for Opens {
        fn drop(&mut self) {
            self.0.open();
        }
    }
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(WORKERS).pin(false).build().unwrap();
        let [workers, waiters] = [Gate::new(), Gate::new()];
        let inside = Arc::new(AtomicUsize::new(0));
        let [x, y, z, other] = [(); 4].map(|()| engine.new_variable());
        let held = hold(&engine, &[], &[x]);
        engine.op("first").read(x).write(y).push(nothing).unwrap();
        let (ran, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (begins, open, other_ran) = (Arc::clone(&begun), workers.clone(), Arc::clone(&ran));
        let long = move |_: &RunContext<'_>| {
            begins.store(true, SeqCst);
            open.open();
            outlast(&other_ran, 1);
        };
        engine.op("long").read(y).write(z).push(long).unwrap();
        engine.op("other").read(y).write(other).push(counting(&ran)).unwrap();
        for _ in 0..WORKERS + OTHERS {
            let (workers, waiters, inside) = (workers.clone(), waiters.clone(), Arc::clone(&inside));
            let stand = move |run: &RunContext<'_>| {
                inside.fetch_add(1, SeqCst);
                let gate = if run.worker().is_some() { workers } else { waiters };
                gate.pass();
            };
            engine.op("stand").push(stand).unwrap();
        }
        std::thread::scope(|scope| {
            for _ in 0..OTHERS {
                scope.spawn(|| engine.wait_for_all().unwrap());
            }
            // Opened at the end, also if that is a failure.
            let _opens = Opens(waiters);
            eventually("all stand", || inside.load(SeqCst) == WORKERS + OTHERS);
            held.complete();
            scope.spawn(|| engine.wait_for_var(z).unwrap());
            eventually("the long one begins", || begun.load(SeqCst));
            is_soon("the other one", Instant::now(), &ran, 1);
        });
    }
}
