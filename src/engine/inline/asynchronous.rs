//! Starting an asynchronous operation inside its push, and measuring for how long its closure holds
//! the thread that calls it.
//!
//! Used by `push/mod.rs`, `push/enlist.rs`, `dispatch/pooled.rs` and
//! `dispatch/per_device.rs`, on the pusher; and by `engine/worker_host.rs`, on workers and on
//! threads that help. The naive engine, which learns nothing, does not come here.
//!
//! Such an operation has a block and is enlisted like any other, because its completion may be used
//! when its push is long over. But it does not go into a log: its pusher looks at its tickets
//! ([`Core::may_start_inside`]). If they have come, `inline/policy.rs` decides by the time
//! until its closures return, and not by that until completions are used. If a closure uses its
//! completion itself, the end of the operation is left out of the time, as that of a synchronous
//! one is: it may wake threads, which takes longer than many closures ([`EndsUnmeasured`]).
//!
//! No state here. Only operations that are neither profiled nor special come here, while the engine
//! has no flag but that something has failed. So the rules for the start of an operation are few:
//! `Core::execute` has all of them.

use crate::device::raw::RawStream;
use crate::device::Context;
use crate::engine::core::Core;
use crate::engine::declared::Copied;
use crate::engine::inline::policy::InlinePolicy;
use crate::engine::nesting::{enter, is_deep, leave, pay};
use crate::error::Fault;
use crate::operation::block::{Block, RUNNING};
use crate::operation::closure::{Run, Vtable};
use crate::operation::completion::Finish;
use crate::operation::current::within;
use crate::operation::property::Property;
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use std::sync::Arc;

impl Core {
    /// Whether the pusher of an operation has to look whether it is ready: it is asynchronous, and
    /// may start inside its push.
    #[inline]
    pub fn may_start_inside(&self, property: Property, body: &Vtable) -> bool {
        self.learned.has(property) && matches!(body.run, Run::Async(_))
    }

    /// Starts an operation that became ready in its push, on the pusher, if it is asynchronous and
    /// its closures are short. Returns whether it did; if not, nothing has happened.
    ///
    /// # Safety
    /// The operation is ready, and ours. User code may run.
    #[inline(always)]
    pub unsafe fn starts_inside(self: &Arc<Self>, local: &ThreadContext, block: *mut Block) -> bool {
        // SAFETY: the contract is passed on.
        unsafe { matches!((*(*block).body).run, Run::Async(_)) && self.start_short(local, block) }
    }

    #[inline(never)]
    unsafe fn start_short(self: &Arc<Self>, local: &ThreadContext, block: *mut Block) -> bool {
        // SAFETY: the operation is ours until it is called.
        unsafe {
            let body = &*(*block).body;
            let key = || self.cost_key(Block::property(block), body, Block::closure(block, Block::layout(block)));
            // Other contexts have their own workers.
            let may = Block::context(block) == Context::cpu(0) && !is_deep();
            if !may || !self.inline_policy.runs_inside(key) || !self.call_measured(block, None) {
                return false;
            }
        }
        // The operation around this one may have ended already.
        self.flush(local);
        true
    }

    /// Calls the closure of an asynchronous operation, and measures the call if that is due. It
    /// does what [`Core::execute`] does then. Returns `false` if this is not such an operation, if
    /// it may have to be skipped, or if the engine is in a special state; then nothing has
    /// happened.
    ///
    /// # Safety
    /// The contract of [`Core::execute`].
    #[inline(always)]
    pub unsafe fn run_measured(self: &Arc<Self>, block: *mut Block, worker: Option<usize>) -> bool {
        // SAFETY: the contract is passed on.
        unsafe { matches!((*(*block).body).run, Run::Async(_)) && self.call_measured(block, worker) }
    }

    #[inline(never)]
    unsafe fn call_measured(self: &Arc<Self>, block: *mut Block, worker: Option<usize>) -> bool {
        // SAFETY: the operation is ours. After the call the block is not touched.
        unsafe {
            let body = &*(*block).body;
            let Run::Async(call) = body.run else { return false };
            // Relaxed, both: what was noted before the tickets came is seen, as this thread has
            // acquired the tickets.
            let state = self.state.load(Relaxed);
            let is_usual = (*block).flags == 0 && !Block::is_voided(block) && state.lets_quick_pushes_in();
            if !is_usual || state.has_failed() && self.is_marked(block) {
                return false;
            }
            let local = self.local();
            Block::enter(block, RUNNING);
            Block::touch(block, false);
            let storage = Block::closure(block, Block::layout(block));
            let key = self.cost_key(Block::property(block), body, storage);
            let run = self.run_context(block, None, worker);
            let (completion, called) = self.begin_call(local, block, worker);
            let completion = completion.ending(|engine| EndsUnmeasured::of(engine));
            enter(local);
            let outcome = within(&Copied::of(&self.memory, block), || {
                self.inline_policy.measure_without_ends(key, || call(storage, &run, completion))
            });
            leave(local);
            self.end_call(local, called, outcome);
            pay(local);
            true
        }
    }

    /// Whether a variable of the operation is marked by a failure.
    ///
    /// # Safety
    /// The operation is ours, and not cancelled.
    #[cold]
    #[inline(never)]
    unsafe fn is_marked(&self, block: *mut Block) -> bool {
        // SAFETY: by the contract its accesses are alive and name variables that are.
        unsafe { (0..(*block).count).any(|index| self.slot((*Block::access(block, index)).variable).is_marked()) }
    }
}

/// The engine, as the completions of measured closures have it: if one is used by its own closure,
/// the end of the operation does not count for that.
#[repr(transparent)]
struct EndsUnmeasured(Core);

impl EndsUnmeasured {
    /// # Safety
    /// The engine is a [`Core`].
    unsafe fn of(engine: Arc<dyn Finish>) -> Arc<dyn Finish> {
        // SAFETY: it is a core by the contract, and this type is one as well, by `transparent`.
        unsafe { Arc::from_raw(Arc::into_raw(engine).cast::<EndsUnmeasured>()) }
    }

    /// Calls `end` with the engine, and leaves out what it takes.
    fn unmeasured(self: Arc<Self>, end: impl FnOnce(Arc<Core>)) {
        // SAFETY: this type is a core, by `transparent`.
        let core = unsafe { Arc::from_raw(Arc::into_raw(self).cast::<Core>()) };
        if !InlinePolicy::is_measuring() {
            return end(core);
        }
        let policy = Arc::clone(&core.inline_policy);
        policy.leave_out(|| end(core));
    }
}

impl Finish for EndsUnmeasured {
    unsafe fn sequence(&self, block: *mut Block) -> u64 {
        // SAFETY: the contract is passed on.
        unsafe { self.0.sequence(block) }
    }

    unsafe fn finish(self: Arc<Self>, block: *mut Block, outcome: Result<(), Fault>) {
        // SAFETY: the contract is passed on.
        self.unmeasured(|core| unsafe { core.finish(block, outcome) });
    }

    unsafe fn finish_after(self: Arc<Self>, block: *mut Block, stream: RawStream) {
        // SAFETY: the contract is passed on.
        self.unmeasured(|core| unsafe { core.finish_after(block, stream) });
    }
}
