//! Running a graph: what a replay does when its turn comes.
//!
//! A replay is one operation, which uses all variables of the graph, so nobody else does while it
//! runs: between its own operations the plan keeps order, and marks and versions of variables may
//! be touched as each of them would by itself. See [`lanes`](crate::graph::lanes).

pub mod assemble;
pub mod program;
pub mod runner;
pub mod spread_policy;

use crate::engine::core::ReadyCause;
use crate::engine::nesting::{enter, leave};
use crate::engine::replay::program::{Body, Node, Program, ENDED, RETURNED};
use crate::engine::replay::runner::{CurrentNode, Runner};
use crate::error::{Fault, Stamp};
use crate::graph::lanes::{LaneHost, Rest};
use crate::operation::block::Block;
use crate::operation::closure::{drop_quietly, Cost, Run, Vtable};
use crate::operation::completion::{Completion, Finish};
use crate::operation::context::RunContext;
use crate::operation::current::within;
use crate::operation::layout::Layout;
use crate::operation::property::Property;
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// The calls of a lane's block.
pub static LANE: Vtable = Vtable { run: Run::Part(run_lane), discard: ignore, cost: Cost::Unknown };

unsafe fn ignore(_: *mut u8) {}

/// Runs the lane that a block stands for.
unsafe fn run_lane(storage: *mut u8, worker: Option<usize>) {
    // SAFETY: the thread that handed out the block has stored this, and a count of the graph for
    // us.
    let (graph, lane) = unsafe { storage.cast::<(*const Program, u32)>().read() };
    // SAFETY: as above.
    let graph = ManuallyDrop::new(unsafe { Arc::from_raw(graph) });
    let core = Arc::clone(&graph.core);
    let local = core.local();
    // The replay may be over before we have left the lane: the thread that stops the engine, or
    // forks, waits for that as well.
    local.count_called();
    // SAFETY: the block was handed out because the lane got something to do, and is handed to one
    // thread.
    let rest = unsafe { work(&graph, lane, worker) };
    if rest == Rest::Idle {
        let_go(local, ManuallyDrop::into_inner(graph));
    } else {
        // SAFETY: we are still the lane's runner, so its block is ours.
        unsafe { core.dispatch.submit(&core, local, graph.blocks[lane as usize].get(), ReadyCause::Later) };
    }
    local.count_returned();
    core.quiescence.notify(|| core.is_quiescent());
}

/// Drops a count of a graph, which may end by that: its closures are the user's.
fn let_go(local: &ThreadContext, graph: Arc<Program>) {
    enter(local);
    drop_quietly(graph);
    leave(local);
}

/// Runs a lane for a while.
///
/// # Safety
/// The caller is its runner.
unsafe fn work(graph: &Arc<Program>, lane: u32, worker: Option<usize>) -> Rest {
    let local = graph.core.local();
    let running = CurrentNode::new(graph);
    let mut runner = Runner::new(graph, local, &running, graph.places[lane as usize].property, worker);
    enter(local);
    // SAFETY: by the contract.
    let rest = within(&running, || unsafe { graph.lanes.work(lane, &mut runner) });
    leave(local);
    rest
}

impl Program {
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
                self.core.dispatch.submit(&self.core, self.core.local(), block, ReadyCause::Later);
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
                .cast::<(*const Program, u32)>()
                .write((Arc::into_raw(Arc::clone(self)), lane));
        }
        block
    }

    /// Hands a lane that has got something to do to a thread.
    ///
    /// # Safety
    /// As [`Program::lend_block`].
    pub unsafe fn hand_out(self: &Arc<Self>, lane: u32) {
        // SAFETY: passed on.
        unsafe {
            let block = self.lend_block(lane);
            self.core.dispatch.publish(&self.core, self.core.local(), block, self.places[lane as usize].worker);
        }
    }
}

impl Finish for Program {
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
            // AcqRel: the outcome goes to the side that comes second; the next use of the operation
            // comes after both.
            let returned = detached.stage.swap(ENDED, AcqRel) == RETURNED;
            if returned && self.lanes.ended(segment) {
                self.hand_out(segments[segment as usize].lane);
            }
        }
        let core = Arc::clone(&self.core);
        let local = core.local();
        let_go(local, self);
        core.settle(local);
    }
}
