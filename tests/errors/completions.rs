//! Asynchronous operations and operators that fail.

use crate::common::*;
use crate::helpers::*;
use seriatim::{Completion, Context, Engine, ErrorKind, Kind, Property, RunContext, Variable};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{mpsc, Arc};
use std::time::Duration;

#[test]
fn an_asynchronous_operation_fails_by_its_completion() {
    on_every_engine(|engine| {
        let [x, y] = variables(&engine);
        engine.op("fetch").writes([x, y]).push_async(|_, completion| completion.fail("no route")).unwrap();
        let error = engine.wait_for_var(y).unwrap_err();
        assert_says(&error, ErrorKind::OperationFailed, &["operation 'fetch' failed: no route"]);
        engine.wait_for_var(x).unwrap();
        assert_eq!(versions(&engine, [x, y]), [1, 1]);
        // On another thread, later.
        let completion = hold(&engine, &[], &[x, y]);
        std::thread::spawn(move || completion.fail(format!("after {} tries", 3))).join().unwrap();
        assert_failed(engine.wait_for_var(x), "after 3 tries");
        engine.wait_for_all().unwrap();
    });
}

/// Its block may be that of a later operation by then, whose completion is dropped by that panic.
#[test]
fn a_panic_behind_an_early_completion_is_that_of_its_own_operation() {
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    let own = engine.clone();
    let early = move |_: &RunContext<'_>, completion: Completion| {
        completion.complete();
        let (send, held) = mpsc::channel();
        for _ in 0..300 {
            let send = send.clone();
            let keeps = move |_: &RunContext<'_>, completion| send.send(completion).unwrap();
            own.op("later").push_async(keeps).unwrap();
        }
        let held: Vec<Completion> = held.try_iter().collect();
        assert_eq!(held.len(), 300);
        panic_quietly("of the early one");
    };
    engine.op("early").push_async(early).unwrap();
    let error = engine.wait_for_all().unwrap_err();
    assert_says(&error, ErrorKind::OperationPanicked, &["operation 'early' panicked: of the early one"]);
}

#[test]
fn a_completion_that_is_dropped_fails_its_operation() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let say = ["operation 'forgets' failed", "completion was dropped", "call complete() or fail() on every path"];
        engine.op("forgets").writes([x]).push_async(|_, _| ()).unwrap();
        assert_says(&engine.wait_for_var(x).unwrap_err(), ErrorKind::CompletionDropped, &say);
        // On another thread.
        engine
            .op("forgets")
            .writes([x])
            .push_async(|_, completion| drop(std::thread::spawn(move || drop(completion))))
            .unwrap();
        assert_says(&engine.wait_for_var(x).unwrap_err(), ErrorKind::CompletionDropped, &say);
        // On another thread that unwinds.
        let completion = hold(&engine, &[], &[x]);
        let thread = std::thread::spawn(move || {
            let _held = completion;
            panic_quietly("elsewhere");
        });
        thread.join().unwrap_err();
        assert_says(&engine.wait_for_var(x).unwrap_err(), ErrorKind::CompletionDropped, &["'hold'"]);
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(x).unwrap(), 3);
    });
}

#[test]
fn a_panic_before_the_completion_is_given_away_ends_the_operation() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let panics = |_: &RunContext<'_>, _completion: Completion| panic_quietly("too early");
        engine.op("panics").writes([x]).push_async(panics).unwrap();
        assert_says(
            &engine.wait_for_var(x).unwrap_err(),
            ErrorKind::OperationPanicked,
            &["operation 'panics' panicked: too early"],
        );
        // The completion sits in something that is dropped while the closure unwinds.
        let panics = |_: &RunContext<'_>, completion: Completion| {
            let _held = Some(Box::new(completion));
            panic_quietly("with a box");
        };
        engine.op("panics").writes([x]).push_async(panics).unwrap();
        assert_says(&engine.wait_for_var(x).unwrap_err(), ErrorKind::OperationPanicked, &["with a box"]);
        engine.wait_for_all().expect("one operation, one error");
        assert_eq!(engine.version(x).unwrap(), 2);
    });
}

#[test]
fn a_panic_after_the_completion_was_given_away_is_not_lost() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        // It was completed: the write stands, the panic is for the thread that waits for
        // everything.
        let late = |_: &RunContext<'_>, completion: Completion| {
            completion.complete();
            panic_quietly("after all");
        };
        engine.op("late").writes([x]).push_async(late).unwrap();
        engine.wait_for_var(x).unwrap();
        let mut outcome = Ok(());
        eventually("the panic is known", || {
            outcome = engine.wait_for_all();
            outcome.is_err()
        });
        assert_says(&outcome.unwrap_err(), ErrorKind::OperationPanicked, &["'late'", "after all"]);
        // It is held elsewhere: the operation goes on.
        let (send, receive) = mpsc::channel();
        let gives_away = move |_: &RunContext<'_>, completion: Completion| {
            send.send(completion).unwrap();
            panic_quietly("given away");
        };
        engine.op("gives away").writes([x]).push_async(gives_away).unwrap();
        let completion = receive.recv().unwrap();
        assert_eq!(engine.wait_for_var_timeout(x, Duration::from_millis(2)).unwrap_err().kind(), ErrorKind::TimedOut);
        completion.complete();
        engine.wait_for_var(x).unwrap();
        let mut outcome = Ok(());
        eventually("the panic is known", || {
            outcome = engine.wait_for_all();
            outcome.is_err()
        });
        assert_says(&outcome.unwrap_err(), ErrorKind::OperationPanicked, &["'gives away'", "given away"]);
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(x).unwrap(), 2);
    });
}

#[test]
fn a_closure_that_unwinds_with_another_operations_completion_fails_that_one() {
    on_every_engine(|engine| {
        let [x, y] = variables(&engine);
        let other = hold(&engine, &[], &[y]);
        let panics = move |_: &RunContext<'_>, own: Completion| {
            let _both = (own, other);
            panic_quietly("both go");
        };
        engine.op("panics").writes([x]).push_async(panics).unwrap();
        assert_says(&engine.wait_for_var(x).unwrap_err(), ErrorKind::OperationPanicked, &["'panics'", "both go"]);
        assert_says(&engine.wait_for_var(y).unwrap_err(), ErrorKind::CompletionDropped, &["'hold'"]);
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn operations_complete_on_other_threads_in_any_order() {
    on_every_engine(|engine| {
        let (send, receive) = mpsc::channel::<Completion>();
        let completer = std::thread::spawn(move || {
            let mut held = Vec::new();
            loop {
                match receive.recv_timeout(Duration::from_millis(1)) {
                    Ok(completion) => held.push(completion),
                    Err(mpsc::RecvTimeoutError::Timeout) => held.drain(..).rev().for_each(Completion::complete),
                    Err(mpsc::RecvTimeoutError::Disconnected) => break,
                }
                if held.len() >= 7 {
                    held.drain(..).rev().for_each(Completion::complete);
                }
            }
            held.drain(..).for_each(Completion::complete);
        });
        let variables: Vec<Variable> = (0..50).map(|_| engine.new_variable()).collect();
        for round in 0..20 {
            for variable in &variables {
                let send = send.clone();
                let start = move |_: &RunContext<'_>, completion: Completion| send.send(completion).unwrap();
                engine.op("start").writes([*variable]).property(Property::Async).push_async(start).unwrap();
            }
            let all_reads = engine.op("reads all").reads(variables.iter().copied());
            all_reads.push(move |_| assert!(round < 20)).unwrap();
        }
        drop(send);
        engine.wait_for_all().unwrap();
        completer.join().unwrap();
        variables.iter().for_each(|variable| assert_eq!(engine.version(*variable).unwrap(), 20));
    });
}

#[test]
fn an_operator_that_failed_runs_again_once_its_error_was_taken() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let runs = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&runs);
        let odd_ones_fail = move |_: &RunContext<'_>| match runs.fetch_add(1, SeqCst) {
            run if run % 2 == 0 => Err(format!("run {run}")),
            _ => Ok(()),
        };
        let step = engine.op("step").writes([x]).operator(odd_ones_fail).unwrap();
        for round in 0..5 {
            engine.push(&step, Context::cpu(0), 0).unwrap();
            engine.push(&step, Context::cpu(0), 0).unwrap(); // skipped
            settle(&engine);
            assert_failed(engine.wait_for_var(x), &format!("run {}", 2 * round));
            engine.push(&step, Context::cpu(0), 0).unwrap();
            engine.wait_for_var(x).unwrap();
        }
        assert_eq!((seen.load(SeqCst), engine.version(x).unwrap()), (10, 15));
    });
}

#[test]
fn an_asynchronous_operator_fails_and_panics_like_any_operation() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let runs = AtomicUsize::new(0);
        let body = move |_: &RunContext<'_>, completion: Completion| match runs.fetch_add(1, SeqCst) {
            0 => completion.fail("the first"),
            1 => panic_quietly("the second"),
            2 => drop(completion),
            _ => completion.complete(),
        };
        let step = engine.op("step").writes([x]).async_operator(body).unwrap();
        let kinds = (0..4).map(|_| {
            engine.push(&step, Context::cpu(0), 0).unwrap();
            engine.wait_for_var(x).map_err(|error| error.kind()).err()
        });
        let expected = [ErrorKind::OperationFailed, ErrorKind::OperationPanicked, ErrorKind::CompletionDropped];
        assert_eq!(kinds.collect::<Vec<_>>(), [Some(expected[0]), Some(expected[1]), Some(expected[2]), None]);
    });
}
