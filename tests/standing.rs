//! Nothing stands still behind a long operation: what a worker will run next, others can take.

mod common;

use common::*;
use seriatim::{Engine, IdlePolicy, Kind, RunContext};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(2);
/// What is not behind the long operation has run by then.
const SOON: Duration = Duration::from_millis(500);

/// Waits until `ran` has come to `count`; the long operation has begun by `began`.
fn is_soon(what: &str, began: Instant, ran: &AtomicUsize, count: usize) {
    eventually(what, || ran.load(SeqCst) == count);
    let took = began.elapsed();
    assert!(took < SOON, "{what}: only after {took:?}, behind an operation that takes {LONG:?}");
}

fn engines() -> impl Iterator<Item = Engine> {
    [Kind::Pooled, Kind::PerDevice]
        .into_iter()
        .map(|kind| Engine::builder().kind(kind).cpu_workers(2).waiters_help(false).build().unwrap())
}

/// A worker ends a write on which nine reads are parked, the first of them long, while the other
/// worker has something to do.
#[test]
fn what_becomes_ready_with_a_long_operation() {
    let _watchdog = Watchdog::new(200, "ready with a long operation");
    for engine in engines() {
        let x = engine.new_variable();
        let [write, other] = [Gate::new(), Gate::new()];
        let stand = write.clone();
        engine.op("write").write(x).push(move |_| stand.pass()).unwrap();
        write.wait_for_someone();
        let (ran, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let begins = Arc::clone(&begun);
        let long = move |_: &RunContext<'_>| {
            begins.store(true, SeqCst);
            sleep(LONG);
        };
        engine.op("long").read(x).push(long).unwrap();
        for _ in 0..8 {
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
        is_soon("short reads", began, &ran, 8);
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
            sleep(LONG);
        };
        engine.op("long").push(long).unwrap();
        eventually("the long one begins", || begun.load(SeqCst));
        is_soon("its children", Instant::now(), &ran, 10);
        engine.wait_for_all().unwrap();
    }
}

/// Two urgent operations come at once, the first of them long, and the other worker has a long row.
#[test]
fn what_is_urgent_beside_a_long_urgent_operation() {
    let _watchdog = Watchdog::new(200, "urgent beside urgent");
    for engine in engines() {
        let gates = [Gate::new(), Gate::new()];
        for gate in &gates {
            let stand = gate.clone();
            engine.op("gate").push(move |_| stand.pass()).unwrap();
            gate.wait_for_someone();
        }
        let stream = |_: &RunContext<'_>| spin(Duration::from_micros(20));
        for _ in 0..100_000 {
            engine.op("stream").push(stream).unwrap();
        }
        let (ran, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let begins = Arc::clone(&begun);
        let long = move |_: &RunContext<'_>| {
            begins.store(true, SeqCst);
            sleep(LONG);
        };
        engine.op("long").priority(1).push(long).unwrap();
        engine.op("urgent").priority(1).push(counting(&ran)).unwrap();
        gates[0].open();
        eventually("the long one begins", || begun.load(SeqCst));
        gates[1].open();
        is_soon("the urgent one", Instant::now(), &ran, 1);
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
        engine.op("row").read(x).push(|_| ()).unwrap();
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
            let began = Instant::now();
            while short.load(SeqCst) == 0 && began.elapsed() < Duration::from_secs(10) {
                sleep(Duration::from_millis(1));
            }
            sees.store(short.load(SeqCst), SeqCst);
        };
        engine.op("long").read(x).write(y).push(long).unwrap();
        engine.op("short").read(x).push(counting(&ran)).unwrap();
        engine.wait_for_var(y).unwrap();
        assert_eq!(seen.load(SeqCst), 1, "{kind}: the worker was not called");
        engine.wait_for_all().unwrap();
    }
}
