//! Reclamation, and stopping, which rests on pins, with the real epochs of crossbeam. Loom explores
//! these as well when they are built with `--cfg crossbeam_loom`. The models are small, because a
//! pin alone is dozens of steps; in other models the epochs are real and no steps of the model.

#![cfg(all(loom, crossbeam_loom))]

use loom::sync::atomic::{AtomicUsize, Ordering::*};
use loom::sync::mpsc::channel;
use loom_tests::{explore, explore_once, spawn, Guarded};
use seriatim::internals::reclaim::Epoch;
use seriatim::{Engine, ErrorKind, Kind, Variable};
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
        // SAFETY: the link is cut, so no thread finds the value any more.
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

/// Stops an engine beside a push of another thread, which says how much of what it pushed was
/// accepted. `at_once`: it runs inside its push, if it can.
fn stop_against(at_once: bool, push: fn(&Engine, Variable, &Guarded) -> usize) {
    loom::stop_exploring();
    let builder = Engine::builder().kind(Kind::Naive);
    let engine = if at_once { builder } else { builder.without_inline() }.build().unwrap();
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
fn stopping_waits_for_what_runs_inside_its_push_or_comes_before_it() {
    explore("stop against a push that runs at once", 1, 10000, || stop_against(true, push_step));
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

/// An operation that is enlisted.
fn push_enlisted(engine: &Engine, variables: &[Variable], value: &Guarded) {
    let value = value.clone();
    engine.op("").writes(variables.iter().copied()).push(move |_| value.step()).unwrap();
}

/// Common variables: a thread that has found a block at a tail lines up behind that block or a
/// later one. From one end only: two take longer.
#[test]
fn a_block_that_a_pusher_has_found_at_a_tail_is_not_used_again() {
    explore_once("a push behind a block against its reuse", 1, 5000, || {
        loom::stop_exploring();
        let engine = Engine::builder().kind(Kind::Naive).without_inline().build().unwrap();
        let [x, y] = [(); 2].map(|()| engine.new_variable());
        let [a, b] = [(); 2].map(|()| Guarded::new());
        let ((go, goes), (back, is_back)) = (channel(), channel());
        let (theirs, own) = (engine.clone(), [a.clone(), b.clone()]);
        let other = spawn(move || {
            // Both variables change hands until they are common.
            for _ in 0..2 {
                goes.recv().unwrap();
                push_enlisted(&theirs, &[x], &own[0]);
                push_enlisted(&theirs, &[y], &own[1]);
                back.send(()).unwrap();
            }
            goes.recv().unwrap();
            // The block that the first tail led to is spent, and is used again on the other
            // variable if no thread looks.
            push_enlisted(&theirs, &[x], &own[0]);
            (0..8).for_each(|_| push_enlisted(&theirs, &[y], &own[1]));
        });
        for _ in 0..2 {
            push_enlisted(&engine, &[x], &a);
            push_enlisted(&engine, &[y], &b);
            go.send(()).unwrap();
            is_back.recv().unwrap();
        }
        go.send(()).unwrap();
        loom::explore();
        push_enlisted(&engine, &[x], &a);
        loom::stop_exploring();
        other.join().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!((a.get(), b.get()), (6, 12));
        assert_eq!((engine.version(x).unwrap(), engine.version(y).unwrap()), (6, 12));
    });
}
