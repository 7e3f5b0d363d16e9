//! Running side of the tickets: take an operation out of a log, test its tickets, park it if one
//! has not come, and end it.
//!
//! Used by `log.rs`, `pull.rs` and `src/worker/steal.rs` (take), by `src/engine/worker_host.rs`,
//! `src/engine/ticket_host.rs` and `pull.rs` (settle), and by `src/engine/complete.rs` (end), among
//! others. Any thread may take an operation (a worker, a thief, a helper, a pusher), and then it
//! alone tests and parks it. The thread that runs the operation ends it, or the thread that uses
//! its completion, or the watcher of a device.
//!
//! Nothing here waits. A thread that tests too early parks the operation on what it lacks, and so
//! gives it up. The thread that ends the operation it lacks gets it back.

use crate::operation::access::{Mode, Ticket};
use crate::operation::block::Block;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*, MODELLED};
use crate::tickets::word::{Word, FREE, PUSHED, TAKEN};
use crate::tickets::{links::Links, phases};
use std::ptr::null_mut;

/// How far a variable has come. Threads that end operations write it, and a thread that leaves a
/// write to the reads before it (`wait_for_reads`). Other pushers, and threads that wait, read it.
pub struct Progress {
    /// Writes that have ended, modulo 2³². Stored by the running write, which has the variable to
    /// itself.
    writes: AtomicU32,
    /// The number of reads that `waiter` waits for. Like `waiter`, stored by the thread that tests
    /// the write, for the thread that ends the last of the reads.
    needed: AtomicU32,
    /// Reads that have ended, from bit 1 on. Bit 0: a write waits for reads.
    reads: AtomicU64,
    /// The write that waits for reads, if bit 0 of `reads` is set.
    waiter: AtomicPtr<Block>,
}

const WAITED_FOR: u64 = 1;
const ONE_READ: u64 = 2;

/// The reads that have ended, modulo 2³².
fn ended(reads: u64) -> u32 {
    (reads >> 1) as u32
}

impl Progress {
    /// The progress of a variable that nobody has used.
    pub fn new() -> Progress {
        Progress {
            writes: AtomicU32::new(0),
            needed: AtomicU32::new(0),
            reads: AtomicU64::new(0),
            waiter: AtomicPtr::new(null_mut()),
        }
    }

    /// The numbers of writes and of reads that have ended. Acquire: pairs with the releases in
    /// `count_write` and `count_read`, so the caller sees what these operations did.
    #[inline]
    pub fn counts(&self) -> (u32, u32) {
        (self.writes.load(Acquire), ended(self.reads.load(Acquire)))
    }

    /// Whether exactly so many writes have ended.
    #[inline]
    pub fn has_written(&self, writes: u32) -> bool {
        // Acquire: pairs with the release in `count_write`, which `end` calls.
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

/// Access to the variables of an engine, by number.
pub trait Variables {
    /// How far the variable of this number has come.
    fn progress(&self, variable: u32) -> &Progress;

    /// Counts a write on the variable of this number. The write has run, and came after `before`
    /// writes.
    #[inline]
    fn count_write(&self, variable: u32, before: u32) {
        self.progress(variable).count_write(before);
    }
}

/// The state from which counting goes on with a variable: what its next access gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// The numbers of writes and of reads pushed so far.
    pub ticket: Ticket,
    /// The reference to the last write.
    pub last: Word,
}

/// Takes an operation out of a log, for the caller alone. `None` if another thread has taken it, or
/// if it has ended.
#[inline]
pub fn take(operation: Word) -> Option<*mut Block> {
    let block = operation.block();
    // SAFETY: blocks stay blocks for as long as the engine is there; through a stale reference
    // another tag is found.
    let word = unsafe { &*Block::word(block) };
    let mut now = Word(word.load(Relaxed));
    // A loop: another thread may park on the operation between the load and the exchange.
    while now.has_tag_of(operation) && now.stage() == PUSHED {
        // Relaxed: the acquiring load of the log entry has brought what the push wrote. The blocks
        // parked on the word come with the exchange in `give_back`: it acquires from the exchanges
        // in `park_behind`, whose release sequences go on past this exchange.
        match word.compare_exchange(now.0, now.at(TAKEN).0, Relaxed, Relaxed) {
            Ok(_) => return Some(block),
            Err(other) => now = Word(other),
        }
    }
    None
}

/// Whether a thread could still take the operation out of its log.
#[inline]
pub fn is_untaken(operation: Word) -> bool {
    // SAFETY: as in `take`.
    let now = Word(unsafe { (*Block::word(operation.block())).load(Relaxed) });
    now.has_tag_of(operation) && now.stage() == PUSHED
}

/// Whether an operation has ended, or was given up.
#[inline]
pub fn has_ended(operation: Word) -> bool {
    // Relaxed: the caller learns what the operation did from the counts of the variables.
    // SAFETY: as in `take`.
    let now = Word(unsafe { (*Block::word(operation.block())).load(Relaxed) });
    !now.has_tag_of(operation) || now.stage() == FREE
}

/// Tests an operation's tickets. `true`: all have come, and the caller runs it. `false`: it is
/// parked, and no longer the caller's.
///
/// # Safety
/// The operation is the caller's: taken, or given back by an end.
#[inline]
pub unsafe fn settle(block: *mut Block, variables: &impl Variables) -> bool {
    // SAFETY: the operation is the caller's until it is parked; nothing of it is touched after
    // that.
    unsafe {
        let count = (*block).count;
        // A ticket that has come stays so. Each is tested until it has come, and not again.
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
                // Relaxed: the reference was stored before the operation could be taken.
                if park_behind(block, Word((*Block::before(block, index)).load(Relaxed))) {
                    return false;
                }
                // The write before has ended, and was counted before its word was freed. So the
                // ticket has come.
                let counted = !MODELLED || progress.has_written(ticket.writes);
                assert!(counted, "an operation has ended too early: it is not counted");
            }
            // Acquire: pairs with the releases in `count_read`, whose additions are one release
            // sequence, so the operation sees what the reads did.
            let reads = progress.reads.load(Acquire);
            if (*access).mode() != Mode::Read && ended(reads) != ticket.reads && !phases::spares_reads(block, index) {
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

/// At most so many variables of an operation are looked at for what it waits for.
const LOOKED_AT: u32 = 64;

/// Calls `note` with each write that an operation waits for, until `note` returns `false`. Looks at
/// [`LOOKED_AT`] variables at most. Called by `pull.rs`.
///
/// # Safety
/// The operation is the caller's.
pub unsafe fn waits_for(block: *mut Block, variables: &impl Variables, mut note: impl FnMut(Word) -> bool) {
    // SAFETY: the operation is the caller's.
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

/// Whether the variable of an access was deleted before the access had a ticket. Then there is
/// nothing to wait for.
#[cold]
pub(super) unsafe fn is_void(block: *mut Block, index: u32) -> bool {
    // SAFETY: the operation is the caller's; a voided operation has links.
    unsafe { Block::is_voided(block) && Links::are_void(block, index) }
}

/// Parks an operation on the write before, unless the write has ended. Returns whether it has
/// parked.
#[cold]
unsafe fn park_behind(block: *mut Block, before: Word) -> bool {
    assert!(!MODELLED || before != Word::NONE, "an operation was taken too early: it has no ticket");
    // SAFETY: blocks stay blocks. `block` is the caller's until the exchange.
    unsafe {
        let word = &*Block::word(before.block());
        // Acquire (both): pairs with the exchange in `give_back`. A thread that finds the write
        // ended finds its counts.
        let mut now = Word(word.load(Acquire));
        loop {
            let same = now.has_tag_of(before);
            if !same || now.stage() == FREE {
                return false;
            }
            (*block).link = now.block();
            // Release: pairs with the exchange in `give_back`. The thread that ends the write gets
            // the operation as it is left here.
            match word.compare_exchange(now.0, now.parked(block).0, AcqRel, Acquire) {
                Ok(_) => return true,
                Err(other) => now = Word(other),
            }
        }
    }
}

/// Parks an operation without accesses behind a write, for a wait that takes no ticket
/// (`src/engine/push/enlist.rs`). Returns whether it has parked. If not, the write has ended, or
/// its block is one on which only operations with a ticket may park.
///
/// # Safety
/// The operation in `block` is the caller's. `write` refers to an operation of the engine.
pub unsafe fn park_without_ticket(block: *mut Block, write: Word) -> bool {
    // SAFETY: blocks stay blocks. If the block is put to use inside pushes after this look, its tag
    // is another, and `park_behind` does not park.
    let inside = || unsafe { Block::is_inside(write.block()) };
    if write == Word::NONE || inside() {
        return false;
    }
    // SAFETY: by the caller's contract.
    unsafe { park_behind(block, write) }
}

/// Leaves a write to the last of the reads before it, unless all have ended. Returns whether it was
/// left.
///
/// The count and the flag that a write waits are one word, so no fence is needed, and nothing has
/// to be taken back. Only one write can be here, since the next one waits for this one.
#[cold]
unsafe fn wait_for_reads(block: *mut Block, progress: &Progress, needed: u32, mut reads: u64) -> bool {
    progress.needed.store(needed, Relaxed);
    progress.waiter.store(block, Relaxed);
    loop {
        if ended(reads) == needed {
            return false;
        }
        // Release: pairs with the addition in `count_read`. The thread that ends the last read gets
        // the operation, with the two words stored above.
        match progress.reads.compare_exchange(reads, reads | WAITED_FOR, AcqRel, Acquire) {
            Ok(_) => return true,
            Err(now) => reads = now,
        }
    }
}

/// Ends an operation: counts it on its variables, and calls `ready` with each operation that lacked
/// nothing but this one.
///
/// # Safety
/// The operation has run and is the caller's. The caller gives it up: the block may be used again
/// when this returns.
#[inline]
pub unsafe fn end(block: *mut Block, variables: &impl Variables, mut ready: impl FnMut(*mut Block)) {
    // SAFETY: the operation is the caller's until the last exchange; so is each operation that the
    // exchange brings back.
    unsafe {
        for index in 0..(*block).count {
            count(block, index, variables, &mut ready);
        }
        Block::mark_lines(block);
        give_back(block, variables, &mut ready);
    }
}

/// Like [`end`], but for an operation that was [voided](Block::is_voided) and has not run. The
/// variables that were deleted are not counted: their slots may serve other variables.
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
    /// Counts a write that has run, and that came after `before` writes. It has the variable to
    /// itself, so a store is enough.
    #[inline]
    pub fn count_write(&self, before: u32) {
        // Release: pairs with `has_written`. The next operation sees what this one did.
        self.writes.store(before.wrapping_add(1), Release);
    }

    /// Whether a ticket of an access of this mode has come: all that was pushed before has ended.
    #[inline]
    pub fn has_come(&self, ticket: Ticket, mode: Mode) -> bool {
        // Acquire: pairs with the releases in `count_read`, whose additions are one release
        // sequence.
        self.has_written(ticket.writes) && (mode == Mode::Read || ended(self.reads.load(Acquire)) == ticket.reads)
    }
}

/// Counts a read that has run. If it was the last read that a write waited for, the write is
/// settled, and given to `ready` if it can run.
///
/// # Safety
/// The operation was pushed as a read, and is counted once.
#[inline]
pub unsafe fn count_read(progress: &Progress, variables: &impl Variables, ready: &mut impl FnMut(*mut Block)) {
    // Release: pairs with the acquire loads of `reads`; what this read did is seen by the write
    // behind it. Acquire: pairs with `wait_for_reads`, so the waiting write is seen, and with the
    // other reads.
    let reads = progress.reads.fetch_add(ONE_READ, AcqRel) + ONE_READ;
    if reads & WAITED_FOR != 0 && ended(reads) == progress.needed.load(Relaxed) {
        let waiter = progress.waiter.load(Relaxed);
        // A store is enough: every read before the write has ended, and those after it wait for it.
        progress.reads.store(reads & !WAITED_FOR, Relaxed);
        // SAFETY: the write was left to the thread that ends the last read, which is this one.
        if unsafe { settle(waiter, variables) } {
            ready(waiter);
        }
    }
}

/// Frees the word of an operation, and settles each operation that has parked there.
///
/// # Safety
/// The operation has been counted and is the caller's, and the caller gives it up.
#[inline]
pub unsafe fn give_back(block: *mut Block, variables: &impl Variables, ready: &mut impl FnMut(*mut Block)) {
    // SAFETY: as in `end`.
    unsafe {
        let word = &*Block::word(block);
        let free = Word::fresh(Word(word.load(Relaxed)).tag(), FREE);
        // Release: pairs with the acquire loads in `park_behind` and `ring.rs`; a thread that finds
        // the word free finds the counts. Acquire: pairs with the release in `park_behind`, for the
        // operations that have parked.
        let mut parked = Word(word.swap(free.0, AcqRel)).block();
        while !parked.is_null() {
            // Read first: settling may give the operation away.
            let next = (*parked).link;
            if settle(parked, variables) {
                ready(parked);
            }
            parked = next;
        }
    }
}
