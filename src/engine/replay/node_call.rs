//! Calls an operation of a graph with care: one that is asynchronous, profiled or on a device, or
//! any operation after a failure, or of a replay with limits.
//!
//! Used by `replay/runner.rs`, and by `replay/part.rs` for operations that another thread than the
//! lane's runner calls. Either way the thread has the lane, or was given the operation by it. An
//! asynchronous operation ends by two swaps of its `stage`: one here, when the call has returned,
//! and one in `finish` (`replay/mod.rs`), on the thread that completes it. The second of the two
//! goes on.

use crate::engine::execute::is_skipped;
use crate::engine::gpu::timing::RecordFn;
use crate::engine::replay::program::{Body, Node, Program, CALLED, CONCLUDED, ENDED, RETURNED};
use crate::error::Fault;
use crate::operation::closure::catch;
use crate::operation::completion::{call, Completion, Finish};
use crate::operation::context::RunContext;
use crate::profile::recorder::{Event, Use};
use crate::sync::Ordering::*;
use crate::util::spans;
use std::cell::Cell;
use std::sync::Arc;

impl Program {
    /// Calls the closure of an operation, unless it is to be skipped; says whether the operation
    /// has ended. One that has is concluded, unless it is asynchronous and was called: then
    /// [`Program::conclude_node`] is still to come.
    ///
    /// `may` is told whether the operation inherits a failure, and says whether it can be called,
    /// or with which failure of its own, if any, it is skipped. `around` calls the second of what
    /// it is given, once. If the operation is profiled and synchronous, it may record the event
    /// before it returns, by the first.
    ///
    /// The closure is not counted as called: the thread is inside of a replay's begin, of a lane or
    /// of a part, and that is.
    ///
    /// # Safety
    /// The operation's turn has come, and the caller has it to itself.
    pub unsafe fn call_node(
        self: &Arc<Self>,
        node: &Node,
        context: &RunContext<'_>,
        may: impl FnOnce(bool) -> Result<(), Option<Fault>>,
        around: impl FnOnce(Option<RecordFn<'_>>, &mut dyn FnMut() -> Result<(), Fault>) -> Result<(), Fault>,
    ) -> bool {
        let core = &self.core;
        // SAFETY: the replay is under way, since this operation of it is.
        let replay = unsafe { &*self.replay.get() };
        let (stamp, pushed) = (replay.stamp, replay.pushed_at());
        // Relaxed: a failure that concerns this operation was noted before this thread learned that
        // the predecessors have ended.
        let state = core.state.load(Relaxed);
        let inherited = if state.has_failed() { self.inherited(node, stamp) } else { None };
        let may = may(inherited.is_some());
        let behind = is_skipped(node.property, inherited.is_some(), state);
        let may = if behind { may } else { may.and_then(|()| replay.within_limits().map_err(Some)) };
        let skip = may.is_err() || behind;
        let (started, thread) = if pushed != 0 { core.profiler.starting() } else { (0, 0) };
        let context =
            RunContext { inherited: inherited.as_ref().map(|failure| (failure, stamp)), pushed: None, ..*context };
        let is_recorded = Cell::new(false);
        let record = || {
            is_recorded.set(true);
            // SAFETY: by the contract.
            (unsafe { self.profile(node, (started, thread, context.worker)) }, started)
        };
        let outcome = match node.closure() {
            Body::Async(detached) if !skip => {
                detached.started.set((started, thread, context.worker));
                detached.stage.store(CALLED, Relaxed);
                let engine: Arc<dyn Finish> = Arc::<Program>::clone(self);
                // SAFETY: the node runs, and this is its only completion. No thread calls the
                // closure again before it has returned. The operation may end before that on
                // another thread, but that thread touches no field of the node that this call uses.
                let outcome = around(None, &mut || unsafe {
                    let completion = Completion::new(Arc::clone(&engine), std::ptr::from_ref(node).cast_mut().cast());
                    call(completion, |completion| {
                        let _span = spans::call(context.name);
                        (*detached.call.get())(&context, completion);
                    })
                });
                drop(engine);
                if let Err(fault) = outcome {
                    core.record(fault, node.name.as_str(), stamp.sequence());
                }
                // AcqRel: pairs with the swap in `finish` in `replay/mod.rs`: the side that comes
                // second sees the outcome.
                return detached.stage.swap(RETURNED, AcqRel) == ENDED;
            }
            Body::Sync(call) if !skip => {
                let record: Option<RecordFn<'_>> = if pushed != 0 { Some(&record) } else { None };
                // SAFETY: the caller has the node to itself.
                around(record, &mut || {
                    catch(|| {
                        let _span = spans::call(context.name);
                        // SAFETY: as above.
                        unsafe { (*call.get())(&context) }
                    })
                })
            }
            body => {
                if let Body::Async(detached) = body {
                    // Relaxed: the lane is told of the end afterwards.
                    detached.stage.store(CONCLUDED, Relaxed);
                }
                may.err().flatten().map_or(Ok(()), Err)
            }
        };
        if !is_recorded.get() {
            record();
        }
        self.mark(node, outcome, inherited, stamp);
        true
    }

    /// Marks the variables that an asynchronous operation changes, if that is still to be done. It
    /// has returned and ended.
    ///
    /// # Safety
    /// The caller is the runner of its lane, and its segment has not ended.
    pub unsafe fn conclude_node(&self, node: &Node) {
        // SAFETY: the operation has ended, and its segment is ours.
        unsafe {
            let stamp = (*self.replay.get()).stamp;
            let Body::Async(detached) = node.closure() else { return };
            if detached.stage.load(Relaxed) == CONCLUDED {
                return;
            }
            let outcome = std::mem::replace(&mut *detached.outcome.get(), Ok(()));
            let started = detached.started.get();
            let failed = self.core.state.load(Relaxed).has_failed();
            let inherited = if failed { self.inherited(node, stamp) } else { None };
            self.mark(node, outcome, inherited, stamp);
            self.profile(node, started);
        }
    }

    /// Records an operation that ends now, if the replay is profiled; returns the place of the
    /// event, if there is one.
    ///
    /// # Safety
    /// The operation is the caller's, so that the replay is under way.
    unsafe fn profile(&self, node: &Node, started: (u64, u32, Option<usize>)) -> Option<usize> {
        // SAFETY: by the contract.
        let (stamp, pushed) = unsafe { ((*self.replay.get()).stamp, (*self.replay.get()).pushed_at()) };
        let name = node.name.as_str();
        if pushed == 0 || name.is_empty() {
            return None;
        }
        let asynchronous = matches!(node.closure(), Body::Async(_));
        let what = (name, node.property, node.context);
        let uses = self.uses[node.uses.start as usize..node.uses.end as usize].iter().map(|used| {
            // SAFETY: slots live as long as the engine's memory. Relaxed: the variable was born
            // before the capture.
            let slot = unsafe { &*used.slot };
            Use::new(slot.index(), slot.generation.load(Relaxed), used.writes)
        });
        self.core.profiler.record(Event::of_replay((stamp, pushed), what, asynchronous, started), uses)
    }
}
