//! Segments of a log, and cursors that stand in them. Only `log.rs` uses them, and argues the
//! protocol.
//!
//! Each cache line of entries ends with a *mark*, a word that is never read. The worker writes it
//! when it has taken an entry of the line: [`crate::platform::cache_line`] says what that saves the
//! pusher.

use crate::platform::cache_line::{fetch_to_write, LINE};
use crate::sync::{AtomicPtr, AtomicU64, Ordering::*, MODELLED};
use crate::tickets::word::Word;
use std::array::from_fn;
use std::cell::Cell;
use std::mem::size_of;
use std::ptr::null_mut;

/// The length of a segment in words: 448 entries and 64 marks.
pub(super) const LENGTH: usize = if MODELLED { 2 } else { 512 };
/// When the worker takes an entry, it prefetches the block that is named so many entries later.
const BLOCKS_AHEAD: usize = 6;
/// Words of a cache line, of which the last is the mark. In models there are no lines.
const WORDS: usize = LINE / size_of::<u64>();
const _: () = assert!(MODELLED || LENGTH % WORDS == 0);

/// A part of a log. The pusher alone writes the entries, `next` and `number`, and touches `spare`.
/// Any thread that looks into the log reads them. The worker writes only marks.
#[cfg_attr(not(any(loom, shuttle)), repr(C, align(64)))]
pub(super) struct LogSegment {
    entries: [AtomicU64; LENGTH],
    pub next: AtomicPtr<LogSegment>,
    /// The segment's number in the log, counted from 0; above all numbers if it is not in the log.
    /// A segment never has a number twice.
    pub number: AtomicU64,
    /// The next of the pusher's spare segments.
    pub spare: Cell<*mut LogSegment>,
}

/// A position in a log. All operations before it have been taken. A cursor belongs to one thread:
/// the pusher, the worker, or another thread that looks.
pub(super) struct Cursor {
    pub segment: Cell<*mut LogSegment>,
    pub number: Cell<u64>,
    /// The index in the segment, never that of a mark.
    pub index: Cell<usize>,
}

impl LogSegment {
    pub fn new() -> *mut LogSegment {
        Box::into_raw(Box::new(LogSegment {
            entries: from_fn(|_| AtomicU64::new(0)),
            next: AtomicPtr::new(null_mut()),
            number: AtomicU64::new(0),
            spare: Cell::new(null_mut()),
        }))
    }

    /// Makes the segment empty.
    pub fn clear(&self) {
        self.entries.iter().for_each(|entry| entry.store(0, Relaxed));
    }
}

/// The index, or the next one if the index is a mark's.
#[inline]
fn beside_marks(index: usize) -> usize {
    index + usize::from(!MODELLED && index % WORDS == WORDS - 1)
}

/// The index of the entry that comes [`BLOCKS_AHEAD`] entries after the one at `index`.
#[inline]
fn ahead_of(index: usize) -> usize {
    // At most one mark is between the two.
    const { assert!(BLOCKS_AHEAD < WORDS) };
    index + BLOCKS_AHEAD + usize::from(!MODELLED && index % WORDS + BLOCKS_AHEAD >= WORDS - 1)
}

impl Cursor {
    #[inline]
    pub fn at(segment: *mut LogSegment, number: u64, index: usize) -> Cursor {
        Cursor { segment: Cell::new(segment), number: Cell::new(number), index: Cell::new(index) }
    }

    #[inline]
    pub fn go_to(&self, other: Cursor) {
        self.segment.set(other.segment.get());
        self.number.set(other.number.get());
        self.index.set(other.index.get());
    }

    /// The number of entries and marks before the cursor.
    #[inline]
    pub fn position(&self) -> u64 {
        self.number.get() * LENGTH as u64 + self.index.get() as u64
    }

    /// Goes to the next entry.
    #[inline]
    pub fn step(&self) {
        self.index.set(beside_marks(self.index.get() + 1));
    }

    /// Goes on by so many entries.
    pub fn step_by(&self, entries: usize) {
        let index = self.index.get();
        self.index.set(if MODELLED {
            index + entries
        } else {
            let entry = index / WORDS * (WORDS - 1) + index % WORDS + entries;
            entry / (WORDS - 1) * WORDS + entry % (WORDS - 1)
        });
    }

    /// The entry under the cursor, which is not behind the last of its segment.
    ///
    /// # Safety
    /// The cursor stands in a segment of a log that is there, and stays.
    #[inline]
    pub unsafe fn entry(&self) -> &AtomicU64 {
        // SAFETY: by the contract.
        unsafe { &(*self.segment.get()).entries[self.index.get()] }
    }

    /// The reference under the cursor; [`Word::NONE`] if there is none yet. If the cursor is at the
    /// end of its segment, it first goes on to the next one, and calls `entered`. `NONE`
    /// means that there is nothing yet only if [`Cursor::is_in_place`] returns `true`; else the
    /// segment has been used again.
    ///
    /// # Safety
    /// As [`Cursor::entry`], but the cursor may be behind the last entry.
    #[inline]
    pub unsafe fn look(&self, entered: impl FnOnce()) -> Word {
        // SAFETY: segments stay for as long as the log.
        unsafe {
            if self.index.get() == LENGTH {
                // Acquire: pairs with the releases in `Log::extend`: the segment was cleared before
                // it was appended. A thread that loads the new `next` of a segment that is used
                // again also sees its new number, so `is_in_place` returns `false`.
                let next = (*self.segment.get()).next.load(Acquire);
                if next.is_null() || !self.is_in_place() {
                    return Word::NONE;
                }
                self.go_to(Cursor::at(next, self.number.get() + 1, 0));
                entered();
            }
            // Acquire: pairs with the release in `Log::push`: the operation's word says "pushed" if
            // no thread has taken it. And an entry that was cleared brings the segment's new
            // number.
            Word(self.entry().load(Acquire))
        }
    }

    /// Whether the segment has not been used again since the cursor came to it.
    ///
    /// # Safety
    /// As [`Cursor::look`].
    #[inline]
    pub unsafe fn is_in_place(&self) -> bool {
        // Relaxed: if the entry or `next` that was found before belongs to a later use of the
        // segment, the acquiring load has brought the later number.
        // SAFETY: segments stay for as long as the log.
        unsafe { (*self.segment.get()).number.load(Relaxed) == self.number.get() }
    }

    /// Writes the mark of the line under the cursor. The segment may have been used again: marks
    /// are never read, so that does no harm.
    ///
    /// # Safety
    /// As [`Cursor::entry`].
    #[inline]
    pub unsafe fn mark(&self) {
        if !MODELLED {
            // SAFETY: segments stay for as long as the log.
            unsafe { (&(*self.segment.get()).entries)[self.index.get() | (WORDS - 1)].store(0, Relaxed) };
        }
    }

    /// Prefetches the block of the operation that lies [`BLOCKS_AHEAD`] entries behind the one
    /// under the cursor, if that is in the same segment.
    ///
    /// # Safety
    /// As [`Cursor::look`].
    #[inline]
    pub unsafe fn fetch_ahead(&self) {
        // SAFETY: segments stay for as long as the log.
        let ahead = unsafe { &(*self.segment.get()).entries }.get(ahead_of(self.index.get()));
        if let Some(ahead) = ahead {
            let block = Word(ahead.load(Relaxed)).block();
            fetch_to_write(block);
            fetch_to_write(block.cast::<u8>().wrapping_add(LINE));
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_meets_each_entry_and_no_mark() {
        let segment = LogSegment::new();
        let (one, many) = (Cursor::at(segment, 3, 0), |entries| {
            let cursor = Cursor::at(segment, 3, 0);
            cursor.step_by(entries);
            cursor.index.get()
        });
        let mut entries = 0;
        while one.index.get() < LENGTH {
            assert_ne!(one.index.get() % WORDS, WORDS - 1, "it stands on a mark");
            assert_eq!(many(entries), one.index.get());
            assert_eq!(many(entries + BLOCKS_AHEAD), ahead_of(one.index.get()));
            // SAFETY: the segment is there; the cursor is before its end.
            unsafe {
                assert_eq!(one.entry().swap(1, Relaxed), 0, "it is a mark, or was met before");
                one.mark();
            }
            one.step();
            entries += 1;
        }
        assert_eq!((entries, many(entries), one.position()), (LENGTH / WORDS * (WORDS - 1), LENGTH, 4 * LENGTH as u64));
        // SAFETY: made by `new`, and used no more.
        drop(unsafe { Box::from_raw(segment) });
    }
}
