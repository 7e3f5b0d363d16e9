//! In which order what runs: inside a graph, and a graph beside others.

use crate::common::*;
use crate::helpers::*;
use seriatim::{Context, Data, Engine, Error, Graph, Kind, Property};
use std::sync::Arc;

#[test]
fn a_naive_engine_runs_a_graph_by_priorities_as_far_as_the_variables_allow() {
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    let log = Log::default();
    let [x, y, z] = variables(&engine);
    let (graph, ()) = engine
        .capture(|c| {
            c.op("low").writes([x]).priority(-1).push(log.note())?;
            c.op("high, behind low").reads([x]).priority(9).push(log.note())?;
            c.op("middle").writes([y]).push(log.note())?;
            c.op("middle, later").writes([z]).push(log.note())?;
            c.op("high").writes([z]).priority(5).push(log.note())?;
            c.op("higher").reads([y]).priority(7).push(log.note())
        })
        .unwrap();
    let expected = ["middle", "higher", "middle, later", "high", "low", "high, behind low"];
    graph.replay().unwrap();
    assert_eq!(log.take(), expected);
    // Also when the replay does not run inside its push.
    let first = hold(&engine, &[], &[x]);
    graph.replay().unwrap();
    first.complete();
    assert_eq!(log.take(), expected);
    // Operators, and what is asynchronous, have their places in it.
    let step = engine.op("operator").writes([x]).operator({
        let log = log.clone();
        move |_| log.add("operator")
    });
    let (graph, ()) = engine
        .capture(|c| {
            c.push(step.as_ref().unwrap(), Context::cpu(0), 1)?;
            let own = log.clone();
            c.op("asynchronous").priority(2).push_async(move |_, completion| {
                own.add("asynchronous");
                completion.complete();
            })?;
            c.push(step.as_ref().unwrap(), Context::cpu(0), 3)
        })
        .unwrap();
    graph.replay().unwrap();
    assert_eq!(log.take(), ["asynchronous", "operator", "operator"]);
}

#[test]
fn replays_of_greater_priority_run_first() {
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(1).waiters_help(false).build().unwrap();
        let log = Log::default();
        let one = |name: &'static str| engine.capture(|c| c.op(name).push(log.note())).unwrap().0;
        let graphs = [one("low"), one("high"), one("middle")];
        let gate = Gate::new();
        let inner = gate.clone();
        engine.op("occupies the worker").push(move |_| inner.pass()).unwrap();
        gate.wait_for_someone();
        for (graph, priority) in graphs.iter().zip([-3, 4, 0]) {
            graph.replay_with_priority(priority).unwrap();
        }
        gate.open();
        engine.wait_for_all().unwrap();
        assert_eq!(log.take(), ["high", "middle", "low"], "{kind}");
    }
}

/// Steps of a stencil, in which every point reads its neighbours, as operations of all kinds.
fn stencil(engine: &Engine, way: Way, points: &[Data<u64>]) -> Graph {
    let captured = engine.capture(|c| {
        way.choose(c);
        for step in 0..6usize {
            for point in 0..points.len() / 2 {
                let half = points.len() / 2;
                let (from, to) = (step % 2 * half, (step + 1) % 2 * half);
                let near = [point.saturating_sub(1), point, (point + 1).min(half - 1)];
                let near = near.map(|near| points[from + near].clone());
                let own = points[to + point].clone();
                let builder = c.op("point").reads(near.iter().map(Data::variable)).write(&own);
                let builder = builder.priority((step * point) as i32 % 3);
                let change = move || {
                    let mut sum = step as u64;
                    for near in &near {
                        sum = mix(sum ^ *near.read()?);
                    }
                    *own.write()? = sum;
                    Ok::<(), Error>(())
                };
                match (step * 7 + point) % 11 {
                    0 => builder.push_async(move |_, completion| match change() {
                        Ok(()) => drop(std::thread::spawn(move || completion.complete())),
                        Err(error) => completion.fail(error),
                    })?,
                    1 => builder.property(Property::CpuPrioritized).push(move |_| change())?,
                    2 => builder.property(Property::CopyFromGpu).push(move |_| change())?,
                    3 => builder.context(Context::cpu(1 + point as u32 % 5)).push(move |_| change())?,
                    _ => builder.push(move |_| change())?,
                }
            }
        }
        Ok(())
    });
    captured.unwrap().0
}

#[test]
fn graphs_leave_on_every_engine_and_in_every_way_what_they_leave_on_a_naive_one() {
    let result = |engine: &Engine, way: Way| {
        let points: Vec<Data<u64>> = (0..16).map(|n| Data::new(engine, mix(n))).collect();
        let graph = stencil(engine, way, &points);
        for round in 0..30 {
            graph.replay().unwrap();
            let disturbed = points[round % points.len()].clone();
            let disturb = move |_: &seriatim::RunContext<'_>| {
                *disturbed.write()? ^= 1;
                Ok::<(), Error>(())
            };
            engine.op("disturbs").write(&points[round % points.len()]).push(disturb).unwrap();
        }
        engine.wait_for_all().unwrap();
        points.iter().map(|point| *point.read().unwrap()).collect::<Vec<_>>()
    };
    let expected = result(&Engine::builder().kind(Kind::Naive).build().unwrap(), Way::ALL[0]);
    in_every_way(|engine, way| assert_eq!(result(&engine, way), expected, "{way:?}"));
}

#[test]
fn replays_of_two_graphs_and_of_one_from_several_threads_exclude_each_other() {
    const ROUNDS: usize = 100;
    let _watchdog = Watchdog::new(300, "several threads replay");
    in_every_way(|engine, way| {
        let [x, y] = [0u64; 2].map(|zero| Data::new(&engine, zero));
        // Between replays the two are equal.
        let make = |by: u64, backwards: bool| {
            let captured = engine.capture(|c| {
                way.choose(c);
                let parts = if backwards { [&y, &x] } else { [&x, &y] };
                let (left, right) = (x.clone(), y.clone());
                c.op("compares").reads([&x, &y]).push(move |_| {
                    assert_eq!(*left.read()?, *right.read()?);
                    Ok::<(), Error>(())
                })?;
                for part in parts {
                    let own = part.clone();
                    c.op("adds").write(part).push(move |_| {
                        *own.write()? += by;
                        Ok::<(), Error>(())
                    })?;
                }
                Ok(())
            });
            captured.unwrap().0
        };
        let graphs = [make(1, false), make(1000, true)];
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (engine, graphs, x, y) = (&engine, &graphs, &x, &y);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        graphs[(round + thread) % 2].replay().unwrap();
                        let (left, right) = (x.clone(), y.clone());
                        let compare = move |_: &seriatim::RunContext<'_>| {
                            assert_eq!(*left.read()?, *right.read()?);
                            Ok::<(), Error>(())
                        };
                        engine.op("compares").reads([x, y]).push(compare).unwrap();
                    }
                });
            }
        });
        engine.wait_for_all().unwrap();
        let replays = [0, 1, 2].map(|thread| (0..ROUNDS).filter(|round| (round + thread) % 2 == 0).count() as u64);
        let small: u64 = replays.iter().sum();
        let sum = small + 1000 * (3 * ROUNDS as u64 - small);
        assert_eq!((*x.read().unwrap(), *y.read().unwrap()), (sum, sum));
        assert_eq!(versions(&engine, [x.variable(), y.variable()]), [3 * ROUNDS as u64; 2]);
    });
}

#[test]
fn versions_step_together_at_the_end_of_a_replay() {
    in_every_way(|engine, way| {
        let x = engine.new_variable();
        let (start, next) = handing_out();
        let seen = Log::default();
        let (graph, ()) = engine
            .capture(|c| {
                way.choose(c);
                for _ in 0..3 {
                    let (own, seen) = (engine.clone(), seen.clone());
                    c.op("writes").writes([x]).push(move |_| {
                        seen.add(if own.version(x)? == 0 { "old" } else { "new" });
                        Ok::<(), Error>(())
                    })?;
                }
                c.op("lasts").reads([x]).push_async(start)
            })
            .unwrap();
        let replaying = std::thread::spawn(move || {
            graph.replay().unwrap();
            graph
        });
        let completion = next();
        assert_eq!((seen.take(), engine.version(x).unwrap()), (vec!["old"; 3], 0));
        completion.complete();
        engine.wait_for_var(x).unwrap();
        assert_eq!(engine.version(x).unwrap(), 3);
        drop(replaying.join().unwrap());
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_graph_that_only_reads_runs_beside_other_readers() {
    in_every_way(|engine, way| {
        let [x, y] = variables(&engine);
        let ran = Arc::default();
        let (graph, ()) = engine
            .capture(|c| {
                way.choose(c);
                c.op("looks").reads([x]).push(counting(&ran))?;
                c.op("looks, too").reads([x, y]).push(counting(&ran))
            })
            .unwrap();
        let reader = hold(&engine, &[x, y], &[]);
        graph.replay().unwrap();
        graph.replay().unwrap();
        eventually("the readers run", || ran.load(std::sync::atomic::Ordering::SeqCst) == 4);
        assert_eq!(versions(&engine, [x, y]), [0, 0]);
        reader.complete();
        engine.wait_for_all().unwrap();
        assert_eq!(versions(&engine, [x, y]), [0, 0]);
    });
}
