//! What `Engine::stats` counts.

use crate::common::*;
use seriatim::{Engine, IdlePolicy, Kind, Stats};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

fn one_worker() -> seriatim::Builder {
    Engine::builder().kind(Kind::PerDevice).cpu_workers(1).pin(false).waiters_help(false)
}

/// What the workers of the processor have counted together.
fn sum(stats: &Stats, of: fn(&seriatim::WorkerStats) -> u64) -> u64 {
    stats.workers.iter().filter(|worker| worker.group == "seriatim-cpu").map(of).sum()
}

#[test]
fn what_is_in_flight_is_ready_or_runs_or_waits() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let held = hold(&engine, &[], &[x]);
        (0..3).for_each(|_| engine.op("waits").reads([x]).push(nothing).unwrap());
        let stats = engine.stats();
        assert_eq!((stats.in_flight, stats.running, stats.ready), (4, 1, 0), "{stats}");
        // Also where a push was tried inside, found the variable busy, and went another way.
        assert_eq!((stats.pushed, stats.completed), (4, 0), "{stats}");
        held.complete();
        engine.wait_for_all().unwrap();
        let stats = engine.stats();
        assert_eq!((stats.in_flight, stats.running, stats.ready), (0, 0, 0), "{stats}");
        assert_eq!((stats.pushed, stats.completed), (4, 4), "{stats}");
    });
}

#[test]
fn what_lacks_nothing_but_a_thread_is_ready() {
    let engine = one_worker().build().unwrap();
    let (x, gate) = (engine.new_variable(), Gate::new());
    let here = gate.clone();
    engine.op("gate").push(move |_| here.pass()).unwrap();
    gate.wait_for_someone();
    (0..5).for_each(|_| engine.op("ready").push(nothing).unwrap());
    engine.op("first").writes([x]).push(nothing).unwrap();
    (0..3).for_each(|_| engine.op("behind").writes([x]).push(nothing).unwrap());
    let stats = engine.stats();
    assert_eq!((stats.in_flight, stats.running, stats.ready), (10, 1, 6), "{stats}");
    gate.open();
    engine.wait_for_all().unwrap();
}

/// An operation that runs inside its push has no block.
#[test]
fn what_runs_inside_its_push_runs() {
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    let own = engine.clone();
    engine
        .op("looks")
        .push(move |_| {
            let stats = own.stats();
            assert_eq!((stats.running, stats.ready, stats.workers.len()), (1, 0, 0), "{stats}");
        })
        .unwrap();
    engine.wait_for_all().unwrap();
}

#[test]
fn a_worker_is_busy_while_it_has_something_to_run() {
    const LONG: Duration = Duration::from_millis(60);
    let engine = one_worker().cpu_workers(2).build().unwrap();
    engine.prepare().unwrap();
    // What `prepare` has pushed has kept them busy as well.
    engine.wait_for_all().unwrap();
    let before = engine.stats();
    engine.op("long").push(|_| std::thread::sleep(LONG)).unwrap();
    engine.wait_for_all().unwrap();
    let stats = engine.stats().since(&before);
    let mut busy: Vec<Duration> = stats.workers.iter().map(|worker| worker.busy).collect();
    busy.sort_unstable();
    let [rest @ .., most] = &busy[..] else { panic!("{stats}") };
    assert!(*most >= LONG - Duration::from_millis(5), "{stats}");
    assert!(rest.iter().all(|other| *other < LONG / 2), "{stats}");
    for worker in &stats.workers {
        let all = worker.busy + worker.idle;
        assert!(all.abs_diff(stats.time) < Duration::from_millis(20), "{worker:?} in {:?}", stats.time);
        assert!((0.0..=1.0).contains(&worker.busy_share()), "{worker:?}");
    }
    assert!(stats.busy_share() > 0.0 && stats.busy_share() < 0.5, "{stats}");
}

#[test]
fn a_stopped_worker_is_idle() {
    let engine = one_worker().build().unwrap();
    engine.op("work").push(nothing).unwrap();
    engine.stop().unwrap();
    let before = engine.stats();
    std::thread::sleep(Duration::from_millis(10));
    let stats = engine.stats().since(&before);
    assert!(stats.workers.iter().all(|worker| worker.busy.is_zero()), "{stats}");
    engine.start().unwrap();
    engine.op("work").push(nothing).unwrap();
    engine.wait_for_all().unwrap();
}

#[test]
fn parks_and_what_ends_them_are_counted() {
    const PUSHES: u64 = 20;
    let engine = one_worker().idle(IdlePolicy::Park).build().unwrap();
    engine.prepare().unwrap();
    let before = engine.stats();
    for number in 0..PUSHES {
        eventually("the worker parks", || {
            let stats = engine.stats().since(&before);
            // It has parked once more than it was woken.
            sum(&stats, |worker| worker.wake_ups) >= number
                && sum(&engine.stats(), |worker| worker.parks) > sum(&engine.stats(), |worker| worker.wake_ups)
        });
        engine.op("wakes").push(nothing).unwrap();
        engine.wait_for_all().unwrap();
    }
    eventually("the last wake-up is counted", || {
        sum(&engine.stats().since(&before), |worker| worker.wake_ups) >= PUSHES
    });
    let stats = engine.stats();
    assert!(sum(&stats, |worker| worker.wake_ups) <= sum(&stats, |worker| worker.parks), "{stats}");
}

/// The worker of half of the logs stands in a long operation.
#[test]
fn thefts_are_counted() {
    let engine = one_worker().cpu_workers(2).build().unwrap();
    let gate = Gate::new();
    let here = gate.clone();
    engine.op("gate").push(move |_| here.pass()).unwrap();
    gate.wait_for_someone();
    let x = engine.new_variable();
    let before = engine.stats();
    for _ in 0..200 {
        engine.op("behind").reads([x]).push(nothing).unwrap();
    }
    engine.wait_until_unused(x).unwrap();
    let stats = engine.stats().since(&before);
    assert!(sum(&stats, |worker| worker.steals) > 0, "{stats}");
    gate.open();
    engine.wait_for_all().unwrap();
}

#[test]
fn the_pool_grows_with_what_is_in_flight_and_is_kept() {
    let engine = one_worker().build().unwrap();
    let x = engine.new_variable();
    let held = hold(&engine, &[], &[x]);
    let before = engine.stats().pool;
    (0..5_000).for_each(|_| engine.op("behind").writes([x]).push(nothing).unwrap());
    let full = engine.stats().pool;
    assert!(full.blocks >= before.blocks + 4_000 && full.bytes >= full.blocks * 128, "{before:?} {full:?}");
    (0..100).for_each(|_| _ = engine.new_variable());
    held.complete();
    engine.wait_for_all().unwrap();
    let after = engine.stats().pool;
    assert!(after.blocks >= full.blocks && after.variables >= full.variables + 100, "{full:?} {after:?}");
    assert!(after.threads >= 2, "this one and the worker: {after:?}");
}

/// Numbers that are looked at while they change stay in their order.
#[test]
fn looks_beside_pushes_find_numbers_that_go_together() {
    let pushes = by_length(30_000, 300_000);
    let engine = one_worker().build().unwrap();
    let before = engine.stats();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let x = engine.new_variable();
            (0..pushes).for_each(|_| engine.op("passes").writes([x]).push(nothing).unwrap());
            engine.wait_for_var(x).unwrap();
            done.store(true, SeqCst);
        });
        let mut last = before.clone();
        while !done.load(SeqCst) {
            let now = engine.stats();
            // Both threads may be in the middle of a push or a wait.
            assert!(now.completed + 2 >= last.completed && now.pushed + 2 >= last.pushed, "{last} {now}");
            assert!(now.completed <= now.pushed, "{now}");
            for (worker, earlier) in now.workers.iter().zip(&last.workers) {
                assert!(worker.busy + worker.idle >= earlier.busy + earlier.idle, "{worker:?} {earlier:?}");
                assert!(worker.wake_ups <= worker.parks + 1 && worker.steals >= earlier.steals, "{worker:?}");
            }
            last = now;
        }
    });
    let stats = engine.stats().since(&before);
    assert!(stats.completed >= pushes && stats.in_flight == 0, "{stats}");
}

#[test]
fn stats_show_themselves_as_a_table() {
    let engine = one_worker().priority_workers(1).build().unwrap();
    engine.op("work").push(nothing).unwrap();
    engine.wait_for_all().unwrap();
    let text = engine.stats().to_string();
    for part in ["completed", "in flight", "blocks", "seriatim-cpu-0", "seriatim-prio-0", "seriatim-io-0", "wake-ups"] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
    assert_eq!(text.lines().count(), 3 + 1 + 3, "{text}");
}
