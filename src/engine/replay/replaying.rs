//! What is pushed as a replay of a graph: the closure of the operation that a replay is.
//!
//! `api/graph.rs` makes one for each replay. The thread that runs the operation takes it out of its
//! block, and calls `Program::begin` or `Program::run_all` (`replay/mod.rs`). It has the address of
//! the graph and no count, since two cores would write that in turn; what keeps the graph alive is
//! said there.

use crate::engine::replay::program::Program;
use crate::operation::closure::{discard, take, Cost, Run, Vtable};
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use crate::operation::start_limits::StartLimits;
use crate::sync::Ordering::*;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// A replay of a graph, as it is pushed.
pub struct Replaying {
    graph: *const Program,
    priority: i32,
}

// SAFETY: threads may share a graph.
unsafe impl Send for Replaying {}

impl Replaying {
    /// # Safety
    /// The operation that this is pushed with changes the graph's own variable, and the graph is
    /// not dropped before it has ended or was refused.
    pub unsafe fn new(graph: &Arc<Program>, priority: i32) -> Replaying {
        // Relaxed: what pushes pass on, they pass on by the push.
        graph.given.fetch_add(1, Relaxed);
        Replaying { graph: Arc::as_ptr(graph), priority }
    }

    unsafe fn run(storage: *mut u8, run: &RunContext<'_>, detach: &mut dyn FnMut() -> Completion) {
        // SAFETY: the vtable belongs to this type.
        let Replaying { graph, priority } = unsafe { take(storage) };
        // SAFETY: as in `run_all`.
        let graph = ManuallyDrop::new(unsafe { Arc::from_raw(graph) });
        // SAFETY: as in `run_all`.
        unsafe { graph.begin(run, priority, detach) }
    }
}

/// A replay of a graph within limits, as it is pushed.
pub struct LimitedReplaying {
    pub replaying: Replaying,
    pub limits: StartLimits,
}

impl LimitedReplaying {
    unsafe fn run(storage: *mut u8, run: &RunContext<'_>, detach: &mut dyn FnMut() -> Completion) {
        // SAFETY: the vtable belongs to this type.
        let LimitedReplaying { replaying: Replaying { graph, priority }, limits } = unsafe { take(storage) };
        // SAFETY: as in `Replaying::run_all`.
        let graph = ManuallyDrop::new(unsafe { Arc::from_raw(graph) });
        // SAFETY: as there; it is the replay's turn.
        unsafe { graph.begin(&graph.limit(run, limits), priority, detach) }
    }
}

/// What is pushed as a replay.
pub trait ReplayClosure: Send + 'static {
    const VTABLE: &'static Vtable;

    /// Runs all operations in a row on the calling thread: for a plain graph on a naive engine.
    ///
    /// # Safety
    /// The operation that this was pushed with runs.
    unsafe fn run_all(self, run: &RunContext<'_>);
}

impl ReplayClosure for Replaying {
    const VTABLE: &'static Vtable =
        &Vtable { run: Run::Replay(Self::run), discard: discard::<Self>, cost: Cost::Unknown };

    #[inline]
    unsafe fn run_all(self, run: &RunContext<'_>) {
        // SAFETY: the graph is alive by the contract of `new`, and its count is left alone.
        let graph = ManuallyDrop::new(unsafe { Arc::from_raw(self.graph) });
        // SAFETY: the operation has the graph's own variable, so it is the only replay under way.
        unsafe { graph.run_all(run) };
        graph.give_back();
    }
}

impl ReplayClosure for LimitedReplaying {
    const VTABLE: &'static Vtable =
        &Vtable { run: Run::Replay(Self::run), discard: discard::<Self>, cost: Cost::Unknown };

    unsafe fn run_all(self, run: &RunContext<'_>) {
        // SAFETY: as for `Replaying`.
        let graph = ManuallyDrop::new(unsafe { Arc::from_raw(self.replaying.graph) });
        // SAFETY: as there; this is the replay that begins.
        unsafe { self.replaying.run_all(&graph.limit(run, self.limits)) };
    }
}
