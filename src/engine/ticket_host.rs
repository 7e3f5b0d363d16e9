//! What a push finds: the variables, the other pushers, and where
//! operations go that have got their tickets.

use crate::engine::core::Core;
use crate::engine::push::journal::{is_for_any_worker, log};
use crate::engine::ready_list::ReadyList;
use crate::operation::block::Block;
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use crate::tickets::common::{Common, Commons};
use crate::tickets::linking::help;
use crate::tickets::owner::{Owner, Peers, Record};
use crate::tickets::pull::Pull;
use crate::tickets::run::{is_untaken, settle, take, Progress, Start, Variables};
use crate::tickets::word::Word;
use std::cell::RefCell;

/// The variables and the other pushers, for a thread that is pinned.
pub struct TicketHost<'a, 'f> {
    pub core: &'a Core,
    /// Whether the caller deletes the variables that it asks for, whose handles are dead by then.
    deletes: bool,
    destinations: RefCell<Destinations<'a, 'f>>,
}

/// Where operations go that have all their tickets.
pub struct Destinations<'a, 'f> {
    core: &'a Core,
    local: &'a ThreadContext,
    /// The operation that the caller pushes.
    own: Word,
    /// Whether all its tickets have come. It is the caller's to run then.
    pub own_is_ready: bool,
    /// Others' that are, and blocks that are spent.
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
    /// `own`: the operation that the caller pushes, if it does.
    pub fn new(
        core: &'a Core,
        local: &'a ThreadContext,
        own: Word,
        found: &'a mut ReadyList<'f>,
    ) -> Destinations<'a, 'f> {
        Destinations { core, local, own, own_is_ready: false, found }
    }
}

impl Destinations<'_, '_> {
    /// Takes what an urgent operation needs, which is handed out before the push returns.
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
    /// Its slot.
    fn whole(&self, variable: u32) -> *const () {
        // SAFETY: the push has resolved the variable.
        std::ptr::from_ref(unsafe { self.core.memory.table.at(variable) }).cast()
    }

    fn owner(&self, variable: u32) -> &Owner {
        // SAFETY: the push has resolved the variable.
        unsafe { self.core.memory.table.at(variable) }.owner()
    }

    fn version(&self, variable: u32) -> u64 {
        // SAFETY: as above.
        unsafe { self.core.memory.table.at(variable) }.version()
    }

    fn lives(&self, variable: u32, generation: u32) -> bool {
        // SAFETY: as above.
        let slot = unsafe { self.core.memory.table.at(variable) };
        let dead = generation.wrapping_add(u32::from(self.deletes));
        // Acquire: pairs with the exchange that ends a generation.
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
            // It has run inside its push, and has only read.
            return;
        }
        let mut destinations = self.destinations.borrow_mut();
        // SAFETY: blocks stay blocks, and one with links is not used again while we are pinned.
        unsafe {
            if linked {
                help(operation, &mut *destinations);
            } else {
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

    fn logged(&mut self, operation: Word) {
        if !is_untaken(operation) {
            return;
        }
        let block = operation.block();
        // SAFETY: blocks with links stay as they are while we are pinned; those of rings always go
        // into logs. What is taken is ours.
        unsafe {
            let workers = self.core.workers.as_ref();
            if let Some(workers) = workers.filter(|_| !Block::is_linked(block) || is_for_any_worker(block)) {
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
