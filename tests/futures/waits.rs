//! Waits as futures.

use crate::common::*;
use crate::executor::*;
use seriatim::{Context, Data, ErrorKind};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::task::Poll;

#[test]
fn ready_waits_for_writes_and_unused_for_all_uses() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        block_on(engine.ready(x)).unwrap();
        let reads = hold(&engine, &[x], &[]);
        block_on(engine.ready(x)).expect("a read does not hold it up");
        let (unparks, mut unused) = (Unparks::new(), engine.unused(x));
        assert!(poll(&mut unused, &unparks).is_pending());
        reads.complete();
        block_on(unused).unwrap();
        assert!(unparks.calls.load(SeqCst) <= 1);
        assert_eq!(engine.version(x).unwrap(), 0, "it changes nothing");

        let writes = hold(&engine, &[], &[x]);
        let mut waits = [engine.ready(x), engine.ready(x), engine.unused(x)];
        let wakers = [(); 3].map(|()| Unparks::new());
        for (wait, waker) in waits.iter_mut().zip(&wakers) {
            assert!(poll(wait, waker).is_pending());
        }
        writes.complete();
        for (wait, waker) in waits.iter_mut().zip(&wakers) {
            eventually("it is woken", || waker.calls.load(SeqCst) == 1);
            assert!(matches!(poll(wait, waker), Poll::Ready(Ok(()))));
            assert!(poll(wait, waker).is_pending(), "it was told");
        }
    });
}

#[test]
fn a_wait_has_its_place_in_push_order_from_the_call_on() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let first = hold(&engine, &[], &[x]);
        let before = engine.ready(x);
        let ran = Arc::new(AtomicUsize::new(0));
        let (door, count) = (Door::default(), Arc::clone(&ran));
        let (passing, inside) = (door.pass(), door.clone());
        engine
            .op("second")
            .write(x)
            .push_future(async move {
                passing.await;
                count.fetch_add(1, SeqCst);
            })
            .unwrap();
        let mut after = engine.ready(x);
        first.complete();
        block_on(before).expect("what was pushed later does not hold it up");
        assert_eq!(ran.load(SeqCst), 0);
        assert!(poll(&mut after, &Unparks::new()).is_pending());
        inside.open();
        block_on(after).unwrap();
        assert_eq!(ran.load(SeqCst), 1);
    });
}

#[test]
fn an_error_is_told_once_and_deleted_variables_are_refused() {
    on_every_engine(|engine| {
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        engine.op("fails").writes([x, y]).push(|_| Err("on purpose")).unwrap();
        assert_failed(block_on(engine.ready(x)), "on purpose");
        block_on(engine.ready(y)).expect("it was told");
        engine.wait_for_all().expect("it was told");
        engine.op("fails").write(x).push(|_| Err("again")).unwrap();
        drop(engine.ready(x));
        assert_failed(engine.wait_for_all(), "again");
        engine.delete_variable(nothing, Context::cpu(0), x).unwrap();
        assert_eq!(block_on(engine.ready(x)).unwrap_err().kind(), ErrorKind::VariableDeleted);
        assert_eq!(block_on(engine.unused(x)).unwrap_err().kind(), ErrorKind::VariableDeleted);
    });
}

#[test]
fn dropping_a_wait_takes_its_waker_back() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let held = hold(&engine, &[], &[x]);
        let unparks = Unparks::new();
        let (mut free, mut all) = (engine.ready(x), engine.all_ended());
        let mut result = engine.op("later").write(x).compute(|_| 1).unwrap();
        assert!(poll(&mut free, &unparks).is_pending() && poll(&mut all, &unparks).is_pending());
        assert!(poll(&mut result, &unparks).is_pending());
        assert_eq!(Arc::strong_count(&unparks), 4);
        drop((free, all, result));
        assert_eq!(Arc::strong_count(&unparks), 1, "nobody has the waker any more");
        held.complete();
        engine.wait_for_all().unwrap();
        assert_eq!((unparks.calls.load(SeqCst), engine.version(x).unwrap()), (0, 2));
    });
}

#[test]
fn of_several_wakers_the_last_one_is_called() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let held = hold(&engine, &[], &[x]);
        let wakers = [(); 3].map(|()| Unparks::new());
        let (mut free, mut all) = (engine.ready(x), engine.all_ended());
        for waker in &wakers {
            assert!(poll(&mut free, waker).is_pending() && poll(&mut all, waker).is_pending());
        }
        held.complete();
        eventually("both are woken", || wakers[2].calls.load(SeqCst) >= 2);
        assert!(poll(&mut free, &wakers[2]).is_ready());
        let calls = wakers.map(|waker| waker.calls.load(SeqCst));
        assert_eq!(calls[..2], [0, 0]);
        block_on(all).unwrap();
    });
}

#[test]
fn all_ended_waits_for_everything_and_tells_the_first_error() {
    on_every_engine(|engine| {
        block_on(engine.all_ended()).unwrap();
        let x = Data::new(&engine, 0);
        for _ in 0..100 {
            let held = hold(&engine, &[], &[x.variable()]);
            let to = x.clone();
            engine.op("step").write(&x).push(move |_| to.write().map(|mut x| *x += 1)).unwrap();
            let ends = std::thread::spawn(move || held.complete());
            block_on(engine.all_ended()).unwrap();
            ends.join().unwrap();
        }
        assert_eq!(*x.read().unwrap(), 100);
        engine.op("first").push(|_| Err("the first")).unwrap();
        engine.op("second").push(|_| Err("the second")).unwrap();
        assert_failed(block_on(engine.all_ended()), "the first");
        block_on(engine.all_ended()).unwrap();
    });
}

#[test]
fn many_futures_wait_for_everything_at_once() {
    on_every_engine(|engine| {
        let held = hold(&engine, &[], &[]);
        let ended = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    block_on(engine.all_ended()).unwrap();
                    ended.fetch_add(1, SeqCst);
                });
            }
            let (unparks, mut own) = (Unparks::new(), engine.all_ended());
            assert!(poll(&mut own, &unparks).is_pending());
            assert_eq!(ended.load(SeqCst), 0);
            held.complete();
            eventually("it is woken", || unparks.calls.load(SeqCst) > 0);
            assert!(poll(&mut own, &unparks).is_ready());
        });
        assert_eq!(ended.load(SeqCst), 8);
    });
}

#[test]
fn inside_an_operation_a_wait_for_everything_is_refused() {
    on_every_engine(|engine| {
        let own = engine.clone();
        engine.op("inside").push_future(async move { own.all_ended().await }).unwrap();
        let error = engine.wait_for_all().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WaitInsideOperation, "{error}");
    });
}

/// The waker may be called before the future is polled, beside it and after it.
#[test]
fn no_wake_up_is_lost_between_threads() {
    let _watchdog = Watchdog::new(300, "waits beside completions");
    on_every_engine(|engine| {
        let x = engine.new_variable();
        for round in 0..by_length(200, 5_000) {
            let held = hold(&engine, &[], &[x]);
            let ends = std::thread::spawn(move || held.complete());
            match round % 3 {
                0 => block_on(engine.ready(x)).unwrap(),
                1 => block_on(engine.unused(x)).unwrap(),
                _ => block_on(engine.all_ended()).unwrap(),
            }
            assert_eq!(engine.version(x).unwrap(), round + 1);
            ends.join().unwrap();
        }
    });
}
