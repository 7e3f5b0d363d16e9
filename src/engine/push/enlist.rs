//! Enlisting: the general way to push, which takes any operation. The pusher owns its variables,
//! takes them from another thread, or they are common.
//!
//! Used by `push/mod.rs` ([`enlist`], [`enlist_free`]) and `wait/for_var.rs` ([`park_wait`]), on
//! the pusher. An operation gets its tickets of owned variables by one commit (`tickets/owner/`),
//! and is linked on the common ones (`tickets/linking.rs`; `tickets/links.rs` has how far). Where
//! it goes then is decided in `engine/ticket_host.rs`.
//!
//! The block is the pusher's until the operation is announced. From then on waits may park on its
//! word, other pushers may finish the push (`tickets/linking.rs`), and the thread that takes it may
//! have run it before the push returns. The pin keeps the block, and if that pin stands still for
//! long, what the thread says that it holds (`tickets/hazards.rs`).

use crate::engine::core::Core;
use crate::engine::nesting::{enter, leave};
use crate::engine::push::acquire::acquire;
use crate::engine::push::admission::{admit, refuse_if_stopped};
use crate::engine::ready_list::ReadyList;
use crate::engine::request::{Claim, Request};
use crate::engine::resolve::{deleted, kill, resolve};
use crate::engine::ticket_host::{Destinations, TicketHost};
use crate::error::{Error, ErrorKind};
use crate::operation::access::{Access, Mode, Ticket};
use crate::operation::block::*;
use crate::operation::erased_closure::ErasedClosure;
use crate::operation::layout::{class_for, Layout, MOST_ACCESSES};
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use crate::tickets::common::Commons;
use crate::tickets::hazards::Hold;
use crate::tickets::linking::{self, announce};
use crate::tickets::links::Links;
use crate::tickets::owner::Acquired;
use crate::tickets::run::{give_back, park_without_ticket};
use crate::tickets::word::{Word, FREE, PUSHED, TAKEN};
use std::sync::Arc;

/// The state of an operation that has just been given its tickets.
pub struct Stands {
    /// All tickets have come: the caller runs the operation.
    pub is_ready: bool,
    /// A variable was deleted during the push: the operation ends without being run.
    pub is_void: bool,
}

/// An operation that was enlisted.
pub struct Pushed {
    pub stands: Stands,
    pub block: *mut Block,
    /// What became ready during the push, in a list. It is the caller's.
    pub found: *mut Block,
    /// Whether this push has promised to look for operations that other threads leave. If so, the
    /// caller must look.
    pub will_look: bool,
}

/// Fills a block, and gives its operation its tickets under a pin. No user code runs under the pin.
#[inline]
pub fn enlist(
    core: &Arc<Core>,
    local: &ThreadContext,
    request: &Request,
    claims: &[Claim],
    closure: &mut ErasedClosure<'_>,
) -> Result<Pushed, Error> {
    // Looked at before the pin, so that pushes that a stopped engine refuses do not pin:
    // `lifecycle::let_pushes_through` waits until pins are gone.
    refuse_if_stopped(core, local, request)?;
    let guard = local.pin();
    // And again after the pin: the thread that stops the engine sets the flag, then waits until all
    // earlier pins are gone.
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
    admit(core, request, claims)?;
    let deletes = request.flags & FLAG_DELETE != 0;
    if deletes {
        // The handle dies before the deletion is pushed. Later pushes are refused because the
        // handle is dead; pushes under way find that out when they ask for the variable.
        claims.iter().try_for_each(|claim| kill(core, claim.variable))?;
    }
    // From here on nothing waits. The push is refused only if a variable was deleted meanwhile.
    let will_look = request.flags & (FLAG_WAIT | FLAG_BEYOND) == 0 && core.dispatch.will_take_over(local);
    if will_look {
        local.say_will_look(true);
    }
    let wanted = state.is_profiling() || request.flags & FLAG_PROFILED != 0;
    let profiled = wanted && !request.name.as_str().is_empty();
    // SAFETY: the thread has not read the tail of any variable under this pin. The block is ours
    // until it is committed or linked. Its class has room for all accesses and the closure.
    let (enlisted, block, found) = unsafe {
        let (block, tag) = fill(core, local, request, (claims.len(), Layout::Linked, profiled), closure);
        // Before it is announced: until the end of the push the block is not used again.
        local.cache().hazards.keep(Hold::Own, block);
        local.count_pushed();
        let mut found = ReadyList::new(local);
        let starts_own = core.may_start_inside(request.property, closure.body);
        let destinations = Destinations::new(core, local, &mut found);
        let destinations = destinations.of_push(Word::refers(block, tag), starts_own);
        let linking = Linking { local, claims, block, tag };
        let enlisted = linking.enlist(destinations, deletes);
        (enlisted, block, found.first)
    };
    local.cache().hazards.clear();
    if will_look {
        // Taken back before the pin ends. A forking thread waits for the pin, so no child finds
        // this promise of a thread that it does not have.
        local.say_will_look(false);
    }
    drop(guard);
    match enlisted {
        Ok(stands) => Ok(Pushed { stands, block, found, will_look }),
        Err(variable) => {
            // SAFETY: no other thread was given the operation. All that was found is ready, and
            // ours.
            unsafe {
                Block::enter(block, BLANK);
                let mut more = ReadyList::new(local);
                // The operation may have been announced, so waits may have parked on its word: what
                // comes back is settled again.
                give_back(block, &core.memory.table, &mut |ready| more.ready(ready));
                if will_look {
                    core.dispatch.take_over(core, local);
                }
                for first in [found, more.first] {
                    if !first.is_null() {
                        core.hand_out(local, first);
                    }
                }
                core.flush(local);
                // The closure's destructor is user code: no operation is in hand any more.
                enter(local);
                (closure.body.discard)(Block::closure(block, Layout::Linked), None);
                leave(local);
                local.retire(block);
                local.count_given_up();
            }
            core.flush(local);
            Err(deleted(variable))
        }
    }
}

/// Fills a block for an operation with `count` accesses, which are not written yet. Returns the
/// block with its tag.
///
/// # Safety
/// Nothing was read from a tail yet. The class has room for all accesses and the closure.
#[inline]
unsafe fn fill(
    core: &Core,
    local: &ThreadContext,
    request: &Request,
    (count, layout, profiled): (usize, Layout, bool),
    closure: &mut ErasedClosure<'_>,
) -> (*mut Block, u64) {
    // SAFETY: the contract is passed on. The block is ours.
    unsafe {
        let block = local.allocate(class_for(count, closure.size(), profiled, layout));
        let tag = Word((*Block::word(block)).load(Relaxed)).tag().wrapping_add(1);
        Block::renew(block, count as u32, false);
        if layout == Layout::Linked {
            Block::set_linked(block);
        }
        Block::set_kind(block, request.property, request.context); // `device::resolve` has checked the range
        Block::set_name(block, request.name);
        (*block).flags = request.flags & !FLAG_PROFILED;
        (*block).priority = request.priority;
        (*block).body = closure.body;
        (*block).sequence = local.next_sequence();
        if profiled {
            (*block).flags |= FLAG_PROFILED;
            Block::times(block).write(core.profiler.pushing());
        }
        Block::touch(block, true);
        closure.store(Block::closure(block, layout));
        Block::enter(block, ASSEMBLED);
        (block, tag)
    }
}

/// Parks a wait behind a write of another thread, without a ticket; says whether it did. If not,
/// nothing has happened: the write has ended, or a wait cannot park there.
pub fn park_wait(
    core: &Arc<Core>,
    request: &Request,
    write: Word,
    closure: &mut ErasedClosure<'_>,
) -> Result<bool, Error> {
    let local = core.local();
    refuse_if_stopped(core, local, request)?;
    let guard = local.pin();
    refuse_if_stopped(core, local, request)?;
    // SAFETY: nothing was read from a tail. The block is ours until it is parked, and stays ours if
    // it is not.
    unsafe {
        let (block, tag) = fill(core, local, request, (0, Layout::Plain, false), closure);
        // Relaxed: no other thread refers to the block yet.
        (*Block::word(block)).store(Word::fresh(tag, TAKEN).0, Relaxed);
        local.count_pushed();
        if park_without_ticket(block, write) {
            return Ok(true);
        }
        drop(guard);
        (closure.body.discard)(Block::closure(block, Layout::Plain), None);
        Block::enter(block, BLANK);
        (*Block::word(block)).store(Word::fresh(tag, FREE).0, Release);
        local.retire(block);
    }
    local.count_given_up();
    core.flush(local);
    Ok(false)
}

/// Makes an operation without variables for a scope in a block of the pool, where the quick way
/// (`fill_free` in `push/logged.rs`) does not. It is ready, and the caller's. The caller is inside
/// an operation of the engine, so the engine runs.
pub fn enlist_free(
    core: &Core,
    local: &ThreadContext,
    request: &Request,
    closure: &mut ErasedClosure<'_>,
) -> *mut Block {
    // Relaxed: an operation that is pushed beside the start of the profiler may be left out.
    let profiled = core.state.load(Relaxed).is_profiling() && !request.name.as_str().is_empty();
    // SAFETY: nothing was read from a tail. The block is ours, and its class has room for the
    // closure.
    unsafe {
        let (block, tag) = fill(core, local, request, (0, Layout::Plain, profiled), closure);
        if profiled {
            (*Block::times(block)).ready = (*Block::times(block)).push;
        }
        // Relaxed: no other thread refers to the block yet.
        (*Block::word(block)).store(Word::fresh(tag, TAKEN).0, Relaxed);
        Block::enter(block, PENDING);
        local.count_pushed();
        block
    }
}

/// A push under way. All of its operation is written but the accesses.
struct Linking<'a> {
    local: &'a ThreadContext,
    claims: &'a [Claim],
    block: *mut Block,
    tag: u64,
}

impl Linking<'_> {
    /// Gives the operation its tickets: those of owned variables all at once by a commit, then
    /// those of common variables by linking. An error names a variable that was deleted meanwhile;
    /// then nothing has happened.
    ///
    /// # Safety
    /// The caller is pinned, and has looked under that pin whether the variables live. It holds the
    /// block.
    unsafe fn enlist(
        &self,
        destinations: Destinations<'_, '_>,
        deletes: bool,
    ) -> Result<Stands, crate::variable::handle::Variable> {
        let this = Word::refers(self.block, self.tag);
        let host = TicketHost::new(destinations, deletes);
        let mut failed = false;
        // Lock-free: each further round follows a step of another thread.
        // SAFETY: the contract is passed on.
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
        // SAFETY: the block is held, though another thread may have run the operation by now.
        unsafe { Block::leave_assembly(self.block) };
        if deletes {
            // The handles are dead, so the variables are never named again.
            self.claims.iter().for_each(|claim| self.local.pusher().forget(claim.variable.index));
        }
        let mut destinations = host.into_destinations();
        // SAFETY: the operation is announced and committed. The caller holds the pin.
        unsafe {
            if linked > 0 {
                linking::enlist(self.block, &mut destinations);
            } else {
                destinations.logged(this);
            }
            Ok(Stands { is_ready: destinations.own_is_ready, is_void: Block::is_voided(self.block) })
        }
    }

    /// Makes each variable the thread's own, unless it is common. Writes the accesses to the common
    /// variables, and returns how many there are.
    ///
    /// # Safety
    /// Like for [`Linking::enlist`].
    unsafe fn sort_out(
        &self,
        host: &TicketHost<'_, '_>,
        failed: bool,
    ) -> Result<u32, crate::variable::handle::Variable> {
        let mut linked = 0;
        for claim in self.claims {
            match acquire(self.local, claim, failed, host) {
                Acquired::Common => {
                    // SAFETY: the block is ours, with room for the access.
                    unsafe {
                        let mode = self.linked_mode(claim, host.core);
                        let access = Access::new(claim.variable.index, linked, mode, Ticket::default());
                        Block::access(self.block, linked).write(access);
                    }
                    linked += 1;
                }
                Acquired::Gone => return Err(claim.variable),
                Acquired::Owned | Acquired::UsedUp => {}
            }
        }
        Ok(linked)
    }

    /// The mode of an access to a common variable: a read of a commutative one has phases.
    ///
    /// # Safety
    /// Like for [`Linking::enlist`].
    #[inline(always)]
    unsafe fn linked_mode(&self, claim: &Claim, core: &Core) -> Mode {
        // SAFETY: the variable was resolved. The block is ours: when it is announced the flag is
        // set, and variables stay commutative.
        unsafe {
            if claim.mode != Mode::Read || !core.slot(claim.variable.index).is_commutative() {
                return claim.mode;
            }
            if (*self.block).flags & FLAG_PHASED == 0 {
                (*self.block).flags |= FLAG_PHASED;
            }
        }
        Mode::PhasedRead
    }

    /// Claims the owned variables, and commits that; says whether the commit succeeded. `None`:
    /// another thread took one of the variables after `sort_out`, so nothing is committed, and the
    /// caller tries again.
    ///
    /// # Safety
    /// Like for [`Linking::enlist`]; [`Linking::sort_out`] has written `linked` accesses.
    unsafe fn commit(&self, linked: u32) -> Option<bool> {
        let block = self.block;
        // SAFETY: the block is ours until it is committed, with room for all accesses.
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
            // Announced only once: if an earlier commit has failed, waits may have parked on the
            // word since.
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

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
