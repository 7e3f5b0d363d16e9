//! Forks beside threads that use an engine without pushing: whatever they are in the middle of,
//! they are gone in the child, and must not hold it up.

use crate::common::*;
use seriatim::{Context, Engine, ErrorKind, Kind, Name};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::time::Duration;

const FORKS: usize = 25;
/// For engines that must work in the child, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(30);

/// What another thread does over and over.
type Use = fn(&Engine);

const USES: [(&str, Use); 10] = [
    ("draws the graph", |engine| drop(engine.dump_dot())),
    ("waits for a variable", |engine| engine.wait_for_var(engine.new_variable()).unwrap()),
    ("waits for a variable with a mark", |engine| {
        let x = engine.new_variable();
        engine.op("fails").writes([x]).push(|_| Err("as it was meant to")).unwrap();
        engine.wait_for_var(x).unwrap_err();
        engine.delete_variable(|_| (), Context::cpu(0), x).unwrap();
    }),
    ("waits for everything", |engine| engine.wait_for_all().unwrap()),
    ("makes and deletes variables", |engine| {
        engine.delete_variable(|_| (), Context::cpu(0), engine.new_variable()).unwrap();
    }),
    ("names operations", |_| {
        let _ = Name::from("named".to_owned());
    }),
    ("names variables", |engine| {
        let x = engine.new_variable();
        engine.name_variable(x, "named").unwrap();
        assert!(format!("{x:?}").contains("named"));
        engine.delete_variable(|_| (), Context::cpu(0), x).unwrap();
    }),
    ("looks at the numbers", |engine| drop(engine.stats())),
    ("asks for warnings", |engine| drop(engine.warnings())),
    ("stops and starts", |engine| {
        engine.stop().unwrap();
        std::thread::sleep(Duration::from_micros(100));
        engine.start().unwrap();
        std::thread::sleep(Duration::from_micros(100));
    }),
];

#[test]
fn a_fork_beside_a_thread_that_does_not_push_leaves_working_engines_on_both_sides() {
    for kind in ["naive", "pooled", "per-device"] {
        run_child_well(child("fork beside uses").env("TEST_CHILD_KIND", kind));
    }
}

pub fn fork_beside_uses() {
    let kind: Kind = std::env::var("TEST_CHILD_KIND").unwrap().parse().unwrap();
    for (what, act) in USES {
        let engine = Engine::builder().kind(kind).cpu_workers(1).fork_patience(PATIENCE).build().unwrap();
        let (done, acted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let other = std::thread::spawn({
            let (engine, done, acted) = (engine.clone(), Arc::clone(&done), Arc::clone(&acted));
            move || {
                while !done.load(Relaxed) {
                    act(&engine);
                    acted.fetch_add(1, SeqCst);
                }
            }
        });
        for _ in 0..FORKS {
            let before = acted.load(SeqCst);
            eventually("the other thread is at it", || acted.load(SeqCst) > before + 1);
            fork_and(|| {
                let _watchdog = Watchdog::new(90, format!("the child of a fork beside a thread that {what}"));
                works(&engine);
            });
        }
        done.store(true, SeqCst);
        other.join().unwrap();
        works(&engine);
    }
}

fn works(engine: &Engine) {
    let (x, ran) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)));
    // A failure that the other thread was about to take.
    drop(engine.wait_for_all());
    for round in 1..=2 {
        // In the first round the other thread may have stopped it.
        engine.start().unwrap();
        (0..100).for_each(|_| engine.op("step").writes([x]).push(counting(&ran)).unwrap());
        engine.wait_for_var(x).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), round * 100);
        // This waits until nobody is pinned.
        engine.stop().unwrap();
    }
    engine.start().unwrap();
    assert_eq!(engine.warnings(), [] as [String; 0]);
    assert_eq!(Name::from("named".to_owned()).as_str(), "named");
    engine.name_variable(x, "named").unwrap();
    assert_eq!((engine.variable_name(x), engine.stats().in_flight), (Some("named"), 0));
}

#[test]
fn what_other_threads_would_have_pushed_takes_no_room_in_the_child() {
    run_child_well(&mut child("fork beside pushers that found room"));
}

/// Pushers that have counted themselves in and then find that a fork is under way wait with their
/// place taken.
pub fn fork_beside_counted_pushers() {
    const BOUND: usize = 2;
    let engine =
        Engine::builder().kind(Kind::PerDevice).cpu_workers(1).bound(BOUND).fork_patience(PATIENCE).build().unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let pushers: Vec<_> = (0..4)
        .map(|_| {
            let (engine, done) = (engine.clone(), Arc::clone(&done));
            std::thread::spawn(move || {
                while !done.load(Relaxed) {
                    engine.op("step").push(nothing).unwrap();
                }
            })
        })
        .collect();
    for _ in 0..FORKS {
        fork_and(|| {
            let _watchdog = Watchdog::new(90, "the child of a fork beside pushers");
            (0..10 * BOUND).for_each(|_| engine.op("step").push(nothing).unwrap());
            engine.wait_for_all().unwrap();
        });
    }
    done.store(true, SeqCst);
    pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
    engine.wait_for_all().unwrap();
}

#[test]
fn an_engine_that_a_fork_has_cut_off_says_so_and_can_be_dropped() {
    run_child_well(&mut child("fork of what cannot be stopped"));
}

pub fn fork_of_what_cannot_be_stopped() {
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).build().unwrap();
    let owed = hold(&engine, &[], &[engine.new_variable()]);
    // Waits for the operation, and so keeps the fork from stopping the engine itself.
    let stopper = engine.clone();
    let stopper = std::thread::spawn(move || stopper.stop().unwrap());
    eventually("the stop has begun", || engine.op("late").push(nothing).is_err());
    fork_and(|| {
        let _watchdog = Watchdog::new(90, "the child of a fork in the middle of a stop");
        engine.stop().unwrap();
        assert_says(&engine.start().unwrap_err(), seriatim::ErrorKind::Stopped, &["forked", "make another engine"]);
        engine.wait_for_all_timeout(Duration::from_millis(10)).unwrap_err();
        // The last handle that this process can drop.
        drop(engine.clone());
    });
    owed.complete();
    stopper.join().unwrap();
    works(&engine);
}

#[test]
fn a_fork_inside_an_operation_does_not_wait_for_a_thread_that_was_alone() {
    run_child_well(&mut child("fork inside beside one that is alone"));
}

/// The engine is cut off in the child, and the thread that was the only one to look at variables is
/// gone in the middle of doing so. The one that forks has not looked yet.
pub fn fork_inside_beside_one_that_is_alone() {
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    let (x, y) = (engine.new_variable(), engine.new_variable());
    let done = Arc::new(AtomicBool::new(false));
    let (inner, over) = (engine.clone(), Arc::clone(&done));
    let owed = hold(&engine, &[], &[y]);
    let forks = move |_: &seriatim::RunContext<'_>| {
        for _ in 0..FORKS {
            std::thread::sleep(Duration::from_millis(1));
            fork_and(|| {
                let _watchdog = Watchdog::new(90, "the child of a fork beside a thread that is alone");
                let refused = inner.op("refused").writes([x]).push(nothing);
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::Stopped);
            });
        }
        over.store(true, SeqCst);
    };
    engine.op("forks").writes([y]).push(forks).unwrap();
    let other = std::thread::spawn(move || owed.complete());
    while !done.load(Relaxed) {
        engine.op("step").writes([x]).push(nothing).unwrap();
    }
    other.join().unwrap();
    engine.wait_for_all().unwrap();
}
