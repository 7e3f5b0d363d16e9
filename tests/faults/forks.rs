//! Forks of a process in which other threads push, and forks after which threads are refused.

use crate::common::*;
use crate::refusals::*;
use seriatim::{Engine, ErrorKind, Kind, Property, Variable};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::time::Duration;

const FORKS: usize = 20;

#[test]
fn a_fork_while_other_threads_push_leaves_working_engines_on_both_sides() {
    for kind in ["naive", "pooled", "per-device"] {
        run_child_well(child("fork under load").env("TEST_CHILD_KIND", kind));
    }
}

pub fn fork_under_load() {
    let kind: Kind = std::env::var("TEST_CHILD_KIND").unwrap().parse().unwrap();
    let engine = Engine::builder().kind(kind).cpu_workers(2).build().unwrap();
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
            fresh.op("fresh").push(|_| ()).unwrap();
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
    let engine = Engine::builder().kind(kind).cpu_workers(3).build().unwrap();
    let x = engine.new_variable();
    let mut version = 0;
    let write = || engine.op("write").writes([x]).push(|_| ());
    for point in 0..3 {
        write().unwrap();
        version += 1;
        // One refusal when the fork brings the threads back, one at the push after it, on each side.
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
