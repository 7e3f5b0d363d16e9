//! The end of an operation with accesses in phases (`phases.rs`): as that of any other
//! (`run.rs`), but some of these accesses are counted as reads, and others as writes.
//!
//! Used by `src/engine/complete.rs`, on the thread that ends the operation. No state here.

use crate::operation::access::{Mode, Ticket};
use crate::operation::block::Block;
use crate::sync::Ordering::*;
use crate::tickets::links::Links;
use crate::tickets::phases::is_shared;
use crate::tickets::run::{count_read, give_back, Variables};

/// Like [`run::end`](crate::tickets::run::end), but for an operation with accesses in phases, which
/// may also be voided.
///
/// # Safety
/// As [`run::end`](crate::tickets::run::end).
pub unsafe fn end(block: *mut Block, variables: &impl Variables, mut ready: impl FnMut(*mut Block)) {
    // SAFETY: by the contract; void accesses are not counted.
    unsafe {
        let is_voided = Block::is_voided(block);
        for index in 0..(*block).count {
            if is_voided && Links::are_void(block, index) {
                continue;
            }
            let access = &*Block::access(block, index);
            if access.mode() == Mode::Read || is_shared(block, index) {
                count_read(variables.progress(access.variable), variables, &mut ready);
            } else {
                variables.count_write(access.variable, Ticket::of(access.ticket.load(Relaxed)).writes);
            }
        }
        give_back(block, variables, &mut ready);
    }
}
