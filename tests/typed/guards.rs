//! Guards: a thread outside of operations has an access in the chain until it drops the guard.

use crate::common::*;
use seriatim::{Engine, ErrorKind, Kind, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Barrier};
use std::time::Duration;

#[test]
fn a_guard_holds_back_what_conflicts_and_nothing_else() {
    on_every_engine(|engine| {
        let (x, ran) = (engine.value(1), Arc::new(AtomicUsize::new(0)));
        let count = |bits: usize| {
            let ran = Arc::clone(&ran);
            move || _ = ran.fetch_or(bits, SeqCst)
        };
        let reader = x.read().unwrap();
        let (read, changed, after) = (count(1), count(2), count(4));
        engine.op("read").run(&x, move |_| read()).unwrap();
        let other = engine.value(0);
        engine.op("beside").run((&x, Write(&other)), |(x, other)| *other = *x).unwrap();
        engine.wait_for_var(other.variable()).unwrap();
        eventually("the read runs", || ran.load(SeqCst) == 1);
        engine
            .op("change")
            .run(Write(&x), move |x| {
                *x += 1;
                changed();
            })
            .unwrap();
        engine.op("after").run(&x, move |_| after()).unwrap();
        std::thread::sleep(Duration::from_millis(if cfg!(miri) { 0 } else { 2 }));
        assert_eq!((*reader, ran.load(SeqCst)), (1, 1), "the change waits for the guard");
        drop(reader);
        let mut writer = x.write().unwrap();
        assert_eq!((*writer, ran.load(SeqCst)), (2, 7), "the guard waits for what was pushed before");
        let version = engine.version(x.variable()).unwrap();
        engine.op("look").run((&x, Write(&other)), |(x, other)| *other = *x).unwrap();
        *writer = 10;
        drop(writer);
        assert_eq!(*other.read().unwrap(), 10);
        assert_eq!(engine.version(x.variable()).unwrap(), version + 1, "a write guard is a change");
    });
}

#[test]
fn readers_on_several_threads_have_guards_at_once() {
    on_every_engine(|engine| {
        let (x, all) = (engine.value(String::from("shared")), Barrier::new(3));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let guard = x.read().unwrap();
                    all.wait();
                    assert_eq!(*guard, "shared");
                });
            }
        });
    });
}

#[test]
fn writers_on_several_threads_take_turns() {
    on_every_engine(|engine| {
        let x = engine.value((0_u64, 0_u64));
        let rounds = if cfg!(miri) { 5 } else { 100 };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        let mut pair = x.write().unwrap();
                        pair.0 += 1;
                        std::thread::yield_now();
                        pair.1 += 1;
                        assert_eq!(pair.0, pair.1);
                        drop(pair);
                        engine.op("step").run(Write(&x), |pair| *pair = (pair.0 + 1, pair.1 + 1)).unwrap();
                        let pair = x.read().unwrap();
                        assert_eq!(pair.0, pair.1);
                    }
                });
            }
        });
        assert_eq!(*x.read().unwrap(), (6 * rounds, 6 * rounds));
    });
}

/// What would wait for ever is an error.
#[test]
fn a_thread_is_refused_to_wait_for_its_own_guard() {
    on_every_engine(|engine| {
        let (x, y) = (engine.value(1), engine.value(2));
        let refused = |error: seriatim::Error| assert_says(&error, ErrorKind::BorrowConflict, &["guard", "drop"]);
        let reader = x.read().unwrap();
        refused(x.read().map(drop).unwrap_err());
        refused(x.clone().write().map(drop).unwrap_err());
        refused(engine.wait_until_unused(x.variable()).unwrap_err());
        refused(engine.wait_for_all().unwrap_err());
        refused(engine.stop().unwrap_err());
        // These do not wait for it.
        engine.wait_for_var(x.variable()).unwrap();
        let writer = y.write().unwrap();
        refused(engine.wait_for_var(y.variable()).unwrap_err());
        refused(y.read().map(drop).unwrap_err());
        drop(reader);
        refused(engine.wait_for_all().unwrap_err());
        // Another thread waits, and says for what.
        std::thread::scope(|scope| {
            let waits = || engine.wait_for_var_timeout(y.variable(), Duration::from_millis(1)).unwrap_err();
            assert_says(&scope.spawn(waits).join().unwrap(), ErrorKind::TimedOut, &["guard"]);
        });
        drop(writer);
        engine.wait_for_all().unwrap();
        assert_eq!((*x.write().unwrap(), *y.read().unwrap()), (1, 2));
    });
}

#[test]
fn a_handle_reaches_nothing_inside_an_operation() {
    on_every_engine(|engine| {
        let (x, y, said) = (engine.value(1), engine.value(2), Arc::new(AtomicUsize::new(0)));
        let (captured, own, heard) = (x.clone(), y.clone(), Arc::clone(&said));
        engine
            .op("inside")
            .run(Write(&y), move |_| {
                let refused = |error: seriatim::Error| error.kind() == ErrorKind::WaitInsideOperation;
                let all = [
                    refused(captured.read().map(drop).unwrap_err()),
                    refused(captured.write().map(drop).unwrap_err()),
                    refused(own.read().map(drop).unwrap_err()),
                    refused(own.write().map(drop).unwrap_err()),
                ];
                heard.store(all.into_iter().filter(|refused| *refused).count(), SeqCst);
            })
            .unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(said.load(SeqCst), 4);
    });
}

/// On the naive engine the drop of a guard runs what it makes ready.
#[test]
fn operations_behind_a_guard_run_when_it_is_dropped() {
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    let x = engine.value(0);
    let guard = x.write().unwrap();
    for _ in 0..100 {
        engine.op("step").run(Write(&x), |x| *x += 1).unwrap();
    }
    assert_eq!((*guard, engine.version(x.variable()).unwrap()), (0, 0));
    drop(guard);
    assert_eq!(engine.version(x.variable()).unwrap(), 101);
    assert_eq!(*x.read().unwrap(), 100);
}

#[test]
fn a_stopped_engine_gives_guards() {
    on_every_engine(|engine| {
        let x = engine.value(1);
        engine.op("double").run(Write(&x), |x| *x *= 2).unwrap();
        engine.stop().unwrap();
        assert_eq!(*x.read().unwrap(), 2);
        *x.write().unwrap() += 1;
        let late = engine.op("late").run(Write(&x), |x| *x = 0);
        assert_says(&late.unwrap_err(), ErrorKind::Stopped, &[]);
        engine.start().unwrap();
        engine.op("again").run(Write(&x), |x| *x *= 2).unwrap();
        assert_eq!(*x.read().unwrap(), 6);
    });
}

#[test]
fn a_guard_keeps_its_engine_from_ending() {
    with_every_builder(|builder| {
        let engine = builder.build().unwrap();
        let x = engine.value(1);
        let mut guard = x.write().unwrap();
        drop(engine);
        *guard += 1;
        assert_eq!(*guard, 2);
        drop(guard);
        assert_says(&x.read().map(drop).unwrap_err(), ErrorKind::Stopped, &["has ended"]);
        assert_eq!(x.into_inner().unwrap(), 2);
    });
}

#[test]
fn a_guard_that_is_forgotten_keeps_its_value_locked() {
    on_every_engine(|engine| {
        let (x, done) = (engine.value(1), Arc::new(AtomicBool::new(false)));
        std::thread::scope(|scope| _ = scope.spawn(|| std::mem::forget(x.write().unwrap())));
        let says = Arc::clone(&done);
        engine.op("behind").run(&x, move |_| says.store(true, SeqCst)).unwrap();
        let waited = engine.wait_for_var_timeout(x.variable(), Duration::from_millis(1));
        assert_says(&waited.unwrap_err(), ErrorKind::TimedOut, &[]);
        assert!(!done.load(SeqCst));
        // The forgotten guard has a handle of the engine, which so does not end.
        drop((x, engine));
    });
}

#[test]
fn a_guard_takes_the_failure_once() {
    on_every_engine(|engine| {
        let x = engine.value(1);
        for round in 0..3 {
            engine.op("fails").run(Write(&x), |_| Err::<(), _>("no paper")).unwrap();
            let said = if round == 0 { x.read().map(drop) } else { x.write().map(drop) };
            assert_failed(said, "no paper");
            drop(x.write().unwrap());
            drop(x.read().unwrap());
        }
        assert_eq!(engine.version(x.variable()).unwrap(), 6);
        engine.wait_for_all().unwrap();
    });
}

/// What has run out of time holds nothing, and keeps nobody back.
#[test]
fn a_guard_that_comes_too_late_is_given_up() {
    let _watchdog = Watchdog::new(60, "a guard that is given up");
    on_every_engine(|engine| {
        let x = engine.value(1);
        let elsewhere = |wait: &(dyn Fn() -> Result<(), seriatim::Error> + Sync)| {
            std::thread::scope(|scope| scope.spawn(wait).join().unwrap())
        };
        let late = |outcome: Result<(), seriatim::Error>| {
            assert_says(&outcome.unwrap_err(), ErrorKind::TimedOut, &["no guard", "guard"]);
        };
        let (short, long) = (Duration::from_millis(1), Duration::from_secs(20));
        let mut writer = x.write_timeout(long).unwrap();
        late(elsewhere(&|| x.read_timeout(short).map(drop)));
        late(elsewhere(&|| x.write_timeout(Duration::ZERO).map(drop)));
        late(elsewhere(&|| x.write_timeout(short).map(drop)));
        engine.op("double").run(Write(&x), |x| *x *= 2).unwrap();
        late(elsewhere(&|| x.read_timeout(short).map(drop)));
        *writer += 1;
        drop(writer);
        assert_eq!(*x.read_timeout(long).unwrap(), 4);
        assert_eq!(engine.version(x.variable()).unwrap(), 2, "what was given up is no change");
        engine.wait_for_all_timeout(long).unwrap();
        // A reader beside a reader is not late.
        let reader = x.read().unwrap();
        elsewhere(&|| x.read_timeout(long).map(drop)).unwrap();
        late(elsewhere(&|| x.write_timeout(short).map(drop)));
        drop(reader);
        assert_eq!(x.into_inner().unwrap(), 4);
    });
}

/// The failure is for the next wait.
#[test]
fn a_guard_that_comes_too_late_takes_no_failure() {
    on_every_engine(|engine| {
        let x = engine.value(1);
        let writer = x.write().unwrap();
        engine.op("fails").run(Write(&x), |_| Err::<(), _>("no paper")).unwrap();
        let late = std::thread::scope(|scope| {
            scope.spawn(|| x.read_timeout(Duration::from_millis(1)).map(drop)).join().unwrap()
        });
        assert_says(&late.unwrap_err(), ErrorKind::TimedOut, &[]);
        drop(writer);
        assert_failed(x.write_timeout(Duration::from_secs(60)).map(drop), "no paper");
        assert_eq!(*x.read().unwrap(), 1);
    });
}

/// Two threads at the moment when the time is over: each guard is given or given up, and none lost.
#[test]
fn guards_that_come_as_the_time_ends_are_neither_lost_nor_doubled() {
    let _watchdog = Watchdog::new(300, "guards with limits");
    let rounds = if cfg!(miri) { 4 } else { by_length(400, 10_000) };
    on_every_engine(|engine| {
        let values = [engine.value(0_u64), engine.value(0)];
        let added: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|thread| {
                    let values = &values;
                    scope.spawn(move || {
                        let (mut random, mut added) = (Random(thread), 0);
                        for _ in 0..rounds {
                            let first = random.below(2);
                            let limit = Duration::from_micros(random.below(60) as u64);
                            let Ok(mut one) = values[first].write_timeout(limit) else { continue };
                            let other = values[1 - first].write_timeout(limit);
                            *one += 1;
                            added += 1;
                            other.into_iter().for_each(|mut other| {
                                *other += 1;
                                added += 1;
                            });
                        }
                        added
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        engine.wait_for_all().unwrap();
        assert_eq!(*values[0].read().unwrap() + *values[1].read().unwrap(), added);
        let versions: u64 = values.iter().map(|value| engine.version(value.variable()).unwrap()).sum();
        assert_eq!(versions, added, "each guard was one change");
    });
}

/// Two threads, and three in a ring: the last one is refused, and all come on when it lets go.
#[test]
fn threads_that_want_each_other_s_values_are_refused() {
    let _watchdog = Watchdog::new(60, "guards held crosswise");
    on_every_engine(|engine| {
        for threads in [2, 3] {
            let values: Vec<_> = (0..threads).map(|_| engine.value(0)).collect();
            let (all, refused) = (Barrier::new(threads), AtomicUsize::new(0));
            std::thread::scope(|scope| {
                for thread in 0..threads {
                    let (values, all, refused) = (&values, &all, &refused);
                    scope.spawn(move || {
                        let mut mine = values[thread].write().unwrap();
                        all.wait();
                        match values[(thread + 1) % threads].write() {
                            Ok(mut other) => *other += 1,
                            Err(error) => {
                                assert_says(&error, ErrorKind::BorrowConflict, &["guard", "drop", "limited time"]);
                                refused.fetch_add(1, SeqCst);
                            }
                        }
                        *mine += 1;
                    });
                }
            });
            let refused = refused.into_inner();
            assert_eq!(refused, 1, "one thread lets go, and the others go on");
            let sum: usize = values.iter().map(|value| *value.read().unwrap()).sum();
            assert_eq!(sum, 2 * threads - refused);
        }
        engine.wait_for_all().unwrap();
    });
}

/// Who has slept for guards, and has let go of them, is in nobody's way.
#[test]
fn a_thread_that_has_slept_for_guards_blocks_nobody() {
    let pause = || std::thread::sleep(Duration::from_millis(if cfg!(miri) { 0 } else { 10 }));
    let engine = Engine::builder().cpu_workers(1).build().unwrap();
    let [a, b, c] = [(); 3].map(|()| engine.value(0));
    let all = Barrier::new(2);
    std::thread::scope(|scope| {
        let (first, second) = (b.write().unwrap(), c.write().unwrap());
        let sleeper = scope.spawn(|| {
            let guard = a.write().unwrap();
            all.wait();
            let second = b.write().unwrap();
            drop(c.write().unwrap());
            drop(second);
            all.wait();
            pause();
            drop(guard);
        });
        all.wait();
        pause();
        drop(first);
        pause();
        drop(second);
        all.wait();
        let first = b.write().unwrap();
        drop(a.write().unwrap());
        drop(first);
        sleeper.join().unwrap();
        let _first = b.write().unwrap();
        scope.spawn(|| {
            let guard = a.write().unwrap();
            all.wait();
            pause();
            drop(guard);
        });
        all.wait();
        drop(a.write().unwrap());
    });
}

/// An operation that a sleeping thread runs sleeps for a guard of another engine, with a limit and
/// without: the thread still waits for what it slept for first, and afterwards for nothing.
#[test]
fn a_sleep_inside_a_sleep_ends_alone() {
    let _watchdog = Watchdog::new(60, "a sleep inside a sleep");
    for limit in [None, Some(Duration::from_millis(20))] {
        let [engine, other] = [(); 2].map(|()| Engine::builder().cpu_workers(1).build().unwrap());
        let ([a, b], c) = ([(); 2].map(|()| engine.value(0)), other.value(0));
        let (all, inner, goes_on) = (Barrier::new(2), AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
        let until = |has_come: &dyn Fn() -> bool| {
            while !has_come() {
                std::thread::yield_now();
            }
        };
        let (begun, wait) = (Arc::new(AtomicBool::new(false)), Arc::clone(&goes_on));
        let begins = Arc::clone(&begun);
        let keeps = move || {
            begins.store(true, SeqCst);
            while !wait.load(SeqCst) {
                std::thread::yield_now();
            }
        };
        engine.op("keeps").run((), move |()| keeps()).unwrap();
        until(&|| begun.load(SeqCst));
        std::thread::scope(|scope| {
            let (mut second, third) = (b.write().unwrap(), c.write().unwrap());
            let sleeper = scope.spawn(|| {
                let guard = a.write().unwrap();
                all.wait();
                // The worker is kept, so this thread runs the operation.
                drop((b.write().unwrap(), guard));
            });
            all.wait();
            engine
                .scope(|children| {
                    children.op("inner").run((), |()| {
                        inner.store(1, SeqCst);
                        let guard = match limit {
                            None => c.write().map(drop),
                            Some(limit) => c.write_timeout(limit).map(drop),
                        };
                        assert_eq!(guard.is_ok(), limit.is_none());
                        inner.store(2, SeqCst);
                    })?;
                    until(&|| inner.load(SeqCst) >= 1);
                    std::thread::sleep(Duration::from_millis(10));
                    let third = if limit.is_none() {
                        drop(third);
                        None
                    } else {
                        Some(third)
                    };
                    until(&|| inner.load(SeqCst) == 2);
                    drop(third);
                    Ok(())
                })
                .unwrap();
            let refused = a.write().map(drop).unwrap_err();
            assert_says(&refused, ErrorKind::BorrowConflict, &["guard", "drop"]);
            *second += 1;
            drop(second);
            sleeper.join().unwrap();
            // The thread that is gone is in nobody's way.
            let _second = b.write().unwrap();
            scope.spawn(|| {
                let guard = a.write().unwrap();
                all.wait();
                std::thread::sleep(Duration::from_millis(10));
                drop(guard);
            });
            all.wait();
            drop(a.write().unwrap());
        });
        goes_on.store(true, SeqCst);
    }
}

/// Readers do not want each other's values, whatever they hold.
#[test]
fn readers_that_hold_crosswise_are_not_refused() {
    on_every_engine(|engine| {
        let (x, y, all) = (engine.value(1), engine.value(2), Barrier::new(2));
        std::thread::scope(|scope| {
            for (first, second) in [(&x, &y), (&y, &x)] {
                let all = &all;
                scope.spawn(move || {
                    let first = first.read().unwrap();
                    all.wait();
                    assert_eq!(*first + *second.read().unwrap(), 3);
                });
            }
        });
    });
}

/// In any order no thread hangs, and in one order none is refused.
#[test]
fn guards_in_any_order_come_or_are_refused() {
    let _watchdog = Watchdog::new(300, "guards in any order");
    let rounds = if cfg!(miri) { 4 } else { by_length(300, 10_000) };
    on_every_engine(|engine| {
        for in_order in [false, true] {
            let values: Vec<_> = (0..4).map(|_| engine.value(0_u64)).collect();
            let added: u64 = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..3)
                    .map(|thread| {
                        let (values, engine) = (&values, &engine);
                        scope.spawn(move || {
                            let (mut random, mut added) = (Random(thread), 0);
                            for _ in 0..rounds {
                                let mut wanted: Vec<_> = (0..2 + random.below(2)).map(|_| random.below(4)).collect();
                                if in_order {
                                    wanted.sort_unstable();
                                    wanted.dedup();
                                }
                                let mut held = Vec::new();
                                for at in wanted {
                                    let comes = if random.chance(30) {
                                        values[at].read().map(drop)
                                    } else {
                                        values[at].write().map(|guard| held.push(guard))
                                    };
                                    assert!(comes.is_ok() || !in_order, "{comes:?}");
                                    if comes.is_err() {
                                        break;
                                    }
                                }
                                added += held.len() as u64;
                                held.iter_mut().for_each(|value| **value += 1);
                                drop(held);
                                if random.chance(10) {
                                    let at = random.below(4);
                                    engine.op("step").run(Write(&values[at]), |x| *x += 1).unwrap();
                                    added += 1;
                                }
                            }
                            added
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum()
            });
            assert_eq!(values.iter().map(|value| *value.read().unwrap()).sum::<u64>(), added);
        }
    });
}

/// A thread's own list of guards is looked up, and not walked through.
#[test]
fn many_guards_at_once_are_dropped_in_any_order() {
    let engine = Engine::new().unwrap();
    let values: Vec<_> = (0..2_000).map(|number| engine.value(number)).collect();
    let mut guards: Vec<_> = values.iter().map(|value| Some(value.read().unwrap())).collect();
    assert!(values.iter().all(|value| value.read().is_err()));
    for at in (0..guards.len()).step_by(2).chain((1..guards.len()).step_by(2).rev().collect::<Vec<_>>()) {
        assert_eq!(*guards[at].take().unwrap(), at);
        assert_eq!(*values[at].read().unwrap(), at);
    }
    engine.wait_for_all().unwrap();
}
