//! The runner of a lane: runs the operations of its segments one after the other, with their
//! failures and their profiler events.
//!
//! Used by `replay/mod.rs`, `replay/guided.rs` and `replay/part.rs`, and called back by
//! `graph/lanes.rs` as its [`LaneHost`]. One thread at a time runs a lane. While a replay runs on
//! one thread, its runner runs segments of all lanes: the lane of an operation is that of its
//! segment in the plan, not that of the runner. The thread that begins a replay has a runner too
//! before the replay has come to a lane (`Program::begin`). A [`Runner`] lies on the stack of its
//! thread: a worker, a thread that helps, or the one that has begun the replay. The lane of a
//! device is run by any thread that has a message for it.
//!
//! The quick way is here; `replay/node_call.rs` has the other. A failure goes to `Program::mark`
//! (`replay/program.rs`), which has `Core::record` (`engine/execute.rs`) note it.

use crate::device::Context;
use crate::engine::core::Core;
use crate::engine::replay::program::{Body, LanePlace, Node, Program, Replay};
use crate::graph::lanes::{Beginning, LaneHost, SerialStep};
use crate::operation::closure::catch_call;
use crate::operation::context::RunContext;
use crate::operation::current::{Current, May};
use crate::sync::Ordering::*;
use crate::worker::group::Group;
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

/// Operations that a runner runs before its thread does something else for once.
const TURN: u32 = 256;
/// Operations that a runner runs before it looks whether something is urgent.
const OPERATIONS_A_GLANCE: u32 = 16;

/// The operation of a graph that the calling thread runs, for checks of what it may use.
pub struct CurrentNode<'a> {
    graph: &'a Program,
    node: Cell<Option<&'a Node>>,
}

impl<'a> CurrentNode<'a> {
    /// Begins with no operation.
    pub fn new(graph: &'a Program) -> CurrentNode<'a> {
        CurrentNode { graph, node: Cell::new(None) }
    }

    /// This operation.
    pub fn of(graph: &'a Program, node: &'a Node) -> CurrentNode<'a> {
        CurrentNode { graph, node: Cell::new(Some(node)) }
    }
}

impl Current for CurrentNode<'_> {
    fn name(&self) -> &'static str {
        self.node.get().map_or("", |node| node.name.as_str())
    }

    fn may(&self, engine: u32, index: u32) -> Option<May> {
        if self.graph.core.memory.id != engine {
            return None;
        }
        let mut uses = self.node.get().into_iter().flat_map(|node| self.graph.uses(node));
        Some(May::of(uses.find(|(slot, _)| slot.index() == index).map(|(_, writes)| writes)))
    }

    fn generation(&self, index: u32) -> u32 {
        // SAFETY: the operation has declared a variable of this index.
        unsafe { self.graph.core.memory.table.generation(index) }
    }
}

/// A thread that runs a lane, or all lanes.
pub struct Runner<'a> {
    graph: &'a Arc<Program>,
    core: &'a Core,
    running: &'a CurrentNode<'a>,
    /// The lane. While a replay runs on one thread, the one that it began with.
    lane: u32,
    context: RunContext<'static>,
    /// Operations run since the last look whether something is urgent, and since the turn began.
    glanced: u32,
    turn: u32,
    /// Operations run since the clock was last looked at, or [`Runner::takes_a_break`] last asked.
    measured: u32,
}

impl<'a> Runner<'a> {
    pub fn new(graph: &'a Arc<Program>, running: &'a CurrentNode<'a>, lane: u32, worker: Option<usize>) -> Runner<'a> {
        let context = RunContext {
            context: Context::cpu(0),
            name: "",
            worker,
            nested_threads: graph.core.nested_threads.load(Relaxed),
            inherited: None,
            graph: graph.id,
            pushed: None,
        };
        Runner { graph, core: &graph.core, running, lane, context, glanced: 0, turn: 0, measured: 0 }
    }

    /// The replay under way.
    ///
    /// # Safety
    /// The caller runs a segment of it.
    unsafe fn replay(&self) -> &'a Replay {
        // SAFETY: the replay is written before the first segment is run, and again only after the
        // last.
        unsafe { &*self.graph.replay.get() }
    }

    /// Runs operations in a row. Returns whether the last has ended; an asynchronous one is alone.
    ///
    /// # Safety
    /// Their turn has come, and the caller has them to itself.
    #[inline]
    pub unsafe fn run_nodes(&mut self, range: Range<usize>) -> bool {
        let (graph, mut ended) = (self.graph, true);
        self.measured += range.len() as u32;
        for node in &graph.nodes[range] {
            // SAFETY: by the contract.
            ended = unsafe { self.run_node(node) };
        }
        ended
    }

    /// How many operations to run before [`LaneHost::alone`] is asked.
    pub fn stride(&self) -> usize {
        // SAFETY: asked by the only thread that runs the replay.
        unsafe { (*self.graph.replay.get()).spread_policy.interval().max(1) as usize }
    }

    /// Runs an operation; says whether it has ended. This is the quick way: the operation is
    /// synchronous, nothing has failed, nothing is profiled, and the replay has no limits.
    ///
    /// # Safety
    /// The operation's turn has come, and the caller has its segment.
    #[inline]
    unsafe fn run_node(&mut self, node: &'a Node) -> bool {
        self.running.node.set(Some(node));
        self.context.name = node.name.as_str();
        self.context.context = node.context;
        // Relaxed: a failure that concerns this operation was noted before this thread learned that
        // the predecessors have ended.
        let state = self.core.state.load(Relaxed);
        // SAFETY: the caller has the node to itself.
        unsafe {
            match &node.body {
                Body::Sync(call) if !state.may_skip() && self.replay().pushed == 0 => {
                    let called = catch_call(&self.context, || (*call.get())(&self.context));
                    if let Err(fault) = called {
                        self.graph.mark(node, Err(fault), None, self.replay().stamp);
                    }
                    true
                }
                _ => self.run_with_care(node),
            }
        }
    }

    /// Runs an operation that is asynchronous, profiled, or of a graph that uses devices; or any
    /// operation after a failure, or of a replay with limits. Says whether it has ended.
    ///
    /// # Safety
    /// Like for [`Runner::run_node`].
    #[cold]
    unsafe fn run_with_care(&mut self, node: &Node) -> bool {
        let graph = self.graph;
        // SAFETY: the contract is passed on. An operation that has ended is concluded before its
        // segment ends.
        unsafe {
            if let Body::Part(part) = &node.body {
                if !graph.begin_part(self.core.local(), node, part) {
                    return false;
                }
            }
            let ended = graph.call_node(node, &self.context, |_| Ok(()), |_, call| call());
            if ended {
                graph.conclude_node(node);
            }
            ended
        }
    }
}

impl LaneHost for Runner<'_> {
    #[inline]
    fn run(&mut self, segment: u32) -> bool {
        let range = &self.graph.lanes.plan().segments[segment as usize].operations;
        // SAFETY: the protocol of the lanes has given this thread the segment, or no lane has a
        // part of the replay yet.
        unsafe { self.run_nodes(range.start as usize..range.end as usize) }
    }

    fn conclude(&mut self, segment: u32) {
        let graph = self.graph;
        let operation = graph.lanes.plan().segments[segment as usize].operations.start;
        // SAFETY: called by the runner of the lane, for a segment whose end it was told of.
        unsafe { graph.conclude_node(&graph.nodes[operation as usize]) };
    }

    fn hand_out(&mut self, lane: u32) {
        // SAFETY: called in the middle of a replay, for a lane to which the caller has just sent a
        // message.
        unsafe { self.graph.hand_out(lane) }
    }

    fn begins(&mut self) -> Beginning {
        self.measured = 0;
        // SAFETY: the thread that has sent the replay has written it, and no other lane is started.
        unsafe { (*self.graph.replay.get()).beginning }
    }

    #[inline]
    fn alone(&mut self, left: usize) -> SerialStep {
        // SAFETY: no other lane is started.
        let spread_policy = unsafe { &mut (*self.graph.replay.get()).spread_policy };
        if left == 0 || self.measured < spread_policy.interval() {
            return SerialStep::GoOn;
        }
        let run = std::mem::replace(&mut self.measured, 0);
        if spread_policy.spreads(self.core.inline_policy.clock(), left) {
            return SerialStep::Spread;
        }
        if self.takes_a_break(run) {
            SerialStep::Pause
        } else {
            SerialStep::GoOn
        }
    }

    #[inline]
    fn is_due(&mut self) -> bool {
        if self.measured < OPERATIONS_A_GLANCE {
            return false;
        }
        let run = std::mem::replace(&mut self.measured, 0);
        self.takes_a_break(run)
    }

    fn may_wait(&mut self, others: bool) -> bool {
        if self.place().device.is_some() {
            // A thread that has something for the lane runs it.
            return false;
        }
        // An idle worker takes the lanes that were handed out, so this thread may wait for them.
        self.group().map_or(others, |group| group.has_idle() || others && !group.has_work())
    }

    fn over(&mut self) {
        self.graph.count_writes();
        // SAFETY: every segment has been run. The completion may let the next replay begin, so
        // nothing of this one is touched after it.
        let completion = unsafe {
            let replay = &mut *self.graph.replay.get();
            replay.spread_policy.over(self.core.inline_policy.clock());
            replay.completion.take()
        };
        if let Some(completion) = completion {
            completion.complete();
        }
    }
}

impl Runner<'_> {
    /// The place of the lane, which names its workers.
    fn place(&self) -> &LanePlace {
        &self.graph.places[self.lane as usize]
    }

    /// The workers that run this lane; `None` on an engine without workers.
    fn group(&self) -> Option<&Arc<Group>> {
        self.core.dispatch.group(self.place().property)
    }

    /// Whether the thread is to do something else now, after `run` more operations: its turn is
    /// over, or its worker has something urgent.
    fn takes_a_break(&mut self, run: u32) -> bool {
        self.turn += run;
        self.glanced += run;
        if self.turn >= TURN {
            self.turn = 0;
            return true;
        }
        if self.glanced >= OPERATIONS_A_GLANCE {
            self.glanced = 0;
            let worker = self.context.worker.zip(self.group());
            return worker.is_some_and(|(worker, group)| group.is_urgent(worker));
        }
        false
    }
}
