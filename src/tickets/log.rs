//! A log: references to operations, from one thread that pushes to one worker, in push order.
//!
//! A chain of segments. The pusher appends, and uses segments again from the front of the chain, as
//! soon as all in them has been taken: the worker says how far it has come, and those who look for
//! what others leave say how far they have looked. Nobody is waited for. So whoever stands in a
//! segment may find it further back in the log when they go on, and the numbers of segments tell:
//! "nothing more" counts only if the segment still has the number that it had.
//!
//! What is in an entry may be old, or of a later place in the log. An operation is taken by its
//! tag, so an old entry is one that somebody has taken, and any other is as good as the next.

use super::run::{is_untaken, take};
use super::word::Word;
use crate::line::fetch_to_write;
use crate::mutants::{mutant, mutate};
use crate::operation::block::Block;
use crate::sync::{fence, AtomicPtr, AtomicU64, Ordering::*, MODELLED};
use crossbeam_utils::CachePadded;
use std::array::from_fn;
use std::cell::Cell;
use std::ptr::null_mut;

/// Entries of a segment.
const LENGTH: usize = if MODELLED { 2 } else { 512 };
/// So many entries ahead of the one that is taken, the worker asks for the block.
const AHEAD: usize = 6;

/// Entries that [`Log::find_ahead`] looks at.
const PROBED: usize = 16;

struct Segment {
    entries: [AtomicU64; LENGTH],
    next: AtomicPtr<Segment>,
    /// Which one it is in the log, counted from 0; [`SPARE`] if it is not in the log. It never has
    /// a number twice.
    number: AtomicU64,
    /// The next of the pusher's spare ones.
    spare: Cell<*mut Segment>,
}

/// Behind every number.
const SPARE: u64 = u64::MAX;
/// The most segments that the pusher takes off the front when it needs one: a long chain gets
/// short.
const AT_ONCE: usize = 2;

/// Entries that the pusher looks at for that at most: it gets on, even if others have taken all.
const SCANNED: usize = 2 * LENGTH;

/// Where somebody stands in a log. What lies before it has been taken.
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
    chain: CachePadded<Chain>,
}

/// What the pusher knows of its segments.
struct Chain {
    /// The first of the log: nothing before it is untaken.
    oldest: AtomicPtr<Segment>,
    /// Those that are not in the log.
    spares: Cell<*mut Segment>,
}

// SAFETY: the pusher's cursor and its spare segments are used by one pushing thread at a time, the
// worker's cursor by its worker; the rest is atomic.
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
    fn at(segment: *mut Segment, number: u64, index: usize) -> Cursor {
        Cursor { segment: Cell::new(segment), number: Cell::new(number), index: Cell::new(index) }
    }

    fn go_to(&self, other: Cursor) {
        self.segment.set(other.segment.get());
        self.number.set(other.number.get());
        self.index.set(other.index.get());
    }

    /// Entries before it.
    fn position(&self) -> u64 {
        self.number.get() * LENGTH as u64 + self.index.get() as u64
    }

    /// The entry under the cursor, [`Word::NONE`] if there is none yet. Goes on to the next segment
    /// if it has to, and then calls `entered`. That there is none only counts if the cursor
    /// [is in place](Cursor::is_in_place).
    ///
    /// # Safety
    /// The cursor stands in a segment of a log that is there.
    #[inline]
    unsafe fn look(&self, entered: impl FnOnce()) -> Word {
        // SAFETY: segments stay for as long as the log.
        unsafe {
            if self.index.get() == LENGTH {
                // Acquire: the segment was cleared before it was appended. And what is behind
                // another place of ours brings its number.
                let next = (*self.segment.get()).next.load(Acquire);
                if next.is_null() || !self.is_in_place() {
                    return Word::NONE;
                }
                self.go_to(Cursor::at(next, self.number.get() + 1, 0));
                entered();
            }
            // Acquire: the operation's word says "pushed" if nobody has taken it. And an entry that
            // was cleared brings the number.
            Word((*self.segment.get()).entries[self.index.get()].load(mutate!("log-read-relaxed": Relaxed, Acquire)))
        }
    }

    /// Whether the segment has not been used again since the cursor came to it.
    ///
    /// # Safety
    /// As [`Cursor::look`].
    #[inline]
    unsafe fn is_in_place(&self) -> bool {
        // Relaxed: what was found before has brought the number, if it is of another place.
        // SAFETY: segments stay for as long as the log.
        unsafe { (*self.segment.get()).number.load(Relaxed) == self.number.get() }
    }

    fn step(&self) {
        self.index.set(self.index.get() + 1);
    }
}

impl Log {
    pub fn new() -> Log {
        let first = Segment::new();
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
        // SAFETY: the cursor and the spare segments are ours. Whoever still stands in one of them
        // looks at what is atomic, and finds by the number that it has no place there.
        unsafe {
            self.take_off_the_front(cursor);
            if self.chain.spares.get().is_null() {
                // Who waits takes operations out of the middle, and the worker may have no core.
                self.find_within(SCANNED);
                self.take_off_the_front(cursor);
            }
            let mut segment = self.chain.spares.get();
            if segment.is_null() {
                segment = Segment::new();
            } else {
                self.chain.spares.set((*segment).spare.get());
            }
            let number = cursor.number.get() + 1;
            // Who finds it cleared finds that it has no number, or a later one.
            mutate!("cleared-without-a-fence": (), fence(Release));
            if mutant("numbered-before-it-is-cleared") {
                (*segment).number.store(number, Release);
            }
            (*segment).next.store(null_mut(), Relaxed);
            (*segment).entries.iter().for_each(|entry| entry.store(0, Relaxed));
            // Release: who finds its number finds it cleared.
            (*segment).number.store(number, mutate!("numbered-relaxed": Relaxed, Release));
            // Release: who goes on to it finds it empty.
            (*cursor.segment.get()).next.store(segment, Release);
            cursor.go_to(Cursor::at(segment, number, 0));
        }
    }

    /// Takes segments off the front of the chain in which all has been taken.
    unsafe fn take_off_the_front(&self, cursor: &Cursor) {
        // Relaxed: what has been taken stays so, whoever hears of it when.
        let taken = self.come.load(Relaxed).max(self.scanned.load(Relaxed));
        let full = mutate!("used-again-before-all-is-taken": taken.div_ceil(LENGTH as u64), taken / LENGTH as u64);
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
                (*oldest).number.store(SPARE, mutate!("taken-off-relaxed": Relaxed, Release));
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
                if unsafe { mutate!("none-wherever-that-is": true, cursor.is_in_place()) } {
                    return None;
                }
                self.come_after(cursor);
                continue;
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
                if operation == Word::NONE && mutate!("nothing-found-wherever-that-is": false, !cursor.is_in_place()) {
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
        cursor.index.set(cursor.index.get() + ahead);
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
        // Relaxed: what has been taken stays so, whoever hears of it when.
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
                if mutate!("oldest-not-looked-at-again": number != SPARE, still) {
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
