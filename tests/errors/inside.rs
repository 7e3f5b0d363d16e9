//! Asynchronous operations whose closures are called in their push fail and panic like any others.

use crate::common::*;
use crate::helpers::*;
use seriatim::{Completion, Data, Engine, ErrorKind, Kind, Property, RunContext, Variable};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{mpsc, Arc};
use std::time::Duration;

const KEY: u64 = 17;

fn on_engines_with_workers(test: impl Fn(Engine)) {
    for kind in [Kind::PerDevice, Kind::Pooled] {
        test(Engine::builder().kind(kind).cpu_workers(1).waiters_help(false).build().unwrap());
    }
}

/// Pushes an operation that is declared short and expected to be so; says whether its closure was
/// called by this thread before the push returned.
fn is_called_inside(
    engine: &Engine,
    (reads, writes): (&[Variable], &[Variable]),
    closure: impl FnOnce(Completion) + Send + 'static,
) -> bool {
    let (here, (send, called)) = (std::thread::current().id(), mpsc::channel());
    engine.expect_cost_of(KEY, Duration::from_nanos(1));
    let start = move |_: &RunContext<'_>, completion: Completion| {
        send.send(std::thread::current().id()).unwrap();
        closure(completion);
    };
    let operation = engine.op("inside").reads(reads.iter().copied()).writes(writes.iter().copied());
    operation.short().cost_key(KEY).push_async(start).unwrap();
    called.try_recv() == Ok(here)
}

/// The same, for a closure that is called there.
fn push_inside(engine: &Engine, x: Variable, closure: impl FnOnce(Completion) + Send + 'static) {
    assert!(is_called_inside(engine, (&[], &[x]), closure), "on a {} engine it was shipped", engine.kind());
}

#[test]
fn it_fails_by_its_completion_there_or_later() {
    on_engines_with_workers(|engine| {
        let [x, y] = variables(&engine);
        push_inside(&engine, x, |completion| completion.fail("no route"));
        let error = engine.wait_for_var(x).unwrap_err();
        assert_says(&error, ErrorKind::OperationFailed, &["operation 'inside' failed: no route"]);
        let (send, receive) = mpsc::channel::<Completion>();
        push_inside(&engine, y, move |completion| send.send(completion).unwrap());
        std::thread::spawn(move || receive.recv().unwrap().fail("too late")).join().unwrap();
        assert_failed(engine.wait_for_var(y), "too late");
        engine.wait_for_all().expect("two operations, two errors");
        assert_eq!(versions(&engine, [x, y]), [1, 1]);
    });
}

#[test]
fn a_completion_that_is_dropped_there_or_elsewhere_fails_it() {
    on_engines_with_workers(|engine| {
        let [x, y] = variables(&engine);
        let say = ["operation 'inside' failed", "completion was dropped"];
        push_inside(&engine, x, drop);
        assert_says(&engine.wait_for_var(x).unwrap_err(), ErrorKind::CompletionDropped, &say);
        push_inside(&engine, y, |completion| drop(std::thread::spawn(move || drop(completion))));
        assert_says(&engine.wait_for_var(y).unwrap_err(), ErrorKind::CompletionDropped, &say);
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn its_panics_are_its_own_and_none_is_lost() {
    on_engines_with_workers(|engine| {
        let [x, y, z] = variables(&engine);
        push_inside(&engine, x, |_completion| panic_quietly("too early"));
        let early = engine.wait_for_var(x).unwrap_err();
        assert_says(&early, ErrorKind::OperationPanicked, &["operation 'inside' panicked: too early"]);
        // The operation is over, and the panic is for the thread that waits for everything.
        push_inside(&engine, y, |completion| {
            completion.complete();
            panic_quietly("after all");
        });
        engine.wait_for_var(y).unwrap();
        let after = engine.wait_for_all().unwrap_err();
        assert_says(&after, ErrorKind::OperationPanicked, &["'inside'", "after all"]);
        // It is held elsewhere: the operation goes on.
        let (send, receive) = mpsc::channel();
        push_inside(&engine, z, move |completion| {
            send.send(completion).unwrap();
            panic_quietly("given away");
        });
        let completion = receive.recv().unwrap();
        assert_eq!(engine.wait_for_var_timeout(z, Duration::from_millis(2)).unwrap_err().kind(), ErrorKind::TimedOut);
        completion.complete();
        engine.wait_for_var(z).unwrap();
        assert_says(&engine.wait_for_all().unwrap_err(), ErrorKind::OperationPanicked, &["given away"]);
        engine.wait_for_all().unwrap();
        assert_eq!(versions(&engine, [x, y, z]), [1, 1, 1]);
    });
}

#[test]
fn behind_a_failure_it_is_skipped_and_what_is_independent_goes_on_inside() {
    on_engines_with_workers(|engine| {
        let [x, y, z] = variables(&engine);
        push_inside(&engine, x, |completion| completion.fail("at the start"));
        let dropped = Arc::new(AtomicUsize::new(0));
        let told = CountsDrop(Arc::clone(&dropped));
        // It reads what is marked, and marks what it changes.
        assert!(!is_called_inside(&engine, (&[x], &[y]), move |completion| {
            use_up(&told);
            completion.complete();
        }));
        settle(&engine);
        assert_eq!(dropped.load(SeqCst), 1, "the closure was not dropped");
        push_inside(&engine, z, Completion::complete);
        // In spite of the mark, on a worker, if it asks for that.
        let ran = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&ran);
        let report = move |_: &RunContext<'_>, completion: Completion| {
            count.fetch_add(1, SeqCst);
            completion.complete();
        };
        engine.op("report").read(x).property(Property::NoSkip).push_async(report).unwrap();
        settle(&engine);
        assert_eq!(ran.load(SeqCst), 1);
        assert_failed(engine.wait_for_var(y), "at the start");
        engine.wait_for_all().expect("one operation, one error");
        assert_eq!(versions(&engine, [x, y, z]), [1, 1, 1]);
        // Once a write has taken the mark away.
        engine.op("mends").write(x).push(nothing).unwrap();
        engine.wait_for_all().unwrap();
        push_inside(&engine, x, Completion::complete);
    });
}

struct CountsDrop(Arc<AtomicUsize>);

impl Drop for CountsDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn after_the_shutdown_it_is_not_called() {
    on_engines_with_workers(|engine| {
        let x = engine.new_variable();
        engine.notify_shutdown();
        assert!(!is_called_inside(&engine, (&[], &[x]), Completion::complete));
        settle(&engine);
    });
}

#[test]
fn it_borrows_what_it_has_declared_also_when_it_is_over() {
    on_engines_with_workers(|engine| {
        let [mine, other] = [Data::new(&engine, 0), Data::new(&engine, 0)];
        let (x, (send, kinds)) = (mine.variable(), mpsc::channel());
        let (own, strange) = (mine.clone(), other.clone());
        push_inside(&engine, x, move |completion| {
            *own.write().unwrap() += 1;
            send.send(strange.write().unwrap_err().kind()).unwrap();
            completion.complete();
            send.send(strange.read().unwrap_err().kind()).unwrap();
        });
        assert_eq!(kinds.iter().collect::<Vec<_>>(), [ErrorKind::UndeclaredAccess; 2]);
        assert_eq!((*mine.read().unwrap(), *other.read().unwrap()), (1, 0));
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_stop_waits_until_it_has_returned() {
    on_engines_with_workers(|engine| {
        let x = engine.new_variable();
        let gate = Gate::new();
        let pusher = std::thread::spawn({
            let (engine, gate) = (engine.clone(), gate.clone());
            move || {
                push_inside(&engine, x, move |completion| {
                    completion.complete();
                    gate.pass();
                });
            }
        });
        gate.wait_for_someone();
        let stopper = std::thread::spawn({
            let engine = engine.clone();
            move || engine.stop().unwrap()
        });
        std::thread::sleep(Duration::from_millis(5));
        assert!(!stopper.is_finished(), "the stop came before the closure's return");
        gate.open();
        pusher.join().unwrap();
        stopper.join().unwrap();
        engine.start().unwrap();
    });
}
