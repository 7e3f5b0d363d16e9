//! Pipelines of an engine, as its users see them: each closure is one thread's at a time, though
//! replays overlap.

#![cfg(loom)]

use loom::sync::Mutex;
use loom_tests::{explore, spawn, Guarded};
use seriatim::{Engine, Kind, Property};
use std::sync::Arc;

/// Its completion is used on another thread, perhaps before the call has returned.
#[test]
fn an_asynchronous_operation_of_a_pipeline_is_completed_elsewhere() {
    explore("pipeline, completed elsewhere", 1, 10, || {
        let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
        let x = engine.new_variable();
        let value = Guarded::new();
        let threads = Arc::new(Mutex::new(Vec::new()));
        let (own, started) = (value.clone(), Arc::clone(&threads));
        let mut calls = Guarded::new();
        let (mut steps, ()) = engine
            .capture_pipeline(|c| {
                c.op("start").writes([x]).property(Property::Async).push_async(move |_, completion| {
                    let own = own.clone();
                    let thread = spawn(move || {
                        own.step();
                        completion.complete();
                    });
                    started.lock().unwrap().push(thread);
                    // After the completion was given away: no other thread may be in here.
                    let calls: &mut Guarded = &mut calls;
                    calls.step();
                })
            })
            .unwrap();
        for _ in 0..2 {
            steps.replay().unwrap();
        }
        engine.wait_for_var(x).unwrap();
        assert_eq!(value.get(), 2);
        loop {
            let Some(thread) = threads.lock().unwrap().pop() else { break };
            thread.join().unwrap();
        }
    });
}

/// It changes nothing that another operation could wait for.
#[test]
fn an_operation_that_only_reads_is_called_by_one_thread_at_a_time() {
    explore("pipeline, an operation that reads", 1, 10, || {
        let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
        let x = engine.new_variable();
        let value = Guarded::new();
        let own = value.clone();
        let (steps, ()) = engine.capture_pipeline(|c| c.op("look").reads([x]).push(move |_| own.step())).unwrap();
        let mut steps = steps;
        // The second replay's operation is the other thread's, if that ends what both wait for.
        let held = Arc::new(Mutex::new(None));
        let place = Arc::clone(&held);
        engine
            .op("hold")
            .writes([x])
            .property(Property::Async)
            .push_async(move |_, completion| *place.lock().unwrap() = Some(completion))
            .unwrap();
        steps.replay().unwrap();
        let completion = held.lock().unwrap().take().unwrap();
        let other = spawn(move || completion.complete());
        steps.replay().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(value.get(), 2);
        other.join().unwrap();
    });
}
