//! A log: an unbounded queue of references to operations, from one pusher to one worker, in push
//! order. Thieves and helpers may look at it too, and take operations out of the middle.
//!
//! Used by `src/worker/run_loop.rs` and `src/worker/idle.rs` (take), by `journals.rs` and
//! `watch.rs` (find) and by `placing.rs`. `src/worker/group.rs` appends, through `journals.rs`. The
//! pusher appends; the worker moves its own cursor; any thread may look. A thread that looks writes
//! only how far it has looked. It takes an operation by its word (`run.rs`), and leaves the entry.
//!
//! A log is a chain of segments (`segment.rs`). The pusher uses a segment at the front of the chain
//! again as soon as all operations in it have been taken. To that end the worker publishes how far
//! it has come, and threads that look for operations how far they have looked. The pusher waits for
//! no thread. So a thread that stands in a segment may find it further back in the log when it goes
//! on. It notices this by the segment's number: "nothing more" counts only if the segment still has
//! the number that it had.
//!
//! An entry may be stale, or may belong to a later position of the log. An operation is taken by
//! its tag, so a stale entry reads as one that has been taken, and an entry of a later position is
//! as good as any.

use crate::operation::block::Block;
use crate::sync::{fence, AtomicPtr, AtomicU64, Ordering::*};
use crate::tickets::run::{is_untaken, take};
use crate::tickets::segment::{Cursor, LogSegment, LENGTH};
use crate::tickets::word::Word;
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::ptr::null_mut;

/// Entries that [`Log::find_ahead`] looks at.
const PROBED: usize = 16;

/// The number of a segment that is not in the log: above all others.
const SPARE: u64 = u64::MAX;
/// At most so many segments are taken off the front when the pusher needs one. It is more than one,
/// so that a long chain gets short.
const AT_ONCE: usize = 2;

/// At most so many entries are looked at by the pusher when it needs a segment. So it gets on, even
/// if others have taken all.
const SCANNED: usize = 2 * LENGTH;

pub struct Log {
    pusher: CachePadded<Cursor>,
    worker: CachePadded<Cursor>,
    /// The position up to which the worker has come, and its segment: the part of its cursor that
    /// other threads read.
    come: AtomicU64,
    at: AtomicPtr<LogSegment>,
    /// The position before which all entries have been taken, and its segment. Written by threads
    /// that look for operations ([`Log::find`]).
    scanned: AtomicU64,
    scanned_at: AtomicPtr<LogSegment>,
    segments: CachePadded<Segments>,
}

/// The pusher's list of segments.
struct Segments {
    /// The first segment of the log: every operation before it has been taken.
    oldest: AtomicPtr<LogSegment>,
    /// The segments that are not in the log.
    spares: Cell<*mut LogSegment>,
}

// SAFETY: the pusher's cursor and the spare segments are used by one pushing thread at a time, the
// worker's cursor by its worker; the rest is atomic.
unsafe impl Send for Log {}
// SAFETY: as above.
unsafe impl Sync for Log {}

impl Log {
    pub fn new() -> Log {
        let first = LogSegment::new();
        Log {
            pusher: CachePadded::new(Cursor::at(first, 0, 0)),
            worker: CachePadded::new(Cursor::at(first, 0, 0)),
            come: AtomicU64::new(0),
            at: AtomicPtr::new(first),
            scanned: AtomicU64::new(0),
            scanned_at: AtomicPtr::new(first),
            segments: CachePadded::new(Segments { oldest: AtomicPtr::new(first), spares: Cell::new(null_mut()) }),
        }
    }

    /// Appends an operation, whose word says "pushed". Allocates if more entries than ever before
    /// are left in the log.
    ///
    /// # Safety
    /// One thread at a time pushes.
    #[inline]
    pub unsafe fn push(&self, operation: Word) {
        let cursor = &*self.pusher;
        // SAFETY: segments stay for as long as the log; the pusher's cursor is the caller's.
        unsafe {
            if cursor.index.get() == LENGTH {
                self.extend(cursor);
            }
            // Release: pairs with the acquire in `Cursor::look`, so a thread that finds the entry
            // finds the operation's word.
            cursor.entry().store(operation.0, Release);
        }
        cursor.step();
    }

    /// The pusher's own position: the number of operations ever pushed, and one more for each cache
    /// line that was filled.
    pub fn pushed(&self) -> u64 {
        self.pusher.position()
    }

    /// The worker's position, as it has published it.
    pub fn come(&self) -> u64 {
        self.come.load(Relaxed)
    }

    /// How many segments there are, in the log and spare.
    ///
    /// # Safety
    /// The caller pushes.
    #[cfg(all(test, target_pointer_width = "64", not(any(loom, shuttle))))]
    pub unsafe fn segments(&self) -> usize {
        let after = |from: *mut LogSegment, next: fn(&LogSegment) -> *mut LogSegment| {
            std::iter::successors((!from.is_null()).then_some(from), move |segment| {
                // SAFETY: segments stay for as long as the log.
                let next = next(unsafe { &**segment });
                (!next.is_null()).then_some(next)
            })
        };
        let of_log = after(self.segments.oldest.load(Relaxed), |segment| segment.next.load(Relaxed)).count();
        of_log + after(self.segments.spares.get(), |segment| segment.spare.get()).count()
    }

    #[cold]
    unsafe fn extend(&self, cursor: &Cursor) {
        // SAFETY: the cursor and the spare segments are the caller's. Another thread that still
        // stands in a spare segment reads only atomic fields, and finds by the number that it
        // stands there no more.
        unsafe {
            self.take_off_the_front(cursor);
            if self.segments.spares.get().is_null() {
                // Threads that wait take operations out of the middle, and the worker may have no
                // core: so look how far all have been taken.
                self.find_within(SCANNED);
                self.take_off_the_front(cursor);
            }
            let mut segment = self.segments.spares.get();
            if segment.is_null() {
                segment = LogSegment::new();
            } else {
                self.segments.spares.set((*segment).spare.get());
            }
            let number = cursor.number.get() + 1;
            // Release: pairs with the acquire in `Cursor::look`. A thread that finds an entry
            // cleared also finds that the segment has no number, or a later one.
            fence(Release);
            (*segment).next.store(null_mut(), Relaxed);
            (*segment).clear();
            // Release: pairs with the acquire in `begin`. A thread that finds the number finds the
            // segment cleared.
            (*segment).number.store(number, Release);
            // Release: pairs with the acquire in `Cursor::look`. A thread that goes on to the
            // segment finds it empty.
            (*cursor.segment.get()).next.store(segment, Release);
            cursor.go_to(Cursor::at(segment, number, 0));
        }
    }

    /// Takes segments off the front of the chain of which all operations have been taken.
    unsafe fn take_off_the_front(&self, cursor: &Cursor) {
        // Relaxed: what has been taken stays so, whichever thread learns of it, and when.
        let taken = self.come.load(Relaxed).max(self.scanned.load(Relaxed));
        let full = taken / LENGTH as u64;
        for _ in 0..AT_ONCE {
            // Relaxed (all): only the pusher stores them.
            let oldest = self.segments.oldest.load(Relaxed);
            // SAFETY: as in `extend`.
            unsafe {
                if oldest == cursor.segment.get() || (*oldest).number.load(Relaxed) >= full {
                    return;
                }
                // Release: pairs with the acquire in `begin`. A thread that begins at this segment
                // finds it as it was appended.
                self.segments.oldest.store((*oldest).next.load(Relaxed), Release);
                // Release: pairs with the acquire in the loop of `begin`. A thread that finds
                // another number than the segment had as the oldest also finds the new oldest
                // segment.
                (*oldest).number.store(SPARE, Release);
                (*oldest).spare.set(self.segments.spares.replace(oldest));
            }
        }
    }

    /// Takes the next operation that no thread has taken; `None` if there is none.
    ///
    /// # Safety
    /// The caller is the worker.
    #[inline(always)]
    pub unsafe fn take_next(&self) -> Option<*mut Block> {
        let cursor = &*self.worker;
        loop {
            // SAFETY: the worker's cursor is the caller's; segments stay for as long as the log.
            let operation = unsafe { cursor.look(|| self.at.store(cursor.segment.get(), Release)) };
            if operation == Word::NONE {
                // SAFETY: as above.
                if unsafe { cursor.is_in_place() } {
                    return None;
                }
                self.come_after(cursor);
                continue;
            }
            // SAFETY: as above.
            unsafe {
                cursor.fetch_ahead();
                cursor.mark();
            }
            cursor.step();
            // Threads that look for operations begin here. Relaxed: they take an operation by its
            // tag, so an old position does no harm.
            self.come.store(cursor.position(), Relaxed);
            if let Some(block) = take(operation) {
                return Some(block);
            }
        }
    }

    /// Moves the worker's cursor on when its segment has been used again: other threads have taken
    /// all operations there.
    #[cold]
    #[inline(never)]
    fn come_after(&self, cursor: &Cursor) {
        cursor.go_to(self.begin());
        self.at.store(cursor.segment.get(), Release);
    }

    /// The first operation that a thread could take; [`Word::NONE`] if there is none. For any
    /// thread.
    ///
    /// All before `scanned` has been taken and is not looked at again, however long the worker
    /// stands still. Begins again if the pusher has used the segment meanwhile.
    pub fn find(&self) -> Word {
        self.find_within(usize::MAX)
    }

    /// Like [`Log::find`], but gives up after so many steps, also with [`Word::NONE`].
    fn find_within(&self, steps: usize) -> Word {
        let cursor = self.begin();
        // SAFETY: segments stay for as long as the log.
        unsafe {
            for _ in 0..steps {
                let operation = cursor.look(|| ());
                if operation == Word::NONE && !cursor.is_in_place() {
                    cursor.go_to(self.begin());
                } else if operation == Word::NONE || is_untaken(operation) {
                    self.note(&cursor);
                    return operation;
                } else {
                    cursor.step();
                }
            }
        }
        self.note(&cursor);
        Word::NONE
    }

    /// Like [`Log::find`], but begins `ahead` entries behind the first one, to which the worker
    /// will not come at once. Looks at [`PROBED`] entries; [`Word::NONE`] if none of them can be
    /// taken.
    pub fn find_ahead(&self, ahead: usize) -> Word {
        let cursor = self.begin();
        cursor.step_by(ahead);
        // SAFETY: segments stay for as long as the log. If a segment has been used again, its
        // entries can be taken as well.
        unsafe {
            if let Some(index) = cursor.index.get().checked_sub(LENGTH) {
                let next = (*cursor.segment.get()).next.load(Acquire);
                if next.is_null() {
                    return Word::NONE;
                }
                cursor.go_to(Cursor::at(next, cursor.number.get() + 1, index));
            }
            for _ in 0..PROBED {
                let operation = cursor.look(|| ());
                if operation == Word::NONE || is_untaken(operation) {
                    return operation;
                }
                cursor.step();
            }
        }
        Word::NONE
    }

    /// The position at which to begin to look: all before it has been taken.
    fn begin(&self) -> Cursor {
        // Relaxed: what has been taken stays so, whichever thread learns of it, and when.
        let (come, scanned) = (self.come.load(Relaxed), self.scanned.load(Relaxed));
        let near = if scanned > come { &self.scanned_at } else { &self.at };
        let start = scanned.max(come);
        // SAFETY: segments stay for as long as the log.
        unsafe {
            let segment = near.load(Acquire);
            let number = (*segment).number.load(Acquire);
            // Otherwise the segment has been used again, or has come into the log after the two
            // positions above were loaded.
            if number <= start / LENGTH as u64 {
                let index = (start - number * LENGTH as u64).min(LENGTH as u64);
                return Cursor::at(segment, number, index as usize);
            }
            loop {
                let segment = self.segments.oldest.load(Acquire);
                // Acquire: pairs with `take_off_the_front`. If this is not the number with which
                // the segment was the oldest, another segment is the oldest.
                let number = (*segment).number.load(Acquire);
                // For each further round the pusher has filled a segment meanwhile.
                let still = segment == self.segments.oldest.load(Relaxed);
                if still {
                    return Cursor::at(segment, number, 0);
                }
            }
        }
    }

    /// Publishes how far the calling thread has looked.
    fn note(&self, cursor: &Cursor) {
        let (position, scanned) = (cursor.position(), self.scanned.load(Relaxed));
        if position < scanned {
            return;
        }
        if self.scanned_at.load(Relaxed) != cursor.segment.get() {
            self.scanned_at.store(cursor.segment.get(), Release);
        }
        if position > scanned {
            // A maximum: the pusher relies on it when it needs a segment, so it must not go back.
            self.scanned.fetch_max(position, Relaxed);
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // Relaxed: dropped by the last thread that has the log.
        let mut next = self.segments.oldest.load(Relaxed);
        let mut spare = self.segments.spares.get();
        // SAFETY: no thread uses the log any more; every segment is in the chain or spare, and in
        // it once.
        unsafe {
            while !next.is_null() {
                let segment = Box::from_raw(next);
                next = segment.next.load(Relaxed);
            }
            while !spare.is_null() {
                let segment = Box::from_raw(spare);
                spare = segment.spare.get();
            }
        }
    }
}
