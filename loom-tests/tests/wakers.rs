//! Wakers: none is lost, and each is seen as it was stored; one thread at a time polls a task; and
//! the futures of the whole engine.

#![cfg(loom)]

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use loom_tests::{explore, explore_light_fences, spawn, Guarded};
use seriatim::internals::poll_state::PollState;
use seriatim::internals::thread::{self, Thread};
use seriatim::internals::wait_list::WaitList;
use seriatim::internals::waker_cell::WakerCell;
use seriatim::{Completion, Engine, Kind, RunContext};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};

/// A waker that unparks its thread. It holds a number that was written when it was made: a thread
/// that calls the waker reads it, and so must have found the waker as it was stored.
struct Unparks {
    thread: Thread,
    made: Guarded,
}

const VTABLE: RawWakerVTable = RawWakerVTable::new(
    // A copy has a number of its own, written by the thread that stores it.
    |this| {
        // SAFETY: a waker is a box of `Unparks`, as `waker` makes it.
        let thread = unsafe { (*this.cast::<Unparks>()).thread.clone() };
        raw(thread)
    },
    |this| {
        // SAFETY: as above; the call consumes the waker.
        let this = unsafe { Box::from_raw(this.cast::<Unparks>().cast_mut()) };
        assert_eq!(this.made.get(), 1, "a waker that was not stored");
        this.thread.unpark();
    },
    |_| unreachable!("wakers are called by value"),
    // SAFETY: as above; the call consumes the waker.
    |this| drop(unsafe { Box::from_raw(this.cast::<Unparks>().cast_mut()) }),
);

fn raw(thread: Thread) -> RawWaker {
    let made = Guarded::new();
    made.set(1);
    RawWaker::new(Box::into_raw(Box::new(Unparks { thread, made })).cast_const().cast(), &VTABLE)
}

/// A waker of the calling thread.
fn waker() -> Waker {
    // SAFETY: the table is that of a box, which the waker owns.
    unsafe { Waker::from_raw(raw(thread::current())) }
}

/// A condition, and who waits for it.
struct Model {
    cell: WakerCell,
    is_true: AtomicBool,
    value: Guarded,
}

impl Model {
    fn new() -> Arc<Model> {
        Arc::new(Model { cell: WakerCell::new(), is_true: AtomicBool::new(false), value: Guarded::new() })
    }

    fn come_true(&self) {
        self.value.set(7);
        self.is_true.store(true, Release);
        self.cell.wake();
    }

    /// What a task does: it stores its waker, looks, and sleeps until it is woken.
    fn wait(&self) {
        while !self.is_true.load(Acquire) {
            self.cell.store(&waker());
            if self.is_true.load(Acquire) {
                break;
            }
            thread::park();
            // A waker that was called at once: the thread that takes the one before goes on first.
            thread::yield_now();
        }
        assert_eq!(self.value.get(), 7);
    }
}

#[test]
fn a_task_that_stores_its_waker_is_woken() {
    explore("waker cell, a task and one that wakes", 4, 10, || {
        let model = Model::new();
        let theirs = Arc::clone(&model);
        let other = spawn(move || theirs.come_true());
        model.wait();
        other.join().unwrap();
    });
}

/// One of them wakes for nothing, so that the task stores a second waker.
#[test]
fn of_two_that_wake_none_is_lost() {
    explore("waker cell, a task and two that wake", 3, 100, || {
        let model = Model::new();
        let [one, two] = [Arc::clone(&model), Arc::clone(&model)];
        let others = [spawn(move || one.cell.wake()), spawn(move || two.come_true())];
        model.wait();
        others.map(|other| other.join().unwrap());
    });
}

#[test]
fn a_waker_that_is_taken_back_is_dropped_once() {
    explore("waker cell, a task that goes away", 4, 10, || {
        let model = Model::new();
        let theirs = Arc::clone(&model);
        let other = spawn(move || theirs.cell.wake());
        model.cell.store(&waker());
        model.cell.forget();
        model.cell.store(&waker());
        other.join().unwrap();
    });
}

/// A task whose polls look at what those that wake have written. The thread that is told to queue
/// it polls it at once.
struct Task {
    state: PollState,
    future: Guarded,
    said: AtomicUsize,
    seen: AtomicUsize,
}

impl Task {
    fn poll(&self) {
        loop {
            self.state.begin();
            self.future.step();
            // Relaxed, both: the state orders them.
            self.seen.store(self.said.load(Relaxed), Relaxed);
            if !self.state.end() {
                break;
            }
        }
    }

    fn wake(&self) {
        self.said.fetch_add(1, Relaxed);
        if self.state.wake() {
            self.poll();
        }
    }
}

#[test]
fn one_thread_at_a_time_polls_and_every_wake_up_is_seen() {
    explore("poll state, two that wake beside the first poll", 3, 100, || {
        let task = Arc::new(Task {
            state: PollState::new(),
            future: Guarded::new(),
            said: AtomicUsize::new(0),
            seen: AtomicUsize::new(0),
        });
        let [one, two] = [Arc::clone(&task), Arc::clone(&task)];
        let others = [spawn(move || one.wake()), spawn(move || two.wake())];
        task.poll();
        others.map(|other| other.join().unwrap());
        assert_eq!(task.seen.load(Relaxed), 2, "a wake-up is lost");
        assert!(task.future.get() <= 3);
    });
}

/// A future in a wait list: the end of the last operation wakes it.
#[test]
fn a_future_in_a_wait_list_is_woken_by_the_last_end() {
    explore_light_fences("wait list, a future and two ends", 3, 100, || {
        let list = Arc::new((WaitList::new(), AtomicUsize::new(2)));
        let ends = [Arc::clone(&list), Arc::clone(&list)].map(|list| {
            spawn(move || {
                list.1.fetch_sub(1, Relaxed);
                list.0.notify(|| list.1.load(Relaxed) == 0);
            })
        });
        let place = list.0.join();
        loop {
            place.waker.store(&waker());
            seriatim::internals::heavy();
            if list.1.load(Relaxed) == 0 {
                break;
            }
            thread::park();
        }
        list.0.leave(&place);
        ends.map(|end| end.join().unwrap());
    });
}

/// Wakes the thread of a model that runs a future.
struct Parks(Thread);

impl Wake for Parks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Parks(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

fn naive() -> Engine {
    Engine::builder().kind(Kind::Naive).without_inline().build().expect("the settings are valid")
}

/// An operation that another thread ends, after a step.
fn push_step_elsewhere(engine: &Engine, x: seriatim::Variable, value: &Guarded) {
    let value = value.clone();
    let body = move |_: &RunContext<'_>, completion: Completion| {
        spawn(move || {
            value.step();
            completion.complete();
        });
    };
    engine.op("").writes([x]).push_async(body).unwrap();
}

#[test]
fn a_wait_for_a_variable_is_woken_by_the_thread_that_ends_its_write() {
    explore("a variable awaited beside its completion", 2, 50, || {
        let (engine, value) = (naive(), Guarded::new());
        let x = engine.new_variable();
        push_step_elsewhere(&engine, x, &value);
        block_on(engine.ready(x)).unwrap();
        assert_eq!(value.get(), 1);
    });
}

#[test]
fn a_result_is_seen_by_who_awaits_it_and_its_cell_goes_once() {
    explore("a result awaited, dropped or not, beside its operation", 2, 100, || {
        let (engine, value) = (naive(), Guarded::new());
        let x = engine.new_variable();
        push_step_elsewhere(&engine, x, &value);
        let own = value.clone();
        let kept = engine.op("").read(x).compute(move |_| own.get()).unwrap();
        let dropped = engine.op("").read(x).compute(|_| 1).unwrap();
        drop(dropped);
        assert_eq!(block_on(kept).unwrap(), 1);
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn everything_awaited_is_woken_by_the_last_end() {
    explore("everything awaited beside a completion", 2, 50, || {
        let (engine, value) = (naive(), Guarded::new());
        let x = engine.new_variable();
        push_step_elsewhere(&engine, x, &value);
        block_on(engine.all_ended()).unwrap();
        assert_eq!(value.get(), 1);
    });
}

/// A future that is an operation, woken by another thread beside its first poll.
#[test]
fn a_future_that_is_woken_beside_its_poll_ends_its_operation_once() {
    explore("a future woken beside its first poll", 2, 50, || {
        let (engine, model) = (naive(), Model::new());
        let x = engine.new_variable();
        let [theirs, polled] = [Arc::clone(&model), Arc::clone(&model)];
        let other = spawn(move || theirs.come_true());
        let future = std::future::poll_fn(move |context| {
            polled.cell.store(context.waker());
            if !polled.is_true.load(Acquire) {
                return Poll::Pending;
            }
            assert_eq!(polled.value.get(), 7);
            Poll::Ready(())
        });
        engine.op("").write(x).push_future(future).unwrap();
        other.join().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(x).unwrap(), 1);
    });
}
