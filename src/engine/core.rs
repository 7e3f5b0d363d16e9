//! The state that all threads of an engine share ([`Core`]), and [`Dispatch`], the trait that the
//! three kinds of engine implement in `src/engine/dispatch/`.
//!
//! `Engine::with_settings` in `src/api/engine.rs` makes it. The other files of `src/engine/` take
//! [`Core`] as an argument or add methods to it. The last thread that lets go of it drops it:
//! graphs and parameters of the program may keep it longer than the engine's handles do.
//!
//! Any thread may use it: a field does not change, is atomic, or has a type whose file says which
//! threads may do what. `backpressure.rs` says this of `in_flight`; `state.rs` of `state`;
//! `api/control.rs` stores `nested_threads`.

use crate::device::Context;
use crate::engine::failures::Failures;
use crate::engine::gpu::devices::Gpus;
use crate::engine::inline::cost_key::CostKey;
use crate::engine::inline::policy::{InlinePolicy, DECLARED};
use crate::engine::on_error::OnError;
use crate::engine::scope::registry::OpenScopes;
use crate::engine::settings::{Kind, Settings};
use crate::engine::state::EngineState;
use crate::engine::thread_hooks::ThreadHooks;
use crate::engine::wait::wait_list::WaitList;
use crate::error::Error;
use crate::operation::block::Block;
use crate::operation::closure::Vtable;
use crate::operation::property::{Properties, Property};
use crate::platform::asymmetric_fence;
use crate::platform::standard_error::tell;
use crate::pool::memory::Memory;
use crate::profile::recorder::Profiler;
use crate::sync::lock::Lock;
use crate::sync::{AtomicUsize, Ordering::*};
use crate::thread::context::ThreadContext;
use crate::worker::group::Group;
use crossbeam_utils::CachePadded;
use std::sync::Arc;

/// One engine, as its handles, its workers and the threads that push to it share it.
pub struct Core {
    pub memory: Arc<Memory>,
    pub settings: Settings,
    pub dispatch: Box<dyn Dispatch>,
    pub state: CachePadded<EngineState>,
    /// How many operations are in flight. Counted only if there is a bound.
    pub in_flight: CachePadded<AtomicUsize>,
    pub failures: Failures,
    /// The hook that is told of the failures that are left at the end.
    pub on_error: OnError,
    /// The hooks that hear of the threads of the engine.
    pub threads: ThreadHooks,
    /// Threads that wait until nothing is in flight.
    pub quiescence: WaitList,
    /// Threads that wait until fewer operations are in flight than the bound allows.
    pub below_bound: WaitList,
    pub profiler: Profiler,
    /// How many threads one operation may use itself. Operations read it as they begin.
    pub nested_threads: AtomicUsize,
    pub gpus: Gpus,
    /// Serialises stop and start.
    pub life: Lock<()>,
    /// Operations of these run inside their push if all their tickets have come, and if their
    /// closures have lately been short where `learned` has them too.
    pub inside: Properties,
    /// Of these it is learned how long their closures take.
    pub learned: Properties,
    /// How long the closures of each kind have lately taken.
    pub inline_policy: Arc<InlinePolicy>,
    /// The group that runs [`Property::Normal`] operations, if its workers have logs.
    pub workers: Option<Arc<Group>>,
    /// Scopes inside operations that have ready children.
    pub scopes: OpenScopes,
}

impl Core {
    /// `dispatch` is what [`dispatch::of`](crate::engine::dispatch::of) makes for the settings.
    pub fn new(
        settings: Settings,
        (on_error, threads): (OnError, ThreadHooks),
        dispatch: Box<dyn Dispatch>,
        gpus: Gpus,
    ) -> Result<Core, Error> {
        asymmetric_fence::prepare();
        // With a bound nothing runs inside its push: the bound counts operations in flight, and an
        // operation that runs inside its push never is.
        let inline = settings.bound == 0 && settings.inline;
        let naive = settings.kind == Kind::Naive;
        let limit = if settings.inline_below.is_zero() { DECLARED } else { settings.inline_below };
        // Copies have their own worker.
        let inside = Properties::that(|property| match property {
            Property::Short => inline,
            _ => inline && !property.is_io() && (naive || !settings.inline_below.is_zero()),
        });
        let learned = Properties::that(|property| !naive && inside.has(property));
        for group in dispatch.groups() {
            group.set_names(group.usual_names().map(|usual| threads.name(usual)).collect());
        }
        let mut memory = Memory::new()?;
        if settings.lock_memory {
            memory.blocks.lock_memory()?;
        }
        Ok(Core {
            memory: Arc::new(memory),
            inside,
            learned,
            inline_policy: Arc::new(if inline && !naive { InlinePolicy::new(limit) } else { InlinePolicy::none() }),
            workers: dispatch.group(Property::Normal).filter(|group| group.is_logged()).cloned(),
            nested_threads: AtomicUsize::new(settings.nested_threads),
            scopes: OpenScopes::new(settings.cpu_workers),
            settings,
            dispatch,
            state: CachePadded::new(EngineState::new()),
            in_flight: CachePadded::new(AtomicUsize::new(0)),
            failures: Failures::new(),
            on_error,
            threads,
            quiescence: WaitList::new(),
            below_bound: WaitList::new(),
            profiler: Profiler::new(),
            gpus,
            life: Lock::new(()),
        })
    }

    /// Whether operations of this property run inside their push however long they take.
    #[inline]
    pub fn always_inside(&self, property: Property) -> bool {
        self.inside.has(property) && !self.learned.has(property)
    }

    /// By what it is learned how long a stored closure takes, if it is.
    ///
    /// # Safety
    /// `storage` holds a closure that `body` belongs to.
    #[inline]
    pub unsafe fn cost_key(&self, property: Property, body: &'static Vtable, storage: *const u8) -> Option<CostKey> {
        if !self.learned.has(property) {
            return None;
        }
        // SAFETY: the contract is passed on.
        unsafe { CostKey::of(body, storage) }
    }

    /// The calling thread's state for this engine.
    #[inline]
    pub fn local(&self) -> &ThreadContext {
        ThreadContext::of(&self.memory)
    }

    /// Whether the engine has ended: its last handle is gone, and threads know nothing of it any
    /// more.
    pub fn is_closed(&self) -> bool {
        self.memory.closed.load(Acquire)
    }

    /// Whether the calling thread is inside one of this engine's operations.
    pub fn is_inside(&self) -> bool {
        self.local().depth.get() > 0
    }

    /// Brings a group of workers up, and says so if asked to.
    #[cold]
    pub fn start_group(self: &Arc<Self>, group: &Arc<Group>) -> Result<(), Error> {
        group.start(self)?;
        self.say(|| format!("started {}", group.describe()));
        Ok(())
    }

    /// Says something on standard error if the settings ask for it.
    pub fn say(&self, text: impl FnOnce() -> String) {
        if self.settings.info {
            tell(&format!("seriatim engine {}: {}", self.memory.id, text()));
        }
    }

    /// Called by a thread that has ended operations and now does something else: gives spent blocks
    /// back to the caches that they belong to, and wakes waiters if nothing is in flight.
    #[inline]
    pub fn flush(&self, local: &ThreadContext) {
        local.flush();
        self.quiescence.notify(|| self.is_quiescent());
    }

    /// Counts an operation that was counted as pushed, and is not pushed, as completed.
    #[cold]
    #[inline(never)]
    pub fn give_up(&self, local: &ThreadContext) {
        local.count_given_up();
        self.flush(local);
    }

    /// Called by a thread that has yielded its core, or may have been parked: a worker may have
    /// woken the thread on the core that the worker is pinned to. Parts the two.
    #[cold]
    pub fn make_way(&self) {
        if let Some(group) = self.dispatch.group(Property::Normal) {
            group.make_way();
        }
    }

    /// Whether there was a moment during this call at which nothing was in flight and no closure
    /// ran that could push.
    pub fn is_deserted(&self) -> bool {
        let (ends, starts) = self.memory.tally_inside();
        ends == starts
    }

    /// Whether this is the child of a `fork` in which the engine was left in the middle of
    /// something, so that what is in flight never ends. The thread that has forked sets it, which
    /// is the only one there.
    #[inline]
    pub fn is_cut_off(&self) -> bool {
        self.state.load(Relaxed).is_abandoned()
    }

    /// Whether there was a moment during this call at which nothing was in flight.
    pub fn is_quiescent(&self) -> bool {
        let (completed, pushed) = self.memory.tally();
        completed == pushed
    }
}

/// When an operation became ready: in its push, or after it.
#[derive(Clone, Copy)]
pub enum ReadyCause {
    /// In its push; the pusher is still inside the call.
    Pushed,
    /// After its push.
    Later,
}

/// Decides where ready operations run. Implemented by the three kinds of engine in
/// `src/engine/dispatch/`.
pub trait Dispatch: Send + Sync {
    /// Makes sure that an operation with this property will find a thread to run it: starts the
    /// workers if need be. Called by `push/admission.rs` before anything is enlisted, so that a
    /// refusal loses nothing.
    fn admit(&self, core: &Arc<Core>, property: Property, _: Context) -> Result<(), Error> {
        match self.group(property) {
            Some(group) if !group.is_started() => core.start_group(group),
            _ => Ok(()),
        }
    }

    /// The workers that run operations with this property; `None` if the calling thread runs them.
    fn group(&self, property: Property) -> Option<&Arc<Group>>;

    /// Runs a ready operation or hands it to a worker. Called by `Core::hand_out` (`complete.rs`)
    /// and by a push whose operation is ready, where user code may run.
    ///
    /// # Safety
    /// The operation is ready, was admitted, and is the caller's to give away.
    unsafe fn submit(&self, core: &Arc<Core>, local: &ThreadContext, block: *mut Block, cause: ReadyCause);

    /// Puts a ready operation where another thread finds it: the worker numbered `place`, or a
    /// worker that has nothing to do. Called by replays (`replay/mod.rs`, `replay/guided.rs`).
    ///
    /// # Safety
    /// The contract of [`Dispatch::submit`].
    unsafe fn publish(&self, core: &Arc<Core>, local: &ThreadContext, block: *mut Block, place: usize) {
        // SAFETY: by the contract; the property is read while the operation is ours.
        unsafe {
            match self.group(Block::property(block)) {
                Some(group) => group.publish(block, place),
                None => self.submit(core, local, block, ReadyCause::Later),
            }
        }
    }

    /// Runs the operations that the calling thread has made ready and queued, or hands them over.
    /// The caller has set `draining` in its [`ThreadContext`], and this call clears it.
    fn drain(&self, _: &Arc<Core>, _: &ThreadContext) {}

    /// Whether a push that is about to enlist an operation will call [`Dispatch::take_over`]
    /// afterwards, before it runs any user code.
    fn will_take_over(&self, _: &ThreadContext) -> bool {
        false
    }

    /// Runs a share of the operations that other threads have left; says whether there were any.
    fn take_over(&self, _: &Arc<Core>, _: &ThreadContext) -> bool {
        false
    }

    /// Runs the operations that the calling thread has queued, before it waits for the engine.
    fn before_waiting(&self, _: &Arc<Core>) {}

    /// Called in the child of a `fork`, where nothing is in flight: forgets the helpers, which are
    /// gone.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    fn forget_other_threads(&self) {
        self.groups().into_iter().for_each(Group::forget_helpers);
    }

    /// Runs ready operations on the calling thread while `go_on` returns `true`; says whether it
    /// ran any.
    fn help(&self, core: &Arc<Core>, go_on: &mut dyn FnMut() -> bool) -> bool;

    /// Runs a few of the short operations that workers have lent. If there are none, asks the
    /// workers to lend some. Says whether it ran any.
    fn catch_up(&self, core: &Arc<Core>) -> bool;

    /// Works with the workers until `done`, in rows of operations that `go_on` can end. The thread
    /// that makes `done` true unparks the calling thread. May return early: then the caller only
    /// waits.
    fn serve(&self, core: &Arc<Core>, go_on: &mut dyn FnMut() -> bool, done: &mut dyn FnMut() -> bool);

    /// Brings back the threads that [`Dispatch::stop`] ended.
    fn start(&self, core: &Arc<Core>) -> Result<(), Error>;

    /// Ends all threads. Nothing is in flight.
    fn stop(&self);

    /// All groups of workers.
    fn groups(&self) -> Vec<&Group>;
}
