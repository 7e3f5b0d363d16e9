//! Pipelines: what was captured is pushed operation by operation, so replays overlap; and instances
//! of a graph, whose replays run at once.

use crate::common::*;
use crate::helpers::*;
use crate::long::Meeting;
use seriatim::gpu::RawStream;
use seriatim::{Context, Data, Engine, Error, ErrorKind, IdlePolicy, Kind, Property, WhenFull};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::time::Duration;

/// Two operations with a variable each: that of the first replay's end waits until that of the
/// second replay's beginning runs.
#[test]
fn a_replay_begins_before_the_one_before_it_has_ended() {
    let _watchdog = Watchdog::new(90, "a replay behind another one");
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(2).waiters_help(false).build().unwrap();
        let [x, y] = variables(&engine);
        let begun = Arc::new(AtomicUsize::new(0));
        let (first, last) = (Arc::clone(&begun), Arc::clone(&begun));
        let ends = AtomicUsize::new(0);
        let (mut steps, ()) = engine
            .capture_pipeline(|c| {
                c.op("begins").write(x).push(move |_| _ = first.fetch_add(1, SeqCst))?;
                c.op("ends").write(y).push(move |_| {
                    let number = ends.fetch_add(1, SeqCst) + 1;
                    // The last replay has none behind it.
                    while number < 20 && last.load(SeqCst) <= number {
                        std::thread::yield_now();
                    }
                })
            })
            .unwrap();
        (0..20).for_each(|_| steps.replay().unwrap());
        engine.wait_for_all().unwrap();
        assert_eq!((begun.load(SeqCst), versions(&engine, [x, y])), (20, [20, 20]));
    }
}

/// Its closure changes what it owns, and nothing that others could wait for.
#[test]
fn an_operation_that_changes_nothing_is_called_by_one_thread_at_a_time() {
    for idle in [IdlePolicy::SpinThenPark, IdlePolicy::Park] {
        let engine = Engine::builder().cpu_workers(3).idle(idle).build().unwrap();
        let x = engine.new_variable();
        let (inside, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (is_inside, counted) = (Arc::clone(&inside), Arc::clone(&count));
        let mut calls = 0;
        let (mut steps, ()) = engine
            .capture_pipeline(|c| {
                c.op("reads").read(x).push(move |_| {
                    assert!(!is_inside.swap(true, SeqCst), "two threads are in one closure");
                    calls += 1;
                    std::thread::yield_now();
                    counted.store(calls, SeqCst);
                    is_inside.store(false, SeqCst);
                })
            })
            .unwrap();
        (0..1_000).for_each(|_| steps.replay().unwrap());
        engine.wait_for_all().unwrap();
        assert_eq!((count.load(SeqCst), inside.load(SeqCst)), (1_000, false));
    }
}

/// The completion may be used on another thread before the call has returned: the next call comes
/// behind both.
#[test]
fn an_asynchronous_operation_ends_behind_its_call() {
    on_every_engine(|engine| {
        let x = Data::new(&engine, 0);
        let inside = Arc::new(AtomicBool::new(false));
        let (of, is_inside) = (x.clone(), Arc::clone(&inside));
        let (mut steps, ()) = engine
            .capture_pipeline(|c| {
                c.op("asynchronous").write(&x).push_async(move |_, completion| {
                    assert!(!is_inside.swap(true, SeqCst), "two threads are in one closure");
                    *of.write().unwrap() += 1;
                    let ends = std::thread::spawn(|| completion.complete());
                    if of.read().is_ok_and(|of| *of % 2 == 0) {
                        ends.join().unwrap();
                    }
                    is_inside.store(false, SeqCst);
                })
            })
            .unwrap();
        (0..50).for_each(|_| steps.replay().unwrap());
        engine.wait_for_all().unwrap();
        assert_eq!(*x.read().unwrap(), 50);
        assert_eq!(engine.version(x.variable()).unwrap(), 50);
    });
}

#[test]
fn what_an_asynchronous_operation_says_is_its_outcome() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let mut call = 0;
        let (mut steps, ()) = engine
            .capture_pipeline(|c| {
                c.op("asynchronous").write(x).push_async(move |_, completion| {
                    call += 1;
                    match call {
                        1 => completion.fail("no route"),
                        2 => drop(completion),
                        3 => panic!("with its completion"),
                        4 => {
                            completion.complete();
                            panic!("behind its end")
                        }
                        // SAFETY: the stream is never looked at, since there is no device.
                        5 => unsafe { completion.complete_after(RawStream::new(std::ptr::null_mut())) },
                        _ => completion.complete(),
                    }
                })
            })
            .unwrap();
        let mut outcome = || {
            steps.replay().unwrap();
            engine.wait_for_all()
        };
        assert_says(&outcome().unwrap_err(), ErrorKind::OperationFailed, &["no route"]);
        assert_says(&outcome().unwrap_err(), ErrorKind::CompletionDropped, &["dropped"]);
        assert_says(&outcome().unwrap_err(), ErrorKind::OperationPanicked, &["with its completion"]);
        assert_says(&outcome().unwrap_err(), ErrorKind::OperationPanicked, &["behind its end"]);
        assert_says(&outcome().unwrap_err(), ErrorKind::NoStream, &["no streams"]);
        outcome().unwrap();
    });
}

#[test]
fn a_failure_skips_what_depends_on_it_until_it_is_taken() {
    on_every_engine(|engine| {
        let [x, y, z] = variables(&engine);
        let log = Log::default();
        let mut failed = false;
        let (noted, seen) = (log.clone(), log.clone());
        let (mut steps, ()) = engine
            .capture_pipeline(|c| {
                c.op("fails once").write(x).push(move |_| {
                    noted.add("first");
                    if std::mem::replace(&mut failed, true) {
                        Ok(())
                    } else {
                        Err("refused")
                    }
                })?;
                c.op("depends").read(x).write(y).push(log.note())?;
                c.op("another").write(z).push(log.note())?;
                let mut looks = 0;
                c.op("looks on").read(z).push(move |_| {
                    looks += 1;
                    seen.add("looks on");
                    if looks == 3 {
                        Err("seen enough")
                    } else {
                        Ok(())
                    }
                })
            })
            .unwrap();
        let mut replay = |times| {
            (0..times).for_each(|_| steps.replay().unwrap());
            let outcome = engine.wait_for_all();
            let mut seen = log.take();
            seen.sort_unstable();
            (outcome, seen)
        };
        let (outcome, seen) = replay(2);
        assert_says(&outcome.unwrap_err(), ErrorKind::OperationFailed, &["fails once", "refused"]);
        assert_eq!(seen, ["another", "another", "first", "looks on", "looks on"]);
        // Now the one that changes nothing fails, and is skipped.
        let (outcome, seen) = replay(2);
        assert_says(&outcome.unwrap_err(), ErrorKind::OperationFailed, &["looks on", "seen enough"]);
        assert_eq!(seen, ["another", "another", "depends", "depends", "first", "first", "looks on"]);
        let (outcome, seen) = replay(1);
        outcome.unwrap();
        assert_eq!(seen, ["another", "depends", "first", "looks on"]);
        assert_eq!(versions(&engine, [x, y, z]), [5, 5, 5]);
    });
}

#[test]
fn parameters_are_replaced_between_replays_that_overlap() {
    on_every_engine(|engine| {
        let sums: Vec<_> = (0..3).map(|_| Data::new(&engine, Vec::new())).collect();
        let (mut steps, parameter) = engine
            .capture_pipeline(|c| {
                let parameter = c.parameter(0);
                for sum in &sums {
                    let (to, from) = (sum.clone(), parameter.clone());
                    c.op("append").write(sum).push(move |run| {
                        to.write()?.push(*from.get(run)?);
                        Ok::<(), Error>(())
                    })?;
                }
                let (to, from) = (sums[0].clone(), parameter.clone());
                c.op("asynchronous").write(&sums[0]).push_async(move |run, completion| {
                    to.write().unwrap().push(-*from.get(run).unwrap());
                    completion.complete();
                })?;
                Ok(parameter)
            })
            .unwrap();
        for value in 1..=20 {
            parameter.set(value).unwrap();
            steps.replay().unwrap();
        }
        engine.wait_for_all().unwrap();
        assert_eq!(*sums[1].read().unwrap(), (1..=20).collect::<Vec<i32>>());
        assert_eq!(*sums[0].read().unwrap(), (1..=20).flat_map(|value| [value, -value]).collect::<Vec<i32>>());
        drop(steps);
        assert_says(&parameter.set(1).unwrap_err(), ErrorKind::VariableDeleted, &["deleted"]);
    });
}

#[test]
fn what_cannot_be_pushed_is_refused() {
    let _watchdog = Watchdog::new(90, "a pipeline that is refused");
    let engine = Engine::builder().cpu_workers(1).bound(2).when_full(WhenFull::WouldBlock).build().unwrap();
    let [x, y] = variables(&engine);
    let private = engine.capture_pipeline(|c| {
        let private = c.private_variable();
        c.op("private").write(private).push(|_| ())
    });
    assert_says(&private.unwrap_err(), ErrorKind::PrivateVariable, &["a pipeline has no private variables"]);
    let gone = engine.new_variable();
    let deleted = engine.capture_pipeline(|c| {
        c.op("deleted").write(gone).push(|_| ())?;
        engine.delete_variable(|_| (), Context::cpu(0), gone)
    });
    assert_says(&deleted.unwrap_err(), ErrorKind::VariableDeleted, &["deleted"]);
    engine.wait_for_all().unwrap();

    let (mut steps, ()) = engine
        .capture_pipeline(|c| {
            c.name("three steps");
            c.op("first").write(x).push(|_| ())?;
            c.op("second").write(y).push(|_| ())?;
            c.op("third").write(x).push(|_| ())
        })
        .unwrap();
    assert_eq!((steps.len(), steps.is_empty()), (3, false));
    assert!(format!("{steps:?}").contains("three steps"));
    let held = hold(&engine, &[], &[x]);
    let error = steps.replay().unwrap_err();
    assert_says(&error, ErrorKind::EngineFull, &["three steps", "operation 2 of 3 was refused"]);
    assert!(std::error::Error::source(&error).is_some(), "it keeps the push's error");
    held.complete();
    engine.wait_for_all().unwrap();
    assert_eq!(engine.version(x).unwrap(), 2, "the first was pushed");
    engine.stop().unwrap();
    assert_says(&steps.replay().unwrap_err(), ErrorKind::Stopped, &["stopped"]);
    engine.start().unwrap();
    drop(engine);
    assert_says(&steps.replay().unwrap_err(), ErrorKind::Stopped, &["stopped"]);
}

/// The last of the operations in flight drops them, also if the handle is gone long before.
#[test]
fn closures_go_with_the_last_operation() {
    on_every_engine(|engine| {
        let census = Census::default();
        let x = engine.new_variable();
        let (start, started) = handing_out();
        let alive = [census.one(), census.one()];
        let [first, second] = alive;
        let mut start = start;
        let (mut steps, ()) = engine
            .capture_pipeline(|c| {
                c.op("asynchronous").write(x).push_async(move |run, completion| {
                    first.touch();
                    start(run, completion);
                })?;
                c.op("behind").read(x).property(Property::Normal).push(move |_| second.touch())
            })
            .unwrap();
        steps.replay().unwrap();
        let completion = started();
        drop(steps);
        assert_eq!(census.count(), 2, "both are still to be called or to end");
        completion.complete();
        engine.wait_for_all().unwrap();
        eventually("the closures are dropped", || census.count() == 0);
    });
}

#[test]
fn operators_and_copies_of_handles_can_be_captured() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let log = Log::default();
        let noted = log.clone();
        let step = engine.op("operator").write(x).operator(move |run| noted.add(run.name())).unwrap();
        let (mut steps, ()) = engine
            .capture_pipeline(|c| {
                c.push(&step, Context::cpu(0), 1)?;
                c.op("closure").write(x).push(log.note())
            })
            .unwrap();
        drop(step);
        (0..2).for_each(|_| steps.replay().unwrap());
        engine.wait_for_all().unwrap();
        assert_eq!(log.take(), ["operator", "closure", "operator", "closure"]);
    });
}

/// The operation of each waits for that of the other.
#[test]
fn instances_run_at_once() {
    let _watchdog = Watchdog::new(90, "two instances of a graph");
    let engine = Engine::builder().cpu_workers(2).waiters_help(false).build().unwrap();
    let shared = engine.new_variable();
    let (meeting, ran) = (Arc::new(Meeting::default()), Arc::new(AtomicUsize::new(0)));
    let record = |c: &mut seriatim::Capture, _| {
        let (meeting, ran) = (Arc::clone(&meeting), Arc::clone(&ran));
        let private = c.private_variable();
        c.op("long").read(shared).write(private).push(move |_| {
            std::thread::sleep(Duration::from_millis(2));
            meeting.wait_for(2);
            ran.fetch_add(1, SeqCst);
        })
    };
    let (mut instances, _) = engine.capture_instances(2, record).unwrap();
    for _ in 0..10 {
        assert_eq!([instances.replay().unwrap(), instances.replay().unwrap()], [0, 1]);
        engine.wait_for_all().unwrap();
    }
    assert_eq!((meeting.alone(), ran.load(SeqCst)), (0, 20));
    assert!(instances.graph(1).is_some() && instances.graph(2).is_none());
    assert!(instances.len() == 2 && !instances.is_empty());
    assert_says(
        &engine.capture_instances(0, |_, _| Ok(())).unwrap_err(),
        ErrorKind::BadSetting,
        &["1 instance or more"],
    );
    // One that is refused is next again.
    engine.stop().unwrap();
    assert!(instances.replay().is_err());
    engine.start().unwrap();
    assert_eq!([instances.replay().unwrap(), instances.replay().unwrap()], [0, 1]);
}
