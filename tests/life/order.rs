//! Priorities, and where operations run.

use crate::common::*;
use seriatim::{Context, Engine, Kind, Property, RunContext};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What one worker ran, in order.
type Order = Arc<Mutex<Vec<(i32, usize)>>>;

fn noting(order: &Order, priority: i32, number: usize) -> impl FnOnce(&RunContext<'_>) + Send + 'static + use<> {
    let order = Arc::clone(order);
    move |_| order.lock().unwrap().push((priority, number))
}

fn expected_order(count: usize, seed: u64) -> Vec<(i32, usize)> {
    let mut random = Random(seed);
    let mut all: Vec<(i32, usize)> = (0..count).map(|number| (random.below(7) as i32 - 3, number)).collect();
    all[count / 2].0 = i32::MAX;
    all[count / 3].0 = i32::MIN;
    all
}

/// Greater priorities first, ties in push order: a stable sort.
fn sorted(mut all: Vec<(i32, usize)>) -> Vec<(i32, usize)> {
    all.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
    all
}

fn engines_with_one_worker() -> Vec<Engine> {
    let builder = |kind| Engine::builder().kind(kind).cpu_workers(1).priority_workers(1).waiters_help(false);
    [Kind::Pooled, Kind::PerDevice].map(|kind| builder(kind).build().unwrap()).into()
}

#[test]
fn greater_priorities_run_first_and_equal_ones_in_push_order() {
    for engine in engines_with_one_worker() {
        for property in [Property::Normal, Property::CpuPrioritized, Property::NoSkip, Property::CopyToGpu] {
            let (order, gate) = (Order::default(), Gate::new());
            let all = expected_order(500, 1);
            let inner = gate.clone();
            engine.op("occupies the worker").property(property).push(move |_| inner.pass()).unwrap();
            gate.wait_for_someone();
            for (priority, number) in &all {
                let builder = engine.op("step").property(property).priority(*priority);
                builder.push(noting(&order, *priority, *number)).unwrap();
            }
            gate.open();
            engine.wait_for_all().unwrap();
            assert_eq!(*order.lock().unwrap(), sorted(all), "{} engine, {property:?}", engine.kind());
        }
    }
}

#[test]
fn priorities_hold_for_operations_that_another_thread_makes_ready() {
    for engine in engines_with_one_worker() {
        let (order, gate, x) = (Order::default(), Gate::new(), engine.new_variable());
        let all = expected_order(500, 2);
        let first = hold(&engine, &[], &[x]);
        for (priority, number) in &all {
            let builder = engine.op("step").reads([x]).priority(*priority);
            builder.push(noting(&order, *priority, *number)).unwrap();
        }
        let inner = gate.clone();
        engine.op("occupies the worker").priority(i32::MAX).push(move |_| inner.pass()).unwrap();
        gate.wait_for_someone();
        first.complete();
        gate.open();
        engine.wait_for_all().unwrap();
        assert_eq!(*order.lock().unwrap(), sorted(all), "{} engine", engine.kind());
    }
}

#[test]
fn priorities_hold_for_operations_that_the_worker_itself_makes_ready() {
    for engine in engines_with_one_worker() {
        let (order, gate, x) = (Order::default(), Gate::new(), engine.new_variable());
        let all = expected_order(500, 3);
        let inner = gate.clone();
        engine.op("occupies the worker").writes([x]).push(move |_| inner.pass()).unwrap();
        for (priority, number) in &all {
            let builder = engine.op("step").reads([x]).priority(*priority);
            builder.push(noting(&order, *priority, *number)).unwrap();
        }
        gate.wait_for_someone();
        gate.open();
        engine.wait_for_all().unwrap();
        assert_eq!(*order.lock().unwrap(), sorted(all), "{} engine", engine.kind());
    }
}

#[test]
fn an_urgent_operation_overtakes_a_backlog_that_is_already_running() {
    for engine in engines_with_one_worker() {
        let position = Arc::new(AtomicUsize::new(0));
        let urgent_at = Arc::new(AtomicUsize::new(usize::MAX));
        let gate = Gate::new();
        for number in 0..2_000 {
            let (position, inner) = (Arc::clone(&position), gate.clone());
            let body = move |_: &RunContext<'_>| {
                if number == 10 {
                    inner.pass();
                }
                position.fetch_add(1, SeqCst);
            };
            engine.op("backlog").push(body).unwrap();
        }
        gate.wait_for_someone();
        let (position, seen) = (Arc::clone(&position), Arc::clone(&urgent_at));
        engine.op("urgent").priority(1).push(move |_| seen.store(position.load(SeqCst), SeqCst)).unwrap();
        gate.open();
        engine.wait_for_all().unwrap();
        assert_eq!(urgent_at.load(SeqCst), 11, "{} engine", engine.kind());
    }
}

#[test]
fn operations_are_told_where_they_run() {
    with_every_builder(|builder| {
        let engine = builder.nested_threads(3).build().unwrap();
        let workers = engine.settings().cpu_workers;
        let ran = Arc::new(AtomicUsize::new(0));
        for id in [0, 1, 2, 3, 7, 1023] {
            for context in [Context::cpu(id), Context::cpu_pinned(id)] {
                let count = counting(&ran);
                let body = move |run: &RunContext<'_>| {
                    assert_eq!((run.context(), run.name(), run.nested_threads()), (context, "where", 3));
                    assert!(run.worker().is_none_or(|worker| worker < workers));
                    count(run);
                };
                engine.push_sync(body, context, &[], &[], Property::Normal, 0, "where").unwrap();
            }
        }
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 12);
    });
}

#[test]
fn asynchronous_properties_run_on_the_pushing_thread_when_nothing_holds_them_up() {
    on_every_engine(|engine| {
        let this = std::thread::current().id();
        let ran = Arc::new(AtomicUsize::new(0));
        let x = engine.new_variable();
        let count = counting(&ran);
        let body = move |run: &RunContext<'_>| {
            assert_eq!((std::thread::current().id(), run.worker()), (this, None));
            count(run);
        };
        engine.op("starts").writes([x]).property(Property::Async).push(body.clone()).unwrap();
        assert_eq!(ran.load(SeqCst), 1, "it ran inside the push");
        engine.delete_variable(body, Context::cpu(0), x).unwrap();
        assert_eq!(ran.load(SeqCst), 2);
        engine.wait_for_all().unwrap();
    });
}

/// What an urgent operation needs is as urgent, however far behind it was pushed.
#[test]
fn what_an_urgent_operation_needs_goes_before_strangers() {
    for engine in engines_with_one_worker() {
        let (order, gate) = (Order::default(), Gate::new());
        let [first, second, other] = std::array::from_fn(|_| engine.new_variable());
        let stand = gate.clone();
        engine.op("long").push(move |_| stand.pass()).unwrap();
        gate.wait_for_someone();
        for number in 0..1000 {
            engine.op("stranger").write(other).push(noting(&order, 0, number)).unwrap();
        }
        engine.op("needed").write(first).push(noting(&order, 1, 0)).unwrap();
        engine.op("needed").read(first).write(second).push(noting(&order, 1, 1)).unwrap();
        engine.op("urgent").read(second).priority(9).push(noting(&order, 1, 2)).unwrap();
        gate.open();
        engine.wait_for_all().unwrap();
        let order = order.lock().unwrap();
        assert_eq!(order.len(), 1003);
        assert_eq!(order[..3], [(1, 0), (1, 1), (1, 2)]);
    }
}

/// Of two workers one is in a long operation. What urgent operations need lies in the logs of both,
/// so also where nobody comes along: it is as urgent for the other worker.
#[test]
fn what_an_urgent_operation_needs_goes_before_strangers_on_another_worker() {
    const ROWS: usize = 64;
    let _watchdog = Watchdog::new(120, "what urgent operations need");
    for (kind, free) in [(Kind::Pooled, 0), (Kind::Pooled, 1), (Kind::PerDevice, 0), (Kind::PerDevice, 1)] {
        let engine = Engine::builder().kind(kind).cpu_workers(2).waiters_help(false).build().unwrap();
        let (order, gates) = (Order::default(), [Gate::new(), Gate::new()]);
        let (at, other) = (Arc::new(Mutex::new([2; 2])), engine.new_variable());
        for (number, gate) in gates.iter().enumerate() {
            let (stand, at) = (gate.clone(), Arc::clone(&at));
            let body = move |run: &RunContext<'_>| {
                at.lock().unwrap()[number] = run.worker().unwrap();
                stand.pass();
            };
            engine.op("long").push(body).unwrap();
            gate.wait_for_someone();
        }
        for number in 0..1000 {
            engine.op("stranger").write(other).push(noting(&order, 0, number)).unwrap();
        }
        // So many that the pusher gives some of them to each worker: it lets none have much more
        // than another.
        let rows = [(); ROWS].map(|()| [engine.new_variable(), engine.new_variable()]);
        for (number, [first, second]) in rows.iter().enumerate() {
            engine.op("needed").write(*first).push(noting(&order, 1, number)).unwrap();
            engine.op("needed").read(*first).write(*second).push(noting(&order, 2, number)).unwrap();
        }
        for (number, [_, second]) in rows.iter().enumerate() {
            engine.op("urgent").read(*second).priority(9).push(noting(&order, 3, number)).unwrap();
        }
        let which = at.lock().unwrap().iter().position(|worker| *worker == free).expect("each is on a worker");
        gates[which].open();
        eventually("one worker runs it all", || order.lock().unwrap().len() == 1000 + 3 * ROWS);
        gates[1 - which].open();
        engine.wait_for_all().unwrap();
        let order = order.lock().unwrap();
        let strangers = order[..3 * ROWS].iter().filter(|(step, _)| *step == 0).count();
        assert_eq!(strangers, 0, "{kind}, worker {free}: strangers before what urgent operations need");
        for row in 0..ROWS {
            let steps: Vec<i32> =
                order.iter().filter(|(step, at)| *step > 0 && *at == row).map(|each| each.0).collect();
            assert_eq!(steps, [1, 2, 3], "{kind}, worker {free}: row {row}");
        }
    }
}

/// One worker is in a long operation, the other has a long row: an urgent operation waits for
/// neither.
#[test]
fn an_urgent_operation_goes_to_whoever_comes_first() {
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(2).waiters_help(false).build().unwrap();
        let (gate, ran) = (Gate::new(), Arc::new(AtomicUsize::new(0)));
        let stand = gate.clone();
        engine.op("long").push(move |_| stand.pass()).unwrap();
        gate.wait_for_someone();
        let other = engine.new_variable();
        let push_row = || {
            for _ in 0..400 {
                let ran = Arc::clone(&ran);
                let body = move |_: &RunContext<'_>| {
                    spin(Duration::from_micros(20));
                    ran.fetch_add(1, SeqCst);
                };
                engine.op("row").write(other).push(body).unwrap();
            }
        };
        // The thread may lose its core between its look at the row and its push.
        let mut late = 0;
        for round in 1..=20 {
            push_row();
            let (behind, count) = (Arc::new(AtomicUsize::new(usize::MAX)), Arc::clone(&ran));
            let noted = Arc::clone(&behind);
            let begun = ran.load(SeqCst);
            let body = move |_: &RunContext<'_>| noted.store(count.load(SeqCst) - begun, SeqCst);
            engine.op("urgent").priority(1).push(body).unwrap();
            eventually("the row is over", || ran.load(SeqCst) == round * 400);
            late += usize::from(behind.load(SeqCst) > 40);
        }
        assert!(late < 5, "{kind:?}: {late} urgent operations of 20 came behind the row");
        gate.open();
        engine.wait_for_all().unwrap();
    }
}

/// A worker has a long row of operations of low priority when an ordinary one becomes ready.
#[test]
fn what_is_in_the_background_does_not_go_before_what_comes_later() {
    let _watchdog = Watchdog::new(100, "a long row in the background");
    const ROW: usize = 200;
    for engine in engines_with_one_worker() {
        let (order, [first, gate]) = (Order::default(), [Gate::new(), Gate::new()]);
        let x = engine.new_variable();
        let held = hold(&engine, &[], &[x]);
        engine.op("ordinary").write(x).push(noting(&order, 0, ROW)).unwrap();
        let stand = first.clone();
        engine.op("occupies the worker").push(move |_| stand.pass()).unwrap();
        first.wait_for_someone();
        let stand = gate.clone();
        engine.op("first in the background").priority(-1).push(move |_| stand.pass()).unwrap();
        for number in 0..ROW {
            engine.op("background").priority(-1).push(noting(&order, -1, number)).unwrap();
        }
        first.open();
        gate.wait_for_someone();
        held.complete();
        gate.open();
        engine.wait_for_all().unwrap();
        let place = order.lock().unwrap().iter().position(|(_, number)| *number == ROW);
        assert_eq!(place, Some(0), "{} engine", engine.kind());
    }
}
