//! Stops and ends of an engine, beside futures.

use crate::common::*;
use crate::executor::*;
use seriatim::{Data, Error, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

#[test]
fn a_stop_waits_for_a_future_whose_wake_ups_and_pushes_work_meanwhile() {
    on_every_engine(|engine| {
        let (x, door) = (Data::new(&engine, 0), Door::default());
        let (own, to, more, passing) = (engine.clone(), x.clone(), x.clone(), door.pass());
        let other = engine.new_variable();
        let future = async move {
            passing.await;
            // The engine is being stopped.
            let seven = own.op("inside").write(other).compute(|_| 7)?.await?;
            *to.write()? = seven;
            Ok::<(), Error>(())
        };
        engine.op("future").write(&x).push_future(future).unwrap();
        eventually("it waits", || door.is_reached());
        let stopped = Arc::new(AtomicBool::new(false));
        let (stops, says) = (engine.clone(), Arc::clone(&stopped));
        let stop = thread::spawn(move || {
            stops.stop().unwrap();
            says.store(true, SeqCst);
        });
        eventually("the engine takes nothing more", || engine.op("late").push(nothing).is_err());
        thread::sleep(Duration::from_millis(2));
        assert!(!stopped.load(SeqCst), "it stops before the future is ready");
        let mut all = engine.all_ended();
        assert!(poll(&mut all, &Unparks::new()).is_pending());
        door.open();
        stop.join().unwrap();
        block_on(all).unwrap();
        assert_eq!(*more.read().unwrap(), 7);
        engine.start().unwrap();
        assert_eq!(engine.op("again").compute(|_| 1).unwrap().wait().unwrap(), 1);
    });
}

#[test]
fn waits_with_a_limit_name_the_future() {
    on_every_engine(|engine| {
        let (x, door) = (engine.new_variable(), Door::default());
        engine.op("listens").write(x).push_future(door.pass()).unwrap();
        eventually("it waits", || door.is_reached());
        let error = engine.wait_for_var_timeout(x, Duration::from_millis(1)).unwrap_err();
        assert_says(&error, ErrorKind::TimedOut, &["'listens'"]);
        let error = engine.wait_for_all_timeout(Duration::from_millis(1)).unwrap_err();
        assert_says(&error, ErrorKind::TimedOut, &["'listens'"]);
        door.open();
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn the_end_of_an_engine_waits_for_its_futures_and_what_awaits_it_outlives_it() {
    on_every_engine(|engine| {
        let (x, door) = (engine.new_variable(), Door::default());
        engine.op("future").write(x).push_future(door.pass()).unwrap();
        eventually("it waits", || door.is_reached());
        let (mut free, result) = (engine.ready(x), engine.op("later").write(x).compute(|_| 5).unwrap());
        let all = engine.all_ended();
        let unparks = Unparks::new();
        assert!(poll(&mut free, &unparks).is_pending());
        let ends = thread::spawn(move || drop(engine));
        thread::sleep(Duration::from_millis(2));
        assert!(!ends.is_finished());
        door.open();
        ends.join().unwrap();
        assert!(unparks.calls.load(SeqCst) == 1);
        block_on(free).unwrap();
        block_on(all).unwrap();
        assert_eq!(result.wait().unwrap(), 5);
        // A waker that is left wakes nothing.
        door.wake();
    });
}

#[test]
fn after_a_shutdown_a_future_that_has_begun_goes_on_and_others_are_skipped() {
    on_every_engine(|engine| {
        let (x, y) = (Data::new(&engine, 0), Data::new(&engine, 0));
        let (door, to) = (Door::default(), x.clone());
        let passing = door.pass();
        let begun = async move {
            passing.await;
            *to.write()? = 1;
            Ok::<(), Error>(())
        };
        engine.op("begun").write(&x).push_future(begun).unwrap();
        let to = y.clone();
        let behind = async move { to.write().map(|mut y| *y = 1) };
        engine.op("behind").read(&x).write(&y).push_future(behind).unwrap();
        eventually("it waits", || door.is_reached());
        engine.notify_shutdown();
        door.open();
        engine.wait_for_all().unwrap();
        assert_eq!((*x.read().unwrap(), *y.read().unwrap()), (1, 0));
    });
}
