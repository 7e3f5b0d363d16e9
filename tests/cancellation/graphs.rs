//! Replays within limits: a token for all of a graph's operations, and a deadline for its
//! beginning.

use crate::common::*;
use crate::rules::{assert_cancelled, MOMENT};
use seriatim::gpu::Immediate;
use seriatim::{testing, CancelToken, Capture, Context, Engine, Error, ErrorKind, Graph, Kind, Property, StartLimits};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::time::Instant;

/// A graph of a chain of operations on one variable, of which each counts its runs, spread over all
/// lanes after so many.
fn chain(
    engine: &Engine,
    x: seriatim::Variable,
    length: usize,
    spread: Option<u32>,
    body: impl Fn(usize) -> Result<(), Error> + Clone + Send + 'static,
) -> Graph {
    let record = |capture: &mut Capture| {
        if let Some(after) = spread {
            testing::spreads_after(capture, after);
        }
        (0..length).try_for_each(|number| {
            let (body, op) = (body.clone(), capture.op(format!("link {number}")).write(x));
            match number % 3 {
                0 => op.push_async(move |_, completion| match body(number) {
                    Ok(()) => completion.complete(),
                    Err(error) => completion.fail(error),
                }),
                _ => op.push(move |_| body(number)),
            }
        })
    };
    engine.capture(record).unwrap().0
}

#[test]
fn a_replay_whose_turn_has_not_come_is_skipped_as_a_whole() {
    on_every_engine(|engine| {
        for spread in [None, Some(0), Some(2)] {
            let (x, y, ran) = (engine.new_variable(), engine.new_variable(), Arc::new(AtomicUsize::new(0)));
            let counts = Arc::clone(&ran);
            let graph = chain(&engine, x, 5, spread, move |_| {
                counts.fetch_add(1, SeqCst);
                Ok(())
            });
            let token = CancelToken::new();
            graph.replay_limited(0, &token).unwrap();
            engine.wait_for_all().unwrap();
            assert_eq!(ran.load(SeqCst), 5);
            let gate = hold(&engine, &[], &[x]);
            graph.replay_limited(2, &token).unwrap();
            engine.op("behind").read(x).write(y).push(counting(&ran)).unwrap();
            token.cancel();
            gate.complete();
            assert_cancelled(engine.wait_for_var(y), "link 0");
            engine.wait_for_all().unwrap();
            assert_eq!(ran.load(SeqCst), 5, "it ran");
            assert_eq!(engine.version(x).unwrap(), 11, "skipped writes step versions");
            // The next replay has no limits, and knows nothing of those of the last one.
            graph.replay().unwrap();
            engine.wait_for_all().unwrap();
            assert_eq!(ran.load(SeqCst), 10);
        }
    });
}

#[test]
fn a_replay_is_cancelled_in_its_middle() {
    on_every_engine(|engine| {
        for spread in [None, Some(0), Some(2)] {
            let (x, token, ran) = (engine.new_variable(), CancelToken::new(), Arc::new(AtomicUsize::new(0)));
            let (counts, cancel) = (Arc::clone(&ran), token.clone());
            let graph = chain(&engine, x, 10, spread, move |number| {
                counts.fetch_add(1, SeqCst);
                if number == 4 {
                    cancel.cancel();
                }
                Ok(())
            });
            graph.replay_limited(0, &token).unwrap();
            assert_cancelled(engine.wait_for_var(x), "link 5");
            engine.wait_for_all().unwrap();
            assert_eq!(ran.load(SeqCst), 5, "those that have started, and no others");
            assert_eq!(engine.version(x).unwrap(), 10);
            // Without the token all of them run.
            graph.replay().unwrap();
            engine.wait_for_all().unwrap();
            assert_eq!(ran.load(SeqCst), 15);
        }
    });
}

/// Those of other variables have errors of their own; what inherits one, does not.
#[test]
fn independent_operations_of_a_replay_are_marked_each() {
    on_every_engine(|engine| {
        let [x, y, z] = [engine.new_variable(), engine.new_variable(), engine.new_variable()];
        let (token, ran) = (CancelToken::new(), Arc::new(AtomicUsize::new(0)));
        let (graph, ()) = engine
            .capture(|c| {
                c.op("one").write(x).push(counting(&ran))?;
                c.op("two").write(y).push(counting(&ran))?;
                c.op("both").reads([x, y]).write(z).push(counting(&ran))?;
                c.op("report").read(z).property(Property::NoSkip).push(counting(&ran))
            })
            .unwrap();
        token.cancel();
        graph.replay_limited(0, &token).unwrap();
        assert_cancelled(engine.wait_for_var(y), "two");
        assert_cancelled(engine.wait_for_var(z), "one");
        assert_cancelled(engine.wait_for_all(), "report");
        assert_eq!(ran.load(SeqCst), 0);
        assert_eq!([x, y, z].map(|variable| engine.version(variable).unwrap()), [1, 1, 1]);
    });
}

#[test]
fn a_deadline_is_for_the_beginning_of_a_replay() {
    on_every_engine(|engine| {
        let (x, ran) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)));
        let counts = Arc::clone(&ran);
        let graph = chain(&engine, x, 4, None, move |number| {
            counts.fetch_add(1, SeqCst);
            if number == 1 {
                std::thread::sleep(2 * MOMENT);
            }
            Ok(())
        });
        // It passes in the middle: all of it runs. On a busy machine it may pass before.
        graph.replay_limited(0, Instant::now() + MOMENT).unwrap();
        let late = engine.wait_for_all().map_err(|error| error.kind());
        assert!([Ok(()), Err(ErrorKind::DeadlineExceeded)].contains(&late), "{late:?}");
        let all = ran.swap(0, SeqCst);
        assert_eq!(all, if late.is_ok() { 4 } else { 0 });
        graph.replay_limited(0, Instant::now().checked_sub(MOMENT).unwrap()).unwrap();
        let error = engine.wait_for_var(x).unwrap_err();
        assert_says(&error, ErrorKind::DeadlineExceeded, &["'link 0'", "after its deadline"]);
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 0);
    });
}

#[test]
fn graphs_with_devices_take_a_token_as_well() {
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(2).gpus(Immediate::new(1)).build().unwrap();
        let (x, token, ran) = (engine.new_variable(), CancelToken::new(), Arc::new(AtomicUsize::new(0)));
        let (graph, ()) = engine
            .capture(|c| {
                let cancel = token.clone();
                c.op("first").context(Context::gpu(0)).write(x).push(move |_| cancel.cancel())?;
                c.op("second").context(Context::gpu(0)).write(x).push(counting(&ran))?;
                let count = counting(&ran);
                c.op("third").context(Context::gpu(0)).write(x).push_async(move |run, completion| {
                    count(run);
                    completion.complete();
                })?;
                c.op("fourth").write(x).push(counting(&ran))
            })
            .unwrap();
        graph.replay().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(ran.swap(0, SeqCst), 3);
        let first = CancelToken::new();
        graph.replay_limited(0, &first).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(ran.swap(0, SeqCst), 3, "its own token, and not that of a closure");
        graph.replay_limited(0, &token).unwrap();
        assert_cancelled(engine.wait_for_var(x), "first");
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 0);
    }
}

#[test]
fn a_profiled_replay_is_cancelled_and_has_its_times() {
    on_every_engine(|engine| {
        let (x, token, ran) = (engine.new_variable(), CancelToken::new(), Arc::new(AtomicUsize::new(0)));
        let (counts, cancel) = (Arc::clone(&ran), token.clone());
        let graph = chain(&engine, x, 6, None, move |number| {
            counts.fetch_add(1, SeqCst);
            if number == 2 {
                cancel.cancel();
            }
            Ok(())
        });
        engine.start_profiling();
        graph.replay_limited(0, &token).unwrap();
        engine.wait_for_all().unwrap_err();
        engine.stop_profiling();
        let profile = engine.profile();
        let events = profile.events().iter().filter(|event| event.name.starts_with("link"));
        let pushed: Vec<_> = events.map(|event| (event.push <= event.start, event.start <= event.end)).collect();
        assert_eq!(pushed, [(true, true); 6], "the skipped ones too");
        assert_eq!(ran.load(SeqCst), 3);
    });
}

#[test]
fn a_replay_with_limits_that_let_all_start_is_as_one_without() {
    on_every_engine(|engine| {
        let (x, ran) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)));
        let counts = Arc::clone(&ran);
        let graph = chain(&engine, x, 100, None, move |number| match counts.fetch_add(1, SeqCst) {
            before if before % 100 == number => Ok(()),
            before => panic!("{number} runs after {before} others"),
        });
        for _ in 0..10 {
            graph.replay_limited(0, StartLimits::new()).unwrap();
            graph.replay().unwrap();
            graph.replay_limited(0, &CancelToken::new()).unwrap();
        }
        engine.wait_for_all().unwrap();
        assert_eq!((ran.load(SeqCst), engine.version(x).unwrap()), (3_000, 3_000));
    });
}

#[test]
fn each_operation_of_a_pipeline_has_the_limits_of_its_replay() {
    on_every_engine(|engine| {
        let ([x, y], token) = ([engine.new_variable(), engine.new_variable()], CancelToken::new());
        let ran = Arc::new(AtomicUsize::new(0));
        let (mut steps, ()) = engine
            .capture_pipeline(|c| {
                c.op("one").write(x).push(counting(&ran))?;
                let count = counting(&ran);
                c.op("two").read(x).write(y).push_async(move |run, completion| {
                    count(run);
                    completion.complete();
                })
            })
            .unwrap();
        steps.replay_limited(&token).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 2);
        let gate = hold(&engine, &[], &[y]);
        steps.replay_limited(&token).unwrap();
        engine.wait_for_var(x).unwrap();
        token.cancel();
        gate.complete();
        assert_cancelled(engine.wait_for_var(y), "two");
        assert_eq!(ran.load(SeqCst), 3);
        steps.replay_limited(&token).unwrap();
        assert_cancelled(engine.wait_for_var(y), "one");
        steps.replay().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 5);
    });
}
