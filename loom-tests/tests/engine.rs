//! The whole engine, as its users see it, with the caller running everything: orders, versions,
//! waits, completions, errors, operators, deletions and the end.
//!
//! A panic inside an operation, a failed assertion included, is the engine's to catch: so every
//! model looks at what its waits return.

#![cfg(loom)]

use loom_tests::{explore, explore_light_fences, explore_wait_for_another_thread_s_write, spawn, Guarded};
use seriatim::{CancelToken, Completion, Context, Engine, ErrorKind, Kind, Operator, RunContext, Variable};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

/// An engine that enlists every operation; `at_once.rs` has the other.
fn naive() -> Engine {
    Engine::builder().kind(Kind::Naive).without_inline().build().expect("the settings are valid")
}

/// A counter that no model sees: it makes no step and orders nothing.
fn tally() -> Arc<AtomicUsize> {
    Arc::default()
}

fn push_step(engine: &Engine, variable: Variable, value: &Guarded) {
    let value = value.clone();
    engine.op("").writes([variable]).push(move |_| value.step()).expect("the variable is alive");
}

/// Hands the completion to a thread of its own.
fn elsewhere(end: impl FnOnce(Completion) + Send + 'static) -> impl FnOnce(&RunContext<'_>, Completion) + Send {
    move |_, completion| {
        spawn(move || end(completion));
    }
}

/// A step that another thread makes, after which it completes the operation.
fn push_step_elsewhere(engine: &Engine, variable: Variable, value: &Guarded) {
    let value = value.clone();
    let body = elsewhere(move |completion| {
        value.step();
        completion.complete();
    });
    engine.op("").writes([variable]).push_async(body).expect("the variable is alive");
}

#[test]
fn writes_of_two_pushers_do_not_overlap_and_are_counted() {
    explore("writes of two pushers, versions", 2, 5000, || {
        let engine = naive();
        let x = engine.new_variable();
        let value = Guarded::new();
        let (theirs, cell) = (engine.clone(), value.clone());
        let other = spawn(move || push_step(&theirs, x, &cell));
        push_step(&engine, x, &value);
        other.join().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(value.get(), 2);
        assert_eq!(engine.version(x).unwrap(), 2);
    });
}

#[test]
fn who_sees_a_version_sees_what_was_written() {
    explore("a version read beside its write", 2, 20, || {
        let engine = naive();
        let x = engine.new_variable();
        let value = Guarded::new();
        let (theirs, cell) = (engine.clone(), value.clone());
        let other = spawn(move || push_step(&theirs, x, &cell));
        if engine.version(x).unwrap() == 1 {
            assert_eq!(value.get(), 1);
        }
        other.join().unwrap();
    });
}

#[test]
fn crossed_pushes_run_in_the_same_order_on_both_variables() {
    explore("crossed pushes of the whole engine", 1, 1000, || {
        let engine = naive();
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let [a, b] = [Guarded::new(), Guarded::new()];
        let (theirs, from, to) = (engine.clone(), b.clone(), a.clone());
        let other = spawn(move || {
            // Named in the other order than their places.
            theirs.op("").reads([y]).writes([x]).push(move |_| to.set(from.get() + 1)).unwrap();
        });
        let (from, to) = (a.clone(), b.clone());
        engine.op("").reads([x]).writes([y]).push(move |_| to.set(from.get() + 1)).unwrap();
        other.join().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(a.get().min(b.get()), 1, "both saw the other's variable before its change");
        assert_eq!(a.get().max(b.get()), 2);
    });
}

#[test]
fn a_wait_returns_after_the_writes_that_another_thread_completes() {
    explore("wait for a variable against its completion", 3, 300, || {
        let engine = naive();
        let x = engine.new_variable();
        let value = Guarded::new();
        push_step_elsewhere(&engine, x, &value);
        engine.wait_for_var(x).unwrap();
        assert_eq!(value.get(), 1);
        assert_eq!(engine.version(x).unwrap(), 1);
    });
}

/// It parks behind the write, and leaves the variable to its pusher.
#[test]
fn a_wait_for_another_thread_s_write_comes_after_it() {
    explore_wait_for_another_thread_s_write("a wait beside the owner", naive);
}

#[test]
fn a_push_that_races_with_a_completion_runs_once_and_after_it() {
    explore("push against completion", 2, 2000, || {
        let engine = naive();
        let x = engine.new_variable();
        let value = Guarded::new();
        let (second, third) = (value.clone(), value.clone());
        push_step_elsewhere(&engine, x, &value);
        let runs = tally();
        let ran = runs.clone();
        engine
            .op("")
            .reads([x])
            .push(move |_| {
                ran.fetch_add(1, Relaxed);
                assert_eq!(second.get(), 1);
            })
            .unwrap();
        engine.op("").writes([x]).push(move |_| third.step()).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!((value.get(), runs.load(Relaxed)), (2, 1));
    });
}

#[test]
fn readers_run_beside_each_other() {
    explore("a reader that ends only after the next one has run", 2, 2000, || {
        let engine = naive();
        let x = engine.new_variable();
        // Whether the second has run, and the completion of the first, which may come later.
        let held: Arc<loom::sync::Mutex<(bool, Option<Completion>)>> = Arc::default();
        // A write that is under way while the readers come, so that both may have to wait for it.
        engine.op("").writes([x]).push_async(elsewhere(Completion::complete)).unwrap();
        let keep = held.clone();
        engine
            .op("")
            .reads([x])
            .push_async(move |_, completion| {
                let mut held = keep.lock().unwrap();
                match held.0 {
                    false => held.1 = Some(completion),
                    true => {
                        drop(held);
                        completion.complete();
                    }
                }
            })
            .unwrap();
        let keep = held.clone();
        engine
            .op("")
            .reads([x])
            .push(move |_| {
                let mut held = keep.lock().unwrap();
                held.0 = true;
                let first = held.1.take();
                drop(held);
                first.into_iter().for_each(Completion::complete);
            })
            .unwrap();
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_completion_that_is_dropped_fails_its_operation() {
    explore("a dropped completion", 3, 400, || {
        let engine = naive();
        let x = engine.new_variable();
        engine.op("forgetful").writes([x]).push_async(elsewhere(drop)).unwrap();
        let error = engine.wait_for_var(x).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CompletionDropped);
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_failure_skips_who_comes_behind_it_and_reaches_the_wait() {
    explore("error marking", 3, 1000, || {
        let engine = naive();
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let value = Guarded::new();
        let first = value.clone();
        engine
            .op("failing")
            .writes([x])
            .push_async(elsewhere(move |completion| {
                first.step();
                completion.fail("on purpose");
            }))
            .unwrap();
        engine
            .op("")
            .reads([x])
            .writes([y])
            .push(|_| -> () { panic!("what reads a failed variable must not run") })
            .unwrap();
        let error = engine.wait_for_var(y).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OperationFailed, "{error}");
        // Taken: both variables can be used again, and skipped writes have versions.
        push_step(&engine, x, &value);
        engine.wait_for_all().unwrap();
        assert_eq!(value.get(), 2);
        assert_eq!((engine.version(x).unwrap(), engine.version(y).unwrap()), (2, 1));
    });
}

#[test]
fn of_two_waits_one_gets_the_error() {
    explore("two waits for one error", 2, 1500, || {
        let engine = naive();
        let x = engine.new_variable();
        engine.op("").writes([x]).push(|_| Err("on purpose")).unwrap();
        let theirs = engine.clone();
        let other = spawn(move || usize::from(theirs.wait_for_var(x).is_err()));
        let ours = usize::from(engine.wait_for_var(x).is_err());
        assert_eq!(ours + other.join().unwrap(), 1);
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn waiting_for_everything_is_not_early() {
    explore("wait for everything against a push", 3, 300, || {
        let engine = naive();
        let value = Guarded::new();
        let x = engine.new_variable();
        // A push from inside an operation is in flight before the operation is over.
        let (inner, cell) = (engine.clone(), value.clone());
        engine
            .op("")
            .push_async(elsewhere(move |completion| {
                push_step(&inner, x, &cell);
                drop(inner);
                completion.complete();
            }))
            .unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(value.get(), 1);
    });
}

#[test]
fn after_a_wait_for_everything_no_variable_is_pending() {
    explore("wait for everything against an end", 3, 30, || {
        let engine = naive();
        let x = engine.new_variable();
        engine.op("").writes([x]).push_async(elsewhere(|completion| completion.complete())).unwrap();
        engine.wait_for_all().unwrap();
        assert!(engine.wait_for_var_timeout(x, std::time::Duration::ZERO).is_ok(), "it is pending");
    });
}

#[test]
fn of_two_that_end_what_is_in_flight_one_wakes_who_waits() {
    explore_light_fences("wait for everything against two ends", 1, 30, || {
        let engine = Engine::builder().kind(Kind::Naive).without_inline().waiters_help(false).build().unwrap();
        for _ in 0..2 {
            engine.op("").push_async(elsewhere(|completion| completion.complete())).unwrap();
        }
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn an_operation_is_counted_before_another_thread_can_end_it() {
    explore("wait for everything against the end of a push", 2, 1000, || {
        let engine = naive();
        let y = engine.new_variable();
        let value = Guarded::new();
        let held: Arc<loom::sync::Mutex<Option<Completion>>> = Arc::default();
        let keep = held.clone();
        engine.op("").push_async(move |_, completion| *keep.lock().unwrap() = Some(completion)).unwrap();
        let (theirs, cell) = (engine.clone(), value.clone());
        engine
            .op("")
            .writes([y])
            .push_async(elsewhere(move |completion| {
                // Runs what waits for it as well. The first one is in flight all the same.
                completion.complete();
                theirs.wait_for_all().unwrap();
                assert_eq!(cell.get(), 1, "a wait for everything returned before the first operation had ended");
            }))
            .unwrap();
        engine.op("").writes([y]).push(|_| ()).unwrap();
        value.set(1);
        let first = held.lock().unwrap().take();
        first.into_iter().for_each(Completion::complete);
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn an_operator_is_pushed_by_two_threads_and_dropped_in_flight() {
    explore("operator", 1, 300, || {
        let engine = naive();
        let x = engine.new_variable();
        let value = Guarded::new();
        let cell = value.clone();
        let operator: Operator = engine.op("").writes([x]).operator(move |_| cell.step()).unwrap();
        let (theirs, again) = (engine.clone(), operator.clone());
        let other = spawn(move || theirs.push(&again, Context::cpu(0), 0).unwrap());
        engine.push(&operator, Context::cpu(0), 0).unwrap();
        drop(operator);
        other.join().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!((value.get(), engine.version(x).unwrap()), (2, 2));
    });
}

/// A deletion races with a push; then the place is used again. Returns whether the push came first.
fn delete_against(engine: &Engine, push: impl FnOnce(Engine, Variable, Guarded) -> bool + Send + 'static) {
    let x = engine.new_variable();
    let value = Guarded::new();
    let (theirs, cell) = (engine.clone(), value.clone());
    let other = spawn(move || push(theirs, x, cell));
    let (deleted, last) = (tally(), value.clone());
    let count = deleted.clone();
    engine
        .delete_variable(
            move |_| {
                count.fetch_add(1, Relaxed);
                last.set(last.get() + 10);
            },
            Context::cpu(0),
            x,
        )
        .unwrap();
    let accepted = other.join().unwrap();
    engine.wait_for_all().unwrap();
    assert_eq!(deleted.load(Relaxed), 1);
    assert_eq!(value.get(), 10 + usize::from(accepted), "accepted: {accepted}");
    assert_eq!(engine.version(x).unwrap_err().kind(), ErrorKind::VariableDeleted);
    let again = engine.new_variable();
    assert_eq!(engine.op("").writes([x]).push(|_| ()).unwrap_err().kind(), ErrorKind::VariableDeleted);
    push_step(engine, again, &value);
    engine.wait_for_all().unwrap();
    assert_eq!(engine.version(again).unwrap(), 1);
}

#[test]
fn a_push_that_races_with_a_deletion_runs_before_it_or_is_refused() {
    explore("deletion against a push", 2, 1500, || {
        delete_against(&naive(), |engine, x, value| match engine.op("").writes([x]).push(move |_| value.step()) {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::VariableDeleted);
                false
            }
        });
    });
}

#[test]
fn a_place_is_another_variable_s_only_when_the_deletion_has_ended() {
    explore("a deletion that another thread runs, against a birth", 2, 500, || {
        let engine = naive();
        let x = engine.new_variable();
        let value = Guarded::new();
        let held: Arc<loom::sync::Mutex<Option<Completion>>> = Arc::default();
        let keep = held.clone();
        engine.op("").writes([x]).push_async(move |_, completion| *keep.lock().unwrap() = Some(completion)).unwrap();
        engine.delete_variable(|_| (), Context::cpu(0), x).unwrap();
        // Runs the deletion, and pushes nothing: so no thread is waited for before the place is
        // given away.
        let first = held.lock().unwrap().take().expect("it has the variable to itself");
        let other = spawn(move || first.complete());
        let next = engine.new_variable();
        push_step(&engine, next, &value);
        engine.wait_for_all().unwrap();
        other.join().unwrap();
        // A deletion that ended only now would have taken the next one with it.
        push_step(&engine, next, &value);
        engine.wait_for_all().unwrap();
        assert_eq!((value.get(), engine.version(next).unwrap()), (2, 2));
    });
}

#[test]
fn blocks_are_used_again_while_another_thread_pushes() {
    explore("blocks used again", 1, 5000, || {
        let engine = naive();
        let x = engine.new_variable();
        let value = Guarded::new();
        let (theirs, cell) = (engine.clone(), value.clone());
        let other = spawn(move || push_step(&theirs, x, &cell));
        // More than a magazine of the models holds.
        for _ in 0..3 {
            push_step(&engine, x, &value);
        }
        other.join().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!((value.get(), engine.version(x).unwrap()), (4, 4));
    });
}

#[test]
fn the_last_handle_waits_for_what_is_in_flight() {
    explore("the end of an engine", 3, 3000, || {
        let engine = naive();
        let x = engine.new_variable();
        let value = Guarded::new();
        push_step_elsewhere(&engine, x, &value);
        push_step(&engine, x, &value);
        drop(engine);
        assert_eq!(value.get(), 2);
    });
}

/// What a closure owns that is dropped without a call: it looks at what the canceller has left, and
/// counts that. The engine swallows a panic of it.
struct Left(Guarded, Arc<AtomicUsize>);

impl Drop for Left {
    fn drop(&mut self) {
        self.1.fetch_add(self.0.get(), Relaxed);
    }
}

#[test]
fn what_is_skipped_comes_after_the_cancellation() {
    explore("an operation beside its cancellation", 3, 10, || {
        let engine = naive();
        let x = engine.new_variable();
        let (value, left, found, token) = (Guarded::new(), Guarded::new(), tally(), CancelToken::new());
        let (cancel, leaves) = (token.clone(), left.clone());
        let other = spawn(move || {
            leaves.set(1);
            cancel.cancel();
        });
        let (own, step) = (Left(left, found.clone()), value.clone());
        let body = move |_: &RunContext<'_>| {
            // It is called, so it does not look.
            std::mem::forget(own);
            step.step();
        };
        engine.op("").writes([x]).token(&token).push(body).unwrap();
        let outcome = engine.wait_for_all().map_err(|error| error.kind());
        other.join().unwrap();
        let (expected, looks) = if value.get() == 1 { (Ok(()), 0) } else { (Err(ErrorKind::Cancelled), 1) };
        assert_eq!((outcome, found.load(Relaxed)), (expected, looks));
        // What is pushed behind the cancellation never starts.
        engine.op("").writes([x]).token(&token).push(|_| unreachable!("it is cancelled")).unwrap();
        assert_eq!(engine.wait_for_all().unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(engine.version(x).unwrap(), 2);
    });
}
