//! One variable.

use crate::error::{Failure, Stamp};
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use crate::tickets::owner::Owner;
use crate::tickets::run::Progress;
use std::ptr::null_mut;
use std::sync::Arc;

/// Everything about one variable: a line for those who push, and one for those who run.
#[repr(C, align(128))]
pub struct Slot {
    /// Odd while the variable lives; one more for every birth and deletion.
    pub generation: AtomicU32,
    /// The next slot of the free or the retired list.
    pub(super) next: AtomicU32,
    /// Who pushes to it.
    owner: Owner,
    ran: Ran,
}

/// What the operations that have run leave: on a line of its own, so that they do not take the
/// other line from those who push.
#[repr(C, align(64))]
struct Ran {
    /// Writes completed. Stored by the running write only.
    version: AtomicU64,
    /// The failure that the last write left, an owned `Arc`. Changed by running writes only, read
    /// by running accesses.
    mark: AtomicPtr<Failure>,
    /// How far it has come.
    progress: Progress,
    /// The place in the table, by which all operations order their accesses. Written by the first
    /// birth, before the generation. Here, as who runs an operation inside its push looks at this
    /// line only.
    index: AtomicU32,
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(std::mem::size_of::<Slot>() == 128);

impl Slot {
    /// A slot of no variable.
    pub(super) fn unused() -> Slot {
        Slot {
            generation: AtomicU32::new(0),
            next: AtomicU32::new(0),
            owner: Owner::default(),
            ran: Ran {
                version: AtomicU64::new(0),
                mark: AtomicPtr::new(null_mut()),
                progress: Progress::new(),
                index: AtomicU32::new(0),
            },
        }
    }

    /// Notes the place in the table. Relaxed: nobody asks for it who has not seen a generation that
    /// the slot's first variable has released.
    pub(super) fn set_index(&self, index: u32) {
        self.ran.index.store(index, Relaxed);
    }

    /// Makes it that of a new variable, at version 0, to which nobody has pushed.
    pub(super) fn renew(&self) {
        self.ran.version.store(0, Relaxed);
        self.owner.renew();
    }

    /// The place in the table, for who has seen that the variable lives.
    #[inline]
    pub fn index(&self) -> u32 {
        self.ran.index.load(Relaxed)
    }

    /// How far it has come.
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
        // Acquire: who sees a version also sees what was written up to it.
        self.ran.version.load(Acquire)
    }

    /// Steps the version. Only for the running write, which has the variable to itself: no
    /// read-modify-write is needed.
    #[inline]
    pub fn step_version(&self) {
        self.ran.version.store(self.ran.version.load(Relaxed) + 1, Release);
    }

    /// As so many steps of the version.
    pub fn advance_version(&self, writes: u64) {
        self.ran.version.store(self.ran.version.load(Relaxed) + writes, Release);
    }

    /// The failure that the variable is marked with, taken or not. Only for an access that runs: no
    /// write can replace it meanwhile.
    #[inline]
    pub fn mark(&self) -> Option<Arc<Failure>> {
        let mark = self.ran.mark.load(Acquire);
        if mark.is_null() {
            return None;
        }
        // SAFETY: the slot owns one count, which only a running write gives up, and we run.
        unsafe {
            Arc::increment_strong_count(mark);
            Some(Arc::from_raw(mark))
        }
    }

    /// The failure that keeps what was pushed at `stamp` from running. As [`Slot::mark`].
    #[inline]
    pub fn failure_for(&self, stamp: Stamp) -> Option<Arc<Failure>> {
        self.mark().filter(|failure| failure.concerns(stamp))
    }

    /// Leaves what a write ends with: its failure, or no mark. Only for the running write.
    #[inline]
    pub fn leave(&self, failure: Option<&Arc<Failure>>) {
        if failure.is_some() || self.is_marked() {
            self.set_mark(failure.cloned());
        }
    }

    /// Whether the variable carries any mark, live or taken.
    #[inline]
    pub fn is_marked(&self) -> bool {
        !self.ran.mark.load(Acquire).is_null()
    }

    /// Replaces the mark. Only for the running write.
    pub fn set_mark(&self, failure: Option<Arc<Failure>>) {
        let new = failure.map_or(null_mut(), |failure| Arc::into_raw(failure).cast_mut());
        let old = self.ran.mark.swap(new, AcqRel);
        if !old.is_null() {
            // SAFETY: the slot owned one count of it, and the swap made it ours.
            drop(unsafe { Arc::from_raw(old) });
        }
    }
}
