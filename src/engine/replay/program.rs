//! The program of a graph: its operations as the threads that run it find them, and the replay
//! under way.
//!
//! `replay/assemble.rs` makes it, `api/graph.rs` holds it, and the other files of `replay/` run it,
//! on any thread. Bodies are made by [`sync`] and [`detached`] for `api/capture_builder.rs`,
//! `api/operator.rs` and `merged.rs`; `api/pipeline.rs` makes operators of them. The thread that
//! lets go of it last drops it, with the closures.
//!
//! It does not change, but for the cells and atomics. Those of an operation belong to the runner of
//! its lane, or to the thread that was given it by a block or took it in a chunk
//! (`replay/guided.rs`); the thread that completes it writes `stage` and `outcome` (`finish` in
//! `replay/mod.rs`). Pushers of replays count in `given`, and threads that have run one in
//! `returned`. A pipeline's asynchronous operation has a [`Detached`] too, and no lane (`AsyncStep`
//! in `pipelined.rs`). The block of a lane belongs to the thread that hands out the lane, and then
//! to the one that runs it. [`Replay`] is written by the thread that begins the replay, and by the
//! runner that ends it or runs it alone; between them all runners read it.

use crate::device::Context;
use crate::engine::core::Core;
use crate::engine::nesting::{inside, mark_inside};
use crate::engine::replay::limits::{ReplayLimits, LIMITED};
use crate::engine::replay::node_block::NodeBlock;
use crate::engine::replay::private::PrivateVariables;
use crate::engine::replay::seats::GuidedReplay;
use crate::engine::replay::spread_policy::SpreadPolicy;
use crate::engine::request::Claim;
use crate::error::{Failure, Fault, Source, Stamp};
use crate::graph::lanes::{Beginning, Lanes};
use crate::operation::block::Block;
use crate::operation::closure::DropGuarded;
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::sync::{AtomicU8, AtomicUsize, Ordering::*};
use crate::util::bucket_array::Location;
use crate::variable::handle::Variable;
use crate::variable::slot::Slot;
use crossbeam_utils::CachePadded;
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::sync::Arc;

pub type ReplayedCall = dyn FnMut(&RunContext<'_>) -> Result<(), Source> + Send;
pub type ReplayedAsyncCall = dyn FnMut(&RunContext<'_>, Completion) + Send;

/// The closure of an operation of a graph.
pub enum Body {
    Sync(UnsafeCell<DropGuarded<Box<ReplayedCall>>>),
    Async(Box<Detached>),
    /// An operation of a graph that uses devices.
    Part(Box<Part>),
}

/// An operation of a graph that uses devices: it runs on a device, or may come after one that does.
pub struct Part {
    /// The closure, never itself a [`Body::Part`].
    pub body: Body,
    pub block: NodeBlock,
    pub priority: i32,
}

/// An asynchronous operation of a graph, which ends by its completion and not with its call.
pub struct Detached {
    /// Called by the runner of the operation's lane, one call after the other.
    pub call: UnsafeCell<DropGuarded<Box<ReplayedAsyncCall>>>,
    /// [`CALLED`], and then [`RETURNED`] or [`ENDED`], whichever comes first. The segment ends when
    /// the other one comes. Or [`CONCLUDED`].
    pub stage: AtomicU8,
    /// The outcome. Written by the thread that completes the operation; read by the lane's runner
    /// once the call has returned and the operation has ended.
    pub outcome: UnsafeCell<Result<(), Fault>>,
    /// When the call started, on which thread and on which worker. The first two are set only if
    /// the replay is profiled. Used by the lane's runners only.
    pub started: Cell<(u64, u32, Option<usize>)>,
}

/// The stages of an asynchronous operation: the closure is being called; it has returned; the
/// operation was completed; it was skipped, and nothing is left to do.
pub const CALLED: u8 = 0;
pub const RETURNED: u8 = 1;
pub const ENDED: u8 = 2;
pub const CONCLUDED: u8 = 3;

/// An operation of a graph.
pub struct Node {
    pub body: Body,
    pub name: Name,
    pub context: Context,
    pub property: Property,
    /// The variables that it uses, a part of [`Program::uses`].
    pub uses: Range<u32>,
}

impl Node {
    /// The closure, with what belongs to it.
    pub fn closure(&self) -> &Body {
        match &self.body {
            Body::Part(part) => &part.body,
            body => body,
        }
    }
}

/// The body of a synchronous operation, which ends with its call.
pub fn sync(closure: impl FnMut(&RunContext<'_>) -> Result<(), Source> + Send + 'static) -> Body {
    Body::Sync(UnsafeCell::new(DropGuarded::new(Box::new(closure))))
}

/// The body of an asynchronous operation, which ends by its completion.
pub fn detached(closure: impl FnMut(&RunContext<'_>, Completion) + Send + 'static) -> Body {
    Body::Async(Box::new(Detached {
        call: UnsafeCell::new(DropGuarded::new(Box::new(closure))),
        stage: AtomicU8::new(CALLED),
        outcome: UnsafeCell::new(Ok(())),
        started: Cell::new((0, 0, None)),
    }))
}

/// A variable that an operation of a graph uses.
pub struct UsedSlot {
    /// Alive as long as the engine's memory, which the graph keeps.
    pub slot: *const Slot,
    pub writes: bool,
}

/// The workers that a lane is handed to, by property, and the number of the worker among them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LanePlace {
    pub property: Property,
    pub worker: usize,
    /// The lane has the operations of a device. Its runner only hands them to workers of the
    /// device, so any thread that has something for the lane runs it at once.
    pub device: Option<Context>,
}

/// A graph, ready to be replayed.
pub struct Program {
    pub core: Arc<Core>,
    /// The number of the graph, which no other graph of any engine has.
    pub id: u64,
    pub name: Name,
    /// All variables of the graph but the private ones, and the graph's own variable, in order.
    pub claims: Box<[Claim]>,
    pub located: Box<[(Claim, Location)]>,
    /// The graph's own variable, which every replay changes.
    pub variable: Variable,
    /// How many operations were captured. A [`DeviceGraph`](super::device_graph::DeviceGraph) is
    /// one of `nodes`.
    pub captured: usize,
    /// The operations, in the order of the plan.
    pub nodes: Box<[Node]>,
    pub uses: Box<[UsedSlot]>,
    /// How often a replay changes each variable that is not private.
    pub writes: Box<[(*const Slot, u64)]>,
    /// Kept until the graph is gone.
    pub _private: PrivateVariables,
    pub lanes: Lanes,
    /// How threads share the operations, if none waits for another. There is one lane then, which
    /// no thread runs.
    pub guided: Option<Box<GuidedReplay>>,
    /// For each lane, the block by which it is handed to a thread.
    pub blocks: Box<[UnsafeCell<Block>]>,
    pub places: Box<[LanePlace]>,
    /// The devices that its operations run on.
    pub devices: Box<[Context]>,
    /// Flags of the operation that a replay is: that it is a graph, and which special workers it
    /// needs.
    pub flags: u16,
    /// The number of common lanes, which take any operation. The lanes after them have the
    /// operations that must run elsewhere.
    pub common: usize,
    /// Whether one thread may run all operations in a row: all lanes are common, and no operation
    /// is asynchronous.
    pub plain: bool,
    /// The replay under way, apart from what a push of a replay reads.
    pub replay: CachePadded<UnsafeCell<Replay>>,
    /// How many replays were given the graph, by their pushers, and how many do not need it any
    /// more, by the threads that have run them. Those that were never run are not in the second.
    pub given: CachePadded<AtomicUsize>,
    pub returned: CachePadded<AtomicUsize>,
}

// SAFETY: nodes, blocks and the replay are touched only by a thread that has them to itself. A
// replay excludes others by the graph's variable. Within a replay a node belongs to the runner of
// its segment's lane, and a block to the thread that hands out its lane. Slots are shared, and live
// as long as the core.
unsafe impl Sync for Program {}
// SAFETY: nothing in it is tied to a thread: closures are `Send`.
unsafe impl Send for Program {}

/// The data of a replay. Written when it begins, read until it ends.
pub struct Replay {
    /// `None` while the thread that has begun the replay runs it without a lane.
    pub completion: Option<Completion>,
    pub stamp: Stamp,
    /// When the replay was pushed, if it is profiled; else 0. With [`LIMITED`] if it has limits.
    pub pushed: u64,
    pub priority: i32,
    /// How it goes on when it comes to a lane.
    pub beginning: Beginning,
    pub spread_policy: SpreadPolicy,
    /// Looked at only with [`LIMITED`]. They stay until the next replay with limits.
    pub limits: ReplayLimits,
}

impl Replay {
    pub fn none(spread_policy: SpreadPolicy) -> Replay {
        let (beginning, limits) = (Beginning { from: 0, alone: false }, ReplayLimits::default());
        Replay { completion: None, stamp: Stamp::LAST, pushed: 0, priority: 0, beginning, spread_policy, limits }
    }

    /// When the replay was pushed, if it is profiled; else 0.
    pub fn pushed_at(&self) -> u64 {
        self.pushed & !LIMITED
    }

    /// Refuses an operation that may not start any more.
    pub fn within_limits(&self) -> Result<(), Fault> {
        if self.pushed & LIMITED == 0 {
            return Ok(());
        }
        self.limits.refusal().map_or(Ok(()), |error| Err(Fault::failed(error.into())))
    }
}

impl Program {
    /// Whether no replay has still to use the graph without a count. For its only handle.
    pub fn is_returned(&self) -> bool {
        // Acquire: pairs with the release in `give_back`, so that the graph can be dropped.
        // Relaxed: the pushes came before the handle's drop.
        self.returned.load(Acquire) == self.given.load(Relaxed)
    }

    /// Says that a push of a replay was refused.
    #[cold]
    pub fn take_back(&self) {
        // Relaxed: as in `Replaying::new`.
        self.given.fetch_sub(1, Relaxed);
    }

    /// Says that a replay, whose turn it is, does not use the graph any more without a count.
    #[inline]
    pub fn give_back(&self) {
        // Release: pairs with the acquire in `is_returned`. No exchange: it is one replay's turn.
        self.returned.store(self.returned.load(Relaxed).wrapping_add(1), Release);
    }

    /// Steps the versions of the variables that a replay has changed.
    pub fn count_writes(&self) {
        for (slot, writes) in &self.writes {
            // SAFETY: slots live as long as the core's memory, and the replay has the variables to
            // itself.
            unsafe { (**slot).advance_version(*writes) };
        }
    }

    pub fn uses(&self, node: &Node) -> impl Iterator<Item = (&Slot, bool)> {
        // SAFETY: slots live as long as the core's memory.
        self.uses[node.uses.start as usize..node.uses.end as usize]
            .iter()
            .map(|used| (unsafe { &*used.slot }, used.writes))
    }

    /// The failure that an operation inherits from the variables that it uses, if any.
    pub fn inherited(&self, node: &Node, stamp: Stamp) -> Option<Arc<Failure>> {
        self.uses(node).find_map(|(slot, _)| slot.failure_for(stamp))
    }

    /// Marks the variables that an operation changes, with its own failure or the one that it
    /// inherited; clears their marks if there is neither.
    pub fn mark(&self, node: &Node, outcome: Result<(), Fault>, inherited: Option<Arc<Failure>>, stamp: Stamp) {
        let failure = match outcome {
            Ok(()) => inherited,
            Err(fault) => Some(self.core.record(fault, node.name.as_str(), stamp.sequence())),
        };
        if !self.core.state.load(Relaxed).has_failed() {
            return;
        }
        let local = self.core.local();
        for (slot, _) in self.uses(node).filter(|(_, writes)| *writes) {
            mark_inside(local, slot, failure.as_ref());
        }
        if let Some(failure) = failure {
            inside(local, || drop(failure));
        }
    }
}
