//! What is special at the start and at the end of an operation that is profiled, or that uses
//! commutative variables: its times, and the holds of variables on which it commutes
//! (`tickets/hold.rs`).
//!
//! Used by `execute.rs` and `complete.rs`, on the thread that has the operation; what cannot
//! commute is refused here for `push/mod.rs`, `push/admission.rs` and `replay/assemble.rs`. One
//! test of the operation's flags leads here, so that all other operations pay for none of it. No
//! state here.

use crate::device::Device;
use crate::engine::core::Core;
use crate::engine::ready_list::ReadyList;
use crate::engine::request::{Claim, Request};
use crate::engine::resolve::resolve;
use crate::error::{Error, ErrorKind};
use crate::operation::access::Mode;
use crate::operation::block::{Block, FLAG_PHASED, FLAG_PROFILED};
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use crate::tickets::hold::{give_all_back, take_all};
use crate::variable::slot::Slot;
use std::sync::Arc;

impl Core {
    /// Takes the holds of an operation that is about to run, and notes that it starts. `false`: it
    /// is parked, and no longer the caller's.
    ///
    /// # Safety
    /// The operation is ready, and ours.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn begin_special(
        self: &Arc<Self>,
        local: &ThreadContext,
        block: *mut Block,
        worker: Option<usize>,
    ) -> bool {
        // SAFETY: the operation is ours until it is parked.
        unsafe {
            let flags = (*block).flags;
            if flags & FLAG_PHASED != 0 && !Block::is_voided(block) && !self.take_holds(local, block, worker) {
                return false;
            }
            if flags & FLAG_PROFILED != 0 {
                self.start_profile(block);
            }
            true
        }
    }

    unsafe fn take_holds(self: &Arc<Self>, local: &ThreadContext, block: *mut Block, worker: Option<usize>) -> bool {
        // SAFETY: by the contract.
        unsafe {
            // Before the holds: an operation that waits for a device holds nothing. Afterwards no
            // device can come in between, as the operation has all its tickets.
            if self.state.load(Relaxed).uses_devices() && !self.comes_to_turn(local, block, worker) {
                return false;
            }
            let mut found = ReadyList::new(local);
            let has_all = take_all(block, &self.memory.table, |called| found.ready(called));
            if !found.first.is_null() {
                self.hand_out(local, found.first);
            }
            has_all
        }
    }

    /// Records a profiled operation that ends, and gives back the holds of one that commutes.
    ///
    /// # Safety
    /// The operation has run or is skipped, and is the caller's. What `found` gets is ready, and
    /// the caller's.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn end_special(&self, block: *mut Block, worker: Option<usize>, found: &mut ReadyList<'_>) {
        // SAFETY: by the contract.
        unsafe {
            let flags = (*block).flags;
            if flags & FLAG_PROFILED != 0 {
                self.profile(block, worker);
            }
            if flags & FLAG_PHASED != 0 && !Block::is_voided(block) {
                give_all_back(block, &self.memory.table, |called| found.ready(called));
            }
        }
    }
}

/// Refuses an operation that is to commute where it cannot.
#[cold]
pub fn check_commuting(core: &Core, request: &Request, claims: &[Claim]) -> Result<(), Error> {
    if request.context.device() == Device::Gpu {
        let text = format!(
            "'{}' is to commute on a device: only operations of the processor do; write the variable instead",
            request.name.as_str()
        );
        return Err(Error::new(ErrorKind::CannotCommute, text));
    }
    claims.iter().try_for_each(|claim| check_commutes(claim, resolve(core, claim.variable)?))
}

/// Refuses to commute on a variable that was not made for it.
pub fn check_commutes(claim: &Claim, slot: &Slot) -> Result<(), Error> {
    if claim.mode != Mode::Commute || slot.is_commutative() {
        return Ok(());
    }
    let text = format!(
        "{:?} is not commutative: make it by Engine::new_commutative_variable or Engine::commutative, or write it",
        claim.variable
    );
    Err(Error::new(ErrorKind::CannotCommute, text))
}
