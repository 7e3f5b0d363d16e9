//! What a pusher does with variables that it owns: plain loads and stores.

use crate::operation::access::{Access, Mode};
use crate::operation::block::Block;
use crate::platform::asymmetric_fence::light;
use crate::sync::{AtomicU64, Ordering::*};
use crate::tickets::owner::number::{Number, PUSHER_BITS};
use crate::tickets::owner::place::Place;
use crate::tickets::owner::share::Share;
use crate::tickets::run::Variables;
use crate::tickets::word::Word;
use crate::util::bucket_array::{BucketArray, Vacant};
use std::cell::Cell;

/// An operation with common variables.
pub(super) const LINKED: u64 = 1;

/// Everything about one pusher. Of the numbers, its own thread writes all but `limit` and
/// `decided`.
pub struct Record {
    /// The push that was committed last, or is about to be: the era may end before.
    pub(super) commit: AtomicU64,
    /// A push that has this number or a larger one looks further. Within the era: its last, or,
    /// when somebody has closed it, its first.
    pub(super) limit: AtomicU64,
    /// Which push is the era's last. [`Number::before`] the era: undecided.
    pub(super) decided: AtomicU64,
    /// The operations of the last two pushes, in place of their stages [`LINKED`] or 0.
    pub(super) operations: [AtomicU64; 2],
    /// The start of the era, [`Number::NEVER`] when it has ended. The pusher's.
    pub(super) start: Cell<Number>,
    /// The push that was begun last, whatever has come of it; or, if a place was begun after that,
    /// the one that would be next. The pusher's.
    pub(super) begun: Cell<Number>,
    /// What was committed when [`Pusher::pushed_since`] was last asked. The pusher's.
    asked: Cell<Number>,
    /// Which pusher it is.
    pub(super) index: u32,
    pub(super) places: BucketArray<Place>,
    /// Those of variables that it shares, or has shared.
    pub(super) shares: BucketArray<Share>,
}

// SAFETY: zeros are the atomics of `Place::new`; it needs no destructor.
unsafe impl Vacant for Place {
    const NAME: &'static str = "place";

    fn vacant() -> Place {
        Place::new()
    }
}

// SAFETY: `start`, `begun` and `asked` are used through `Pusher` alone, of which there is one at a
// time; the rest is atomic.
unsafe impl Sync for Record {}

/// The pusher itself: the one thread at a time that pushes with a record.
pub struct Pusher<'a> {
    pub(super) record: &'a Record,
}

/// A push under way. Nothing has happened until it is committed; if it is dropped, nothing will
/// have.
pub struct Push<'a> {
    record: &'a Record,
    number: Number,
    start: Number,
    block: *mut Block,
    this: Word,
    /// Accesses that are linked, and behind which others are claimed.
    linked: u32,
    claimed: u32,
}

impl Record {
    /// Of pusher `index`, which owns nothing.
    pub fn new(index: u32) -> Record {
        assert!(index < 1 << PUSHER_BITS, "more pushers than a variable can name");
        let word = |number: Number| AtomicU64::new(number.0);
        Record {
            commit: word(Number::start(1)),
            limit: word(Number::limit(1)),
            decided: word(Number::before(1)),
            operations: [AtomicU64::new(0), AtomicU64::new(0)],
            start: Cell::new(Number::start(1)),
            begun: Cell::new(Number::NONE),
            asked: Cell::new(Number::NONE),
            index,
            places: BucketArray::new(),
            shares: BucketArray::new(),
        }
    }

    /// The pusher of this record.
    ///
    /// # Safety
    /// One at a time, each ordered after the one before.
    #[inline]
    pub unsafe fn pusher(&self) -> Pusher<'_> {
        Pusher { record: self }
    }
}

impl<'a> Pusher<'a> {
    /// Begins to push the operation `this`, whose first `linked` accesses are of common variables.
    ///
    /// # Safety
    /// `this` refers to `block`, a fresh operation of the caller's with room for its accesses;
    /// nobody else knows it. It has [`Links`](crate::tickets::links::Links) for the first ones.
    #[inline]
    pub unsafe fn push(&mut self, block: *mut Block, this: Word, linked: u32) -> Push<'_> {
        let record = self.record;
        let number = record.begin();
        Push { record, number, start: record.start.get(), block, this, linked, claimed: 0 }
    }

    /// Whether every write of a variable that was pushed has ended, if the pusher owns or shares
    /// it.
    pub fn is_quiet(&self, variable: u32, generation: u32, variables: &impl Variables) -> Option<bool> {
        let place = self.place(variable, generation)?;
        Some(variables.progress(variable).has_written(place.writes()))
    }

    /// The last write of a variable, if the pusher owns or shares it. [`Word::NONE`]: it has none.
    pub fn last_write(&self, variable: u32, generation: u32) -> Option<Word> {
        self.place(variable, generation).map(Place::last)
    }

    /// The operation that was committed last, if it was since this was last asked. It may have
    /// ended, or been withdrawn; then it may be the one before.
    pub fn pushed_since(&mut self) -> Option<Word> {
        let record = self.record;
        let last = Number(record.commit.load(Relaxed));
        let is_new = record.asked.replace(last) != last && last.is_push();
        let operation = Word(record.operations[last.parity()].load(Relaxed));
        // One that only reads and ran inside its push has no word.
        (is_new && operation != Word::NONE).then_some(operation)
    }

    /// Its place for a variable, if it owns or shares that.
    fn place(&self, variable: u32, generation: u32) -> Option<&Place> {
        let record = self.record;
        let start = record.start.get();
        // If the era is closed, another may have pushed. Relaxed: if we know of that push, then we
        // know that the era is closed.
        let is_open = start.0 < record.limit.load(Relaxed);
        let place = record.places.get(variable)?;
        (is_open && place.is_owned(start, generation, Mode::Read)).then_some(place)
    }

    /// Whether the pusher owns the variable; or shares it, if it is to be read.
    #[inline]
    pub fn owns(&self, variable: u32, generation: u32, mode: Mode) -> bool {
        let place = self.record.places.get(variable);
        place.is_some_and(|place| place.is_owned(self.record.start.get(), generation, mode))
    }

    /// Makes a place for each variable up to this number, and touches its memory.
    pub fn prepare(&self, variable: u32) {
        const PAGE: usize = 4096;
        for index in (0..=variable).step_by(PAGE / size_of::<Place>()) {
            if let Some(place) = self.record.places.get_or_add(index) {
                place.touch();
            }
        }
    }

    /// Nobody uses the variable after the push before this call, which deletes it.
    pub fn forget(&mut self, variable: u32) {
        if let Some(place) = self.record.places.get(variable) {
            place.forget();
        }
    }
}

impl Push<'_> {
    /// Gives the next access of the operation its ticket, and counts it, if the pusher owns the
    /// variable. If not, [acquire](Pusher::acquire) it, and start over.
    ///
    /// A variable is claimed once in a push.
    #[inline]
    pub fn claim(&mut self, variable: u32, generation: u32, mode: Mode) -> bool {
        let Some(place) = self.record.places.get(variable) else { return false };
        let counted = place.count((self.start, self.number), generation, mode, self.this);
        let Some((ticket, before, _)) = counted else { return false };
        let index = self.linked + self.claimed;
        // SAFETY: the block is ours, and has room, by the contract of `push`.
        unsafe {
            Block::access(self.block, index).write(Access::new(variable, index, mode, ticket));
            Block::before(self.block, index).write(AtomicU64::new(before.0));
        }
        self.claimed += 1;
        true
    }

    /// Commits the push: the operation has its tickets, and the caller finishes it: common
    /// variables first, if there are any, then a log. `false`: nothing has happened. Start over:
    /// what was owned may be common.
    ///
    /// Not for a push that has claimed nothing, which has nothing to commit: drop it.
    ///
    /// The operation is written, its word included: others may finish it from now on. The caller
    /// finishes it before it begins another push.
    ///
    /// Once, and nothing is claimed after it. By reference: a move of the push would wait until all
    /// that was written before is in the cache, the operation's lines included, which another core
    /// has. After a `false` it is dropped before its block is given away.
    #[inline]
    #[must_use]
    pub fn commit(&mut self) -> bool {
        debug_assert!(self.claimed > 0, "nothing is owned");
        let noted = if self.linked > 0 { self.this.at(LINKED) } else { self.this };
        let committed = self.record.commit(self.number, noted);
        if committed {
            // Nothing is to be taken back.
            self.claimed = 0;
        }
        committed
    }
}

impl Record {
    /// The number of a push that begins. It may have been another's, of which nothing is left.
    #[inline(always)]
    pub(super) fn begin(&self) -> Number {
        let number = Number(self.commit.load(Relaxed)).next();
        self.begun.set(number);
        number
    }

    /// Commits a push; says whether it has happened. `noted`: its operation, as `operations` says.
    #[inline]
    pub(super) fn commit(&self, number: Number, noted: Word) -> bool {
        // Release: who finds a later one than he looks for finds that the era is over.
        self.operations[number.parity()].store(noted.0, Release);
        // Release: who decides for this push finds its places and its operation.
        self.commit.store(number.0, Release);
        // Against the heavy one in `end_of`: either we see that the era is closed, or who closes it
        // sees the push.
        light();
        number.0 < self.limit.load(Relaxed) || self.decide(number)
    }

    /// The era ends with this push or the one before.
    #[cold]
    fn decide(&self, number: Number) -> bool {
        self.end_with(number) >= number
    }

    /// The era ends with this push, unless another end was decided; says with which.
    fn end_with(&self, last: Number) -> Number {
        let undecided = Number::before(last.era()).0;
        // Release: as the store of `commit`. Acquire: what was decided before.
        let decided = match self.decided.compare_exchange(undecided, last.0, AcqRel, Acquire) {
            Ok(_) => last,
            Err(other) => Number(other),
        };
        // Acknowledged by the next `acquire`, which any claim leads to: what was pushed until then
        // is finished, or void.
        self.start.set(Number::NEVER);
        decided
    }

    /// Takes back the last push, which was committed, and whose operation has run; says whether it
    /// is as if there had been no such push. Its states are to be withdrawn then.
    ///
    /// It stands if somebody may have been given a ticket since, or if the states before it are
    /// gone: another push was begun, or a place, or the era has ended with it.
    #[inline]
    pub(super) fn withdraw(&self, number: Number) -> bool {
        if self.begun.get() != number {
            return false;
        }
        let before = number.before_it();
        // Release: who decides for the push before finds what the operation did. (No model can show
        // that: in loom's, the fences bring it as well.)
        self.commit.store(before.0, Release);
        // Against the heavy one in `end_of`: either we see that the era is closed, or who closes it
        // sees that the push is gone.
        light();
        number.0 < self.limit.load(Relaxed) || self.withdraw_last(number)
    }

    /// The era is closed: it ends before this push, unless it was decided that it ends with it.
    #[cold]
    #[inline(never)]
    fn withdraw_last(&self, number: Number) -> bool {
        self.end_with(number.before_it()) < number
    }
}

impl Drop for Push<'_> {
    /// Takes back what was counted.
    fn drop(&mut self) {
        for index in self.linked..self.linked + self.claimed {
            // SAFETY: written by `claim`; the block is ours.
            let variable = unsafe { (*Block::access(self.block, index)).variable };
            if let Some(place) = self.record.places.get(variable) {
                place.void(self.number);
            }
        }
    }
}

impl Record {
    /// Ends the era, for the pusher itself, with its last push.
    pub(super) fn end_own(&self) {
        // A push whose operation runs now stands.
        self.begun.set(Number::NONE);
        self.end_with(Number(self.commit.load(Relaxed)));
    }

    /// Begins an era, if one is left, after the one that has ended: its end was decided, and all
    /// that it has not committed is void.
    pub(super) fn open(&self) -> bool {
        // Relaxed: it was decided by us or seen by us, and only we go on from there.
        let Some(era) = Number(self.decided.load(Relaxed)).next_era() else { return false };
        let [before, start, limit] = [Number::before(era), Number::start(era), Number::limit(era)];
        // Release: who finds that the era before is over finds its places as it has left them.
        self.decided.store(before.0, Release);
        // Relaxed: nobody asks for it who has not found a variable that is owned in the new era.
        self.commit.store(start.0, Relaxed);
        self.limit.store(limit.0, Relaxed);
        self.start.set(start);
        // Its numbers are not those of a push whose operation runs now, which stands.
        self.begun.set(Number::NONE);
        true
    }
}
