//! `fork`: threads do not survive it, so the engines are stopped before it and started again in the parent and in the child.
//!
//! Pushes of other threads wait meanwhile. An engine that cannot be stopped, because the forking thread is inside one of its
//! operations or owes it a completion, goes on in the parent, and in the child it refuses pushes.
//!
//! Other threads may be in the middle of anything else that does not push: drawing the graph, waiting, making variables, and what
//! they leave behind must not hold up the child. A lock would be held for ever: every lock that they could hold is taken before the fork
//! and released after it. A pin would be held for ever, and no look at a flag before the pin or after it rules out that a thread
//! loses its core between the two just when the process forks: the child gets a reclaimer that does not know the old pins.

use super::core::{Core, ABANDONED, FORKING, STOPPED};
use super::life::{start_holding, stop_holding};
use super::waiters::Waiters;
use crate::lock::{self, Lock};
use crate::operation::name::{Names, NAMES};
use crate::sync::{thread, Ordering::*};
use crate::worker::group::Group;
use std::any::Any;
use std::cell::RefCell;
use std::mem::forget;
use std::sync::{Arc, Mutex, MutexGuard, Once, Weak};
use std::time::{Duration, Instant};

/// Every living engine.
static ENGINES: Mutex<Vec<Weak<Core>>> = Mutex::new(Vec::new());

/// How long a fork waits for what is in flight.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a thread holds while it forks.
struct Fork {
    engines: Vec<Held>,
    names: MutexGuard<'static, Names>,
    list: MutexGuard<'static, Vec<Weak<Core>>>,
}

/// What it holds of one engine. The guards point into the engine: they come first, to be dropped first.
struct Held {
    /// Locks that are taken for moments only.
    short: Vec<Box<dyn Any>>,
    /// Against stops and starts by other threads; not if the engine goes on.
    life: Option<MutexGuard<'static, ()>>,
    fate: Fate,
    core: Arc<Core>,
}

/// What becomes of an engine after the fork.
#[derive(PartialEq)]
enum Fate {
    /// It was stopped for the fork.
    Restarts,
    /// It was stopped before.
    StaysStopped,
    /// It could not be stopped: the parent's goes on, the child's is of no use.
    GoesOn,
}

thread_local! {
    static FORK: RefCell<Option<Fork>> = const { RefCell::new(None) };
}

/// Enters an engine into the list of those that are stopped around a `fork`.
pub fn register(core: &Arc<Core>) {
    static ONCE: Once = Once::new();
    let mut engines = lock::of_static(&ENGINES);
    engines.retain(|engine| engine.strong_count() > 0);
    engines.push(Arc::downgrade(core));
    drop(engines);
    // SAFETY: the handlers are plain functions that live as long as the program and do not unwind.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child));
    });
}

extern "C" fn before() {
    let list = lock::of_static(&ENGINES);
    let living: Vec<Arc<Core>> = list.iter().filter_map(Weak::upgrade).collect();
    let mut engines: Vec<Held> = living.into_iter().map(Held::stop).collect();
    // Only now: operations of one engine may wait for another that is stopped already, and need these locks for that.
    engines.iter_mut().for_each(Held::lock);
    let names = lock::of_static(&NAMES);
    FORK.set(Some(Fork { engines, names, list }));
}

extern "C" fn after_in_parent() {
    let Some(Fork { engines, names, list }) = FORK.take() else { return };
    drop((names, list));
    engines.into_iter().for_each(Held::restart);
}

extern "C" fn after_in_child() {
    let Some(Fork { mut engines, names, list }) = FORK.take() else { return };
    drop((names, list));
    for held in &mut engines {
        held.short.clear();
        if held.fate == Fate::GoesOn {
            // Its threads are gone in the middle of something.
            held.core.state.fetch_or(STOPPED | ABANDONED, SeqCst);
            held.core.memory.forget_moments();
            forget(Arc::clone(&held.core));
        } else {
            forget_other_threads(&held.core);
        }
    }
    engines.into_iter().for_each(Held::restart);
}

impl Held {
    /// Stops an engine, if that can be done in time.
    fn stop(core: Arc<Core>) -> Held {
        let mut held = Held { short: Vec::new(), life: None, fate: Fate::GoesOn, core };
        if held.core.is_inside() {
            return held;
        }
        // Another thread that is inside `stop` may wait for what this one owes.
        let Some(life) = lock_in_time(&held.engine().life) else { return held };
        let core = &held.core;
        let was_stopped = core.state.fetch_or(FORKING, SeqCst) & STOPPED != 0;
        if stop_holding(core, &life, Some(PATIENCE)) {
            held.fate = if was_stopped { Fate::StaysStopped } else { Fate::Restarts };
            held.life = Some(life);
        } else {
            core.state.fetch_and(!FORKING, SeqCst);
        }
        held
    }

    /// Takes the locks that other threads hold for moments. Whoever holds one waits for no other.
    fn lock(&mut self) {
        let core = self.engine();
        self.short.push(Box::new(core.failures.aside.lock()));
        self.short.push(Box::new(core.quiescence.threads.lock()));
        self.short.push(Box::new(core.room.threads.lock()));
        for group in core.dispatch.groups() {
            self.short.push(Box::new(group.lock_warnings()));
            self.short.extend(group.guest_locks().map(|guard| Box::new(guard) as Box<dyn Any>));
        }
    }

    /// The engine, for guards that are kept here.
    fn engine(&self) -> &'static Core {
        // SAFETY: the engine lives as long as `core` is here. What borrows from the reference are guards, which go into fields that
        // are dropped before `core`, or are dropped in `stop`; nothing takes `core` out.
        unsafe { &*Arc::as_ptr(&self.core) }
    }

    /// Releases everything; an engine that was stopped for the fork goes on.
    fn restart(mut self) {
        self.short.clear();
        let Some(life) = self.life.take() else { return };
        // A refusal of threads shows again at the next push, as an error that the caller sees.
        if self.fate == Fate::Restarts && start_holding(&self.core, &life).is_err() {
            self.core.state.fetch_and(!STOPPED, SeqCst);
        }
        self.core.state.fetch_and(!FORKING, SeqCst);
    }
}

fn lock_in_time(lock: &'static Lock<()>) -> Option<MutexGuard<'static, ()>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let guard = lock.try_lock();
        if guard.is_some() || Instant::now() > deadline {
            return guard;
        }
        thread::yield_now();
    }
}

/// For the child, and an engine in which nothing is in flight: what the parent's other threads were about to do does not count.
fn forget_other_threads(core: &Core) {
    let forget_all = |waiters: &Waiters| {
        waiters.threads.lock().clear();
        waiters.count.store(0, Relaxed);
    };
    forget_all(&core.quiescence);
    forget_all(&core.room);
    core.dispatch.groups().into_iter().for_each(Group::forget_guests);
    // Those who had counted themselves in, and would have pushed after the fork.
    core.in_flight.store(0, Relaxed);
    // SAFETY: the child of a fork has one thread. It is inside a call of `fork`, and user code never runs under a pin.
    unsafe { core.local().forget_other_threads() };
}
