//! Scopes inside operations: nested parallelism and recursion.

use crate::common::*;
use seriatim::{Engine, Error, ErrorKind, Kind, Write};
use std::collections::HashSet;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

/// Runs a body inside an operation; returns what it returned.
pub fn inside<T: Send + 'static>(engine: &Engine, body: impl FnOnce(&Engine) -> T + Send + 'static) -> T {
    let own = engine.clone();
    engine.op("outer").compute(move |_| body(&own)).unwrap().wait().unwrap()
}

fn sum(engine: &Engine, numbers: &[u64]) -> Result<u64, Error> {
    if numbers.len() <= 3 {
        return Ok(numbers.iter().sum());
    }
    let (left, right) = numbers.split_at(numbers.len() / 2);
    let mut of_left = 0;
    let of_right = engine.scope(|s| {
        s.op("left").push(|_| {
            of_left = sum(engine, left)?;
            Ok::<(), Error>(())
        })?;
        sum(engine, right)
    })?;
    Ok(of_left + of_right)
}

#[test]
fn a_recursion_gives_what_it_gives_without_an_engine() {
    on_every_engine(|engine| {
        for length in [0, 1, 4, 100, if cfg!(miri) { 40 } else { 5000 }] {
            let numbers: Vec<u64> = (0..length).collect();
            let expected: u64 = numbers.iter().sum();
            assert_eq!(inside(&engine, move |engine| sum(engine, &numbers)).unwrap(), expected);
        }
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn many_children_of_one_scope_each_run_once() {
    const CHILDREN: usize = if cfg!(miri) { 80 } else { 20_000 };
    on_every_engine(|engine| {
        let counts = inside(&engine, |engine| {
            let mut counts = vec![0_u32; CHILDREN];
            engine.scope(|s| counts.iter_mut().try_for_each(|count| s.op("child").push(move |_| *count += 1))).unwrap();
            counts
        });
        assert_eq!(counts, vec![1; CHILDREN]);
    });
}

/// Of so many engine threads, each runs a child, and no child ends before the others have begun.
#[test]
fn workers_with_nothing_to_do_run_children_too() {
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let _watchdog = Watchdog::new(100, format!("children on two workers of the {kind} engine"));
        let engine = Engine::builder().kind(kind).cpu_workers(2).waiters_help(false).build().unwrap();
        engine.prepare().unwrap();
        for _ in 0..20 {
            let own = engine.clone();
            let result = engine.op("outer").compute(move |_| {
                let meet = Barrier::new(2);
                let one = || _ = meet.wait();
                own.scope(|s| {
                    // The other worker may be busy for a moment with what is left of the last
                    // round: each push asks it again.
                    s.op("one").push(move |_| one())?;
                    s.op("two").push(move |_| one())
                })
            });
            match result.unwrap().wait().unwrap() {
                Ok(()) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// A thread that has nothing left of its own scope helps where its children have opened others.
#[test]
fn a_thread_that_waits_helps_its_descendants() {
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(2).waiters_help(false).build().unwrap();
        engine.prepare().unwrap();
        let threads = Arc::new(Mutex::new(HashSet::new()));
        let theirs = Arc::clone(&threads);
        inside(&engine, move |engine| {
            let meet = Barrier::new(2);
            engine.scope(|s| {
                let (meet, threads) = (&meet, &theirs);
                s.op("soon over").push(move |_| _ = meet.wait())?;
                s.op("opens another").push(move |_| {
                    meet.wait();
                    engine.scope(|s| {
                        (0..100).try_for_each(|_| {
                            s.op("descendant").push(move |_| {
                                threads.lock().unwrap().insert(std::thread::current().id());
                                std::thread::sleep(Duration::from_millis(1));
                            })
                        })
                    })
                })
            })
        })
        .unwrap();
        assert_eq!(threads.lock().unwrap().len(), 2, "one thread of two has slept on the {kind} engine");
    }
}

/// It would do harm: such an operation may be one that waits for what waits for the first.
#[test]
fn a_thread_that_waits_inside_an_operation_runs_no_strangers() {
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(2).waiters_help(false).build().unwrap();
        engine.prepare().unwrap();
        let (gate, ran) = (Gate::new(), Arc::new(AtomicUsize::new(0)));
        let (own, inner) = (engine.clone(), gate.clone());
        let outer = engine.op("outer").compute(move |_| {
            let (meet, here) = (Barrier::new(2), std::thread::current().id());
            let (meet, inner) = (&meet, &inner);
            own.scope(|s| {
                (0..2).try_for_each(|_| {
                    s.op("held").push(move |_| {
                        meet.wait();
                        // The thread that joins is the one that waits.
                        if std::thread::current().id() != here {
                            inner.pass();
                        }
                    })
                })
            })
        });
        let outer = outer.unwrap();
        gate.wait_for_someone();
        (0..10).for_each(|_| engine.op("stranger").push(counting(&ran)).unwrap());
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(ran.load(SeqCst), 0, "one worker waits and the other is in a child, on the {kind} engine");
        gate.open();
        outer.wait().unwrap().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 10);
    }
}

#[test]
fn children_are_in_order_on_parts_of_what_the_operation_was_lent() {
    on_every_engine(|engine| {
        let cells = engine.value((0..64_u64).collect::<Vec<_>>());
        let own = engine.clone();
        let body = move |cells: &mut Vec<u64>| {
            own.scope(|s| {
                let (left, right) = cells.split_at_mut(32);
                let (left, right) = (s.part(left), s.part(right));
                for round in 0..20 {
                    s.op("left").run(Write(&left), |left| left.iter_mut().for_each(|cell| *cell = *cell * 3 + 1))?;
                    s.op("right").run((&left, Write(&right)), move |(left, right)| {
                        right.iter_mut().zip(left).for_each(|(to, from)| *to = to.wrapping_mul(round) + from);
                    })?;
                }
                Ok(())
            })
        };
        engine.op("outer").run(Write(&cells), body).unwrap();
        let mut expected: Vec<u64> = (0..64).collect();
        for round in 0..20 {
            let (left, right) = expected.split_at_mut(32);
            left.iter_mut().for_each(|cell| *cell = *cell * 3 + 1);
            right.iter_mut().zip(left).for_each(|(to, from)| *to = to.wrapping_mul(round) + *from);
        }
        assert_eq!(*cells.read().unwrap(), expected);
    });
}

#[test]
fn errors_of_children_are_the_scope_s_and_panics_of_the_body_are_the_operation_s() {
    on_every_engine(|engine| {
        let (ran, engine) = (Arc::new(AtomicUsize::new(0)), &engine);
        let count = Arc::clone(&ran);
        let outcome = inside(engine, move |engine| {
            engine.scope(|s| {
                s.op("fails").push(|_| Err::<(), _>("in a child"))?;
                s.op("well").push(|_| _ = count.fetch_add(1, SeqCst))?;
                s.op("panics").push(|_| panic!("in another"))
            })
        });
        assert_says(&outcome.unwrap_err(), ErrorKind::OperationFailed, &["'fails'", "in a child"]);
        engine.wait_for_all().expect("both are taken");
        let (own, count) = (engine.clone(), Arc::clone(&ran));
        engine
            .op("outer")
            .push(move |_| {
                own.scope(|s| {
                    s.op("well").push(|_| _ = count.fetch_add(1, SeqCst))?;
                    if count.load(SeqCst) < 100 {
                        panic!("in the body");
                    }
                    Ok(())
                })
            })
            .unwrap();
        let error = engine.wait_for_all().unwrap_err();
        assert_says(&error, ErrorKind::OperationPanicked, &["outer", "in the body"]);
        assert_eq!(ran.load(SeqCst), 2);
    });
}

#[test]
fn behind_a_failed_child_others_are_skipped() {
    on_every_engine(|engine| {
        let outcome = inside(&engine, |engine| {
            let (mut x, ran) = (0, AtomicUsize::new(0));
            let outcome = engine.scope(|s| {
                let x = s.part(&mut x);
                s.op("fails").run(Write(&x), |_| Err::<(), _>("no further"))?;
                s.op("skipped").run(Write(&x), |_| _ = ran.fetch_add(1, SeqCst))
            });
            (outcome, x, ran.into_inner())
        });
        assert_failed(outcome.0, "no further");
        assert_eq!((outcome.1, outcome.2), (0, 0));
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn children_are_under_no_bound_and_are_counted_out() {
    let bounded = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).bound(2).build().unwrap();
    for _ in 0..3 {
        let total = inside(&bounded, |engine| {
            let mut numbers = [1; 30];
            engine.scope(|s| {
                let parts: Vec<_> = numbers.chunks_mut(10).map(|part| s.part(part)).collect();
                for part in &parts {
                    (0..5).try_for_each(|_| s.op("on a part").run(Write(part), |part| part[0] += 1))?;
                    (0..5).try_for_each(|_| s.op("free").push(|_| ()))?;
                }
                Ok(())
            })?;
            Ok::<i32, Error>(numbers.iter().sum())
        });
        assert_eq!(total.unwrap(), 45);
        bounded.wait_for_all().unwrap();
    }
    (0..10).for_each(|_| bounded.op("goes on").push(nothing).unwrap());
    bounded.wait_for_all().unwrap();
}

#[test]
fn children_are_profiled_like_other_operations() {
    on_every_engine(|engine| {
        engine.start_profiling();
        inside(&engine, |engine| {
            let mut x = 0;
            engine.scope(|s| {
                let x = s.part(&mut x);
                s.op("free").push(|_| ())?;
                s.op("on a part").run(Write(&x), |x| *x += 1)
            })
        })
        .unwrap();
        engine.wait_for_all().unwrap();
        let profile = engine.profile();
        for name in ["free", "on a part"] {
            let event = profile.events().iter().find(|event| event.name == name).expect("it was recorded");
            assert!(event.push <= event.ready && event.ready <= event.start);
        }
    });
}

/// In a process of its own: a stack that overflows ends it.
#[test]
#[cfg(not(miri))]
fn scopes_inside_each_other_fit_the_stack_and_one_too_many_is_an_error() {
    println!("{}", run_child_well(&mut child("deep scopes")));
}

pub fn deep() {
    fn nest(engine: &Engine, level: usize) -> Result<usize, Error> {
        let mut deepest = level;
        engine.scope(|s| {
            s.op("deeper").push(|_| match nest(engine, level + 1) {
                Ok(deeper) => {
                    deepest = deeper;
                    Ok(())
                }
                Err(error) if error.kind() == ErrorKind::EngineFull => {
                    assert!(error.to_string().contains("128 scopes"), "{error}");
                    Ok(())
                }
                Err(error) => Err(error),
            })
        })?;
        Ok(deepest)
    }
    let _watchdog = Watchdog::new(100, "scopes inside each other");
    for builder in builders() {
        let engine = builder.waiters_help(false).build().unwrap();
        let workers = engine.settings().cpu_workers;
        let own = engine.clone();
        let body = move || inside(&own, |engine| nest(engine, 1)).unwrap();
        let deepest = std::thread::Builder::new().stack_size(2 << 20).spawn(body).unwrap().join().unwrap();
        // Each thread has its own count, and a child may be another thread's. The caller may run
        // the operation.
        let most = if engine.kind() == Kind::Naive { 128 } else { 128 * (workers + 1) };
        assert!((128..=most).contains(&deepest), "{deepest} on {engine:?} with {workers}");
        engine.wait_for_all().unwrap();
    }
}

#[test]
#[cfg(all(unix, not(miri)))]
fn a_fork_inside_a_scope_goes_on_in_the_parent_and_ends_in_the_child() {
    println!("{}", run_child_well(&mut child("fork in a scope")));
}

#[cfg(unix)]
pub fn fork() {
    let _watchdog = Watchdog::new(100, "a fork in a scope");
    let patience = Duration::from_millis(50);
    let builder = Engine::builder().kind(Kind::PerDevice).cpu_workers(2).waiters_help(false);
    let engine = builder.fork_patience(patience).build().unwrap();
    engine.prepare().unwrap();
    let outcome = inside(&engine, |engine| {
        let (meet, over, here) = (Barrier::new(2), AtomicUsize::new(0), std::thread::current().id());
        let (meet, over) = (&meet, &over);
        let parent = std::process::id();
        let outcome = engine.scope(|s| {
            (0..2).try_for_each(|_| {
                s.op("meets").push(move |_| {
                    meet.wait();
                    if std::thread::current().id() == here {
                        fork_and_leave();
                        over.fetch_add(1, SeqCst);
                    } else {
                        eventually("the other has forked", || over.load(SeqCst) > 0);
                    }
                })
            })
        });
        if std::process::id() != parent {
            // The other child's thread is not here.
            let ends = outcome.is_err_and(|error| error.kind() == ErrorKind::Stopped);
            // SAFETY: ends the process, without the parent's destructors.
            unsafe { libc::_exit(i32::from(!ends)) };
        }
        outcome
    });
    outcome.unwrap();
    expect_good_end();
}

/// Waits for the child of [`fork_and_leave`], which ends with success.
#[cfg(unix)]
pub fn expect_good_end() {
    let mut status = 0;
    // SAFETY: waits for the only child; `status` is ours.
    let waited = unsafe { libc::wait(&mut status) };
    assert!(waited > 0 && status == 0, "the scope does not end well in the child: {status}");
}

/// Forks, and goes on in both processes.
#[cfg(unix)]
pub fn fork_and_leave() {
    // SAFETY: the child runs on a copy of this thread, and ends the process soon.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "the system refused to fork");
    if pid == 0 {
        // SAFETY: it has no memory to be about.
        unsafe { libc::alarm(60) };
    }
}

#[cfg(not(unix))]
pub fn fork() {}

/// Two threads wait, one further out than the other. The end of a child makes the next one ready,
/// which ends both scopes at once: it asks the thread further out to help, which is gone by then.
/// On one core the thread that asks is interrupted there in one round of ten.
#[test]
fn who_is_asked_to_help_is_still_there() {
    let _watchdog = Watchdog::new(120, "a child that is asked for too late");
    let until = |flag: &AtomicBool| {
        while !flag.load(SeqCst) {
            std::thread::yield_now();
        }
    };
    let on_one_core = move || {
        if let Some(core) = core_affinity::get_core_ids().and_then(|cores| cores.first().copied()) {
            core_affinity::set_for_current(core);
        }
        // An engine that has lost an operation does not end, so a failure leaves it.
        let engine = ManuallyDrop::new(Engine::builder().cpu_workers(4).build().unwrap());
        for _ in 0..100 {
            inside(&engine, move |engine| {
                let (waits, runs, joins) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
                let (waits, runs, joins) = (&waits, &runs, &joins);
                engine.scope(|outer| {
                    outer.op("inner").push(move |_| {
                        waits.store(true, SeqCst);
                        let mut count = 0;
                        engine.scope(|s| {
                            let part = s.part(&mut count);
                            s.op("first").run(Write(&part), move |count| {
                                runs.store(true, SeqCst);
                                until(joins);
                                // The two that join fall asleep.
                                std::thread::sleep(Duration::from_micros(300));
                                *count += 1;
                            })?;
                            s.op("second").run(Write(&part), |count| *count += 1)?;
                            until(runs);
                            joins.store(true, SeqCst);
                            Ok(())
                        })?;
                        assert_eq!(count, 2);
                        Ok::<(), Error>(())
                    })?;
                    until(waits);
                    Ok(())
                })
            })
            .unwrap();
            engine.wait_for_all_timeout(Duration::from_secs(10)).expect("an operation is lost");
        }
        drop(ManuallyDrop::into_inner(engine));
    };
    std::thread::spawn(on_one_core).join().unwrap();
}
