//! What a program does on the threads that an engine keeps, outside of operations: in the wakers
//! that they call, and in the hooks that they begin and end with, or that name them.

use crate::common::*;
use seriatim::{gpu::Immediate, Builder, Context, Engine, ErrorKind, Kind, RunContext, WhenFull};
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::task::{self, Wake, Waker};

/// A handle that a waker or a hook finds, until it is taken: it keeps its engine from ending.
type Shared = Arc<Mutex<Option<Engine>>>;

fn handle(shared: &Shared) -> Option<Engine> {
    shared.lock().unwrap().clone()
}

fn builders_with_workers() -> [Builder; 2] {
    [Kind::Pooled, Kind::PerDevice].map(|kind| Engine::builder().kind(kind).cpu_workers(2).waiters_help(false))
}

/// Does something once, when it is woken.
struct Does<F>(Mutex<Option<F>>);

impl<F: FnOnce() + Send + 'static> Wake for Does<F> {
    fn wake(self: Arc<Self>) {
        let does = self.0.lock().unwrap().take();
        if let Some(does) = does {
            does();
        }
    }
}

/// Has a worker of the engine call `does` when it has run everything, outside of operations.
fn at_the_end_on_a_worker(engine: &Engine, does: impl FnOnce() + Send + 'static) {
    let gate = Gate::new();
    let inner = gate.clone();
    engine.op("gated").push(move |_| inner.pass()).unwrap();
    gate.wait_for_someone();
    let waker = Waker::from(Arc::new(Does(Mutex::new(Some(does)))));
    let mut all = Box::pin(engine.all_ended());
    assert!(all.as_mut().poll(&mut task::Context::from_waker(&waker)).is_pending());
    // It keeps its place in the list.
    std::mem::forget(all);
    gate.open();
}

#[test]
fn the_last_handle_may_go_in_a_waker_that_a_worker_calls() {
    run_child_well(&mut child("last handle in a waker"));
}

/// In a process of its own, to see the threads end.
pub fn last_handle_in_a_waker() {
    let _watchdog = Watchdog::new(60, "the end of an engine whose last handle goes in a waker");
    let others = thread_count();
    for builder in builders_with_workers() {
        let last = Shared::default();
        let (own, dropped) = (Arc::clone(&last), Arc::new(Mutex::new(String::new())));
        let tells = Arc::clone(&dropped);
        let engine = builder.build().unwrap();
        let (go, goes) = std::sync::mpsc::channel();
        at_the_end_on_a_worker(&engine, move || {
            goes.recv().unwrap();
            let last = own.lock().unwrap().take().expect("it was put there before");
            drop(last);
            *tells.lock().unwrap() = std::thread::current().name().unwrap_or_default().to_owned();
        });
        *last.lock().unwrap() = Some(engine);
        go.send(()).unwrap();
        eventually("the waker has returned", || !dropped.lock().unwrap().is_empty());
        let name = dropped.lock().unwrap().clone();
        assert!(name.starts_with("seriatim-"), "a worker calls the waker, and not '{name}'");
        eventually("all threads have ended", || thread_count() == others);
    }
}

#[test]
fn a_stop_and_a_start_on_a_thread_of_the_engine_are_refused() {
    let _watchdog = Watchdog::new(60, "a stop on a worker");
    for builder in builders_with_workers() {
        let hooked = Shared::default();
        let (in_hook, said) = (Arc::clone(&hooked), Arc::new(Mutex::new(Vec::new())));
        let tells = Arc::clone(&said);
        let asks = move |engine: &Engine| {
            for outcome in [engine.stop(), engine.start(), engine.prepare()] {
                tells.lock().unwrap().push(outcome.map_err(|error| error.kind()));
            }
        };
        let hook = asks.clone();
        let builder = builder.on_thread_stop(move |_| _ = handle(&in_hook).map(|engine| hook(&engine)));
        let engine = builder.build().unwrap();
        let own = engine.clone();
        at_the_end_on_a_worker(&engine, move || asks(&own));
        let is_refused = |count| said.lock().unwrap()[..] == vec![Err(ErrorKind::WaitInsideOperation); count];
        eventually("the waker has been refused", || is_refused(3));
        *hooked.lock().unwrap() = Some(engine.clone());
        engine.stop().unwrap();
        hooked.lock().unwrap().take();
        assert!(is_refused(9), "so have the hooks of two workers: {said:?}");
    }
}

#[test]
fn the_hooks_of_threads_may_push() {
    let _watchdog = Watchdog::new(60, "hooks that push");
    for builder in builders_with_workers() {
        let (shared, ran) = (Shared::default(), Arc::new(AtomicUsize::new(0)));
        let pushes = {
            let (shared, ran) = (Arc::clone(&shared), Arc::clone(&ran));
            move || {
                let Some(engine) = handle(&shared) else { return };
                for context in [Context::cpu(0), Context::gpu(0)] {
                    engine.op("of a hook").context(context).push(counting(&ran)).unwrap();
                }
            }
        };
        let (names, starts) = (pushes.clone(), pushes);
        let engine = builder
            .gpu_workers(1)
            .gpus(Immediate::new(2))
            .thread_names(move |usual| {
                names();
                usual.replace("seriatim", "ours")
            })
            .on_thread_start(move |name| {
                starts();
                assert!(name.starts_with("ours-") || name.starts_with("seriatim-"), "{name}");
            })
            .build()
            .unwrap();
        *shared.lock().unwrap() = Some(engine.clone());
        // Those of the device that a hook itself uses first have their usual names.
        for context in [Context::cpu(0), Context::gpu(0), Context::gpu(1)] {
            engine.op("first").context(context).push(nothing).unwrap();
            engine.wait_for_all().unwrap();
        }
        engine.op("who").push(|_| assert!(std::thread::current().name().unwrap().starts_with("ours-"))).unwrap();
        engine.prepare().unwrap();
        engine.wait_for_all().unwrap();
        assert!(ran.load(SeqCst) >= 2, "{ran:?} operations of hooks");
        shared.lock().unwrap().take();
    }
}

/// Nobody else may be there to make room.
#[test]
fn hooks_and_wakers_push_beyond_the_bound() {
    let _watchdog = Watchdog::new(60, "hooks and wakers that push to a full engine");
    for when_full in [WhenFull::Block, WhenFull::Help, WhenFull::WouldBlock] {
        for builder in builders() {
            let (shared, [by_hooks, by_waker]) = (Shared::default(), [(); 2].map(|()| Arc::new(AtomicUsize::new(0))));
            let pushes = |ran: &Arc<AtomicUsize>| {
                let (shared, ran) = (Arc::clone(&shared), Arc::clone(ran));
                move || {
                    let Some(engine) = handle(&shared) else { return };
                    (0..3).for_each(|_| engine.op("beyond").push(counting(&ran)).unwrap());
                }
            };
            let hook = pushes(&by_hooks);
            let engine = builder.bound(1).when_full(when_full).on_thread_start(move |_| hook()).build().unwrap();
            *shared.lock().unwrap() = Some(engine.clone());
            let owed = Arc::new(Mutex::new(None));
            let place = Arc::clone(&owed);
            let owes = move |_: &RunContext<'_>, completion| *place.lock().unwrap() = Some(completion);
            engine.op("owes").push_async(owes).unwrap();
            eventually("the completion is there", || owed.lock().unwrap().is_some());
            let waker = Waker::from(Arc::new(Does(Mutex::new(Some(pushes(&by_waker))))));
            let mut all = Box::pin(engine.all_ended());
            assert!(all.as_mut().poll(&mut task::Context::from_waker(&waker)).is_pending());
            owed.lock().unwrap().take().unwrap().complete();
            eventually("the waker has pushed", || by_waker.load(SeqCst) == 3);
            engine.wait_for_all().unwrap();
            let by_hooks = by_hooks.load(SeqCst);
            assert!(by_hooks % 3 == 0 && (by_hooks > 0) == (engine.kind() != Kind::Naive), "{by_hooks} of hooks");
            shared.lock().unwrap().take();
        }
    }
}
