//! Forks of several threads at once, and forks beside threads and operations that go on meanwhile.

use crate::common::*;
use seriatim::{Engine, Error, ErrorKind, Kind, RunContext, Variable, WhenFull};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::*};
use std::sync::{mpsc, Arc, Barrier};
use std::time::Duration;

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

/// Pushes an operation that goes on with `rest` when the fork that comes next has begun; returns
/// when it runs.
fn run_beside_a_fork(engine: &Engine, rest: impl FnOnce() + Send + 'static) {
    let (begins, begun) = mpsc::channel();
    let body = move |_: &RunContext<'_>| {
        begins.send(()).unwrap();
        std::thread::sleep(BEGUN);
        rest();
    };
    engine.op("beside a fork").push(body).unwrap();
    begun.recv().unwrap();
}

#[test]
fn forks_of_two_threads_at_once_wait_for_each_other_and_all_engines_work() {
    run_child_well(&mut child("forks at once"));
}

pub fn forks_at_once() {
    let _watchdog = Watchdog::new(90, "forks at once");
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
    let _watchdog = Watchdog::new(90, "a fork beside an engine that comes late");
    let first = engine(Duration::MAX);
    for _ in 0..FORKS {
        run_beside_a_fork(&first, || ());
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
fn a_fork_beside_an_operation_that_makes_an_engine_waits_for_neither() {
    run_child_well(&mut child("fork beside operations that make engines"));
}

pub fn fork_beside_operations_that_make_engines() {
    let _watchdog = Watchdog::new(90, "the fork beside an operation that makes an engine");
    let outer = engine(Duration::MAX);
    for _ in 0..FORKS {
        let (count, made) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counts, makes) = (counting(&count), Arc::clone(&made));
        run_beside_a_fork(&outer, move || {
            let inner = engine(Duration::MAX);
            inner.op("inner").push(counts).unwrap();
            makes.fetch_add(1, SeqCst);
            std::mem::forget(inner);
        });
        fork_and(|| {
            assert_eq!((made.load(SeqCst), count.load(SeqCst)), (1, 1), "the fork has waited for both engines");
            works(&outer);
        });
        outer.wait_for_all().unwrap();
    }
}

#[test]
fn nothing_that_an_operation_pushes_that_goes_on_is_left_in_the_child() {
    run_child_well(&mut child("fork beside pushes inside"));
}

pub fn fork_beside_pushes_inside() {
    let _watchdog = Watchdog::new(90, "a fork beside pushes and waits inside an operation");
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
    for _ in 0..2 * FORKS {
        fork_and(|| {
            stopped.wait_until_unused_timeout(x, Duration::from_secs(10)).unwrap();
            works(&stopped);
        });
    }
    done.store(true, SeqCst);
    goes_on.wait_for_all().unwrap();
}

#[test]
fn an_operation_that_has_forked_can_push_nothing_and_what_is_behind_it_runs_once() {
    run_child_well(&mut child("fork inside"));
}

pub fn fork_inside() {
    let _watchdog = Watchdog::new(60, "a fork inside an operation");
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(1).fork_patience(BEGUN).build().unwrap();
        let (x, count) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)));
        let (owed, own) = (hold(&engine, &[], &[x]), engine.clone());
        let forks = move |_: &RunContext<'_>| {
            fork_and(|| assert_eq!(own.op("refused").push(nothing).unwrap_err().kind(), ErrorKind::Stopped));
        };
        engine.op("forks").writes([x]).push(forks).unwrap();
        engine.op("behind").writes([x]).push(counting(&count)).unwrap();
        let completes = std::cell::Cell::new(Some(owed));
        fork_and(|| {
            // On the naive engine this comes to what is behind.
            completes.take().unwrap().complete();
            std::thread::sleep(BEGUN);
            assert_eq!(count.load(SeqCst), 0, "it runs in the parent");
        });
        completes.take().unwrap().complete();
        engine.wait_for_all().unwrap();
        assert_eq!(count.load(SeqCst), 1);
    }
}

#[test]
fn an_operation_is_told_at_once_that_an_engine_is_stopped_while_a_thread_forks() {
    run_child_well(&mut child("push to a stopped engine beside a fork"));
}

pub fn push_to_a_stopped_engine_beside_a_fork() {
    let _watchdog = Watchdog::new(60, "a push to a stopped engine beside a fork");
    let (runs, stopped) = (engine(Duration::MAX), engine(Duration::MAX));
    stopped.stop().unwrap();
    let own = stopped.clone();
    run_beside_a_fork(&runs, move || {
        assert_eq!(own.op("refused").push(nothing).unwrap_err().kind(), ErrorKind::Stopped);
    });
    fork_and(|| works(&runs));
    runs.wait_for_all().unwrap();
    stopped.start().unwrap();
    works(&stopped);
}

#[test]
fn pushes_that_a_fork_refuses_leave_room_for_operations_that_it_waits_for() {
    run_child_well(&mut child("full engine beside a fork"));
}

pub fn full_engine_beside_a_fork() {
    let _watchdog = Watchdog::new(60, "a full engine beside a fork");
    let runs = engine(Duration::MAX);
    let full = Engine::builder().cpu_workers(1).bound(2).fork_patience(Duration::MAX).build().unwrap();
    let own = full.clone();
    run_beside_a_fork(&runs, move || {
        std::thread::sleep(2 * BEGUN);
        own.op("inner").push(nothing).unwrap();
    });
    // They find the engine stopped by the fork.
    let pushers = [(); 2].map(|()| {
        let own = full.clone();
        std::thread::spawn(move || {
            std::thread::sleep(BEGUN);
            own.op("outer").push(nothing).unwrap();
        })
    });
    fork_and(|| works(&full));
    pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
    runs.wait_for_all().unwrap();
    full.wait_for_all().unwrap();
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

/// An operation that forks and goes on in both processes. In the parent it opens the gate.
fn forks(pid: &Arc<AtomicI32>, gate: &Gate) -> impl FnOnce(&RunContext<'_>) + Send + 'static + use<> {
    let (forked, open) = (Arc::clone(pid), gate.clone());
    move |_| {
        // SAFETY: as in `fork_and`: the other threads wait, and hold no lock.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "the system refused to fork");
        forked.store(pid, SeqCst);
        if pid == 0 {
            // SAFETY: it has no memory to be about.
            unsafe { libc::alarm(20) };
        } else {
            open.open();
        }
    }
}

/// Ends the child, with success if its call was told that the engine is stopped there. In the
/// parent: waits for that, and the call went well.
fn end_the_child(pid: &AtomicI32, outcome: Result<(), Error>) {
    let child = pid.load(SeqCst);
    if child == 0 {
        let is_told = outcome.is_err_and(|error| error.kind() == ErrorKind::Stopped);
        // SAFETY: ends the process, without the parent's destructors.
        unsafe { libc::_exit(i32::from(!is_told)) };
    }
    outcome.unwrap();
    let mut status = 0;
    // SAFETY: it is our child, and `status` is ours.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!((waited, status), (child, 0), "the child failed");
}

#[test]
fn a_call_that_runs_an_operation_which_forks_ends_in_the_child() {
    for task in ["fork in a wait for everything", "fork in a wait for a variable", "fork in a push for room"] {
        run_child_well(&mut child(task));
    }
}

/// The only worker is in a long operation, so the thread that waits runs the one that forks. In the
/// child nobody ends the long one.
pub fn fork_in_a_wait(waits: fn(&Engine, Variable) -> Result<(), Error>) {
    let _watchdog = Watchdog::new(60, "a fork in a wait");
    let engine = engine(BEGUN);
    let (y, gate, pid) = (engine.new_variable(), Gate::new(), Arc::new(AtomicI32::new(-1)));
    let stand = gate.clone();
    engine.op("long").writes([y]).push(move |_| stand.pass()).unwrap();
    gate.wait_for_someone();
    engine.op("forks").push(forks(&pid, &gate)).unwrap();
    end_the_child(&pid, waits(&engine, y));
}

/// The same of a push at the bound, which helps until there is room.
pub fn fork_in_a_push_for_room() {
    let _watchdog = Watchdog::new(60, "a fork in a push for room");
    let builder = Engine::builder().kind(Kind::Pooled).cpu_workers(1).fork_patience(BEGUN);
    let engine = builder.bound(1).when_full(WhenFull::Help).build().unwrap();
    let (gate, pid) = (Gate::new(), Arc::new(AtomicI32::new(-1)));
    let (stand, own, forks) = (gate.clone(), engine.clone(), forks(&pid, &gate));
    let long = move |_: &RunContext<'_>| {
        // Inside an operation it goes beyond the bound.
        own.op("forks").push(forks).unwrap();
        stand.pass();
    };
    engine.op("long").push(long).unwrap();
    gate.wait_for_someone();
    end_the_child(&pid, engine.op("waits for room").push(nothing));
    engine.wait_for_all().unwrap();
}
