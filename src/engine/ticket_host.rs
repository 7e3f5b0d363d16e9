//! The engine as a push sees it while its operation gets its tickets: the variables, the other
//! pushers, and where operations go that have all their tickets. Implements the traits that
//! `src/tickets/` asks for: [`Variables`], [`Peers`] and [`Commons`].
//!
//! Used by `push/enlist.rs` and `push/acquire.rs`, on the pusher. `complete.rs` makes
//! [`Destinations`] too, for the end of an operation with links. `tickets/owner/` calls back
//! through the traits. Both types live on the stack of one thread. They lead to shared data: slots,
//! records of other pushers, and operations of those, which `finish` finishes for them.

use crate::engine::core::Core;
use crate::engine::push::journal::{is_for_any_worker, log};
use crate::engine::ready_list::ReadyList;
use crate::operation::block::Block;
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use crate::tickets::common::{Common, Commons};
use crate::tickets::hazards::{Hazards, Hold};
use crate::tickets::linking::help;
use crate::tickets::owner::{Owner, Peers, Record};
use crate::tickets::pull::Pull;
use crate::tickets::run::{is_untaken, settle, take, Progress, Start, Variables};
use crate::tickets::word::Word;
use std::cell::RefCell;

/// The variables and the other pushers, for a thread that is pinned.
pub struct TicketHost<'a, 'f> {
    pub core: &'a Core,
    /// Whether the caller deletes the variables that it asks for. Their handles are dead by then.
    deletes: bool,
    destinations: RefCell<Destinations<'a, 'f>>,
}

/// Where operations go that have all their tickets: into a log, or to `found`.
pub struct Destinations<'a, 'f> {
    core: &'a Core,
    local: &'a ThreadContext,
    /// The operation that the caller pushes.
    own: Word,
    /// Whether the caller starts `own` itself if it is ready. Known since before the push: another
    /// thread may run the operation and end it meanwhile, and then its block has another body.
    starts_own: bool,
    /// Whether all tickets of `own` have come. The caller then runs it.
    pub own_is_ready: bool,
    /// Other operations that are ready, and blocks that are spent.
    pub found: &'a mut ReadyList<'f>,
}

impl<'a, 'f> TicketHost<'a, 'f> {
    pub fn new(destinations: Destinations<'a, 'f>, deletes: bool) -> TicketHost<'a, 'f> {
        TicketHost { core: destinations.core, deletes, destinations: RefCell::new(destinations) }
    }

    pub fn into_destinations(self) -> Destinations<'a, 'f> {
        self.destinations.into_inner()
    }
}

impl<'a, 'f> Destinations<'a, 'f> {
    /// For a caller that pushes no operation.
    pub fn new(core: &'a Core, local: &'a ThreadContext, found: &'a mut ReadyList<'f>) -> Destinations<'a, 'f> {
        Destinations { core, local, own: Word::NONE, starts_own: false, own_is_ready: false, found }
    }

    /// For the push of `own`, which the caller starts itself if `starts_own`.
    pub fn of_push(self, own: Word, starts_own: bool) -> Destinations<'a, 'f> {
        Destinations { own, starts_own, ..self }
    }
}

impl Destinations<'_, '_> {
    /// Takes the ready operations that an urgent one waits for, so that they are handed out before
    /// the push returns.
    #[cold]
    fn found_by(&mut self, mut urged: Pull) {
        loop {
            let block = urged.next(&self.core.memory.table);
            if block.is_null() {
                return;
            }
            self.found.ready(block);
        }
    }
}

impl Variables for TicketHost<'_, '_> {
    #[inline]
    fn progress(&self, variable: u32) -> &Progress {
        self.core.memory.table.progress(variable)
    }
}

impl Peers for TicketHost<'_, '_> {
    /// The slot of the variable.
    fn whole(&self, variable: u32) -> *const () {
        // SAFETY: the push has resolved the variable.
        std::ptr::from_ref(unsafe { self.core.memory.table.at(variable) }).cast()
    }

    fn owner(&self, variable: u32) -> &Owner {
        // SAFETY: the push has resolved the variable.
        unsafe { self.core.memory.table.at(variable) }.owner()
    }

    fn version(&self, variable: u32) -> u64 {
        // SAFETY: the push has resolved the variable.
        unsafe { self.core.memory.table.at(variable) }.version()
    }

    fn lives(&self, variable: u32, generation: u32) -> bool {
        // SAFETY: the push has resolved the variable.
        let slot = unsafe { self.core.memory.table.at(variable) };
        let dead = generation.wrapping_add(u32::from(self.deletes));
        // Acquire: pairs with the exchange in `resolve::kill` that ends a generation.
        slot.generation.load(Acquire) == dead
    }

    fn record_if_any(&self, pusher: u32) -> Option<&Record> {
        self.core.memory.records.get(pusher)
    }

    fn pushers(&self) -> u32 {
        self.core.memory.records.count()
    }

    fn finish(&self, operation: Word, linked: bool) {
        if operation == Word::NONE {
            // The operation has run inside its push, and has only read: there is nothing to finish.
            return;
        }
        let mut destinations = self.destinations.borrow_mut();
        // SAFETY: the memory of a block stays that of a block. From the look at its word on it is
        // held, if the operation has not ended.
        unsafe {
            if linked {
                help(operation, &mut *destinations);
            } else {
                destinations.hazards().announce(Hold::Start, operation.block());
                destinations.logged(operation);
            }
        }
    }

    fn begin_common(&self, variable: u32, start: Start) {
        self.core.memory.table.add_common(variable).open(start);
    }
}

impl Commons for Destinations<'_, '_> {
    fn common(&self, variable: u32) -> &Common {
        self.core.memory.table.add_common(variable)
    }

    fn hazards(&self) -> &Hazards {
        &self.local.cache().hazards
    }

    fn logged(&mut self, operation: Word) {
        if !is_untaken(operation) {
            return;
        }
        let block = operation.block();
        // SAFETY: this thread holds the block of an operation that was enlisted; an operation in a
        // block of a ring always goes into a log. An operation that `take` returns is ours.
        unsafe {
            let workers = self.core.workers.as_ref();
            // Another thread may have taken and ended it since the look above. Of a block that is
            // held, only what nobody writes after the push may be read then.
            let starts_here = self.starts_own && operation == self.own;
            let is_logged = || !Block::is_linked(block) || is_for_any_worker(block) && !starts_here;
            if let Some(workers) = workers.filter(|_| is_logged()) {
                log(workers, self.local, operation);
            } else if take(operation).is_some() {
                let variables = &self.core.memory.table;
                let urged = ((*block).priority > 0).then(|| Pull::urge(block, variables));
                let ready = settle(block, variables);
                if ready && operation == self.own {
                    self.own_is_ready = true;
                } else if ready {
                    self.found.ready(block);
                } else if let Some(urged) = urged {
                    self.found_by(urged);
                }
            }
        }
    }

    fn spent(&mut self, block: *mut Block) {
        self.found.spent(block);
    }
}
