//! Bounds on what is in flight.

use crate::common::*;
use seriatim::{Completion, Context, Engine, ErrorKind, Kind, RunContext, Variable, WhenFull};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn the_bound_holds_whatever_a_push_does_at_it() {
    let _watchdog = Watchdog::new(120, "pushes under a bound");
    with_every_builder(|builder| {
        for when_full in [WhenFull::WouldBlock, WhenFull::Block, WhenFull::Help] {
            for bound in [1, 7, 64] {
                let engine = builder.clone().bound(bound).when_full(when_full).build().unwrap();
                bounded_pushes(&engine, bound);
            }
        }
    });
}

fn bounded_pushes(engine: &Engine, bound: usize) {
    let (accepted, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let most = Arc::new(AtomicUsize::new(0));
    let shared: Vec<Variable> = (0..4).map(|_| engine.new_variable()).collect();
    let pushers: Vec<_> = (0..3)
        .map(|thread| {
            let (engine, shared) = (engine.clone(), shared.clone());
            let (accepted, ended, most) = (Arc::clone(&accepted), Arc::clone(&ended), Arc::clone(&most));
            std::thread::spawn(move || {
                let mut random = Random(thread);
                for _ in 0..200 {
                    let builder = engine.op("step").reads([random.pick(&shared)]).writes([random.pick(&shared)]);
                    let count = counting(&ended);
                    let elsewhere = random.chance(20);
                    let body = move |run: &RunContext<'_>, completion: Completion| {
                        count(run);
                        match elsewhere {
                            true => drop(std::thread::spawn(move || completion.complete())),
                            false => completion.complete(),
                        }
                    };
                    // What is synchronous goes into a log, if no other thread pushes to its
                    // variables just now.
                    let pushed =
                        if random.chance(50) { builder.push(counting(&ended)) } else { builder.push_async(body) };
                    match pushed {
                        // In this order: what has ended by the later look had ended for good, so
                        // what is left was in flight.
                        Ok(()) => {
                            let pushed = accepted.fetch_add(1, SeqCst) + 1;
                            most.fetch_max(pushed.saturating_sub(ended.load(SeqCst)), SeqCst);
                        }
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::EngineFull);
                            assert_eq!(engine.settings().when_full, WhenFull::WouldBlock);
                            std::thread::yield_now();
                        }
                    }
                }
            })
        })
        .collect();
    pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
    engine.wait_for_all().unwrap();
    let (accepted, most) = (accepted.load(SeqCst), most.load(SeqCst));
    assert_eq!(ended.load(SeqCst), accepted);
    // Also those that were refused have given their places back.
    (0..bound).for_each(|_| engine.op("room").push(nothing).expect("nothing is in flight"));
    engine.wait_for_all().unwrap();
    assert!(most <= bound, "{most} in flight, bound {bound}");
    assert!(accepted == 600 || engine.settings().when_full == WhenFull::WouldBlock);
}

#[test]
fn at_the_bound_a_push_blocks_until_there_is_room() {
    with_every_builder(|builder| {
        for when_full in [WhenFull::Block, WhenFull::Help] {
            let engine = builder.clone().bound(3).when_full(when_full).build().unwrap();
            let x = engine.new_variable();
            let first = hold(&engine, &[], &[x]);
            engine.op("second").writes([x]).push(nothing).unwrap();
            engine.op("third").writes([x]).push(nothing).unwrap();
            let pushed = Arc::new(AtomicBool::new(false));
            let pusher = std::thread::spawn({
                let (engine, pushed) = (engine.clone(), Arc::clone(&pushed));
                move || {
                    engine.op("fourth").writes([x]).push(nothing).unwrap();
                    pushed.store(true, SeqCst);
                }
            });
            std::thread::sleep(Duration::from_millis(5));
            assert!(!pushed.load(SeqCst), "there is no room");
            engine
                .wait_for_var_timeout(x, Duration::from_millis(1))
                .expect_err("a wait needs no room, and finds it busy");
            first.complete();
            pusher.join().unwrap();
            engine.wait_for_all().unwrap();
            assert_eq!(engine.version(x).unwrap(), 4);
        }
    });
}

#[test]
fn a_pusher_that_helps_runs_operations_itself() {
    let engine =
        Engine::builder().kind(Kind::PerDevice).cpu_workers(1).bound(4).when_full(WhenFull::Help).build().unwrap();
    let this = std::thread::current().id();
    let (own, gate) = (Arc::new(AtomicUsize::new(0)), Gate::new());
    // The only worker is occupied, so nobody but the pusher can make room.
    let inner = gate.clone();
    engine.op("occupies the worker").push(move |_| inner.pass()).unwrap();
    gate.wait_for_someone();
    for _ in 0..100 {
        let own = Arc::clone(&own);
        let body = move |run: &RunContext<'_>| {
            assert_eq!(run.worker().is_none(), std::thread::current().id() == this);
            own.fetch_add(usize::from(run.worker().is_none()), SeqCst);
        };
        engine.op("short").push(body).unwrap();
    }
    assert!(own.load(SeqCst) >= 96);
    gate.open();
    engine.wait_for_all().unwrap();
}

#[test]
fn operations_push_beyond_the_bound_rather_than_wait_for_themselves() {
    let _watchdog = Watchdog::new(120, "nested pushes at the bound");
    with_every_builder(|builder| {
        for when_full in [WhenFull::Block, WhenFull::Help, WhenFull::WouldBlock] {
            let engine = builder.clone().bound(1).when_full(when_full).build().unwrap();
            let ran = Arc::new(AtomicUsize::new(0));
            let (own, count) = (engine.clone(), counting(&ran));
            let outer = move |_: &RunContext<'_>| (0..50).try_for_each(|_| own.op("nested").push(count.clone()));
            engine.op("outer").push(outer).unwrap();
            engine.wait_for_all().unwrap();
            assert_eq!(ran.load(SeqCst), 50);
            eventually("there is room again", || engine.op("room").push(nothing).is_ok());
        }
    });
}

/// A refused push leaves nothing behind that others would have to wait for.
#[test]
fn a_push_that_is_refused_gives_its_room_back() {
    with_every_builder(|builder| {
        let engine = builder.bound(1).when_full(WhenFull::WouldBlock).build().unwrap();
        let (x, dead) = (engine.new_variable(), engine.new_variable());
        engine.delete_variable(|_| (), Context::cpu(0), dead).unwrap();
        engine.wait_for_all().unwrap();
        let step = engine.op("operator").writes([x]).operator(nothing).unwrap();
        for _ in 0..3 {
            let refused = [
                engine.op("refused").writes([x, dead]).push(nothing),
                engine.op("refused").writes([dead]).push_async(|_, completion: Completion| completion.complete()),
                engine.op("refused").context(Context::gpu(0)).writes([x]).push(nothing),
            ];
            assert!(refused.iter().all(Result::is_err));
            engine.op("room").push(nothing).expect("nothing is in flight");
            engine.wait_for_all().unwrap();
            engine.push(&step, Context::cpu(0), 0).expect("nothing is in flight");
            engine.wait_for_all().unwrap();
        }
    });
}
