//! Operations of many engines that push to each other: the stack does not care whose they are.

use crate::common::*;
use seriatim::{Engine, ErrorKind, Kind, Property, RunContext};
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::Arc;
use std::time::Duration;

const STACK: usize = 2 << 20;

/// Pushes to one engine after the other, each push inside the operation of the one before.
fn pass_on(engines: &Arc<[Engine]>, left: u64, ran: &Arc<AtomicU64>) {
    let (next, count) = (Arc::clone(engines), Arc::clone(ran));
    let body = move |_: &RunContext<'_>| {
        count.fetch_add(1, SeqCst);
        if left > 1 {
            pass_on(&next, left - 1, &count);
        }
    };
    engines[left as usize % engines.len()].op("level").push(body).unwrap();
}

fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(STACK).spawn(test).unwrap().join().unwrap();
}

/// In processes of their own: a stack that overflows ends them.
#[test]
fn a_recursion_through_a_hundred_engines_fits_a_small_stack() {
    println!("{}", run_child_well(&mut child("hundred engines")));
}

pub fn hundred_engines() {
    let _watchdog = Watchdog::new(100, "a recursion through a hundred engines");
    const LEVELS: u64 = 10_000;
    let build = |number: u64, kinds: &[Kind]| {
        let kind = kinds[number as usize % kinds.len()];
        Engine::builder().kind(kind).cpu_workers(1).inline_below(Duration::from_millis(1)).build().unwrap()
    };
    for kinds in [&[Kind::Naive][..], &[Kind::Naive, Kind::PerDevice, Kind::Naive, Kind::Pooled]] {
        let count = if kinds.len() == 1 { 100 } else { 16 };
        let engines: Arc<[Engine]> = (0..count).map(|number| build(number, kinds)).collect();
        let all = kinds.iter().all(|kind| *kind == Kind::Naive);
        on_a_small_stack(move || {
            let ran = Arc::new(AtomicU64::new(0));
            // So that the workers' engines know their closures to be short.
            (0..20).for_each(|_| (0..engines.len() as u64).for_each(|level| pass_on(&engines, level + 1, &ran)));
            let expected = 20 * (1..=engines.len() as u64).sum::<u64>();
            eventually("all have run", || ran.load(SeqCst) == expected);
            let before = ran.load(SeqCst);
            pass_on(&engines, LEVELS, &ran);
            if all {
                assert_eq!(ran.load(SeqCst), before + LEVELS, "the outermost push has run what it owes");
            }
            eventually("every level has run", || ran.load(SeqCst) == before + LEVELS);
        });
    }
}

/// As deep as operations run inside each other; then `innermost`.
fn descend(outer: &Arc<[Engine]>, level: usize, innermost: Arc<dyn Fn() + Send + Sync>) {
    let next = Arc::clone(outer);
    let body = move |_: &RunContext<'_>| match level + 1 < next.len() {
        true => descend(&next, level + 1, Arc::clone(&innermost)),
        false => innermost(),
    };
    outer[level].op("level").push(body).unwrap();
}

/// What is owed to an engine runs before its thread waits for that engine, or for room in it, or
/// stops it.
#[test]
fn a_wait_deep_inside_other_engines_does_not_wait_for_its_own_thread() {
    const DEEP: usize = 32;
    let _watchdog = Watchdog::new(100, "a wait deep inside other engines");
    let naive = |bound| Engine::builder().kind(Kind::Naive).bound(bound).build().unwrap();
    let outer: Arc<[Engine]> = (0..DEEP).map(|_| naive(0)).collect();
    let (inner, full) = (naive(0), naive(1));
    let (ran, pushed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let innermost = {
        let (inner, full, ran, pushed) = (inner.clone(), full.clone(), Arc::clone(&ran), Arc::clone(&pushed));
        move || {
            let count = |engine: &Engine, variable| {
                let ran = Arc::clone(&ran);
                let step = move |_: &RunContext<'_>| _ = ran.fetch_add(1, SeqCst);
                engine.op("step").writes([variable]).push(step).unwrap();
                pushed.fetch_add(1, SeqCst);
            };
            let (x, y) = (inner.new_variable(), full.new_variable());
            count(&inner, x);
            assert!(ran.load(SeqCst) < pushed.load(SeqCst), "it was not as deep as that");
            inner.wait_for_var(x).unwrap();
            assert_eq!(ran.load(SeqCst), 1);
            count(&inner, x);
            inner.wait_for_all().unwrap();
            assert_eq!(ran.load(SeqCst), 2);
            count(&full, y);
            count(&full, y);
            count(&inner, x);
            inner.stop().unwrap();
            inner.start().unwrap();
        }
    };
    descend(&outer, 0, Arc::new(innermost));
    assert_eq!((ran.load(SeqCst), pushed.load(SeqCst)), (5, 5));
}

/// Operations of `workers` inside each other; the innermost pushes `last` to the naive engine.
fn nest(workers: &Engine, naive: &Engine, left: u32, last: Arc<dyn Fn() + Send + Sync>) {
    if left == 0 {
        naive.op("owed").push(move |_| last()).unwrap();
        return;
    }
    let (outer, inner) = (workers.clone(), naive.clone());
    let next = move |_: &RunContext<'_>| nest(&outer, &inner, left - 1, Arc::clone(&last));
    workers.op("nested").property(Property::Async).push(next).unwrap();
}

/// What a thread was too deep to run, it runs when its outermost operation has ended. That still
/// counts as inside: what it pushes there other workers find, and it may not wait.
#[test]
fn what_was_too_deep_runs_as_if_it_were_still_inside() {
    let _watchdog = Watchdog::new(100, "what was too deep");
    for levels in [3, 31] {
        let workers = Engine::builder().cpu_workers(2).pin(false).waiters_help(false).build().unwrap();
        let naive = Engine::builder().kind(Kind::Naive).build().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let (tell, outer) = (std::sync::Mutex::new(tell), workers.clone());
        let last = move || {
            let (ran, has_run) = std::sync::mpsc::channel();
            // A priority, so that it goes the long way.
            outer.op("other").priority(1).push(move |_| _ = ran.send(())).unwrap();
            let other = has_run.recv_timeout(Duration::from_secs(10));
            let y = outer.new_variable();
            let waited = outer.wait_for_var_timeout(y, Duration::from_secs(1)).map_err(|error| error.kind());
            // If the wait was let through, a stop would wait for this very thread.
            let is_inside = waited == Err(ErrorKind::WaitInsideOperation);
            let stopped = if is_inside { outer.stop().map_err(|error| error.kind()) } else { waited };
            tell.lock().unwrap().send((other, waited, stopped)).unwrap();
        };
        let (outer, inner, last) = (workers.clone(), naive.clone(), Arc::new(last));
        workers.op("outermost").push(move |_| nest(&outer, &inner, levels, last)).unwrap();
        let refused = Err(ErrorKind::WaitInsideOperation);
        assert_eq!(told.recv().unwrap(), (Ok(()), refused, refused), "{levels} levels");
    }
}
