//! Failures inside graphs: they travel along variables as if the operations had been pushed one by
//! one.

use crate::common::*;
use crate::helpers::*;
use seriatim::{ErrorKind, Property};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::Arc;

#[test]
fn a_failure_travels_inside_a_graph_and_out_of_it_and_is_cleared_by_the_first_wait() {
    in_every_way(|engine, way| {
        let ran = Arc::new(AtomicUsize::new(0));
        let bad = Arc::new(AtomicBool::new(true));
        let [a, b, c, d, clean, out] = variables(&engine);
        let inner = Arc::clone(&bad);
        let (graph, ()) = engine
            .capture(|g| {
                way.choose(g);
                g.op("fails").writes([a, b]).push(move |_| match inner.load(SeqCst) {
                    true => Err("the source"),
                    false => Ok(()),
                })?;
                g.op("reads it").reads([a]).writes([c]).push(counting(&ran))?;
                g.op("is not concerned").writes([clean]).push(counting(&ran))?;
                g.op("passes it on").reads([c, clean]).writes([d]).push(counting(&ran))?;
                g.op("overwrites it").writes([b]).push(counting(&ran))
            })
            .unwrap();
        for taker in [a, b, c, d, out] {
            ran.store(0, SeqCst);
            let before = versions(&engine, [a, b, c, d, clean, out]);
            graph.replay().unwrap();
            engine.op("outside").reads([d]).writes([out]).push(counting(&ran)).unwrap();
            engine.op("outside as well").reads([clean]).push(counting(&ran)).unwrap();
            settle(&engine);
            assert_eq!(ran.load(SeqCst), 2, "those that the failure does not reach");
            let after = versions(&engine, [a, b, c, d, clean, out]);
            let steps: Vec<u64> = after.iter().zip(before).map(|(now, then)| now - then).collect();
            assert_eq!(steps, [1, 2, 1, 1, 1, 1], "failed and skipped operations step versions");
            engine.wait_for_var(clean).expect("it is not marked");
            let error = engine.wait_for_var(taker).unwrap_err();
            assert_eq!(error.operation(), Some("fails"), "the error of the operation, not of its graph");
            assert_failed(Err(error), "the source");
            [a, b, c, d, out].into_iter().for_each(|v| engine.wait_for_var(v).expect("it was taken"));
            engine.wait_for_all().expect("it was taken");
        }
        bad.store(false, SeqCst);
        graph.replay().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 2 + 4, "nothing is left of it");
    });
}

#[test]
fn every_kind_of_failure_comes_out_of_a_graph() {
    in_every_way(|engine, way| {
        let vars: [_; 6] = variables(&engine);
        let (graph, ()) = engine
            .capture(|c| {
                way.choose(c);
                c.op("returns").writes([vars[0]]).push(|_| Err("bad"))?;
                c.op("panics").writes([vars[1]]).push(|_| {
                    if true {
                        resume_unwind(Box::new("worse"))
                    }
                })?;
                c.op("is failed").writes([vars[2]]).push_async(|_, completion| completion.fail("late"))?;
                c.op("drops").writes([vars[3]]).push_async(|_, completion| drop(completion))?;
                c.op("unwinds").writes([vars[4]]).push_async(|_, completion| {
                    let _completion = completion;
                    resume_unwind(Box::new("held it"))
                })?;
                // On another thread.
                c.op("elsewhere").writes([vars[5]]).push_async(|_, completion| {
                    std::thread::spawn(move || completion.fail("far"));
                })
            })
            .unwrap();
        for _ in 0..3 {
            graph.replay().unwrap();
            let errors = vars.map(|variable| engine.wait_for_var(variable).unwrap_err());
            let found = errors.each_ref().map(|error| (error.operation().unwrap(), error.kind()));
            let expected = [
                ("returns", ErrorKind::OperationFailed),
                ("panics", ErrorKind::OperationPanicked),
                ("is failed", ErrorKind::OperationFailed),
                ("drops", ErrorKind::CompletionDropped),
                ("unwinds", ErrorKind::OperationPanicked),
                ("elsewhere", ErrorKind::OperationFailed),
            ];
            assert_eq!(found, expected);
            for (error, part) in errors.iter().zip(["bad", "worse", "late", "was dropped", "held it", "far"]) {
                assert_says(error, error.kind(), &[part]);
            }
            engine.wait_for_all().unwrap();
        }
    });
}

#[test]
fn a_panic_after_the_completion_was_given_away_is_not_lost() {
    in_every_way(|engine, way| {
        let x = engine.new_variable();
        let (graph, ()) = engine
            .capture(|c| {
                way.choose(c);
                c.op("unwinds").writes([x]).push_async(|_, completion| {
                    completion.complete();
                    resume_unwind(Box::new("too late"))
                })?;
                c.op("next").writes([x]).push(nothing)
            })
            .unwrap();
        graph.replay().unwrap();
        engine.wait_for_var(x).expect("it has ended well");
        assert_says(&engine.wait_for_all().unwrap_err(), ErrorKind::OperationPanicked, &["too late"]);
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_marked_variable_keeps_only_those_from_running_that_use_it() {
    in_every_way(|engine, way| {
        let log = Log::default();
        let [x, y, z, free] = variables(&engine);
        let (graph, ()) = engine
            .capture(|c| {
                way.choose(c);
                c.op("free").writes([free]).push(log.note())?;
                c.op("reads x").reads([x]).writes([y]).push(log.note())?;
                c.op("reads y").reads([y]).writes([z]).push(log.note())?;
                let own = log.clone();
                c.op("starts").reads([z]).push_async(move |_, completion| {
                    own.add("starts");
                    completion.complete();
                })?;
                c.op("free again").reads([free]).push(log.note())
            })
            .unwrap();
        for round in 0..3 {
            let before = versions(&engine, [x, y, z, free]);
            engine.op("fails").writes([x]).push(|_| Err("before the graph")).unwrap();
            graph.replay().unwrap();
            settle(&engine);
            assert_eq!(log.take(), ["free", "free again"]);
            let after = versions(&engine, [x, y, z, free]);
            assert_eq!(after, before.map(|version| version + 1));
            let taker = [x, y, z][round];
            assert_failed(engine.wait_for_var(taker), "before the graph");
            graph.replay().unwrap();
            engine.wait_for_all().unwrap();
            assert_eq!(log.take().len(), 5);
        }
    });
}

#[test]
fn what_was_pushed_before_a_wait_is_skipped_and_what_comes_after_it_runs() {
    in_every_way(|engine, way| {
        let ran = Arc::new(AtomicUsize::new(0));
        let [x, y, gate] = variables(&engine);
        let (graph, ()) = engine
            .capture(|c| {
                way.choose(c);
                c.op("waits").reads([gate]).push(nothing)?;
                c.op("uses x").reads([x]).writes([y]).push(counting(&ran))
            })
            .unwrap();
        engine.op("fails").writes([x]).push(|_| Err("taken early")).unwrap();
        let first = hold(&engine, &[], &[gate]);
        graph.replay().unwrap();
        assert_failed(engine.wait_for_var(x), "taken early");
        graph.replay().unwrap();
        first.complete();
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 1, "the first is skipped, although its error was taken before it ran");
    });
}

#[test]
fn a_no_skip_operation_of_a_graph_runs_and_passes_the_mark_on() {
    in_every_way(|engine, way| {
        let log = Log::default();
        let [x, y, z] = variables(&engine);
        let (graph, ()) = engine
            .capture(|c| {
                way.choose(c);
                c.op("fails").writes([x]).push(|_| Err("bad"))?;
                c.op("runs").reads([x]).writes([y]).property(Property::NoSkip).push(log.note())?;
                let own = log.clone();
                let start = c.op("starts").reads([y]).writes([z]).property(Property::NoSkip);
                start.push_async(move |_, completion| {
                    own.add("starts");
                    completion.complete();
                })?;
                c.op("is skipped").reads([z]).push(log.note())
            })
            .unwrap();
        graph.replay().unwrap();
        settle(&engine);
        assert_eq!(log.take(), ["runs", "starts"]);
        assert_failed(engine.wait_for_var(z), "bad");
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn waiting_for_everything_returns_the_first_error() {
    in_every_way(|engine, way| {
        let [x, y, z, w] = variables(&engine);
        let (graph, ()) = engine
            .capture(|c| {
                way.choose(c);
                c.op("first inside").writes([y]).push(|_| Err("first inside"))?;
                // Follows it, so that it is the second in every order.
                c.op("second inside").reads([y]).property(Property::NoSkip).writes([z]).push(|_| Err("second inside"))
            })
            .unwrap();
        graph.replay().unwrap();
        engine.op("behind").writes([w]).push(|_| Err("behind")).unwrap();
        assert_failed(engine.wait_for_all(), "first inside");
        engine.wait_for_all().unwrap();
        [x, y, z, w].into_iter().for_each(|variable| engine.wait_for_var(variable).expect("all are cleared"));
        // The first to be pushed is the last to fail.
        let first = hold(&engine, &[], &[x]);
        engine.op("before").reads([x]).push(|_| Err("before")).unwrap();
        graph.replay().unwrap();
        engine.op("behind").writes([w]).push(|_| Err("behind")).unwrap();
        eventually("the others have failed", || versions(&engine, [z, w]).iter().all(|version| *version == 2));
        first.complete();
        assert_failed(engine.wait_for_all(), "before");
        engine.wait_for_all().unwrap();
        // One that changes nothing is not lost either.
        let (silent, ()) = engine.capture(|c| c.op("nothing").push(|_| Err("nothing changed"))).unwrap();
        silent.replay().unwrap();
        assert_failed(engine.wait_for_all(), "nothing changed");
    });
}

#[test]
fn a_closure_is_called_again_after_it_has_panicked() {
    in_every_way(|engine, way| {
        let x = engine.new_variable();
        let mut calls = 0;
        let (graph, ()) = engine
            .capture(|c| {
                way.choose(c);
                c.op("every other").writes([x]).push(move |_| {
                    calls += 1;
                    if calls % 2 == 1 {
                        resume_unwind(Box::new("odd"));
                    }
                })
            })
            .unwrap();
        for round in 0..20 {
            graph.replay().unwrap();
            assert_eq!(engine.wait_for_var(x).is_err(), round % 2 == 0);
        }
    });
}
