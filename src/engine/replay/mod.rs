//! Running a graph: what a replay does when its turn comes, and how its lanes get to threads.
//!
//! `api/graph.rs` pushes a closure of [`replaying`] as the operation that a replay is; [`limits`]
//! has until when its operations may start. [`Program::begin`] runs it: by itself, as long as one
//! thread is enough. Else it starts the lanes, and [`Runner`] runs their segments by the protocol
//! of [`lanes`](crate::graph::lanes). A lane without a thread is handed out as a [`Block`] with the
//! vtable [`LANE`], which goes through the dispatch like an operation. Graphs without edges have no
//! lanes but [`guided`] replays. [`part`] has the operations of graphs that use devices, and
//! [`pipelined`] the closures of `api/pipeline.rs`, which has no program. `api/capture.rs`,
//! `api/capture_builder.rs` and `api/pipeline.rs` use [`assemble`], which makes programs;
//! `api/operator.rs` makes bodies, of [`program`].
//!
//! A replay has no count of its graph until it has lanes, since two cores would write that in turn.
//! The deletion of the graph's own variable keeps the graph, and comes after all replays
//! (`Graph::drop` in `api/graph.rs`). What may be on its way when a replay is over has a count: the
//! runners of lanes, and threads that complete an operation.
//!
//! A replay is one operation that uses all variables of the graph but the private ones, which
//! nothing else can use. So no other operation touches them while it runs. Among its own operations
//! the plan keeps the order. So each of them may touch the marks and versions of its variables as
//! it would outside a graph.
//!
//! The state is in [`program`] and `graph/lanes.rs`. A lane is run by a worker, by a thread that
//! waits and helps, or by the one that has begun the replay. An asynchronous operation is ended
//! (`finish`) by any thread that uses its completion, or by the watcher of a device.

pub mod assemble;
pub mod device_graph;
pub mod guided;
pub mod limits;
pub mod merged;
pub mod node_block;
pub mod node_call;
pub mod part;
pub mod pipelined;
pub mod private;
pub mod program;
pub mod replaying;
pub mod runner;
pub mod seats;
pub mod spread_policy;

use crate::device::raw::RawStream;
use crate::device::Device;
use crate::engine::core::{Core, ReadyCause};
use crate::engine::execute::Called;
use crate::engine::nesting::{enter, leave};
use crate::engine::replay::limits::{ReplayLimits, LIMITED};
use crate::engine::replay::program::{Body, Node, Program, ENDED, RETURNED};
use crate::engine::replay::runner::{CurrentNode, Runner};
use crate::error::{Failure, Fault, Stamp};
use crate::graph::lanes::{Beginning, LaneHost, Rest, SerialStep};
use crate::operation::block::Block;
use crate::operation::closure::{drop_quietly, Cost, Run, Vtable};
use crate::operation::completion::{Completion, Due, Finish};
use crate::operation::context::RunContext;
use crate::operation::current::within;
use crate::operation::layout::Layout;
use crate::operation::start_limits::StartLimits;
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use crate::worker::current::CurrentWorker;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// The vtable of a lane's block: a thread that runs the block runs the lane.
pub static LANE: Vtable = Vtable { run: Run::Part(run_lane), discard: ignore, cost: Cost::Unknown };

unsafe fn ignore(_: *mut u8, _: Option<&Arc<Failure>>) {}

/// Runs the lane that a block stands for.
///
/// # Safety
/// `storage` is the closure of a block from `Program::lend_block`, and is used once for each time
/// that it was lent.
unsafe fn run_lane(storage: *mut u8, worker: Option<usize>) {
    // SAFETY: the thread that handed out the block has stored this pair, with a reference to the
    // graph for us.
    let (graph, lane) = unsafe { storage.cast::<(*const Program, u32)>().read() };
    // SAFETY: the reference is ours. The `ManuallyDrop` leaves it to the block if another thread
    // goes on with the lane.
    let graph = ManuallyDrop::new(unsafe { Arc::from_raw(graph) });
    let core = Arc::clone(&graph.core);
    let local = core.local();
    // The replay may be over before this thread has left the lane. A thread that stops the engine,
    // or forks, waits until it has left, because of this count.
    local.count_called();
    // SAFETY: the block was handed out to this thread alone, when the lane got something to do; so
    // this thread is the lane's runner.
    let rest = unsafe { work(&graph, lane, worker) };
    if rest == Rest::Idle {
        Program::let_go(local, ManuallyDrop::into_inner(graph));
    } else {
        CurrentWorker::end_turn();
        // SAFETY: this thread is still the lane's runner, so the lane's block is ours.
        unsafe { core.dispatch.submit(&core, local, graph.blocks[lane as usize].get(), ReadyCause::Later) };
    }
    local.count_returned();
    core.quiescence.notify(|| core.is_quiescent());
}

/// Runs a lane until it has nothing to run, or until its thread has something else to do.
///
/// # Safety
/// The caller is the lane's runner.
unsafe fn work(graph: &Arc<Program>, lane: u32, worker: Option<usize>) -> Rest {
    let local = graph.core.local();
    let running = CurrentNode::new(graph);
    let mut runner = Runner::new(graph, &running, lane, worker);
    enter(local);
    // SAFETY: by the contract.
    let rest = within(&running, || unsafe { graph.lanes.work(lane, &mut runner) });
    leave(local);
    rest
}

impl Core {
    /// Calls a replay, which may ask for its completion. Returns what `Core::end_call` needs if it
    /// has; then the block may be another operation's. Else the replay has ended. Called by
    /// `execute.rs`.
    ///
    /// # Safety
    /// As `Core::begin_call`.
    pub(super) unsafe fn call_replay(
        self: &Arc<Self>,
        local: &ThreadContext,
        block: *mut Block,
        worker: Option<usize>,
        call: impl FnOnce(&mut dyn FnMut() -> Completion),
    ) -> Option<Called> {
        let mut called = None;
        call(&mut || {
            // SAFETY: by the contract.
            let (completion, kept) = unsafe { self.begin_call(local, block, worker) };
            called = Some(kept);
            completion
        });
        called
    }
}

impl Program {
    /// Runs a replay on the calling thread if one is enough, and returns when it is over. Else asks
    /// `detach` for the completion, sends what is left of the replay to a lane, and runs this lane
    /// if it is idle. The lane is the one with the number of the calling worker. Workers with
    /// higher numbers, and threads that are no workers, take the last common lane.
    ///
    /// # Safety
    /// It is the replay's turn: no other replay of the graph is under way.
    unsafe fn begin(self: &Arc<Self>, run: &RunContext<'_>, priority: i32, detach: &mut dyn FnMut() -> Completion) {
        let (stamp, pushed) = run.pushed.unwrap_or((Stamp::LAST, 0));
        let last = self.common as u32 - 1;
        let lane = run.worker.map_or(last, |worker| last.min(worker as u32));
        // SAFETY: by the contract; the runners of the last replay do not look at it any more.
        let is_alone = unsafe {
            let replay = &mut *self.replay.get();
            (replay.stamp, replay.pushed, replay.priority) = (stamp, pushed, priority);
            replay.spread_policy.begin(self.core.inline_policy.clock())
        };
        if let Some(guided) = &self.guided {
            // SAFETY: the contract is passed on.
            return unsafe { self.begin_guided(guided, run.worker, is_alone, detach) };
        }
        let mut beginning = Beginning { from: 0, alone: false };
        if is_alone {
            // SAFETY: no lane has a part of the replay.
            let Some(left) = (unsafe { self.run_without_lanes(lane, run.worker) }) else {
                return self.give_back();
            };
            beginning = left;
        }
        // The replay may be over before this thread has left the lane.
        let held = Arc::clone(self);
        self.give_back();
        // SAFETY: it is the replay's turn. If `lanes.begin` returns `true` this thread is the
        // lane's runner.
        unsafe {
            let replay = &mut *self.replay.get();
            (replay.completion, replay.beginning) = (Some(detach()), beginning);
            // A replay that goes on alone has paused: the thread has something else to do first.
            if self.lanes.begin(lane) && (beginning.alone || work(self, lane, run.worker) == Rest::Paused) {
                CurrentWorker::end_turn();
                let block = self.lend_block(lane);
                self.core.dispatch.submit(&self.core, self.core.local(), block, ReadyCause::Later);
            }
        }
        let core = Arc::clone(&held.core);
        Program::let_go(core.local(), held);
    }

    /// Runs a replay from its first segment on, like `run_alone` of `graph/spread.rs`, but without
    /// a lane. Returns how lanes go on with it, or `None` if it is over.
    ///
    /// # Safety
    /// It is the replay's turn, and no lane has a part of it.
    unsafe fn run_without_lanes(self: &Arc<Self>, lane: u32, worker: Option<usize>) -> Option<Beginning> {
        let running = CurrentNode::new(self);
        let mut runner = Runner::new(self, &running, lane, worker);
        within(&running, || {
            let order = &self.lanes.plan().order;
            for (from, segment) in (1..).zip(order) {
                runner.run(*segment);
                let step = runner.alone(order.len() - from as usize);
                if step != SerialStep::GoOn {
                    return Some(Beginning { from, alone: step == SerialStep::Pause });
                }
            }
            runner.over();
            None
        })
    }

    /// Runs all operations in a row, without a look at the clock.
    ///
    /// # Safety
    /// It is the replay's turn: no other replay of the graph is under way.
    #[inline]
    unsafe fn run_all(self: &Arc<Self>, run: &RunContext<'_>) {
        let (stamp, pushed) = run.pushed.unwrap_or((Stamp::LAST, 0));
        // SAFETY: by the contract.
        unsafe {
            let replay = &mut *self.replay.get();
            (replay.stamp, replay.pushed) = (stamp, pushed);
            let running = CurrentNode::new(self);
            let mut runner = Runner::new(self, &running, 0, run.worker);
            within(&running, || {
                for segment in &self.lanes.plan().order {
                    runner.run(*segment);
                }
            });
            self.count_writes();
        }
    }

    /// Gives the replay that is about to begin its limits. Returns the context for
    /// [`Program::begin`] or [`Program::run_all`].
    ///
    /// # Safety
    /// Like for [`Program::begin`], which follows.
    pub unsafe fn limit<'a>(&self, run: &RunContext<'a>, limits: StartLimits) -> RunContext<'a> {
        let (stamp, pushed) = run.pushed.unwrap_or((Stamp::LAST, 0));
        // SAFETY: by the contract; the runners of the last replay do not look at it any more.
        unsafe { (*self.replay.get()).limits = ReplayLimits::begin(limits) };
        RunContext { pushed: Some((stamp, pushed | LIMITED)), ..*run }
    }

    /// Prepares the block of a lane for the thread that is to run the lane, with a reference to the
    /// graph.
    ///
    /// # Safety
    /// A replay is under way, and the caller is the lane's runner or has just become responsible
    /// for the lane.
    unsafe fn lend_block(self: &Arc<Self>, lane: u32) -> *mut Block {
        let block = self.blocks[lane as usize].get();
        // SAFETY: by the contract the block is in no list, and no thread writes the replay.
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

    /// Hands a lane that has got something to do to a thread: a worker of the lane's place.
    ///
    /// # Safety
    /// Like for [`Program::lend_block`].
    pub unsafe fn hand_out(self: &Arc<Self>, lane: u32) {
        // SAFETY: the contract is passed on.
        unsafe {
            if self.places[lane as usize].device.is_some() {
                // It calls no closures, so this thread runs it.
                while work(self, lane, None) == Rest::Paused {}
                return;
            }
            let block = self.lend_block(lane);
            self.core.dispatch.publish(&self.core, self.core.local(), block, self.places[lane as usize].worker);
        }
    }

    /// Tells the lane of an operation that has ended, later than the runner has come to it.
    ///
    /// # Safety
    /// The runner has come to it and found that it ends later, and this is its end.
    pub unsafe fn tell_lane(self: &Arc<Self>, operation: u32) {
        let segments = &self.lanes.plan().segments;
        let segment = segments.partition_point(|segment| segment.operations.end <= operation) as u32;
        // SAFETY: by the contract; the operation is a segment by itself. The replay is under way.
        unsafe {
            if self.lanes.ended(segment) {
                self.hand_out(segments[segment as usize].lane);
            }
        }
    }

    /// Drops a reference to a graph. If it was the last, the closures are dropped with the graph,
    /// which is user code.
    pub fn let_go(local: &ThreadContext, graph: Arc<Program>) {
        enter(local);
        drop_quietly(graph);
        leave(local);
    }
}

impl Finish for Program {
    /// Always 0: a node's operation ends after its closure has returned, and only then may the next
    /// replay use the node.
    unsafe fn sequence(&self, _: *mut Block) -> u64 {
        0
    }

    unsafe fn finish(self: Arc<Self>, block: *mut Block, outcome: Result<(), Fault>) {
        // `Program::call_node` made the completion with the address of its node.
        let node = block.cast_const().cast::<Node>();
        // SAFETY: the address points into the nodes.
        let operation = unsafe { node.offset_from(self.nodes.as_ptr()) } as u32;
        let core = Arc::clone(&self.core);
        let local = core.local();
        // As in `run_lane`: the replay may be over before this thread has let the graph go.
        local.count_called();
        // SAFETY: the operation has not ended before this call, so its outcome is this call's, and
        // so is its borrow, which was begun before it was called on its device. After the swap it
        // is the runner's of the lane, which is told. The replay is under way.
        unsafe {
            let Body::Async(detached) = (*node).closure() else { unreachable!("only such an operation is completed") };
            if let (Body::Part(part), Device::Gpu) = (&(*node).body, (*node).context.device()) {
                core.end_borrow(part.block.raw());
            }
            *detached.outcome.get() = outcome;
            // AcqRel: pairs with the swap in `Program::call_node`, so the side that comes second
            // sees the outcome. The next use of the operation comes after both swaps.
            let returned = detached.stage.swap(ENDED, AcqRel) == RETURNED;
            if returned {
                self.tell_lane(operation);
            }
        }
        Program::let_go(local, self);
        local.count_returned();
        core.flush(local);
    }

    unsafe fn finish_after(self: Arc<Self>, block: *mut Block, stream: RawStream) {
        let core = Arc::clone(&self.core);
        // SAFETY: as in `finish`.
        unsafe {
            let node = block.cast_const().cast::<Node>();
            let whose = ((*node).context, (*node).name.as_str());
            core.finish_after_stream(Due::new(self, block), whose, stream);
        }
    }
}
