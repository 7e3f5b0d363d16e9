//! `run_now` and `replay_now`: an operation or a replay runs in the call, in its turn among the
//! pushes, or nothing happens.

mod common;

use common::*;
use seriatim::{Context, Data, Engine, ErrorKind, Property, Variable};
use std::panic::panic_any;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::Arc;

#[test]
fn it_borrows_and_runs_in_the_call() {
    on_every_engine(|engine| {
        let (x, y, here) = (engine.new_variable(), engine.new_variable(), std::thread::current().id());
        let mut ran_on = None;
        let ran = engine.op("borrow").read(x).write(y).run_now(|run| {
            assert_eq!((run.name(), run.context(), run.worker()), ("borrow", Context::cpu(0), None));
            ran_on = Some(std::thread::current().id());
        });
        assert!(ran && ran_on == Some(here));
        assert_eq!((engine.version(x).unwrap(), engine.version(y).unwrap()), (0, 1));
        // Inside of an operation, too.
        let inner = engine.clone();
        engine.op("outer").read(x).push(move |_| assert!(inner.op("inner").write(y).run_now(|_| ()))).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(y).unwrap(), 2);
    });
}

#[test]
fn what_is_busy_is_left_alone() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let open = hold(&engine, &[], &[x]);
        let (called, count) = (AtomicBool::new(false), Arc::new(AtomicUsize::new(0)));
        let given = Arc::clone(&count);
        assert!(!engine.op("late").write(x).run_now(|_| called.store(given.fetch_add(1, SeqCst) == 0, SeqCst)));
        assert!(!engine.op("late").read(x).run_now(|_| called.store(true, SeqCst)));
        assert!(!called.load(SeqCst));
        let (graph, ()) = engine.capture(|c| c.op("replayed").write(x).push(|_| ())).unwrap();
        assert!(!graph.replay_now());
        let before = Arc::clone(&count);
        engine.op("behind").write(x).push(move |_| _ = before.fetch_add(10, SeqCst)).unwrap();
        open.complete();
        engine.wait_for_var(x).unwrap();
        assert_eq!(count.load(SeqCst), 10);
        eventually("the graph runs", || graph.replay_now());
        eventually("it runs", || engine.op("now").write(x).run_now(|_| _ = count.fetch_add(1, SeqCst)));
        assert_eq!((count.load(SeqCst), engine.version(x).unwrap()), (11, 4));
    });
}

/// Several threads count up a number by pushes, by calls that run now and by replays that do, and
/// read it: each sees its own turns, and none is lost.
#[test]
fn it_takes_its_turn_among_pushes() {
    let rounds = if cfg!(miri) { 30 } else { 3_000 };
    on_every_engine(|engine| {
        for threads in [1, 3] {
            let x = Data::new(&engine, 0usize);
            let ran = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for thread in 0..threads {
                    let (engine, x, ran) = (&engine, &x, &ran);
                    scope.spawn(move || {
                        let count = x.clone();
                        let add = move |_: &seriatim::RunContext<'_>| count.write().map(|mut x| *x += 1);
                        let own = Data::new(engine, 0usize);
                        let (graph, ()) = engine.capture(|c| c.op("add").write(x).push(add.clone())).unwrap();
                        for round in 0..rounds {
                            let now = match (round + thread) % 3 {
                                0 => engine.op("add").write(x).run_now(&add),
                                1 => graph.replay_now(),
                                _ => false,
                            };
                            ran.fetch_add(usize::from(now), Relaxed);
                            if !now {
                                engine.op("add").write(x).push(add.clone()).unwrap();
                            }
                            // Reads come between, and see what this thread has done.
                            let least = round + 1;
                            let mut seen = None;
                            if engine.op("look").read(x).write(&own).run_now(|_| {
                                seen = Some(*x.read().unwrap());
                                *own.write().unwrap() += 1;
                            }) {
                                assert!(seen.unwrap() >= least);
                            }
                            if round % 7 == 0 {
                                engine.wait_for_var(x.variable()).unwrap();
                            }
                        }
                    });
                }
            });
            engine.wait_for_all().unwrap();
            assert_eq!(*x.read().unwrap(), threads * rounds);
            assert!(threads > 1 || ran.load(Relaxed) > 0, "it runs sometimes");
        }
    });
}

#[test]
fn a_failure_marks_what_it_changes() {
    on_every_engine(|engine| {
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        assert!(engine.op("fails").read(y).write(x).run_now(|_| Err::<(), _>("no")));
        assert!(!engine.op("behind").read(x).run_now(|_| unreachable!("it is marked")));
        let error = engine.wait_for_var(x).unwrap_err();
        assert!(error.to_string().contains("no") && error.to_string().contains("fails"), "{error}");
        // A write that is pushed takes the mark away.
        let whole = || {
            engine.op("whole").write(x).push(|_| ()).unwrap();
            engine.wait_for_all().unwrap();
        };
        whole();
        eventually("it runs", || engine.op("panics").write(x).run_now(|_| panic_any("unwinds")));
        assert!(engine.wait_for_var(x).unwrap_err().to_string().contains("unwinds"));
        whole();
        eventually("it runs", || engine.op("well").read(x).run_now(|_| ()));
        let (graph, ()) = engine
            .capture(|c| {
                c.op("fails").write(x).push(|_| Err::<(), _>("in a replay"))?;
                c.op("behind").read(x).write(y).push(|_| unreachable!("it is skipped"))
            })
            .unwrap();
        eventually("the graph runs", || graph.replay_now());
        assert!(engine.wait_for_var(y).unwrap_err().to_string().contains("in a replay"));
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn what_cannot_run_now_does_not() {
    on_every_engine(|engine| {
        let (x, common) = (engine.new_variable(), engine.new_commutative_variable());
        let never = |_: &seriatim::RunContext<'_>| -> () { unreachable!("it does not run") };
        assert!(!engine.op("elsewhere").write(x).context(Context::cpu(1)).run_now(never));
        assert!(!engine.op("seen").write(x).profiled().run_now(never));
        assert!(!engine.op("copy").write(x).property(Property::CopyToGpu).run_now(never));
        assert!(!engine.op("turns").commutes([common]).run_now(never));
        assert!(!engine.op("twice").read(x).write(x).run_now(never));
        let many: Vec<Variable> = (0..257).map(|_| engine.new_variable()).collect();
        assert!(!engine.op("many").writes(many.iter().copied()).run_now(never));
        let mut ran = 0;
        for count in [0, 1, 8, 9, 256] {
            ran += usize::from(engine.op("some").writes(many[..count].iter().copied()).run_now(|_| ()));
        }
        assert_eq!(ran, 5);
        engine.delete_variable(|_| (), Context::cpu(0), x).unwrap();
        assert!(!engine.op("gone").read(x).run_now(never));
        let (timer, ()) = engine.capture(|c| c.op("timer").push_async(|_, done| done.complete())).unwrap();
        assert!(!timer.replay_now());
        let (wide, ()) = engine.capture(|c| c.op("wide").writes(many.iter().copied()).push(|_| ())).unwrap();
        assert!(!wide.replay_now());
        engine.wait_for_all().unwrap();
        engine.stop().unwrap();
        assert!(!engine.op("stopped").read(many[0]).run_now(never));
        engine.start().unwrap();
        assert!(engine.op("again").read(many[0]).run_now(|_| ()));
    });
    let bounded = Engine::builder().cpu_workers(1).pin(false).bound(10).build().unwrap();
    assert!(!bounded.op("counted").run_now(|_| ()));
    let other = bounded.new_variable();
    let engine = Engine::builder().cpu_workers(1).pin(false).build().unwrap();
    assert!(!engine.op("foreign").read(other).run_now(|_| ()));
    assert_eq!(engine.op("foreign").read(other).push(|_| ()).unwrap_err().kind(), ErrorKind::ForeignVariable);
}

#[test]
fn a_refused_replay_leaves_nothing_behind() {
    on_every_engine(|engine| {
        let (x, kept) = (engine.new_variable(), Arc::new(()));
        let given = Arc::clone(&kept);
        let (graph, ()) =
            engine.capture(|c| c.op("kept").write(x).push(move |_| assert!(Arc::strong_count(&given) > 1))).unwrap();
        let open = hold(&engine, &[], &[x]);
        assert!(!graph.replay_now());
        std::thread::scope(|scope| {
            scope.spawn(|| engine.stop().unwrap());
            eventually("it stops", || engine.op("late").push(|_| ()).is_err());
            drop(graph);
            let left = Arc::strong_count(&kept);
            open.complete();
            assert_eq!(left, 1, "a graph that no replay uses ends with its handle");
        });
    });
}
