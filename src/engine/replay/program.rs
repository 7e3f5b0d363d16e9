//! What a graph is to the threads that run it: its operations, and the replay under way.

use crate::device::Context;
use crate::engine::core::{Core, FAILED};
use crate::engine::replay::spread_policy::SpreadPolicy;
use crate::engine::request::Claim;
use crate::error::{Failure, Fault, Source, Stamp};
use crate::graph::lanes::Lanes;
use crate::operation::block::Block;
use crate::operation::closure::DropGuarded;
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::sync::{AtomicU8, Ordering::*};
use crate::variable::handle::Variable;
use crate::variable::slot::Slot;
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::sync::Arc;

pub type SyncCall = dyn FnMut(&RunContext<'_>) -> Result<(), Source> + Send;
pub type AsyncCall = dyn FnMut(&RunContext<'_>, Completion) + Send;

/// What an operation of a graph does.
pub enum Body {
    Sync(UnsafeCell<DropGuarded<Box<SyncCall>>>),
    Async(Box<Detached>),
}

/// An operation that ends later than its call.
pub struct Detached {
    /// Called by the runner of its lane, one call after the other.
    pub call: UnsafeCell<DropGuarded<Box<AsyncCall>>>,
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
    /// What it uses, a part of [`Program::uses`].
    pub uses: Range<u32>,
}

/// A variable that an operation of a graph uses.
pub struct UsedSlot {
    /// Alive as long as the engine's memory, which the graph keeps.
    pub slot: *const Slot,
    pub writes: bool,
}

/// Where a lane is handed to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LanePlace {
    pub property: Property,
    pub worker: usize,
}

/// A graph, ready to be replayed.
pub struct Program {
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
    pub uses: Box<[UsedSlot]>,
    /// How often a replay changes each variable.
    pub writes: Box<[(*const Slot, u64)]>,
    pub lanes: Lanes,
    /// Of each lane, the block by which it is handed to a thread.
    pub blocks: Box<[UnsafeCell<Block>]>,
    pub places: Box<[LanePlace]>,
    /// Of the operation that a replay is: what it is, and whom it needs.
    pub flags: u8,
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
unsafe impl Sync for Program {}
// SAFETY: nothing in it is tied to a thread: closures are `Send`.
unsafe impl Send for Program {}

/// A replay. Written by its start; read until its end.
pub struct Replay {
    pub completion: Option<Completion>,
    pub stamp: Stamp,
    /// When it was pushed, if it is profiled; else 0.
    pub pushed: u64,
    pub priority: i32,
    pub pace: SpreadPolicy,
}

impl Replay {
    pub fn none(pace: SpreadPolicy) -> Replay {
        Replay { completion: None, stamp: Stamp::LAST, pushed: 0, priority: 0, pace }
    }
}

impl Program {
    /// Steps the versions of what a replay has changed.
    pub fn count_writes(&self) {
        for (slot, writes) in &self.writes {
            // SAFETY: slots live as long as the core's memory, and the replay has the variable to
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
        for (slot, _) in self.uses(node).filter(|(_, writes)| *writes) {
            slot.leave(failure.as_ref());
        }
    }
}
