//! Replays of graphs whose operations have no order among each other: the threads share them by a
//! [`GuidedLoop`], and need no lanes.
//!
//! `replay/mod.rs` begins such a replay here. `replay/assemble.rs` decides which graphs are run so:
//! those of synchronous operations without edges that any worker may run. A replay is begun by one
//! thread, and may end there. Else that thread offers what is left, and asks others to take part by
//! *seats* (`replay/seats.rs`): blocks with the vtable [`SEAT`], which go through the dispatch like
//! operations, one for each worker and for a waiter that helps. A thread that comes to a seat takes
//! part until nothing is left. So a thread that comes late, or not at all, holds up no other.
//!
//! Any thread runs seats. The nodes of a chunk belong to the thread that has taken it. The replay
//! is written as `replay/program.rs` says; a thread that has offered something, or has said that
//! another is to go on alone, does not look at it any more, as the replay may be over.

use crate::engine::core::ReadyCause;
use crate::engine::nesting::{enter, leave};
use crate::engine::replay::program::Program;
use crate::engine::replay::runner::{CurrentNode, Runner};
use crate::engine::replay::seats::{GuidedReplay, NOWHERE};
use crate::error::Failure;
use crate::graph::lanes::{LaneHost, SerialStep};
use crate::operation::block::Block;
use crate::operation::closure::{Cost, Run, Vtable};
use crate::operation::completion::Completion;
use crate::operation::current::within;
use crate::operation::layout::Layout;
use crate::sync::Ordering::*;
use crate::worker::current::CurrentWorker;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// The vtable of a seat: a thread that runs it takes part in a replay.
pub static SEAT: Vtable = Vtable { run: Run::Part(run_seat), discard: ignore, cost: Cost::Unknown };

unsafe fn ignore(_: *mut u8, _: Option<&Arc<Failure>>) {}

/// When a seat is sent.
#[derive(Clone, Copy)]
enum Sent {
    /// Now, to the worker of this number or another one.
    Now(usize),
    /// When the calling thread has done something else.
    Later,
}

/// The priority of a replay, and its number.
type Urgency = (i32, u64);

impl Program {
    /// Runs a replay like [`Program::begin`], which has set it up; on one thread alone at first if
    /// `is_alone`.
    ///
    /// # Safety
    /// As [`Program::begin`].
    pub(super) unsafe fn begin_guided(
        self: &Arc<Self>,
        guided: &GuidedReplay,
        worker: Option<usize>,
        is_alone: bool,
        detach: &mut dyn FnMut() -> Completion,
    ) {
        let (mut from, mut pauses) = (0, false);
        if is_alone {
            // SAFETY: nothing of the replay is offered.
            match unsafe { self.run_alone(0, worker) } {
                None => return self.give_back(),
                Some((left, step)) => (from, pauses) = (left, step == SerialStep::Pause),
            }
        }
        // The replay may be over before this thread has left it.
        let held = Arc::clone(self);
        self.give_back();
        // SAFETY: it is the replay's turn, and nothing of it is offered.
        unsafe {
            (*self.replay.get()).completion = Some(detach());
            if pauses {
                self.resume(guided, from);
            } else {
                self.open(guided, from, worker);
                self.take_part(guided, 0, worker);
            }
        }
        let core = Arc::clone(&held.core);
        Program::let_go(core.local(), held);
    }

    /// Runs the operations from number `from` on, on the calling thread. Returns where it has
    /// stopped, to share what is left or to go on later; or `None` if the replay is over.
    ///
    /// # Safety
    /// Nothing of the replay is offered, and no other thread runs it.
    unsafe fn run_alone(self: &Arc<Self>, from: usize, worker: Option<usize>) -> Option<(usize, SerialStep)> {
        let running = CurrentNode::new(self);
        let mut runner = Runner::new(self, &running, 0, worker);
        within(&running, || {
            let (mut at, length) = (from, self.nodes.len());
            while at < length {
                let next = length.min(at + runner.stride());
                // SAFETY: by the contract.
                unsafe { runner.run_nodes(at..next) };
                at = next;
                let step = runner.alone(length - at);
                if step != SerialStep::GoOn {
                    return Some((at, step));
                }
            }
            runner.over();
            None
        })
    }

    /// Has a thread go on alone with the replay, later.
    ///
    /// # Safety
    /// As [`Program::run_alone`], and the replay has its completion.
    unsafe fn resume(self: &Arc<Self>, guided: &GuidedReplay, from: usize) {
        // SAFETY: by the contract.
        let urgency = unsafe { self.urgency() };
        // Release: pairs with the acquire in `run_seat`.
        guided.resumed.store(from, Release);
        CurrentWorker::end_turn();
        self.send_seat(guided, 0, urgency, Sent::Later);
    }

    /// Offers what is left of a replay to all threads.
    ///
    /// # Safety
    /// As [`Program::resume`].
    unsafe fn open(self: &Arc<Self>, guided: &GuidedReplay, from: usize, worker: Option<usize>) {
        // SAFETY: by the contract.
        let urgency = unsafe {
            let urgency = self.urgency();
            guided.operations.offer(from);
            urgency
        };
        // The calling thread takes part itself, by the first seat. No more than there are
        // operations.
        for seat in 1..guided.seats.len().min(self.nodes.len() - from) {
            self.send_seat(guided, seat, urgency, Sent::Now(worker.unwrap_or(0) + seat));
        }
    }

    /// The urgency of the replay.
    ///
    /// # Safety
    /// It is under way.
    unsafe fn urgency(&self) -> Urgency {
        // SAFETY: no thread writes it before it is over.
        let replay = unsafe { &*self.replay.get() };
        (replay.priority, replay.stamp.sequence())
    }

    /// Sends a seat to a thread, unless it is on its way to one, which then finds what this one
    /// would. The caller keeps the graph.
    fn send_seat(self: &Arc<Self>, guided: &GuidedReplay, number: usize, urgency: Urgency, when: Sent) {
        let seat = &guided.seats[number];
        // AcqRel: pairs with the exchange in `run_seat`. If that comes later, the thread there
        // acquires what this one has offered before. If it came before, the block is this thread's.
        if seat.is_out.swap(true, AcqRel) {
            return;
        }
        let (core, block) = (&self.core, seat.block.get());
        // The replay may be over before a thread comes to the seat. A thread that stops the engine,
        // or forks, waits for that, because of this count.
        core.local().count_called();
        // SAFETY: the block is this thread's, and in no list.
        unsafe {
            ((*block).priority, (*block).sequence) = urgency;
            let sent = (Arc::into_raw(Arc::clone(self)), number as u32);
            Block::closure(block, Layout::Plain).cast::<(*const Program, u32)>().write(sent);
            match when {
                Sent::Now(place) => core.dispatch.publish(core, core.local(), block, place),
                Sent::Later => core.dispatch.submit(core, core.local(), block, ReadyCause::Later),
            }
        }
    }

    /// Runs operations that are offered until there are none, or until the thread has something
    /// else to do.
    fn take_part(self: &Arc<Self>, guided: &GuidedReplay, seat: usize, worker: Option<usize>) {
        let local = self.core.local();
        let running = CurrentNode::new(self);
        let mut runner = Runner::new(self, &running, 0, worker);
        let (mut ran, mut is_due) = (0, false);
        enter(local);
        within(&running, || {
            while let Some(chunk) = guided.operations.take() {
                ran += chunk.len();
                // SAFETY: the chunk is this thread's.
                unsafe { runner.run_nodes(chunk) };
                is_due = runner.is_due();
                if is_due {
                    break;
                }
            }
        });
        leave(local);
        if is_due && guided.operations.has_some() {
            CurrentWorker::end_turn();
            // SAFETY: the replay is under way, as what this thread ran is not counted as ended.
            let urgency = unsafe { self.urgency() };
            self.send_seat(guided, seat, urgency, Sent::Later);
        }
        if ran > 0 && guided.operations.end(ran) {
            runner.over();
        }
    }
}

/// Comes to a seat.
///
/// # Safety
/// `storage` is the closure of a block from [`Program::send_seat`], and is used once for each time
/// that it was sent.
unsafe fn run_seat(storage: *mut u8, worker: Option<usize>) {
    // SAFETY: `send_seat` has stored this pair, with a reference to the graph for us.
    let (graph, number) = unsafe { storage.cast::<(*const Program, u32)>().read() };
    // SAFETY: the reference is ours.
    let graph = ManuallyDrop::new(unsafe { Arc::from_raw(graph) });
    let Some(guided) = &graph.guided else { unreachable!("only such a graph has seats") };
    let core = Arc::clone(&graph.core);
    let local = core.local();
    // AcqRel: pairs with the exchange in `send_seat`. From here on the block may be sent again.
    guided.seats[number as usize].is_out.swap(false, AcqRel);
    // Acquire: pairs with the release in `resume`. One thread gets it.
    let from = match guided.resumed.load(Relaxed) {
        NOWHERE => NOWHERE,
        _ => guided.resumed.swap(NOWHERE, Acquire),
    };
    // SAFETY: if this thread has got it, it runs the replay alone, which has its completion.
    let opened = from == NOWHERE
        || unsafe {
            enter(local);
            let left = graph.run_alone(from, worker);
            leave(local);
            match left {
                Some((left, SerialStep::Pause)) => {
                    graph.resume(guided, left);
                    false
                }
                Some((left, _)) => {
                    graph.open(guided, left, worker);
                    true
                }
                None => false,
            }
        };
    if opened {
        graph.take_part(guided, number as usize, worker);
    }
    Program::let_go(local, ManuallyDrop::into_inner(graph));
    // Counted as called by `send_seat`.
    local.count_returned();
    core.quiescence.notify(|| core.is_quiescent());
}
