//! Running and ending operations.

use super::core::{Core, FAILED, SHUTDOWN};
use super::costs::Key;
use super::declared::{Copied, Enlisted};
use super::dispatch::Moment;
use super::found::Found;
use super::inside::{enter, leave, pay};
use super::settings::Kind;
use crate::error::{Error, Failure, Fault, Stamp};
use crate::mutants::{mutant, mutate};
use crate::operation::block::*;
use crate::operation::closure::Run;
use crate::operation::completion::{Completion, Finish};
use crate::operation::context::RunContext;
use crate::operation::current::within;
use crate::operation::property::Property;
use crate::pool::local::Local;
use crate::profile::recorder::{Event, Use};
use crate::sync::Ordering::*;
use crate::tickets::run;
use crate::variable::access::{Mode, Node, Sink, CANCELLED};
use crate::variable::chain;
use crate::variable::table::Slot;
use crate::worker::Host;
use std::sync::Arc;

impl Core {
    /// Runs an operation, and ends it unless it is asynchronous.
    ///
    /// # Safety
    /// The operation is ready, and ours.
    #[inline]
    pub unsafe fn execute(self: &Arc<Self>, local: &Local, block: *mut Block, worker: Option<usize>) {
        // SAFETY: passed on.
        unsafe {
            match self.tickets {
                None => self.execute_as::<false>(local, block, worker),
                Some(_) => self.execute_as::<true>(local, block, worker),
            }
        }
    }

    /// As [`Core::execute`], in an engine with tickets or in one with chains.
    unsafe fn execute_as<const TICKETED: bool>(
        self: &Arc<Self>,
        local: &Local,
        block: *mut Block,
        worker: Option<usize>,
    ) {
        // SAFETY: the operation is ours until it ends. After the call of an asynchronous closure the block is not touched.
        unsafe {
            let body = &*(*block).body;
            if let Run::Part(call) = body.run {
                call(Block::closure(block, Layout::Chained), worker);
                pay();
                return;
            }
            Block::enter(block, RUNNING);
            let state = self.state.load(Relaxed);
            let notes = (*block).notes;
            let property = Block::property(block);
            // Relaxed: the grants that made the operation ready were acquired, and the flag was set before them.
            let cancelled = match TICKETED {
                true => (*block).node.is_voided(),
                false => (*block).node.wait.load(Relaxed) & CANCELLED != 0,
            };
            // A cancelled operation has no claim on its variables, and may not look at their marks.
            let inherited = if !cancelled && state & FAILED != 0 { self.inherited(block) } else { None };
            if notes & NOTE_PROFILED != 0 {
                self.start_profile(block);
            }
            let always = notes & (NOTE_WAIT | NOTE_DELETE | NOTE_GRAPH) != 0;
            let skip = cancelled || !always && is_skipped(property, inherited.is_some(), state);
            Block::touch(block, false);
            let storage = Block::closure(block, if TICKETED { Block::layout(block) } else { Layout::Chained });
            if skip {
                // The closure's destructor is user code as well.
                enter(local);
                (body.discard)(storage);
                leave(local);
                self.end::<TICKETED>(local, block, Ok(()), inherited, cancelled, worker);
                pay();
                return;
            }
            let run = RunContext {
                context: Block::context(block),
                name: Block::name(block),
                worker,
                nested_threads: self.settings.nested_threads,
                inherited: inherited.as_ref().map(|failure| (failure, stamp(block))),
                graph: 0,
                pushed: (notes & NOTE_GRAPH != 0).then(|| (stamp(block), pushed_at(block))),
            };
            enter(local);
            match body.run {
                Run::Sync(call) => {
                    // Waits, deletions and graphs are none of the user's usual work.
                    let key = || Key::of(body, storage);
                    let outcome = within(&Enlisted::new(&self.memory, block), || {
                        if always {
                            call(storage, &run)
                        } else {
                            self.costs.measure(key, || call(storage, &run))
                        }
                    });
                    leave(local);
                    self.end::<TICKETED>(local, block, outcome, inherited, false, worker);
                }
                Run::Async(call) => {
                    Block::keep_worker(block, worker);
                    let (name, sequence) = (Block::name(block), (*block).sequence);
                    let engine: Arc<dyn Finish> = Arc::<Core>::clone(self);
                    mutate!("called-closures-not-counted": (), local.count_called());
                    let completion = Completion::new(engine, block);
                    let outcome = if notes & NOTE_GRAPH != 0 {
                        // Each of its operations has declared its own.
                        call(storage, &run, completion)
                    } else {
                        within(&Copied::of(&self.memory, block), || call(storage, &run, completion))
                    };
                    leave(local);
                    mutate!("called-closures-not-counted": (), local.count_returned());
                    // Whoever stops the engine waits for the return as well.
                    self.quiescence.notify(|| self.is_quiescent());
                    if let Err(fault) = outcome {
                        // The closure unwound after it had given its completion away: the operation is somebody
                        // else's now, but the panic must not be lost.
                        self.record(fault, name, sequence);
                    }
                }
                // Above.
                Run::Part(_) => {}
            }
            pay();
        }
    }

    /// The slot of a variable that an access names.
    ///
    /// # Safety
    /// The access is of an operation of this engine.
    #[inline]
    unsafe fn slot(&self, variable: u32) -> &Slot {
        // SAFETY: its push has resolved the variable.
        unsafe { self.memory.table.at(variable) }
    }

    /// The failure that an operation finds on its variables: the first in the order of the variables.
    #[cold]
    #[inline(never)]
    unsafe fn inherited(&self, block: *mut Block) -> Option<Arc<Failure>> {
        // SAFETY: the operation runs, so its accesses are alive and its marks hold still.
        unsafe {
            let stamp = stamp(block);
            // Accesses need not be in order: of several failures that of the first variable counts.
            let found = (0..(*block).node.count).filter_map(|index| {
                let variable = (*Node::access(block.cast(), index)).variable;
                Some((variable, self.slot(variable).failure_for(stamp)?))
            });
            found.min_by_key(|(variable, _)| *variable).map(|(_, failure)| failure)
        }
    }

    /// Keeps a failure for whoever waits for everything.
    #[cold]
    pub fn record(&self, fault: Fault, name: &'static str, sequence: u64) -> Arc<Failure> {
        let error = Error::of_operation(name, fault);
        // Before the operation is complete, so that whoever runs because of it sees the flag.
        mutate!("failures-never-looked-for": 0, self.state.fetch_or(FAILED, Release));
        self.failures.record(error, sequence)
    }

    /// Ends an operation: marks, versions, its accesses, its counts; then what became ready is handed out.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    pub unsafe fn end<const TICKETED: bool>(
        self: &Arc<Self>,
        local: &Local,
        block: *mut Block,
        outcome: Result<(), Fault>,
        inherited: Option<Arc<Failure>>,
        cancelled: bool,
        worker: Option<usize>,
    ) {
        // SAFETY: the operation is ours until its accesses are complete.
        unsafe {
            let failure = match outcome {
                Ok(()) => inherited,
                Err(fault) => Some(self.record(fault, Block::name(block), (*block).sequence)),
            };
            let count = (*block).node.count;
            let notes = (*block).notes;
            // For whoever comes after it: where its data is. Workers of other groups have other numbers.
            let near = worker.filter(|_| self.settings.kind == Kind::PerDevice && Block::property(block).is_computed());
            if !cancelled && notes & NOTE_GRAPH == 0 {
                let marks = self.state.load(Relaxed) & FAILED != 0;
                for index in 0..count {
                    let access = Node::access(block.cast(), index);
                    if (*access).mode() == Mode::Read {
                        continue;
                    }
                    let slot = self.slot((*access).variable);
                    if marks && !mutant("failure-not-marked") {
                        slot.leave(failure.as_ref());
                    }
                    if failure.is_none() || !mutant("failed-writes-have-no-version") {
                        slot.step_version();
                    }
                }
            }
            if notes & NOTE_PROFILED != 0 {
                self.profile(block, worker);
            }
            Block::enter(block, FREE);
            let mut found = Found::new(local);
            if mutant("counted-before-its-end") {
                local.count_completed();
            }
            if TICKETED {
                let deleted = (notes & NOTE_DELETE != 0).then(|| self.slot((*Node::access(block.cast(), 0)).variable));
                self.end_ticketed(block, &self.memory.table, &mut found);
                deleted.into_iter().for_each(|slot| self.memory.table.retire(slot));
            } else if notes & NOTE_DELETE != 0 {
                let slot = self.slot((*Node::access(block.cast(), 0)).variable);
                // Closed first: from the retirement on the chain may become that of another variable.
                if mutant("retired-before-it-is-closed") {
                    self.memory.table.retire(slot);
                    slot.chain.close(block.cast(), &mut found);
                } else {
                    slot.chain.close(block.cast(), &mut found);
                    self.memory.table.retire(slot);
                }
            } else if count == 0 {
                found.spent(block.cast());
            } else {
                chain::complete(block.cast(), near, &mut found);
            }
            // Before it counts as completed: who has waited for everything finds room.
            if self.settings.bound > 0 && notes & NOTE_WAIT == 0 {
                self.in_flight.fetch_sub(1, AcqRel);
                mutate!("room-not-announced": (), self.room.notify(|| true));
            }
            if !mutant("counted-before-its-end") {
                local.count_completed();
            }
            if !found.first.is_null() {
                self.hand_out(local, found.first, near);
            }
        }
    }

    /// Notes that a profiled operation starts now, on this thread.
    #[cold]
    unsafe fn start_profile(&self, block: *mut Block) {
        let (start, thread) = self.profiler.starting();
        // SAFETY: the operation is ours, and was made with room for its times.
        unsafe {
            let times = Block::times(block);
            ((*times).start, (*times).started_on) = (start, thread);
            // Out of a log: nobody has seen when it became ready.
            if (*times).ready == 0 {
                (*times).ready = start;
            }
        }
    }

    /// Records a profiled operation that ends now, on this thread.
    #[cold]
    unsafe fn profile(&self, block: *mut Block, worker: Option<usize>) {
        // SAFETY: the operation is ours, and its accesses are alive.
        unsafe {
            let asynchronous = matches!((*(*block).body).run, Run::Async(_));
            let uses = (0..(*block).node.count).map(|index| {
                let access = Node::access(block.cast(), index);
                let variable = (*access).variable;
                // Relaxed: the operation came after the variable's birth.
                let generation = self.slot(variable).chain.tag.generation.load(Relaxed);
                Use::new(variable, generation, (*access).mode() != Mode::Read)
            });
            self.profiler.record(Event::of(block, asynchronous, worker), uses);
        }
    }

    /// Gives a list of ready operations to whoever is to run them. `near`: the worker that has made them ready, if it is one.
    ///
    /// # Safety
    /// They are ready, and ours.
    #[inline]
    pub unsafe fn hand_out(self: &Arc<Self>, local: &Local, mut first: *mut Block, near: Option<usize>) {
        // Where the caller runs what it makes ready, it runs one share of it all, and not one for each.
        let gathers = self.settings.kind == Kind::Naive && !local.draining.replace(true);
        while !first.is_null() {
            // SAFETY: the list is ours; an operation is read before it is given away.
            unsafe {
                let next = (*first).link;
                let notes = (*first).notes;
                if notes & NOTE_PROFILED != 0 {
                    (*Block::times(first)).ready = self.profiler.now();
                }
                if notes & NOTE_WAIT != 0 {
                    // A wait uses nothing: the data stays where it is.
                    self.execute(local, first, near);
                } else {
                    self.dispatch.submit(self, local, first, Moment::Later);
                }
                first = next;
            }
        }
        if gathers {
            self.dispatch.drain(self, local);
        }
    }
}

impl Host for Core {
    #[inline]
    unsafe fn run(self: &Arc<Self>, block: *mut Block, worker: Option<usize>) {
        // SAFETY: passed on.
        unsafe {
            if !(self.tickets.is_some() && self.run_plain(block, worker)) {
                self.execute(self.local(), block, worker)
            }
        }
    }

    #[inline]
    unsafe fn settle(&self, block: *mut Block) -> bool {
        // SAFETY: passed on.
        unsafe { run::settle(block, &self.memory.table) }
    }

    fn idle(&self) {
        self.settle(self.local());
    }
}

impl Finish for Core {
    unsafe fn finish(self: Arc<Self>, block: *mut Block, outcome: Result<(), Fault>) {
        let local = self.local();
        // SAFETY: the operation runs, and this is its end.
        unsafe {
            let inherited = if self.state.load(Relaxed) & FAILED != 0 { self.inherited(block) } else { None };
            let worker = Block::kept_worker(block);
            match self.tickets {
                None => self.end::<false>(local, block, outcome, inherited, false, worker),
                Some(_) => self.end::<true>(local, block, outcome, inherited, false, worker),
            }
        }
        self.settle(local);
    }
}

/// Whether an operation is ended without being run: for a failure that it has inherited, or because the process is about to end.
#[inline]
pub fn is_skipped(property: Property, inherits: bool, state: u32) -> bool {
    inherits && property != Property::NoSkip || state & SHUTDOWN != 0 && property != Property::DeleteVar
}

/// When an operation was pushed, if it is profiled; else 0.
unsafe fn pushed_at(block: *mut Block) -> u64 {
    // SAFETY: the operation is ours.
    unsafe {
        if (*block).notes & NOTE_PROFILED != 0 {
            (*Block::times(block)).push
        } else {
            0
        }
    }
}

/// When and where an operation was pushed.
unsafe fn stamp(block: *mut Block) -> Stamp {
    // SAFETY: the operation is ours.
    unsafe { Stamp::new(Block::home(block), (*block).sequence) }
}
