//! What all threads of an engine share, the questions that they ask of it, and the seam to the ways
//! to run operations: the trait that the three engines implement.

use crate::device::Context;
use crate::engine::failures::Failures;
use crate::engine::inline::policy::InlinePolicy;
use crate::engine::on_error::OnError;
use crate::engine::settings::{Kind, Settings};
use crate::engine::wait::wait_list::WaitList;
use crate::error::Error;
use crate::operation::block::Block;
use crate::operation::property::Property;
use crate::platform::asymmetric_fence;
use crate::pool::memory::Memory;
use crate::profile::recorder::Profiler;
use crate::sync::lock::Lock;
use crate::sync::{AtomicU32, AtomicUsize, Ordering::*};
use crate::thread::context::ThreadContext;
use crate::worker::group::Group;
use crossbeam_utils::CachePadded;
use std::sync::Arc;

/// Pushes are refused.
pub const STOPPED: u32 = 1;
/// Only deletions still run their functions.
pub const SHUTDOWN: u32 = 1 << 1;
/// Named operations are recorded.
pub const PROFILING: u32 = 1 << 2;
/// A `fork` is under way, and the engine is stopped only for that: pushes wait.
pub const FORKING: u32 = 1 << 4;
/// The child of a `fork` got the engine in the middle of something: it stays stopped.
pub const ABANDONED: u32 = 1 << 5;
/// A `fork` waits for what is in flight: operations of other engines still push here, as they may
/// hold up what it waits for.
pub const YIELDING: u32 = 1 << 6;
/// Above this: how many threads look at what is pending. No block of a ring is used again
/// meanwhile.
pub const READERS: u32 = 1 << 8;
/// Some operation has failed: from now on marks are looked at.
pub const FAILED: u32 = 1 << 3;

/// When an operation runs inside its push, if all its tickets have come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Inline {
    Never,
    Always,
    /// If its closure has lately been short.
    WhenShort,
}

/// One engine.
pub struct Core {
    pub memory: Arc<Memory>,
    pub settings: Settings,
    pub dispatch: Box<dyn Dispatch>,
    /// The flags above.
    pub state: CachePadded<AtomicU32>,
    /// Operations in flight, kept only if there is a bound.
    pub in_flight: CachePadded<AtomicUsize>,
    pub failures: Failures,
    /// Who is told of those that are left at the end.
    pub on_error: OnError,
    /// Those who wait until nothing is in flight.
    pub quiescence: WaitList,
    /// Those who wait for room under the bound.
    pub room: WaitList,
    pub profiler: Profiler,
    /// Serialises stop and start.
    pub life: Lock<()>,
    /// Which operations run inside their push.
    pub inline: Inline,
    /// What closures cost.
    pub costs: Arc<InlinePolicy>,
    /// Those who run what is neither urgent nor bound to a place, if they have logs.
    pub workers: Option<Arc<Group>>,
}

impl Core {
    /// `dispatch`: as [`dispatch::of`](crate::engine::dispatch::of) makes it for the settings.
    pub fn new(settings: Settings, on_error: OnError, dispatch: Box<dyn Dispatch>) -> Result<Core, Error> {
        asymmetric_fence::prepare();
        Ok(Core {
            memory: Arc::new(Memory::new()?),
            inline: match settings.kind {
                // A bound counts operations in flight, and what runs inside its push never is.
                _ if settings.bound > 0 || !settings.inline => Inline::Never,
                Kind::Naive => Inline::Always,
                _ if settings.inline_below.is_zero() => Inline::Never,
                _ => Inline::WhenShort,
            },
            costs: Arc::new(InlinePolicy::new(settings.inline_below)),
            workers: dispatch.group(Property::Normal).filter(|group| group.is_logged()).cloned(),
            settings,
            dispatch,
            state: CachePadded::new(AtomicU32::new(0)),
            in_flight: CachePadded::new(AtomicUsize::new(0)),
            failures: Failures::new(),
            on_error,
            quiescence: WaitList::new(),
            room: WaitList::new(),
            profiler: Profiler::new(),
            life: Lock::new(()),
        })
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
            eprintln!("seriatim engine {}: {}", self.memory.id, text());
        }
    }

    /// For a thread that has ended operations and now does something else: blocks go back to their
    /// caches, waiters learn of it.
    #[inline]
    pub fn settle(&self, local: &ThreadContext) {
        local.flush();
        self.quiescence.notify(|| self.is_quiescent());
    }

    /// For a thread that has yielded its core, or may have been parked, and that a worker may have
    /// woken beside itself: parts the two.
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

    /// Whether there was a moment during this call at which nothing was in flight.
    pub fn is_quiescent(&self) -> bool {
        let (completed, pushed) = self.memory.tally();
        completed == pushed
    }
}

/// When an operation became ready.
#[derive(Clone, Copy)]
pub enum ReadyCause {
    /// When it was pushed; its thread is still in the call.
    Pushed,
    /// Later.
    Later,
}

/// Decides where ready operations run.
pub trait Dispatch: Send + Sync {
    /// Makes sure that an operation of this kind will find someone to run it. Called before
    /// anything is enlisted, so that a refusal loses nothing.
    fn admit(&self, core: &Arc<Core>, property: Property, _: Context) -> Result<(), Error> {
        match self.group(property) {
            Some(group) if !group.is_started() => core.start_group(group),
            _ => Ok(()),
        }
    }

    /// The workers that run operations of this kind; none, if the caller does.
    fn group(&self, property: Property) -> Option<&Arc<Group>>;

    /// Runs a ready operation or hands it to a worker.
    ///
    /// # Safety
    /// The operation is ready, was admitted, and is the caller's to give away.
    unsafe fn submit(&self, core: &Arc<Core>, local: &ThreadContext, block: *mut Block, moment: ReadyCause);

    /// Puts a ready operation where another thread finds it: the worker of number `place`, or one
    /// that has nothing to do.
    ///
    /// # Safety
    /// As [`Dispatch::submit`].
    unsafe fn publish(&self, core: &Arc<Core>, local: &ThreadContext, block: *mut Block, place: usize) {
        // SAFETY: passed on; the property is read while the operation is ours.
        unsafe {
            match self.group(Block::property(block)) {
                Some(group) => group.publish(block, place),
                None => self.submit(core, local, block, ReadyCause::Later),
            }
        }
    }

    /// Runs what the calling thread has made ready and queued, or hands it over. Called with
    /// `draining` set, which it clears.
    fn drain(&self, _: &Arc<Core>, _: &ThreadContext) {}

    /// Whether a push that is about to enlist an operation will call [`Dispatch::take_over`] after
    /// that, before anything of the user's is run.
    fn will_take_over(&self, _: &ThreadContext) -> bool {
        false
    }

    /// Runs a share of what other threads have left, if there is anything; says whether.
    fn take_over(&self, _: &Arc<Core>, _: &ThreadContext) -> bool {
        false
    }

    /// Runs what the calling thread owes, before it waits for the engine.
    fn before_waiting(&self, _: &Arc<Core>) {}

    /// For the child of a `fork`, where nothing is in flight.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    fn forget_other_threads(&self) {
        self.groups().into_iter().for_each(Group::forget_helpers);
    }

    /// Runs ready operations on the calling thread while `go_on` says so; returns whether it ran
    /// any.
    fn help(&self, core: &Arc<Core>, go_on: &mut dyn FnMut() -> bool) -> bool;

    /// Runs a few of the short operations that workers have published; if there are none, asks for
    /// some. Says whether it ran any.
    fn catch_up(&self, core: &Arc<Core>) -> bool;

    /// Works with the workers until `done`, in rows of operations that `go_on` can end. Who makes
    /// `done` true unparks the calling thread. May return early: then the caller only waits.
    fn serve(&self, core: &Arc<Core>, go_on: &mut dyn FnMut() -> bool, done: &mut dyn FnMut() -> bool);

    /// Brings back the threads that [`Dispatch::stop`] ended.
    fn start(&self, core: &Arc<Core>) -> Result<(), Error>;

    /// Ends all threads. Nothing is in flight.
    fn stop(&self);

    /// Its workers.
    fn groups(&self) -> Vec<&Group>;
}
