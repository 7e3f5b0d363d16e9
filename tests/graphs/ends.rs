//! How graphs end: dropped in flight, with their engine, at its bound, and beside forks.

use crate::common::*;
use crate::helpers::*;
use seriatim::{Capture, Completion, Context, Engine, ErrorKind, Kind, Property, RunContext, WhenFull};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{mpsc, Arc};
use std::time::Duration;

#[test]
fn a_graph_that_is_dropped_in_flight_runs_and_drops_its_closures_after_the_last_use() {
    in_every_way(|engine, way| {
        let (census, ran) = (Census::default(), Arc::new(AtomicUsize::new(0)));
        let [x, y] = variables(&engine);
        for flights in 0..4 {
            ran.store(0, SeqCst);
            let (graph, parameter) = engine
                .capture(|c| {
                    way.choose(c);
                    let parameter = c.parameter(census.one());
                    for variable in [x, y, x] {
                        let (alive, count) = (census.one(), counting(&ran));
                        let inside = parameter.clone();
                        c.op("uses it").writes([variable]).push(move |run| {
                            alive.touch();
                            inside.get(run)?.touch();
                            count(run);
                            Ok::<(), seriatim::Error>(())
                        })?;
                    }
                    let alive = census.one();
                    c.op("starts").writes([y]).property(Property::CopyToGpu).push_async(move |_, completion| {
                        alive.touch();
                        completion.complete();
                    })?;
                    Ok(parameter)
                })
                .unwrap();
            let first = hold(&engine, &[], &[x]);
            (0..flights).for_each(|_| graph.replay().unwrap());
            drop(graph);
            assert_eq!(parameter.set(census.one()).unwrap_err().kind(), ErrorKind::VariableDeleted);
            drop(parameter);
            if flights > 0 {
                assert_eq!(census.count(), 5, "all of it is still to be used");
            }
            first.complete();
            engine.wait_for_all().unwrap();
            assert_eq!(ran.load(SeqCst), 3 * flights);
            eventually("the closures and the value are gone", || census.count() == 0);
        }
    });
}

/// The engine refuses the deletion of the graph's own variable then.
#[test]
fn parameters_of_what_was_dropped_while_the_engine_was_stopped_are_refused() {
    on_every_engine(|engine| {
        let (graph, of_graph) = engine.capture(|c| Ok(c.parameter(1))).unwrap();
        let mut capture = engine.begin_capture();
        let of_capture = capture.parameter(1);
        // This thread owns the variables then.
        of_graph.set(3).unwrap();
        of_capture.set(3).unwrap();
        graph.replay().unwrap();
        engine.stop().unwrap();
        drop((graph, capture));
        engine.start().unwrap();
        for parameter in [of_graph, of_capture] {
            assert_eq!(parameter.set(2).unwrap_err().kind(), ErrorKind::VariableDeleted);
        }
    });
}

/// A replay that was refused does not count as one that is still to come.
#[test]
fn a_graph_of_which_a_replay_was_refused_is_gone_with_its_handle() {
    on_every_engine(|engine| {
        let census = Census::default();
        let x = engine.new_variable();
        let (alive, inside) = (census.one(), census.one());
        let uses = |c: &mut Capture| {
            c.op("uses it").writes([x]).push(move |_| alive.touch())?;
            c.op("and again").writes([x]).push(move |_| inside.touch())
        };
        let (graph, ()) = engine.capture(uses).unwrap();
        graph.replay().unwrap();
        engine.delete_variable(|_| (), Context::cpu(0), x).unwrap();
        assert_eq!(graph.replay().unwrap_err().kind(), ErrorKind::VariableDeleted);
        engine.wait_for_all().unwrap();
        std::thread::scope(|scope| {
            let last = hold(&engine, &[], &[engine.new_variable()]);
            scope.spawn(|| engine.stop().unwrap());
            eventually("the engine stops", || engine.op("late").push(|_| ()).is_err());
            drop(graph);
            eventually("the closures are gone", || census.count() == 0);
            last.complete();
        });
    });
}

#[test]
fn a_graph_outlives_its_engine_and_takes_its_closures_along() {
    in_every_way(|engine, way| {
        let (census, ran) = (Census::default(), Arc::new(AtomicUsize::new(0)));
        let x = engine.new_variable();
        let capture = |engine: &Engine| {
            engine.capture(|c| {
                way.choose(c);
                let (alive, count) = (census.one(), counting(&ran));
                c.op("uses it").writes([x]).push(move |run| {
                    alive.touch();
                    count(run);
                })?;
                let (alive, count) = (census.one(), counting(&ran));
                c.op("uses it, later").reads([x]).push_async(move |run, completion| {
                    alive.touch();
                    count(run);
                    std::thread::spawn(move || completion.complete());
                })?;
                Ok(c.parameter(census.one()))
            })
        };
        let (first, _) = capture(&engine).unwrap();
        let (stopped, _) = capture(&engine).unwrap();
        let (last, parameter) = capture(&engine).unwrap();
        for graph in [&first, &stopped, &last] {
            (0..10).for_each(|_| graph.replay().unwrap());
        }
        drop(first);
        engine.stop().unwrap();
        assert_eq!(ran.load(SeqCst), 60, "a stop waits for all of it");
        drop(stopped);
        // Threads of our own that have completed something may still be on their way out.
        eventually("the closures of two graphs are gone", || census.count() == 3);
        engine.start().unwrap();
        (0..10).for_each(|_| last.replay().unwrap());
        drop(engine);
        assert_eq!(ran.load(SeqCst), 80, "so does the end of the engine");
        assert_eq!(last.replay().unwrap_err().kind(), ErrorKind::Stopped);
        assert_eq!(parameter.set(census.one()).unwrap_err().kind(), ErrorKind::Stopped);
        assert_eq!(census.count(), 3);
        drop(last);
        drop(parameter);
        eventually("all closures are gone", || census.count() == 0);
    });
}

#[test]
fn an_empty_graph_ends_as_soon_as_it_begins() {
    in_every_way(|engine, way| {
        let census = Census::default();
        let (graph, parameter) = engine
            .capture(|c| {
                way.choose(c);
                Ok(c.parameter(census.one()))
            })
            .unwrap();
        for _ in 0..100 {
            graph.replay().unwrap();
            parameter.set(census.one()).unwrap();
        }
        engine.wait_for_all().unwrap();
        assert_eq!(census.count(), 1);
        // Operations that use nothing.
        let ran = Arc::new(AtomicUsize::new(0));
        let (graph, ()) = engine
            .capture(|c| {
                way.choose(c);
                (0..10).try_for_each(|_| c.op("uses nothing").push(counting(&ran)))
            })
            .unwrap();
        (0..100).for_each(|_| graph.replay().unwrap());
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 1000);
    });
}

#[test]
fn replays_count_as_one_operation_under_a_bound() {
    let _watchdog = Watchdog::new(120, "replays under a bound");
    with_every_builder(|builder| {
        for when_full in [WhenFull::Block, WhenFull::Help, WhenFull::WouldBlock] {
            let engine = builder.clone().bound(2).when_full(when_full).build().unwrap();
            let ran = Arc::new(AtomicUsize::new(0));
            let vars: [_; 5] = variables(&engine);
            let (graph, ()) = engine
                .capture(|c| {
                    seriatim::testing::spreads_after(c, 1);
                    vars.iter().try_for_each(|variable| c.op("step").writes([*variable]).push(counting(&ran)))
                })
                .unwrap();
            let mut accepted = 0;
            std::thread::scope(|scope| {
                let replay = || {
                    let outcomes = (0..300).map(|_| graph.replay());
                    outcomes
                        .filter(|outcome| match outcome {
                            Ok(()) => true,
                            Err(error) => {
                                assert_eq!((error.kind(), when_full), (ErrorKind::EngineFull, WhenFull::WouldBlock));
                                false
                            }
                        })
                        .count()
                };
                let threads = [scope.spawn(replay), scope.spawn(replay)];
                accepted = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
            });
            engine.wait_for_all().unwrap();
            assert_eq!(ran.load(SeqCst), 5 * accepted);
            assert!(accepted == 600 || when_full == WhenFull::WouldBlock && accepted > 0);
            // One in flight leaves room for one more.
            let first = hold(&engine, &[], &[vars[0]]);
            graph.replay().unwrap();
            if when_full == WhenFull::WouldBlock {
                assert_eq!(graph.replay().unwrap_err().kind(), ErrorKind::EngineFull);
            }
            first.complete();
            engine.wait_for_all().unwrap();
        }
    });
}

#[test]
fn a_process_forks_beside_replays() {
    for kind in ["naive", "pooled", "per-device"] {
        run_child_well(child("fork beside replays").env("TEST_CHILD_KIND", kind));
    }
}

pub fn fork_beside_replays() {
    let kind: Kind = std::env::var("TEST_CHILD_KIND").unwrap().parse().unwrap();
    let patience = std::time::Duration::from_secs(30);
    let engine = Engine::builder().kind(kind).cpu_workers(2).fork_patience(patience).build().unwrap();
    let [x, y] = variables(&engine);
    let (ran, pushed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (graph, ()) = engine
        .capture(|c| {
            seriatim::testing::spreads_after(c, 1);
            c.op("one").writes([x]).push(counting(&ran))?;
            c.op("copy").writes([y]).property(Property::CopyToGpu).push(nothing)?;
            c.op("two").reads([x]).writes([y]).push(counting(&ran))
        })
        .unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                graph.replay().unwrap();
                pushed.fetch_add(1, SeqCst);
                while 2 * pushed.load(SeqCst) > ran.load(SeqCst) + 500 && !done.load(Relaxed) {
                    std::thread::yield_now();
                }
            }
        });
        for _ in 0..10 {
            let before = pushed.load(SeqCst);
            eventually("it replays", || pushed.load(SeqCst) > before + 20);
            fork_and(|| {
                let _watchdog = Watchdog::new(60, "the child of a fork");
                engine.wait_for_all().unwrap();
                let inherited = ran.load(SeqCst);
                (0..50).for_each(|_| graph.replay().unwrap());
                engine.wait_for_all().unwrap();
                assert_eq!(ran.load(SeqCst), inherited + 100);
                assert_eq!(engine.version(x).unwrap() + engine.version(x).unwrap(), engine.version(y).unwrap());
            });
        }
        done.store(true, Relaxed);
    });
    engine.wait_for_all().unwrap();
    assert_eq!(ran.load(SeqCst), 2 * pushed.load(SeqCst), "no fork has lost a replay of the parent");
}

#[test]
fn dropping_a_graph_does_not_wait_for_room() {
    let _watchdog = Watchdog::new(120, "graphs are dropped at the bound");
    with_every_builder(|builder| {
        for when_full in [WhenFull::Block, WhenFull::Help, WhenFull::WouldBlock] {
            let engine = builder.clone().bound(1).when_full(when_full).build().unwrap();
            let census = Census::default();
            let x = engine.new_variable();
            let (graph, parameter) = engine
                .capture(|c| {
                    let alive = census.one();
                    c.op("uses it").writes([x]).push(move |_| alive.touch())?;
                    Ok(c.parameter(()))
                })
                .unwrap();
            let first = hold(&engine, &[], &[x]);
            drop(graph);
            let mut other = None;
            let failed = engine.capture(|c| {
                other = Some(c.parameter(()));
                c.op("far").context(seriatim::Context::cpu(100_000)).push(nothing)
            });
            assert_eq!(failed.unwrap_err().kind(), ErrorKind::UnknownDevice);
            first.complete();
            engine.wait_for_all().unwrap();
            for parameter in [parameter, other.unwrap()] {
                assert_eq!(parameter.set(()).unwrap_err().kind(), ErrorKind::VariableDeleted, "{when_full}");
            }
            eventually("its closure is gone", || census.count() == 0);
            engine.op("there is room").writes([x]).push(nothing).unwrap();
            engine.wait_for_all().unwrap();
        }
    });
}

/// Its replays have still to begin, and the engine refuses the deletion that would come behind
/// them.
#[test]
fn a_graph_that_is_dropped_in_a_stop_is_kept_for_its_replays() {
    let _watchdog = Watchdog::new(200, "graphs are dropped in a stop");
    in_every_way(|engine, way| {
        let (census, ran) = (Census::default(), Arc::new(AtomicUsize::new(0)));
        let x = engine.new_variable();
        let (graph, ()) = engine
            .capture(|c| {
                way.choose(c);
                (0..3).try_for_each(|_| {
                    let (alive, count) = (census.one(), counting(&ran));
                    c.op("uses it").writes([x]).push(move |run| {
                        alive.touch();
                        count(run);
                    })
                })
            })
            .unwrap();
        (0..10).for_each(|_| graph.replay().unwrap());
        let first = hold(&engine, &[], &[x]);
        (0..3).for_each(|_| graph.replay().unwrap());
        let stops = engine.clone();
        let stopper = std::thread::spawn(move || stops.stop().unwrap());
        eventually("the stop has begun", || engine.op("late").push(nothing).is_err());
        drop(graph);
        let kept = census.count();
        first.complete();
        stopper.join().unwrap();
        assert_eq!((kept, ran.load(SeqCst)), (3, 39), "{way:?}");
        eventually("its closures are gone", || census.count() == 0);
    });
}

/// Its destructor stays at a gate until that opens.
struct Slow(Gate);

impl Drop for Slow {
    fn drop(&mut self) {
        self.0.pass();
    }
}

/// A destructor may push, and what it pushes is accepted as from inside an operation. The engine is
/// stopping when the graph is dropped, so the last thread that runs the graph drops its closures:
/// the one that completes its operation, or a waiter, as the only worker is busy.
#[test]
fn a_stop_waits_for_destructors_of_a_graph_whose_replay_is_over() {
    for kind in [Kind::Naive, Kind::Pooled] {
        let _watchdog = Watchdog::new(200, format!("a stop beside a destructor, {kind}"));
        let engine = Engine::builder().kind(kind).cpu_workers(1).build().unwrap();
        let (x, busy, dropping) = (engine.new_variable(), Gate::new(), Gate::new());
        let (slow, (send, completions)) = (Slow(dropping.clone()), mpsc::channel());
        let start = move |_: &RunContext<'_>, completion| {
            let _held = &slow;
            send.send(completion).unwrap();
        };
        let (graph, ()) = engine.capture(|c| c.op("ends later").writes([x]).push_async(start)).unwrap();
        graph.replay().unwrap();
        let completion: Completion = completions.recv().unwrap();
        let stand = busy.clone();
        if kind == Kind::Pooled {
            engine.op("long").push(move |_| stand.pass()).unwrap();
            busy.wait_for_someone();
        }
        let [waits, stops] = [(); 2].map(|()| engine.clone());
        let waiter = std::thread::spawn(move || waits.wait_for_var(x).unwrap());
        let stopper = std::thread::spawn(move || stops.stop().unwrap());
        eventually("the stop has begun", || engine.op("late").push(nothing).is_err());
        drop(graph);
        let completer = std::thread::spawn(move || completion.complete());
        dropping.wait_for_someone();
        busy.open();
        std::thread::sleep(Duration::from_millis(50));
        assert!(!stopper.is_finished(), "{kind}: the engine has stopped under a destructor");
        dropping.open();
        [waiter, stopper, completer].into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// Panics when it is dropped, unless the thread panics already.
struct Bomb(Arc<AtomicUsize>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
        if !std::thread::panicking() {
            panic!("a destructor, on purpose");
        }
    }
}

#[test]
fn destructors_of_captured_closures_may_panic() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    let record = |c: &mut seriatim::Capture| {
        (0..3).try_for_each(|_| {
            let bomb = Bomb(Arc::clone(&dropped));
            c.op("holds a bomb").push(move |_| {
                let _held = &bomb;
            })
        })
    };
    let (graph, ()) = engine.capture(record).unwrap();
    graph.replay().unwrap();
    drop(graph);
    let _ = engine.wait_for_all();
    eventually("all three are dropped", || dropped.load(SeqCst) == 3);
    // A capture that fails drops them as well.
    let failed = engine.capture(|c| record(c).and_then(|()| c.op("late").reads([foreign()]).push(nothing)));
    assert!(failed.is_err());
    assert_eq!(dropped.load(SeqCst), 6);
    assert!(engine.op("goes on").push(nothing).is_ok());
    let _ = engine.wait_for_all();
}

/// A variable of another engine.
fn foreign() -> seriatim::Variable {
    Engine::builder().kind(Kind::Naive).build().unwrap().new_variable()
}
