//! What operations of a graph may do: push, capture, replay and drop, but not wait.

use crate::common::*;
use crate::helpers::*;
use seriatim::{ErrorKind, Graph};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

#[test]
fn waits_inside_an_operation_of_a_graph_are_refused() {
    in_every_way(|engine, way| {
        let [x, y] = variables(&engine);
        let (refused, asynchronously) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let own = engine.clone();
        let look = move || {
            let outcomes = [
                own.wait_for_var(y),
                own.wait_for_var_timeout(x, Duration::from_millis(1)),
                own.wait_for_all(),
                own.wait_for_all_timeout(Duration::from_millis(1)),
                own.stop(),
                own.start(),
            ];
            outcomes
                .iter()
                .filter(|outcome| matches!(outcome, Err(error) if error.kind() == ErrorKind::WaitInsideOperation))
                .count()
        };
        let (graph, ()) = engine
            .capture(|c| {
                way.choose(c);
                let (look_now, refused) = (look.clone(), Arc::clone(&refused));
                c.op("waits").writes([x]).push(move |_| refused.store(look_now(), SeqCst))?;
                let (look_now, refused) = (look.clone(), Arc::clone(&asynchronously));
                c.op("waits, too").writes([x]).push_async(move |_, completion| {
                    completion.complete();
                    refused.store(look_now(), SeqCst);
                })
            })
            .unwrap();
        graph.replay().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!((refused.load(SeqCst), asynchronously.load(SeqCst)), (6, 6));
    });
}

#[test]
fn what_an_operation_of_a_graph_pushes_comes_behind_the_replay() {
    in_every_way(|engine, way| {
        let log = Log::default();
        let [x, y] = variables(&engine);
        let (graph, ()) = engine
            .capture(|c| {
                way.choose(c);
                let (own, inner) = (engine.clone(), log.clone());
                c.op("first").writes([x]).push(move |_| {
                    inner.add("first");
                    own.op("nested").writes([x, y]).push(inner.note())
                })?;
                c.op("second").reads([x]).writes([y]).push(log.note())?;
                c.op("third").writes([y]).push(log.note())
            })
            .unwrap();
        for _ in 0..10 {
            graph.replay().unwrap();
            engine.wait_for_all().unwrap();
            assert_eq!(log.take(), ["first", "second", "third", "nested"]);
        }
    });
}

#[test]
fn an_operation_of_a_graph_replays_other_graphs_and_its_own() {
    in_every_way(|engine, way| {
        const DEPTH: usize = 200;
        let log = Log::default();
        let [x, y] = variables(&engine);
        let own: Arc<OnceLock<Graph>> = Arc::default();
        let ran = Arc::new(AtomicUsize::new(0));
        let (other, ()) = engine
            .capture(|c| {
                way.choose(c);
                c.op("other").writes([x, y]).push(counting(&ran))
            })
            .unwrap();
        let (graph, ()) = engine
            .capture(|c| {
                way.choose(c);
                let (own, log) = (Arc::clone(&own), log.clone());
                let mut left = DEPTH;
                c.op("again").writes([x]).push(move |_| {
                    log.add("again");
                    other.replay()?;
                    left -= 1;
                    if left > 0 {
                        own.get().expect("set before the first replay").replay()?;
                    }
                    Ok::<(), seriatim::Error>(())
                })?;
                c.op("second").reads([x]).writes([y]).push(counting(&ran))
            })
            .unwrap();
        own.set(graph).unwrap();
        own.get().unwrap().replay().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!((log.take().len(), ran.load(SeqCst)), (DEPTH, 2 * DEPTH));
        assert_eq!(versions(&engine, [x, y]), [2 * DEPTH as u64; 2]);
    });
}

#[test]
fn an_operation_of_a_graph_captures_replays_and_drops_another() {
    in_every_way(|engine, way| {
        let ran = Arc::new(AtomicUsize::new(0));
        let census = Census::default();
        let [x, y] = variables(&engine);
        let (graph, ()) = engine
            .capture(|c| {
                let (own, ran, census) = (engine.clone(), Arc::clone(&ran), census.clone());
                c.op("outer").writes([x]).push(move |_| {
                    let alive = census.one();
                    let count = counting(&ran);
                    let (inner, ()) = own.capture(|c| {
                        way.choose(c);
                        c.op("inner").reads([x]).writes([y]).push(move |run| {
                            alive.touch();
                            count(run);
                        })?;
                        c.op("inner, too").reads([y]).push(nothing)
                    })?;
                    inner.replay()?;
                    inner.replay()
                })
            })
            .unwrap();
        for _ in 0..20 {
            graph.replay().unwrap();
        }
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 40);
        eventually("the inner graphs are gone", || census.count() == 0);
        assert_eq!(versions(&engine, [x, y]), [20, 40]);
    });
}

#[test]
fn an_operation_drops_its_own_graph() {
    in_every_way(|engine, way| {
        let census = Census::default();
        let x = engine.new_variable();
        let held: Arc<Mutex<Option<Graph>>> = Arc::default();
        let (graph, ()) = engine
            .capture(|c| {
                way.choose(c);
                let (alive, own) = (census.one(), Arc::clone(&held));
                c.op("drops its graph").writes([x]).push(move |_| {
                    drop(own.lock().unwrap().take());
                    alive.touch();
                })?;
                let alive = census.one();
                c.op("still runs").writes([x]).push(move |_| alive.touch())
            })
            .unwrap();
        graph.replay().unwrap();
        engine.wait_for_all().unwrap();
        let first = hold(&engine, &[], &[x]);
        graph.replay().unwrap();
        graph.replay().unwrap();
        *held.lock().unwrap() = Some(graph);
        first.complete();
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(x).unwrap(), 3 * 2 + 1);
        eventually("the closures are gone", || census.count() == 0);
    });
}
