//! The slot of a variable: its generation, owner, progress, version and failure mark.
//!
//! Slots lie in the table of `variable/table.rs`, which begins generations and links slots into its
//! lists. All fields are atomic, and any thread may read them: one that pushes, waits, runs
//! operations or asks for the version.
//!
//! Pushers change the first cache line: `tickets/owner/` the owner, and the push of a deletion the
//! generation (`kill` in `engine/resolve.rs`). Threads that run and complete operations change the
//! second, through `engine/execute.rs`, `engine/complete.rs`, `engine/inline/` and
//! `engine/replay/`. Any thread may be one of these: a worker, a helper, a pusher, one that uses a
//! completion, a device's watcher. If the device of the last write is lost, a thread that comes to
//! an operation behind it leaves the mark (`engine/gpu/turn.rs`).

use crate::error::{Failure, Stamp};
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, AtomicU8, Ordering::*};
use crate::tickets::hold::VariableHold;
use crate::tickets::owner::Owner;
use crate::tickets::run::Progress;
use std::ptr::null_mut;
use std::sync::Arc;

/// In [`Slot::next`]: the end of the deletion and the graph both retire the slot, and only the
/// second time counts. This is no index of a slot.
const TWICE: u32 = u32::MAX - 1;
/// In [`Slot::next`]: the slot was retired once of two times.
const ONCE: u32 = u32::MAX - 2;

/// In [`Slot::nature`].
const PLAIN: u8 = 0;
/// The variable has become private to a graph, for the texts of errors.
const PRIVATE: u8 = 1;
/// Operations may commute there: its accesses are linked, in phases (`tickets/phases.rs`).
const COMMUTATIVE: u8 = 2;

/// All state of one variable: one cache line for threads that push, and one for threads that run
/// operations.
#[repr(C, align(128))]
pub struct Slot {
    /// Odd while the variable lives. One is added by the thread that makes a variable
    /// (`Table::open`), by the push of its deletion, and by a capture that makes it private.
    pub generation: AtomicU32,
    /// The index of the next slot in the free list or the retired list. Before the slot is in a
    /// list, [`TWICE`] if it is retired twice. The thread that retires or releases the slot stores
    /// it.
    pub(super) next: AtomicU32,
    /// [`PLAIN`], [`PRIVATE`] or [`COMMUTATIVE`]. Written by the thread that makes the variable, or
    /// makes it private, or retires it.
    nature: AtomicU8,
    /// Which pusher owns the variable. Any pusher may take it; threads that wait look at it.
    owner: Owner,
    ran: Ran,
}

/// What the operations that have run leave. It is on a line of its own, so that they do not take
/// the other line from the threads that push.
#[repr(C, align(64))]
struct Ran {
    /// The number of writes that have completed. The running write stores it, and [`Slot::renew`].
    version: AtomicU64,
    /// The failure that the last write left, as an owned `Arc`, or null. A running write replaces
    /// it, an access whose device is lost may fill it, and the end of the variable clears it.
    /// Running accesses read it; pushers and waiting threads only look whether there is one.
    mark: AtomicPtr<Failure>,
    /// The writes and reads that have ended (`tickets/run.rs`).
    progress: Progress,
    /// The slot's index in the table, by which all operations order their accesses. The first birth
    /// writes it, before the generation. It is on this line because a thread that runs an operation
    /// inside its push (`engine/inline/fast_path.rs`) looks at this line only.
    index: AtomicU32,
    /// The hold of a commutative variable (`tickets/hold.rs`).
    hold: VariableHold,
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(std::mem::size_of::<Slot>() == 128);

impl Slot {
    /// A slot of no variable.
    pub(super) fn unused() -> Slot {
        Slot {
            generation: AtomicU32::new(0),
            next: AtomicU32::new(0),
            nature: AtomicU8::new(PLAIN),
            owner: Owner::default(),
            ran: Ran {
                version: AtomicU64::new(0),
                mark: AtomicPtr::new(null_mut()),
                progress: Progress::new(),
                index: AtomicU32::new(0),
                hold: VariableHold::new(),
            },
        }
    }

    /// Notes the slot's index in the table. Relaxed: a thread reads the index only after it has
    /// seen a generation, and the release of the first generation in `Table::open` follows this
    /// store.
    pub(super) fn set_index(&self, index: u32) {
        self.ran.index.store(index, Relaxed);
    }

    /// Makes the slot that of a new variable, at version 0, to which no thread has pushed.
    pub(super) fn renew(&self) {
        // Release: pairs with the acquire in `version`, so that a thread that finds this version
        // finds the generation before ended (`Engine::version`).
        self.ran.version.store(0, Release);
        self.nature.store(PLAIN, Relaxed);
        self.owner.renew();
    }

    /// Notes that the variable has become private to a graph. Only for the thread that makes it
    /// private. Relaxed: it is for the texts of errors.
    pub fn say_private(&self) {
        self.nature.store(PRIVATE, Relaxed);
    }

    /// Returns whether the variable has become private to a graph. If its generation is dead, the
    /// graph may have ended since.
    pub fn is_private(&self) -> bool {
        self.nature.load(Relaxed) == PRIVATE
    }

    /// Makes the variable commutative. Only for the thread that makes it, which no other thread
    /// knows yet.
    pub(super) fn make_commutative(&self) {
        self.nature.store(COMMUTATIVE, Relaxed);
        self.owner.begin_common();
    }

    /// Whether operations may commute on the variable. Relaxed: said before its generation began.
    #[inline]
    pub fn is_commutative(&self) -> bool {
        self.nature.load(Relaxed) == COMMUTATIVE
    }

    /// Which operation commutes on the variable now, and which wait for that.
    pub fn variable_hold(&self) -> &VariableHold {
        &self.ran.hold
    }

    /// Notes that the graph of a private variable has ended.
    pub(super) fn say_retired(&self) {
        self.nature.store(PLAIN, Relaxed);
    }

    /// Says whether two ask to retire the slot: the end of a deletion, and a graph. Only for the
    /// running deletion. Relaxed: the graph learns of it by an exchange that follows.
    pub fn retire_twice(&self, twice: bool) {
        self.next.store(if twice { TWICE } else { ONCE }, Relaxed);
    }

    /// Returns whether this is the first of two times that the slot is retired: then the second
    /// time is to come.
    pub(super) fn is_retired_again(&self) -> bool {
        // AcqRel: the side that comes first releases what it has done to the slot, and the load of
        // the other acquires that.
        self.next.load(Acquire) == TWICE && self.next.compare_exchange(TWICE, ONCE, AcqRel, Acquire).is_ok()
    }

    /// Returns the slot's index in the table. Only for a thread that has seen that the variable
    /// lives.
    #[inline]
    pub fn index(&self) -> u32 {
        self.ran.index.load(Relaxed)
    }

    /// Returns the variable's progress, which operations look at to see whether their tickets have
    /// come.
    #[inline]
    pub fn progress(&self) -> &Progress {
        &self.ran.progress
    }

    /// Which pusher owns it.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The number of writes completed.
    pub fn version(&self) -> u64 {
        // Acquire: pairs with the releases of `step_version` and `advance_version`, so a thread
        // that sees a version also sees what was written up to it.
        self.ran.version.load(Acquire)
    }

    /// Steps the version by one. Only for the running write: it has the variable to itself, so no
    /// read-modify-write is needed.
    #[inline]
    pub fn step_version(&self) {
        self.ran.version.store(self.ran.version.load(Relaxed) + 1, Release);
    }

    /// Like [`Slot::step_version`], but steps the version by `writes`: for a whole replay, at its
    /// end.
    pub fn advance_version(&self, writes: u64) {
        self.ran.version.store(self.ran.version.load(Relaxed) + writes, Release);
    }

    /// Returns the failure that the variable is marked with, taken or not. Only for an access that
    /// runs: no write can replace the mark meanwhile.
    #[inline]
    pub fn mark(&self) -> Option<Arc<Failure>> {
        let mark = self.ran.mark.load(Acquire);
        if mark.is_null() {
            return None;
        }
        // SAFETY: the slot owns one reference count of the failure. Only a running write gives it
        // up, and the caller's access runs, so no other write does.
        unsafe {
            Arc::increment_strong_count(mark);
            Some(Arc::from_raw(mark))
        }
    }

    /// Returns the mark if it keeps an operation that was pushed at `stamp` from running. Like
    /// [`Slot::mark`], only for an access that runs.
    #[inline]
    pub fn failure_for(&self, stamp: Stamp) -> Option<Arc<Failure>> {
        self.mark().filter(|failure| failure.concerns(stamp))
    }

    /// Leaves the outcome of a write: its failure, or no mark. Only for the running write.
    #[inline]
    pub fn leave(&self, failure: Option<&Arc<Failure>>) {
        if failure.is_some() || self.is_marked() {
            self.set_mark(failure.cloned());
        }
    }

    /// Returns whether the variable carries any mark, live or taken.
    #[inline]
    pub fn is_marked(&self) -> bool {
        !self.ran.mark.load(Acquire).is_null()
    }

    /// Marks the variable unless it is marked. For an access that runs; others that only read may
    /// do the same at once. Only a running write takes a mark away, and none runs.
    /// Says whether it has.
    pub fn mark_first(&self, failure: &Arc<Failure>) -> bool {
        let new = Arc::into_raw(Arc::clone(failure)).cast_mut();
        // AcqRel: as in `set_mark`.
        let marked = self.ran.mark.compare_exchange(null_mut(), new, AcqRel, Relaxed).is_ok();
        if !marked {
            // SAFETY: nobody else has seen it.
            drop(unsafe { Arc::from_raw(new) });
        }
        marked
    }

    /// Replaces the mark. Only for the running write.
    pub fn set_mark(&self, failure: Option<Arc<Failure>>) {
        let new = failure.map_or(null_mut(), |failure| Arc::into_raw(failure).cast_mut());
        let old = self.ran.mark.swap(new, AcqRel);
        if !old.is_null() {
            // SAFETY: the slot owned one reference count of the old mark, and the swap made it
            // ours.
            drop(unsafe { Arc::from_raw(old) });
        }
    }
}
