//! What a cancelled operation does to others: the rules of failures, and the order of variables.

use crate::common::*;
use seriatim::{CancelToken, Engine, Error, ErrorKind, Property, Variable};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};

const SAYS: &str = "its token was cancelled before it was called";

fn variables<const N: usize>(engine: &Engine) -> [Variable; N] {
    std::array::from_fn(|_| engine.new_variable())
}

#[track_caller]
pub fn assert_cancelled(outcome: Result<(), Error>, operation: &str) {
    let error = outcome.expect_err("it was cancelled");
    assert_says(&error, ErrorKind::Cancelled, &[&format!("operation '{operation}' failed"), SAYS]);
    assert_eq!(error.operation(), Some(operation));
    let source = std::error::Error::source(&error).expect("the error of the token");
    assert_eq!(source.downcast_ref::<Error>().map(Error::kind), Some(ErrorKind::Cancelled));
}

#[test]
fn what_has_not_started_is_skipped_and_what_has_goes_on() {
    on_every_engine(|engine| {
        let ([x, y], token, ran) = (variables(&engine), CancelToken::new(), Arc::new(AtomicUsize::new(0)));
        engine.op("before").write(x).token(&token).push(counting(&ran)).unwrap();
        engine.wait_for_all().unwrap();
        // It has started, and so it is not cancelled.
        let (send, started) = std::sync::mpsc::channel();
        let start = move |_: &seriatim::RunContext<'_>, completion| send.send(completion).unwrap();
        engine.op("started").write(x).property(Property::Async).token(&token).push_async(start).unwrap();
        let completion = started.recv().unwrap();
        engine.op("behind").write(x).token(&token).push(counting(&ran)).unwrap();
        token.cancel();
        engine.op("late").write(y).token(&token).push(counting(&ran)).unwrap();
        completion.complete();
        assert_cancelled(engine.wait_for_var(x), "behind");
        assert_cancelled(engine.wait_for_var(y), "late");
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 1);
        assert_eq!([engine.version(x).unwrap(), engine.version(y).unwrap()], [3, 1], "skipped writes step versions");
    });
}

#[test]
fn what_depends_on_it_is_skipped_also_outside_of_the_group_until_a_wait_takes_the_error() {
    on_every_engine(|engine| {
        let ([x, y, z], token, ran) = (variables(&engine), CancelToken::new(), Arc::new(AtomicUsize::new(0)));
        token.cancel();
        engine.op("load").write(x).token(&token).push(counting(&ran)).unwrap();
        engine.op("read").read(x).write(y).push(counting(&ran)).unwrap();
        engine.op("overwrite").write(x).push(counting(&ran)).unwrap();
        engine.op("far").read(y).write(z).push(counting(&ran)).unwrap();
        let other = Arc::new(AtomicUsize::new(0));
        engine.op("independent").push(counting(&other)).unwrap();
        // One error, which is that of the first, and is cleared everywhere.
        assert_cancelled(engine.wait_for_var(z), "load");
        for variable in [x, y, z] {
            engine.wait_for_var(variable).unwrap();
            engine.op("next").write(variable).push(counting(&other)).unwrap();
        }
        engine.wait_for_all().unwrap();
        assert_eq!((ran.load(SeqCst), other.load(SeqCst)), (0, 4));
    });
}

#[test]
fn an_operation_that_inherits_a_failure_has_no_error_of_its_own() {
    on_every_engine(|engine| {
        let ([x, y], token) = (variables(&engine), CancelToken::new());
        token.cancel();
        engine.op("fails").write(x).push(|_| Err("no paper")).unwrap();
        engine.op("both").read(x).write(y).token(&token).push(nothing).unwrap();
        assert_failed(engine.wait_for_var(y), "no paper");
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn no_skip_runs_behind_a_cancelled_operation_and_is_skipped_by_its_own_token() {
    on_every_engine(|engine| {
        let ([x, y], token, ran) = (variables(&engine), CancelToken::new(), Arc::new(AtomicUsize::new(0)));
        token.cancel();
        engine.op("load").write(x).token(&token).push(counting(&ran)).unwrap();
        let report = || engine.op("report").read(x).write(y).property(Property::NoSkip);
        report().push(counting(&ran)).unwrap();
        assert_cancelled(engine.wait_for_var(y), "load");
        assert_eq!(ran.load(SeqCst), 1);
        engine.op("load").write(x).token(&token).push(counting(&ran)).unwrap();
        report().token(&token).push(counting(&ran)).unwrap();
        assert_cancelled(engine.wait_for_var(y), "report");
        assert_cancelled(engine.wait_for_all(), "load");
        assert_eq!(ran.load(SeqCst), 1);
    });
}

#[test]
fn a_cancelled_operation_keeps_the_order_of_its_variables() {
    on_every_engine(|engine| {
        let ([x, y], token, ran) = (variables(&engine), CancelToken::new(), Arc::new(AtomicUsize::new(0)));
        let held = hold(&engine, &[], &[x]);
        // It links x to y: what is behind it on y waits for what is before it on x.
        engine.op("link").writes([x, y]).token(&token).push(counting(&ran)).unwrap();
        engine.op("behind").write(y).property(Property::NoSkip).push(counting(&ran)).unwrap();
        token.cancel();
        assert_eq!(engine.wait_for_var_timeout(y, MOMENT).unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(ran.load(SeqCst), 0, "it ran before its turn");
        held.complete();
        assert_cancelled(engine.wait_for_var(y), "link");
        assert_eq!(ran.load(SeqCst), 1);
        engine.wait_for_all().unwrap();
    });
}

/// Long enough for something that would happen too early.
pub const MOMENT: std::time::Duration = std::time::Duration::from_millis(20);

#[test]
fn each_operation_of_a_group_has_an_error_and_the_first_is_told() {
    on_every_engine(|engine| {
        let ([x, y], token) = (variables(&engine), CancelToken::new());
        token.cancel();
        engine.op("one").write(x).token(&token).push(nothing).unwrap();
        engine.op("two").write(y).token(&token).push(nothing).unwrap();
        engine.op("without variables").token(&token).push(nothing).unwrap();
        assert_cancelled(engine.wait_for_all(), "one");
        [x, y].into_iter().for_each(|variable| engine.wait_for_var(variable).unwrap());
        engine.op("alone").token(&token).push(nothing).unwrap();
        assert_cancelled(engine.wait_for_all(), "alone");
    });
}

#[test]
fn an_error_that_nobody_waits_for_is_told_at_the_end() {
    with_every_builder(|builder| {
        let told = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&told);
        let engine = builder.on_error(move |error| hears.lock().unwrap().push(error.kind())).build().unwrap();
        let token = CancelToken::new();
        token.cancel();
        engine.op("forgotten").token(&token).push(nothing).unwrap();
        drop(engine);
        assert_eq!(*told.lock().unwrap(), [ErrorKind::Cancelled]);
    });
}

#[test]
fn closures_are_dropped_in_the_operations_turn_and_may_panic_then() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
            if !std::thread::panicking() {
                resume_unwind(Box::new("in a destructor"));
            }
        }
    }
    on_every_engine(|engine| {
        let ([x], token, dropped) = (variables(&engine), CancelToken::new(), Arc::new(AtomicUsize::new(0)));
        let held = hold(&engine, &[], &[x]);
        let own = Dropped(Arc::clone(&dropped));
        engine.op("owns").write(x).token(&token).push(move |_| drop(own)).unwrap();
        let own = Dropped(Arc::clone(&dropped));
        engine
            .op("starts")
            .write(x)
            .property(Property::NoSkip)
            .token(&token)
            .push_async(move |_, _| drop(own))
            .unwrap();
        token.cancel();
        assert_eq!(dropped.load(SeqCst), 0, "before its turn");
        held.complete();
        assert_cancelled(engine.wait_for_var(x), "starts");
        assert_cancelled(engine.wait_for_all(), "owns");
        assert_eq!(dropped.load(SeqCst), 2);
    });
}

#[test]
fn one_token_is_for_several_engines_and_outlives_them() {
    let token = CancelToken::new();
    on_every_engine(|engine| {
        engine.op("before").token(&token).push(nothing).unwrap();
        engine.wait_for_all().unwrap();
    });
    token.clone().cancel();
    token.cancel();
    assert!(token.is_cancelled());
    assert_eq!(format!("{token:?}"), "CancelToken(cancelled)");
    on_every_engine(|engine| {
        engine.op("behind").token(&token).push(nothing).unwrap();
        assert_cancelled(engine.wait_for_all(), "behind");
    });
}

/// The destructor of what a skipped closure owns finds what the canceller did before.
#[test]
fn an_operation_may_cancel_what_comes_behind_it() {
    on_every_engine(|engine| {
        let ([x, y], token, ran) = (variables(&engine), CancelToken::new(), Arc::new(AtomicUsize::new(0)));
        let cancel = token.clone();
        engine.op("gives up").write(x).token(&token).push(move |_| cancel.cancel()).unwrap();
        engine.op("behind").read(x).write(y).token(&token).push(counting(&ran)).unwrap();
        engine.wait_for_var(x).unwrap();
        assert_cancelled(engine.wait_for_var(y), "behind");
        assert_eq!(ran.load(SeqCst), 0);
    });
}
