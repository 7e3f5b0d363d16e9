//! Pushing the long way: any operation, on variables that the thread owns, takes from another, or
//! shares with others.

use crate::engine::core::{Core, PROFILING};
use crate::engine::nesting::{enter, leave};
use crate::engine::push::acquire::acquire;
use crate::engine::push::admission::{admit, refuse_if_stopped};
use crate::engine::ready_list::ReadyList;
use crate::engine::request::{Claim, Request};
use crate::engine::resolve::{deleted, kill, resolve};
use crate::engine::ticket_host::{Destinations, TicketHost};
use crate::error::{Error, ErrorKind};
use crate::operation::access::{Access, Ticket};
use crate::operation::block::*;
use crate::operation::closure::Vtable;
use crate::operation::layout::{class_for, Layout, MOST_ACCESSES};
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use crate::tickets::common::Commons;
use crate::tickets::linking::{self, announce};
use crate::tickets::links::Links;
use crate::tickets::owner::Acquired;
use crate::tickets::run::{give_back, park_without_ticket};
use crate::tickets::word::{self, Word, PUSHED, TAKEN};
use std::sync::Arc;

/// How an operation stands that was given its tickets.
pub struct Stands {
    /// All of them have come: the caller runs it.
    pub is_ready: bool,
    /// A variable was deleted meanwhile: it ends without being run.
    pub is_void: bool,
}

/// An operation that was enlisted.
pub struct Pushed {
    pub stands: Stands,
    pub block: *mut Block,
    /// What became ready on the way, in a list.
    pub found: *mut Block,
    /// Whether others may have left operations to this call.
    pub will_look: bool,
}

/// Fills a block, and gives its operation its tickets, under a pin: no user code runs here.
#[inline]
pub fn enlist(
    core: &Arc<Core>,
    local: &ThreadContext,
    request: &Request,
    claims: &[Claim],
    body: &'static Vtable,
    size: usize,
    store: &mut dyn FnMut(*mut u8),
) -> Result<Pushed, Error> {
    // Before the pin, so that a stopped engine finds nobody pinned; see `life`.
    refuse_if_stopped(core, local, request)?;
    let guard = local.pin();
    // And after it: the thread that stops the engine sets the flag, then waits until all earlier
    // pins are gone.
    let state = refuse_if_stopped(core, local, request)?;
    for claim in claims {
        resolve(core, claim.variable)?;
    }
    if claims.len() > MOST_ACCESSES {
        return Err(Error::new(
            ErrorKind::EngineFull,
            format!("an operation cannot use {} variables: {MOST_ACCESSES} at most", claims.len()),
        ));
    }
    admit(core, request)?;
    let deletes = request.flags & FLAG_DELETE != 0;
    if deletes {
        // The handle dies before the deletion is pushed: pushes that come later are refused by it,
        // those that are under way by what they find when they ask for the variable.
        claims.iter().try_for_each(|claim| kill(core, claim.variable))?;
    }
    // From here on nothing waits, and nothing is refused but for a variable that is deleted
    // meanwhile.
    let will_look = request.flags & (FLAG_WAIT | FLAG_BEYOND) == 0 && core.dispatch.will_take_over(local);
    if will_look {
        local.say_will_look(true);
    }
    let profiled = state & PROFILING != 0 && !request.name.as_str().is_empty();
    // SAFETY: nothing was read from a tail yet. The block is ours until it is committed or linked;
    // the class has room for all.
    let (enlisted, block, found) = unsafe {
        let (block, tag) = fill(core, local, request, (claims.len(), Layout::Linked, profiled), body, size, store);
        local.count_pushed();
        let mut found = ReadyList::new(local);
        let destinations = Destinations::new(core, local, Word::refers(block, tag), &mut found);
        let linking = Linking { local, claims, block, tag };
        let enlisted = linking.enlist(destinations, deletes);
        (enlisted, block, found.first)
    };
    if will_look {
        // Before the pin ends: who forks waits for that, and no child takes a thread at its word
        // that is gone.
        local.say_will_look(false);
    }
    drop(guard);
    match enlisted {
        Ok(stands) => Ok(Pushed { stands, block, found, will_look }),
        Err(variable) => {
            // SAFETY: the operation was given to nobody. What was found is ready, and ours.
            unsafe {
                // The closure's destructor is user code.
                enter(local);
                (body.discard)(Block::closure(block, Layout::Linked));
                leave(local);
                Block::enter(block, FREE);
                let mut more = ReadyList::new(local);
                // It may have been announced, so that waits have parked there: what comes back
                // looks again.
                give_back(block, &core.memory.table, &mut |ready| more.ready(ready));
                local.retire(block);
                local.count_completed();
                for first in [found, more.first] {
                    if !first.is_null() {
                        core.hand_out(local, first);
                    }
                }
            }
            core.settle(local);
            if will_look {
                core.dispatch.take_over(core, local);
            }
            Err(deleted(variable))
        }
    }
}

/// Fills a block for an operation with so many accesses, which are not written. Returns it with its
/// tag.
///
/// # Safety
/// Nothing was read from a tail yet. The class has room for all.
#[inline]
unsafe fn fill(
    core: &Core,
    local: &ThreadContext,
    request: &Request,
    (count, layout, profiled): (usize, Layout, bool),
    body: &'static Vtable,
    size: usize,
    store: &mut dyn FnMut(*mut u8),
) -> (*mut Block, u64) {
    // SAFETY: passed on. The block is ours.
    unsafe {
        let block = local.allocate(class_for(count, size, profiled, layout));
        let tag = Word((*Block::word(block)).load(Relaxed)).tag().wrapping_add(1);
        Block::renew(block, count as u32, false);
        if layout == Layout::Linked {
            Block::set_linked(block);
        }
        Block::set_kind(block, request.property, request.context); // `device::resolve` has checked the range
        Block::set_name(block, request.name);
        (*block).flags = request.flags;
        (*block).priority = request.priority;
        (*block).body = body;
        (*block).sequence = local.next_sequence();
        if profiled {
            (*block).flags |= FLAG_PROFILED;
            Block::times(block).write(core.profiler.pushing());
        }
        Block::touch(block, true);
        store(Block::closure(block, layout));
        Block::enter(block, ASSEMBLED);
        (block, tag)
    }
}

/// Has a wait parked behind a write of another thread's, without a ticket; says whether it is. If
/// not, nothing has happened: the write has ended, or nobody can park there.
pub fn park_wait(
    core: &Arc<Core>,
    request: &Request,
    write: Word,
    body: &'static Vtable,
    size: usize,
    store: &mut dyn FnMut(*mut u8),
) -> Result<bool, Error> {
    let local = core.local();
    refuse_if_stopped(core, local, request)?;
    let guard = local.pin();
    refuse_if_stopped(core, local, request)?;
    // SAFETY: nothing was read from a tail. The block is ours until it is parked, and again if it
    // is not.
    unsafe {
        let (block, tag) = fill(core, local, request, (0, Layout::Plain, false), body, size, store);
        // Nobody refers to it.
        (*Block::word(block)).store(Word::fresh(tag, TAKEN).0, Relaxed);
        local.count_pushed();
        if park_without_ticket(block, write) {
            return Ok(true);
        }
        drop(guard);
        (body.discard)(Block::closure(block, Layout::Plain));
        Block::enter(block, FREE);
        (*Block::word(block)).store(Word::fresh(tag, word::FREE).0, Release);
        local.retire(block);
    }
    local.count_completed();
    core.settle(local);
    Ok(false)
}

/// A push under way, of an operation all of which is written but its accesses.
struct Linking<'a> {
    local: &'a ThreadContext,
    claims: &'a [Claim],
    block: *mut Block,
    tag: u64,
}

impl Linking<'_> {
    /// Gives the operation its tickets: those of variables that the thread owns all at once, by a
    /// commit; then it is linked on the others. An error names the variable that was deleted
    /// meanwhile; then nothing has happened.
    ///
    /// # Safety
    /// The caller is pinned, and has looked after that whether the variables live.
    unsafe fn enlist(
        &self,
        destinations: Destinations<'_, '_>,
        deletes: bool,
    ) -> Result<Stands, crate::variable::handle::Variable> {
        let this = Word::refers(self.block, self.tag);
        let host = TicketHost::new(destinations, deletes);
        let mut failed = false;
        // Each further round follows upon what another thread has done.
        // SAFETY: passed on.
        let linked = unsafe {
            loop {
                let linked = self.sort_out(&host, failed)?;
                if let Some(committed) = self.commit(linked) {
                    if committed {
                        break linked;
                    }
                    failed = true;
                }
            }
        };
        // SAFETY: the pin keeps the block, though others may have run the operation.
        unsafe { Block::leave_assembly(self.block) };
        if deletes {
            // Nobody names them again.
            self.claims.iter().for_each(|claim| self.local.pusher().forget(claim.variable.index));
        }
        let mut destinations = host.into_destinations();
        // SAFETY: announced and committed; the pin is the caller's.
        unsafe {
            if linked > 0 {
                linking::enlist(self.block, &mut destinations);
            } else {
                destinations.logged(this);
            }
            Ok(Stands { is_ready: destinations.own_is_ready, is_void: Block::is_voided(self.block) })
        }
    }

    /// Makes each variable the thread's own, unless it is common; writes the accesses to those that
    /// are, and says how many there are.
    unsafe fn sort_out(
        &self,
        host: &TicketHost<'_, '_>,
        failed: bool,
    ) -> Result<u32, crate::variable::handle::Variable> {
        let mut linked = 0;
        for claim in self.claims {
            match acquire(self.local, claim, failed, host) {
                Acquired::Common => {
                    let access = Access::new(claim.variable.index, linked, claim.mode, Ticket::default());
                    // SAFETY: ours, with room.
                    unsafe { Block::access(self.block, linked).write(access) };
                    linked += 1;
                }
                Acquired::Gone => return Err(claim.variable),
                Acquired::Owned | Acquired::UsedUp => {}
            }
        }
        Ok(linked)
    }

    /// Claims the other variables, and commits that. None: one of them was taken from the thread
    /// before.
    unsafe fn commit(&self, linked: u32) -> Option<bool> {
        let block = self.block;
        // SAFETY: ours until it is committed, with room.
        unsafe {
            Links::renew(block, linked);
            let mut pusher = self.local.pusher();
            let mut push = pusher.push(block, Word::refers(block, self.tag), linked);
            let mut passed = 0;
            for Claim { variable, mode } in self.claims {
                if passed < linked && (*Block::access(block, passed)).variable == variable.index {
                    passed += 1;
                } else if !push.claim(variable.index, variable.generation, *mode) {
                    return None;
                }
            }
            // Once: if a commit has failed, waits may have parked there since.
            if !Word((*Block::word(block)).load(Relaxed)).has_tag_of(Word::fresh(self.tag, PUSHED)) {
                announce(block, self.tag);
            }
            if linked as usize == self.claims.len() {
                return Some(true);
            }
            Some(push.commit())
        }
    }
}
