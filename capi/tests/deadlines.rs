//! Waits with a time limit, by the C interface: in time, also beside busy threads.

mod common;

use common::*;
use seriatim_c::*;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// What a wait may be later than a condition variable.
const SLACK: Duration = Duration::from_micros(60);
const WAITS: usize = 15;
const ROUNDS: usize = 60;

/// How long each of three kinds of waits takes in the middle, when they take turns.
///
/// Each begins at another time between two ticks of the system's clock. Without that they keep step
/// with the ticks: those of one kind end just behind a tick, where a busy thread keeps its core
/// until the next one, and those of another do not.
fn medians(waits: [&dyn Fn(); 3]) -> [Duration; 3] {
    let mut took = [const { Vec::new() }; 3];
    let mut pause = 0;
    for _ in 0..WAITS {
        for (took, wait) in took.iter_mut().zip(waits) {
            pause = (pause + 1_567) % 4_000;
            std::thread::sleep(Duration::from_micros(pause));
            let start = Instant::now();
            wait();
            took.push(start.elapsed());
        }
    }
    took.map(|mut took| {
        took.sort();
        took[WAITS / 2]
    })
}

#[test]
fn a_wait_beside_busy_threads_is_as_late_as_that_for_a_condition_variable() {
    let probe = Probe::default();
    let engine = Engine::of_kind("per-device");
    let variable = engine.variable();
    let operation = SeriatimOperation { name: c"held".as_ptr(), ..writing(&variable) };
    ok(engine.push_async(&operation, Some(keep), &probe));
    let over = AtomicBool::new(false);
    let (mutex, condvar) = (Mutex::new(()), Condvar::new());
    let limit = Duration::from_micros(1);
    let plain = || drop(condvar.wait_timeout(mutex.lock().unwrap(), limit).unwrap());
    // SAFETY: the engine lives.
    let of_variable = || unsafe {
        refused(seriatim_wait_for_variable_timeout(engine.0, variable, 1_000), Status::TimedOut, "'held'")
    };
    // SAFETY: as above.
    let of_all = || unsafe { refused(seriatim_wait_for_all_timeout(engine.0, 1_000), Status::TimedOut, "'held'") };
    let (mut in_time, mut seen) = ([false; 2], Vec::new());
    std::thread::scope(|scope| {
        (0..4).for_each(|_| {
            drop(scope.spawn(|| {
                while !over.load(Relaxed) {
                    std::hint::spin_loop()
                }
            }))
        });
        // Other processes take cores as well: a round that they disturb says nothing.
        for _ in 0..ROUNDS {
            let round = medians([&of_variable, &of_all, &plain]);
            (0..2).for_each(|kind| in_time[kind] |= round[kind] <= round[2] + SLACK);
            seen.push(round);
            if in_time == [true; 2] {
                break;
            }
        }
        over.store(true, Relaxed);
    });
    // SAFETY: the completion is used once.
    unsafe { ok(seriatim_completion_complete(probe.take_completion())) };
    assert_eq!(in_time, [true; 2], "[for a variable, for everything, for a condition variable] took {seen:?}");
}
