//! Operations with a result.

use crate::common::*;
use crate::executor::*;
use seriatim::{Context, Data, Engine, Error, ErrorKind, Pending};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

#[test]
fn a_result_comes_by_a_wait_by_a_look_and_by_an_await() {
    on_every_engine(|engine| {
        let x = Data::new(&engine, 1_u64);
        for round in 0..200_u64 {
            let to = x.clone();
            engine.op("step").write(&x).push(move |_| to.write().map(|mut x| *x += 1)).unwrap();
            let from = x.clone();
            let read = engine.op("read").read(&x).try_compute(move |_| from.read().map(|x| *x));
            let mut read: Pending<u64> = read.unwrap();
            let value = match round % 4 {
                0 => read.wait(),
                1 => block_on(read),
                2 => read.wait_timeout(Duration::from_secs(60)),
                _ => {
                    engine.wait_for_all().unwrap();
                    assert!(read.is_ready());
                    read.try_take().expect("it has run")
                }
            };
            assert_eq!(value.unwrap(), round + 2);
        }
    });
}

#[test]
fn a_result_is_handed_out_once_and_what_follows_does_not_panic() {
    on_every_engine(|engine| {
        let mut answer = engine.op("answer").compute(|_| 42).unwrap();
        assert_eq!(block_on(&mut answer).unwrap(), 42);
        assert!(answer.is_ready() && answer.try_take().is_none());
        assert!(matches!(poll(&mut answer, &Unparks::new()), Poll::Pending));
        let again = answer.wait_timeout(Duration::from_secs(60)).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::TimedOut);
        assert!(answer.wait().unwrap_err().to_string().contains("taken before"));
    });
}

#[test]
fn an_error_and_a_panic_arrive_and_count_as_taken() {
    with_every_builder(|builder| {
        let told = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&told);
        let engine = builder.on_error(move |_| _ = count.fetch_add(1, SeqCst)).build().unwrap();
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let parsed: Pending<u32> = engine.op("parse").write(x).try_compute(|_| "12a".parse::<u32>()).unwrap();
        let error = parsed.wait().unwrap_err();
        assert_says(&error, ErrorKind::OperationFailed, &["operation 'parse' failed: invalid digit"]);
        assert!(std::error::Error::source(&error).unwrap().is::<std::num::ParseIntError>());
        let panics = |_: &seriatim::RunContext<'_>| -> u8 { std::panic::resume_unwind(Box::new("no way")) };
        let error = block_on(engine.op("divide").write(y).compute(panics).unwrap()).unwrap_err();
        assert_says(&error, ErrorKind::OperationPanicked, &["operation 'divide' panicked: no way"]);
        for variable in [x, y] {
            engine.wait_for_var(variable).expect("it was taken");
        }
        engine.wait_for_all().expect("all were taken");
        assert_eq!([x, y].map(|variable| engine.version(variable).unwrap()), [1, 1]);
        drop(engine);
        assert_eq!(told.load(SeqCst), 0);
    });
}

#[test]
fn a_skipped_operation_has_the_error_of_the_one_that_failed() {
    on_every_engine(|engine| {
        let [x, y, z] = [(); 3].map(|()| engine.new_variable());
        let held = hold(&engine, &[], &[x]);
        engine.op("fails").write(x).push(|_| Err("on purpose")).unwrap();
        let first = engine.op("first").read(x).write(y).compute(|_| 1).unwrap();
        let second = engine.op("second").read(y).write(z).compute(|_| 2).unwrap();
        held.complete();
        assert_says(&second.wait().unwrap_err(), ErrorKind::OperationFailed, &["operation 'fails' failed"]);
        // It was taken, and is the result of the other one all the same.
        assert_says(&block_on(first).unwrap_err(), ErrorKind::OperationFailed, &["operation 'fails' failed"]);
        [x, y, z].into_iter().for_each(|variable| engine.wait_for_var(variable).unwrap());
        engine.wait_for_all().unwrap();
        // What comes later runs.
        assert_eq!(engine.op("third").write(z).compute(|_| 3).unwrap().wait().unwrap(), 3);
    });
}

#[test]
fn an_error_that_another_wait_has_told_is_the_result_all_the_same() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let failed = engine.op("fails").write(x).try_compute(|_| Err::<u8, _>("on purpose")).unwrap();
        assert_failed(engine.wait_for_var(x), "on purpose");
        assert_failed(failed.wait().map(drop), "on purpose");
    });
}

#[test]
fn a_dropped_result_leaves_its_error_to_waits_or_to_the_hook() {
    with_every_builder(|builder| {
        for drops_late in [false, true] {
            let told = Arc::new(Mutex::new(Vec::new()));
            let hook = Arc::clone(&told);
            let builder = builder.clone().on_error(move |error| hook.lock().unwrap().push(error.to_string()));
            let engine = builder.build().unwrap();
            let x = engine.new_variable();
            let fail = |text: &'static str| {
                let failed = engine.op("fails").write(x).try_compute(move |_| Err::<u8, _>(text)).unwrap();
                if drops_late {
                    settle(&engine);
                }
                drop(failed);
            };
            fail("for a wait");
            assert_failed(engine.wait_for_all(), "for a wait");
            fail("for the hook");
            let kept = engine.op("fails").write(x).compute(|_| 1).unwrap();
            drop(engine);
            assert_eq!(*told.lock().unwrap(), ["operation 'fails' failed: for the hook"]);
            // The engine is gone, and the result is there.
            assert_failed(kept.wait().map(drop), "for the hook");
        }
    });
}

/// Waits until nothing is in flight, and takes no error.
fn settle(engine: &Engine) {
    let ended = Arc::new(AtomicUsize::new(0));
    engine.op("last").property(seriatim::Property::NoSkip).push(counting(&ended)).unwrap();
    eventually("the last one runs", || ended.load(SeqCst) == 1);
    std::thread::sleep(Duration::from_millis(2));
}

#[test]
fn after_a_shutdown_there_is_no_result() {
    on_every_engine(|engine| {
        engine.notify_shutdown();
        let error = engine.op("late").compute(|_| 1).unwrap().wait().unwrap_err();
        assert_says(&error, ErrorKind::Stopped, &["was not called", "shutdown"]);
    });
}

#[test]
fn a_refused_push_has_no_result_and_drops_its_closure() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        engine.delete_variable(nothing, Context::cpu(0), x).unwrap();
        let drops = Arc::new(AtomicUsize::new(0));
        let own = Counted(Arc::clone(&drops));
        let refused = engine.op("late").write(x).compute(move |_| drop(own));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::VariableDeleted);
        eventually("it is dropped", || drops.load(SeqCst) == 1);
    });
}

#[test]
fn a_result_is_dropped_once_whoever_goes_first() {
    fn check<const BYTES: usize>(engine: &Engine) {
        let drops = Arc::new(AtomicUsize::new(0));
        let compute = || {
            let value = (Counted(Arc::clone(&drops)), [7_u8; BYTES]);
            engine.op("value").compute(move |_| value).unwrap()
        };
        // Before the operation runs, or beside it; after it; and taken.
        drop(compute());
        engine.wait_for_all().unwrap();
        assert_eq!(drops.load(SeqCst), 1);
        let kept = compute();
        engine.wait_for_all().unwrap();
        assert_eq!(drops.load(SeqCst), 1);
        drop(kept);
        assert_eq!(drops.load(SeqCst), 2);
        let (counted, bytes) = compute().wait().unwrap();
        assert!(bytes.iter().all(|byte| *byte == 7) && drops.load(SeqCst) == 2);
        drop(counted);
        assert_eq!(drops.load(SeqCst), 3);
    }
    on_every_engine(|engine| {
        check::<1>(&engine);
        check::<300>(&engine);
        check::<5000>(&engine);
        #[repr(align(128))]
        struct Aligned(u8);
        let aligned = engine.op("aligned").compute(|_| Aligned(9)).unwrap().wait().unwrap();
        assert_eq!(((&raw const aligned).addr() % 128, aligned.0), (0, 9));
    });
}

#[test]
fn a_panic_of_a_destructor_ends_neither_a_worker_nor_a_caller() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                std::panic::resume_unwind(Box::new("in a destructor"));
            }
        }
    }
    on_every_engine(|engine| {
        drop(engine.op("value").compute(|_| Panics).unwrap());
        let kept = engine.op("value").compute(|_| Panics).unwrap();
        engine.wait_for_all().unwrap();
        drop(kept);
        assert_eq!(engine.op("next").compute(|_| 1).unwrap().wait().unwrap(), 1);
    });
}

#[test]
fn a_wait_inside_an_operation_is_refused_and_a_look_is_not() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let gate = hold(&engine, &[], &[x]);
        let mut later = engine.op("later").write(x).compute(|_| 5).unwrap();
        let inside = engine.op("inside").compute(move |_| {
            let looked = later.try_take().is_none();
            (looked, later.wait_timeout(Duration::ZERO).unwrap_err().kind(), later.wait().unwrap_err().kind())
        });
        let refused = ErrorKind::WaitInsideOperation;
        assert_eq!(inside.unwrap().wait().unwrap(), (true, refused, refused));
        gate.complete();
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_limit_leaves_the_result_for_later() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let held = hold(&engine, &[], &[x]);
        let mut later = engine.op("later").write(x).compute(|_| 5).unwrap();
        for _ in 0..3 {
            let error = later.wait_timeout(Duration::from_millis(1)).unwrap_err();
            assert_says(&error, ErrorKind::TimedOut, &["1ms"]);
        }
        let ended = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            held.complete();
        });
        assert_eq!(later.wait_timeout(Duration::from_secs(60)).unwrap(), 5);
        ended.join().unwrap();
        // Events of waits that ran out of time are not taken for those of later ones.
        engine.wait_for_var(x).unwrap();
        assert_eq!(engine.version(x).unwrap(), 2);
    });
}

#[test]
fn results_go_from_thread_to_thread() {
    let _watchdog = Watchdog::new(300, "results of several pushers");
    on_every_engine(|engine| {
        let x = Data::new(&engine, 0_u64);
        let (send, receive) = std::sync::mpsc::channel::<Pending<u64>>();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let (send, engine, x) = (send.clone(), &engine, &x);
                scope.spawn(move || {
                    for _ in 0..200 {
                        let to = x.clone();
                        let count = move |_: &seriatim::RunContext<'_>| {
                            let mut x = to.write()?;
                            *x += 1;
                            Ok::<u64, Error>(*x)
                        };
                        send.send(engine.op("count").write(x).try_compute(count).unwrap()).unwrap();
                    }
                });
            }
            drop(send);
            let values = receive.into_iter().enumerate();
            let mut values: Vec<u64> =
                values.map(|(at, value)| if at % 2 == 0 { value.wait() } else { block_on(value) }.unwrap()).collect();
            values.sort_unstable();
            assert!(values.into_iter().eq(1..=600));
        });
    });
}
