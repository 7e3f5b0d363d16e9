//! `fork`: threads do not survive it, so the engines are stopped before it and started again in the
//! parent and in the child.
//!
//! Pushes of other threads wait meanwhile, for no longer than the engine's `fork_patience`. An
//! engine that cannot be stopped by then, because its operations take longer, or the forking thread
//! is inside one of them or owes it a completion, goes on in the parent, and in the child it
//! refuses pushes. All engines are asked at once, then waited for; until they have been, operations
//! of one may still push to another.
//!
//! Other threads may be in the middle of anything else that does not push: drawing the graph,
//! waiting, making variables, and what they leave behind must not hold up the child. A lock would
//! be held for ever: every lock that they could hold is taken before the fork and released after
//! it. A pin would be held for ever, and no look at a flag before the pin or after it rules out
//! that a thread loses its core between the two just when the process forks: the child gets a
//! reclaimer that does not know the old pins.
//!
//! Every Unix-like system has `pthread_atfork`; what the handlers do in a child has been tried on
//! Linux only. Windows has no `fork`, and this file is not part of the library there.

use crate::engine::core::{Core, ABANDONED, FORKING, READERS, STOPPED, YIELDING};
use crate::engine::lifecycle::{self, end_threads, start_holding};
use crate::engine::wait::wait_list::WaitList;
use crate::operation::name::{Names, NAMES};
use crate::platform::asymmetric_fence::heavy;
use crate::profile;
use crate::sync::{lock, thread, Ordering::*};
use crate::worker::group::Group;
use std::any::Any;
use std::cell::RefCell;
use std::mem::forget;
use std::sync::{Arc, Mutex, MutexGuard, Once, Weak};
use std::time::{Duration, Instant};

/// Every living engine.
static ENGINES: Mutex<Vec<Weak<Core>>> = Mutex::new(Vec::new());

/// Between two looks whether another thread is done with a stop or a start.
const LIFE_NAP: Duration = Duration::from_micros(100);

/// What a thread holds while it forks.
struct Fork {
    engines: Vec<Held>,
    names: MutexGuard<'static, Names>,
    list: MutexGuard<'static, Vec<Weak<Core>>>,
}

/// What it holds of one engine. The guards point into the engine: they come first, to be dropped
/// first.
struct Held {
    /// Locks that are taken for moments only.
    short: Vec<Box<dyn Any>>,
    /// Against stops and starts by other threads; not if the engine goes on.
    life: Option<MutexGuard<'static, ()>>,
    fate: Fate,
    /// When it is not waited for any more.
    deadline: Option<Instant>,
    core: Arc<Core>,
}

/// What becomes of an engine after the fork.
#[derive(Clone, Copy, PartialEq)]
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
    let mut engines: Vec<Held> = list.iter().filter_map(Weak::upgrade).map(Held::new).collect();
    // All at once: so the fork takes as long as the slowest of them, or its patience, and not as
    // long as all together.
    engines.iter_mut().for_each(Held::ask);
    engines.iter_mut().filter(|held| held.life.is_none()).for_each(Held::insist);
    let_pushes_through(&engines);
    loop {
        engines.iter_mut().for_each(Held::wait);
        // Operations of one engine may have pushed to another one that had nothing to do before.
        if engines.iter().filter(|held| held.life.is_some()).all(|held| held.core.is_quiescent()) {
            break;
        }
    }
    // Nothing more comes from operations of engines that go on.
    engines.iter().filter(|held| held.life.is_some()).for_each(|held| {
        held.core.state.fetch_and(!YIELDING, SeqCst);
    });
    let_pushes_through(&engines);
    engines.iter_mut().for_each(Held::wait);
    engines.iter().filter(|held| held.fate == Fate::Restarts).for_each(|held| end_threads(&held.core));
    // Only now: operations of one engine may wait for another that is stopped already, and need
    // these locks for that.
    engines.iter_mut().for_each(Held::lock);
    let names = lock::of_static(&NAMES);
    FORK.set(Some(Fork { engines, names, list }));
}

/// Returns when every push that may have missed the change of its engine's state has finished
/// enlisting.
fn let_pushes_through(engines: &[Held]) {
    // Against the light ones of those who push without a pin.
    heavy();
    engines.iter().filter(|held| held.life.is_some()).for_each(|held| lifecycle::let_pushes_through(&held.core));
}

extern "C" fn after_in_parent() {
    let Some(Fork { engines, names, list }) = FORK.take() else { return };
    drop((names, list));
    engines.into_iter().for_each(Held::restart);
}

extern "C" fn after_in_child() {
    profile::forked();
    let Some(Fork { mut engines, names, list }) = FORK.take() else { return };
    drop((names, list));
    for held in &mut engines {
        held.short.clear();
        held.core.dispatch.groups().into_iter().for_each(Group::forget_workers);
        if held.fate == Fate::GoesOn {
            // Its threads are gone in the middle of something.
            held.core.state.fetch_or(STOPPED | ABANDONED, SeqCst);
            held.core.memory.forget_promises();
            forget(Arc::clone(&held.core));
        } else {
            forget_other_threads(&held.core);
        }
    }
    engines.into_iter().for_each(Held::restart);
}

impl Held {
    fn new(core: Arc<Core>) -> Held {
        // None: without end.
        let deadline = Instant::now().checked_add(core.settings.fork_patience);
        Held { short: Vec::new(), life: None, fate: Fate::GoesOn, deadline, core }
    }

    /// Asks an engine to take no more pushes but those of operations, if that can be done at once.
    fn ask(&mut self) {
        if self.is_out_of_reach() {
            return;
        }
        let Some(life) = self.engine().life.try_lock() else { return };
        // With the lock it does not change whether the engine is stopped. If it is, it has no
        // threads, and takes no pushes at all.
        let (fate, flags) = match self.core.state.load(SeqCst) & STOPPED {
            0 => (Fate::Restarts, STOPPED | FORKING | YIELDING),
            _ => (Fate::StaysStopped, FORKING),
        };
        self.core.state.fetch_or(flags, SeqCst);
        (self.fate, self.life) = (fate, Some(life));
    }

    /// Whether there is nothing to wait for: the calling thread is inside an operation of the
    /// engine, or the engine is one that an earlier fork has cut off, and the lock may be that of a
    /// thread that is gone.
    fn is_out_of_reach(&self) -> bool {
        self.core.is_inside() || self.core.state.load(SeqCst) & ABANDONED != 0
    }

    /// As [`Held::ask`], and waits for another thread that stops or starts the engine. That one may
    /// wait for what this one owes.
    fn insist(&mut self) {
        while !self.is_out_of_reach() {
            self.ask();
            if self.life.is_some() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return;
            }
            thread::park_timeout(LIFE_NAP);
        }
    }

    /// Waits until nothing is in flight. If that takes too long the engine goes on at once, and
    /// with it the pushes of other threads.
    fn wait(&mut self) {
        if self.life.is_none() || lifecycle::ends_by(&self.core, self.deadline) {
            return;
        }
        let flags = match std::mem::replace(&mut self.fate, Fate::GoesOn) {
            Fate::StaysStopped => FORKING | YIELDING,
            _ => FORKING | YIELDING | STOPPED,
        };
        self.core.state.fetch_and(!flags, SeqCst);
        self.life = None;
    }

    /// Takes the locks that other threads hold for moments. The thread that holds one waits for no
    /// other.
    fn lock(&mut self) {
        let core = self.engine();
        self.short.push(Box::new(core.failures.aside.lock()));
        self.short.push(Box::new(core.quiescence.threads.lock()));
        self.short.push(Box::new(core.room.threads.lock()));
        for group in core.dispatch.groups() {
            self.short.push(Box::new(group.lock_warnings()));
            self.short.push(Box::new(group.lock_ids()));
            self.short.extend(group.helper_locks().map(|guard| Box::new(guard) as Box<dyn Any>));
        }
    }

    /// The engine, for guards that are kept here.
    fn engine(&self) -> &'static Core {
        // SAFETY: the engine lives as long as `core` is here. What borrows from the reference are
        // guards, which go into fields that are dropped before `core`, or are dropped in `stop`;
        // nothing takes `core` out.
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
        self.core.state.fetch_and(!(FORKING | YIELDING), SeqCst);
    }
}

/// For the child, and an engine in which nothing is in flight: what the parent's other threads were
/// about to do does not count.
fn forget_other_threads(core: &Core) {
    let forget_all = |waiters: &WaitList| {
        waiters.threads.lock().clear();
        waiters.count.store(0, Relaxed);
    };
    forget_all(&core.quiescence);
    forget_all(&core.room);
    core.dispatch.forget_other_threads();
    // Those who were looking at what is pending.
    core.state.fetch_and(READERS - 1, SeqCst);
    // Those who had counted themselves in, and would have pushed after the fork.
    core.in_flight.store(0, Relaxed);
    // SAFETY: the child of a fork has one thread. It is inside a call of `fork`, and user code
    // never runs under a pin.
    unsafe { core.local().forget_other_threads() };
}
