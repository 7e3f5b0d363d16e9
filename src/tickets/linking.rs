//! Linking: how an operation on common variables is ordered on each of them. Any thread may link
//! any operation, so nobody waits for a pusher that has stopped.
//!
//! Used by `src/engine/push/enlist.rs` (announce, enlist), by `src/engine/ticket_host.rs` (help)
//! and by `src/engine/complete.rs` (ended). There are only functions here: the state of a variable
//! is in `common.rs`, that of an operation in `links.rs`.
//!
//! # Linking access *j* of operation *o*: any thread, for any operation
//!
//! 1. Load the tail. *After* that, look whether *o* is known to be linked beyond *j*: done.
//! 2. If the tail is this access: done. If the variable was deleted: the access is void, done.
//! 3. If the operation at the tail is not done (linked everywhere *and* logged): help it first.
//! 4. If nothing is behind the tail, put this access there by compare-exchange.
//! 5. Store the ticket of the access behind the tail, whichever operation it is of. *Then* swing
//!    the tail to that access. Start over.
//!
//! At the end the operation is logged, and after that it is noted as done.
//!
//! # Why it is right
//!
//! - *One order.* Operations link their accesses in ascending order of variables, and no operation
//!   is linked behind one that is not done (3). So an operation is before another one on all
//!   variables that they share, or behind it on all. And a blocked operation waits for one at a
//!   higher variable: help goes upwards and ends.
//! - *Nothing is linked twice.* A thread with an older tail finds an access behind it (4). A newer
//!   tail is behind *o* on this variable: the thread that put it there had seen *o* done, so *o* is
//!   also found done after this tail was loaded (1).
//! - *Tickets.* All threads that store a ticket compute it from the same access, and so store the
//!   same. Late stores do no harm: the block is not used again while a thread holds it that has
//!   found it. A thread that finds an access at the tail finds its ticket (5).
//! - *A pusher that stops* leaves an operation that nobody knows, or one that is at a tail. The
//!   next push behind it links what is left, and logs it: whatever a ticket waits for is in a log.
//!   Several threads may log it. It is taken once.
//! - *Blocks.* A tail leaves each access once, by one thread's exchange. These exchanges and the
//!   operation's end are counted. After the last of them, only threads that were pinned before can
//!   hold an address. Each of them says which addresses it holds (`hazards.rs`): the operation that
//!   it links, the access at the tail, and the one behind it.
//! - *Deletion.* The handle dies first. Nothing is linked behind a deletion, and when it has run
//!   the tail rests on the tombstone. An access of an operation whose push had found the handle
//!   alive, and that comes later, is void there.
//! - *A slot that is opened anew.* All threads that were pinned at the deletion's end have unpinned
//!   by then, so the pushers of all void accesses have finished. A helper of one of them may be
//!   late, and pinned later itself. But then the operation is done, and the helper sees this after
//!   it has loaded the new value of the tail (1): [`Common::renew`] releases it.

use crate::operation::access::Mode;
use crate::operation::block::Block;
use crate::platform::cache_line::fetch_to_write;
use crate::sync::{Ordering::*, MODELLED};
use crate::tickets::common::{index_of, refer, spend, Commons, START, TOMBSTONE};
use crate::tickets::hazards::Hold;
use crate::tickets::links::Links;
use crate::tickets::phases;
use crate::tickets::word::{Word, FREE, PUSHED};
use std::ptr::null_mut;

/// Makes an operation known to other threads, before it has a ticket: from now on they can [`help`]
/// it. No thread takes it yet, because it is in no log.
///
/// # Safety
/// The operation is new and the caller's. All of it is written: its accesses, the linked ones
/// first, in ascending order of variables and without repeats; its [`Links`]; the rest.
#[inline]
pub unsafe fn announce(block: *mut Block, tag: u64) -> Word {
    // SAFETY: the block is the caller's. Release: pairs with the acquire in `help`, so a thread
    // that finds the word finds the rest.
    unsafe { (*Block::word(block)).store(Word::fresh(tag, PUSHED).0, Release) };
    Word::refers(block, tag)
}

/// Links an operation and logs it.
///
/// # Safety
/// The caller has announced the operation, and has held its block since before that
/// ([`Hold::Own`]). The caller has been pinned since before it looked whether the variables live.
/// All variables that are to be linked are open. After the return the caller lets go of what it
/// holds.
pub unsafe fn enlist(block: *mut Block, commons: &mut impl Commons) {
    // SAFETY: the caller holds its block, and `link` every block that it finds at a tail.
    unsafe {
        let count = Links::count(block);
        // Prefetch: other threads have written these lines, so all are asked for at once.
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

/// Links what is left of an operation that its pusher has announced, and logs it. Does nothing if
/// the operation has ended.
///
/// # Safety
/// The reference is to an operation with links; the caller is pinned, and lets go of what it holds
/// when this has returned.
pub unsafe fn help(operation: Word, commons: &mut impl Commons) {
    let block = operation.block();
    commons.hazards().announce(Hold::Start, block);
    // SAFETY: blocks stay blocks. If the operation has not ended, the block is held from now on.
    unsafe {
        // Acquire: pairs with `announce`.
        let now = Word((*Block::word(block)).load(Acquire));
        if now.has_tag_of(operation) && now.stage() != FREE {
            finish(block, commons);
        }
    }
}

/// Ends the use of the block that stands for the running operation.
///
/// # Safety
/// The operation has links, and has ended; called once.
pub unsafe fn ended(block: *mut Block, commons: &mut impl Commons) {
    // SAFETY: the use that ends here has kept the block.
    unsafe { spend(block, commons) }
}

enum Step {
    /// The access is linked, or void.
    Done,
    /// The operation at the tail must be finished first.
    Blocked(*mut Block),
}

/// Links what is left of another thread's operation, and first of the operations that block it. A
/// loop and not a recursion: the links of each operation keep how far it has come. The caller holds
/// the block.
unsafe fn finish<C: Commons>(block: *mut Block, commons: &mut C) {
    commons.hazards().keep(Hold::Start, block);
    // SAFETY: this block is held, and so is the target: when it was found, it was held at the tail.
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
                commons.hazards().keep(Hold::Target, other);
                target = other;
            }
        }
    }
}

/// Logs an operation that is linked everywhere, and then notes it as done.
#[inline]
unsafe fn log<C: Commons>(block: *mut Block, commons: &mut C) {
    // SAFETY: the block is kept by the caller.
    unsafe {
        commons.logged(refer(block));
        Links::set_done(block);
    }
}

/// Links access `index` of an operation, for its pusher (`owner`) or as a helper. The numbers are
/// those of the steps in the head of this file.
unsafe fn link<C: Commons>(block: *mut Block, index: u32, owner: bool, commons: &mut C) -> Step {
    // SAFETY: the caller holds the block. The access at the tail is held, and so is the one behind
    // it. Of an access only the ticket is written after it was announced.
    unsafe {
        let access = Block::access(block, index);
        loop {
            let common = commons.common((*access).variable);
            // 1. The tail first.
            let tail = commons.hazards().tail(&common.tail, TOMBSTONE);
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
            // 4. Release: what was written before this access was announced. Acquire (both): the
            //    same of an access that another thread has put there.
            let behind = common.next(tail);
            let next = match behind.compare_exchange(null_mut(), access, AcqRel, Acquire) {
                Ok(_) => access,
                Err(next) if commons.hazards().behind(next, &common.tail, tail) => next,
                // Another thread has given the ticket, and swung the tail.
                Err(_) => continue,
            };
            // 5. Relaxed (both): a thread that finds the access at the tail acquires them with it.
            let start = common.behind(tail);
            let give = || {
                let before = phases::begin((tail != START).then(|| (*tail).mode()), (*next).mode(), start.last);
                (*next).ticket.store(start.ticket.packed(), Relaxed);
                (*Block::before(Block::of_access(next), index_of(next))).store(before.0, Relaxed);
            };
            give();
            // Release: pairs with the loads in 1, for the ticket, and for what came with the
            // access.
            let swung = common.tail.compare_exchange(tail, next, AcqRel, Relaxed).is_ok();
            if swung && tail != START {
                spend(Block::of_access(tail), commons);
            }
        }
    }
}
