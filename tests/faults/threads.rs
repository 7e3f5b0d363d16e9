//! Threads that the system refuses, at every point at which the engine asks for one.

use crate::common::*;
use crate::refusals::*;
use seriatim::{Context, Engine, ErrorKind, Kind, Property, RunContext, Variable, WhenFull};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};

/// Each group of workers: how the engine is made, what it takes to need the group, its name and its
/// size.
fn groups() -> Vec<(Engine, Property, &'static str, usize)> {
    let engine = |kind| Engine::builder().kind(kind).cpu_workers(3).priority_workers(4).build().unwrap();
    vec![
        (engine(Kind::Pooled), Property::Normal, "seriatim-pool", 3),
        (engine(Kind::Pooled), Property::CopyToGpu, "seriatim-io", 1),
        (engine(Kind::PerDevice), Property::Normal, "seriatim-cpu", 3),
        (engine(Kind::PerDevice), Property::CpuPrioritized, "seriatim-prio", 4),
        (engine(Kind::PerDevice), Property::CopyFromGpu, "seriatim-io", 1),
    ]
}

#[test]
fn a_refusal_at_any_worker_of_any_group_is_an_error_and_nothing_is_lost() {
    let _watchdog = Watchdog::new(60, "refused workers");
    for (engine, property, group, workers) in groups() {
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let ran = Arc::new(AtomicUsize::new(0));
        for point in 0..workers {
            refuse_after(point, 1);
            let refused = engine.op("refused").reads([y]).writes([x]).property(property).push(counting(&ran));
            let names = [&format!("worker {point} of {workers} of '{group}'"), "ask for fewer workers"];
            assert_says(&refused.unwrap_err(), ErrorKind::ThreadRefused, &names);
            assert_eq!(Arc::strong_count(&ran), 1, "the closure is dropped");
            // Nothing was pushed, so nothing is pending, and waits need no worker.
            engine.wait_for_var(x).unwrap();
            engine.wait_for_all().unwrap();
            assert_eq!(engine.version(x).unwrap(), 0);
            assert_eq!(refusals_left(), 0, "there was one refusal, and one error");
        }
        for _ in 0..100 {
            engine.op("runs").reads([y]).writes([x]).property(property).push(counting(&ran)).unwrap();
        }
        engine.wait_for_all().unwrap();
        assert_eq!((ran.load(SeqCst), engine.version(x).unwrap()), (100, 100));
    }
}

#[test]
fn a_refused_start_leaves_the_engine_stopped_and_able_to_start() {
    let _watchdog = Watchdog::new(60, "refused starts");
    for (engine, property, group, workers) in groups() {
        let ran = Arc::new(AtomicUsize::new(0));
        let push = || engine.op("step").property(property).push(counting(&ran));
        push().unwrap();
        for point in 0..workers {
            engine.stop().unwrap();
            let before = ran.load(SeqCst);
            refuse_after(point, 1);
            if property == Property::Normal {
                for _ in 0..2 {
                    refuse_after(point, 1);
                    assert_says(&engine.start().unwrap_err(), ErrorKind::ThreadRefused, &[group]);
                    assert_eq!(push().unwrap_err().kind(), ErrorKind::Stopped, "a refused start starts nothing");
                }
                engine.start().unwrap();
            } else {
                // The other groups come up when they are needed.
                refuse_after(0, 0);
                engine.start().unwrap();
                refuse_after(point, 1);
                assert_says(&push().unwrap_err(), ErrorKind::ThreadRefused, &[group]);
            }
            push().unwrap();
            engine.wait_for_all().unwrap();
            assert_eq!(ran.load(SeqCst), before + 1);
        }
    }
}

#[test]
fn every_kind_of_push_survives_a_refusal() {
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let builder = Engine::builder().kind(kind).cpu_workers(2).bound(1).when_full(WhenFull::WouldBlock);
        let engine = builder.build().unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let x = engine.new_variable();
        let step = engine.op("step").writes([x]).operator(counting(&ran)).unwrap();
        let refused = |outcome: Result<(), seriatim::Error>| {
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::ThreadRefused);
            assert_eq!(refusals_left(), 0);
        };
        refuse_after(0, 1);
        refused(engine.push(&step, Context::cpu(0), 0));
        refuse_after(1, 1);
        refused(engine.op("async").writes([x]).push_async(|_, completion| completion.complete()));
        // A refused deletion has deleted nothing.
        refuse_after(0, 1);
        refused(engine.delete_variable(counting(&ran), Context::cpu(0), x));
        assert_eq!(engine.version(x).unwrap(), 0);
        // Each has given back its place under the bound, or this would be refused for want of room.
        engine.push(&step, Context::cpu(0), 0).unwrap();
        engine.wait_for_all().unwrap();
        eventually("there is room", || engine.delete_variable(counting(&ran), Context::cpu(0), x).is_ok());
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 2);
        assert_eq!(engine.version(x).unwrap_err().kind(), ErrorKind::VariableDeleted);
    }
}

#[test]
fn an_operation_whose_nested_push_is_refused_fails_with_that_error() {
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(2).build().unwrap();
    let x = engine.new_variable();
    let own = engine.clone();
    let outer = move |_: &RunContext<'_>| {
        // Whichever thread runs this: it is its own refusals that are set.
        refuse_after(2, 1);
        own.op("nested").property(Property::CpuPrioritized).push(nothing)
    };
    engine.op("outer").writes([x]).push(outer).unwrap();
    let error = engine.wait_for_var(x).unwrap_err();
    assert_says(&error, ErrorKind::ThreadRefused, &["'outer'", "worker 2 of 4 of 'seriatim-prio'"]);
    engine.op("urgent").writes([x]).property(Property::CpuPrioritized).push(nothing).unwrap();
    engine.wait_for_all().unwrap();
    assert_eq!(engine.version(x).unwrap(), 2);
}

#[test]
fn pushes_stops_and_starts_under_refusals_lose_nothing() {
    let _watchdog = Watchdog::new(60, "refusals among pushes, stops and starts");
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(3).build().unwrap();
        let shared: Vec<Variable> = (0..3).map(|_| engine.new_variable()).collect();
        let (accepted, ran) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let refusals = Arc::new(AtomicUsize::new(0));
        let pushers: Vec<_> = (0..3)
            .map(|thread| {
                let (engine, shared, ran) = (engine.clone(), shared.clone(), Arc::clone(&ran));
                let (accepted, refusals) = (Arc::clone(&accepted), Arc::clone(&refusals));
                std::thread::spawn(move || {
                    let mut random = Random(thread);
                    for _ in 0..3_000 {
                        if random.chance(30) {
                            refuse_after(random.below(3), 1);
                        }
                        let property = random.pick(&[Property::Normal, Property::CpuPrioritized, Property::CopyToGpu]);
                        let builder = engine.op("step").reads([random.pick(&shared)]).writes([random.pick(&shared)]);
                        match builder.property(property).push(counting(&ran)) {
                            Ok(()) => accepted.fetch_add(1, SeqCst),
                            Err(error) if error.kind() == ErrorKind::ThreadRefused => refusals.fetch_add(1, SeqCst),
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::Stopped);
                                std::thread::yield_now();
                                continue;
                            }
                        };
                    }
                    refuse_after(0, 0);
                })
            })
            .collect();
        let mut random = Random(9);
        while !pushers.iter().all(|pusher| pusher.is_finished()) {
            std::thread::sleep(std::time::Duration::from_micros(300));
            engine.stop().unwrap();
            refuse_after(random.below(3), random.below(2));
            if let Err(error) = engine.start() {
                assert_eq!(error.kind(), ErrorKind::ThreadRefused);
                refusals.fetch_add(1, SeqCst);
                refuse_after(0, 0);
                engine.start().unwrap();
            }
            refuse_after(0, 0);
        }
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), accepted.load(SeqCst));
        assert!(refusals.load(SeqCst) > 0 && ran.load(SeqCst) > 0, "{refusals:?} refusals, {ran:?} ran");
    }
}

#[test]
fn the_workers_that_were_granted_end_when_one_is_refused() {
    run_child_well(&mut child("refused threads come back"));
}

/// In a process of its own, to count threads.
pub fn all_or_none() {
    let others = thread_count();
    for (engine, property, group, workers) in groups() {
        for point in 0..workers {
            refuse_after(point, 1);
            engine.op("refused").property(property).push(nothing).unwrap_err();
            eventually(&format!("{group} is down again"), || thread_count() == others);
        }
        drop(engine);
        assert_eq!(thread_count(), others);
    }
}

#[test]
fn an_engine_whose_end_is_refused_a_thread_runs_what_is_in_flight() {
    run_child_well(&mut child("refused closer"));
}

/// The last handle goes inside an operation, so the end wants a thread of its own and does not get
/// it. The workers then stay, but every operation runs. In a process of its own, which ends with
/// them.
pub fn refused_closer() {
    let _watchdog = Watchdog::new(60, "operations of an engine that cannot end");
    for builder in builders() {
        let ran = Arc::new(AtomicUsize::new(0));
        let engine = builder.build().unwrap();
        let x = engine.new_variable();
        let first = hold(&engine, &[], &[x]);
        let last = Arc::new(Mutex::new(None::<Engine>));
        let (own, count) = (Arc::clone(&last), counting(&ran));
        let body = move |run: &RunContext<'_>| {
            count(run);
            let last = own.lock().unwrap().take().expect("it was put there before");
            refuse_after(0, 1);
            drop(last);
            assert_eq!(refusals_left(), 0, "the end wants a thread");
        };
        engine.op("drops it").writes([x]).push(body).unwrap();
        (0..100).for_each(|_| engine.op("behind").writes([x]).push(counting(&ran)).unwrap());
        *last.lock().unwrap() = Some(engine);
        first.complete();
        eventually("everything has run", || ran.load(SeqCst) == 101);
        assert_eq!(Arc::strong_count(&ran), 1, "every closure is gone");
    }
}
