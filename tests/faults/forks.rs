//! Forks of a process in which other threads push, and forks after which threads are refused.

use crate::common::*;
use crate::refusals::*;
use seriatim::{Engine, ErrorKind, Kind, Property, Variable};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::time::{Duration, Instant};

const FORKS: usize = 20;
/// For engines that must work in the child, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_fork_while_other_threads_push_leaves_working_engines_on_both_sides() {
    for kind in ["naive", "pooled", "per-device"] {
        run_child_well(child("fork under load").env("TEST_CHILD_KIND", kind));
    }
}

pub fn fork_under_load() {
    let kind: Kind = std::env::var("TEST_CHILD_KIND").unwrap().parse().unwrap();
    let engine = Engine::builder().kind(kind).cpu_workers(2).fork_patience(PATIENCE).build().unwrap();
    let shared: Vec<Variable> = (0..4).map(|_| engine.new_variable()).collect();
    let (ran, pushed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let done = Arc::new(AtomicBool::new(false));
    let pushers: Vec<_> = (0..2)
        .map(|own| {
            let (engine, shared, done) = (engine.clone(), shared.clone(), Arc::clone(&done));
            let (ran, pushed) = (Arc::clone(&ran), Arc::clone(&pushed));
            std::thread::spawn(move || {
                let mut random = Random(own);
                while !done.load(Relaxed) {
                    let property = random.pick(&[Property::Normal, Property::CpuPrioritized, Property::CopyToGpu]);
                    let builder = engine.op("step").reads([random.pick(&shared)]).writes([random.pick(&shared)]);
                    builder.property(property).push(counting(&ran)).unwrap();
                    pushed.fetch_add(1, SeqCst);
                    while pushed.load(SeqCst) > ran.load(SeqCst) + 1_000 && !done.load(Relaxed) {
                        std::thread::yield_now();
                    }
                }
            })
        })
        .collect();
    for round in 0..FORKS {
        let before = pushed.load(SeqCst);
        eventually("they push", || pushed.load(SeqCst) > before + 50);
        fork_and(|| {
            let _watchdog = Watchdog::new(60, "the child of a fork");
            engine.wait_for_all().unwrap();
            let (inherited, own) = (ran.load(SeqCst), 200);
            for number in 0..own {
                let builder = engine.op("child").reads([shared[number % 4]]).writes([shared[(number + round) % 3]]);
                builder.push(counting(&ran)).unwrap();
            }
            shared.iter().for_each(|variable| engine.wait_for_var(*variable).unwrap());
            engine.wait_for_all().unwrap();
            assert_eq!(ran.load(SeqCst), inherited + own);
            engine.stop().unwrap();
            engine.start().unwrap();
            engine.op("again").writes([shared[0]]).push(counting(&ran)).unwrap();
            engine.wait_for_var(shared[0]).unwrap();
            // The end of an engine of which other threads, that are gone, had handles.
            let fresh = Engine::builder().kind(kind).cpu_workers(1).build().unwrap();
            fresh.op("fresh").push(nothing).unwrap();
            drop(fresh);
        });
    }
    done.store(true, SeqCst);
    pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
    engine.wait_for_all().unwrap();
    assert_eq!(ran.load(SeqCst), pushed.load(SeqCst), "no fork has lost an operation of the parent");
}

#[test]
fn threads_that_are_refused_after_a_fork_are_an_error_of_the_next_push() {
    for kind in ["pooled", "per-device"] {
        run_child_well(child("fork refused").env("TEST_CHILD_KIND", kind));
    }
}

pub fn fork_with_refused_threads() {
    let kind: Kind = std::env::var("TEST_CHILD_KIND").unwrap().parse().unwrap();
    let engine = Engine::builder().kind(kind).cpu_workers(3).fork_patience(PATIENCE).build().unwrap();
    let x = engine.new_variable();
    let mut version = 0;
    let write = || engine.op("write").writes([x]).push(nothing);
    for point in 0..3 {
        write().unwrap();
        version += 1;
        // One refusal when the fork brings the threads back, one at the push after it, on each
        // side.
        refuse_after(point, 2);
        let refused_then_well = || {
            assert_eq!(refusals_left(), 1, "the first was the fork's");
            assert_says(&write().unwrap_err(), ErrorKind::ThreadRefused, &["refused to start worker"]);
            write().unwrap();
            engine.wait_for_var_timeout(x, Duration::from_secs(30)).unwrap();
            assert_eq!(engine.version(x).unwrap(), version + 1);
        };
        fork_and(refused_then_well);
        refused_then_well();
        version += 1;
    }
}

#[test]
fn a_fork_waits_for_closures_that_go_on_after_their_completion() {
    for kind in ["pooled", "per-device"] {
        run_child_well(child("fork beside closures that go on").env("TEST_CHILD_KIND", kind));
    }
}

/// What such a closure pushes starts threads if there are none, and the fork that ends them waits
/// for the closure.
pub fn fork_beside_closures_that_go_on() {
    let _watchdog = Watchdog::new(90, "a fork beside a closure that pushes");
    let kind: Kind = std::env::var("TEST_CHILD_KIND").unwrap().parse().unwrap();
    let engine =
        Engine::builder().kind(kind).cpu_workers(1).waiters_help(false).fork_patience(PATIENCE).build().unwrap();
    let x = engine.new_variable();
    let (ran, returns) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    for round in 0..3 {
        returns.store(false, SeqCst);
        let (inner, own, done) = (engine.clone(), Arc::clone(&ran), Arc::clone(&returns));
        let goes_on = move |_: &seriatim::RunContext<'_>, completion: seriatim::Completion| {
            completion.complete();
            std::thread::sleep(Duration::from_millis(100));
            inner.op("inner").writes([x]).push(counting(&own)).unwrap();
            done.store(true, SeqCst);
        };
        engine.op("goes on").writes([x]).push_async(goes_on).unwrap();
        engine.wait_for_all().unwrap();
        fork_and(|| {
            assert!(returns.load(SeqCst), "the process forked in the middle of the closure");
            // Two of each round: of the operation, and of what its closure has pushed.
            assert_eq!(engine.version(x).unwrap(), 2 * (round + 1), "what the closure has pushed has run");
            engine.op("child").writes([x]).push(counting(&ran)).unwrap();
            engine.wait_for_var_timeout(x, Duration::from_secs(30)).unwrap();
            engine.stop().unwrap();
        });
        assert!(returns.load(SeqCst));
        engine.wait_for_all().unwrap();
    }
    assert_eq!(ran.load(SeqCst), 3);
}

#[test]
fn a_fork_beside_long_operations_takes_its_patience_once() {
    run_child_well(&mut child("fork beside long operations"));
}

/// Four engines that are busy for longer than a fork waits; one that is not waited for; and one
/// that is idle.
pub fn fork_beside_long_operations() {
    const LIMIT: Duration = Duration::from_secs(2);
    let with = |patience| Engine::builder().cpu_workers(1).fork_patience(patience).build().unwrap();
    let patient: Vec<Engine> = (0..4).map(|_| with(LIMIT)).collect();
    let (hasty, idle) = (with(Duration::ZERO), with(PATIENCE));
    let busy: Vec<&Engine> = patient.iter().chain([&hasty]).collect();
    let variables: Vec<Variable> = busy.iter().map(|engine| engine.new_variable()).collect();
    let start = Instant::now();
    let owed: Vec<_> = busy.iter().zip(&variables[..4]).map(|(engine, x)| hold(engine, &[], &[*x])).collect();
    fork_and(|| works(&idle));
    assert!(start.elapsed() >= LIMIT, "the engines were not waited for");
    assert!(
        start.elapsed() < 4 * LIMIT,
        "a fork beside four busy engines took {:?}: one after the other",
        start.elapsed()
    );
    owed.into_iter().for_each(|completion| completion.complete());
    busy.iter().for_each(|engine| engine.wait_for_all().unwrap());
    // Only one that is not waited for is busy.
    let owed = hold(&hasty, &[], &[variables[4]]);
    let start = Instant::now();
    fork_and(|| {
        let waited = start.elapsed();
        works(&idle);
        patient.iter().for_each(works);
        assert!(waited < LIMIT, "the fork waited {waited:?} for an engine without patience");
    });
    owed.complete();
    works(&hasty);
}

fn works(engine: &Engine) {
    let (x, ran) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)));
    (0..10).for_each(|_| engine.op("step").writes([x]).push(counting(&ran)).unwrap());
    engine.wait_for_var(x).unwrap();
    assert_eq!(ran.load(SeqCst), 10);
}

#[test]
fn pushes_beside_a_fork_wait_no_longer_than_its_patience() {
    run_child_well(&mut child("pushes beside a fork"));
}

pub fn pushes_beside_a_fork() {
    const LIMIT: Duration = Duration::from_millis(300);
    // The more patient one is made first.
    let other = Engine::builder().cpu_workers(1).fork_patience(10 * LIMIT).build().unwrap();
    let engine = Engine::builder().cpu_workers(1).fork_patience(LIMIT).build().unwrap();
    let (owed, slow) = (hold(&engine, &[], &[engine.new_variable()]), hold(&other, &[], &[other.new_variable()]));
    let done = Arc::new(AtomicBool::new(false));
    let pusher = std::thread::spawn({
        let (engine, done) = (engine.clone(), Arc::clone(&done));
        move || {
            let mut longest = Duration::ZERO;
            while !done.load(Relaxed) {
                let start = Instant::now();
                engine.op("step").push(nothing).unwrap();
                longest = longest.max(start.elapsed());
                std::thread::sleep(Duration::from_micros(100));
            }
            longest
        }
    });
    fork_and(|| ());
    done.store(true, Relaxed);
    let longest = pusher.join().unwrap();
    assert!(longest < 8 * LIMIT, "a push waited {longest:?}, also for an engine that it has nothing to do with");
    owed.complete();
    slow.complete();
    engine.wait_for_all().unwrap();
}

#[test]
fn an_engine_that_was_busy_says_in_the_child_what_to_do() {
    run_child_well(&mut child("fork beside a busy engine"));
}

pub fn fork_beside_a_busy_engine() {
    let engine = Engine::builder().cpu_workers(1).fork_patience(Duration::from_millis(5)).build().unwrap();
    let x = engine.new_variable();
    let owed = hold(&engine, &[], &[x]);
    fork_and(|| {
        let _watchdog = Watchdog::new(90, "the child of a fork beside a busy engine");
        let parts =
            ["was forked while operations of this engine were in flight", "make another engine", "fork_patience"];
        let long = Duration::from_secs(100);
        for error in [
            engine.op("late").writes([x]).push(nothing).unwrap_err(),
            engine.start().unwrap_err(),
            engine.wait_for_var(x).unwrap_err(),
            engine.wait_for_var_timeout(x, long).unwrap_err(),
            engine.wait_for_all().unwrap_err(),
            engine.wait_for_all_timeout(long).unwrap_err(),
        ] {
            assert_says(&error, ErrorKind::Stopped, &parts);
        }
        // And if the child forks in its turn it does not wait for what will never end.
        fork_and(|| works(&Engine::builder().cpu_workers(1).build().unwrap()));
    });
    owed.complete();
    works(&engine);
}

#[test]
fn a_fork_waits_for_operations_that_push_to_each_other_s_engines() {
    run_child_well(&mut child("fork beside crossing pushes"));
}

pub fn fork_beside_crossing_pushes() {
    let with = || Engine::builder().cpu_workers(1).waiters_help(false).fork_patience(PATIENCE).build().unwrap();
    let (one, two) = (with(), with());
    let ran = Arc::new(AtomicUsize::new(0));
    for round in 1..=10 {
        // Each begins before the fork, and pushes to the other engine when that has been asked.
        for (own, other) in [(&one, &two), (&two, &one)] {
            let (other, count, begun) = (other.clone(), counting(&ran), Gate::new());
            let here = begun.clone();
            let crosses = move |_: &seriatim::RunContext<'_>| {
                here.pass();
                std::thread::sleep(Duration::from_millis(5));
                other.op("crosses").push(count.clone()).unwrap();
            };
            own.op("pushes").push(crosses).unwrap();
            begun.wait_for_someone();
            begun.open();
        }
        let start = Instant::now();
        fork_and(|| {
            let _watchdog = Watchdog::new(90, "the child of a fork beside crossing pushes");
            works(&one);
            works(&two);
        });
        assert!(start.elapsed() < PATIENCE, "the operations held each other up");
        [&one, &two].iter().for_each(|engine| engine.wait_for_all().unwrap());
        assert_eq!(ran.load(SeqCst), 2 * round);
    }
}
