//! Parameters: read inside, replaced between replays, dropped once.

use crate::common::*;
use crate::helpers::*;
use seriatim::{Data, Error, ErrorKind};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, OnceLock};

#[test]
fn a_parameter_is_read_in_its_own_graph_only() {
    on_every_engine(|engine| {
        let (graph, parameter) = engine
            .capture(|c| {
                let parameter = c.parameter(7);
                let inside = parameter.clone();
                c.op("own").push(move |run| {
                    assert_eq!(*inside.get(run)?, 7);
                    Ok::<(), Error>(())
                })?;
                let inside = parameter.clone();
                c.op("own, later").push_async(move |run, completion| match inside.get(run) {
                    Ok(7) => completion.complete(),
                    other => completion.fail(format!("{other:?}")),
                })?;
                Ok(parameter)
            })
            .unwrap();
        assert!(format!("{parameter:?}").starts_with("Parameter of graph"));
        graph.replay().unwrap();
        engine.wait_for_all().unwrap();
        let foreign = parameter.clone();
        let refuses = move |run: &seriatim::RunContext<'_>| {
            assert_says(&foreign.get(run).unwrap_err(), ErrorKind::BorrowConflict, &["its own graph"]);
        };
        engine.op("elsewhere").push(refuses.clone()).unwrap();
        let (other, ()) = engine.capture(|c| c.op("another graph's").push(refuses.clone())).unwrap();
        other.replay().unwrap();
        // While its graph is replayed, an operation that is pushed inside it is none of it.
        let own = engine.clone();
        let (nests, ()) =
            engine.capture(|c| c.op("nests").push(move |_| own.op("nested").push(refuses.clone()))).unwrap();
        nests.replay().unwrap();
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn replays_see_the_value_of_the_moment_at_which_they_were_pushed() {
    in_every_way(|engine, way| {
        let seen = Data::new(&engine, Vec::new());
        let (graph, parameter) = engine
            .capture(|c| {
                way.choose(c);
                let parameter = c.parameter(0);
                for _ in 0..3 {
                    let (seen, parameter) = (seen.clone(), parameter.clone());
                    c.op("look").write(&seen.clone()).push(move |run| {
                        seen.write()?.push(*parameter.get(run)?);
                        Ok::<(), Error>(())
                    })?;
                }
                Ok(parameter)
            })
            .unwrap();
        let first = hold(&engine, &[], &[seen.variable()]);
        graph.replay().unwrap();
        parameter.set(1).unwrap();
        graph.replay().unwrap();
        graph.replay().unwrap();
        parameter.set(2).unwrap();
        parameter.set(3).unwrap();
        graph.replay().unwrap();
        parameter.set(4).unwrap();
        first.complete();
        engine.wait_for_all().unwrap();
        assert_eq!(*seen.read().unwrap(), [0, 0, 0, 1, 1, 1, 1, 1, 1, 3, 3, 3]);
    });
}

#[test]
fn values_are_dropped_once_and_as_soon_as_they_are_replaced() {
    in_every_way(|engine, way| {
        let census = Census::default();
        let x = engine.new_variable();
        let (graph, parameter) = engine
            .capture(|c| {
                way.choose(c);
                let parameter = c.parameter(census.one());
                let inside = parameter.clone();
                c.op("look").writes([x]).push(move |run| {
                    inside.get(run)?.touch();
                    Ok::<(), Error>(())
                })?;
                Ok(parameter)
            })
            .unwrap();
        for _ in 0..10 {
            graph.replay().unwrap();
            parameter.set(census.one()).unwrap();
            graph.replay().unwrap();
        }
        engine.wait_for_all().unwrap();
        assert_eq!(census.count(), 1, "the old ones are gone");
        // Under way, nobody can tell how many there are, but each ends.
        let first = hold(&engine, &[], &[x]);
        graph.replay().unwrap();
        parameter.set(census.one()).unwrap();
        assert_eq!(census.count(), 2, "the old one is still in use");
        first.complete();
        engine.wait_for_all().unwrap();
        assert_eq!(census.count(), 1);
        drop(graph);
        engine.wait_for_all().unwrap();
        let refused = parameter.set(census.one()).unwrap_err();
        assert_eq!((refused.kind(), census.count()), (ErrorKind::VariableDeleted, 1));
        drop(parameter);
        eventually("the graph has let go of it", || census.count() == 0);
    });
}

#[test]
fn an_operation_can_set_its_own_graph_s_parameter_for_the_next_replay() {
    in_every_way(|engine, way| {
        let ran = Arc::new(AtomicUsize::new(0));
        let (graph, ()) = engine
            .capture(|c| {
                way.choose(c);
                let parameter = c.parameter(0);
                let ran = Arc::clone(&ran);
                c.op("counts").push(move |run| {
                    let now = *parameter.get(run)?;
                    assert_eq!(now, ran.fetch_add(1, SeqCst));
                    parameter.set(now + 1)?;
                    assert_eq!(*parameter.get(run)?, now, "it holds still while the replay runs");
                    Ok::<(), Error>(())
                })
            })
            .unwrap();
        for _ in 0..20 {
            graph.replay().unwrap();
            engine.wait_for_all().unwrap();
        }
        assert_eq!(ran.load(SeqCst), 20);
    });
}

#[test]
fn large_values_and_several_threads_that_set_them() {
    in_every_way(|engine, way| {
        const ROUNDS: usize = 200;
        let (graph, parameter) = engine
            .capture(|c| {
                way.choose(c);
                let parameter = c.parameter([0usize; 64]);
                for _ in 0..4 {
                    let inside = parameter.clone();
                    c.op("look").push(move |run| {
                        let found = inside.get(run)?;
                        assert!(found.iter().all(|word| *word == found[0]), "half a value: {found:?}");
                        Ok::<(), Error>(())
                    })?;
                }
                Ok(parameter)
            })
            .unwrap();
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (graph, parameter) = (&graph, &parameter);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        parameter.set([2 * round + thread; 64]).unwrap();
                        graph.replay().unwrap();
                    }
                });
            }
        });
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_destructor_of_a_value_that_panics_is_a_failure() {
    on_every_engine(|engine| {
        struct Bomb(bool);
        impl Drop for Bomb {
            fn drop(&mut self) {
                if self.0 && !std::thread::panicking() {
                    std::panic::resume_unwind(Box::new("goes off"));
                }
            }
        }
        let found = Arc::new(OnceLock::new());
        let (graph, parameter) = engine
            .capture(|c| {
                let parameter = c.parameter(Bomb(true));
                let (inside, found) = (parameter.clone(), Arc::clone(&found));
                c.op("look").push(move |run| {
                    let _ = found.set(inside.get(run)?.0);
                    Ok::<(), Error>(())
                })?;
                Ok(parameter)
            })
            .unwrap();
        parameter.set(Bomb(false)).unwrap();
        assert_says(&engine.wait_for_all().unwrap_err(), ErrorKind::OperationPanicked, &["goes off"]);
        graph.replay().unwrap();
        engine.wait_for_all().unwrap_or_else(|error| panic!("the mark stays on the graph: {error}"));
        assert_eq!(found.get(), Some(&false), "the new value is in its place");
    });
}

#[test]
fn a_panic_of_a_refused_value_s_destructor_is_swallowed() {
    struct Bomb(bool);
    impl Drop for Bomb {
        fn drop(&mut self) {
            if self.0 && !std::thread::panicking() {
                std::panic::resume_unwind(Box::new("goes off"));
            }
        }
    }
    on_every_engine(|engine| {
        let (graph, parameter) = engine.capture(|c| Ok(c.parameter(Bomb(false)))).unwrap();
        drop(graph);
        assert_eq!(parameter.set(Bomb(true)).unwrap_err().kind(), ErrorKind::VariableDeleted);
    });
}
