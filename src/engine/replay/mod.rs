//! Running a graph: what a replay does when its turn comes.
//!
//! A replay is one operation, which uses all variables of the graph, so nobody else does while it
//! runs: between its own operations the plan keeps order, and marks and versions of variables may
//! be touched as each of them would by itself. See [`lanes`](crate::graph::lanes).

pub mod assemble;
pub mod runner;
pub mod spread_policy;

use crate::device::Context;
use crate::engine::core::{Core, FAILED};
use crate::engine::dispatch::Moment;
use crate::engine::nesting::{enter, leave};
use crate::engine::push::Claim;
use crate::engine::replay::runner::{CurrentNode, Runner};
use crate::engine::replay::spread_policy::Pace;
use crate::error::{Failure, Fault, Source, Stamp};
use crate::graph::lanes::{Host, Lanes, Rest};
use crate::mutants::mutant;
use crate::operation::block::Block;
use crate::operation::closure::{drop_quietly, Cost, Quiet, Run, Vtable};
use crate::operation::completion::{Completion, Finish};
use crate::operation::context::RunContext;
use crate::operation::current::within;
use crate::operation::layout::Layout;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::sync::AtomicU8;
use crate::sync::Ordering::*;
use crate::thread::context::Local;
use crate::variable::handle::Variable;
use crate::variable::slot::Slot;
use std::cell::{Cell, UnsafeCell};
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;

pub type SyncCall = dyn FnMut(&RunContext<'_>) -> Result<(), Source> + Send;
pub type AsyncCall = dyn FnMut(&RunContext<'_>, Completion) + Send;

/// What an operation of a graph does.
pub enum Body {
    Sync(UnsafeCell<Quiet<Box<SyncCall>>>),
    Async(Box<Detached>),
}

/// An operation that ends later than its call.
pub struct Detached {
    /// Called by the runner of its lane, one call after the other.
    pub call: UnsafeCell<Quiet<Box<AsyncCall>>>,
    /// [`CALLED`], and then [`RETURNED`] or [`ENDED`], whichever comes first: the segment ends with
    /// the other.
    pub stage: AtomicU8,
    /// How it ended. Written by its end, read by the lane's runner once both the call and the end
    /// are over.
    pub outcome: UnsafeCell<Result<(), Fault>>,
    /// When it started, on which thread and on which worker: the first two only if it is profiled.
    /// The lane's runners' only.
    pub started: Cell<(u64, u32, Option<usize>)>,
}

/// The stages of an asynchronous operation.
pub const CALLED: u8 = 0;
pub const RETURNED: u8 = 1;
pub const ENDED: u8 = 2;

/// An operation of a graph.
pub struct Node {
    pub body: Body,
    pub name: Name,
    pub context: Context,
    pub property: Property,
    /// What it uses, a part of [`Inner::uses`].
    pub uses: Range<u32>,
}

/// A variable that an operation of a graph uses.
pub struct Used {
    /// Alive as long as the engine's memory, which the graph keeps.
    pub slot: *const Slot,
    pub writes: bool,
}

/// Where a lane is handed to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub property: Property,
    pub worker: usize,
}

/// A graph, ready to be replayed.
pub struct Inner {
    pub core: Arc<Core>,
    /// Tells graphs apart, of whatever engines.
    pub id: u64,
    pub name: Name,
    /// All variables, and the graph's own.
    pub claims: Box<[Claim]>,
    /// The graph's own variable, which every replay changes.
    pub variable: Variable,
    /// In the order of the plan.
    pub nodes: Box<[Node]>,
    pub uses: Box<[Used]>,
    /// How often a replay changes each variable.
    pub writes: Box<[(*const Slot, u64)]>,
    pub lanes: Lanes,
    /// Of each lane, the block by which it is handed to a thread.
    pub blocks: Box<[UnsafeCell<Block>]>,
    pub places: Box<[Place]>,
    /// Of the operation that a replay is: what it is, and whom it needs.
    pub notes: u8,
    /// The lanes before this one take any operation; those behind it have operations that run
    /// elsewhere.
    pub common: usize,
    /// Whether any thread may run all of it, in a row.
    pub plain: bool,
    /// Of the replay under way.
    pub replay: UnsafeCell<Replay>,
}

// SAFETY: nodes, blocks and the replay are touched only by who has them to itself: a replay
// excludes others by the graph's variable, and within it a node belongs to the runner of its
// segment's lane, a block to who hands out its lane. Slots are shared, and live as long as the
// core.
unsafe impl Sync for Inner {}
// SAFETY: nothing in it is tied to a thread: closures are `Send`.
unsafe impl Send for Inner {}

/// A replay. Written by its start; read until its end.
pub struct Replay {
    pub completion: Option<Completion>,
    pub stamp: Stamp,
    /// When it was pushed, if it is profiled; else 0.
    pub pushed: u64,
    priority: i32,
    pub pace: Pace,
}

impl Replay {
    pub fn none(pace: Pace) -> Replay {
        Replay { completion: None, stamp: Stamp::LAST, pushed: 0, priority: 0, pace }
    }
}

/// The calls of a lane's block.
pub static LANE: Vtable = Vtable { run: Run::Part(run_lane), discard: ignore, cost: Cost::Unknown };

unsafe fn ignore(_: *mut u8) {}

/// Runs the lane that a block stands for.
unsafe fn run_lane(storage: *mut u8, worker: Option<usize>) {
    // SAFETY: whoever handed out the block has stored this, and a count of the graph for us.
    let (graph, lane) = unsafe { storage.cast::<(*const Inner, u32)>().read() };
    // SAFETY: as above.
    let graph = ManuallyDrop::new(unsafe { Arc::from_raw(graph) });
    let core = Arc::clone(&graph.core);
    let local = core.local();
    // The replay may be over before we have left the lane: whoever stops the engine, or forks,
    // waits for that as well.
    local.count_called();
    // SAFETY: the block was handed out because the lane got something to do, and is handed to one
    // thread.
    let rest = unsafe { work(&graph, lane, worker) };
    if rest == Rest::Idle {
        let_go(local, ManuallyDrop::into_inner(graph));
    } else {
        // SAFETY: we are still the lane's runner, so its block is ours.
        unsafe { core.dispatch.submit(&core, local, graph.blocks[lane as usize].get(), Moment::Later) };
    }
    local.count_returned();
    core.quiescence.notify(|| core.is_quiescent());
}

/// Drops a count of a graph, which may end by that: its closures are the user's.
fn let_go(local: &Local, graph: Arc<Inner>) {
    enter(local);
    drop_quietly(graph);
    leave(local);
}

/// Runs a lane for a while.
///
/// # Safety
/// The caller is its runner.
unsafe fn work(graph: &Arc<Inner>, lane: u32, worker: Option<usize>) -> Rest {
    let local = graph.core.local();
    let running = CurrentNode::new(graph);
    let mut runner = Runner::new(graph, local, &running, graph.places[lane as usize].property, worker);
    enter(local);
    // SAFETY: by the contract.
    let rest = within(&running, || unsafe { graph.lanes.work(lane, &mut runner) });
    leave(local);
    rest
}

impl Inner {
    /// Begins a replay that was pushed as an asynchronous operation.
    ///
    /// # Safety
    /// It is its turn: no other is under way.
    pub unsafe fn begin(self: &Arc<Self>, run: &RunContext<'_>, priority: i32, completion: Completion) {
        let (stamp, pushed) = run.pushed.unwrap_or((Stamp::LAST, 0));
        // SAFETY: by the contract; the runners of the last replay do not look at it any more.
        unsafe {
            let replay = &mut *self.replay.get();
            (replay.completion, replay.stamp, replay.pushed, replay.priority) =
                (Some(completion), stamp, pushed, priority);
        }
        let last = self.common as u32 - 1;
        let lane = run.worker.map_or(last, |worker| last.min(worker as u32));
        // SAFETY: as above.
        unsafe {
            if self.lanes.begin(lane) && work(self, lane, run.worker) == Rest::Paused {
                let block = self.lend_block(lane);
                self.core.dispatch.submit(&self.core, self.core.local(), block, Moment::Later);
            }
        }
    }

    /// Runs all of it, in a row: for a plain graph whose pusher runs everything.
    ///
    /// # Safety
    /// It is its turn: no other replay is under way.
    pub unsafe fn run_all(self: &Arc<Self>, run: &RunContext<'_>) {
        let (stamp, pushed) = run.pushed.unwrap_or((Stamp::LAST, 0));
        // SAFETY: by the contract.
        unsafe {
            let replay = &mut *self.replay.get();
            (replay.stamp, replay.pushed) = (stamp, pushed);
            let running = CurrentNode::new(self);
            let mut runner = Runner::new(self, self.core.local(), &running, Property::Normal, run.worker);
            within(&running, || {
                for segment in &self.lanes.plan().order {
                    runner.run(*segment);
                }
            });
            self.count_writes();
        }
    }

    /// Steps the versions of what a replay has changed.
    pub fn count_writes(&self) {
        for (slot, writes) in &self.writes {
            // SAFETY: slots live as long as the core's memory, and the replay has the variable to
            // itself.
            unsafe { (**slot).advance_version(*writes) };
        }
    }

    /// The block of a lane, made ready to be given to a thread that is to run the lane, with a
    /// count of the graph.
    ///
    /// # Safety
    /// A replay is under way, and the caller is the lane's runner or has just become responsible
    /// for it.
    unsafe fn lend_block(self: &Arc<Self>, lane: u32) -> *mut Block {
        let block = self.blocks[lane as usize].get();
        // SAFETY: by the contract the block is in no list, and the replay is not written.
        unsafe {
            let replay = &*self.replay.get();
            (*block).priority = replay.priority;
            (*block).sequence = replay.stamp.sequence();
            Block::closure(block, Layout::Plain)
                .cast::<(*const Inner, u32)>()
                .write((Arc::into_raw(Arc::clone(self)), lane));
        }
        block
    }

    /// Hands a lane that has got something to do to a thread.
    ///
    /// # Safety
    /// As [`Inner::lend_block`].
    pub unsafe fn hand_out(self: &Arc<Self>, lane: u32) {
        // SAFETY: passed on.
        unsafe {
            let block = self.lend_block(lane);
            self.core.dispatch.lay_out(&self.core, self.core.local(), block, self.places[lane as usize].worker);
        }
    }

    pub fn uses(&self, node: &Node) -> impl Iterator<Item = (&Slot, bool)> {
        // SAFETY: slots live as long as the core's memory.
        self.uses[node.uses.start as usize..node.uses.end as usize]
            .iter()
            .map(|used| (unsafe { &*used.slot }, used.writes))
    }

    /// The failure that an operation finds on its variables.
    pub fn inherited(&self, node: &Node, stamp: Stamp) -> Option<Arc<Failure>> {
        self.uses(node).find_map(|(slot, _)| slot.failure_for(stamp))
    }

    /// Marks what an operation changes, with its own failure or the one that it found; clears other
    /// marks.
    pub fn mark(&self, node: &Node, outcome: Result<(), Fault>, inherited: Option<Arc<Failure>>, stamp: Stamp) {
        let failure = match outcome {
            Ok(()) => inherited,
            Err(fault) => Some(self.core.record(fault, node.name.as_str(), stamp.sequence())),
        };
        if self.core.state.load(Relaxed) & FAILED == 0 {
            return;
        }
        for (slot, _) in self.uses(node).filter(|(_, writes)| *writes && !mutant("failures-in-graphs-not-marked")) {
            slot.leave(failure.as_ref());
        }
    }
}

impl Finish for Inner {
    unsafe fn finish(self: Arc<Self>, block: *mut Block, outcome: Result<(), Fault>) {
        // The completion was made with the address of its node.
        let node = block.cast_const().cast::<Node>();
        // SAFETY: it points into the nodes.
        let operation = unsafe { node.offset_from(self.nodes.as_ptr()) } as u32;
        let segments = &self.lanes.plan().segments;
        let segment = segments.partition_point(|segment| segment.operations.end <= operation) as u32;
        // SAFETY: the operation runs and has not ended, so it is this call's; then the lane's,
        // whose runner is told. The replay is under way.
        unsafe {
            let Body::Async(detached) = &(*node).body else { return };
            *detached.outcome.get() = outcome;
            // AcqRel: the outcome goes to whoever comes second; the next use of the operation comes
            // after both.
            let returned = detached.stage.swap(ENDED, AcqRel) == RETURNED;
            if (returned || mutant("ended-before-the-call-returns")) && self.lanes.ended(segment) {
                self.hand_out(segments[segment as usize].lane);
            }
        }
        let core = Arc::clone(&self.core);
        let local = core.local();
        let_go(local, self);
        core.settle(local);
    }
}
