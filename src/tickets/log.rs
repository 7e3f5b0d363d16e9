//! A log: references to operations, from one thread that pushes to one worker, in push order.
//!
//! A chain of segments. The pusher appends, and uses segments again from the front of the chain, as
//! soon as all in them has been taken: the worker says how far it has come, and those who look for
//! what others leave say how far they have looked. Nobody is waited for. So the thread that stands
//! in a segment may find it further back in the log when they go on, and the numbers of segments
//! tell: "nothing more" counts only if the segment still has the number that it had.
//!
//! What is in an entry may be old, or of a later place in the log. An operation is taken by its
//! tag, so an old entry is one that somebody has taken, and any other is as good as the next.

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

/// Behind every number.
const SPARE: u64 = u64::MAX;
/// The most segments that the pusher takes off the front when it needs one: a long chain gets
/// short.
const AT_ONCE: usize = 2;

/// Entries that the pusher looks at for that at most: it gets on, even if others have taken all.
const SCANNED: usize = 2 * LENGTH;

pub struct Log {
    pusher: CachePadded<Cursor>,
    worker: CachePadded<Cursor>,
    /// How far the worker has come, and its segment: what others see of its cursor.
    come: AtomicU64,
    at: AtomicPtr<LogSegment>,
    /// Entries before this one have been taken, and its segment: noted by those who look for what
    /// others leave.
    scanned: AtomicU64,
    scanned_at: AtomicPtr<LogSegment>,
    chain: CachePadded<Chain>,
}

/// What the pusher knows of its segments.
struct Chain {
    /// The first of the log: nothing before it is untaken.
    oldest: AtomicPtr<LogSegment>,
    /// Those that are not in the log.
    spares: Cell<*mut LogSegment>,
}

// SAFETY: the pusher's cursor and its spare segments are used by one pushing thread at a time, the
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
            chain: CachePadded::new(Chain { oldest: AtomicPtr::new(first), spares: Cell::new(null_mut()) }),
        }
    }

    /// Appends an operation, whose word says "pushed". Allocates if more than ever before is left
    /// in the log.
    ///
    /// # Safety
    /// One thread at a time pushes.
    #[inline]
    pub unsafe fn push(&self, operation: Word) {
        let cursor = &*self.pusher;
        // SAFETY: as for `look`; the pusher's cursor is ours.
        unsafe {
            if cursor.index.get() == LENGTH {
                self.extend(cursor);
            }
            // Release: who finds the entry finds the operation's word.
            cursor.entry().store(operation.0, Release);
        }
        cursor.step();
    }

    /// How far the pusher has come, for itself: as many places as operations were ever pushed, and
    /// one more for each line.
    pub fn pushed(&self) -> u64 {
        self.pusher.position()
    }

    /// How far the worker has come, as others see it.
    pub fn come(&self) -> u64 {
        self.come.load(Relaxed)
    }

    #[cold]
    unsafe fn extend(&self, cursor: &Cursor) {
        // SAFETY: the cursor and the spare segments are ours. The thread that still stands in one
        // of them looks at what is atomic, and finds by the number that it has no place there.
        unsafe {
            self.take_off_the_front(cursor);
            if self.chain.spares.get().is_null() {
                // Who waits takes operations out of the middle, and the worker may have no core.
                self.find_within(SCANNED);
                self.take_off_the_front(cursor);
            }
            let mut segment = self.chain.spares.get();
            if segment.is_null() {
                segment = LogSegment::new();
            } else {
                self.chain.spares.set((*segment).spare.get());
            }
            let number = cursor.number.get() + 1;
            // Who finds it cleared finds that it has no number, or a later one.
            fence(Release);
            (*segment).next.store(null_mut(), Relaxed);
            (*segment).clear();
            // Release: who finds its number finds it cleared.
            (*segment).number.store(number, Release);
            // Release: who goes on to it finds it empty.
            (*cursor.segment.get()).next.store(segment, Release);
            cursor.go_to(Cursor::at(segment, number, 0));
        }
    }

    /// Takes segments off the front of the chain in which all has been taken.
    unsafe fn take_off_the_front(&self, cursor: &Cursor) {
        // Relaxed: what has been taken stays so, whichever thread hears of it, and when.
        let taken = self.come.load(Relaxed).max(self.scanned.load(Relaxed));
        let full = taken / LENGTH as u64;
        for _ in 0..AT_ONCE {
            // Relaxed (all): only the pusher stores them.
            let oldest = self.chain.oldest.load(Relaxed);
            // SAFETY: as in `extend`.
            unsafe {
                if oldest == cursor.segment.get() || (*oldest).number.load(Relaxed) >= full {
                    return;
                }
                // Release: who begins there finds the segment as it was appended.
                self.chain.oldest.store((*oldest).next.load(Relaxed), Release);
                // Release: who finds that it has not the number that it had finds the next one
                // there.
                (*oldest).number.store(SPARE, Release);
                (*oldest).spare.set(self.chain.spares.replace(oldest));
            }
        }
    }

    /// Takes the next operation that nobody has taken; `None` if there is none.
    ///
    /// # Safety
    /// The caller is the worker.
    #[inline(always)]
    pub unsafe fn take_next(&self) -> Option<*mut Block> {
        let cursor = &*self.worker;
        loop {
            // SAFETY: the worker's cursor is ours.
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
            // Thieves go on from here. Relaxed: what they find is taken by its tag.
            self.come.store(cursor.position(), Relaxed);
            if let Some(block) = take(operation) {
                return Some(block);
            }
        }
    }

    /// The worker was left behind: others have taken all where it stood.
    #[cold]
    #[inline(never)]
    fn come_after(&self, cursor: &Cursor) {
        cursor.go_to(self.begin());
        self.at.store(cursor.segment.get(), Release);
    }

    /// The first operation that anybody could take; [`Word::NONE`] if there is none. For any
    /// thread.
    ///
    /// What lies before `scanned` has been taken: nobody looks at it twice, however long the worker
    /// stands still. Looks again if the pusher has used the segment meanwhile.
    pub fn find(&self) -> Word {
        self.find_within(usize::MAX)
    }

    /// As that, in so many steps at most: [`Word::NONE`] also if that was not enough.
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

    /// As [`Log::find`], of those that lie `ahead` entries or more behind the first one: the worker
    /// will not come to them at once. Looks at [`PROBED`] of them; [`Word::NONE`] if none of these
    /// is there.
    pub fn find_ahead(&self, ahead: usize) -> Word {
        let cursor = self.begin();
        cursor.step_by(ahead);
        // SAFETY: segments stay for as long as the log. One that has been used again holds what is
        // as good.
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

    /// Where to begin to look: all before it has been taken.
    fn begin(&self) -> Cursor {
        // Relaxed: what has been taken stays so, whichever thread hears of it, and when.
        let (come, scanned) = (self.come.load(Relaxed), self.scanned.load(Relaxed));
        let near = if scanned > come { &self.scanned_at } else { &self.at };
        let start = scanned.max(come);
        // SAFETY: segments stay for as long as the log.
        unsafe {
            let segment = near.load(Acquire);
            let number = (*segment).number.load(Acquire);
            // Else it has been used again, or come into the log after we looked how far all is
            // taken.
            if number <= start / LENGTH as u64 {
                let index = (start - number * LENGTH as u64).min(LENGTH as u64);
                return Cursor::at(segment, number, index as usize);
            }
            loop {
                let segment = self.chain.oldest.load(Acquire);
                // Acquire: if it is not the number with which it was the oldest, another one is.
                let number = (*segment).number.load(Acquire);
                // Each further round is one of a segment that the pusher has filled meanwhile.
                let still = segment == self.chain.oldest.load(Relaxed);
                if still {
                    return Cursor::at(segment, number, 0);
                }
            }
        }
    }

    /// Notes how far somebody has looked.
    fn note(&self, cursor: &Cursor) {
        let (position, scanned) = (cursor.position(), self.scanned.load(Relaxed));
        if position < scanned {
            return;
        }
        if self.scanned_at.load(Relaxed) != cursor.segment.get() {
            self.scanned_at.store(cursor.segment.get(), Release);
        }
        if position > scanned {
            // Never less: the pusher counts on it when it needs a segment.
            self.scanned.fetch_max(position, Relaxed);
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // Relaxed: dropped by the last who has the log.
        let mut next = self.chain.oldest.load(Relaxed);
        let mut spare = self.chain.spares.get();
        // SAFETY: nobody uses the log any more; every segment is in the chain or a spare one.
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
