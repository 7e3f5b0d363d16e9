//! Threads that an engine keeps and that push outside of operations, while a fork waits for their
//! end or the system has refused one of them.

use crate::common::*;
use crate::refusals::*;
use seriatim::{Builder, Engine, ErrorKind, Kind, RunContext};
use std::cell::RefCell;
use std::future::Future;
use std::sync::{mpsc, Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

/// A handle that hooks and destructors find, until it is taken.
type Shared = Arc<Mutex<Option<Engine>>>;
type Said = Arc<Mutex<Vec<Result<(), ErrorKind>>>>;

fn builders_with_workers() -> [Builder; 2] {
    [Kind::Pooled, Kind::PerDevice].map(|kind| Engine::builder().kind(kind).cpu_workers(2).waiters_help(false))
}

/// Calls the engine in the ways that a fork holds up, and notes what they say.
#[derive(Clone, Default)]
struct Calls(Shared, Said);

impl Calls {
    /// What begins a thread may not wait: the workers would wait for each other.
    fn make(&self, waits: bool) {
        let Some(engine) = self.0.lock().unwrap().clone() else { return };
        let x = engine.new_variable();
        let outcomes = [
            engine.op("late").writes([x]).push(nothing),
            if waits { engine.wait_until_unused(x) } else { Ok(()) },
            // As the drop of what owns a variable does.
            engine.delete_variable(nothing, seriatim::Context::cpu(0), x),
        ];
        self.1.lock().unwrap().extend(outcomes.map(|outcome| outcome.map_err(|error| error.kind())));
    }

    fn take(&self) -> Vec<Result<(), ErrorKind>> {
        std::mem::take(&mut *self.1.lock().unwrap())
    }
}

/// Makes the calls when the thread ends.
struct AtTheEnd(Calls);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        self.0.make(true);
    }
}

thread_local! {
    static KEPT: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) };
}

/// Makes the calls when it is woken, after a while.
struct WhenWoken(Calls, mpsc::SyncSender<()>);

impl Wake for WhenWoken {
    fn wake(self: Arc<Self>) {
        let _ = self.1.send(());
        std::thread::sleep(Duration::from_millis(50));
        self.0.make(true);
    }
}

#[test]
fn a_fork_does_not_wait_for_what_waits_for_it_on_a_thread_that_ends() {
    run_child_well(&mut child("fork beside threads that end"));
}

pub fn fork_beside_threads_that_end() {
    let _watchdog = Watchdog::new(60, "a fork beside threads of the engine that push as they end");
    for builder in builders_with_workers() {
        for refused in [0, 1] {
            let calls = Calls::default();
            let [starts, stops, own] = [(); 3].map(|()| calls.clone());
            let builder = builder.clone().fork_patience(Duration::MAX);
            let builder =
                builder.on_thread_start(move |_| starts.make(false)).on_thread_stop(move |_| stops.make(true));
            let engine = builder.build().unwrap();
            for _ in 0..4 {
                let own = own.clone();
                engine.op("keeps").push(move |_: &RunContext<'_>| KEPT.set(Some(AtTheEnd(own)))).unwrap();
            }
            let gate = Gate::new();
            let inner = gate.clone();
            engine.op("gated").push(move |_| inner.pass()).unwrap();
            gate.wait_for_someone();
            let (wakes, woken) = mpsc::sync_channel(1);
            let waker = Waker::from(Arc::new(WhenWoken(calls.clone(), wakes)));
            let mut all = Box::pin(engine.all_ended());
            assert!(all.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            *calls.0.lock().unwrap() = Some(engine.clone());
            gate.open();
            // A worker is in the waker, and nothing is in flight.
            woken.recv().unwrap();
            // Of the start after the fork: one worker begins, and the other is refused.
            refuse_after(1, refused);
            fork_and(|| {
                refuse_after(0, 0);
                calls.0.lock().unwrap().take();
                engine.op("child").push(nothing).unwrap();
                engine.wait_for_all().unwrap();
            });
            refuse_after(0, 0);
            let said = calls.take();
            calls.0.lock().unwrap().take();
            assert!(said.len() >= 9, "a waker, two hooks, a destructor: {said:?}");
            let is_refused = |outcome: &&Result<(), _>| **outcome == Err(ErrorKind::Stopped);
            assert!(said.iter().filter(is_refused).count() >= 6, "{said:?}");
            engine.op("parent").push(nothing).unwrap();
            engine.wait_for_all().unwrap();
        }
    }
}

#[test]
fn a_fork_does_not_wait_for_a_hook_that_makes_an_engine() {
    run_child_well(&mut child("fork beside a hook that makes an engine"));
}

pub fn fork_beside_a_hook_that_makes_an_engine() {
    let _watchdog = Watchdog::new(60, "a fork beside hooks that make engines");
    for builder in builders_with_workers() {
        let made = Arc::new(Mutex::new(Vec::new()));
        let keeps = Arc::clone(&made);
        let makes = move |_: &str| keeps.lock().unwrap().push(Engine::builder().cpu_workers(1).build().unwrap());
        let engine = builder.on_thread_stop(makes).build().unwrap();
        engine.prepare().unwrap();
        fork_and(|| {
            engine.op("child").push(nothing).unwrap();
            engine.wait_for_all().unwrap();
            let late = made.lock().unwrap()[0].op("late").push(nothing);
            assert_says(&late.unwrap_err(), ErrorKind::Stopped, &["forked", "make another engine"]);
        });
        // The last engine to end calls the hook again.
        let late = std::mem::take(&mut *made.lock().unwrap());
        for engine in late.into_iter().chain([engine]) {
            engine.op("parent").push(nothing).unwrap();
            engine.wait_for_all().unwrap();
        }
    }
}

/// The worker that was granted calls its hook while the other is refused.
#[test]
fn a_hook_may_push_while_another_worker_is_refused() {
    let _watchdog = Watchdog::new(60, "a hook that pushes beside a refusal");
    for builder in builders_with_workers() {
        for first_is_a_start in [false, true] {
            let calls = Calls::default();
            let starts = calls.clone();
            let engine = builder.clone().on_thread_start(move |_| starts.make(false)).build().unwrap();
            *calls.0.lock().unwrap() = Some(engine.clone());
            if first_is_a_start {
                engine.stop().unwrap();
            }
            for _ in 0..3 {
                refuse_after(1, 1);
                let refused = if first_is_a_start { engine.start() } else { engine.op("refused").push(nothing) };
                assert_says(&refused.unwrap_err(), ErrorKind::ThreadRefused, &["worker 1 of 2"]);
                let said = calls.take();
                let expected = if first_is_a_start { ErrorKind::Stopped } else { ErrorKind::ThreadRefused };
                assert_eq!(said[0], Err(expected), "the push of the hook of the other: {said:?}");
            }
            engine.start().unwrap();
            engine.op("runs").push(nothing).unwrap();
            engine.wait_for_all().unwrap();
            calls.0.lock().unwrap().take();
        }
    }
}
