//! Futures as operations.

use crate::common::*;
use crate::executor::*;
use seriatim::{Builder, Data, Error, ErrorKind, Kind, Property};
use std::future::{poll_fn, Future};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

/// Runs a test on every engine that has workers.
fn with_every_pool(test: impl Fn(Builder)) {
    with_every_builder(|builder| {
        let kind = builder.clone().build().unwrap().kind();
        if kind != Kind::Naive {
            test(builder);
        }
    });
}

#[test]
fn a_future_keeps_its_variables_until_it_is_ready() {
    on_every_engine(|engine| {
        let x = Data::new(&engine, 1);
        let (door, to, from) = (Door::default(), x.clone(), x.clone());
        let passing = door.pass();
        let grow = async move {
            *to.write()? += 1;
            passing.await;
            *to.write()? *= 10;
            Ok::<(), Error>(())
        };
        engine.op("grow").write(&x).push_future(grow).unwrap();
        let read = engine.op("read").read(&x).try_compute(move |_| from.read().map(|x| *x)).unwrap();
        eventually("it waits", || door.is_reached());
        assert!(!read.is_ready());
        door.open();
        assert_eq!(read.wait().unwrap(), 20);
        assert_eq!(engine.version(x.variable()).unwrap(), 1);
    });
}

#[test]
fn workers_poll_and_never_the_thread_that_wakes() {
    with_every_pool(|builder| {
        for property in [Property::Normal, Property::Io, Property::CpuPrioritized, Property::NoSkip, Property::Async] {
            let engine = builder.clone().waiters_help(false).build().unwrap();
            let door = Door::default();
            engine.op("waits").property(property).push_future(door.pass()).unwrap();
            eventually("it waits", || door.is_reached());
            for count in 2..10 {
                door.wake();
                eventually("it is polled", || door.threads().len() >= count);
            }
            door.open();
            engine.wait_for_all().unwrap();
            let own = thread::current().id();
            // An operation that only starts something is called by its push, if it is ready.
            let first = usize::from(property == Property::Async);
            assert!(door.threads()[first..].iter().all(|thread| *thread != own), "{property:?}");
        }
    });
}

/// It has no workers.
#[test]
fn on_the_naive_engine_the_waking_thread_polls() {
    let engine = seriatim::Engine::builder().kind(Kind::Naive).build().unwrap();
    let door = Door::default();
    engine.op("waits").push_future(door.pass()).unwrap();
    let opens = door.clone();
    let waker = thread::spawn(move || opens.open());
    let waking = waker.thread().id();
    waker.join().unwrap();
    engine.wait_for_all().unwrap();
    assert_eq!(door.threads(), [thread::current().id(), waking]);
}

#[test]
fn a_future_that_wakes_itself_takes_turns_with_others() {
    on_every_engine(|engine| {
        let (mut left, polls) = (1_000, Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&polls);
        let again = poll_fn(move |context| {
            count.fetch_add(1, SeqCst);
            left -= 1;
            // By reference and by value, once and twice.
            context.waker().wake_by_ref();
            if left % 2 == 0 {
                let own = context.waker().clone();
                own.wake();
            }
            if left == 0 {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        engine.op("again").push_future(again).unwrap();
        let other = Arc::new(AtomicUsize::new(0));
        engine.op("other").push(counting(&other)).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!((polls.load(SeqCst), other.load(SeqCst)), (1_000, 1));
    });
}

fn panic_in_a_poll() {
    std::panic::resume_unwind(Box::new("in a poll"));
}

#[test]
fn an_error_a_panic_and_a_lost_waker_fail_the_operation() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let drops = Arc::new(AtomicUsize::new(0));
        let counted = || Counted(Arc::clone(&drops));
        let yields = || {
            let mut first = true;
            poll_fn(move |context| {
                context.waker().wake_by_ref();
                match std::mem::take(&mut first) {
                    true => Poll::Pending,
                    false => Poll::Ready(()),
                }
            })
        };
        let (own, wait) = (counted(), yields());
        let fails = async move {
            let _own = own;
            wait.await;
            Err::<(), _>("no route")
        };
        engine.op("fails").write(x).push_future(fails).unwrap();
        assert_says(
            &engine.wait_for_var(x).unwrap_err(),
            ErrorKind::OperationFailed,
            &["operation 'fails' failed: no route"],
        );
        let (own, wait) = (counted(), yields());
        let panics = async move {
            let _own = own;
            wait.await;
            panic_in_a_poll();
        };
        engine.op("panics").write(x).push_future(panics).unwrap();
        assert_says(
            &engine.wait_for_var(x).unwrap_err(),
            ErrorKind::OperationPanicked,
            &["operation 'panics' panicked: in a poll"],
        );
        // Nobody has its waker.
        let own = counted();
        let lost = async move {
            let _own = own;
            std::future::pending::<()>().await;
        };
        engine.op("lost").write(x).push_future(lost).unwrap();
        let error = engine.wait_for_var(x).unwrap_err();
        assert_says(&error, ErrorKind::CompletionDropped, &["operation 'lost' failed", "nothing can wake it"]);
        // Somebody has had it.
        let (door, own) = (Door::default(), counted());
        let passing = door.pass();
        let lost = async move {
            let _own = own;
            passing.await;
        };
        engine.op("lost later").write(x).push_future(lost).unwrap();
        eventually("it waits", || door.is_reached());
        assert_eq!(engine.wait_for_var_timeout(x, Duration::from_millis(1)).unwrap_err().kind(), ErrorKind::TimedOut);
        door.forget();
        let error = engine.wait_for_var(x).unwrap_err();
        assert_says(&error, ErrorKind::CompletionDropped, &["operation 'lost later' failed"]);
        assert_eq!(drops.load(SeqCst), 4, "each future is dropped once");
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(x).unwrap(), 4);
    });
}

#[test]
fn a_skipped_future_is_dropped_and_never_polled() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let drops = Arc::new(AtomicUsize::new(0));
        let polled = Arc::new(AtomicBool::new(false));
        let held = hold(&engine, &[], &[x]);
        let (own, says) = (Counted(Arc::clone(&drops)), Arc::clone(&polled));
        let skipped = async move {
            let _own = own;
            says.store(true, SeqCst);
        };
        engine.op("skipped").write(x).push_future(skipped).unwrap();
        held.fail("on purpose");
        assert_failed(engine.wait_for_var(x), "on purpose");
        assert_eq!((drops.load(SeqCst), polled.load(SeqCst)), (1, false));
    });
}

#[test]
fn a_large_future_is_polled_and_dropped_once() {
    on_every_engine(|engine| {
        let drops = Arc::new(AtomicUsize::new(0));
        let sum = Data::new(&engine, 0_usize);
        let (own, door, to) = (Counted(Arc::clone(&drops)), Door::default(), sum.clone());
        let (bytes, passing) = ([1_u8; 4_000], door.pass());
        let large = async move {
            let _own = own;
            passing.await;
            *to.write()? = bytes.iter().map(|byte| usize::from(*byte)).sum();
            Ok::<(), Error>(())
        };
        engine.op("large").write(&sum).push_future(large).unwrap();
        eventually("it waits", || door.is_reached());
        assert_eq!(drops.load(SeqCst), 0);
        door.open();
        engine.wait_for_all().unwrap();
        assert_eq!((*sum.read().unwrap(), drops.load(SeqCst)), (4_000, 1));
    });
}

#[test]
fn a_future_awaits_other_operations_and_holds_no_worker() {
    with_every_builder(|builder| {
        let engine = builder.cpu_workers(1).build().unwrap();
        let total = Data::new(&engine, 0_u64);
        for number in 0..50_u64 {
            let (own, to, x) = (engine.clone(), total.clone(), engine.new_variable());
            let add = async move {
                // More of them wait at once than there are workers.
                own.op("first").write(x).push(nothing)?;
                own.ready(x).await?;
                let value = own.op("second").compute(move |_| number).unwrap().await?;
                *to.write()? += value;
                Ok::<(), Error>(())
            };
            engine.op("add").write(&total).push_future(add).unwrap();
        }
        engine.wait_for_all().unwrap();
        assert_eq!(*total.read().unwrap(), 49 * 50 / 2);
    });
}

#[test]
fn a_wait_on_the_thread_is_refused_inside_a_future() {
    on_every_engine(|engine| {
        let (own, x, door) = (engine.clone(), engine.new_variable(), Door::default());
        let passing = door.pass();
        let waits = async move {
            let first = own.wait_for_var(x).unwrap_err().kind();
            passing.await;
            assert_eq!([first, own.wait_for_all().unwrap_err().kind()], [ErrorKind::WaitInsideOperation; 2]);
        };
        engine.op("waits").push_future(waits).unwrap();
        eventually("it waits", || door.is_reached());
        door.open();
        engine.wait_for_all().unwrap();
    });
}

/// Many threads wake at once; a poll meets no other, and sees what was done before each wake-up.
#[test]
fn one_thread_at_a_time_polls_and_no_wake_up_is_lost() {
    let _watchdog = Watchdog::new(300, "wake-ups by many threads");
    on_every_engine(|engine| {
        const THREADS: usize = 4;
        const EACH: usize = 300;
        let (said, inside) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let place = Arc::new(std::sync::Mutex::new(None::<Waker>));
        let (hears, keeps) = (Arc::clone(&said), Arc::clone(&place));
        let listens = poll_fn(move |context| {
            assert!(!inside.swap(true, SeqCst), "two threads poll");
            *keeps.lock().unwrap() = Some(context.waker().clone());
            let all = hears.load(Relaxed) == THREADS * EACH;
            inside.store(false, SeqCst);
            if all {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        engine.op("listens").push_future(listens).unwrap();
        eventually("it was polled", || place.lock().unwrap().is_some());
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        said.fetch_add(1, Relaxed);
                        let waker = place.lock().unwrap().clone();
                        waker.expect("it was polled").wake();
                    }
                });
            }
        });
        engine.wait_for_all().unwrap();
        drop(place);
    });
}

/// Beside random operations, results and waits of several threads.
#[test]
fn futures_results_and_waits_go_together() {
    let _watchdog = Watchdog::new(300, "a mixture");
    on_every_engine(|engine| {
        let cells: Vec<Data<u64>> = (0..4).map(|_| Data::new(&engine, 0)).collect();
        let each = by_length(150, 3_000);
        thread::scope(|scope| {
            for thread in 0..3 {
                let (engine, cells) = (&engine, &cells);
                scope.spawn(move || {
                    let mut random = Random(thread + 1);
                    let mut steps = [0_u64; 4];
                    for _ in 0..each {
                        let at = random.below(4);
                        let (x, own) = (&cells[at], engine.clone());
                        let to = x.clone();
                        steps[at] += 1;
                        match random.below(4) {
                            0 => engine.op("push").write(x).push(move |_| to.write().map(|mut x| *x += 1)).unwrap(),
                            1 => {
                                let step = move |_: &seriatim::RunContext<'_>| to.write().map(|mut x| *x += 1);
                                block_on(engine.op("compute").write(x).try_compute(step).unwrap()).unwrap();
                            }
                            _ => {
                                let step = async move {
                                    own.op("inner").compute(|_| ()).unwrap().await?;
                                    *to.write()? += 1;
                                    Ok::<(), Error>(())
                                };
                                engine.op("future").write(x).push_future(step).unwrap();
                            }
                        }
                        match random.below(20) {
                            0 => block_on(engine.ready(&cells[random.below(4)])).unwrap(),
                            1 => block_on(engine.unused(&cells[random.below(4)])).unwrap(),
                            2 => drop(engine.ready(x)),
                            _ => {}
                        }
                    }
                    steps
                });
            }
        });
        block_on(engine.all_ended()).unwrap();
        let all: u64 = cells.iter().map(|cell| *cell.read().unwrap()).sum();
        assert_eq!(all, 3 * each as u64);
        for cell in &cells {
            assert_eq!(engine.version(cell.variable()).unwrap(), *cell.read().unwrap());
        }
    });
}

/// A future of another crate's type, and one that is not `Unpin`.
#[test]
fn any_future_is_an_operation() {
    on_every_engine(|engine| {
        let x = Data::new(&engine, 0);
        let to = x.clone();
        let boxed: std::pin::Pin<Box<dyn Future<Output = Result<(), Error>> + Send>> =
            Box::pin(async move { to.write().map(|mut x| *x = 7) });
        engine.op("boxed").write(&x).push_future(boxed).unwrap();
        engine.op("ready").push_future(std::future::ready(())).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(*x.read().unwrap(), 7);
    });
}
