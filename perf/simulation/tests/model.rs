//! The model of the lines and of the machine: what is simple enough to be computed by hand comes
//! out so, to the nanosecond.

#![cfg(seriatim_simulation)]

use seriatim_sim::lines::{Lines, Parameters};
use seriatim_sim::machine::{causes, count_from_here, now, run, work};
use seriatim_sim::thread::{current, park, Builder, JoinHandle};
use seriatim_sim::{ask, touch, AtomicU64, Mutex, Ordering::*};
use seriatim_simulation::runs::{workload, How};
use std::sync::Arc;

/// Nothing costs anything but trips.
fn trips_only() -> Parameters {
    Parameters { hit: 0, locked: 0, fence: 0, pause: 1, spawn: 0, ..Parameters::default() }
}

/// A counter alone on its line.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64Default);

struct AtomicU64Default(AtomicU64);

impl Default for AtomicU64Default {
    fn default() -> Self {
        AtomicU64Default(AtomicU64::new(0))
    }
}

impl std::ops::Deref for Line {
    type Target = AtomicU64;
    fn deref(&self) -> &AtomicU64 {
        &self.0 .0
    }
}

fn start<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn(body).expect("a thread of the simulated machine")
}

fn clock() -> u64 {
    now().expect("inside a simulation")
}

/// Trips so far: lines that came, and copies that were made the only one.
fn trips() -> (u64, u64) {
    causes().iter().fold((0, 0), |(moved, upgraded), cause| (moved + cause.moved, upgraded + cause.upgraded))
}

#[test]
fn a_line_that_is_written_in_turn_by_two_costs_two_hops_a_round() {
    let parameters = Parameters::default();
    let mut lines = Lines::default();
    assert!(lines.hits(0, 7, true), "what nobody has had is no trip");
    let mut time = 0;
    for _ in 0..10 {
        for core in [1, 0] {
            assert!(!lines.hits(core, 7, true));
            time = lines.fetch(core, 7, true, time, &parameters).until;
            assert!(lines.hits(core, 7, true));
        }
    }
    assert_eq!(time, 10 * 2 * parameters.hop);
}

#[test]
fn what_perf_measures_as_a_hop_is_two_trips() {
    // `perf/src/machine.rs`: one looks until the number is its own, then stores the next. The look
    // brings the line, the store makes it the only copy.
    const ROUNDS: u64 = 100;
    let round = run(trips_only(), || {
        let ball = Arc::new(Line::default());
        let other = Arc::clone(&ball);
        let play = |ball: &Line, first: u64| {
            for turn in 0..ROUNDS {
                while ball.load(Acquire) != 2 * turn + first {
                    seriatim_sim::spin_loop();
                }
                ball.store(2 * turn + first + 1, Release);
            }
        };
        let thread = start(move || play(&other, 1));
        let before = clock();
        play(&ball, 0);
        let took = clock() - before;
        thread.join().expect("no panic");
        took / ROUNDS
    });
    assert!((395..=410).contains(&round), "{round} ns a round, of two hops of two trips each");
}

#[test]
fn a_line_that_is_only_read_comes_once() {
    let (times, moved) = run(trips_only(), || {
        let line = Arc::new(Line::default());
        line.store(1, Relaxed);
        count_from_here();
        let read = |line: Arc<Line>| {
            start(move || {
                let before = clock();
                (0..1000).for_each(|_| assert_eq!(line.load(Relaxed), 1));
                clock() - before
            })
        };
        let threads: Vec<_> = (0..4).map(|_| read(Arc::clone(&line))).collect();
        let times: Vec<u64> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        (times, trips())
    });
    // The first makes the writer share it; the others then get their copies side by side.
    assert_eq!(times, [100, 200, 200, 200]);
    assert_eq!(moved, (4, 0));
}

/// Who asks for a line early enough does not wait for it, and who asks late waits for the rest.
#[test]
fn a_line_that_was_asked_for_is_on_its_way_meanwhile() {
    for (early, expected) in [(0, 100), (60, 40), (100, 0), (500, 0)] {
        let waited = run(trips_only(), move || {
            let line = Arc::new(Line::default());
            line.store(1, Relaxed);
            let other = Arc::clone(&line);
            let reader = start(move || {
                ask(&**other);
                work(early);
                let before = clock();
                other.store(2, Relaxed);
                clock() - before
            });
            reader.join().expect("no panic")
        });
        assert_eq!(waited, expected, "asked for {early} ns before");
    }
}

#[test]
fn additions_to_one_line_follow_each_other() {
    const CORES: u64 = 8;
    const TIMES: u64 = 50;
    let (took, sum) = run(trips_only(), || {
        let line = Arc::new(Line::default());
        let add = |line: Arc<Line>| {
            start(move || {
                for _ in 0..TIMES {
                    line.fetch_add(1, Relaxed);
                    work(60);
                }
            })
        };
        let threads: Vec<_> = (0..CORES).map(|_| add(Arc::clone(&line))).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        (clock(), line.load(Relaxed))
    });
    assert_eq!(sum, CORES * TIMES);
    let alone = CORES * TIMES * 100;
    // Nobody waits for the first, and the last one works on.
    assert!((alone - 100..alone + 200).contains(&took), "{took} ns for {} additions", CORES * TIMES);
}

#[test]
fn additions_to_lines_apart_do_not_wait() {
    let took = run(trips_only(), || {
        let thread = || {
            start(|| {
                let line = Line::default();
                (0..1000).for_each(|_| _ = line.fetch_add(1, Relaxed));
            })
        };
        let threads: Vec<_> = (0..8).map(|_| thread()).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        clock()
    });
    assert_eq!(took, 0);
}

#[test]
fn a_row_comes_line_by_line_in_order_and_at_once_if_it_overlaps() {
    for (overlap, expected) in [(false, 400), (true, 100)] {
        let took = run(Parameters { overlap, ..trips_only() }, || {
            let row = Arc::new([Line::default(), Line::default()]);
            touch(&*row, 256, true);
            let other = Arc::clone(&row);
            let read = move || {
                let before = clock();
                touch(&*other, 256, false);
                clock() - before
            };
            start(read).join().expect("no panic")
        });
        assert_eq!(took, expected);
    }
}

#[test]
fn a_socket_away_is_farther() {
    let parameters = Parameters { socket: 4, ..Parameters::default() };
    let mut lines = Lines::default();
    assert!(lines.hits(0, 1, true));
    assert_eq!(lines.fetch(3, 1, true, 0, &parameters).until, parameters.hop);
    assert_eq!(lines.fetch(4, 1, true, 1000, &parameters).until, 1000 + parameters.far_hop);
    // A copy comes from the nearest; a write waits for the farthest.
    lines.fetch(0, 1, false, 2000, &parameters);
    assert_eq!(lines.fetch(1, 1, false, 3000, &parameters).until, 3000 + parameters.hop);
    let write = lines.fetch(1, 1, true, 4000, &parameters);
    assert_eq!((write.until, write.upgrade), (4000 + parameters.far_hop, true));
}

#[test]
fn sleepers_are_woken_and_a_wake_up_before_the_sleep_is_not_lost() {
    let parameters = Parameters { sleep: 0, ..trips_only() };
    let wake = parameters.wake;
    let (woken, at_once) = run(parameters, || {
        let (tell, hear) = std::sync::mpsc::channel();
        let sleeper = start(move || {
            let me = current();
            tell.send(me.clone()).expect("a listener");
            me.unpark();
            park();
            let early = clock();
            park();
            (early, clock())
        });
        work(1_000_000);
        seriatim_sim::machine::catch_up();
        hear.recv().expect("the sleeper sleeps by now").unpark();
        let (early, late) = sleeper.join().expect("no panic");
        (late, early)
    });
    assert_eq!(at_once, 0);
    assert_eq!(woken, 1_000_000 + wake);
}

#[test]
fn a_mutex_admits_one_at_a_time() {
    let sum = run(Parameters::default(), || {
        let value = Arc::new(Mutex::new(0_u64));
        let add = |value: Arc<Mutex<u64>>| {
            start(move || {
                for _ in 0..100 {
                    let mut value = value.lock().expect("no panic");
                    let before = *value;
                    work(50);
                    seriatim_sim::machine::catch_up();
                    *value = before + 1;
                }
            })
        };
        let threads: Vec<_> = (0..5).map(|_| add(Arc::clone(&value))).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        let sum = *value.lock().expect("no panic");
        sum
    });
    assert_eq!(sum, 500);
}

#[test]
#[should_panic(expected = "wait for each other")]
fn threads_that_nobody_wakes_are_noticed() {
    run(Parameters::default(), park);
}

#[test]
fn whoever_comes_first_the_engine_is_right_and_costs_alike() {
    // `workload` compares the result with that of a serial run.
    let lines = |seed: u64| {
        let machine = Parameters { seed, ..Parameters::default() };
        workload("stencil", 2000, How::Shipped, 3, 0, &machine).lines()
    };
    let all: Vec<f64> = (0..8).map(lines).collect();
    let (least, most) = all.iter().fold((f64::MAX, 0.0_f64), |(least, most), each| (least.min(*each), most.max(*each)));
    assert!(least > 1.0 && most < 2.0 * least, "{all:?}");
}

#[test]
fn a_pusher_that_runs_everything_moves_no_line() {
    let outcome = workload("random", 2000, How::Naive, 1, 0, &Parameters::default());
    assert_eq!(outcome.lines(), 0.0);
    let shipped = workload("random", 2000, How::Shipped, 1, 0, &Parameters::default());
    assert!(shipped.lines() > 5.0, "{}", shipped.lines());
}
