//! The last handle of an engine goes at every point: with operations pending, with a completion to
//! come, while others wait or push. Whatever was accepted has run, or was skipped, exactly once; no
//! closure and no thread is left.

use crate::common::*;
use seriatim::{Completion, Engine, RunContext};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn the_last_handle_may_go_with_any_number_of_operations_pending() {
    run_child_well(&mut child("last handle"));
}

/// Who drops the last handle, and when.
#[derive(Clone, Copy, Debug)]
enum Last {
    /// The thread that pushed, while another thread is about to end the first operation.
    Pusher,
    /// The thread that ends the first operation, just after that.
    Completer,
    /// A thread that waits for a variable, after the wait.
    Waiter,
    /// A thread that waits for everything, after the wait.
    WaiterForAll,
    /// The last operation owns it, and drops it when it is over.
    Operation,
    /// The operation that is run, on the naive engine, by the thread that ends the one before.
    InsideComplete,
}

/// In a process of its own, to see the threads end.
pub fn last_handle_with_pending() {
    let _watchdog = Watchdog::new(100, "the end of an engine");
    let others = thread_count();
    for pending in [0, 1, 2, 7, 100] {
        for last in
            [Last::Pusher, Last::Completer, Last::Waiter, Last::WaiterForAll, Last::Operation, Last::InsideComplete]
        {
            for fails in [false, true] {
                with_every_builder(|builder| {
                    one_end(builder.build().unwrap(), pending, last, fails);
                    eventually("all threads have ended", || thread_count() == others);
                });
            }
        }
    }
}

fn one_end(engine: Engine, pending: usize, last: Last, fails: bool) {
    let (ran, witness) = (Arc::new(AtomicUsize::new(0)), Arc::new(()));
    let [x, y] = [engine.new_variable(), engine.new_variable()];
    let first = hold(&engine, &[], &[x]);
    let mut expected = if fails { 0 } else { pending };
    if matches!(last, Last::InsideComplete) {
        let own = engine.clone();
        // Its closure is dropped, with the handle in it, before anything behind it runs.
        engine.op("owner").writes([x, y]).push(move |_| drop(own)).unwrap();
    }
    for number in 0..pending {
        let (count, own) = (counting(&ran), Arc::clone(&witness));
        let body = move |run: &RunContext<'_>| {
            count(run);
            drop(own);
        };
        let builder = engine.op("pending").writes([x]);
        match number % 3 {
            0 => builder.reads([y]).push(body).unwrap(),
            1 => builder.push(body).unwrap(),
            _ => {
                let body = move |run: &RunContext<'_>, completion: Completion| {
                    body(run);
                    std::thread::spawn(move || completion.complete());
                };
                builder.push_async(body).unwrap();
            }
        }
    }
    if matches!(last, Last::Operation) {
        let own = engine.clone();
        engine.op("owner").writes([x]).push(move |_| drop(own)).unwrap();
    }
    // Independent of all that, and so over soon or pending as well.
    engine.op("beside").push(counting(&ran)).unwrap();
    expected += 1;
    let end = move || match fails {
        true => first.fail("as it was meant to"),
        false => first.complete(),
    };
    let later = || std::thread::sleep(Duration::from_micros(300));
    match last {
        Last::Pusher => {
            let completer = std::thread::spawn(move || {
                later();
                end();
            });
            drop(engine);
            completer.join().unwrap();
        }
        Last::Completer => {
            let own = engine.clone();
            let completer = std::thread::spawn(move || {
                later();
                end();
                drop(own);
            });
            drop(engine);
            completer.join().unwrap();
        }
        Last::Waiter | Last::WaiterForAll => {
            let waiter = std::thread::spawn(move || {
                let outcome = match last {
                    Last::Waiter => engine.wait_for_var(x),
                    _ => engine.wait_for_all(),
                };
                assert_eq!(outcome.is_err(), fails);
                drop(engine);
            });
            later();
            end();
            waiter.join().unwrap();
        }
        Last::Operation | Last::InsideComplete => {
            drop(engine);
            end();
        }
    }
    eventually("every closure is gone", || Arc::strong_count(&witness) == 1 && Arc::strong_count(&ran) == 1);
    assert_eq!(ran.load(SeqCst), expected, "{pending} pending, {last:?}, fails: {fails}");
}

#[test]
fn the_last_handle_may_go_while_other_handles_push_wait_and_go() {
    run_child_well(&mut child("last handle races"));
}

/// In a process of its own, to see the threads end.
pub fn last_handle_races() {
    let _watchdog = Watchdog::new(100, "handles that go at once");
    let others = thread_count();
    for round in 0..60 {
        with_every_builder(|builder| {
            let engine = builder.build().unwrap();
            let (ran, accepted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let x = engine.new_variable();
            let threads: Vec<_> = (0..3)
                .map(|thread| {
                    let (engine, ran, accepted) = (engine.clone(), Arc::clone(&ran), Arc::clone(&accepted));
                    std::thread::spawn(move || {
                        let mut random = Random(round * 3 + thread);
                        for _ in 0..random.below(60) {
                            let count = counting(&ran);
                            let elsewhere = random.chance(10);
                            let body = move |run: &RunContext<'_>, completion: Completion| {
                                count(run);
                                match elsewhere {
                                    true => drop(std::thread::spawn(move || completion.complete())),
                                    false => completion.complete(),
                                }
                            };
                            // While other handles live or go: to the pusher its own handle is the
                            // engine.
                            engine.op("race").writes([x]).push_async(body).unwrap();
                            accepted.fetch_add(1, SeqCst);
                        }
                        match random.below(4) {
                            0 => engine.wait_for_var(x).unwrap(),
                            1 => engine.wait_for_all().unwrap(),
                            _ => {}
                        }
                        drop(engine);
                    })
                })
                .collect();
            spin(Duration::from_micros(round * 5));
            drop(engine);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            // The last of them has drained the engine before it returned.
            assert_eq!(ran.load(SeqCst), accepted.load(SeqCst));
            assert_eq!(Arc::strong_count(&ran), 1);
            eventually("all threads have ended", || thread_count() == others);
        });
    }
}
