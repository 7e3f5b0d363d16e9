//! Variables that are private to a graph: ordered inside, refused outside, gone with the graph.

use super::helpers::{in_every_way, settle, variables, versions, Log};
use crate::common::*;
use seriatim::{Context, Data, Engine, Error, ErrorKind, Graph, Kind, Property, RunContext, Variable};
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::Arc;
use std::time::Duration;

/// How many private values a [`chain`] has.
const LENGTH: usize = 20;

/// A graph that adds 1 to `input`, hands it on through private values, and adds it to `output`. A
/// second chain beside it has private values only.
fn chain(
    engine: &Engine,
    input: &Data<u64>,
    output: &Data<u64>,
    prepare: impl FnOnce(&mut seriatim::Capture),
) -> Graph {
    let captured = engine.capture(|c| {
        prepare(c);
        let values: Vec<Data<u64>> = (0..LENGTH).map(|_| c.private_data(0)).collect();
        let beside: Vec<Data<u64>> = (0..LENGTH).map(|_| c.private_data(0)).collect();
        let step = |c: &mut seriatim::Capture, from: &Data<u64>, to: &Data<u64>, adds: bool| {
            let (source, target) = (from.clone(), to.clone());
            c.op("step").read(from).write(to).push(move |_| {
                let found = *source.read()?;
                let mut target = target.write()?;
                *target = if adds { *target + found } else { found };
                Ok::<(), Error>(())
            })
        };
        let of = input.clone();
        c.op("begin").write(input).push(move |_| {
            *of.write()? += 1;
            Ok::<(), Error>(())
        })?;
        step(c, input, &values[0], false)?;
        for pair in values.windows(2) {
            step(c, &pair[0], &pair[1], false)?;
        }
        for pair in beside.windows(2) {
            step(c, &pair[0], &pair[1], true)?;
        }
        step(c, &values[LENGTH - 1], output, true)
    });
    captured.unwrap().0
}

#[test]
fn private_variables_order_the_operations_of_a_graph() {
    let _watchdog = Watchdog::new(120, "replays over private variables");
    in_every_way(|engine, way| {
        let [x, y] = [0, 0].map(|zero| Data::new(&engine, zero));
        let graphs = [(); 2].map(|()| chain(&engine, &x, &y, |c| way.choose(c)));
        const REPLAYS: u64 = 200;
        for number in 1..=REPLAYS {
            graphs[number as usize % 2].replay().unwrap();
            if number % 50 == 0 {
                engine.wait_for_var(y.variable()).unwrap();
                assert_eq!(*y.read().unwrap(), number * (number + 1) / 2);
            }
        }
        assert_eq!(versions(&engine, [x.variable(), y.variable()]), [REPLAYS; 2]);
    });
}

/// Checks that every call outside of the graph refuses the variable.
fn refused(engine: &Engine, variable: Variable, kind: ErrorKind) {
    let name = format!("{variable:?}");
    let other = engine.new_variable();
    let none = |_: &RunContext<'_>| panic!("it must not run");
    let eight: Vec<Variable> = (0..12).map(|_| engine.new_variable()).collect();
    let errors = [
        engine.op("write").write(variable).push(none).unwrap_err(),
        engine.op("read").read(variable).push(none).unwrap_err(),
        engine.op("two").read(variable).write(other).push(none).unwrap_err(),
        engine.op("many").reads(eight).write(variable).push(none).unwrap_err(),
        engine.op("first").write(variable).priority(1).push(none).unwrap_err(),
        engine.op("copy").write(variable).property(Property::CopyToGpu).push(none).unwrap_err(),
        engine.op("later").write(variable).push_async(|_, _| panic!("it must not run")).unwrap_err(),
        engine.op("operator").write(variable).operator(none).unwrap_err(),
        engine.capture(|c| c.op("other graph").write(variable).push(none)).unwrap_err(),
        engine.wait_for_var(variable).unwrap_err(),
        engine.wait_for_var_timeout(variable, Duration::from_secs(1)).unwrap_err(),
        engine.version(variable).unwrap_err(),
        engine.delete_variable(none, Context::cpu(0), variable).unwrap_err(),
    ];
    for error in &errors {
        assert_says(error, kind, &[&name]);
    }
    engine.wait_for_all().unwrap();
}

#[test]
fn a_private_variable_is_refused_outside_and_deleted_with_the_graph() {
    in_every_way(|engine, way| {
        let ran = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&ran);
        let mut capture = engine.begin_capture();
        way.choose(&mut capture);
        let private = capture.private_variable();
        refused(&engine, private, ErrorKind::PrivateVariable);
        capture.op("count").write(private).push(move |_| _ = count.fetch_add(1, SeqCst)).unwrap();
        let graph = capture.finish().unwrap();
        for _ in 0..3 {
            graph.replay().unwrap();
            refused(&engine, private, ErrorKind::PrivateVariable);
        }
        drop(graph);
        engine.wait_for_all().unwrap();
        // The last thread to leave the replay may do so a moment after its end.
        eventually("the variable is gone", || {
            engine.version(private).unwrap_err().kind() == ErrorKind::VariableDeleted
        });
        refused(&engine, private, ErrorKind::VariableDeleted);
        assert_eq!(ran.load(SeqCst), 3);
        let mut capture = engine.begin_capture();
        let private = capture.private_variable();
        drop(capture);
        refused(&engine, private, ErrorKind::VariableDeleted);
    });
}

#[test]
fn slots_of_private_variables_are_used_again_also_of_graphs_dropped_under_way() {
    let _watchdog = Watchdog::new(120, "graphs that are dropped under way");
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(2).build().unwrap();
        let [x, y] = [0, 0].map(|zero| Data::new(&engine, zero));
        let rounds = by_length(300, 3_000) as u64;
        let mut most = 0;
        for round in 1..=rounds {
            let graph = chain(&engine, &x, &y, |_| ());
            (0..3).for_each(|_| graph.replay().unwrap());
            drop(graph);
            if round % 10 == 0 {
                engine.wait_for_all().unwrap();
            }
            most = most.max(engine.new_variable().into_raw().0 as u32);
        }
        engine.wait_for_all().unwrap();
        assert_eq!(*x.read().unwrap(), 3 * rounds);
        // Each round keeps a variable of its own, and some ten graphs are there at once.
        let bound = rounds as usize + 200 * LENGTH;
        assert!((most as usize) < bound, "{most} slots after {rounds} graphs, {kind}");
    }
}

#[test]
fn a_failure_on_a_private_variable_skips_what_depends_on_it_until_a_wait_takes_it() {
    in_every_way(|engine, way| {
        let [x, y] = variables(&engine);
        let log = Log::default();
        let fails = Arc::new(AtomicU64::new(1));
        let captured = engine.capture(|c| {
            way.choose(c);
            let (inside, alone) = (c.private_variable(), c.private_variable());
            let failing = Arc::clone(&fails);
            c.op("fail").read(x).write(inside).push(move |_| match failing.fetch_sub(1, SeqCst) {
                1 => Err("out of paper"),
                _ => Ok(()),
            })?;
            c.op("use").read(inside).write(y).push(log.note())?;
            c.op("alone").write(alone).push(log.note())
        });
        let (graph, ()) = captured.unwrap();
        graph.replay().unwrap();
        settle(&engine);
        assert_eq!(log.take(), ["alone"]);
        // The mark stays: what would write the private variable is skipped as well.
        graph.replay().unwrap();
        settle(&engine);
        assert_eq!((log.take(), fails.load(SeqCst)), (vec!["alone"], 0));
        assert_says(&engine.wait_for_var(y).unwrap_err(), ErrorKind::OperationFailed, &["'fail'", "out of paper"]);
        graph.replay().unwrap();
        engine.wait_for_all().unwrap();
        let mut ran = log.take();
        ran.sort_unstable();
        assert_eq!((ran, fails.load(SeqCst)), (vec!["alone", "use"], u64::MAX));
        assert_eq!(engine.version(y).unwrap(), 3);
    });
}

#[test]
fn borrows_of_private_values_are_checked() {
    in_every_way(|engine, way| {
        let captured = engine.capture(|c| {
            way.choose(c);
            let (used, other) = (c.private_data(1), c.private_data(2));
            let (of, stranger) = (used.clone(), other.clone());
            c.op("borrow").read(&used).push(move |_| {
                assert_eq!(*of.read()?, 1);
                assert_eq!(of.write().unwrap_err().kind(), ErrorKind::UndeclaredAccess);
                assert_eq!(stranger.read().unwrap_err().kind(), ErrorKind::UndeclaredAccess);
                Ok::<(), Error>(())
            })?;
            Ok(used)
        });
        let (graph, used) = captured.unwrap();
        graph.replay().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(*used.read().unwrap(), 1);
    });
}

#[test]
fn a_variable_that_was_used_is_private_after_its_last_use_outside() {
    let _watchdog = Watchdog::new(120, "variables that become private");
    in_every_way(|engine, way| {
        for round in 0..by_length(3, 20) {
            let (given, sum) = (Data::new(&engine, 0u64), Data::new(&engine, 0u64));
            let before = Data::new(&engine, 0u64);
            for _ in 0..5 {
                let (from, to) = (before.clone(), given.clone());
                engine
                    .op("outside")
                    .read(&before)
                    .write(&given)
                    .push(move |_| {
                        if round == 0 {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        *to.write()? += 1 + *from.read()?;
                        Ok::<(), Error>(())
                    })
                    .unwrap();
            }
            let (graph, ()) = engine
                .capture(|c| {
                    way.choose(c);
                    c.make_private(&given)?;
                    assert_says(&c.make_private(&given).unwrap_err(), ErrorKind::PrivateVariable, &["private"]);
                    let (from, to) = (given.clone(), sum.clone());
                    c.op("add").read(&given).write(&sum).push(move |_| {
                        *to.write()? += *from.read()?;
                        Ok::<(), Error>(())
                    })?;
                    let own = given.clone();
                    c.op("step").write(&given).push(move |_| {
                        *own.write()? += 1;
                        Ok::<(), Error>(())
                    })
                })
                .unwrap();
            (0..3).for_each(|_| graph.replay().unwrap());
            refused(&engine, given.variable(), ErrorKind::PrivateVariable);
            engine.wait_for_var(sum.variable()).unwrap();
            assert_eq!((*given.read().unwrap(), *sum.read().unwrap()), (8, 5 + 6 + 7));
            drop(graph);
            engine.wait_for_all().unwrap();
            eventually("the variable is gone", || {
                engine.version(given.variable()).unwrap_err().kind() == ErrorKind::VariableDeleted
            });
        }
    });
}

#[test]
fn a_graph_or_capture_that_ends_before_a_variable_is_private_leaves_nothing() {
    let _watchdog = Watchdog::new(120, "graphs that end early");
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(2).build().unwrap();
        let mut most = 0;
        let rounds = by_length(1_000, 4_000);
        for round in 0..rounds {
            let given: [Variable; 4] = variables(&engine);
            let (completion, completions) = std::sync::mpsc::channel();
            let send = move |_: &RunContext<'_>, of| completion.send(of).unwrap();
            engine.op("pending").writes(given).push_async(send).unwrap();
            let mut capture = engine.begin_capture();
            given.iter().for_each(|variable| capture.make_private(*variable).unwrap());
            capture.op("never").writes(given).push(nothing).unwrap();
            match round % 4 {
                0 => drop(capture),
                1 => drop(capture.finish().unwrap()),
                2 => capture.finish().unwrap().replay().unwrap(),
                _ => {
                    let graph = capture.finish().unwrap();
                    graph.replay().unwrap();
                    completions.recv().unwrap().complete();
                    engine.wait_for_all().unwrap();
                    continue;
                }
            }
            completions.recv().unwrap().complete();
            if round % 8 == 0 {
                engine.wait_for_all().unwrap();
            }
            most = most.max(given.map(|variable| variable.into_raw().0 as u32)[3]);
        }
        engine.wait_for_all().unwrap();
        assert!(most < 400, "{most} slots after {rounds} rounds, {kind}");
        // No slot was given back twice.
        let all: Vec<Variable> = (0..500).map(|_| engine.new_variable()).collect();
        let places: std::collections::HashSet<u64> = all.iter().map(|variable| variable.into_raw().0).collect();
        assert_eq!(places.len(), all.len());
        for variable in all {
            engine.op("use").write(variable).push(nothing).unwrap();
        }
        engine.wait_for_all().unwrap();
    }
}

#[test]
fn a_failure_from_outside_counts_inside_until_a_wait_takes_it() {
    in_every_way(|engine, way| {
        let [given, x] = variables(&engine);
        engine.op("fail").write(given).push(|_| Err("out of paper")).unwrap();
        let ran = Log::default();
        let captured = engine.capture(|c| {
            way.choose(c);
            c.make_private(given)?;
            c.op("use").read(given).write(x).push(ran.note())
        });
        let (graph, ()) = captured.unwrap();
        graph.replay().unwrap();
        assert_says(&engine.wait_for_var(x).unwrap_err(), ErrorKind::OperationFailed, &["'fail'", "out of paper"]);
        assert!(ran.take().is_empty());
        graph.replay().unwrap();
        engine.wait_for_var(x).unwrap();
        assert_eq!(ran.take(), ["use"]);
    });
}

#[test]
fn after_the_shutdown_nothing_of_a_graph_runs_and_all_of_it_ends() {
    in_every_way(|engine, way| {
        let given: [Variable; 2] = variables(&engine);
        let (completion, completions) = std::sync::mpsc::channel();
        engine.op("pending").writes(given).push_async(move |_, of| completion.send(of).unwrap()).unwrap();
        let pending = completions.recv().unwrap();
        engine.notify_shutdown();
        let captured = engine.capture(|c| {
            way.choose(c);
            given.iter().try_for_each(|variable| c.make_private(*variable))?;
            c.op("never").writes(given).push(|_| panic!("it must not run"))
        });
        let (graph, ()) = captured.unwrap();
        graph.replay().unwrap();
        drop(graph);
        pending.complete();
        engine.wait_for_all().unwrap();
    });
}

/// The replays come after what was pushed before to a variable that was made private, also if the
/// graph's own variable has a mark by then: that of a parameter whose old value could not be
/// dropped.
#[test]
fn replays_wait_for_what_was_made_private_though_a_parameter_has_failed() {
    struct Loud(bool);
    impl Drop for Loud {
        fn drop(&mut self) {
            assert!(!self.0, "loud");
        }
    }
    let _watchdog = Watchdog::new(120, "a failed parameter and a private variable");
    with_every_builder(|builder| {
        let engine = builder.waiters_help(false).build().unwrap();
        let (x, y) = (Data::new(&engine, 0), Data::new(&engine, 0));
        // A completion, as a naive engine would run anything else inside the push.
        let held = hold(&engine, &[], &[x.variable()]);
        let of = x.clone();
        engine.op("before").write(&x).push(move |_| *of.write().unwrap() = 7).unwrap();
        let captured = engine.capture(|c| {
            let parameter = c.parameter(Loud(true));
            parameter.set(Loud(false))?;
            c.make_private(&x)?;
            let (from, to) = (x.clone(), y.clone());
            c.op("copy").read(&x).write(&y).push(move |_| {
                *to.write()? = *from.read()?;
                Ok::<(), Error>(())
            })?;
            Ok(parameter)
        });
        let (graph, _parameter) = captured.unwrap();
        graph.replay().unwrap();
        let late = Duration::from_millis(20);
        let waited = engine.wait_for_var_timeout(y.variable(), late).map_err(|error| error.kind());
        assert_eq!(waited, Err(ErrorKind::TimedOut), "the replay has run before");
        held.complete();
        engine.wait_for_var(y.variable()).unwrap();
        assert_eq!(*y.read().unwrap(), 7);
        assert!(engine.wait_for_all().is_err(), "the failure of the parameter");
    });
}
