//! Linking: how an operation on common variables gets its place on each; any thread may do it.
//!
//! # Linking access *j* of operation *o*: any thread, for any operation
//!
//! 1. Load the tail. *After* that, look whether *o* is known to be linked beyond *j*: done.
//! 2. If the tail is this access: done. If the variable was deleted: the access is void, done.
//! 3. If the operation at the tail is not done (linked everywhere *and* logged): help it first.
//! 4. If nothing is behind the tail, put this access there by compare-exchange.
//! 5. Store the ticket of what is behind the tail, whosever it is. *Then* swing the tail to it.
//!    Start over.
//!
//! At the end the operation is logged, and after that it is noted as done.
//!
//! # Why it is right
//!
//! - *One order.* Operations link their accesses in ascending order of variables, and nobody lines
//!   up behind an operation that is not done (3). So an operation is before another on all
//!   variables that they share, or behind it on all. And a blocked operation waits for one at a
//!   higher variable: help goes upwards and ends.
//! - *Nothing is linked twice.* Who has an older tail finds something behind it (4); a newer
//!   one is behind *o* on this variable, so *o* was seen done by who put it there (1).
//! - *Tickets.* All who store a ticket compute it from the same access and so store the same.
//!   Stores that are late do no harm: the block is not used again while a thread is pinned that has
//!   found it. Who finds an access at the tail finds its ticket (5).
//! - *A pusher that stops* leaves an operation that nobody knows, or one that is at a tail. Who
//!   comes behind it links what is left, and logs it: whatever a ticket waits for is in a log.
//!   Several may log it. It is taken once.
//! - *Blocks.* A tail leaves each access once, by one thread's exchange; that and the operation's
//!   end are counted. After the last, only threads that were pinned before can hold an address.
//! - *Deletion.* The handle dies first. Nothing is linked behind a deletion, and when it has run
//!   the tail rests on the tombstone. What comes later, and had found the handle alive, is void
//!   there.
//! - *A slot that is opened anew.* Its threads are gone that were pinned at the deletion's end:
//!   also the pushers of all that is void there. A helper of theirs may be late, and itself pinned
//!   later. But then the operation is done, which the helper sees after what it finds in place of a
//!   tail (1): [`Common::renew`] releases it.

use crate::operation::access::Mode;
use crate::operation::block::Block;
use crate::platform::cache_line::fetch_to_write;
use crate::sync::{Ordering::*, MODELLED};
use crate::tickets::common::{index_of, refer, spend, Commons, START, TOMBSTONE};
use crate::tickets::links::Links;
use crate::tickets::word::{Word, FREE, PUSHED};
use std::ptr::null_mut;

/// Makes an operation one that others can refer to, before it has a ticket: see [`help`]. Nobody
/// takes it yet, because it is in no log.
///
/// # Safety
/// The operation is fresh and the caller's, and all of it is written: accesses, the linked ones
/// first, in ascending order of variables and without repeats; its [`Links`]; the rest.
#[inline]
pub unsafe fn announce(block: *mut Block, tag: u64) -> Word {
    // SAFETY: ours. Release: who finds the word finds the rest.
    unsafe { (*Block::word(block)).store(Word::fresh(tag, PUSHED).0, Release) };
    Word::refers(block, tag)
}

/// Links an operation and logs it.
///
/// # Safety
/// The caller has announced the operation; it is pinned since before it looked whether the
/// variables live, and all that are linked are open.
pub unsafe fn enlist(block: *mut Block, commons: &mut impl Commons) {
    // SAFETY: the pin keeps every block that is found at a tail; ours is not used again before all
    // its accesses have left the tails, and then the pin keeps it too.
    unsafe {
        let count = Links::count(block);
        // What others have written is asked for all at once.
        for index in 1..count {
            fetch_to_write(commons.common((*Block::access(block, index)).variable).tail.load(Relaxed));
        }
        for index in 0..count {
            while let Step::Blocked(other) = link(block, index, true, commons) {
                finish(other, commons);
            }
        }
        if !Links::is_done(block) {
            log(block, commons);
        }
    }
}

/// Links what is left of an operation that its pusher has announced, and logs it; nothing if it has
/// ended.
///
/// # Safety
/// The reference is to an operation with links; the caller is pinned.
pub unsafe fn help(operation: Word, commons: &mut impl Commons) {
    let block = operation.block();
    // SAFETY: blocks stay blocks. If it has not ended, the pin keeps it from now on.
    unsafe {
        // Acquire: pairs with `announce`.
        let now = Word((*Block::word(block)).load(Acquire));
        if now.has_tag_of(operation) && now.stage() != FREE {
            finish(block, commons);
        }
    }
}

/// What is left to do when an operation has ended.
///
/// # Safety
/// The operation has links, and has ended; called once.
pub unsafe fn ended(block: *mut Block, commons: &mut impl Commons) {
    // SAFETY: this use has kept the block.
    unsafe { spend(block, commons) }
}

enum Step {
    /// The access is linked, or void.
    Done,
    /// The operation at the tail comes first.
    Blocked(*mut Block),
}

/// Links what is left of another thread's operation, and first of those that it is blocked by. A
/// loop and not a recursion: what was reached is kept in the links.
unsafe fn finish<C: Commons>(block: *mut Block, commons: &mut C) {
    // SAFETY: the caller's pin keeps every block that is found at a tail, and this one.
    unsafe {
        let mut target = block;
        loop {
            if Links::is_done(target) {
                if target == block {
                    return;
                }
                target = block;
                continue;
            }
            let index = Links::progress(target);
            if index >= Links::count(target) {
                log(target, commons);
            } else if let Step::Blocked(other) = link(target, index, false, commons) {
                target = other;
            }
        }
    }
}

/// Logs an operation that is linked everywhere, and then notes that.
#[inline]
unsafe fn log<C: Commons>(block: *mut Block, commons: &mut C) {
    // SAFETY: held.
    unsafe {
        commons.logged(refer(block));
        Links::set_done(block);
    }
}

/// Links access `index` of an operation, for its pusher (`owner`) or as a helper.
unsafe fn link<C: Commons>(block: *mut Block, index: u32, owner: bool, commons: &mut C) -> Step {
    // SAFETY: the block is ours or held by the pin; so is every access that a tail leads to. Of an
    // access only the ticket is written after it was announced.
    unsafe {
        let access = Block::access(block, index);
        loop {
            let common = commons.common((*access).variable);
            // 1. The tail first. Acquire: the access behind it, and its ticket.
            let tail = common.tail.load(Acquire);
            if Links::progress(block) > index {
                return Step::Done;
            }
            assert!(!MODELLED || !tail.is_null(), "linked too early: the variable is not common");
            // 2.
            let is_deleted = tail == TOMBSTONE || tail != START && (*tail).mode() == Mode::Delete;
            if tail == access || is_deleted {
                if tail != access && Links::make_void(block, index) {
                    spend(block, commons);
                }
                if !owner {
                    Links::advance(block, index);
                }
                return Step::Done;
            }
            // 3.
            if tail != START {
                let other: *mut Block = Block::of_access(tail);
                if !Links::is_done(other) {
                    return Step::Blocked(other);
                }
            }
            // 4. Release: what was written before this access was announced. Acquire (both): that
            //    of another thread's.
            let behind = common.next(tail);
            let next = match behind.compare_exchange(null_mut(), access, AcqRel, Acquire) {
                Ok(_) => access,
                Err(next) => next,
            };
            // 5. Relaxed (both): the tail brings them.
            let start = common.behind(tail);
            let give = || {
                (*next).ticket.store(start.ticket.packed(), Relaxed);
                (*Block::before(Block::of_access(next), index_of(next))).store(start.last.0, Relaxed);
            };
            give();
            // Release: the ticket, and what came with the access.
            let swung = common.tail.compare_exchange(tail, next, AcqRel, Relaxed).is_ok();
            if swung && tail != START {
                spend(Block::of_access(tail), commons);
            }
        }
    }
}
