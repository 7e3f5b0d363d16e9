//! Stop and start, and the notice of the shutdown.

use crate::common::*;
use seriatim::{Context, Engine, ErrorKind, Kind, Property, RunContext, Variable};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn stopping_and_starting_twice_is_harmless() {
    on_every_engine(|engine| {
        let ran = Arc::new(AtomicUsize::new(0));
        for round in 1..=5 {
            engine.start().unwrap();
            engine.start().unwrap();
            for property in [Property::Normal, Property::CpuPrioritized, Property::CopyToGpu, Property::Async] {
                engine.op("step").property(property).push(counting(&ran)).unwrap();
            }
            engine.stop().unwrap();
            assert_eq!(ran.load(SeqCst), 4 * round, "stopping runs what is in flight");
            engine.stop().unwrap();
            assert_eq!(engine.op("late").push(nothing).unwrap_err().kind(), ErrorKind::Stopped);
        }
        engine.start().unwrap();
        engine.op("step").push(counting(&ran)).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 21);
    });
}

#[test]
fn stopping_waits_for_asynchronous_operations_and_what_is_behind_them() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let completion = hold(&engine, &[], &[x]);
        (0..100).for_each(|_| engine.op("behind").writes([x]).push(nothing).unwrap());
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(10));
            completion.complete();
        });
        engine.stop().unwrap();
        assert_eq!(engine.version(x).unwrap(), 101);
        other.join().unwrap();
    });
}

#[test]
fn operations_that_run_while_the_engine_stops_may_push_what_they_need() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let (own, gate) = (engine.clone(), Gate::new());
        let inner = gate.clone();
        let pusher = std::thread::spawn({
            let engine = engine.clone();
            move || {
                let outer = move |_: &RunContext<'_>| {
                    inner.pass();
                    // A group of workers that has not been needed so far comes up for it.
                    (0..50).try_for_each(|number| {
                        let property = [Property::Normal, Property::CpuPrioritized, Property::CopyToGpu][number % 3];
                        own.op("nested").writes([x]).property(property).push(nothing)
                    })
                };
                engine.op("outer").push(outer).unwrap();
            }
        });
        gate.wait_for_someone();
        let stopper = std::thread::spawn({
            let engine = engine.clone();
            move || engine.stop().unwrap()
        });
        eventually("the stop has begun", || engine.op("late").push(nothing).is_err());
        gate.open();
        stopper.join().unwrap();
        pusher.join().unwrap();
        assert_eq!(engine.version(x).unwrap(), 50);
        engine.wait_for_all().expect("the nested pushes were not refused");
        engine.start().unwrap();
    });
}

#[test]
fn pushes_that_race_with_stops_are_run_or_refused() {
    let _watchdog = Watchdog::new(120, "pushes that race with stops");
    on_every_engine(|engine| {
        let done = Arc::new(AtomicBool::new(false));
        let (accepted, ran) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let shared: Vec<Variable> = (0..3).map(|_| engine.new_variable()).collect();
        let pushers: Vec<_> = (0..3)
            .map(|thread| {
                let (engine, shared, done) = (engine.clone(), shared.clone(), Arc::clone(&done));
                let (accepted, ran) = (Arc::clone(&accepted), Arc::clone(&ran));
                std::thread::spawn(move || {
                    let mut random = Random(thread);
                    while !done.load(Relaxed) {
                        let builder = engine.op("race").reads([random.pick(&shared)]).writes([random.pick(&shared)]);
                        let outcome = match random.below(3) {
                            0 => builder.property(Property::Async).push(counting(&ran)),
                            1 => {
                                let count = counting(&ran);
                                builder.push_async(move |run, completion| {
                                    count(run);
                                    completion.complete();
                                })
                            }
                            _ => builder.push(counting(&ran)),
                        };
                        match outcome {
                            Ok(()) => accepted.fetch_add(1, SeqCst),
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::Stopped);
                                std::thread::yield_now();
                                continue;
                            }
                        };
                        if random.chance(5) {
                            engine.wait_for_var(random.pick(&shared)).unwrap();
                        }
                    }
                })
            })
            .collect();
        let mut rounds = 0;
        // However busy the machine is, some pushes are to meet some stops.
        while rounds < 30 || accepted.load(SeqCst) <= 30 {
            rounds += 1;
            spin(Duration::from_micros(300));
            engine.stop().unwrap();
            engine.start().unwrap();
        }
        done.store(true, Relaxed);
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
        engine.stop().unwrap();
        assert_eq!(ran.load(SeqCst), accepted.load(SeqCst));
        assert!(ran.load(SeqCst) > 30);
    });
}

#[test]
fn several_threads_may_stop_and_start_at_once() {
    let _watchdog = Watchdog::new(120, "stops and starts from several threads");
    on_every_engine(|engine| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let engine = engine.clone();
                std::thread::spawn(move || {
                    for round in 0..25 {
                        match (thread + round) % 2 {
                            0 => engine.stop().unwrap(),
                            _ => engine.start().unwrap(),
                        }
                        let _ = engine.op("step").push(nothing);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        engine.start().unwrap();
        engine.op("step").push(nothing).unwrap();
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_wait_on_a_stopped_engine_starts_no_threads() {
    run_child_well(&mut child("wait while stopped"));
}

pub fn wait_while_stopped() {
    let others = thread_count();
    with_every_builder(|builder| {
        let engine = builder.waiters_help(false).build().unwrap();
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        engine.op("fails").writes([x]).push(|_| Err("marks it")).unwrap();
        engine.stop().unwrap();
        eventually("the workers are gone", || thread_count() == others);
        assert_failed(engine.wait_for_var(x), "marks it");
        engine.wait_for_var(y).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(thread_count(), others, "the engine is stopped");
        drop(engine);
        assert_eq!(thread_count(), others, "the engine is gone");
    });
}

#[test]
fn a_stopped_engine_is_not_prepared() {
    run_child_well(&mut child("prepare while stopped"));
}

pub fn prepare_while_stopped() {
    let others = thread_count();
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        for was_used in [false, true] {
            let engine = Engine::builder().kind(kind).cpu_workers(2).build().unwrap();
            if was_used {
                engine.prepare().unwrap();
            }
            engine.stop().unwrap();
            eventually("the workers are gone", || thread_count() == others);
            let before = engine.new_variable().into_raw().0 as u32;
            (0..100).for_each(|_| assert_eq!(engine.prepare().unwrap_err().kind(), ErrorKind::Stopped));
            assert_eq!(engine.new_variable().into_raw().0 as u32, before + 1, "{kind}: variables are left behind");
            assert_eq!(thread_count(), others, "{kind}: the engine is stopped");
            drop(engine);
            assert_eq!(thread_count(), others, "{kind}: the engine is gone");
        }
    }
}

#[test]
fn after_the_notice_of_the_shutdown_only_deletions_run() {
    on_every_engine(|engine| {
        let (ran, deleted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let witness = Arc::new(());
        let running = hold(&engine, &[], &[x]);
        engine.op("pending").writes([x]).push(counting(&ran)).unwrap();
        engine.notify_shutdown();
        for property in [Property::Normal, Property::NoSkip, Property::Async, Property::CopyToGpu] {
            let (count, own) = (counting(&ran), Arc::clone(&witness));
            let body = move |run: &RunContext<'_>| {
                count(run);
                drop(own);
            };
            engine.op("late").writes([x]).property(property).push(body).unwrap();
        }
        engine.delete_variable(counting(&deleted), Context::cpu(0), y).unwrap();
        running.complete();
        engine.wait_for_var(x).expect("not to run is no failure");
        assert_eq!(engine.version(x).unwrap(), 6, "operations that do not run complete all the same");
        engine.delete_variable(counting(&deleted), Context::cpu(0), x).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!((ran.load(SeqCst), deleted.load(SeqCst)), (0, 2));
        assert_eq!(Arc::strong_count(&witness), 1, "closures are dropped");
    });
}
