//! What captures and replays refuse, and that nothing is left of it.

use crate::common::*;
use crate::helpers::*;
use seriatim::{Context, Engine, Error, ErrorKind, Kind, Property};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::Arc;

#[test]
fn a_capture_refuses_what_a_push_would_and_records_the_rest() {
    on_every_engine(|engine| {
        let (ran, census) = (Arc::new(AtomicUsize::new(0)), Census::default());
        let [x, gone] = variables(&engine);
        engine.delete_variable(|_| (), Context::cpu(0), gone).unwrap();
        let other = Engine::builder().kind(Kind::Naive).build().unwrap();
        let foreign = other.new_variable();
        let step = other.op("step").operator(|_| ()).unwrap();
        let stale = engine.new_variable();
        let orphan = engine.op("orphan").writes([stale]).operator(|_| ()).unwrap();
        engine.delete_variable(|_| (), Context::cpu(0), stale).unwrap();
        let (graph, ()) = engine
            .capture(|c| {
                let alive = census.one();
                let own = move |_: &seriatim::RunContext<'_>| alive.touch();
                let refused = [
                    c.op("dead").reads([gone]).writes([x]).push(own),
                    c.op("foreign").reads([x]).writes([foreign]).push(nothing),
                    c.op("far").writes([x]).context(Context::cpu(100_000)).push(nothing),
                    c.op("graphics").writes([x]).context(Context::gpu(0)).push(nothing),
                    c.push(&step, Context::cpu(0), 0),
                    c.push(&orphan, Context::cpu(0), 0),
                    c.op("later").writes([gone]).push_async(|_, completion| completion.complete()),
                ];
                let kinds = refused.map(|refused| refused.unwrap_err().kind());
                let expected = [
                    ErrorKind::VariableDeleted,
                    ErrorKind::ForeignVariable,
                    ErrorKind::UnknownDevice,
                    ErrorKind::DeviceUnavailable,
                    ErrorKind::ForeignOperator,
                    ErrorKind::VariableDeleted,
                    ErrorKind::VariableDeleted,
                ];
                assert_eq!(kinds, expected);
                assert_eq!(census.count(), 0, "a closure that is refused is dropped");
                c.op("well").writes([x]).push(counting(&ran))
            })
            .unwrap();
        assert_eq!(graph.len(), 1);
        graph.replay().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!((ran.load(SeqCst), engine.version(x).unwrap()), (1, 1));
    });
}

#[test]
fn a_graph_is_not_made_of_variables_that_have_ended_meanwhile() {
    on_every_engine(|engine| {
        let recorded = || {
            let (x, mut capture) = (engine.new_variable(), engine.begin_capture());
            capture.op("step").writes([x]).push(nothing).unwrap();
            (x, capture)
        };
        let (x, capture) = recorded();
        engine.delete_variable(|_| (), Context::cpu(0), x).unwrap();
        assert_eq!(capture.finish().unwrap_err().kind(), ErrorKind::VariableDeleted);
        let ((x, capture), mut other) = (recorded(), engine.begin_capture());
        other.make_private(x).unwrap();
        assert_eq!(capture.finish().unwrap_err().kind(), ErrorKind::PrivateVariable);
        // What was made private makes the engine push, here and there.
        let (x, mut capture) = recorded();
        capture.make_private(x).unwrap();
        engine.stop().unwrap();
        assert_eq!(capture.finish().unwrap_err().kind(), ErrorKind::Stopped);
        assert_eq!(other.make_private(engine.new_variable()).unwrap_err().kind(), ErrorKind::Stopped);
        engine.start().unwrap();
        assert_eq!(other.make_private(x).unwrap_err().kind(), ErrorKind::VariableDeleted);
        other.finish().unwrap().replay().unwrap();
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_capture_that_fails_leaves_nothing_behind() {
    on_every_engine(|engine| {
        let census = Census::default();
        let x = engine.new_variable();
        for _ in 0..100 {
            let mut parameter = None;
            let failed = engine.capture(|c| {
                parameter = Some(c.parameter(census.one()));
                let alive = census.one();
                c.op("well").writes([x]).push(move |_| alive.touch())?;
                let own = engine.new_variable();
                engine.delete_variable(|_| (), Context::cpu(0), own)?;
                c.op("not well").writes([own]).push(nothing)
            });
            assert_eq!(failed.unwrap_err().kind(), ErrorKind::VariableDeleted);
            assert_eq!(census.count(), 1, "only the parameter is left");
            let parameter = parameter.unwrap();
            assert_eq!(parameter.set(census.one()).unwrap_err().kind(), ErrorKind::VariableDeleted);
            drop(parameter);
            assert_eq!(census.count(), 0);
        }
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(x).unwrap(), 0, "nothing of it ran");
        // Deleted only after it was recorded.
        let y = engine.new_variable();
        let failed = engine.capture(|c| {
            let alive = census.one();
            c.op("well").writes([x, y]).push(move |_| alive.touch())?;
            engine.delete_variable(|_| (), Context::cpu(0), y)
        });
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::VariableDeleted);
        // What the user's function says is passed on.
        let failed = engine.capture(|c| -> Result<(), Error> {
            let alive = census.one();
            c.op("well").writes([x]).push(move |_| alive.touch())?;
            Err("sideways".parse::<Kind>().unwrap_err())
        });
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::BadSetting);
        assert_eq!(census.count(), 0);
    });
}

#[test]
fn a_capture_that_panics_leaves_a_working_engine() {
    on_every_engine(|engine| {
        let census = Census::default();
        let x = engine.new_variable();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = engine.capture(|c| -> Result<(), Error> {
                let alive = census.one();
                c.op("well").writes([x]).push(move |_| alive.touch())?;
                std::panic::resume_unwind(Box::new("in the middle"))
            });
        }));
        assert!(panicked.is_err());
        assert_eq!(census.count(), 0);
        engine.op("well").writes([x]).push(nothing).unwrap();
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_replay_with_a_deleted_variable_is_refused_as_a_whole() {
    in_every_way(|engine, way| {
        let ran = Arc::new(AtomicUsize::new(0));
        let [x, y, z] = variables(&engine);
        let (graph, ()) = engine
            .capture(|c| {
                way.choose(c);
                c.op("one").writes([x]).push(counting(&ran))?;
                c.op("two").reads([y]).writes([z]).push(counting(&ran))
            })
            .unwrap();
        let first = hold(&engine, &[], &[y]);
        graph.replay().unwrap();
        engine.delete_variable(|_| (), Context::cpu(0), y).unwrap();
        let refused = graph.replay().unwrap_err();
        assert_says(&refused, ErrorKind::VariableDeleted, &["was deleted"]);
        first.complete();
        engine.wait_for_all().unwrap();
        assert_eq!(graph.replay_with_priority(3).unwrap_err().kind(), ErrorKind::VariableDeleted);
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 2, "what was pushed before runs, and nothing of the rest");
        assert_eq!(versions(&engine, [x, z]), [1, 1]);
    });
}

#[test]
fn a_stopped_engine_refuses_replays_and_takes_them_again() {
    in_every_way(|engine, way| {
        let ran = Arc::new(AtomicUsize::new(0));
        let x = engine.new_variable();
        let (graph, value) = engine
            .capture(|c| {
                way.choose(c);
                c.op("one").writes([x]).push(counting(&ran))?;
                c.op("copy").writes([x]).property(Property::CopyToGpu).push(counting(&ran))?;
                Ok(c.parameter(1))
            })
            .unwrap();
        graph.replay().unwrap();
        engine.stop().unwrap();
        assert_eq!(ran.load(SeqCst), 2, "a stop waits for replays");
        assert_eq!(graph.replay().unwrap_err().kind(), ErrorKind::Stopped);
        assert_eq!(value.set(2).unwrap_err().kind(), ErrorKind::Stopped);
        engine.start().unwrap();
        graph.replay().unwrap();
        value.set(3).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 4);
    });
}

#[test]
fn a_replay_that_is_refused_starts_no_threads() {
    run_child_well(&mut child("replay while stopped"));
}

pub fn replay_while_stopped() {
    let alone = thread_count();
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(2).build().unwrap();
        let x = engine.new_variable();
        let (graph, ()) = engine
            .capture(|c| {
                c.op("one").writes([x]).push(nothing)?;
                c.op("soon").writes([x]).property(Property::CpuPrioritized).push(nothing)?;
                c.op("copy").writes([x]).property(Property::CopyToGpu).push(nothing)
            })
            .unwrap();
        assert_eq!(thread_count(), alone, "a capture runs nothing");
        graph.replay().unwrap();
        engine.wait_for_all().unwrap();
        engine.stop().unwrap();
        eventually("its threads end", || thread_count() == alone);
        assert_eq!(graph.replay().unwrap_err().kind(), ErrorKind::Stopped);
        assert_eq!(thread_count(), alone, "a stopped engine has no threads");
        drop(engine);
        assert_eq!(graph.replay().unwrap_err().kind(), ErrorKind::Stopped);
        assert_eq!(thread_count(), alone, "nor has one that is gone");
    }
}

#[test]
fn after_the_notice_of_the_shutdown_only_deletions_of_a_graph_run() {
    in_every_way(|engine, way| {
        let log = Log::default();
        let [x, y] = variables(&engine);
        let (graph, ()) = engine
            .capture(|c| {
                way.choose(c);
                c.op("plain").writes([x]).push(log.note())?;
                c.op("free").writes([x]).property(Property::DeleteVar).push(log.note())?;
                c.op("no skip").writes([y]).property(Property::NoSkip).push(log.note())?;
                let own = log.clone();
                c.op("asynchronous").writes([y]).push_async(move |_, completion| {
                    own.add("asynchronous");
                    completion.complete();
                })
            })
            .unwrap();
        graph.replay().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(log.take().len(), 4);
        engine.notify_shutdown();
        graph.replay().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(log.take(), ["free"]);
        assert_eq!(versions(&engine, [x, y]), [4, 4]);
    });
}
