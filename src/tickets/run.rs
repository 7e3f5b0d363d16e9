//! The run side: whether an operation's tickets have come, parking where they have not, and ending.
//!
//! Nothing here waits. A look that comes too early parks the operation on what it lacks, and gives
//! it up with that: who ends the other one gets it back.

use crate::operation::access::{Mode, Ticket};
use crate::operation::block::Block;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*, MODELLED};
use crate::tickets::links::Links;
use crate::tickets::word::{Word, FREE, PUSHED, TAKEN};
use std::ptr::null_mut;

/// How far a variable has come: written by those who run operations only.
pub struct Progress {
    /// Writes ended, modulo 2³². Stored by the write that has the variable.
    writes: AtomicU32,
    /// What `waiter` waits for.
    needed: AtomicU32,
    /// Reads ended, from bit 1 on; bit 0: a write waits for reads.
    reads: AtomicU64,
    /// That write.
    waiter: AtomicPtr<Block>,
}

const WAITED_FOR: u64 = 1;
const ONE_READ: u64 = 2;

/// The reads that have ended, modulo 2³².
fn ended(reads: u64) -> u32 {
    (reads >> 1) as u32
}

impl Progress {
    /// Of a variable that nobody has used.
    pub fn new() -> Progress {
        Progress {
            writes: AtomicU32::new(0),
            needed: AtomicU32::new(0),
            reads: AtomicU64::new(0),
            waiter: AtomicPtr::new(null_mut()),
        }
    }

    /// Writes and reads that have ended. Acquire: with what they have done.
    #[inline]
    pub fn counts(&self) -> (u32, u32) {
        (self.writes.load(Acquire), ended(self.reads.load(Acquire)))
    }

    /// Whether so many writes have ended.
    #[inline]
    pub fn has_written(&self, writes: u32) -> bool {
        // Acquire: pairs with the release of `end`.
        self.writes.load(Acquire) == writes
    }
}

impl Progress {
    /// Whether so many writes have ended, or more.
    pub fn has_passed(&self, writes: u32) -> bool {
        // Acquire: as in `has_written`.
        self.writes.load(Acquire).wrapping_sub(writes) as i32 >= 0
    }
}

/// Where the variables are.
pub trait Variables {
    /// How far the variable of this number has come.
    fn progress(&self, variable: u32) -> &Progress;

    /// Counts a write that has run on the variable of this number, with so many before it.
    #[inline]
    fn count_write(&self, variable: u32, before: u32) {
        self.progress(variable).count_write(before);
    }
}

/// Where counting goes on with a variable: what its next use gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// Writes and reads pushed so far.
    pub ticket: Ticket,
    /// The last write.
    pub last: Word,
}

/// Takes an operation out of a log, for the caller alone; `None` if somebody else has, or if it has
/// ended.
#[inline]
pub fn take(operation: Word) -> Option<*mut Block> {
    let block = operation.block();
    // SAFETY: blocks stay blocks for as long as the engine is there: an old reference finds another
    // tag.
    let word = unsafe { &*Block::word(block) };
    let mut now = Word(word.load(Relaxed));
    // More than one try: somebody may park on it meanwhile.
    while now.has_tag_of(operation) && now.stage() == PUSHED {
        // Relaxed: the entry of the log has brought what the push wrote. What has parked comes with
        // the exchange that frees the word, from the exchanges that parked it, past this one.
        match word.compare_exchange(now.0, now.at(TAKEN).0, Relaxed, Relaxed) {
            Ok(_) => return Some(block),
            Err(other) => now = Word(other),
        }
    }
    None
}

/// Whether somebody could still take it out of its log.
#[inline]
pub fn is_untaken(operation: Word) -> bool {
    // SAFETY: as in `take`.
    let now = Word(unsafe { (*Block::word(operation.block())).load(Relaxed) });
    now.has_tag_of(operation) && now.stage() == PUSHED
}

/// Whether an operation has ended, or was given up.
#[inline]
pub fn has_ended(operation: Word) -> bool {
    // Relaxed: the variables tell what it has done.
    // SAFETY: as in `take`.
    let now = Word(unsafe { (*Block::word(operation.block())).load(Relaxed) });
    !now.has_tag_of(operation) || now.stage() == FREE
}

/// Tests an operation's tickets. `true`: all have come, and the caller runs it. `false`: it is
/// parked, and not the caller's any more.
///
/// # Safety
/// The operation is the caller's: taken, or given back by an end.
#[inline]
pub unsafe fn settle(block: *mut Block, variables: &impl Variables) -> bool {
    // SAFETY: ours until it is parked; nothing of it is touched after that.
    unsafe {
        let count = (*block).count;
        // What has come stays, so each ticket is tested until it has come, and not again.
        let mut index = (*block).tested.load(Relaxed);
        while index < count {
            let access = Block::access(block, index);
            let ticket = Ticket::of((*access).ticket.load(Relaxed));
            let progress = variables.progress((*access).variable);
            if !progress.has_written(ticket.writes) {
                if is_void(block, index) {
                    index += 1;
                    continue;
                }
                (*block).tested.store(index, Relaxed);
                // Relaxed: stored before the operation could be taken.
                if park_behind(block, Word((*Block::before(block, index)).load(Relaxed))) {
                    return false;
                }
                // It has ended, and had counted before: so the ticket has come.
                let counted = !MODELLED || progress.has_written(ticket.writes);
                assert!(counted, "an operation has ended too early: it is not counted");
            }
            // Acquire: what the reads have done, whose additions are one release sequence.
            let reads = progress.reads.load(Acquire);
            if (*access).mode() != Mode::Read && ended(reads) != ticket.reads && !is_void(block, index) {
                (*block).tested.store(index, Relaxed);
                if wait_for_reads(block, progress, ticket.reads, reads) {
                    return false;
                }
            }
            index += 1;
        }
        true
    }
}

/// So many of an operation's variables are looked at for what it waits for.
const LOOKED_AT: u32 = 64;

/// Calls `note` with the writes that an operation waits for, until it says that this is enough, but
/// not of more than [`LOOKED_AT`] variables.
///
/// # Safety
/// The operation is the caller's.
pub unsafe fn waits_for(block: *mut Block, variables: &impl Variables, mut note: impl FnMut(Word) -> bool) {
    // SAFETY: ours.
    unsafe {
        let first = (*block).tested.load(Relaxed);
        for index in first..(*block).count.min(first.saturating_add(LOOKED_AT)) {
            let access = Block::access(block, index);
            let ticket = Ticket::of((*access).ticket.load(Relaxed));
            if variables.progress((*access).variable).has_written(ticket.writes) || is_void(block, index) {
                continue;
            }
            if !note(Word((*Block::before(block, index)).load(Relaxed))) {
                return;
            }
        }
    }
}

/// Whether the variable of an access was deleted before the access had a ticket: there is nothing
/// to wait for.
#[cold]
unsafe fn is_void(block: *mut Block, index: u32) -> bool {
    // SAFETY: ours; a voided operation has links.
    unsafe { Block::is_voided(block) && Links::are_void(block, index) }
}

/// Parks on the operation before, unless that has ended; says whether it has parked.
#[cold]
unsafe fn park_behind(block: *mut Block, before: Word) -> bool {
    assert!(!MODELLED || before != Word::NONE, "an operation was taken too early: it has no ticket");
    // SAFETY: blocks stay blocks. `block` is ours until the exchange.
    unsafe {
        let word = &*Block::word(before.block());
        // Acquire (both): who finds that it has ended finds what it has counted.
        let mut now = Word(word.load(Acquire));
        loop {
            let same = now.has_tag_of(before);
            if !same || now.stage() == FREE {
                return false;
            }
            (*block).link = now.block();
            // Release: the operation goes to the thread that ends that one as we leave it.
            match word.compare_exchange(now.0, now.parked(block).0, AcqRel, Acquire) {
                Ok(_) => return true,
                Err(other) => now = Word(other),
            }
        }
    }
}

/// Parks an operation without accesses behind a write, for a wait that takes no ticket; says
/// whether it has. If not, that write has ended, or nobody may park there who has no ticket.
///
/// # Safety
/// The operation in `block` is the caller's. `write` refers to an operation of the engine.
pub unsafe fn park_without_ticket(block: *mut Block, write: Word) -> bool {
    // SAFETY: blocks stay blocks. If it becomes one of those after this look, its tag is another.
    let inside = || unsafe { Block::is_inside(write.block()) };
    if write == Word::NONE || inside() {
        return false;
    }
    // SAFETY: passed on.
    unsafe { park_behind(block, write) }
}

/// Leaves a write to the last of the reads before it, unless they have ended; says whether it has.
///
/// One word for the count and for the flag that somebody waits: no fence, and nothing to take back.
/// Only one write can be here, since the next one waits for this one.
#[cold]
unsafe fn wait_for_reads(block: *mut Block, progress: &Progress, needed: u32, mut reads: u64) -> bool {
    progress.needed.store(needed, Relaxed);
    progress.waiter.store(block, Relaxed);
    loop {
        if ended(reads) == needed {
            return false;
        }
        // Release: the operation goes to the thread that reads last, with the two words above.
        match progress.reads.compare_exchange(reads, reads | WAITED_FOR, AcqRel, Acquire) {
            Ok(_) => return true,
            Err(now) => reads = now,
        }
    }
}

/// Ends an operation: counts it on its variables, and calls `ready` with each operation that has
/// waited for it alone.
///
/// # Safety
/// The operation has run, and is the caller's, who gives it up: the block may be used again when
/// this returns.
#[inline]
pub unsafe fn end(block: *mut Block, variables: &impl Variables, mut ready: impl FnMut(*mut Block)) {
    // SAFETY: ours until the last exchange; what comes back is ours.
    unsafe {
        for index in 0..(*block).count {
            count(block, index, variables, &mut ready);
        }
        Block::mark_lines(block);
        give_back(block, variables, &mut ready);
    }
}

/// As [`end`], of an operation that was [voided](Block::is_voided) and has not run: the variables
/// that were deleted may have become others, and are left alone.
///
/// # Safety
/// As [`end`].
#[cfg_attr(not(any(loom, shuttle)), allow(dead_code))]
#[cold]
pub unsafe fn end_voided(block: *mut Block, variables: &impl Variables, mut ready: impl FnMut(*mut Block)) {
    // SAFETY: as in `end`.
    unsafe {
        for index in 0..(*block).count {
            if !Links::are_void(block, index) {
                count(block, index, variables, &mut ready);
            }
        }
        give_back(block, variables, &mut ready);
    }
}

/// Counts one access of an operation that ends.
#[inline]
unsafe fn count(block: *mut Block, index: u32, variables: &impl Variables, ready: &mut impl FnMut(*mut Block)) {
    // SAFETY: as in `end`.
    unsafe {
        let access = Block::access(block, index);
        let variable = (*access).variable;
        if (*access).mode() != Mode::Read {
            variables.count_write(variable, Ticket::of((*access).ticket.load(Relaxed)).writes);
        } else {
            count_read(variables.progress(variable), variables, ready);
        }
    }
}

impl Progress {
    /// Counts a write that had so many before it, and has run: it has the variable to itself.
    #[inline]
    pub fn count_write(&self, before: u32) {
        // Release: what the operation did.
        self.writes.store(before.wrapping_add(1), Release);
    }

    /// Whether all that was pushed before such an access has ended.
    #[inline]
    pub fn has_come(&self, ticket: Ticket, mode: Mode) -> bool {
        // Acquire: what the reads have done, whose additions are one release sequence.
        self.has_written(ticket.writes) && (mode == Mode::Read || ended(self.reads.load(Acquire)) == ticket.reads)
    }
}

/// Counts a read that has run; if that was the last before a write that waits, that may be ready.
///
/// # Safety
/// It was pushed as a read, and is counted once.
#[inline]
pub unsafe fn count_read(progress: &Progress, variables: &impl Variables, ready: &mut impl FnMut(*mut Block)) {
    // Release: what the operation did is done. Acquire: the write that waits, and what the other
    // reads did.
    let reads = progress.reads.fetch_add(ONE_READ, AcqRel) + ONE_READ;
    if reads & WAITED_FOR != 0 && ended(reads) == progress.needed.load(Relaxed) {
        let waiter = progress.waiter.load(Relaxed);
        // A store: every read before that write has ended, and those after it wait for it.
        progress.reads.store(reads & !WAITED_FOR, Relaxed);
        // SAFETY: it was left to the thread that reads last, which is us.
        if unsafe { settle(waiter, variables) } {
            ready(waiter);
        }
    }
}

/// Frees the word, and settles what has parked there.
///
/// # Safety
/// The operation has been counted, and is the caller's, who gives it up.
#[inline]
pub unsafe fn give_back(block: *mut Block, variables: &impl Variables, ready: &mut impl FnMut(*mut Block)) {
    // SAFETY: as in `end`.
    unsafe {
        let word = &*Block::word(block);
        let free = Word::fresh(Word(word.load(Relaxed)).tag(), FREE);
        // Release: who finds it free finds what was counted. Acquire: what has parked, as it was
        // left.
        let mut parked = Word(word.swap(free.0, AcqRel)).block();
        while !parked.is_null() {
            // Read first: settling may give it away.
            let next = (*parked).link;
            if settle(parked, variables) {
                ready(parked);
            }
            parked = next;
        }
    }
}
