//! Deadlines: what has not started by then is skipped in its turn.

use crate::common::*;
use crate::rules::MOMENT;
use seriatim::{Engine, ErrorKind};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn push(engine: &Engine, x: seriatim::Variable, deadline: Instant, ran: &Arc<AtomicUsize>) {
    engine.op("timed").write(x).deadline(deadline).push(counting(ran)).unwrap();
}

#[test]
fn what_waits_beyond_its_deadline_is_skipped_and_what_starts_in_time_is_not() {
    on_every_engine(|engine| {
        let (x, ran) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)));
        let gate = hold(&engine, &[], &[x]);
        let deadline = Instant::now() + MOMENT;
        push(&engine, x, deadline, &ran);
        std::thread::sleep(2 * MOMENT);
        let error = engine.wait_for_var_timeout(x, Duration::from_millis(1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "nothing happens at the deadline itself");
        gate.complete();
        let error = engine.wait_for_var(x).unwrap_err();
        assert_says(&error, ErrorKind::DeadlineExceeded, &["'timed'", "after its deadline", "push it earlier"]);
        push(&engine, x, Instant::now() + Duration::from_secs(600), &ran);
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 1);
    });
}

#[test]
fn what_has_started_in_time_may_end_later() {
    on_every_engine(|engine| {
        let (x, ran) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&ran);
        let deadline = Instant::now() + Duration::from_secs(600);
        let long = move |_: &seriatim::RunContext<'_>| {
            // A deadline that has passed by the end.
            std::thread::sleep(MOMENT);
            count.fetch_add(1, SeqCst);
        };
        engine.op("long").write(x).deadline(deadline.min(Instant::now() + Duration::from_secs(60))).push(long).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 1);
    });
}

#[test]
fn what_depends_on_what_came_too_late_is_skipped() {
    on_every_engine(|engine| {
        let ([x, y], ran) = ([engine.new_variable(), engine.new_variable()], Arc::new(AtomicUsize::new(0)));
        push(&engine, x, Instant::now().checked_sub(MOMENT).unwrap(), &ran);
        engine.op("behind").read(x).write(y).push(counting(&ran)).unwrap();
        let error = engine.wait_for_var(y).unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::DeadlineExceeded, Some("timed")));
        engine.op("again").read(x).write(y).push(counting(&ran)).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 1);
    });
}
