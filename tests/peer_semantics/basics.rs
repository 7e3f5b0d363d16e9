//! Start and stop, readers and writers, waits, versions, errors and bulks.

use crate::common::*;
use seriatim::{Capture, Context, ErrorKind, Kind, Property, Variable};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[test]
fn an_engine_stops_and_starts_again() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        for round in 1..=3 {
            engine.start().unwrap();
            engine.op("step").writes([x]).push(nothing).unwrap();
            engine.stop().unwrap();
            assert_eq!(engine.version(x).unwrap(), round, "stopping runs what was pushed");
            engine.start().unwrap();
        }
        engine.op("step").writes([x]).push(nothing).unwrap();
        engine.wait_for_var(x).unwrap();
        assert_eq!(engine.version(x).unwrap(), 4);
    });
}

#[test]
fn ten_readers_run_together() {
    with_every_builder(|builder| {
        // A waiter that helps would be one more worker.
        let engine = builder.waiters_help(false).build().unwrap();
        let x = engine.new_variable();
        let (inside, most) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
        let readers = Arc::new(AtomicUsize::new(0));
        let alone = engine.kind() == Kind::Naive || engine.settings().cpu_workers == 1;
        for _ in 0..10 {
            let (inside, most, readers) = (Arc::clone(&inside), Arc::clone(&most), Arc::clone(&readers));
            let read = move |_: &seriatim::RunContext<'_>| {
                inside.fetch_add(1, SeqCst);
                // The other worker may be without its core.
                let (began, least) = (Instant::now(), Duration::from_millis(20));
                let waits = || !alone && most.load(SeqCst) < 2 && began.elapsed() < 500 * least;
                while began.elapsed() < least || waits() {
                    most.fetch_max(inside.load(SeqCst), SeqCst);
                    std::thread::yield_now();
                }
                inside.fetch_sub(1, SeqCst);
                readers.fetch_add(1, SeqCst);
            };
            engine.op("read").reads([x]).push(read).unwrap();
        }
        engine.wait_for_all().unwrap();
        assert_eq!(readers.load(SeqCst), 10);
        let most = most.load(SeqCst);
        assert!(if alone { most == 1 } else { most > 1 && most <= engine.settings().cpu_workers as i64 }, "{most}");
    });
}

#[test]
fn ten_writers_run_one_after_another() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let inside = Arc::new(AtomicBool::new(false));
        let order = Arc::new(Mutex::new(Vec::new()));
        for number in 0..10 {
            let (inside, order) = (Arc::clone(&inside), Arc::clone(&order));
            let write = move |_: &seriatim::RunContext<'_>| {
                assert!(!inside.swap(true, SeqCst), "two writers at once");
                spin(Duration::from_micros(200));
                order.lock().unwrap().push(number);
                inside.store(false, SeqCst);
            };
            engine.op("write").writes([x]).push(write).unwrap();
        }
        engine.wait_for_all().unwrap();
        assert_eq!(*order.lock().unwrap(), (0..10).collect::<Vec<_>>());
    });
}

#[test]
fn a_wait_on_a_fresh_variable_returns() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        engine.wait_for_var(x).unwrap();
        engine.wait_for_var_timeout(x, Duration::ZERO).unwrap();
        engine.wait_for_all().unwrap();
        engine.wait_for_all_timeout(Duration::ZERO).unwrap();
        assert_eq!(engine.version(x).unwrap(), 0, "a wait is not a write");
    });
}

#[test]
fn a_copy_operation_is_waited_for() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        for property in [Property::CopyToGpu, Property::CopyFromGpu] {
            let copied = Arc::new(AtomicBool::new(false));
            let seen = Arc::clone(&copied);
            let copy = move |_: &seriatim::RunContext<'_>| {
                std::thread::sleep(Duration::from_millis(5));
                copied.store(true, Relaxed);
            };
            engine.push_sync(copy, Context::cpu(0), &[], &[x], property, 0, "copy").unwrap();
            engine.wait_for_var(x).unwrap();
            assert!(seen.load(Relaxed));
        }
    });
}

#[test]
fn a_wait_is_not_blocked_by_a_reader() {
    let _watchdog = Watchdog::new(120, "a wait beside a reader");
    on_every_engine(|engine| {
        let x = engine.new_variable();
        engine.op("write").writes([x]).push(nothing).unwrap();
        let reader = hold(&engine, &[x], &[]);
        engine.wait_for_var(x).unwrap();
        assert_eq!(engine.version(x).unwrap(), 1);
        // A write behind the reader, however, is waited for.
        engine.op("write").writes([x]).push(nothing).unwrap();
        let error = engine.wait_for_var_timeout(x, Duration::from_millis(1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        reader.complete();
        engine.wait_for_var(x).unwrap();
        assert_eq!(engine.version(x).unwrap(), 2);
    });
}

#[test]
fn a_wait_covers_only_its_own_variable() {
    let _watchdog = Watchdog::new(120, "a wait beside a stuck variable");
    on_every_engine(|engine| {
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let stuck = hold(&engine, &[], &[y]);
        engine.op("write").writes([x]).push(nothing).unwrap();
        engine.wait_for_var(x).unwrap();
        stuck.complete();
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_version_counts_writes_and_no_reads() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        (0..10).for_each(|_| engine.op("read").reads([x]).push(nothing).unwrap());
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(x).unwrap(), 0);
        (0..10).for_each(|_| engine.op("write").writes([x]).push(nothing).unwrap());
        engine.wait_for_var(x).unwrap();
        assert_eq!(engine.version(x).unwrap(), 10);
    });
}

#[test]
fn a_variable_listed_twice_counts_once_and_a_write_swallows_reads() {
    let _watchdog = Watchdog::new(120, "an operation that lists a variable twice");
    on_every_engine(|engine| {
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        // The original deadlocks on itself in the second and third case.
        engine.op("twice read").reads([x, x]).writes([y]).push(nothing).unwrap();
        engine.op("twice written").writes([x, y, x]).push(nothing).unwrap();
        engine.op("both").reads([x]).writes([x]).reads([x]).push(nothing).unwrap();
        engine.push_sync(|_| (), Context::cpu(0), &[x, y, x], &[x, x], Property::Normal, 0, "long form").unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!([x, y].map(|v| engine.version(v).unwrap()), [3, 2]);
    });
}

#[test]
fn an_error_comes_out_of_the_wait_and_repeated_waits_succeed() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        for round in 1..=3 {
            engine.op("fail").writes([x]).push(|_| Err("out of range")).unwrap();
            assert_failed(engine.wait_for_var(x), "out of range");
            engine.wait_for_var(x).unwrap();
            engine.wait_for_all().unwrap();
            assert_eq!(engine.version(x).unwrap(), round, "a failed write steps the version");
        }
    });
}

#[test]
fn a_variable_can_be_used_after_a_failure() {
    on_every_engine(|engine| {
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let ran = Arc::new(AtomicUsize::new(0));
        let push = |reads: &[Variable], writes: &[Variable]| {
            let ran = Arc::clone(&ran);
            let count = move |_: &seriatim::RunContext<'_>| {
                ran.fetch_add(1, SeqCst);
            };
            engine.push_sync(count, Context::cpu(0), reads, writes, Property::Normal, 0, "use").unwrap();
        };
        engine.op("fail").writes([x]).push(|_| Err("broken")).unwrap();
        push(&[x], &[y]); // reads what failed
        push(&[], &[x]); // overwrites it
        eventually("skipped operations step versions", || [x, y].map(|v| engine.version(v).unwrap()) == [2, 1]);
        assert_eq!(ran.load(SeqCst), 0, "both are skipped");
        assert_failed(engine.wait_for_var(y), "broken");
        push(&[x], &[y]);
        push(&[], &[x]);
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 2, "the error was taken, so both run");
    });
}

#[test]
fn an_error_on_one_of_several_changed_variables_marks_all_and_is_taken_once() {
    on_every_engine(|engine| {
        let variables: Vec<Variable> = (0..5).map(|_| engine.new_variable()).collect();
        for taker in &variables {
            engine.op("fail").writes(variables.iter().copied()).push(|_| Err("one of several")).unwrap();
            assert_failed(engine.wait_for_var(*taker), "one of several");
            variables.iter().for_each(|other| engine.wait_for_var(*other).unwrap());
        }
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn several_waits_for_everything_in_a_row() {
    on_every_engine(|engine| {
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        for _ in 0..3 {
            engine.op("first").writes([x]).push(|_| Err("the first")).unwrap();
            engine.op("second").writes([y]).push(|_| Err("the second")).unwrap();
            assert_failed(engine.wait_for_all(), "the first");
            engine.wait_for_all().unwrap();
            engine.wait_for_all().unwrap();
            engine.wait_for_var(y).unwrap();
        }
    });
}

/// What the original merges by `set_bulk_size`, a graph that is captured and replayed once does
/// here.
#[test]
fn a_short_lived_graph_takes_its_turn_as_one_operation_and_steps_each_version() {
    on_every_engine(|engine| {
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |number: u32| {
            let order = Arc::clone(&order);
            move |_: &seriatim::RunContext<'_>| order.lock().unwrap().push(number)
        };
        engine.op("before").writes([x]).push(note(1)).unwrap();
        let record = |c: &mut Capture| {
            c.op("in it").writes([x]).push(note(2))?;
            c.op("in it").reads([x]).writes([y]).push(note(3))
        };
        engine.capture(record).unwrap().0.replay().unwrap();
        engine.op("behind").reads([x]).writes([y]).push(note(4)).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(*order.lock().unwrap(), [1, 2, 3, 4]);
        assert_eq!([x, y].map(|v| engine.version(v).unwrap()), [2, 2]);
    });
}

#[test]
fn a_failure_in_a_short_lived_graph_skips_what_depends_on_it() {
    on_every_engine(|engine| {
        let [x, y, z] = [(); 3].map(|()| engine.new_variable());
        let ran = Arc::new(AtomicUsize::new(0));
        let record = |c: &mut Capture| {
            for (writes, fails) in [([x, x], false), ([x, y], true), ([y, z], false)] {
                let ran = Arc::clone(&ran);
                c.op("member").writes(writes).push(move |_| {
                    ran.fetch_add(1, SeqCst);
                    if fails {
                        Err("the second")
                    } else {
                        Ok(())
                    }
                })?;
            }
            Ok(())
        };
        engine.capture(record).unwrap().0.replay().unwrap();
        assert_failed(engine.wait_for_var(z), "the second");
        assert_eq!(ran.load(SeqCst), 2);
        assert_eq!([x, y, z].map(|v| engine.version(v).unwrap()), [2, 2, 1]);
        [x, y].into_iter().for_each(|v| engine.wait_for_var(v).unwrap());
    });
}
