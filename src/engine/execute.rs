//! Runs ready operations, and records the failures that are their own.
//!
//! No state here. Workers, and threads that wait and help, come by way of `worker_host.rs`. Also
//! used by `holds.rs`, by `dispatch/naive.rs`, by `push/mod.rs` for an operation that is ready, by
//! `complete.rs`, and in parts by `gpu/`, `inline/asynchronous.rs` and `replay/`. A block belongs
//! to the thread that executes it until the operation ends. Once an asynchronous closure was
//! called, the block is not touched any more.
//!
//! [`Core::execute`] runs any operation and ends it by `Core::end` (`complete.rs`).
//! [`Core::run_plain`] does the same for plain ones with fewer steps, mostly without `Core::end`.
//! An asynchronous operation ends by [`Finish`], on the thread that uses its completion. After
//! `Completion::complete_after` that is the watcher of the device (`gpu/watch.rs`), which calls no
//! closures of the program. A rule about the start or the end of operations must be kept in both
//! functions, in `inline/fast_path.rs`, in `inline/asynchronous.rs` and in `gpu/call.rs`. For the
//! operations of graphs it must be kept in `replay/runner.rs` and `replay/node_call.rs`.

use crate::device::raw::RawStream;
use crate::engine::backpressure::give_room_back;
use crate::engine::core::Core;
use crate::engine::declared::{Copied, Enlisted};
use crate::engine::nesting::{enter, inside, leave, pay};
use crate::engine::ready_list::ReadyList;
use crate::engine::settings::Kind;
use crate::engine::state::StateSnapshot;
use crate::error::{Failure, Fault, Stamp};
use crate::operation::block::*;
use crate::operation::closure::Run;
use crate::operation::completion::{Completion, Due, Finish};
use crate::operation::context::RunContext;
use crate::operation::current::within;
use crate::operation::layout::Layout;
use crate::operation::property::Property;
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use crate::variable::slot::Slot;
use crate::variable::table::Stepping;
use std::sync::Arc;

/// What is kept of an asynchronous operation during its call.
pub(super) struct Called {
    name: &'static str,
    sequence: u64,
}

impl Core {
    /// Runs an operation, and ends it unless it is asynchronous.
    ///
    /// # Safety
    /// The operation is ready, and ours.
    #[inline]
    pub unsafe fn execute(self: &Arc<Self>, local: &ThreadContext, block: *mut Block, worker: Option<usize>) {
        // SAFETY: the operation is ours until it ends. After the call of an asynchronous closure
        // the block is not touched.
        unsafe {
            let body = &*(*block).body;
            if let Run::Part(call) = body.run {
                call(Block::closure(block, Layout::Plain), worker);
                pay(local);
                return;
            }
            let flags = (*block).flags;
            if flags & (FLAG_PHASED | FLAG_PROFILED) != 0 && !self.begin_special(local, block, worker) {
                pay(local);
                return;
            }
            let state = self.state.load(Relaxed);
            let property = Block::property(block);
            // Relaxed: the flag was set before the tickets came, and this thread has acquired the
            // tickets.
            let cancelled = Block::is_voided(block);
            // A cancelled operation may not look at its variables: one of them was deleted, and its
            // slot may be that of another one by now.
            let inherited = if !cancelled && state.asks_for_a_look() {
                let Some(inherited) = self.look_closer(local, block, worker) else { return };
                inherited
            } else {
                None
            };
            Block::enter(block, RUNNING);
            let always = flags & (FLAG_WAIT | FLAG_DELETE | FLAG_GRAPH) != 0;
            let skip = cancelled || !always && is_skipped(property, inherited.is_some(), state);
            Block::touch(block, false);
            let storage = Block::closure(block, Block::layout(block));
            if skip {
                if cancelled && flags & FLAG_GPU != 0 && self.settings.kind != Kind::Naive {
                    self.take_given(block);
                }
                // The closure's destructor is user code as well.
                enter(local);
                (body.discard)(storage, inherited.as_ref());
                leave(local);
                self.end(local, block, Ok(()), inherited, cancelled, worker);
                pay(local);
                return;
            }
            let pushed = (flags & FLAG_GRAPH != 0).then(|| (stamp(block), Block::pushed_at(block)));
            let run = RunContext { pushed, ..self.run_context(block, inherited.as_ref(), worker) };
            enter(local);
            match body.run {
                Run::Sync(call) => {
                    // Only ordinary operations are measured: no waits, deletions and graphs.
                    let key = || self.cost_key(property, body, storage);
                    let outcome = within(&Enlisted::new(&self.memory, block), || {
                        if always {
                            call(storage, &run)
                        } else {
                            self.inline_policy.measure(key, || call(storage, &run))
                        }
                    });
                    leave(local);
                    self.end(local, block, outcome, inherited, false, worker);
                }
                Run::Async(call) => {
                    let (completion, called) = self.begin_call(local, block, worker);
                    let outcome = if flags & FLAG_GRAPH != 0 {
                        // Each operation of the graph has declared its own variables.
                        call(storage, &run, completion)
                    } else {
                        within(&Copied::of(&self.memory, block), || call(storage, &run, completion))
                    };
                    // It may be the last by now, and an error's destructor is user code.
                    drop(inherited);
                    leave(local);
                    self.end_call(local, called, outcome);
                }
                Run::Replay(call) => {
                    let called = self.call_replay(local, block, worker, |detach| call(storage, &run, detach));
                    let inherited = inherited.filter(|_| called.is_none()); // As above.
                    leave(local);
                    match called {
                        None => self.end(local, block, Ok(()), inherited, false, worker),
                        Some(called) => self.end_call(local, called, Ok(())),
                    }
                }
                Run::Part(_) => {} // Has returned above.
            }
            pay(local);
        }
    }

    /// What a closure is told. Also used by `gpu/call.rs` and `inline/asynchronous.rs`.
    ///
    /// # Safety
    /// The operation is ours.
    #[inline(always)]
    pub(super) unsafe fn run_context<'a>(
        &self,
        block: *mut Block,
        inherited: Option<&'a Arc<Failure>>,
        worker: Option<usize>,
    ) -> RunContext<'a> {
        // SAFETY: by the contract.
        unsafe {
            RunContext {
                context: Block::context(block),
                name: Block::name(block),
                worker,
                nested_threads: self.nested_threads.load(Relaxed),
                inherited: inherited.map(|failure| (failure, stamp(block))),
                graph: 0,
                pushed: None,
            }
        }
    }

    /// Begins the call of an asynchronous closure: returns what it gets, and what
    /// [`Core::end_call`] needs. Also used by `gpu/call.rs` and `inline/asynchronous.rs`.
    ///
    /// # Safety
    /// The operation is ours. Once the closure is called the block is not touched.
    #[inline(always)]
    pub(super) unsafe fn begin_call(
        self: &Arc<Self>,
        local: &ThreadContext,
        block: *mut Block,
        worker: Option<usize>,
    ) -> (Completion, Called) {
        // SAFETY: by the contract.
        unsafe {
            Block::keep_worker(block, worker);
            let called = Called { name: Block::name(block), sequence: (*block).sequence };
            let engine: Arc<dyn Finish> = Arc::<Core>::clone(self);
            local.count_called();
            (Completion::new(engine, block), called)
        }
    }

    /// An asynchronous closure has returned, with a fault if it unwound.
    #[inline(always)]
    pub(super) fn end_call(&self, local: &ThreadContext, called: Called, outcome: Result<(), Fault>) {
        if let Err(fault) = outcome {
            // The closure unwound after it had given its completion away. The operation is not ours
            // any more, but the panic must not be lost: an engine that ends reports failures once
            // all closures have returned.
            self.record(fault, called.name, called.sequence);
        }
        local.count_returned();
        // The thread that stops the engine waits for the return as well.
        self.quiescence.notify(|| self.is_quiescent());
    }

    /// Runs and ends an operation that is synchronous and has no flags, while the engine has no
    /// flags: does what [`Core::execute`] does then. Returns `false` if this is not
    /// such a case; then nothing has happened.
    ///
    /// Without a failure, and if the engine still has no flags afterwards, it does not call
    /// `Core::end`: [`Core::count_out`] releases the tickets, and [`Stepping`] steps the versions.
    ///
    /// # Safety
    /// The contract of [`Core::execute`].
    pub unsafe fn run_plain(self: &Arc<Self>, block: *mut Block, worker: Option<usize>) -> bool {
        // SAFETY: the operation is ours until it ends.
        unsafe {
            let body = &*(*block).body;
            let Run::Sync(call) = body.run else { return false };
            let is_plain = (*block).flags == 0 && !Block::is_voided(block);
            if !is_plain || !self.state.load(Relaxed).is_plain() {
                return false;
            }
            let local = self.local();
            Block::enter(block, RUNNING);
            let run = self.run_context(block, None, worker);
            let storage = Block::closure(block, Block::layout(block));
            enter(local);
            let outcome = within(&Enlisted::new(&self.memory, block), || {
                let key = || self.cost_key(Block::property(block), body, storage);
                self.inline_policy.measure(key, || call(storage, &run))
            });
            leave(local);
            if outcome.is_err() || !self.state.load(Relaxed).is_plain() {
                self.end(local, block, outcome, None, false, worker);
                pay(local);
                return true;
            }
            Block::enter(block, BLANK);
            let mut found = ReadyList::new(local);
            self.count_out(block, &Stepping(&self.memory.table), &mut found);
            // As in `Core::end`.
            if self.settings.bound > 0 {
                give_room_back(self, 1);
            }
            local.count_completed();
            if !found.first.is_null() {
                self.hand_out(local, found.first);
            }
            pay(local);
            true
        }
    }

    /// Looks at the marks of an operation's variables, and at what devices have still to do there.
    /// Returns the failure that the operation inherits, if any; or `None` if it is not this
    /// thread's any more.
    ///
    /// # Safety
    /// The contract of [`Core::execute`]; the operation is not cancelled.
    #[cold]
    #[inline(never)]
    unsafe fn look_closer(
        self: &Arc<Self>,
        local: &ThreadContext,
        block: *mut Block,
        worker: Option<usize>,
    ) -> Option<Option<Arc<Failure>>> {
        // SAFETY: by the contract.
        unsafe {
            if self.state.load(Relaxed).uses_devices() && !self.comes_to_turn(local, block, worker) {
                return None;
            }
            // A lost device may have marked a variable just now, so the state is asked again.
            Some(if self.state.load(Relaxed).has_failed() { self.inherited(block) } else { None })
        }
    }

    /// The slot of a variable that an access names.
    ///
    /// # Safety
    /// The access is of an operation of this engine.
    #[inline]
    pub(super) unsafe fn slot(&self, variable: u32) -> &Slot {
        // SAFETY: its push has resolved the variable.
        unsafe { self.memory.table.at(variable) }
    }

    /// The failure that an operation inherits: of its variables that have one, that of the first.
    /// `Program::inherited` in `replay/program.rs` does the same for an operation of a graph.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn inherited(&self, block: *mut Block) -> Option<Arc<Failure>> {
        // SAFETY: the operation runs, so its accesses are alive and its marks hold still.
        unsafe {
            let stamp = stamp(block);
            // The accesses need not be in the order of the variables.
            let found = (0..(*block).count).filter_map(|index| {
                let variable = (*Block::access(block, index)).variable;
                Some((variable, self.slot(variable).failure_for(stamp)?))
            });
            found.min_by_key(|(variable, _)| *variable).map(|(_, failure)| failure)
        }
    }

    /// Keeps a failure of an operation itself for the thread that waits for everything. Inherited
    /// failures are not recorded again. Also called by `complete.rs`, `inline/fast_path.rs`,
    /// `replay/program.rs` and `replay/node_call.rs`.
    #[cold]
    pub fn record(&self, fault: Fault, name: &'static str, sequence: u64) -> Arc<Failure> {
        // Before the operation is complete, so that a thread that runs an operation behind it sees
        // the flag.
        self.state.fail();
        // It may drop other errors.
        inside(self.local(), || self.failures.record_fault(fault, name, sequence))
    }

    /// Notes that a profiled operation starts now, on this thread.
    #[cold]
    pub(super) unsafe fn start_profile(&self, block: *mut Block) {
        let (start, thread) = self.profiler.starting();
        // SAFETY: the operation is ours, and was made with room for its times.
        unsafe {
            let times = Block::times(block);
            ((*times).start, (*times).started_on) = (start, thread);
            // An operation out of a log: no thread has noted when it became ready.
            if (*times).ready == 0 {
                (*times).ready = start;
            }
        }
    }
}

impl Finish for Core {
    unsafe fn sequence(&self, block: *mut Block) -> u64 {
        // SAFETY: the operation runs, so nothing writes that.
        unsafe { (*block).sequence }
    }

    unsafe fn finish(self: Arc<Self>, block: *mut Block, outcome: Result<(), Fault>) {
        let local = self.local();
        // SAFETY: the operation runs, and this is its end.
        unsafe {
            let inherited = if self.state.load(Relaxed).asks_for_a_look() { self.look_back(block) } else { None };
            let worker = Block::kept_worker(block);
            self.end(local, block, outcome, inherited, false, worker);
        }
        self.flush(local);
    }

    unsafe fn finish_after(self: Arc<Self>, block: *mut Block, stream: RawStream) {
        let core = Arc::clone(&self);
        // SAFETY: by the contract.
        unsafe {
            let whose = (Block::context(block), Block::name(block));
            core.finish_after_stream(Due::new(self, block), whose, stream);
        }
    }
}

/// Whether an operation is ended without being run: because of a failure that it has inherited, or
/// because the process is about to end. Also called by `gpu/call.rs` and
/// `replay/node_call.rs`.
#[inline]
pub fn is_skipped(property: Property, inherits: bool, state: StateSnapshot) -> bool {
    inherits && property != Property::NoSkip || state.is_shut_down() && property != Property::DeleteVar
}

/// When and where an operation was pushed.
unsafe fn stamp(block: *mut Block) -> Stamp {
    // SAFETY: the operation is ours.
    unsafe { Stamp::new(Block::cache(block), (*block).sequence) }
}
