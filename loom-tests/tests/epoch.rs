//! With the real epochs of crossbeam, which loom explores as well when built with `--cfg crossbeam_loom`: reclamation, and stopping, which
//! rests on pins. Small models, because a pin alone is dozens of steps; elsewhere the epochs are real, and no steps of the model.

#![cfg(all(loom, crossbeam_loom))]

use loom::sync::atomic::{AtomicUsize, Ordering::*};
use loom::sync::mpsc::channel;
use loom_tests::{explore, spawn, Guarded};
use seriatim::internals::reclaim::{Epoch, Reclaim};
use seriatim::{Context, Engine, ErrorKind, Kind, RunContext, Variable};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

#[test]
fn what_a_pinned_thread_has_found_is_not_reused() {
    explore("a pinned thread against reuse", 2, 2000, || {
        let epoch = Arc::new(Epoch::new());
        // A link that leads to a value until it is cut, as a tail leads to a block.
        let link = Arc::new(AtomicUsize::new(1));
        let value = Guarded::new();
        let (theirs, other_link, seen) = (epoch.clone(), link.clone(), value.clone());
        let other = spawn(move || {
            let handle = theirs.register();
            let _pin = Epoch::pin(&handle);
            if other_link.load(Acquire) == 1 {
                assert_eq!(seen.get(), 0, "reused while a pinned thread looks at it");
            }
        });
        let handle = epoch.register();
        let pin = Epoch::pin(&handle);
        link.store(0, Release);
        let reused = value.clone();
        // SAFETY: the link is cut, so nobody finds the value any more.
        unsafe { Epoch::defer(&pin, move || reused.set(1)) };
        drop(pin);
        Epoch::pin(&handle).flush();
        other.join().unwrap();
    });
}

fn push_step(engine: &Engine, variable: Variable, value: &Guarded) -> usize {
    let value = value.clone();
    match engine.op("").writes([variable]).push(move |_| value.step()) {
        Ok(()) => 1,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Stopped);
            0
        }
    }
}

/// Stops an engine beside a push of another thread, which says how much of what it pushed was accepted.
fn stop_against(loans: bool, push: fn(&Engine, Variable, &Guarded) -> usize) {
    loom::stop_exploring();
    let builder = Engine::builder().kind(Kind::Naive);
    let engine = if loans { builder } else { builder.without_loans() }.build().unwrap();
    let x = engine.new_variable();
    let value = Guarded::new();
    let (theirs, cell) = (engine.clone(), value.clone());
    loom::explore();
    let other = spawn(move || push(&theirs, x, &cell));
    engine.stop().unwrap();
    let seen = value.get();
    loom::stop_exploring();
    assert_eq!(seen, other.join().unwrap(), "what was accepted has run when the engine has stopped");
    engine.start().unwrap();
    assert_eq!(push_step(&engine, x, &value), 1);
    engine.wait_for_all().unwrap();
    assert_eq!(value.get(), seen + 1);
}

#[test]
fn stopping_lets_a_push_through_or_refuses_it() {
    explore("stop against a push", 1, 10000, || stop_against(false, push_step));
}

#[test]
fn stopping_waits_for_a_loan_or_comes_before_it() {
    explore("stop against a push on a loan", 1, 10000, || stop_against(true, push_step));
}

#[test]
fn stopping_waits_for_a_closure_that_goes_on_after_its_completion() {
    explore("stop against a closure that outlives its operation", 1, 10000, || {
        stop_against(false, |engine, x, value| {
            let (inner, value) = (engine.clone(), value.clone());
            let pushed = engine.op("").push_async(move |_, completion| {
                completion.complete();
                // Inside, so it is not refused.
                assert_eq!(push_step(&inner, x, &value), 1);
            });
            usize::from(pushed.is_ok())
        });
    });
}

#[test]
fn a_loan_without_a_pin_is_not_of_another_variable() {
    explore("a loan against a deletion and a birth", 1, 50, || {
        let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
        let (x, own) = (engine.new_variable(), engine.new_variable());
        let others: [_; 3] = std::array::from_fn(|_| engine.new_variable());
        // Not the model's: it orders nothing.
        let deleted = Arc::new(AtomicBool::new(false));
        let (theirs, gone) = (engine.clone(), deleted.clone());
        let ((counted, is_counted), (go, went)) = (channel(), channel());
        let other = spawn(move || {
            // Nobody is alone from now on.
            theirs.op("").writes([own]).push(|_| ()).unwrap();
            counted.send(()).unwrap();
            went.recv().unwrap();
            theirs.delete_variable(move |_| gone.store(true, Relaxed), Context::cpu(0), x).unwrap();
            // One of them in the same place, if nobody looks, when the reclaimer has been asked often enough.
            for variable in others {
                let _ = theirs.new_variable();
                theirs.delete_variable(|_| (), Context::cpu(0), variable).unwrap();
            }
        });
        is_counted.recv().unwrap();
        go.send(()).unwrap();
        let body =
            move |_: &RunContext<'_>| assert!(!deleted.load(Relaxed), "runs after the deletion of what it changes");
        if let Err(error) = engine.op("").writes([x]).push(body) {
            assert_eq!(error.kind(), ErrorKind::VariableDeleted);
        }
        other.join().unwrap();
        engine.wait_for_all().unwrap();
    });
}

/// An operation that is enlisted, and ends at once.
fn push_enlisted(engine: &Engine, variable: Variable) {
    engine.op("").writes([variable]).push_async(|_, completion| completion.complete()).unwrap();
}

#[test]
fn a_variable_that_is_away_is_borrowed_before_its_block_is_used_again() {
    explore("a loan of what lies in a block against its reuse", 1, 500, || {
        loom::stop_exploring();
        let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
        let [x, y, z] = [(); 3].map(|()| engine.new_variable());
        let value = Guarded::new();
        let (theirs, cell) = (engine.clone(), value.clone());
        let ((leaves, has_left), (go, went)) = (channel(), channel());
        let other = spawn(move || {
            push_enlisted(&theirs, x);
            leaves.send(()).unwrap();
            went.recv().unwrap();
            // The block of the first is spent by the second. The reclaimer is asked by the third and the last, which
            // gets that block if nobody looks.
            [x, y, y, z].into_iter().for_each(|variable| push_enlisted(&theirs, variable));
            push_step(&theirs, x, &cell)
        });
        has_left.recv().unwrap();
        go.send(()).unwrap();
        loom::explore();
        assert_eq!(push_step(&engine, x, &value), 1);
        loom::stop_exploring();
        assert_eq!(other.join().unwrap(), 1);
        engine.wait_for_all().unwrap();
        assert_eq!(value.get(), 2);
    });
}
