//! Futures as operations: a cancelled one is dropped, and not polled again.

use crate::common::*;
use crate::executor::*;
use crate::rules::{assert_cancelled, MOMENT};
use seriatim::{CancelToken, ErrorKind};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn a_future_that_waits_is_dropped_when_it_is_woken_next() {
    on_every_engine(|engine| {
        let (x, token, door) = (engine.new_variable(), CancelToken::new(), Door::default());
        let (dropped, went_on) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (own, passing, passed) = (Counted(Arc::clone(&dropped)), door.pass(), Arc::clone(&went_on));
        let future = async move {
            let _own = own;
            passing.await;
            passed.fetch_add(1, SeqCst);
        };
        engine.op("waits").write(x).token(&token).push_future(future).unwrap();
        eventually("it waits", || door.is_reached());
        door.wake();
        eventually("it is polled again", || door.threads().len() == 2);
        token.cancel();
        assert_eq!(dropped.load(SeqCst), 0, "cancelling is a store");
        // It is open, but the future is not polled.
        door.open();
        assert_cancelled(engine.wait_for_var(x), "waits");
        assert_eq!((dropped.load(SeqCst), went_on.load(SeqCst)), (1, 0));
        assert_eq!(door.threads().len(), 2, "it was polled again");
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(x).unwrap(), 1);
    });
}

#[test]
fn a_future_whose_turn_has_not_come_is_never_polled() {
    on_every_engine(|engine| {
        let (x, token, door) = (engine.new_variable(), CancelToken::new(), Door::default());
        let gate = hold(&engine, &[], &[x]);
        engine.op("late").write(x).token(&token).push_future(door.pass()).unwrap();
        token.cancel();
        gate.complete();
        assert_cancelled(engine.wait_for_var(x), "late");
        assert_eq!(door.threads(), []);
    });
}

#[test]
fn a_future_that_cannot_be_woken_any_more_fails_as_without_a_token() {
    on_every_engine(|engine| {
        let (token, door) = (CancelToken::new(), Door::default());
        engine.op("lost").token(&token).push_future(door.pass()).unwrap();
        eventually("it waits", || door.is_reached());
        token.cancel();
        door.forget();
        assert_eq!(engine.wait_for_all().unwrap_err().kind(), ErrorKind::CompletionDropped);
    });
}

#[test]
fn a_deadline_is_for_the_first_poll() {
    on_every_engine(|engine| {
        let (x, door) = (engine.new_variable(), Door::default());
        engine.op("long").write(x).deadline(Instant::now() + Duration::from_secs(60)).push_future(door.pass()).unwrap();
        eventually("it waits", || door.is_reached());
        door.open();
        engine.wait_for_var(x).unwrap();
        // One that passes while the future waits.
        let (door, deadline) = (Door::default(), Instant::now() + 10 * MOMENT);
        engine.op("long").write(x).deadline(deadline).push_future(door.pass()).unwrap();
        let came_late = || door.threads().is_empty() && Instant::now() > deadline;
        eventually("it waits", || door.is_reached() || came_late());
        if door.is_reached() {
            std::thread::sleep(deadline.saturating_duration_since(Instant::now()) + MOMENT);
            door.open();
            engine.wait_for_var(x).unwrap();
        } else {
            // The machine was too busy for it to start in time.
            assert_eq!(engine.wait_for_var(x).unwrap_err().kind(), ErrorKind::DeadlineExceeded);
        }
        let (door, late) = (Door::default(), Instant::now().checked_sub(MOMENT).unwrap());
        engine.op("late").write(x).deadline(late).push_future(door.pass()).unwrap();
        assert_eq!(engine.wait_for_var(x).unwrap_err().kind(), ErrorKind::DeadlineExceeded);
        assert_eq!(door.threads(), []);
    });
}

/// Larger than a block, so that it is boxed.
#[test]
fn large_futures_are_cancelled_too() {
    on_every_engine(|engine| {
        let (x, token, door) = (engine.new_variable(), CancelToken::new(), Door::default());
        let (ballast, passing) = ([1_u8; 4_000], door.pass());
        let future = async move {
            passing.await;
            std::hint::black_box(&ballast);
        };
        engine.op("large").write(x).token(&token).push_future(future).unwrap();
        eventually("it waits", || door.is_reached());
        token.cancel();
        door.open();
        assert_cancelled(engine.wait_for_var(x), "large");
    });
}

#[test]
fn an_awaited_result_is_the_error() {
    on_every_engine(|engine| {
        let (x, token) = (engine.new_variable(), CancelToken::new());
        let gate = hold(&engine, &[], &[x]);
        let sum = engine.op("sum").read(x).token(&token).compute(|_| 42).unwrap();
        token.cancel();
        gate.complete();
        assert_eq!(block_on(sum).unwrap_err().kind(), ErrorKind::Cancelled);
        engine.wait_for_all().unwrap();
    });
}
