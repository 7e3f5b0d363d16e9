//! Forks.

use crate::common::*;
use seriatim::{Data, Engine, Error, ErrorKind, Kind, Property, Variable};

#[test]
fn a_fork_leaves_a_working_engine_in_the_parent_and_in_the_child() {
    for kind in ["naive", "pooled", "per-device"] {
        run_child_well(child("fork").env("TEST_CHILD_KIND", kind));
    }
}

#[test]
fn a_fork_keeps_stopped_engines_stopped_and_several_engines_apart() {
    run_child_well(&mut child("fork several"));
}

#[test]
fn a_fork_inside_an_operation_does_not_hang() {
    for kind in ["naive", "pooled", "per-device"] {
        run_child_well(child("fork inside").env("TEST_CHILD_KIND", kind));
    }
}

#[test]
fn a_fork_by_a_thread_that_owes_a_completion_does_not_hang() {
    for kind in ["naive", "pooled", "per-device"] {
        run_child_well(child("fork owing").env("TEST_CHILD_KIND", kind));
    }
}

/// A fork while operations are in flight, twice, and work on both sides.
pub fn fork_with_work_in_flight() {
    let kind: Kind = std::env::var("TEST_CHILD_KIND").unwrap().parse().unwrap();
    let engine =
        Engine::builder().kind(kind).cpu_workers(3).fork_patience(std::time::Duration::from_secs(30)).build().unwrap();
    let x = Data::new(&engine, 0u64);
    let push = |count: u64| {
        for _ in 0..count {
            let own = x.clone();
            let add = move |_: &seriatim::RunContext<'_>| {
                *own.write()? += 1;
                Ok::<(), Error>(())
            };
            engine.op("add").writes([&x]).push(add).unwrap();
            engine.op("copy").property(Property::CopyToGpu).push(nothing).unwrap();
            engine.op("urgent").property(Property::CpuPrioritized).push(nothing).unwrap();
        }
    };
    for round in 1..=3u64 {
        push(1_000);
        fork_and(|| {
            assert_eq!(*x.read().unwrap(), round * 1_000, "what was pushed before the fork has run");
            push(500);
            engine.wait_for_all().unwrap();
            assert_eq!(*x.read().unwrap(), round * 1_000 + 500);
            assert_eq!(engine.version(x.variable()).unwrap(), round * 1_000 + 500);
            // One level deeper, and the end of the engine in a child.
            fork_and(|| {
                engine.op("deeper").writes([&x]).push(nothing).unwrap();
                engine.wait_for_var(x.variable()).unwrap();
                drop(engine.clone());
                engine.stop().unwrap();
            });
            engine.wait_for_all().unwrap();
        });
        engine.wait_for_all().unwrap();
        assert_eq!(*x.read().unwrap(), round * 1_000, "the child's operations are the child's");
    }
}

pub fn fork_with_several_engines() {
    let engines: Vec<Engine> = builders().into_iter().map(|builder| builder.build().unwrap()).collect();
    let variables: Vec<Variable> = engines.iter().map(Engine::new_variable).collect();
    let stopped = Engine::builder().build().unwrap();
    stopped.stop().unwrap();
    let use_all = || {
        for (engine, x) in engines.iter().zip(&variables) {
            (0..100).for_each(|_| engine.op("write").writes([*x]).push(nothing).unwrap());
        }
        for (engine, x) in engines.iter().zip(&variables) {
            engine.wait_for_var(*x).unwrap();
        }
        let refused = stopped.op("write").push(nothing).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Stopped);
    };
    use_all();
    fork_and(|| {
        use_all();
        stopped.start().unwrap();
        stopped.op("write").push(nothing).unwrap();
        stopped.wait_for_all().unwrap();
        // New engines in the child are like any others.
        on_every_engine(|engine| {
            engine.op("write").push(nothing).unwrap();
            engine.wait_for_all().unwrap();
        });
    });
    use_all();
}

pub fn fork_inside_an_operation() {
    let kind: Kind = std::env::var("TEST_CHILD_KIND").unwrap().parse().unwrap();
    let engine = Engine::builder().kind(kind).cpu_workers(2).build().unwrap();
    let other = Engine::builder().cpu_workers(1).build().unwrap();
    let (own, x) = (engine.clone(), engine.new_variable());
    let inside = move |_: &seriatim::RunContext<'_>| {
        fork_and(|| {
            // This engine's threads are gone in the middle of something; another engine works.
            let refused = std::thread::spawn(move || own.op("late").push(nothing).unwrap_err()).join().unwrap();
            assert_eq!(refused.kind(), ErrorKind::Stopped);
            other.op("write").push(nothing).unwrap();
            other.wait_for_all().unwrap();
        });
    };
    engine.op("forks").writes([x]).push(inside).unwrap();
    engine.wait_for_all().unwrap();
    engine.op("after").writes([x]).push(nothing).unwrap();
    engine.wait_for_all().unwrap();
    assert_eq!(engine.version(x).unwrap(), 2);
}

/// The engine cannot be drained for the fork: it goes on in the parent, and in the child it refuses
/// pushes.
pub fn fork_while_owing() {
    let kind: Kind = std::env::var("TEST_CHILD_KIND").unwrap().parse().unwrap();
    let engine = Engine::builder().kind(kind).cpu_workers(2).build().unwrap();
    let x = engine.new_variable();
    let owed = hold(&engine, &[], &[x]);
    engine.op("behind").writes([x]).push(nothing).unwrap();
    fork_and(|| {
        let refused = engine.op("late").push(nothing).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Stopped);
        let own = Engine::builder().kind(kind).cpu_workers(2).build().unwrap();
        own.op("works").push(nothing).unwrap();
        own.wait_for_all().unwrap();
    });
    engine.op("after").writes([x]).push(nothing).unwrap();
    owed.complete();
    engine.wait_for_all().unwrap();
    assert_eq!(engine.version(x).unwrap(), 3);
}
