//! Waits with a time limit: not longer than that, as far as the system's own clock allows, also
//! beside busy threads.

use crate::common::*;
use seriatim::{Engine, ErrorKind, Kind};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// What a wait may be later than a condition variable. Without optimisation it has more to do when
/// it wakes up; the condition variable has not.
const SLACK: Duration = Duration::from_micros(if cfg!(debug_assertions) { 600 } else { 60 });
/// Waits of each kind in a round, and rounds at most: other processes take cores too, and a round
/// that they disturb says nothing.
const WAITS: usize = 15;
const ROUNDS: usize = 60;

/// How late each of two kinds of waits is in the middle, when they take turns.
///
/// Each begins at another time between two ticks of the system's clock. Without that they keep step
/// with the ticks: those of one kind end just behind a tick, where a busy thread keeps its core
/// until the next one, and those of the other do not.
fn lateness(limit: Duration, waits: [&dyn Fn(); 2]) -> [Duration; 2] {
    let mut late = [const { Vec::new() }; 2];
    let mut random = Random(limit.as_nanos() as u64);
    for _ in 0..WAITS {
        for (late, wait) in late.iter_mut().zip(waits) {
            std::thread::sleep(Duration::from_micros(random.below(4_000) as u64));
            let start = Instant::now();
            wait();
            late.push(start.elapsed().saturating_sub(limit));
        }
    }
    late.map(|mut late| {
        late.sort();
        late[WAITS / 2]
    })
}

/// Holds a wait against a condition variable's, on every engine, beside so many threads that do not
/// sleep.
fn compare(busy: usize, limit: Duration, wait: impl Fn(&Engine, seriatim::Variable, Duration)) {
    let (mutex, condvar) = (Mutex::new(()), Condvar::new());
    let plain = || drop(condvar.wait_timeout(mutex.lock().unwrap(), limit).unwrap());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        (0..busy).for_each(|_| {
            drop(scope.spawn(|| {
                while !over.load(Relaxed) {
                    std::hint::spin_loop()
                }
            }))
        });
        // However the test ends, so do they.
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Relaxed);
            }
        }
        let _end = End(&over);
        for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
            let engine = Engine::builder().kind(kind).cpu_workers(1).build().unwrap();
            let x = engine.new_variable();
            let held = hold(&engine, &[], &[x]);
            let ours = || wait(&engine, x, limit);
            let rounds = (0..ROUNDS).map(|_| lateness(limit, [&ours, &plain]));
            let seen: Vec<_> = rounds
                .take_while({
                    let mut met = false;
                    move |[ours, plain]| !std::mem::replace(&mut met, *ours <= *plain + SLACK)
                })
                .collect();
            let [ours, plain] = *seen.last().expect("at least one round");
            assert!(
                ours <= plain + SLACK,
                "{kind}, {busy} busy threads, {limit:?}: [ours, a condition variable's] is late by {seen:?}"
            );
            held.complete();
            engine.wait_for_all().unwrap();
        }
    });
}

fn for_variable(engine: &Engine, x: seriatim::Variable, limit: Duration) {
    assert_eq!(engine.wait_for_var_timeout(x, limit).unwrap_err().kind(), ErrorKind::TimedOut);
}

fn for_all(engine: &Engine, _: seriatim::Variable, limit: Duration) {
    assert_eq!(engine.wait_for_all_timeout(limit).unwrap_err().kind(), ErrorKind::TimedOut);
}

#[test]
fn a_wait_for_a_variable_is_as_late_as_that_for_a_condition_variable() {
    for (busy, limit) in [(0, 1), (4, 1), (4, 200), (4, 10_000)] {
        compare(busy, Duration::from_micros(limit), for_variable);
    }
}

#[test]
fn a_wait_for_everything_is_as_late_as_that_for_a_condition_variable() {
    for (busy, limit) in [(0, 1), (4, 1), (4, 200), (4, 10_000)] {
        compare(busy, Duration::from_micros(limit), for_all);
    }
}

#[test]
fn a_wait_behind_a_long_backlog_is_not_late_either() {
    let limit = Duration::from_micros(1);
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).build().unwrap();
    let x = engine.new_variable();
    let held = hold(&engine, &[], &[x]);
    (0..200_000).for_each(|_| engine.op("later").writes([x]).push(nothing).unwrap());
    let error = engine.wait_for_var_timeout(x, limit).unwrap_err();
    assert_says(&error, ErrorKind::TimedOut, &["running 'hold'", "behind it 'later'", "blocks that were made first"]);
    let (mutex, condvar) = (Mutex::new(()), Condvar::new());
    let plain = || drop(condvar.wait_timeout(mutex.lock().unwrap(), limit).unwrap());
    let ours = || for_variable(&engine, x, limit);
    let mut seen = Vec::new();
    let is_in_time = (0..ROUNDS).any(|_| {
        let [ours, plain] = lateness(limit, [&ours, &plain]);
        seen.push([ours, plain]);
        ours <= plain + SLACK
    });
    assert!(is_in_time, "late by [ours, a condition variable's] {seen:?}");
    held.complete();
    engine.wait_for_all().unwrap();
}
