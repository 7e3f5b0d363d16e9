//! A log: references to operations, from one thread that pushes to one worker, in push order.
//!
//! A chain of segments. The pusher appends; the worker goes through it, and hands a segment back
//! when it has come to its end. Thieves go through it as well, by cursors of their own, from where
//! the worker stands: what is in an entry may be old, but an operation is taken by its tag, so an
//! old entry is one that somebody has taken.

use super::run::{is_untaken, take};
use super::word::Word;
use crate::line::fetch_to_write;
use crate::mutants::mutate;
use crate::operation::block::Block;
use crate::sync::{AtomicPtr, AtomicU64, Ordering::*, MODELLED};
use crossbeam_utils::CachePadded;
use std::array::from_fn;
use std::cell::Cell;
use std::ptr::null_mut;

/// Entries of a segment.
const LENGTH: usize = if MODELLED { 2 } else { 512 };
/// So many entries ahead of the one that is taken, the worker asks for the block.
const AHEAD: usize = 6;

struct Segment {
    entries: [AtomicU64; LENGTH],
    next: AtomicPtr<Segment>,
    /// Which one it is in the log, counted from 0. Stored when it is appended.
    number: AtomicU64,
    /// The next of those that were handed back.
    spare: Cell<*mut Segment>,
}

/// Where somebody stands in a log.
#[derive(Clone)]
struct Cursor {
    segment: Cell<*mut Segment>,
    number: Cell<u64>,
    index: Cell<usize>,
}

pub struct Log {
    pusher: CachePadded<Cursor>,
    worker: CachePadded<Cursor>,
    /// How far the worker has come, and its segment: what others see of its cursor.
    come: AtomicU64,
    at: AtomicPtr<Segment>,
    /// Entries before this one have been taken, and its segment: noted by those who look for what
    /// others leave.
    scanned: AtomicU64,
    scanned_at: AtomicPtr<Segment>,
    /// Segments that were handed back: a stack that is taken whole.
    spares: CachePadded<AtomicPtr<Segment>>,
}

// SAFETY: the pusher's cursor is used by one pushing thread at a time, the worker's by its worker;
// the rest is atomic.
unsafe impl Send for Log {}
// SAFETY: as above.
unsafe impl Sync for Log {}

impl Segment {
    fn new() -> *mut Segment {
        Box::into_raw(Box::new(Segment {
            entries: from_fn(|_| AtomicU64::new(0)),
            next: AtomicPtr::new(null_mut()),
            number: AtomicU64::new(0),
            spare: Cell::new(null_mut()),
        }))
    }
}

impl Cursor {
    fn at(segment: *mut Segment) -> Cursor {
        Cursor { segment: Cell::new(segment), number: Cell::new(0), index: Cell::new(0) }
    }

    /// Entries before it.
    fn position(&self) -> u64 {
        self.number.get() * LENGTH as u64 + self.index.get() as u64
    }

    /// The entry under the cursor, [`Word::NONE`] if there is none yet. Goes on to the next segment
    /// if it has to; the segment that it leaves is given to `left`.
    ///
    /// # Safety
    /// The cursor stands in a segment of a log that is there.
    #[inline]
    unsafe fn look(&self, left: impl FnOnce(*mut Segment)) -> Word {
        // SAFETY: segments stay for as long as the log.
        unsafe {
            if self.index.get() == LENGTH {
                let old = self.segment.get();
                // Acquire: the segment was cleared before it was appended.
                let next = (*old).next.load(Acquire);
                if next.is_null() {
                    return Word::NONE;
                }
                self.segment.set(next);
                self.number.set(self.number.get() + 1);
                self.index.set(0);
                left(old);
            }
            // Acquire: the operation's word says "pushed" if nobody has taken it.
            Word((*self.segment.get()).entries[self.index.get()].load(mutate!("log-read-relaxed": Relaxed, Acquire)))
        }
    }

    fn step(&self) {
        self.index.set(self.index.get() + 1);
    }
}

impl Log {
    pub fn new() -> Log {
        let first = Segment::new();
        Log {
            pusher: CachePadded::new(Cursor::at(first)),
            worker: CachePadded::new(Cursor::at(first)),
            come: AtomicU64::new(0),
            at: AtomicPtr::new(first),
            scanned: AtomicU64::new(0),
            scanned_at: AtomicPtr::new(first),
            spares: CachePadded::new(AtomicPtr::new(null_mut())),
        }
    }

    /// Appends an operation, whose word says "pushed". Allocates if the worker is further behind
    /// than ever before.
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
            let entry = &(*cursor.segment.get()).entries[cursor.index.get()];
            entry.store(operation.0, mutate!("logged-relaxed": Relaxed, Release));
        }
        cursor.step();
    }

    /// Operations that were ever pushed: for who pushes.
    pub fn pushed(&self) -> u64 {
        self.pusher.position()
    }

    /// How far the worker has come, as others see it.
    pub fn come(&self) -> u64 {
        self.come.load(Relaxed)
    }

    #[cold]
    unsafe fn extend(&self, cursor: &Cursor) {
        // SAFETY: a segment that was handed back is ours: only thieves may still look at it, at
        // what is atomic.
        unsafe {
            let mut segment = self.spares.swap(null_mut(), Acquire);
            if segment.is_null() {
                segment = Segment::new();
            } else {
                self.keep((*segment).spare.get());
            }
            let number = cursor.number.get() + 1;
            (*segment).number.store(number, Relaxed);
            (*segment).next.store(null_mut(), Relaxed);
            (*segment).entries.iter().for_each(|entry| entry.store(0, Relaxed));
            // Release: who goes on to it finds it empty.
            (*cursor.segment.get()).next.store(segment, Release);
            cursor.segment.set(segment);
            cursor.number.set(number);
            cursor.index.set(0);
        }
    }

    /// Puts a list of spare segments back.
    unsafe fn keep(&self, first: *mut Segment) {
        // SAFETY: the list is ours.
        unsafe {
            let mut next = first;
            while !next.is_null() {
                let segment = next;
                next = (*segment).spare.get();
                self.hand_back(segment);
            }
        }
    }

    /// Hands a segment back, for the pusher to use again.
    unsafe fn hand_back(&self, segment: *mut Segment) {
        let mut head = self.spares.load(Relaxed);
        loop {
            // SAFETY: ours until the exchange.
            unsafe { (*segment).spare.set(head) };
            match self.spares.compare_exchange(head, segment, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes the next operation that nobody has taken; `None` if there is none.
    ///
    /// # Safety
    /// The caller is the worker.
    #[inline]
    pub unsafe fn take_next(&self) -> Option<*mut Block> {
        let cursor = &*self.worker;
        loop {
            // SAFETY: the worker's cursor is ours, and what it has left nobody else will append to.
            let operation = unsafe {
                cursor.look(|left| {
                    self.at.store(cursor.segment.get(), Release);
                    self.hand_back(left);
                })
            };
            if operation == Word::NONE {
                return None;
            }
            // SAFETY: as above.
            unsafe { fetch_ahead(cursor) };
            cursor.step();
            // Thieves go on from here. Relaxed: what they find is taken by its tag.
            self.come.store(cursor.position(), Relaxed);
            if let Some(block) = take(operation) {
                return Some(block);
            }
        }
    }

    /// Whether the worker finds an entry that it has not come to.
    ///
    /// # Safety
    /// The caller is the worker.
    pub fn has_next(&self) -> bool {
        let cursor = &*self.worker;
        // SAFETY: segments stay for as long as the log.
        unsafe {
            let segment = cursor.segment.get();
            match (*segment).entries.get(cursor.index.get()) {
                Some(entry) => entry.load(Acquire) != 0,
                None => !(*segment).next.load(Acquire).is_null(),
            }
        }
    }

    /// The first operation that anybody could take; [`Word::NONE`] if there is none. For any
    /// thread.
    ///
    /// What lies before `scanned` has been taken: nobody looks at it twice, however long the worker
    /// stands still.
    pub fn find(&self) -> Word {
        let (come, scanned) = (self.come.load(Relaxed), self.scanned.load(Relaxed));
        let hint = if scanned > come { &self.scanned_at } else { &self.at };
        let start = scanned.max(come);
        // SAFETY: segments stay for as long as the log. One that is appended anew meanwhile has
        // entries by which nothing is taken that was not pushed; the worker has then come further
        // than what is noted here.
        unsafe {
            let mut segment = hint.load(Acquire);
            let mut number = start / LENGTH as u64;
            let mut index = (start % LENGTH as u64) as usize;
            if (*segment).number.load(Relaxed) != number {
                segment = self.at.load(Acquire);
                number = (*segment).number.load(Relaxed);
                index = 0;
            }
            loop {
                if index == LENGTH {
                    let next = (*segment).next.load(Acquire);
                    if next.is_null() {
                        return Word::NONE;
                    }
                    (segment, number, index) = (next, number + 1, 0);
                }
                let operation = Word((*segment).entries[index].load(Acquire));
                if operation == Word::NONE || is_untaken(operation) {
                    self.scanned_at.store(segment, Release);
                    self.scanned.store(number * LENGTH as u64 + index as u64, Relaxed);
                    return operation;
                }
                index += 1;
            }
        }
    }
}

/// Asks for the block of an operation that the worker will soon come to.
#[inline]
unsafe fn fetch_ahead(cursor: &Cursor) {
    // SAFETY: the segment is the log's.
    let ahead = unsafe { &(*cursor.segment.get()).entries }.get(cursor.index.get() + AHEAD);
    if let Some(ahead) = ahead {
        let block = Word(ahead.load(Relaxed)).block();
        fetch_to_write(block);
        fetch_to_write(block.cast::<u8>().wrapping_add(crate::line::LINE));
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let mut next = self.worker.segment.get();
        // Relaxed: dropped by the last who has the log.
        let mut spare = self.spares.load(Relaxed);
        // SAFETY: nobody uses the log any more; every segment is in the chain from the worker's on,
        // or was handed back.
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
