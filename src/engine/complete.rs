//! Ends operations: marks, versions and tickets; then hands out the operations that have become
//! ready.
//!
//! Used by `execute.rs` and `gpu/call.rs` ([`Core::end`]), on the thread that has called the
//! closure or used the completion, or on the watcher of a device (`Completion::complete_after`).
//! `gpu/timing.rs` uses it for the profiler. [`Core::hand_out`] is also for pushes (`push/`,
//! `inline/fast_path.rs`) and for watchers (`gpu/watch.rs`).
//!
//! Not every operation comes to [`Core::end`]: `Core::run_plain` (`execute.rs`) calls
//! [`Core::count_out`] itself, and an operation that runs inside its push ends in
//! `inline/fast_path.rs`. The operations of a graph end in `replay/runner.rs` and
//! `replay/node_call.rs`, and `Program::count_writes` (`replay/program.rs`) steps their versions,
//! once for a whole replay. Which operations are skipped is decided in `execute.rs`.
//!
//! No state here. Until the tickets are released, only the thread that ends an operation changes
//! its block, and the marks and versions of what it writes (`variable/slot.rs`). Meanwhile others
//! may park on the block's word (`tickets/run.rs`), or link behind it (`tickets/linking.rs`).

use crate::engine::backpressure::give_room_back;
use crate::engine::core::{Core, ReadyCause};
use crate::engine::nesting::{inside, mark_inside};
use crate::engine::ready_list::ReadyList;
use crate::engine::settings::Kind;
use crate::engine::ticket_host::Destinations;
use crate::error::{Failure, Fault};
use crate::operation::block::*;
use crate::operation::closure::Run;
use crate::operation::layout::RECORDED;
use crate::profile::recorder::{Event, Use};
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use crate::tickets::end_phased;
use crate::tickets::linking::ended;
use crate::tickets::links::Links;
use crate::tickets::run::{self, Variables};
use std::sync::Arc;

impl Core {
    /// Ends an operation: marks the variables that it changes, steps their versions, releases its
    /// tickets; then hands out what became ready.
    ///
    /// The marks carry the operation's own failure, if `outcome` is one, or else the `inherited`
    /// one. Only its own is recorded, by `Core::record` (`execute.rs`). A `cancelled` operation
    /// leaves marks and versions alone.
    ///
    /// # Safety
    /// The operation has run or is skipped, and is the caller's, which gives it up.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    pub unsafe fn end(
        self: &Arc<Self>,
        local: &ThreadContext,
        block: *mut Block,
        outcome: Result<(), Fault>,
        inherited: Option<Arc<Failure>>,
        cancelled: bool,
        worker: Option<usize>,
    ) {
        // SAFETY: the operation is ours until its tickets are released.
        unsafe {
            let failure = match outcome {
                Ok(()) => inherited,
                Err(fault) => {
                    // The mark that it was found by is still there, so this is not the last.
                    drop(inherited);
                    Some(self.record(fault, Block::name(block), (*block).sequence))
                }
            };
            let count = (*block).count;
            let flags = (*block).flags;
            if !cancelled && flags & (FLAG_GRAPH | FLAG_WAIT) == 0 {
                let marks = self.state.load(Relaxed).has_failed();
                for index in 0..count {
                    let access = Block::access(block, index);
                    if !(*access).mode().changes() {
                        continue;
                    }
                    let slot = self.slot((*access).variable);
                    if marks {
                        mark_inside(local, slot, failure.as_ref());
                    }
                    slot.step_version();
                }
            }
            let mut found = ReadyList::new(local);
            if flags & (FLAG_PHASED | FLAG_PROFILED) != 0 {
                self.end_special(block, worker, &mut found);
            }
            if let Some(failure) = failure {
                inside(local, || drop(failure));
            }
            Block::enter(block, BLANK);
            let deleted = (flags & FLAG_DELETE != 0).then(|| self.slot((*Block::access(block, 0)).variable));
            self.count_out(block, &self.memory.table, &mut found);
            // Only now that the tickets are released: from its retirement on the slot may become
            // that of another variable.
            if let Some(slot) = deleted {
                inside(local, || self.memory.table.retire(slot));
            }
            // Before the operation counts as completed, so that a thread that has waited for
            // everything finds room under the bound.
            if self.settings.bound > 0 && flags & (FLAG_WAIT | FLAG_PLACELESS) == 0 {
                give_room_back(self, 1);
            }
            local.count_completed();
            if !found.first.is_null() {
                self.hand_out(local, found.first);
            }
        }
    }

    /// Releases the tickets of an operation. The operations that become ready go to `found`, and so
    /// does the block, unless it is that of a ring.
    ///
    /// # Safety
    /// The operation has run, and is the caller's, which gives it up.
    #[inline]
    pub unsafe fn count_out(&self, block: *mut Block, variables: &impl Variables, found: &mut ReadyList<'_>) {
        // SAFETY: the block is ours until the tickets are released. After that a block of a ring
        // belongs to the ring, and any other is ours again.
        unsafe {
            if Block::is_linked(block) {
                return self.end_linked(block, variables, found);
            }
            let ringed = Block::is_ringed(block);
            run::end(block, variables, |ready| found.ready(ready));
            if !ringed {
                found.spent(block);
            }
        }
    }

    /// Like [`Core::count_out`], but for an operation with links: also closes the common variable
    /// that it deletes, and lets go of its links.
    #[inline(never)]
    unsafe fn end_linked(&self, block: *mut Block, variables: &impl Variables, found: &mut ReadyList<'_>) {
        let mut destinations = Destinations::new(self, self.local(), found);
        // SAFETY: by the contract of `count_out`.
        unsafe {
            let is_void = Block::is_voided(block);
            if (*block).flags & FLAG_DELETE != 0 && Links::count(block) > 0 && !is_void {
                let common = self.memory.table.add_common((*Block::access(block, 0)).variable);
                common.close(block, &mut destinations);
            }
            let end = |ready: *mut Block| destinations.found.ready(ready);
            if (*block).flags & FLAG_PHASED != 0 {
                end_phased::end(block, variables, end);
            } else if is_void {
                run::end_voided(block, variables, end);
            } else {
                run::end(block, variables, end);
            }
            ended(block, &mut destinations);
        }
    }
    /// Records a profiled operation that ends now, unless `gpu/timing.rs` has.
    #[cold]
    pub(super) unsafe fn profile(&self, block: *mut Block, worker: Option<usize>) {
        // SAFETY: the operation is ours.
        unsafe {
            if (*Block::times(block)).push != RECORDED {
                self.record_event(block, worker);
            }
        }
    }

    /// Records a profiled operation that ends now, on this thread; returns the place of its event,
    /// if there is one.
    ///
    /// # Safety
    /// The operation has run or is skipped, and is the caller's.
    #[inline(always)]
    pub(super) unsafe fn record_event(&self, block: *mut Block, worker: Option<usize>) -> Option<usize> {
        // SAFETY: the operation is ours, and its accesses are alive.
        unsafe {
            let asynchronous = matches!((*(*block).body).run, Run::Async(_) | Run::Replay(_));
            let uses = (0..(*block).count).map(|index| {
                let access = Block::access(block, index);
                let variable = (*access).variable;
                // Relaxed: the operation came after the variable's birth.
                let generation = self.slot(variable).generation.load(Relaxed);
                Use::new(variable, generation, (*access).mode().changes())
            });
            self.profiler.record(Event::of(block, asynchronous, worker), uses)
        }
    }

    /// Runs a wait, or hands an operation to its device or to its scope. The end of a wait may make
    /// the next one ready: those are run here one after the other, not each inside the one before.
    ///
    /// # Safety
    /// It is ready, and ours.
    #[inline]
    unsafe fn hand_out_special(self: &Arc<Self>, local: &ThreadContext, block: *mut Block) {
        // SAFETY: by the contract. What is in the list is ready, and ours.
        unsafe {
            if (*block).flags & FLAG_GPU != 0 {
                return self.submit_to_device(local, block, ReadyCause::Later);
            }
            if (*block).flags & FLAG_SCOPED != 0 {
                return self.offer(block);
            }
            (*block).link = local.waits.replace(block);
            if local.runs_waits.replace(true) {
                return;
            }
            loop {
                let wait = local.waits.get();
                if wait.is_null() {
                    break;
                }
                local.waits.set((*wait).link);
                self.execute(local, wait, None);
            }
            local.runs_waits.set(false);
        }
    }

    /// Gives each operation of a list to the thread that is to run it, in the order of the list. A
    /// wait runs right here. If this is called inside another wait, it runs after that.
    ///
    /// # Safety
    /// They are ready, and ours.
    #[inline]
    pub unsafe fn hand_out(self: &Arc<Self>, local: &ThreadContext, mut first: *mut Block) {
        // On the naive engine the calling thread runs what it makes ready: one share of the whole
        // list, and not one share for each operation.
        let gathers = self.settings.kind == Kind::Naive && !local.draining.replace(true);
        while !first.is_null() {
            // SAFETY: the list is ours; an operation is read before it is given away.
            unsafe {
                let next = (*first).link;
                let flags = (*first).flags;
                if flags & FLAG_PROFILED != 0 {
                    (*Block::times(first)).ready = self.profiler.now();
                }
                if flags & (FLAG_WAIT | FLAG_GPU | FLAG_SCOPED) != 0 {
                    self.hand_out_special(local, first);
                } else {
                    self.dispatch.submit(self, local, first, ReadyCause::Later);
                }
                first = next;
            }
        }
        if gathers {
            self.dispatch.drain(self, local);
        }
    }
}
