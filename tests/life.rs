//! The life of engines, variables and operations: start, stop and the end; bounds; priorities; deletion; and the sizes at the edge:
//! long chains, deep nesting, wide operations, large closures.

mod common;

use common::*;
use seriatim::{
    Completion, Context, Engine, Error, ErrorKind, IdlePolicy, Kind, Name, Property, RunContext, Variable, WhenFull,
};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A body that counts its runs.
fn counting(count: &Arc<AtomicUsize>) -> impl Fn(&RunContext<'_>) + Send + Sync + Clone + 'static {
    let count = Arc::clone(count);
    move |_| {
        count.fetch_add(1, SeqCst);
    }
}

// ---- Stop and start ----

#[test]
fn stopping_and_starting_twice_is_harmless() {
    on_every_engine(|engine| {
        let ran = Arc::new(AtomicUsize::new(0));
        for round in 1..=5 {
            engine.start().unwrap();
            engine.start().unwrap();
            for property in [Property::Normal, Property::CpuPrioritized, Property::CopyToGpu, Property::Async] {
                engine.op("step").property(property).push(counting(&ran)).unwrap();
            }
            engine.stop().unwrap();
            assert_eq!(ran.load(SeqCst), 4 * round, "stopping runs what is in flight");
            engine.stop().unwrap();
            assert_eq!(engine.op("late").push(|_| ()).unwrap_err().kind(), ErrorKind::Stopped);
        }
        engine.start().unwrap();
        engine.op("step").push(counting(&ran)).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 21);
    });
}

#[test]
fn stopping_waits_for_asynchronous_operations_and_what_is_behind_them() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let completion = hold(&engine, &[], &[x]);
        (0..100).for_each(|_| engine.op("behind").writes([x]).push(|_| ()).unwrap());
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(10));
            completion.complete();
        });
        engine.stop().unwrap();
        assert_eq!(engine.version(x).unwrap(), 101);
        other.join().unwrap();
    });
}

#[test]
fn operations_that_run_while_the_engine_stops_may_push_what_they_need() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let (own, gate) = (engine.clone(), Gate::new());
        let inner = gate.clone();
        let pusher = std::thread::spawn({
            let engine = engine.clone();
            move || {
                let outer = move |_: &RunContext<'_>| {
                    inner.pass();
                    // A group of workers that has not been needed so far comes up for it.
                    (0..50).try_for_each(|number| {
                        let property = [Property::Normal, Property::CpuPrioritized, Property::CopyToGpu][number % 3];
                        own.op("nested").writes([x]).property(property).push(|_| ())
                    })
                };
                engine.op("outer").push(outer).unwrap();
            }
        });
        gate.wait_for_someone();
        let stopper = std::thread::spawn({
            let engine = engine.clone();
            move || engine.stop().unwrap()
        });
        eventually("the stop has begun", || engine.op("late").push(|_| ()).is_err());
        gate.open();
        stopper.join().unwrap();
        pusher.join().unwrap();
        assert_eq!(engine.version(x).unwrap(), 50);
        engine.wait_for_all().expect("the nested pushes were not refused");
        engine.start().unwrap();
    });
}

#[test]
fn pushes_that_race_with_stops_are_run_or_refused() {
    let _watchdog = Watchdog::new(120, "pushes that race with stops");
    on_every_engine(|engine| {
        let done = Arc::new(AtomicBool::new(false));
        let (accepted, ran) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let shared: Vec<Variable> = (0..3).map(|_| engine.new_variable()).collect();
        let pushers: Vec<_> = (0..3)
            .map(|thread| {
                let (engine, shared, done) = (engine.clone(), shared.clone(), Arc::clone(&done));
                let (accepted, ran) = (Arc::clone(&accepted), Arc::clone(&ran));
                std::thread::spawn(move || {
                    let mut random = Random(thread);
                    while !done.load(Relaxed) {
                        let builder = engine.op("race").reads([random.pick(&shared)]).writes([random.pick(&shared)]);
                        let outcome = match random.below(3) {
                            0 => builder.property(Property::Async).push(counting(&ran)),
                            1 => {
                                let count = counting(&ran);
                                builder.push_async(move |run, completion| {
                                    count(run);
                                    completion.complete();
                                })
                            }
                            _ => builder.push(counting(&ran)),
                        };
                        match outcome {
                            Ok(()) => accepted.fetch_add(1, SeqCst),
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::Stopped);
                                std::thread::yield_now();
                                continue;
                            }
                        };
                        if random.chance(5) {
                            engine.wait_for_var(random.pick(&shared)).unwrap();
                        }
                    }
                })
            })
            .collect();
        let mut rounds = 0;
        // However busy the machine is, some pushes are to meet some stops.
        while rounds < 30 || accepted.load(SeqCst) <= 30 {
            rounds += 1;
            spin(Duration::from_micros(300));
            engine.stop().unwrap();
            engine.start().unwrap();
        }
        done.store(true, Relaxed);
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
        engine.stop().unwrap();
        assert_eq!(ran.load(SeqCst), accepted.load(SeqCst));
        assert!(ran.load(SeqCst) > 30);
    });
}

#[test]
fn several_threads_may_stop_and_start_at_once() {
    let _watchdog = Watchdog::new(120, "stops and starts from several threads");
    on_every_engine(|engine| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let engine = engine.clone();
                std::thread::spawn(move || {
                    for round in 0..25 {
                        match (thread + round) % 2 {
                            0 => engine.stop().unwrap(),
                            _ => engine.start().unwrap(),
                        }
                        let _ = engine.op("step").push(|_| ());
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        engine.start().unwrap();
        engine.op("step").push(|_| ()).unwrap();
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_wait_on_a_stopped_engine_starts_no_threads() {
    run_child_well(&mut child("wait while stopped"));
}

fn wait_while_stopped() {
    let others = thread_count();
    with_every_builder(|builder| {
        let engine = builder.waiters_help(false).build().unwrap();
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        engine.op("fails").writes([x]).push(|_| Err("marks it")).unwrap();
        engine.stop().unwrap();
        eventually("the workers are gone", || thread_count() == others);
        assert_failed(engine.wait_for_var(x), "marks it");
        engine.wait_for_var(y).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(thread_count(), others, "the engine is stopped");
        drop(engine);
        assert_eq!(thread_count(), others, "the engine is gone");
    });
}

#[test]
fn after_the_notice_of_the_shutdown_only_deletions_run() {
    on_every_engine(|engine| {
        let (ran, deleted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let witness = Arc::new(());
        let running = hold(&engine, &[], &[x]);
        engine.op("pending").writes([x]).push(counting(&ran)).unwrap();
        engine.notify_shutdown();
        for property in [Property::Normal, Property::NoSkip, Property::Async, Property::CopyToGpu] {
            let (count, own) = (counting(&ran), Arc::clone(&witness));
            let body = move |run: &RunContext<'_>| {
                count(run);
                drop(own);
            };
            engine.op("late").writes([x]).property(property).push(body).unwrap();
        }
        engine.delete_variable(counting(&deleted), Context::cpu(0), y).unwrap();
        running.complete();
        engine.wait_for_var(x).expect("not to run is no failure");
        assert_eq!(engine.version(x).unwrap(), 6, "operations that do not run complete all the same");
        engine.delete_variable(counting(&deleted), Context::cpu(0), x).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!((ran.load(SeqCst), deleted.load(SeqCst)), (0, 2));
        assert_eq!(Arc::strong_count(&witness), 1, "closures are dropped");
    });
}

// ---- The end ----

#[test]
fn dropping_an_engine_runs_what_is_in_flight() {
    let _watchdog = Watchdog::new(120, "the drop of a busy engine");
    with_every_builder(|builder| {
        for helps in [true, false] {
            let engine = builder.clone().waiters_help(helps).build().unwrap();
            let ran = Arc::new(AtomicUsize::new(0));
            let shared: Vec<Variable> = (0..10).map(|_| engine.new_variable()).collect();
            let mut random = Random(1);
            for _ in 0..5_000 {
                let builder = engine.op("step").reads([random.pick(&shared)]).writes([random.pick(&shared)]);
                builder.push(counting(&ran)).unwrap();
            }
            drop(engine);
            assert_eq!(ran.load(SeqCst), 5_000);
        }
    });
}

#[test]
fn dropping_an_engine_waits_for_what_is_behind_an_asynchronous_operation() {
    let _watchdog = Watchdog::new(120, "the drop of an engine that waits for a completion");
    on_every_engine(|engine| {
        let ran = Arc::new(AtomicUsize::new(0));
        let x = engine.new_variable();
        let completion = hold(&engine, &[], &[x]);
        (0..2_000).for_each(|_| engine.op("behind").writes([x]).push(counting(&ran)).unwrap());
        let completer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(10));
            completion.complete();
        });
        let clone = engine.clone();
        drop(engine);
        drop(clone);
        assert_eq!(ran.load(SeqCst), 2_000);
        completer.join().unwrap();
    });
}

#[test]
fn the_last_handle_may_go_inside_an_operation() {
    run_child_well(&mut child("last handle"));
}

/// In a process of its own, to see the threads end.
fn last_handle_inside() {
    let _watchdog = Watchdog::new(60, "the threads of an engine whose last handle went inside an operation");
    let others = thread_count();
    with_every_builder(|builder| {
        let ran = Arc::new(AtomicUsize::new(0));
        let engine = builder.build().unwrap();
        let x = engine.new_variable();
        let first = hold(&engine, &[], &[x]);
        (0..100).for_each(|_| engine.op("before").writes([x]).push(counting(&ran)).unwrap());
        let last = Arc::new(Mutex::new(None::<Engine>));
        let own = Arc::clone(&last);
        let count = counting(&ran);
        let body = move |run: &RunContext<'_>| {
            count(run);
            let last = own.lock().unwrap().take().expect("it was put there before");
            last.op("nested").writes([x]).push(count).unwrap();
            drop(last);
        };
        engine.op("drops it").writes([x]).push(body).unwrap();
        (0..100).for_each(|_| engine.op("behind").writes([x]).push(counting(&ran)).unwrap());
        *last.lock().unwrap() = Some(engine);
        first.complete();
        eventually("everything has run", || ran.load(SeqCst) == 202);
        eventually("all threads have ended", || thread_count() == others);
    });
}

#[test]
fn the_last_handle_may_go_with_a_closure_that_is_skipped() {
    run_child_well(&mut child("last handle skipped"));
}

fn last_handle_in_a_skipped_closure() {
    let _watchdog = Watchdog::new(30, "the drop of the last handle with a skipped closure");
    let others = thread_count();
    with_every_builder(|builder| {
        let engine = builder.build().unwrap();
        let x = engine.new_variable();
        let failing = hold(&engine, &[], &[x]);
        let last = engine.clone();
        engine.op("skipped").writes([x]).push(move |_| drop(last)).unwrap();
        let witness = Arc::new(());
        let own = Arc::clone(&witness);
        engine.op("skipped as well").writes([x]).push(move |_| drop(own)).unwrap();
        drop(engine);
        failing.fail("so the others are skipped");
        eventually("the engine is drained", || Arc::strong_count(&witness) == 1);
        eventually("all threads have ended", || thread_count() == others);
    });
}

#[test]
fn many_engines_come_and_go() {
    run_child_well(&mut child("many engines"));
}

/// In a process of its own, to count threads.
fn many_engines() {
    let _watchdog = Watchdog::new(100, "many engines");
    let others = thread_count();
    let ran = Arc::new(AtomicUsize::new(0));
    let use_it = |engine: &Engine| {
        let x = engine.new_variable();
        (0..50).for_each(|_| engine.op("step").writes([x]).push(counting(&ran)).unwrap());
        engine.op("copy").property(Property::CopyFromGpu).push(counting(&ran)).unwrap();
    };
    for round in 0..64 {
        let kind = [Kind::Naive, Kind::Pooled, Kind::PerDevice][round % 3];
        let engine = Engine::builder().kind(kind).cpu_workers(1 + round % 4).build().unwrap();
        use_it(&engine);
        if round % 2 == 0 {
            engine.wait_for_all().unwrap();
        }
    }
    assert_eq!(ran.load(SeqCst), 64 * 51);
    eventually("all took their threads along", || thread_count() == others);
    // Several at once, used in turn by several threads.
    let engines: Vec<Engine> =
        (0..64).map(|_| Engine::builder().cpu_workers(1).idle(IdlePolicy::Park).build().unwrap()).collect();
    let variables: Vec<Variable> = engines.iter().map(Engine::new_variable).collect();
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (engines, variables) = (engines.clone(), variables.clone());
            std::thread::spawn(move || {
                for _ in 0..10 {
                    for (engine, x) in engines.iter().zip(&variables) {
                        engine.op("step").writes([*x]).push(|_| ()).unwrap();
                    }
                }
                for (engine, x) in engines.iter().zip(&variables) {
                    engine.wait_for_var(*x).unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    for (engine, x) in engines.iter().zip(&variables) {
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(*x).unwrap(), 30);
    }
    eventually("each has its one worker", || thread_count() == others + 64);
    drop(engines);
    eventually("all took their threads along", || thread_count() == others);
    let memory = resident_memory();
    for _ in 0..200 {
        use_it(&Engine::builder().kind(Kind::Naive).build().unwrap());
    }
    let grown = resident_memory().saturating_sub(memory);
    assert!(grown < 16 << 20, "200 engines that are gone left {grown} bytes behind");
}

// ---- Bounds ----

#[test]
fn the_bound_holds_whatever_a_push_does_at_it() {
    let _watchdog = Watchdog::new(120, "pushes under a bound");
    with_every_builder(|builder| {
        for when_full in [WhenFull::Block, WhenFull::Help, WhenFull::WouldBlock] {
            for bound in [1, 7, 64] {
                let engine = builder.clone().bound(bound).when_full(when_full).build().unwrap();
                bounded_pushes(&engine, bound);
            }
        }
    });
}

fn bounded_pushes(engine: &Engine, bound: usize) {
    let (accepted, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let most = Arc::new(AtomicUsize::new(0));
    let shared: Vec<Variable> = (0..4).map(|_| engine.new_variable()).collect();
    let pushers: Vec<_> = (0..3)
        .map(|thread| {
            let (engine, shared) = (engine.clone(), shared.clone());
            let (accepted, ended, most) = (Arc::clone(&accepted), Arc::clone(&ended), Arc::clone(&most));
            std::thread::spawn(move || {
                let mut random = Random(thread);
                for _ in 0..200 {
                    let builder = engine.op("step").reads([random.pick(&shared)]).writes([random.pick(&shared)]);
                    let count = counting(&ended);
                    let elsewhere = random.chance(20);
                    let body = move |run: &RunContext<'_>, completion: Completion| {
                        count(run);
                        match elsewhere {
                            true => drop(std::thread::spawn(move || completion.complete())),
                            false => completion.complete(),
                        }
                    };
                    match builder.push_async(body) {
                        // In this order: what has ended by the later look had ended for good, so what is left was in flight.
                        Ok(()) => {
                            let pushed = accepted.fetch_add(1, SeqCst) + 1;
                            most.fetch_max(pushed.saturating_sub(ended.load(SeqCst)), SeqCst);
                        }
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::EngineFull);
                            assert_eq!(engine.settings().when_full, WhenFull::WouldBlock);
                            std::thread::yield_now();
                        }
                    }
                }
            })
        })
        .collect();
    pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
    engine.wait_for_all().unwrap();
    let (accepted, most) = (accepted.load(SeqCst), most.load(SeqCst));
    assert_eq!(ended.load(SeqCst), accepted);
    assert!(most <= bound, "{most} in flight, bound {bound}");
    assert!(accepted == 600 || engine.settings().when_full == WhenFull::WouldBlock);
}

#[test]
fn at_the_bound_a_push_blocks_until_there_is_room() {
    with_every_builder(|builder| {
        for when_full in [WhenFull::Block, WhenFull::Help] {
            let engine = builder.clone().bound(3).when_full(when_full).build().unwrap();
            let x = engine.new_variable();
            let first = hold(&engine, &[], &[x]);
            engine.op("second").writes([x]).push(|_| ()).unwrap();
            engine.op("third").writes([x]).push(|_| ()).unwrap();
            let pushed = Arc::new(AtomicBool::new(false));
            let pusher = std::thread::spawn({
                let (engine, pushed) = (engine.clone(), Arc::clone(&pushed));
                move || {
                    engine.op("fourth").writes([x]).push(|_| ()).unwrap();
                    pushed.store(true, SeqCst);
                }
            });
            std::thread::sleep(Duration::from_millis(5));
            assert!(!pushed.load(SeqCst), "there is no room");
            engine
                .wait_for_var_timeout(x, Duration::from_millis(1))
                .expect_err("a wait needs no room, and finds it busy");
            first.complete();
            pusher.join().unwrap();
            engine.wait_for_all().unwrap();
            assert_eq!(engine.version(x).unwrap(), 4);
        }
    });
}

#[test]
fn a_pusher_that_helps_runs_operations_itself() {
    let engine =
        Engine::builder().kind(Kind::PerDevice).cpu_workers(1).bound(4).when_full(WhenFull::Help).build().unwrap();
    let this = std::thread::current().id();
    let (own, gate) = (Arc::new(AtomicUsize::new(0)), Gate::new());
    // The only worker is occupied, so nobody but the pusher can make room.
    let inner = gate.clone();
    engine.op("occupies the worker").push(move |_| inner.pass()).unwrap();
    gate.wait_for_someone();
    for _ in 0..100 {
        let own = Arc::clone(&own);
        let body = move |run: &RunContext<'_>| {
            assert_eq!(run.worker().is_none(), std::thread::current().id() == this);
            own.fetch_add(usize::from(run.worker().is_none()), SeqCst);
        };
        engine.op("short").push(body).unwrap();
    }
    assert!(own.load(SeqCst) >= 96);
    gate.open();
    engine.wait_for_all().unwrap();
}

#[test]
fn operations_push_beyond_the_bound_rather_than_wait_for_themselves() {
    let _watchdog = Watchdog::new(120, "nested pushes at the bound");
    with_every_builder(|builder| {
        for when_full in [WhenFull::Block, WhenFull::Help, WhenFull::WouldBlock] {
            let engine = builder.clone().bound(1).when_full(when_full).build().unwrap();
            let ran = Arc::new(AtomicUsize::new(0));
            let (own, count) = (engine.clone(), counting(&ran));
            let outer = move |_: &RunContext<'_>| (0..50).try_for_each(|_| own.op("nested").push(count.clone()));
            engine.op("outer").push(outer).unwrap();
            engine.wait_for_all().unwrap();
            assert_eq!(ran.load(SeqCst), 50);
            eventually("there is room again", || engine.op("room").push(|_| ()).is_ok());
        }
    });
}

// ---- Looking at a running engine ----

#[test]
fn a_timeout_names_what_runs_what_waits_and_what_it_waits_for() {
    on_every_engine(|engine| {
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let first = hold(&engine, &[], &[x]);
        engine.op("").reads([x]).writes([y]).push(|_| ()).unwrap();
        for number in 0..8 {
            engine.op(format!("later {number}")).writes([y]).push(|_| ()).unwrap();
        }
        let short = Duration::from_millis(1);
        let of_x = engine.wait_for_var_timeout(x, short).unwrap_err().to_string();
        let of_y = engine.wait_for_var_timeout(y, short).unwrap_err().to_string();
        let of_all = engine.wait_for_all_timeout(short).unwrap_err().to_string();
        assert!(
            of_x.contains("running 'hold' #") && of_x.contains("behind it '(unnamed)'") && !of_x.contains("later"),
            "{of_x}"
        );
        for part in ["pending '(unnamed)'", "'later 0' #", "'later 3'", "and 4 more", "while 'hold' #"] {
            assert!(of_y.contains(part), "{of_y}");
        }
        assert!(of_all.contains("running 'hold'") && of_all.contains("and 4 more"), "{of_all}");
        first.complete();
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_wide_operation_is_named_as_well() {
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    let wide: Vec<Variable> = (0..5_000).map(|_| engine.new_variable()).collect();
    let completion = hold(&engine, &[], &wide);
    let error = engine.wait_for_var_timeout(wide[7], Duration::from_millis(1)).unwrap_err();
    assert_says(&error, ErrorKind::TimedOut, &["running 'hold'"]);
    completion.complete();
    engine.wait_for_all().unwrap();
}

#[test]
fn a_wait_that_ran_out_of_time_leaves_the_error_for_the_next() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        for _ in 0..20 {
            let completion = hold(&engine, &[], &[x]);
            for _ in 0..3 {
                let error = engine.wait_for_var_timeout(x, Duration::from_micros(50)).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::TimedOut);
            }
            completion.fail("later");
            assert_failed(engine.wait_for_var(x), "later");
            engine.wait_for_var(x).unwrap();
        }
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn the_graph_shows_operations_and_who_waits_for_whom() {
    on_every_engine(|engine| {
        let empty = engine.dump_dot();
        assert!(empty.starts_with("digraph seriatim {\n") && empty.ends_with("}\n") && !empty.contains("label"));
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let first = hold(&engine, &[y], &[x]);
        engine.op("quote \" and \\ slash").reads([x]).push(|_| ()).unwrap();
        engine.op("third").writes([x, y]).push(|_| ()).unwrap();
        let graph = engine.dump_dot();
        let node = |name: &str| {
            let line =
                graph.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("no {name} in\n{graph}"));
            line.trim().split(' ').next().expect("a line has a first word").to_owned()
        };
        let (hold, quote, third) = (node("'hold' #"), node("'quote \\\" and \\\\ slash' #"), node("'third' #"));
        let index = |variable: Variable| {
            format!("{variable:?}").trim_start_matches("variable ").split('.').next().unwrap().to_owned()
        };
        for (from, to, variable, style) in
            [(&hold, &quote, x, "]"), (&quote, &third, x, ", style=dashed]"), (&hold, &third, y, ", style=dashed]")]
        {
            let edge = format!("  {from} -> {to} [label=\"v{}\"{style};", index(variable));
            assert!(graph.contains(&edge), "no edge {edge} in\n{graph}");
        }
        let filled: Vec<&str> = graph.lines().filter(|line| line.contains("style=filled")).collect();
        assert_eq!(filled.len(), 1, "only one runs:\n{graph}");
        assert!(filled[0].contains("'hold'"));
        assert_eq!(graph.matches('{').count(), graph.matches('}').count());
        first.complete();
        engine.wait_for_all().unwrap();
        assert_eq!(engine.dump_dot(), empty);
    });
}

#[test]
fn the_graph_of_a_moving_engine_is_safe_to_draw() {
    on_every_engine(|engine| {
        let done = Arc::new(AtomicBool::new(false));
        let looker = std::thread::spawn({
            let (engine, done) = (engine.clone(), Arc::clone(&done));
            move || {
                let mut looks = 0;
                while !done.load(Relaxed) || looks == 0 {
                    assert!(engine.dump_dot().ends_with("}\n"));
                    let _ = engine.wait_for_all_timeout(Duration::ZERO);
                    looks += 1;
                }
            }
        });
        let shared: Vec<Variable> = (0..8).map(|_| engine.new_variable()).collect();
        let mut random = Random(3);
        for number in 0..3_000 {
            let builder =
                engine.op(["a", "bb", "ccc"][number % 3]).reads([random.pick(&shared)]).writes([random.pick(&shared)]);
            builder.push(|_| ()).unwrap();
            if number % 100 == 0 {
                engine.wait_for_var(random.pick(&shared)).unwrap();
            }
        }
        engine.wait_for_all().unwrap();
        done.store(true, Relaxed);
        looker.join().unwrap();
    });
}

#[test]
fn a_pin_that_fails_is_a_warning_and_no_more() {
    let ran = Arc::new(AtomicUsize::new(0));
    let pinned = |kind, pin, cores: &[usize]| {
        let engine = Engine::builder()
            .kind(kind)
            .cpu_workers(2)
            .waiters_help(false)
            .pin(pin)
            .cores(cores.iter().copied())
            .build()
            .unwrap();
        assert_eq!(engine.warnings(), Vec::<String>::new(), "no worker, no pin");
        for _ in 0..20 {
            engine.op("step").push(counting(&ran)).unwrap();
        }
        engine.wait_for_all().unwrap();
        // The threads are through their start once they have been joined.
        engine.stop().unwrap();
        engine.warnings()
    };
    let warnings = pinned(Kind::PerDevice, true, &[1023]);
    assert_eq!(warnings.len(), 2);
    assert!(warnings.iter().all(|text| text.contains("core 1023") && text.contains("runs unpinned")), "{warnings:?}");
    assert!(warnings.iter().any(|text| text.contains("worker 0 of 'seriatim-cpu'")), "{warnings:?}");
    assert_eq!(pinned(Kind::PerDevice, false, &[1023]), Vec::<String>::new());
    assert_eq!(pinned(Kind::PerDevice, true, &[]), Vec::<String>::new());
    assert_eq!(pinned(Kind::Pooled, true, &[1023]), Vec::<String>::new());
    assert_eq!(pinned(Kind::Naive, true, &[1023]), Vec::<String>::new());
    assert_eq!(ran.load(SeqCst), 100);
}

// ---- Priorities ----

/// What one worker ran, in order.
type Order = Arc<Mutex<Vec<(i32, usize)>>>;

fn noting(order: &Order, priority: i32, number: usize) -> impl FnOnce(&RunContext<'_>) + Send + 'static {
    let order = Arc::clone(order);
    move |_| order.lock().unwrap().push((priority, number))
}

fn expected_order(count: usize, seed: u64) -> Vec<(i32, usize)> {
    let mut random = Random(seed);
    let mut all: Vec<(i32, usize)> = (0..count).map(|number| (random.below(7) as i32 - 3, number)).collect();
    all[count / 2].0 = i32::MAX;
    all[count / 3].0 = i32::MIN;
    all
}

/// Greater priorities first, ties in push order: a stable sort.
fn sorted(mut all: Vec<(i32, usize)>) -> Vec<(i32, usize)> {
    all.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
    all
}

fn engines_with_one_worker() -> Vec<Engine> {
    let builder = |kind| Engine::builder().kind(kind).cpu_workers(1).priority_workers(1).waiters_help(false);
    [Kind::Pooled, Kind::PerDevice].map(|kind| builder(kind).build().unwrap()).into()
}

#[test]
fn greater_priorities_run_first_and_equal_ones_in_push_order() {
    for engine in engines_with_one_worker() {
        for property in [Property::Normal, Property::CpuPrioritized, Property::NoSkip, Property::CopyToGpu] {
            let (order, gate) = (Order::default(), Gate::new());
            let all = expected_order(500, 1);
            let inner = gate.clone();
            engine.op("occupies the worker").property(property).push(move |_| inner.pass()).unwrap();
            gate.wait_for_someone();
            for (priority, number) in &all {
                let builder = engine.op("step").property(property).priority(*priority);
                builder.push(noting(&order, *priority, *number)).unwrap();
            }
            gate.open();
            engine.wait_for_all().unwrap();
            assert_eq!(*order.lock().unwrap(), sorted(all), "{} engine, {property:?}", engine.kind());
        }
    }
}

#[test]
fn priorities_hold_for_operations_that_another_thread_makes_ready() {
    for engine in engines_with_one_worker() {
        let (order, gate, x) = (Order::default(), Gate::new(), engine.new_variable());
        let all = expected_order(500, 2);
        let first = hold(&engine, &[], &[x]);
        for (priority, number) in &all {
            let builder = engine.op("step").reads([x]).priority(*priority);
            builder.push(noting(&order, *priority, *number)).unwrap();
        }
        let inner = gate.clone();
        engine.op("occupies the worker").priority(i32::MAX).push(move |_| inner.pass()).unwrap();
        gate.wait_for_someone();
        first.complete();
        gate.open();
        engine.wait_for_all().unwrap();
        assert_eq!(*order.lock().unwrap(), sorted(all), "{} engine", engine.kind());
    }
}

#[test]
fn priorities_hold_for_operations_that_the_worker_itself_makes_ready() {
    for engine in engines_with_one_worker() {
        let (order, gate, x) = (Order::default(), Gate::new(), engine.new_variable());
        let all = expected_order(500, 3);
        let inner = gate.clone();
        engine.op("occupies the worker").writes([x]).push(move |_| inner.pass()).unwrap();
        for (priority, number) in &all {
            let builder = engine.op("step").reads([x]).priority(*priority);
            builder.push(noting(&order, *priority, *number)).unwrap();
        }
        gate.wait_for_someone();
        gate.open();
        engine.wait_for_all().unwrap();
        assert_eq!(*order.lock().unwrap(), sorted(all), "{} engine", engine.kind());
    }
}

#[test]
fn an_urgent_operation_overtakes_a_backlog_that_is_already_running() {
    for engine in engines_with_one_worker() {
        let position = Arc::new(AtomicUsize::new(0));
        let urgent_at = Arc::new(AtomicUsize::new(usize::MAX));
        let gate = Gate::new();
        for number in 0..2_000 {
            let (position, inner) = (Arc::clone(&position), gate.clone());
            let body = move |_: &RunContext<'_>| {
                if number == 10 {
                    inner.pass();
                }
                position.fetch_add(1, SeqCst);
            };
            engine.op("backlog").push(body).unwrap();
        }
        gate.wait_for_someone();
        let (position, seen) = (Arc::clone(&position), Arc::clone(&urgent_at));
        engine.op("urgent").priority(1).push(move |_| seen.store(position.load(SeqCst), SeqCst)).unwrap();
        gate.open();
        engine.wait_for_all().unwrap();
        assert_eq!(urgent_at.load(SeqCst), 11, "{} engine", engine.kind());
    }
}

#[test]
fn as_many_operations_run_at_once_as_there_are_workers() {
    // Operations that wait for each other, which is no good style, but should not hang as long as there are workers for all.
    let _watchdog = Watchdog::new(120, "operations that wait for each other");
    let mut random = Random(9);
    for kind in [Kind::Pooled, Kind::PerDevice] {
        for workers in [2, 3, 5] {
            let engine = Engine::builder().kind(kind).cpu_workers(workers).waiters_help(false).build().unwrap();
            for _ in 0..150 {
                // Some short ones before, so that the workers are found awake, asleep and in between.
                for _ in 0..random.below(20) {
                    engine.op("short").push(|_| ()).unwrap();
                }
                spin(Duration::from_micros(random.pick(&[0, 0, 5, 50, 500])));
                let (arrived, others) = (Arc::new(AtomicUsize::new(0)), random.below(4));
                for _ in 0..workers {
                    let arrived = Arc::clone(&arrived);
                    let meet = move |_: &RunContext<'_>| {
                        arrived.fetch_add(1, SeqCst);
                        eventually("all have arrived", || arrived.load(SeqCst) == workers);
                    };
                    engine.op("meets the others").push(meet).unwrap();
                }
                (0..others).for_each(|_| engine.op("short").push(|_| ()).unwrap());
                engine.wait_for_all().unwrap();
            }
        }
    }
}

// ---- Contexts ----

#[test]
fn operations_are_told_where_they_run() {
    with_every_builder(|builder| {
        let engine = builder.nested_threads(3).build().unwrap();
        let workers = engine.settings().cpu_workers;
        let ran = Arc::new(AtomicUsize::new(0));
        for id in [0, 1, 2, 3, 7, 1023] {
            for context in [Context::cpu(id), Context::cpu_pinned(id)] {
                let count = counting(&ran);
                let body = move |run: &RunContext<'_>| {
                    assert_eq!((run.context(), run.name(), run.nested_threads()), (context, "where", 3));
                    assert!(run.worker().is_none_or(|worker| worker < workers));
                    count(run);
                };
                engine.push_sync(body, context, &[], &[], Property::Normal, 0, "where").unwrap();
            }
        }
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 12);
    });
}

#[test]
fn asynchronous_properties_run_on_the_pushing_thread_when_nothing_holds_them_up() {
    on_every_engine(|engine| {
        let this = std::thread::current().id();
        let ran = Arc::new(AtomicUsize::new(0));
        let x = engine.new_variable();
        let count = counting(&ran);
        let body = move |run: &RunContext<'_>| {
            assert_eq!((std::thread::current().id(), run.worker()), (this, None));
            count(run);
        };
        engine.op("starts").writes([x]).property(Property::Async).push(body.clone()).unwrap();
        assert_eq!(ran.load(SeqCst), 1, "it ran inside the push");
        engine.delete_variable(body, Context::cpu(0), x).unwrap();
        assert_eq!(ran.load(SeqCst), 2);
        engine.wait_for_all().unwrap();
    });
}

// ---- Deletion ----

#[test]
fn a_deletion_runs_after_the_last_use() {
    on_every_engine(|engine| {
        let ran = Arc::new(AtomicUsize::new(0));
        let at_the_end = Arc::new(AtomicUsize::new(0));
        let x = engine.new_variable();
        let first = hold(&engine, &[], &[x]);
        for number in 0..200 {
            let builder = engine.op("use");
            let builder = if number % 3 == 0 { builder.writes([x]) } else { builder.reads([x]) };
            builder.push(counting(&ran)).unwrap();
        }
        let (seen, end) = (Arc::clone(&ran), Arc::clone(&at_the_end));
        engine.delete_variable(move |_| end.store(seen.load(SeqCst), SeqCst), Context::cpu(0), x).unwrap();
        assert_eq!(engine.op("late").reads([x]).push(|_| ()).unwrap_err().kind(), ErrorKind::VariableDeleted);
        assert_eq!(at_the_end.load(SeqCst), 0);
        first.complete();
        engine.wait_for_all().unwrap();
        assert_eq!(at_the_end.load(SeqCst), 200);
    });
}

#[test]
fn an_operation_may_delete_what_it_uses() {
    on_every_engine(|engine| {
        let deleted = Arc::new(AtomicUsize::new(0));
        let x = engine.new_variable();
        let (own, count) = (engine.clone(), counting(&deleted));
        let body = move |_: &RunContext<'_>| {
            own.delete_variable(count, Context::cpu(0), x)?;
            own.op("late")
                .reads([x])
                .push(|_| ())
                .map_err(|error| {
                    assert_eq!(error.kind(), ErrorKind::VariableDeleted);
                })
                .expect_err("it is deleted");
            Ok::<(), Error>(())
        };
        engine.op("deletes").writes([x]).push(body).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(deleted.load(SeqCst), 1);
    });
}

#[test]
fn places_of_deleted_variables_are_used_again_with_a_new_generation() {
    on_every_engine(|engine| {
        // A second thread that looks at variables, so that reuse has to wait for both.
        let other = std::thread::spawn({
            let engine = engine.clone();
            move || {
                let y = engine.new_variable();
                for _ in 0..200 {
                    engine.op("beside").writes([y]).push(|_| ()).unwrap();
                    engine.wait_for_var(y).unwrap();
                }
            }
        });
        let mut old = Vec::new();
        let mut most = 0;
        for round in 0..10_000 {
            let x = engine.new_variable();
            assert_eq!(engine.version(x).unwrap(), 0);
            most = most.max(x.into_raw().0 as u32);
            if round % 100 == 0 {
                old.push(x);
            }
            engine.op("use").writes([x]).push(|_| ()).unwrap();
            engine.delete_variable(|_| (), Context::cpu(0), x).unwrap();
            if round % 50 == 0 {
                engine.wait_for_all().unwrap();
            }
        }
        other.join().unwrap();
        assert!(most < 5_000, "10,000 variables, one at a time, used {most} places");
        for x in old {
            assert_eq!(engine.version(x).unwrap_err().kind(), ErrorKind::VariableDeleted);
            assert_eq!(engine.op("late").writes([x]).push(|_| ()).unwrap_err().kind(), ErrorKind::VariableDeleted);
        }
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn of_several_deletions_one_succeeds() {
    on_every_engine(|engine| {
        for _ in 0..50 {
            let x = engine.new_variable();
            let ran = Arc::new(AtomicUsize::new(0));
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let (engine, count) = (engine.clone(), counting(&ran));
                    std::thread::spawn(move || engine.delete_variable(count, Context::cpu(0), x).is_ok())
                })
                .collect();
            let succeeded = threads.into_iter().map(|thread| thread.join().unwrap()).filter(|ok| *ok).count();
            engine.wait_for_all().unwrap();
            assert_eq!((succeeded, ran.load(SeqCst)), (1, 1));
        }
    });
}

#[test]
fn a_push_that_races_with_a_deletion_runs_before_it_or_is_refused() {
    let _watchdog = Watchdog::new(120, "pushes that race with a deletion");
    on_every_engine(|engine| {
        let mut random = Random(5);
        for round in 0..60 {
            let blocked = round % 2 == 0;
            let [other, x] = [engine.new_variable(), engine.new_variable()];
            // Half of the time another variable of the operations is busy, so that refused ones cannot complete at once.
            let holding = blocked.then(|| hold(&engine, &[], &[other]));
            let (accepted, ran, at_the_end) =
                (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let pushers: Vec<_> = (0..3)
                .map(|thread| {
                    let (engine, accepted, count) = (engine.clone(), Arc::clone(&accepted), counting(&ran));
                    std::thread::spawn(move || {
                        for number in 0..100_000 {
                            let builder = match (thread + number) % 4 {
                                0 => engine.op("reads").reads([x]),
                                1 => engine.op("writes").writes([x]),
                                2 => engine.op("reads both").reads([other, x]),
                                _ => engine.op("writes both").writes([x, other]),
                            };
                            match builder.push(count.clone()) {
                                Ok(()) => accepted.fetch_add(1, SeqCst),
                                Err(error) => {
                                    assert_eq!(error.kind(), ErrorKind::VariableDeleted);
                                    return;
                                }
                            };
                        }
                    })
                })
                .collect();
            spin(Duration::from_micros(random.below(400) as u64));
            let (seen, end) = (Arc::clone(&ran), Arc::clone(&at_the_end));
            engine.delete_variable(move |_| end.store(seen.load(SeqCst), SeqCst), Context::cpu(0), x).unwrap();
            pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
            if let Some(holding) = holding {
                holding.complete();
            }
            engine.wait_for_all().unwrap();
            let accepted = accepted.load(SeqCst);
            assert_eq!((ran.load(SeqCst), at_the_end.load(SeqCst)), (accepted, accepted), "round {round}");
            engine.delete_variable(|_| (), Context::cpu(0), other).unwrap();
        }
    });
}

#[test]
fn a_push_that_others_help_with_learns_of_a_deletion_all_the_same() {
    // A wide operation takes time to enlist, and pushes behind it help. If the pusher loses its core meanwhile, a helper is
    // first at the deleted variable: the pusher must learn of that although it never sees it.
    let _watchdog = Watchdog::new(120, "helped pushes that race with a deletion");
    let done = Arc::new(AtomicBool::new(false));
    let disturb = {
        let done = Arc::clone(&done);
        move || {
            while !done.load(Relaxed) {
                std::thread::sleep(Duration::from_micros(50));
                spin(Duration::from_micros(100));
            }
        }
    };
    let disturbers = [(); 2].map(|()| std::thread::spawn(disturb.clone()));
    let mut random = Random(11);
    let mut usual = Duration::from_micros(500);
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    let wide: Vec<Variable> = (0..1_999).map(|_| engine.new_variable()).collect();
    for round in 0..4_000 {
        let last = engine.new_variable();
        let holding = hold(&engine, &[], &[wide[0]]);
        let started = Arc::new(AtomicUsize::new(0));
        let line_up = {
            let started = Arc::clone(&started);
            move || {
                started.fetch_add(1, SeqCst);
                while started.load(SeqCst) < 2 {
                    std::hint::spin_loop();
                }
            }
        };
        // While the wide operation is being enlisted, as long as that has taken so far.
        let delay = usual.mul_f64(random.below(1_000) as f64 / 1_000.0);
        let deleter = std::thread::spawn({
            let (engine, line_up, first) = (engine.clone(), line_up.clone(), wide[0]);
            move || {
                line_up();
                spin(delay);
                engine.delete_variable(|_| (), Context::cpu(0), last).unwrap();
                engine.op("behind").reads([first]).push(|_| ()).unwrap();
            }
        });
        let ran = Arc::new(AtomicUsize::new(0));
        line_up();
        let start = Instant::now();
        let pushed = engine.op("wide").reads(wide[1..].iter().copied()).writes([wide[0], last]).push(counting(&ran));
        usual = (usual * 7 + start.elapsed().min(usual * 2)) / 8;
        deleter.join().unwrap();
        holding.complete();
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), usize::from(pushed.is_ok()), "round {round}: {pushed:?}");
    }
    done.store(true, Relaxed);
    disturbers.into_iter().for_each(|disturber| disturber.join().unwrap());
}

// ---- Sizes at the edge ----

#[test]
fn a_million_operations_in_a_row_are_released_without_recursion() {
    let _watchdog = Watchdog::new(300, "a million operations in a row");
    const LONG: u64 = 1_000_000;
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(1).build().unwrap();
        let x = engine.new_variable();
        let value = Arc::new(AtomicU64::new(0));
        let first = hold(&engine, &[], &[x]);
        for number in 0..LONG {
            let value = Arc::clone(&value);
            let next = move |_: &RunContext<'_>| {
                assert_eq!(value.load(Relaxed), number);
                value.store(number + 1, Relaxed);
            };
            let builder = engine.op("next").writes([x]);
            if number % 1000 == 0 {
                // A few that end by a completion, which must not nest either.
                let asynchronous = move |run: &RunContext<'_>, completion: Completion| {
                    next(run);
                    completion.complete();
                };
                builder.push_async(asynchronous).unwrap();
            } else {
                builder.push(next).unwrap();
            }
        }
        first.complete();
        engine.wait_for_all().unwrap();
        assert_eq!((value.load(Relaxed), engine.version(x).unwrap()), (LONG, LONG + 1));
    }
}

#[test]
fn a_long_row_of_readers_is_released_without_recursion() {
    let _watchdog = Watchdog::new(300, "a long row of readers");
    on_every_engine(|engine| {
        let ran = Arc::new(AtomicUsize::new(0));
        let x = engine.new_variable();
        let first = hold(&engine, &[], &[x]);
        (0..50_000).for_each(|_| engine.op("read").reads([x]).push(counting(&ran)).unwrap());
        engine.op("write").writes([x]).push(counting(&ran)).unwrap();
        first.complete();
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 50_001);
    });
}

/// Pushes an operation that pushes the next, to a depth.
fn nest(engine: &Engine, x: Variable, property: Property, depth: u64, sum: &Arc<AtomicU64>) {
    if depth == 0 {
        return;
    }
    let (own, sum) = (engine.clone(), Arc::clone(sum));
    let builder = engine.op("nested").property(property);
    // Every other one uses a variable, and so has to wait for the one around it.
    let builder = if depth % 2 == 0 { builder.writes([x]) } else { builder };
    let body = move |_: &RunContext<'_>| {
        sum.fetch_add(1, Relaxed);
        nest(&own, x, property, depth - 1, &sum);
    };
    builder.push(body).unwrap();
}

#[test]
fn operations_nest_ten_thousand_levels_deep() {
    let _watchdog = Watchdog::new(120, "nested pushes");
    on_every_engine(|engine| {
        for property in [Property::Normal, Property::CpuPrioritized, Property::CopyToGpu] {
            let (x, sum) = (engine.new_variable(), Arc::new(AtomicU64::new(0)));
            nest(&engine, x, property, 10_000, &sum);
            engine.wait_for_all().unwrap();
            assert_eq!(sum.load(Relaxed), 10_000);
        }
    });
}

#[test]
fn operations_that_run_on_their_pusher_nest_ten_thousand_levels_deep() {
    // In a process of its own: a stack overflow ends it.
    run_child_well(&mut child("nested async"));
}

fn nest_on_the_pusher() {
    on_every_engine(|engine| {
        // Without a variable, so that each could run at once, inside the one that pushes it.
        fn nest_async(engine: &Engine, depth: u64, sum: &Arc<AtomicU64>) {
            if depth > 0 {
                let (own, sum) = (engine.clone(), Arc::clone(sum));
                let body = move |_: &RunContext<'_>, completion: Completion| {
                    sum.fetch_add(1, Relaxed);
                    nest_async(&own, depth - 1, &sum);
                    completion.complete();
                };
                engine.op("nested").property(Property::Async).push_async(body).unwrap();
            }
        }
        let (x, sum) = (engine.new_variable(), Arc::new(AtomicU64::new(0)));
        nest_async(&engine, 10_000, &sum);
        nest(&engine, x, Property::Async, 10_000, &sum);
        engine.wait_for_all().unwrap();
        assert_eq!(sum.load(Relaxed), 20_000);
    });
}

#[test]
fn operations_fan_out_from_inside_operations() {
    on_every_engine(|engine| {
        let (sum, total) = (Arc::new(AtomicUsize::new(0)), engine.new_variable());
        let own = engine.clone();
        let count = counting(&sum);
        let tree = move |_: &RunContext<'_>| {
            (0..100).try_for_each(|_| {
                let (inner, count) = (own.clone(), count.clone());
                own.op("branch").push(move |_| {
                    (0..20).try_for_each(|leaf| {
                        let builder = inner.op("leaf");
                        let builder = if leaf % 2 == 0 { builder.writes([total]) } else { builder.reads([total]) };
                        builder.push(count.clone())
                    })
                })
            })
        };
        engine.op("root").push(tree).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!((sum.load(SeqCst), engine.version(total).unwrap()), (2_000, 1_000));
    });
}

#[test]
fn an_operation_may_use_thousands_of_variables() {
    let _watchdog = Watchdog::new(120, "wide operations");
    on_every_engine(|engine| {
        let wide: Vec<Variable> = (0..5_000).map(|_| engine.new_variable()).collect();
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |number: usize| {
            let order = Arc::clone(&order);
            move |_: &RunContext<'_>| order.lock().unwrap().push(number)
        };
        // Around each size class, and beyond the largest.
        let mut number = 0;
        let mut expected = vec![0; wide.len()];
        for width in [1, 3, 4, 8, 9, 20, 21, 27, 28, 59, 60, 123, 2_043, 2_044, 5_000, 5_000] {
            let reads = wide[..width].iter().rev().copied();
            let writes = wide[..width].iter().step_by(2).copied();
            engine.op("wide").reads(reads).writes(writes).push(note(number)).unwrap();
            engine.op("behind").writes([wide[width - 1]]).push(note(number + 1)).unwrap();
            (0..width).step_by(2).for_each(|index| expected[index] += 1);
            expected[width - 1] += 1;
            number += 2;
        }
        engine.wait_for_all().unwrap();
        let versions: Vec<u64> = wide.iter().map(|variable| engine.version(*variable).unwrap()).collect();
        assert_eq!(versions, expected);
        // The first variable is written by every wide operation, so those are in a row; each has its follower behind it.
        let order = order.lock().unwrap();
        let position = |number: usize| order.iter().position(|other| *other == number).expect("it ran");
        assert_eq!(order.len(), number);
        for wide in (0..number).step_by(2) {
            assert!(position(wide) < position(wide + 1));
            assert!(wide == 0 || position(wide - 2) < position(wide));
        }
    });
}

#[test]
fn wide_operations_come_back_in_constant_memory() {
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).build().unwrap();
    let wide: Vec<Variable> = (0..5_000).map(|_| engine.new_variable()).collect();
    let round = |count: usize| {
        for number in 0..count {
            engine.op("wide").writes(wide.iter().copied()).push(|_| ()).unwrap();
            if number % 10 == 9 {
                engine.wait_for_all().unwrap();
            }
        }
    };
    round(50);
    let before = resident_memory();
    round(300);
    let grown = resident_memory().saturating_sub(before);
    assert!(grown < 24 << 20, "300 operations of 160 kB, ten at a time, left {grown} bytes");
}

#[test]
fn closures_of_any_size_and_alignment_are_kept_where_they_belong() {
    #[repr(align(128))]
    #[derive(Clone, Copy)]
    struct Aligned([u8; 128]);

    #[repr(align(32))]
    #[derive(Clone, Copy)]
    struct Half([u8; 32]);

    on_every_engine(|engine| {
        let x = engine.new_variable();
        let ran = Arc::new(AtomicUsize::new(0));
        // None, one that fits exactly, one byte more, large, over-aligned.
        engine.op("empty").writes([x]).push(|_| ()).unwrap();
        macro_rules! sizes {
            ($($size:literal)*) => {$({
                let (bytes, count) = (std::array::from_fn::<u8, $size, _>(|index| index as u8), counting(&ran));
                let body = move |run: &RunContext<'_>| {
                    assert!(bytes.iter().enumerate().all(|(index, byte)| *byte == index as u8));
                    count(run);
                };
                engine.op("sized").writes([x]).push(body.clone()).unwrap();
                engine.op("sized").writes([x]).push_async(move |run, completion| { body(run); completion.complete() }).unwrap();
            })*};
        }
        sizes!(1 48 55 56 57 64 65 200 4096);
        let (aligned, count) = (Aligned([7; 128]), counting(&ran));
        let body = move |run: &RunContext<'_>| {
            assert_eq!((&raw const aligned).addr() % 128, 0);
            assert_eq!(aligned.0, [7; 128]);
            count(run);
        };
        engine.op("over-aligned").writes([x]).push(body).unwrap();
        let (half, count) = (Half([9; 32]), counting(&ran));
        let body = move |run: &RunContext<'_>| {
            assert_eq!((&raw const half).addr() % 32, 0);
            assert_eq!(half.0, [9; 32]);
            count(run);
        };
        engine.op("aligned and in place").writes([x]).push(body).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!((ran.load(SeqCst), engine.version(x).unwrap()), (20, 21));
    });
}

#[test]
fn every_closure_is_dropped_exactly_once() {
    struct Witness(Arc<AtomicUsize>);
    impl Drop for Witness {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    on_every_engine(|engine| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let witness = || Witness(Arc::clone(&dropped));
        let [x, gone] = [engine.new_variable(), engine.new_variable()];
        engine.delete_variable(|_| (), Context::cpu(0), gone).unwrap();
        // Run, failed, skipped, refused; small and boxed; synchronous, asynchronous and reusable.
        let mut pushed = 0;
        for ballast in [false, true] {
            for variable in [x, gone] {
                let (small, large) = (witness(), (witness(), [0u8; 100]));
                let outcome = match ballast {
                    false => engine.op("op").writes([variable]).push(move |_| drop(small)),
                    true => engine.op("op").writes([variable]).push(move |_| drop(large.0)),
                };
                assert_eq!(outcome.is_ok(), variable == x);
                let own = witness();
                let body = move |_: &RunContext<'_>, completion: Completion| {
                    drop(own);
                    completion.complete();
                };
                assert_eq!(engine.op("op").writes([variable]).push_async(body).is_ok(), variable == x);
                pushed += 3; // both of `small` and `large` are dropped, one of them here
            }
        }
        engine.op("fails").writes([x]).push(|_| Err("so the next is skipped")).unwrap();
        let own = witness();
        engine.op("skipped").writes([x]).push(move |_| drop(own)).unwrap();
        let own = witness();
        let step = engine
            .op("step")
            .writes([x])
            .operator(move |_| assert_eq!(own.0.load(SeqCst), own.0.load(SeqCst)))
            .unwrap();
        (0..10).for_each(|_| engine.push(&step, Context::cpu(0), 0).unwrap());
        engine.wait_for_all().unwrap_err();
        assert_eq!(dropped.load(SeqCst), pushed + 1, "the operator is kept by its handle");
        engine.delete_operator(step.clone());
        let completion = hold(&engine, &[], &[x]);
        engine.push(&step, Context::cpu(0), 0).unwrap();
        engine.delete_operator(step);
        assert_eq!(dropped.load(SeqCst), pushed + 1, "the operator is kept by its use");
        completion.complete();
        engine.wait_for_all().unwrap();
        assert_eq!(dropped.load(SeqCst), pushed + 2);
    });
}

#[test]
fn an_operator_may_be_pushed_again_while_it_is_in_flight() {
    on_every_engine(|engine| {
        let (ran, x) = (Arc::new(AtomicUsize::new(0)), engine.new_variable());
        let writes = engine.op("writes").writes([x]).operator(counting(&ran)).unwrap();
        let reads = engine.new_operator(counting(&ran), &[x, x], &[], Property::Normal, "reads").unwrap();
        let completion = hold(&engine, &[], &[x]);
        for number in 0..100 {
            engine.push(&writes, Context::cpu(number % 3), number as i32).unwrap();
            engine.push(&reads, Context::cpu(0), -1).unwrap();
        }
        drop((writes, reads));
        completion.complete();
        engine.wait_for_all().unwrap();
        assert_eq!((ran.load(SeqCst), engine.version(x).unwrap()), (200, 101));
    });
}

#[test]
fn names_reach_the_operation_whatever_they_are_made_of() {
    let long = "x".repeat(10_000);
    on_every_engine(|engine| {
        for name in ["", "plain", "with 'quotes' and\nlines", "naïve ✔", &long] {
            let interned = Name::from(name.to_owned());
            assert_eq!(
                (interned.as_str(), Name::from(name.to_owned()).as_str().as_ptr()),
                (name, interned.as_str().as_ptr())
            );
            let own = name.to_owned();
            engine.op(name.to_owned()).push(move |run| assert_eq!(run.name(), own)).unwrap();
            engine.op(interned).push(|_| Err("named")).unwrap();
            let error = engine.wait_for_all().unwrap_err();
            assert_eq!(error.operation(), Some(name));
        }
        assert_eq!(Name::default().as_str(), "");
    });
}

// ---- Children ----

/// Not a test of its own: carries out what the tests above ask of a child process.
#[test]
fn a_child_process_does_its_task() {
    match task().as_deref() {
        Some("wait while stopped") => wait_while_stopped(),
        Some("last handle") => last_handle_inside(),
        Some("last handle skipped") => last_handle_in_a_skipped_closure(),
        Some("many engines") => many_engines(),
        Some("nested async") => nest_on_the_pusher(),
        _ => {}
    }
}
