//! A pusher and its record: claims, commits and withdrawals of pushes to variables that the pusher
//! owns, by plain loads and stores.
//!
//! Used by `engine/push/` ([`Push`]), `engine/inline/fast_path.rs`, `engine/wait/`, `at_once.rs`,
//! `handover.rs` and `sharing.rs`. Only the pusher's own thread runs this file. Other threads read
//! the [`Record`]: newcomers, which also close its eras (`handover.rs`), and threads that wait. The
//! light fences of `Record::commit` and `Record::withdraw` pair with the heavy ones in
//! `Record::end_of` (`handover.rs`) and `end_share` (`sharing.rs`).

use crate::operation::access::{Access, Mode};
use crate::operation::block::Block;
use crate::platform::asymmetric_fence::light;
use crate::sync::{AtomicU64, Ordering::*};
use crate::tickets::owner::number::{Number, PUSHER_BITS};
use crate::tickets::owner::place::Place;
use crate::tickets::owner::share::Share;
use crate::tickets::run::Variables;
use crate::tickets::word::Word;
use crate::util::bucket_array::{BucketArray, Location, Vacant};
use std::cell::Cell;

/// Noted beside an operation that has common variables, as its stage.
pub(super) const LINKED: u64 = 1;

/// Everything about one pusher. Only the pusher's own thread writes the numbers, except `limit` and
/// `decided`, which other pushers write as well.
pub struct Record {
    /// The number of the push that was committed last, or that is about to be: the era may end
    /// before it.
    pub(super) commit: AtomicU64,
    /// A push that has this number or a larger one has to look at `decided`. [`Number::limit`] in
    /// an open era, which is its last push; [`Number::before`] in an era that another pusher has
    /// closed, which is smaller than all its pushes.
    pub(super) limit: AtomicU64,
    /// The number of the era's last push. [`Number::before`] the era: undecided.
    pub(super) decided: AtomicU64,
    /// The operations of the last two pushes, by parity. Instead of its stage, each reference has
    /// [`LINKED`] or 0.
    pub(super) operations: [AtomicU64; 2],
    /// The start of the era, or [`Number::NEVER`] when the era has ended. Used by the pusher alone.
    pub(super) start: Cell<Number>,
    /// The number of the push that was begun last, whatever has come of it. If a place was begun
    /// after that: the number that the next push would have. Used by the pusher alone.
    pub(super) begun: Cell<Number>,
    /// The value of `commit` when [`Pusher::pushed_since`] was last called. Used by the pusher
    /// alone.
    asked: Cell<Number>,
    /// The pusher's number, which variables name it by.
    pub(super) index: u32,
    pub(super) places: BucketArray<Place>,
    /// Its parts in the shares of variables that it shares, or has shared. Other pushers note there
    /// which variables they want.
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

/// The owner's side of a record: the one thread at a time that pushes with it.
pub struct Pusher<'a> {
    pub(super) record: &'a Record,
}

/// A push under way. Nothing has happened until it is committed. If it is dropped before, nothing
/// will have happened.
pub struct Push<'a> {
    record: &'a Record,
    number: Number,
    start: Number,
    block: *mut Block,
    this: Word,
    /// How many accesses are linked. The claimed accesses come behind them.
    linked: u32,
    claimed: u32,
}

impl Record {
    /// The record of pusher `index`, which owns nothing.
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
    /// There is one pusher of a record at a time, and each is ordered after the one before.
    #[inline]
    pub unsafe fn pusher(&self) -> Pusher<'_> {
        Pusher { record: self }
    }
}

impl<'a> Pusher<'a> {
    /// Begins to push the operation `this`, whose first `linked` accesses are of common variables.
    ///
    /// # Safety
    /// The push before this one is over. `this` refers to `block`, a fresh operation of the
    /// caller's with room for its accesses, which no other thread knows. The block has
    /// [`Links`](crate::tickets::links::Links) for the first `linked` accesses.
    #[inline]
    pub unsafe fn push(&mut self, block: *mut Block, this: Word, linked: u32) -> Push<'a> {
        let record = self.record;
        let number = record.begin();
        Push { record, number, start: record.start.get(), block, this, linked, claimed: 0 }
    }

    /// Whether every write of a variable that was pushed has ended. `None`: the pusher neither owns
    /// nor shares the variable; then [`Owner::is_quiet`](crate::tickets::owner::Owner::is_quiet)
    /// tells.
    pub fn is_quiet(&self, variable: u32, generation: u32, variables: &impl Variables) -> Option<bool> {
        let place = self.place(variable, generation)?;
        Some(variables.progress(variable).has_written(place.writes()))
    }

    /// The last write of a variable, if the pusher owns or shares it. [`Word::NONE`]: no write was
    /// pushed.
    pub fn last_write(&self, variable: u32, generation: u32) -> Option<Word> {
        self.place(variable, generation).map(Place::last)
    }

    /// The operation that was committed last, if it was committed since the last call. The
    /// operation may have ended, or its push may have been withdrawn; then the result may be the
    /// operation before.
    pub fn pushed_since(&mut self) -> Option<Word> {
        let record = self.record;
        let last = Number(record.commit.load(Relaxed));
        let is_new = record.asked.replace(last) != last && last.is_push();
        let operation = Word(record.operations[last.parity()].load(Relaxed));
        // An operation that only reads and ran inside its push has no word.
        (is_new && operation != Word::NONE).then_some(operation)
    }

    /// The place for a variable, if the pusher owns or shares the variable.
    fn place(&self, variable: u32, generation: u32) -> Option<&Place> {
        let record = self.record;
        let start = record.start.get();
        // If the era is closed, another pusher may have pushed to the variable.
        // Relaxed: if this thread has heard of such a push, it has also heard that the era is
        // closed.
        let is_open = start.0 < record.limit.load(Relaxed);
        let place = record.places.get(variable)?;
        (is_open && place.is_owned(start, generation, Mode::Read)).then_some(place)
    }

    /// Whether the pusher owns the variable, or, if the mode is a read, shares it.
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

    /// Forgets the place of a variable which the last push deletes: nobody uses the variable after
    /// that push.
    pub fn forget(&mut self, variable: u32) {
        if let Some(place) = self.record.places.get(variable) {
            place.forget();
        }
    }
}

impl Push<'_> {
    /// Gives the next access of the operation its ticket, and counts it, if the pusher owns the
    /// variable, or shares it and the access is a read. If the claim is refused, the caller
    /// [acquires](Pusher::acquire) the variable, and starts over. The same rule is in
    /// [`AtOnce::claim`](crate::tickets::owner::AtOnce::claim).
    ///
    /// A push claims a variable at most once.
    #[inline]
    pub fn claim(&mut self, variable: u32, generation: u32, mode: Mode) -> bool {
        self.claim_at(Location::of(variable), variable, generation, mode)
    }

    /// Like [`Push::claim`], for a variable whose location is known.
    #[inline]
    pub fn claim_at(&mut self, at: Location, variable: u32, generation: u32, mode: Mode) -> bool {
        let Some(place) = self.record.places.get_at(at) else { return false };
        let counted = place.count((self.start, self.number), generation, mode, self.this);
        let Some((ticket, before, _)) = counted else { return false };
        let index = self.linked + self.claimed;
        // SAFETY: the block is the caller's, and has room, by the contract of `push`.
        unsafe {
            Block::access(self.block, index).write(Access::new(variable, index, mode, ticket));
            Block::before(self.block, index).write(AtomicU64::new(before.0));
        }
        self.claimed += 1;
        true
    }

    /// Commits the push. `true`: the operation has its tickets, and the caller finishes it. It
    /// links the operation to its common variables, if there are any, and then puts it into a log.
    /// `false`: nothing has happened, and the caller starts over: what was owned may be common.
    ///
    /// A push that has claimed nothing has nothing to commit: the caller drops it instead.
    ///
    /// Before this call, the operation is written, its word included: other threads may finish it
    /// from now on. The caller finishes it before it begins another push.
    ///
    /// A push is committed once, and claims nothing after that. `commit` takes the push by
    /// reference: a move of the push would wait until all that was written before is in the cache,
    /// including the operation's lines, which another core has. After a `false`, the caller drops
    /// the push before it gives the block away.
    #[inline]
    #[must_use]
    pub fn commit(&mut self) -> bool {
        debug_assert!(self.claimed > 0, "nothing is owned");
        let noted = if self.linked > 0 { self.this.at(LINKED) } else { self.this };
        let committed = self.record.commit(self.number, noted);
        if committed {
            // The drop of the push takes nothing back.
            self.claimed = 0;
        }
        committed
    }
}

impl Record {
    /// The number of a push that begins. It may have been the number of an earlier push, of which
    /// nothing is left.
    #[inline(always)]
    pub(super) fn begin(&self) -> Number {
        let number = Number(self.commit.load(Relaxed)).next();
        self.begun.set(number);
        number
    }

    /// Commits a push; says whether it has happened. `noted`: the push's operation, as in
    /// `operations`. The same fence and rule are in [`Record::withdraw`].
    #[inline]
    pub(super) fn commit(&self, number: Number, noted: Word) -> bool {
        // Release: pairs with the acquire in `hand_over_from`. A newcomer that finds a later
        // operation than the one that it looks for also finds that the era is over.
        self.operations[number.parity()].store(noted.0, Release);
        // Release: pairs with the acquire in `end_of`. A newcomer that decides for this push finds
        // its places and its operation.
        self.commit.store(number.0, Release);
        // Light side of the asymmetric fence; the heavy sides are in `end_of` and `end_share`.
        // Either this push sees that the era is closed, or the newcomer that closes it sees the
        // push.
        light();
        number.0 < self.limit.load(Relaxed) || self.decide(number)
    }

    /// Decides that the closed era ends with this push, unless another end was decided; says
    /// whether the push has happened.
    #[cold]
    fn decide(&self, number: Number) -> bool {
        self.end_with(number) >= number
    }

    /// Ends the era with push `last`, unless another end was decided; returns the last push of the
    /// era.
    fn end_with(&self, last: Number) -> Number {
        let undecided = Number::before(last.era()).0;
        // Release: publishes what the store of `commit` publishes.
        // Acquire: pairs with the release of the newcomer that has decided before.
        let decided = match self.decided.compare_exchange(undecided, last.0, AcqRel, Acquire) {
            Ok(_) => last,
            Err(other) => Number(other),
        };
        // All further claims are refused, which leads to `acquire`. The next `acquire` acknowledges
        // the end: what was pushed until then is finished, or void.
        self.start.set(Number::NEVER);
        decided
    }

    /// Withdraws the last push, which was committed, and whose operation has run. Says whether it
    /// is as if there had been no such push; then the caller makes its states empty.
    ///
    /// The push stands if another push may have been given a ticket behind it, or if the states
    /// before it are gone. This is so if another push or a place was begun since, or if the era has
    /// ended with this push.
    #[inline]
    pub(super) fn withdraw(&self, number: Number) -> bool {
        if self.begun.get() != number {
            return false;
        }
        let before = number.before_it();
        // Release: pairs with the acquire in `end_of`. A newcomer that decides for the push before
        // finds what the operation did. (No model can show this: in loom's, the fences bring it as
        // well.)
        self.commit.store(before.0, Release);
        // Light side of the asymmetric fence; the heavy sides are in `end_of` and `end_share`.
        // Either this thread sees that the era is closed, or the newcomer that closes it sees that
        // the push is gone.
        light();
        number.0 < self.limit.load(Relaxed) || self.withdraw_last(number)
    }

    /// Decides that the closed era ends before this push, unless it was decided that it ends with
    /// it; says whether the push is gone.
    #[cold]
    #[inline(never)]
    fn withdraw_last(&self, number: Number) -> bool {
        self.end_with(number.before_it()) < number
    }
}

impl Drop for Push<'_> {
    /// Takes back what the push has counted, unless it was committed.
    fn drop(&mut self) {
        for index in self.linked..self.linked + self.claimed {
            // SAFETY: `claim` has written the access; the block is the caller's.
            let variable = unsafe { (*Block::access(self.block, index)).variable };
            if let Some(place) = self.record.places.get(variable) {
                place.void(self.number);
            }
        }
    }
}

impl Record {
    /// Ends the pusher's own era with its last push.
    pub(super) fn end_own(&self) {
        // A push whose operation runs now, inside it, stands.
        self.begun.set(Number::NONE);
        self.end_with(Number(self.commit.load(Relaxed)));
    }

    /// Begins an era after the one that has ended; says whether one was left. The end of the old
    /// era was decided, and all that it has not committed is void.
    pub(super) fn open(&self) -> bool {
        // Relaxed: this thread has decided it or seen the decision, and only this thread goes on to
        // another era.
        let Some(era) = Number(self.decided.load(Relaxed)).next_era() else { return false };
        let [before, start, limit] = [Number::before(era), Number::start(era), Number::limit(era)];
        // Release: pairs with the acquire in `end_of`. A newcomer that finds that the era before is
        // over finds the pusher's places as that era has left them.
        self.decided.store(before.0, Release);
        // Relaxed: a newcomer reads these numbers only after it has found a variable that is owned
        // in the new era.
        self.commit.store(start.0, Relaxed);
        self.limit.store(limit.0, Relaxed);
        self.start.set(start);
        // The numbers of the new era differ from the number of a push whose operation runs now, so
        // that push stands.
        self.begun.set(Number::NONE);
        true
    }
}
