//! Forks while results and futures are alive: those that the fork waited for are there on both
//! sides, and the others are an error in the child.

use crate::common::*;
use crate::executor::{block_on, poll, Door, Unparks};
use seriatim::{Engine, ErrorKind, Pending};
use std::cell::Cell;
use std::sync::atomic::Ordering::*;
use std::task::Poll;
use std::time::Duration;

fn run_child_well(task: &str) {
    let output = run_child(&mut child(task));
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn results_that_a_fork_waited_for_are_on_both_sides() {
    run_child_well("fork beside results");
}

pub fn fork_beside_results() {
    for builder in builders() {
        let engine = builder.fork_patience(Duration::from_secs(60)).build().unwrap();
        let (x, y) = (engine.new_variable(), engine.new_variable());
        let quick = engine.op("quick").writes([x]).compute(|_| String::from("quick")).unwrap();
        let slow = move |_: &seriatim::RunContext<'_>| {
            std::thread::sleep(Duration::from_millis(20));
            String::from("slow")
        };
        let slow = engine.op("slow").writes([x]).compute(slow).unwrap();
        let fails = engine.op("fails").writes([y]).try_compute(|_| Err::<String, _>("no paper")).unwrap();
        let (mut ready, mut all, unparks) = (engine.ready(x), engine.all_ended(), Unparks::new());
        let polled = [poll(&mut ready, &unparks).is_ready(), poll(&mut all, &unparks).is_ready()];
        let results = [quick, slow, fails].map(|result| Cell::new(Some(result)));
        let waits = Cell::new(Some((ready, all)));
        let look = || {
            let [quick, slow, fails] = results.each_ref().map(|result| result.take().unwrap());
            assert_eq!(quick.wait().unwrap(), "quick");
            assert_eq!(block_on(slow).unwrap(), "slow");
            assert_failed(fails.wait().map(drop), "no paper");
            let (ready, all) = waits.take().unwrap();
            // One that was ready before the fork has said so already.
            if !polled[0] {
                block_on(ready).unwrap();
            }
            if !polled[1] {
                block_on(all).unwrap();
            }
            let after = engine.op("after").writes([x, y]).compute(|_| 7).unwrap();
            assert_eq!(block_on(after).unwrap(), 7);
            let passed = Door::default();
            passed.open();
            engine.op("future").writes([x]).push_future(passed.pass()).unwrap();
            block_on(engine.ready(x)).unwrap();
            engine.stop().unwrap();
        };
        fork_and(look);
        look();
    }
}

#[test]
fn results_that_a_fork_could_not_wait_for_are_errors_in_the_child() {
    run_child_well("fork beside results that do not come");
}

pub fn fork_beside_results_that_do_not_come() {
    for builder in builders() {
        let engine = builder.fork_patience(Duration::from_millis(5)).build().unwrap();
        let (x, door) = (engine.new_variable(), Door::default());
        engine.op("waits").writes([x]).push_future(door.pass()).unwrap();
        eventually("the future is polled", || door.is_reached());
        let result = |name| -> Pending<u32> { engine.op(name).reads([x]).compute(|_| 7).unwrap() };
        let mut results = ["one", "two", "three"].map(result);
        let (mut ready, mut all, unparks) = (engine.ready(x), engine.all_ended(), Unparks::new());
        assert!(poll(&mut ready, &unparks).is_pending() && poll(&mut all, &unparks).is_pending());
        assert!(poll(&mut results[1], &unparks).is_pending());
        let alive = Cell::new(Some((results, ready, all)));
        fork_and(|| {
            let _watchdog = Watchdog::new(90, "the child of a fork beside results");
            let ([mut one, mut two, three], mut ready, mut all) = alive.take().unwrap();
            let stopped = |error: seriatim::Error| assert_says(&error, ErrorKind::Stopped, &["was forked"]);
            assert!(one.try_take().is_none() && !one.is_ready());
            stopped(one.wait_timeout(Duration::from_secs(100)).unwrap_err());
            stopped(one.wait().unwrap_err());
            let told = |poll: Poll<Result<(), seriatim::Error>>| match poll {
                Poll::Ready(outcome) => stopped(outcome.unwrap_err()),
                Poll::Pending => panic!("it would never be woken"),
            };
            told(poll(&mut two, &unparks).map(|outcome| outcome.map(drop)));
            told(poll(&mut ready, &unparks));
            told(poll(&mut all, &unparks));
            stopped(block_on(engine.ready(x)).unwrap_err());
            stopped(engine.op("late").compute(|_| 7).unwrap_err());
            stopped(engine.op("late").push_future(async {}).unwrap_err());
            drop((three, two, ready, all));
            // Its waker is called in the child as well: nothing is polled there.
            door.open();
            std::thread::sleep(Duration::from_millis(2));
            assert_eq!(door.threads().len(), 1);
        });
        assert_eq!(unparks.calls.load(SeqCst), 0, "nothing has ended yet");
        door.open();
        let ([one, two, three], ready, all) = alive.take().unwrap();
        block_on(ready).unwrap();
        assert_eq!((one.wait().unwrap(), block_on(two).unwrap()), (7, 7));
        drop(three);
        block_on(all).unwrap();
        let again = Engine::new().unwrap();
        assert_eq!(again.op("other").compute(|_| 1).unwrap().wait().unwrap(), 1);
    }
}
