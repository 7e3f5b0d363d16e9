//! The handlers around a `fork`: threads do not survive it, so the engines are stopped before it
//! and started again in the parent and in the child. [`register`] is called for every new engine by
//! `src/api/engine.rs`; the steps of a stop are those of `lifecycle.rs`.
//!
//! Pushes of other threads wait meanwhile, for no longer than the longest `fork_patience`. An
//! engine that cannot be stopped by then goes on in the parent, and refuses pushes in the child.
//! The cause is that its operations take longer, or that the forking thread is inside one of them
//! or owes it a completion. All engines are asked at once, then waited for; until that is over, an
//! operation of one engine may still push to another. The fork waits for every operation that has
//! been pushed. One that has begun ends on a thread that the child lacks. One that has not would
//! run in both processes.
//!
//! Other threads may be in the middle of anything else that does not push: drawing the graph,
//! waiting, making variables. Nothing that they leave behind may hold up the child. A lock would be
//! held for ever, so every lock that they could hold is taken before the fork and released after
//! it. A pin would be held for ever, too. No look at a flag, before the pin or after it, rules out
//! that a thread loses its core between the two just when the process forks. So the child gets a
//! reclaimer that does not know the old pins. A new lock that another thread may hold is added to
//! `Held::lock`. One cannot be: that inside the depot's pool (`pool/depot.rs`), which a thread in
//! `prepare`, or one that sorts its blocks after its last operation has ended, has for some 50 ns.
//!
//! Locks of memory (`lock_memory`) are not inherited either: the child locks all blocks again.
//!
//! Every Unix-like system has `pthread_atfork`; what the handlers do in a child has been tried on
//! Linux only. Windows has no `fork`, and this file is not part of the library there.
//!
//! Any thread that makes an engine adds it to `ENGINES`, under the lock. When the engines that are
//! in it have been stopped and their threads have ended, the forking thread takes this lock and all
//! others, and keeps them in its thread-local `FORK` until after the fork. In the child it is the
//! only thread. An engine that is made while those threads end goes on in the parent alone.

use crate::engine::core::Core;
use crate::engine::gpu::admit;
use crate::engine::lifecycle::{self, end_threads, start_holding};
use crate::engine::wait::crosswise::{GuardSleeper, GUARD_SLEEPERS};
use crate::engine::wait::wait_list::HeldList;
use crate::operation::name::{Names, NAMES};
use crate::platform::asymmetric_fence::heavy;
use crate::profile;
use crate::sync::{lock, thread, Ordering::*};
use crate::variable::names::{VariableNames, VARIABLE_NAMES};
use crate::worker::group::Group;
use std::any::Any;
use std::cell::RefCell;
use std::mem::forget;
use std::sync::{Arc, Mutex, MutexGuard, Once, Weak};
use std::time::{Duration, Instant};

/// Every living engine.
static ENGINES: Mutex<Vec<Weak<Core>>> = Mutex::new(Vec::new());

/// How long to sleep between two looks whether another thread is done with a stop or a start.
const LIFE_NAP: Duration = Duration::from_micros(100);

/// How long the engines are sealed at first, for what is in flight to end: each time twice as long.
const SEALED_FIRST: Duration = Duration::from_millis(10);
const SEALED_LONGEST: Duration = Duration::from_secs(10);

/// Held by the thread that forks, from before it stops engines until after the fork. Two forks at
/// once would each wait for an engine that the other has stopped. (The C library's own lock does
/// not keep them apart: newer ones release it while they call a handler.)
static FORKS: Mutex<()> = Mutex::new(());

/// What a thread holds while it forks, in the order in which it lets go.
struct Fork {
    engines: Vec<Held>,
    names: MutexGuard<'static, Names>,
    variables: MutexGuard<'static, VariableNames>,
    sleepers: MutexGuard<'static, Vec<GuardSleeper>>,
    list: MutexGuard<'static, Vec<Weak<Core>>>,
    turn: MutexGuard<'static, ()>,
}

/// What a forking thread holds of one engine. The guards point into the engine, so they come first,
/// to be dropped first.
struct Held {
    /// Locks that are taken for moments only.
    short: Vec<Box<dyn Any>>,
    /// The lists of waiting threads. They come after the locks: to let go of one may wake threads.
    lists: Vec<HeldList<'static>>,
    /// Keeps out stops and starts by other threads; `None` if the engine goes on.
    life: Option<MutexGuard<'static, ()>>,
    fate: Fate,
    /// When the fork stops waiting for the engine; `None`: never.
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
    /// It could not be stopped: it goes on in the parent, and is of no use in the child.
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

/// Runs on the forking thread before the fork: stops the engines and takes the locks.
extern "C" fn before() {
    let turn = lock::of_static(&FORKS);
    let began = Instant::now();
    let mut engines = Vec::new();
    loop {
        // The list is free while the fork waits: an operation may make an engine, which is new in
        // the next round.
        let new = new_ones(&lock::of_static(&ENGINES), &engines, began);
        if new.is_empty() {
            break;
        }
        let known = engines.len();
        engines.extend(new);
        stop_all(&mut engines, known);
    }
    engines.iter().filter(|held| held.fate == Fate::Restarts).for_each(|held| end_threads(&held.core));
    // What a hook of those threads has made meanwhile is not stopped: its hooks could make more.
    let list = lock::of_static(&ENGINES);
    let late = new_ones(&list, &engines, began);
    engines.extend(late);
    // The locks come last: an operation of one engine may wait for another engine that is stopped
    // already, and needs these locks for that.
    engines.iter_mut().for_each(Held::lock);
    let names = lock::of_static(&NAMES);
    let variables = lock::of_static(&VARIABLE_NAMES);
    let sleepers = lock::of_static(&GUARD_SLEEPERS);
    FORK.set(Some(Fork { engines, names, variables, sleepers, list, turn }));
}

/// The engines of the list that the fork does not hold yet.
fn new_ones(list: &[Weak<Core>], held: &[Held], began: Instant) -> Vec<Held> {
    let is_new = |core: &Arc<Core>| !held.iter().any(|held| Arc::ptr_eq(&held.core, core));
    list.iter().filter_map(Weak::upgrade).filter(is_new).map(|core| Held::new(core, began)).collect()
}

/// Stops the engines that can be stopped. The first `known` ones have been, by an earlier round.
fn stop_all(engines: &mut [Held], known: usize) {
    // What the new ones have in flight may push to those.
    seal(&engines[..known], false);
    // All are asked before one is waited for, so the fork takes as long as the slowest of them, or
    // its patience, and not as long as all together.
    engines[known..].iter_mut().for_each(Held::ask);
    engines[known..].iter_mut().filter(|held| held.life.is_none()).for_each(Held::insist);
    // Each is given up when its own time is over, and not after one that may take longer.
    engines.sort_by_key(|held| (held.deadline.is_none(), held.deadline));
    let latest = engines.last().and_then(|held| held.deadline);
    let mut sealed = SEALED_FIRST;
    loop {
        seal(engines, false);
        let_pushes_through(engines);
        engines.iter_mut().for_each(Held::wait);
        // From here on the stopped engines take nothing from operations of engines that go on. The
        // operations that those have pushed before end now, unless one must itself push to another
        // engine: then the seal is in its way, and is lifted.
        seal(engines, true);
        let_pushes_through(engines);
        let until = Instant::now() + sealed;
        let until = latest.map_or(until, |latest| latest.min(until));
        let mut stopped = engines.iter().filter(|held| held.life.is_some());
        if stopped.all(|held| lifecycle::ends_by(&held.core, Some(until))) {
            return;
        }
        sealed = sealed.saturating_mul(2).min(SEALED_LONGEST);
    }
}

/// Seals the engines that are stopped, or ends that.
fn seal(engines: &[Held], is_sealed: bool) {
    for state in engines.iter().filter(|held| held.life.is_some()).map(|held| &held.core.state) {
        match is_sealed {
            true => state.seal(),
            false => state.unseal(),
        }
    }
}

/// Returns when every push that may have missed the change of its engine's state has finished
/// enlisting: [`lifecycle::let_pushes_through`] for all engines, with one heavy fence.
fn let_pushes_through(engines: &[Held]) {
    // Heavy side of the asymmetric fence; the light side is in the pushes without a pin,
    // `inline/fast_path.rs` and `push/logged.rs`.
    heavy();
    engines.iter().filter(|held| held.life.is_some()).for_each(|held| lifecycle::let_pushes_through(&held.core));
}

/// Runs on the forking thread, in the parent.
extern "C" fn after_in_parent() {
    let Some(Fork { engines, names, variables, sleepers, list, turn }) = FORK.take() else { return };
    drop((names, variables, sleepers, list));
    engines.into_iter().for_each(Held::restart);
    drop(turn);
}

/// Runs in the child, on its only thread.
extern "C" fn after_in_child() {
    profile::forked();
    let Some(Fork { mut engines, names, variables, mut sleepers, list, turn }) = FORK.take() else { return };
    drop((names, variables, list));
    sleepers.clear();
    drop(sleepers);
    for held in &mut engines {
        held.lists.drain(..).for_each(HeldList::forget_other_threads);
        held.short.clear();
        held.core.dispatch.groups().into_iter().for_each(Group::forget_workers);
        held.core.gpus.groups().for_each(Group::forget_workers);
        if held.fate == Fate::GoesOn {
            // Its threads are gone in the middle of something.
            // What is queued runs in the parent. Here a completion that the forking thread owes, or
            // the end of the operation that has forked, comes to it as well. A guard does not
            // (`wait/hold.rs`).
            held.core.state.abandon();
            held.core.gpus.forked.store(true, SeqCst);
            held.core.memory.forget_promises();
            forget(Arc::clone(&held.core));
        } else {
            forget_other_threads(&held.core);
            held.core.memory.blocks.slabs.lock_again();
        }
    }
    engines.into_iter().for_each(Held::restart);
    drop(turn);
}

impl Held {
    fn new(core: Arc<Core>, began: Instant) -> Held {
        // `None`, if the clock cannot tell the deadline: the fork waits without end.
        let deadline = began.checked_add(core.settings.fork_patience);
        Held { short: Vec::new(), lists: Vec::new(), life: None, fate: Fate::GoesOn, deadline, core }
    }

    /// Has an engine take no more pushes, except those of operations. Does nothing if the engine is
    /// out of reach, or another thread is stopping or starting it.
    fn ask(&mut self) {
        if self.is_out_of_reach() {
            return;
        }
        let Some(life) = self.engine().life.try_lock() else { return };
        // While this thread holds the lock, no other thread stops or starts the engine. An engine
        // that is stopped already has no threads, and takes no pushes at all.
        let fate = if self.core.state.begin_fork() { Fate::Restarts } else { Fate::StaysStopped };
        (self.fate, self.life) = (fate, Some(life));
    }

    /// Whether waiting is of no use. The calling thread may be inside an operation of the engine.
    /// Or an earlier fork has cut the engine off, and a thread that is gone may hold the lock.
    fn is_out_of_reach(&self) -> bool {
        self.core.is_inside() || self.core.state.load(SeqCst).is_abandoned()
    }

    /// Like [`Held::ask`], but waits for another thread that stops or starts the engine, up to the
    /// deadline: that thread may wait for what the forking one owes.
    fn insist(&mut self) {
        while !self.is_out_of_reach() {
            self.ask();
            if self.life.is_some() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return;
            }
            thread::park_timeout(LIFE_NAP);
        }
    }

    /// Waits until nothing is in flight. If the deadline comes first, the engine goes on at once,
    /// and so do the pushes of other threads that wait for the fork.
    fn wait(&mut self) {
        if self.life.is_some() && !lifecycle::ends_by(&self.core, self.deadline) {
            self.give_up();
        }
    }

    /// Has the engine go on.
    fn give_up(&mut self) {
        match std::mem::replace(&mut self.fate, Fate::GoesOn) {
            Fate::StaysStopped => self.core.state.end_fork(),
            _ => self.core.state.go_on_without_fork(),
        }
        self.life = None;
    }

    /// Takes the locks that other threads hold for moments. The thread that holds one waits for no
    /// other.
    fn lock(&mut self) {
        let core = self.engine();
        self.short.push(Box::new(core.failures.aside.lock()));
        self.lists.extend([core.quiescence.hold(), core.below_bound.hold()]);
        self.short.push(Box::new(core.gpus.making.lock()));
        self.short.push(Box::new(core.gpus.held.lock()));
        self.short.extend(core.gpus.used().map(|gpu| Box::new(gpu.thread.lock()) as Box<dyn Any>));
        self.short.extend(core.gpus.used().map(|gpu| Box::new(gpu.buffers.lists()) as Box<dyn Any>));
        for group in core.dispatch.groups().into_iter().chain(core.gpus.groups()) {
            self.short.push(Box::new(group.lock_warnings()));
            self.short.push(Box::new(group.lock_ids()));
            self.short.extend(group.helper_handles().map(|handle| Box::new(handle.lock()) as Box<dyn Any>));
        }
    }

    /// The engine, for guards that are kept here.
    fn engine(&self) -> &'static Core {
        // SAFETY: the engine lives as long as `core` is here. Only guards borrow from the
        // reference. They go into fields that are dropped before `core`, or into a local of
        // `restart` that is dropped before `self`; nothing takes `core` out.
        unsafe { &*Arc::as_ptr(&self.core) }
    }

    /// Releases everything; an engine that was stopped for the fork goes on.
    fn restart(mut self) {
        self.short.clear();
        self.lists.clear();
        let Some(life) = self.life.take() else { return };
        // If the system refuses the threads, the next push asks for them again, and its caller sees
        // the error.
        if self.fate == Fate::Restarts && start_holding(&self.core, &life).is_err() {
            self.core.state.go_on();
        }
        self.core.state.end_fork();
    }
}

/// For the child, and an engine in which nothing is in flight: undoes what the parent's other
/// threads had announced and will not do.
fn forget_other_threads(core: &Core) {
    core.dispatch.forget_other_threads();
    admit::forget_devices(core);
    core.state.forget_looks();
    // Other threads had counted operations in (`backpressure.rs`), and would have pushed them after
    // the fork.
    core.in_flight.store(0, Relaxed);
    // SAFETY: the child of a fork has one thread. It is inside a call of `fork`, and user code
    // never runs under a pin.
    unsafe { core.local().forget_other_threads() };
}
