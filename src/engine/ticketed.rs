//! An engine whose operations are ordered by tickets: who runs them, and how they end.

use super::core::Core;
use super::costs::Key;
use super::declared::Enlisted;
use super::dispatch::Dispatch;
use super::found::Found;
use super::inside::{enter, leave, pay};
use super::variable::Variable;
use super::world::Ends;
use crate::device::Context;
use crate::operation::block::{Block, FREE, NOTE_DELETE, NOTE_PROFILED, RUNNING};
use crate::operation::closure::Run;
use crate::operation::context::RunContext;
use crate::operation::current::within;
use crate::operation::property::Property;
use crate::pool::local::Local;
use crate::sync::Ordering::*;
use crate::tickets::common;
use crate::tickets::journals::Journal;
use crate::tickets::links::Links;
use crate::tickets::run::{self, Variables};
use crate::tickets::word::Word;
use crate::variable::access::{Node, Sink};
use crate::variable::table::Stepping;
use crate::worker::group::Group;
use std::sync::Arc;

/// What is the same for all pushes.
pub struct Tickets {
    /// Those who run what is neither urgent nor bound to a place.
    pub workers: Option<Arc<Group>>,
}

impl Tickets {
    pub fn new(dispatch: &dyn Dispatch) -> Tickets {
        Tickets { workers: dispatch.group(Property::Normal).filter(|group| group.is_logged()).cloned() }
    }

    /// Whether an operation may go into a log, for any worker of these.
    pub fn workers_for(&self, property: Property, notes: u8, priority: i32, context: Context) -> Option<&Arc<Group>> {
        let any = notes & !NOTE_PROFILED == 0 && priority == 0 && context == Context::cpu(0);
        let any = any && property.is_computed() && !property.runs_on_pusher();
        self.workers.as_ref().filter(|_| any)
    }
}

/// Puts an operation into one of the calling thread's logs.
///
/// # Safety
/// The group has logs; the operation's word says "pushed".
#[inline]
pub unsafe fn log(group: &Group, local: &Local, operation: Word) {
    // SAFETY: the journal is this thread's: one at a time has the home.
    unsafe {
        let journal: &Journal = local.journal(|| group.add_journal());
        group.log(journal, journal.least(), operation);
    }
}

impl Core {
    /// Whether every write of a variable has ended that the calling thread has heard of. May say "no"
    /// of one whose owner is pushing to it. The thread is pinned.
    pub fn finds_quiet(&self, local: &Local, variable: Variable) -> bool {
        let table = &self.memory.table;
        if let Some(is_quiet) = local.pusher().is_quiet(variable.index, variable.generation, table) {
            return is_quiet;
        }
        if let Some(common) = table.common(variable.index).filter(|common| common.is_open()) {
            // SAFETY: pinned, and common.
            let writes = unsafe { common.writes() };
            return writes.is_some_and(|writes| table.progress(variable.index).has_written(writes));
        }
        // SAFETY: the caller has resolved the variable.
        let owner = unsafe { table.at(variable.index) }.owner();
        owner.is_quiet(variable.index, table, |pusher| self.memory.records.get(pusher))
    }

    /// Runs and ends an operation that is synchronous and has no notes, while nothing has failed
    /// and nobody profiles: what [`Core::execute`] does then. Says whether it has; if not, nothing
    /// has happened.
    ///
    /// # Safety
    /// As there; the operation has tickets.
    pub unsafe fn run_plain(self: &Arc<Self>, block: *mut Block, worker: Option<usize>) -> bool {
        // SAFETY: the operation is ours until it ends.
        unsafe {
            let body = &*(*block).body;
            let Run::Sync(call) = body.run else { return false };
            let is_plain = (*block).notes == 0 && !(*block).node.is_voided();
            if !is_plain || self.state.load(Relaxed) != 0 || self.settings.bound > 0 {
                return false;
            }
            let local = self.local();
            Block::enter(block, RUNNING);
            let run = RunContext {
                context: Block::context(block),
                name: Block::name(block),
                worker,
                nested_threads: self.settings.nested_threads,
                inherited: None,
                graph: 0,
                pushed: None,
            };
            let storage = Block::closure(block, Block::layout(block));
            enter(local);
            let outcome = within(&Enlisted::new(&self.memory, block), || {
                self.costs.measure(|| Key::of(body, storage), || call(storage, &run))
            });
            leave(local);
            if outcome.is_err() || self.state.load(Relaxed) != 0 {
                self.end::<true>(local, block, outcome, None, false, worker);
                pay();
                return true;
            }
            Block::enter(block, FREE);
            let mut found = Found::new(local);
            self.end_ticketed(block, &Stepping(&self.memory.table), &mut found);
            local.count_completed();
            if !found.first.is_null() {
                self.hand_out(local, found.first, None);
            }
            pay();
            true
        }
    }

    /// Counts an operation on its variables; what becomes ready, and the block if it is the pool's,
    /// goes to `found`.
    ///
    /// # Safety
    /// The operation has run, and is the caller's, who gives it up.
    #[inline]
    pub unsafe fn end_ticketed(&self, block: *mut Block, variables: &impl Variables, found: &mut Found<'_>) {
        // SAFETY: ours until it has ended; then nobody's, if the ring has it, or ours again.
        unsafe {
            if (*block).node.is_linked() {
                return self.end_linked(block, variables, found);
            }
            let ringed = (*block).node.is_ringed();
            run::end(block, variables, |ready| found.ready(ready.cast()));
            if !ringed {
                found.spent(block.cast());
            }
        }
    }

    /// As that, of an operation with links.
    #[inline(never)]
    unsafe fn end_linked(&self, block: *mut Block, variables: &impl Variables, found: &mut Found<'_>) {
        let mut ends = Ends::new(self, self.local(), Word::NONE, found);
        // SAFETY: as there.
        unsafe {
            let is_void = (*block).node.is_voided();
            if (*block).notes & NOTE_DELETE != 0 && Links::count(block) > 0 && !is_void {
                let common = self.memory.table.add_common((*Node::access(block.cast(), 0)).variable);
                common.close(block, &mut ends);
            }
            let end = |ready: *mut Block| ends.found.ready(ready.cast());
            if is_void {
                run::end_voided(block, variables, end);
            } else {
                run::end(block, variables, end);
            }
            common::ended(block, &mut ends);
        }
    }
}
