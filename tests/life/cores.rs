//! Which cores threads run on: workers not on that of the thread which starts them, and who waits not on that of a worker.

use seriatim::{Engine, Kind, RunContext};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The cores that this process may use.
fn cores() -> Vec<usize> {
    core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect()
}

fn stand_on(core: usize) -> bool {
    core_affinity::set_for_current(core_affinity::CoreId { id: core })
}

/// The core that the calling thread runs on.
fn current() -> usize {
    // SAFETY: takes nothing and changes nothing.
    unsafe { libc::sched_getcpu() as usize }
}

/// Lets the calling thread run on these cores; it stays where it is until the system moves it.
fn may_run_on(cores: &[usize]) {
    // SAFETY: the set is plain bits, of the size that the call is told.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cores.iter().for_each(|core| libc::CPU_SET(*core, &mut set));
        assert_eq!(libc::sched_setaffinity(0, std::mem::size_of_val(&set), &raw const set), 0);
    }
}

#[test]
fn workers_leave_the_core_of_the_thread_that_starts_them() {
    let all = cores();
    if all.len() < 2 {
        return; // There is no other core.
    }
    for core in &all {
        let (all, core) = (all.clone(), *core);
        let check = move || {
            assert!(stand_on(core));
            let builder = Engine::builder().kind(Kind::PerDevice).cpu_workers(all.len() - 1).cores(all.iter().copied());
            let engine = builder.waiters_help(false).build().unwrap();
            let here = Arc::new(AtomicUsize::new(0));
            for _ in 0..100 {
                let count = Arc::clone(&here);
                let body = move |run: &RunContext<'_>| {
                    assert!(run.worker().is_some());
                    count.fetch_add(usize::from(current() == core), SeqCst);
                };
                engine.op("").push(body).unwrap();
            }
            engine.wait_for_all().unwrap();
            assert_eq!(engine.warnings(), Vec::<String>::new());
            assert_eq!(here.load(SeqCst), 0, "operations ran on core {core}, where the pusher is");
        };
        std::thread::spawn(check).join().expect("no operation shares the pusher's core");
    }
}

/// Has a thread wait for a worker that is pinned to the core where it stands, again and again; says how often it was there afterwards.
fn waits_on_the_core_of_a_worker(helps: bool, wait: fn(&Engine)) {
    const ROUNDS: usize = 40;
    let all = cores();
    if all.len() < 2 {
        return; // There is no other core.
    }
    let (home, busy) = (all[0], all[1]);
    let check = move || {
        // The worker comes on the core behind this one.
        assert!(stand_on(home));
        let builder = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).cores(all.iter().copied());
        let engine = builder.waiters_help(helps).build().unwrap();
        engine.op("").push(|_| ()).unwrap();
        engine.wait_for_all().unwrap();
        let mut shared = 0;
        for _ in 0..ROUNDS {
            assert!(stand_on(busy));
            may_run_on(&all);
            let beside = Arc::new(AtomicUsize::new(0));
            for _ in 0..8 {
                let count = Arc::clone(&beside);
                let body = move |run: &RunContext<'_>| {
                    count.fetch_add(usize::from(run.worker().is_none() && current() == busy), SeqCst);
                    let start = Instant::now();
                    while start.elapsed() < Duration::from_micros(100) {}
                };
                engine.op("").push(body).unwrap();
            }
            wait(&engine);
            let stayed = current() == busy;
            shared += usize::from(if helps { beside.load(SeqCst) > 0 } else { stayed });
        }
        // The system may put it back, where other processes use the cores as well.
        assert!(shared < ROUNDS / 2, "in {shared} of {ROUNDS} rounds it was on the worker's core");
    };
    std::thread::spawn(check).join().expect("it moves");
}

#[test]
fn who_waits_and_helps_leaves_the_core_of_a_worker() {
    waits_on_the_core_of_a_worker(true, |engine| engine.wait_for_all().unwrap());
}

#[test]
fn who_only_waits_leaves_the_core_of_a_worker() {
    waits_on_the_core_of_a_worker(false, |engine| engine.wait_for_all().unwrap());
}

#[test]
fn who_waits_for_a_variable_leaves_the_core_of_a_worker() {
    waits_on_the_core_of_a_worker(false, |engine| {
        let variable = engine.new_variable();
        engine.op("").writes([variable]).push(|_| std::thread::sleep(Duration::from_millis(5))).unwrap();
        engine.wait_for_var(variable).unwrap();
    });
}
