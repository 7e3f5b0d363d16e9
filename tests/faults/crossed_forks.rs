//! Forks of several threads at once, and forks beside threads and operations that go on meanwhile.

use crate::common::*;
use seriatim::{Engine, Kind, RunContext};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{mpsc, Arc, Barrier};
use std::time::{Duration, Instant};

const FORKS: usize = 20;
/// Of a fork that an operation keeps waiting: the fork has begun by then.
const BEGUN: Duration = Duration::from_millis(20);

fn engine(patience: Duration) -> Engine {
    Engine::builder().kind(Kind::Pooled).cpu_workers(1).fork_patience(patience).build().unwrap()
}

fn works(engine: &Engine) {
    let count = Arc::new(AtomicUsize::new(0));
    engine.op("child").push(counting(&count)).unwrap();
    engine.wait_for_all().unwrap();
    assert_eq!(count.load(SeqCst), 1);
}

#[test]
fn forks_of_two_threads_at_once_wait_for_each_other_and_all_engines_work() {
    run_child_well(&mut child("forks at once"));
}

pub fn forks_at_once() {
    let _watchdog = Watchdog::new(30, "forks at once");
    // The stack of this thread is used again in the child: nothing there may refer to it.
    let engines = Arc::new([(); 3].map(|()| engine(Duration::MAX)));
    for _ in 0..FORKS {
        let barrier = Arc::new(Barrier::new(2));
        engines[0].op("busy").push(|_| std::thread::sleep(BEGUN)).unwrap();
        let threads = [0, 5].map(|late| {
            let (barrier, engines) = (Arc::clone(&barrier), Arc::clone(&engines));
            std::thread::spawn(move || {
                barrier.wait();
                std::thread::sleep(Duration::from_millis(late));
                // One that the other fork does not know yet.
                let own = (late > 0).then(|| engine(Duration::MAX));
                fork_and(|| engines.iter().chain(&own).for_each(works));
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn a_fork_waits_for_an_engine_that_comes_late_and_needs_another() {
    run_child_well(&mut child("fork beside an engine that comes late"));
}

/// The fork has stopped the one engine when it finds the other, whose last handle is being dropped,
/// with an operation that pushes to the first.
pub fn fork_beside_an_engine_that_comes_late() {
    let _watchdog = Watchdog::new(30, "a fork beside an engine that comes late");
    let first = engine(Duration::MAX);
    for _ in 0..FORKS {
        let (begins, begun) = mpsc::channel();
        let busy = move |_: &RunContext<'_>| {
            begins.send(()).unwrap();
            std::thread::sleep(BEGUN);
        };
        first.op("busy").push(busy).unwrap();
        begun.recv().unwrap();
        let own = first.clone();
        let other = std::thread::spawn(move || {
            std::thread::sleep(BEGUN / 4);
            let late = engine(Duration::MAX);
            let pushes = move |_: &RunContext<'_>| {
                std::thread::sleep(2 * BEGUN);
                own.op("from the late one").push(nothing).unwrap();
            };
            late.op("pushes").push(pushes).unwrap();
        });
        fork_and(|| works(&first));
        other.join().unwrap();
        first.wait_for_all().unwrap();
    }
}

#[test]
fn nothing_that_an_operation_pushes_that_goes_on_is_left_in_the_child() {
    run_child_well(&mut child("fork beside pushes inside"));
}

pub fn fork_beside_pushes_inside() {
    let _watchdog = Watchdog::new(40, "a fork beside pushes and waits inside an operation");
    let (stopped, goes_on) = (engine(Duration::MAX), engine(Duration::ZERO));
    let (x, done) = (stopped.new_variable(), Arc::new(AtomicBool::new(false)));
    let (own, is_done) = (stopped.clone(), Arc::clone(&done));
    let pushes = move |_: &RunContext<'_>| {
        while !is_done.load(Relaxed) {
            own.op("inner").writes([x]).push(|_| std::thread::sleep(BEGUN / 100)).unwrap();
            let _ = own.wait_until_unused_timeout(x, BEGUN);
            std::thread::sleep(BEGUN / 100);
        }
    };
    goes_on.op("pushes").push(pushes).unwrap();
    for _ in 0..5 * FORKS {
        fork_and(|| {
            stopped.wait_until_unused_timeout(x, Duration::from_secs(10)).unwrap();
            works(&stopped);
        });
    }
    done.store(true, SeqCst);
    goes_on.wait_for_all().unwrap();
}

#[test]
fn an_engine_that_one_fork_gives_up_beside_another_refuses_pushes_in_the_child() {
    run_child_well(&mut child("fork inside beside a fork"));
}

/// A fork inside an operation, which another fork waits for.
pub fn fork_inside_beside_a_fork() {
    let _watchdog = Watchdog::new(60, "a fork inside an operation beside another fork");
    let (busy, idle) = (engine(Duration::from_millis(300)), engine(Duration::from_millis(300)));
    let (begins, begun) = mpsc::channel();
    let (own, other) = (busy.clone(), idle.clone());
    let forks = move |_: &RunContext<'_>| {
        begins.send(()).unwrap();
        std::thread::sleep(BEGUN);
        fork_and(|| {
            let start = Instant::now();
            own.op("refused").push(nothing).unwrap_err();
            works(&other);
            assert!(start.elapsed() < Duration::from_secs(20));
        });
    };
    busy.op("forks").push(forks).unwrap();
    begun.recv().unwrap();
    fork_and(|| works(&idle));
    busy.wait_for_all().unwrap();
}

#[test]
fn an_error_of_before_a_fork_is_told_on_both_sides() {
    run_child_well(&mut child("error before a fork"));
}

pub fn error_before_a_fork() {
    let told = Arc::new(AtomicUsize::new(0));
    let tells = Arc::clone(&told);
    let builder = Engine::builder().on_error(move |_| _ = tells.fetch_add(1, SeqCst));
    let mut engine = Some(builder.fork_patience(Duration::MAX).build().unwrap());
    engine.as_ref().unwrap().op("fails").push(|_| Err("as it was meant to")).unwrap();
    fork_and(|| {
        engine.take();
        assert_eq!(told.load(SeqCst), 1);
    });
    engine.take();
    assert_eq!(told.load(SeqCst), 1, "the parent's own count");
}
