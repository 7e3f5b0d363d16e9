//! The closures of a pipeline's operations, as operators call them again and again.
//!
//! `api/pipeline.rs` makes an operator of each operation that was captured, and takes its closure
//! from here: [`SyncStep`] or [`AsyncStep`]. A closure may change what it owns, so no thread calls
//! it while another one does. `finish_pipeline` in `api/pipeline.rs` sees to it that each operation
//! changes a variable that the earlier ones of its step change; the types here rely on it, since
//! closures are `FnMut`. An operation ends when its closure has returned. An asynchronous one could
//! end before that, so its step has a completion of its own: the operation ends when that was used
//! *and* the call has returned, by the two swaps of [`Detached::stage`].
//!
//! Any thread calls a step, one after the other. The thread that drops the last reference drops the
//! closure: the one that has the pipeline, that ends the last operation, or that has used its
//! completion.

use crate::device::raw::RawStream;
use crate::device::Context;
use crate::engine::core::Core;
use crate::engine::gpu::entered::mistrust;
use crate::engine::nesting::inside;
use crate::engine::replay::program::{Detached, ReplayedCall, CALLED, ENDED, RETURNED};
use crate::error::{Fault, Source};
use crate::operation::block::Block;
use crate::operation::closure::{drop_quietly, DropGuarded};
use crate::operation::completion::{call, Completion, Due, Finish};
use crate::operation::context::RunContext;
use crate::sync::Ordering::*;
use std::cell::UnsafeCell;
use std::sync::Arc;

/// The closure of a synchronous operation of a pipeline.
pub struct SyncStep {
    call: UnsafeCell<DropGuarded<Box<ReplayedCall>>>,
    graph: u64,
}

// SAFETY: by the contract of `call` one thread at a time uses the closure, which is `Send`.
unsafe impl Sync for SyncStep {}

impl SyncStep {
    /// `graph` is the number of the capture, by which operations read its parameters.
    pub fn new(call: UnsafeCell<DropGuarded<Box<ReplayedCall>>>, graph: u64) -> SyncStep {
        SyncStep { call, graph }
    }

    /// Calls the closure.
    ///
    /// # Safety
    /// The operation changes a variable that each operation of this step changes. It reads the
    /// capture's own variable if the capture has parameters.
    pub unsafe fn call(&self, run: &RunContext<'_>) -> Result<(), Source> {
        // SAFETY: by the contract no other operation of the step is under way.
        unsafe { (*self.call.get())(&RunContext { graph: self.graph, ..*run }) }
    }
}

/// The closure of an asynchronous operation of a pipeline, and the operation that is under way.
pub struct AsyncStep {
    core: Arc<Core>,
    detached: Box<Detached>,
    /// Ends the operation. Written before the closure is called; taken by the thread whose swap of
    /// the stage comes second.
    completion: UnsafeCell<Option<Completion>>,
    name: &'static str,
    context: Context,
    graph: u64,
}

// SAFETY: by the contract of `call` one operation at a time uses the step. Its fields are those of
// the thread that calls the closure, but for the outcome, which the thread that uses the completion
// writes. After the two swaps of the stage, all is the second thread's.
unsafe impl Sync for AsyncStep {}
// SAFETY: a closure that is `Send`, and a completion, which is.
unsafe impl Send for AsyncStep {}

impl AsyncStep {
    /// As [`SyncStep::new`].
    pub fn new(core: &Arc<Core>, what: (&'static str, Context), detached: Box<Detached>, graph: u64) -> Arc<AsyncStep> {
        let ((name, context), core) = (what, Arc::clone(core));
        Arc::new(AsyncStep { core, detached, completion: UnsafeCell::new(None), name, context, graph })
    }

    /// Calls the closure with a completion of the step; `completion` ends the operation.
    ///
    /// # Safety
    /// As [`SyncStep::call`].
    pub unsafe fn call(self: &Arc<Self>, run: &RunContext<'_>, completion: Completion) {
        let detached = &self.detached;
        let sequence = completion.sequence().unwrap_or(0);
        let run = RunContext { graph: self.graph, ..*run };
        let engine: Arc<dyn Finish> = Arc::<AsyncStep>::clone(self);
        // Relaxed: the operation that was under way before has ended, and this one has its tickets.
        detached.stage.store(CALLED, Relaxed);
        // SAFETY: by the contract no other operation of the step is under way.
        let outcome = unsafe {
            *self.completion.get() = Some(completion);
            // The operation under way has no block that the step knows: its place stands for it.
            let own = Completion::new(engine, Arc::as_ptr(self).cast_mut().cast());
            call(own, |own| (*detached.call.get())(&run, own))
        };
        if let Err(fault) = outcome {
            // The closure unwound after it had given its completion away.
            self.core.record(fault, run.name, sequence);
        }
        // AcqRel: pairs with the swap in `finish`, so that the side that comes second sees the
        // outcome, and the call is over before the next one.
        if detached.stage.swap(RETURNED, AcqRel) == ENDED {
            // SAFETY: both swaps are done, and this thread's came second.
            unsafe { self.end() };
        }
    }

    /// Ends the operation. From then on the step may be another operation's.
    ///
    /// # Safety
    /// The closure has returned and the step's completion was used.
    unsafe fn end(&self) {
        // SAFETY: by the contract the step is this thread's.
        let (completion, outcome) = unsafe {
            let outcome = std::mem::replace(&mut *self.detached.outcome.get(), Ok(()));
            ((*self.completion.get()).take(), outcome)
        };
        if let Some(completion) = completion {
            completion.end_with(outcome);
        }
    }
}

impl Finish for AsyncStep {
    /// One operation at a time is under way, and ends behind its call.
    unsafe fn sequence(&self, _: *mut Block) -> u64 {
        0
    }

    unsafe fn finish(self: Arc<Self>, _: *mut Block, outcome: Result<(), Fault>) {
        let core = Arc::clone(&self.core);
        let local = core.local();
        // The operation may be over before this thread has let the step go, and the closure with
        // it. A thread that stops the engine, or forks, waits until it has, because of this count.
        local.count_called();
        // SAFETY: the operation has not ended before this call, so its outcome is this call's.
        unsafe { *self.detached.outcome.get() = outcome };
        // AcqRel: pairs with the swap in `call`.
        if self.detached.stage.swap(ENDED, AcqRel) == RETURNED {
            // SAFETY: both swaps are done, and this thread's came second.
            unsafe { self.end() };
        }
        inside(local, || drop_quietly(self));
        // It may have been the last, on the watcher of a device, and its destructor is user code.
        mistrust();
        local.count_returned();
        core.flush(local);
    }

    unsafe fn finish_after(self: Arc<Self>, block: *mut Block, stream: RawStream) {
        let core = Arc::clone(&self.core);
        // SAFETY: as in `finish`; the stream is as the caller says.
        unsafe {
            let whose = (self.context, self.name);
            core.finish_after_stream(Due::new(self, block), whose, stream);
        }
    }
}
