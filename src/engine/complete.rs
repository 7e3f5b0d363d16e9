//! How operations end: marks, versions, counts on their variables; and who runs what becomes ready.

use crate::engine::core::{Core, ReadyCause, FAILED};
use crate::engine::ready_list::ReadyList;
use crate::engine::settings::Kind;
use crate::engine::ticket_host::Destinations;
use crate::error::{Failure, Fault};
use crate::operation::access::Mode;
use crate::operation::block::*;
use crate::operation::closure::Run;
use crate::profile::recorder::{Event, Use};
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use crate::tickets::linking::ended;
use crate::tickets::links::Links;
use crate::tickets::run::{self, Variables};
use crate::tickets::word::Word;
use std::sync::Arc;

impl Core {
    /// Ends an operation: marks, versions, its accesses, its counts; then what became ready is
    /// handed out.
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
        // SAFETY: the operation is ours until its accesses are complete.
        unsafe {
            let failure = match outcome {
                Ok(()) => inherited,
                Err(fault) => Some(self.record(fault, Block::name(block), (*block).sequence)),
            };
            let count = (*block).count;
            let flags = (*block).flags;
            if !cancelled && flags & FLAG_GRAPH == 0 {
                let marks = self.state.load(Relaxed) & FAILED != 0;
                for index in 0..count {
                    let access = Block::access(block, index);
                    if (*access).mode() == Mode::Read {
                        continue;
                    }
                    let slot = self.slot((*access).variable);
                    if marks {
                        slot.leave(failure.as_ref());
                    }
                    slot.step_version();
                }
            }
            if flags & FLAG_PROFILED != 0 {
                self.profile(block, worker);
            }
            Block::enter(block, FREE);
            let mut found = ReadyList::new(local);
            let deleted = (flags & FLAG_DELETE != 0).then(|| self.slot((*Block::access(block, 0)).variable));
            self.count_out(block, &self.memory.table, &mut found);
            // When it has ended: from the retirement on the slot may become that of another
            // variable.
            if let Some(slot) = deleted {
                self.memory.table.retire(slot);
            }
            // Before it counts as completed: who has waited for everything finds room.
            if self.settings.bound > 0 && flags & FLAG_WAIT == 0 {
                self.in_flight.fetch_sub(1, AcqRel);
                self.room.notify(|| true);
            }
            local.count_completed();
            if !found.first.is_null() {
                self.hand_out(local, found.first);
            }
        }
    }

    /// Counts an operation on its variables; what becomes ready, and the block if it is the pool's,
    /// goes to `found`.
    ///
    /// # Safety
    /// The operation has run, and is the caller's, who gives it up.
    #[inline]
    pub unsafe fn count_out(&self, block: *mut Block, variables: &impl Variables, found: &mut ReadyList<'_>) {
        // SAFETY: ours until it has ended; then nobody's, if the ring has it, or ours again.
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

    /// As that, of an operation with links.
    #[inline(never)]
    unsafe fn end_linked(&self, block: *mut Block, variables: &impl Variables, found: &mut ReadyList<'_>) {
        let mut destinations = Destinations::new(self, self.local(), Word::NONE, found);
        // SAFETY: as there.
        unsafe {
            let is_void = Block::is_voided(block);
            if (*block).flags & FLAG_DELETE != 0 && Links::count(block) > 0 && !is_void {
                let common = self.memory.table.add_common((*Block::access(block, 0)).variable);
                common.close(block, &mut destinations);
            }
            let end = |ready: *mut Block| destinations.found.ready(ready);
            if is_void {
                run::end_voided(block, variables, end);
            } else {
                run::end(block, variables, end);
            }
            ended(block, &mut destinations);
        }
    }
    /// Records a profiled operation that ends now, on this thread.
    #[cold]
    unsafe fn profile(&self, block: *mut Block, worker: Option<usize>) {
        // SAFETY: the operation is ours, and its accesses are alive.
        unsafe {
            let asynchronous = matches!((*(*block).body).run, Run::Async(_));
            let uses = (0..(*block).count).map(|index| {
                let access = Block::access(block, index);
                let variable = (*access).variable;
                // Relaxed: the operation came after the variable's birth.
                let generation = self.slot(variable).generation.load(Relaxed);
                Use::new(variable, generation, (*access).mode() != Mode::Read)
            });
            self.profiler.record(Event::of(block, asynchronous, worker), uses);
        }
    }

    /// Gives a list of ready operations to the thread that is to run them.
    ///
    /// # Safety
    /// They are ready, and ours.
    #[inline]
    pub unsafe fn hand_out(self: &Arc<Self>, local: &ThreadContext, mut first: *mut Block) {
        // Where the caller runs what it makes ready, it runs one share of it all, and not one for
        // each.
        let gathers = self.settings.kind == Kind::Naive && !local.draining.replace(true);
        while !first.is_null() {
            // SAFETY: the list is ours; an operation is read before it is given away.
            unsafe {
                let next = (*first).link;
                let flags = (*first).flags;
                if flags & FLAG_PROFILED != 0 {
                    (*Block::times(first)).ready = self.profiler.now();
                }
                if flags & FLAG_WAIT != 0 {
                    self.execute(local, first, None);
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
