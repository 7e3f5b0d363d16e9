//! Phases of a commutative variable: runs of accesses of one kind, which share the variable.
//!
//! A commutative variable is common from the start, so each access gets its ticket from the one
//! before it (`common.rs`). In one phase accesses commute ([`Mode::Commute`]), in another they read
//! ([`Mode::PhasedRead`]). Accesses of one phase do not wait for each other here; of those that
//! commute one runs at a time, in any order, which `hold.rs` sees to. So both have tickets of
//! reads. But the access that *begins* a phase behind one of the other kind has the ticket of a
//! write: it waits for all of that phase, and its own phase waits for it. Whatever the order of
//! accesses, nothing more than that is needed, and nothing is pushed between two phases.
//!
//! Whether an access begins a phase so follows from its mode and that of the access before. All
//! threads that link it compute the same, and store it beside the reference to the write before, in
//! the bit [`ALONE`]. Behind a write, and as the first of all, an access shares.
//!
//! Used by `linking.rs` and `common.rs` (threads that link), and by `run.rs` (test) and
//! `end_phased.rs` (end), on the thread that has the operation. There are only functions here.
//!
//! Why it is decided where the ticket is given, for variables that are made so: a class that is
//! noted beside the tickets would not be atomic with the other claims of an operation, and several
//! pushers would wait for each other. Were any variable to have phases, each plain read that is
//! linked would have to look whether it begins one.

use crate::operation::access::Mode;
use crate::operation::block::Block;
use crate::sync::Ordering::*;
use crate::tickets::links::Links;
use crate::tickets::word::Word;

/// In the reference to the write before an access: the access begins a phase behind another one,
/// and has the ticket of a write. References have no stage, which these bits are for.
const ALONE: u64 = 1;

/// The reference to store for an access of this mode that comes right behind one of mode `before`,
/// or first of all: to the write `last`, and whether it begins a phase.
#[inline(always)]
pub(super) fn begin(before: Option<Mode>, mode: Mode, last: Word) -> Word {
    match (before, mode) {
        (Some(Mode::Commute), Mode::PhasedRead) | (Some(Mode::PhasedRead), Mode::Commute) => Word(last.0 | ALONE),
        _ => last,
    }
}

/// Whether an access shares its phase with others, so that it has the ticket of a read. Not for
/// plain reads.
///
/// # Safety
/// The caller holds the block, or has the operation; the access has its ticket.
pub unsafe fn is_shared(block: *mut Block, index: u32) -> bool {
    // SAFETY: by the contract. Relaxed: the reference came with the ticket.
    unsafe {
        let has_phases = matches!((*Block::access(block, index)).mode(), Mode::Commute | Mode::PhasedRead);
        has_phases && (*Block::before(block, index)).load(Relaxed) & ALONE == 0
    }
}

/// Whether an access that is no plain read need not wait for reads after all: it is void, or shares
/// its phase.
///
/// # Safety
/// The operation is the caller's.
#[cold]
pub(super) unsafe fn spares_reads(block: *mut Block, index: u32) -> bool {
    // SAFETY: by the contract; a voided operation has links.
    unsafe { Block::is_voided(block) && Links::are_void(block, index) || is_shared(block, index) }
}
