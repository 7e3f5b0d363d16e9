//! A pusher's place for a variable: how many uses were pushed, and the last write, as two states.

#![forbid(unsafe_code)]

use crate::operation::access::{Mode, Ticket};
use crate::sync::{AtomicPtr, AtomicU64, Ordering::*};
use crate::tickets::owner::number::Number;
use crate::tickets::run::Start;
use crate::tickets::word::Word;
use std::ptr::null_mut;

/// A variable as it was when a push had used it.
#[repr(C)]
pub(super) struct State {
    /// The push, or the pusher's last one when the variable became its own. [`Number::NONE`]:
    /// nothing.
    number: AtomicU64,
    /// Writes and reads pushed, as [`Ticket::packed`].
    ticket: AtomicU64,
    /// The last write.
    last: AtomicU64,
}

/// The generation of a variable, and above it what its pusher may do. 0: anything, so that a look
/// at both is one. Odd: it [shares](crate::tickets::owner::share) the variable, and may only read.
/// Each read has added [`READ`], also of a push that was withdrawn; joining again has taken
/// [`JOINED`] away.
#[derive(Clone, Copy, PartialEq, Eq)]
struct StateKey(u64);

/// What is saved by a read, and what it costs to join again, which is as much as one and a half.
/// Even.
const READ: u32 = 4;
const JOINED: u32 = 6;

impl StateKey {
    #[inline(always)]
    fn new(generation: u32, shared: u32) -> StateKey {
        StateKey(u64::from(generation) | u64::from(shared) << 32)
    }

    fn generation(self) -> u32 {
        self.0 as u32
    }

    fn shared(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Whether the variable of this generation may be used so.
    #[inline(always)]
    fn allows(self, generation: u32, mode: Mode) -> bool {
        self == StateKey::new(generation, 0) || self.generation() == generation && self.is_read(mode)
    }

    /// As that, of a variable that is shared.
    fn is_read(self, mode: Mode) -> bool {
        mode == Mode::Read
    }
}

/// The older state is the one that a push writes, so that the other holds if the push does not come
/// to pass. Only the pusher writes. Others read, and know by a decision which of the two they may
/// rely on: everything is relaxed but for the numbers of a deleted variable.
#[repr(C, align(64))]
pub(super) struct Place {
    states: [State; 2],
    /// Whose it is, a [`StateKey`]: variables that are deleted leave their place to others. The
    /// pusher's.
    key: AtomicU64,
    /// [`Peers::whole`](crate::tickets::owner::Peers::whole). For the pusher.
    whole: AtomicPtr<()>,
}

impl State {
    fn new() -> State {
        State { number: AtomicU64::new(Number::NONE.0), ticket: AtomicU64::new(0), last: AtomicU64::new(0) }
    }

    #[inline(always)]
    fn set(&self, number: Number, ticket: Ticket, last: Word) {
        self.number.store(number.0, Relaxed);
        self.ticket.store(ticket.packed(), Relaxed);
        // Release: who waits finds the block as it was when it was first referred to.
        self.last.store(last.0, Release);
    }

    /// For the pusher, whose last push has written it: takes that back.
    #[inline(always)]
    pub fn withdraw(&self) {
        // Release: who finds nothing here may read what the operation did.
        self.number.store(Number::NONE.0, Release);
    }

    #[inline(always)]
    fn get(&self) -> (Ticket, Word) {
        (Ticket::of(self.ticket.load(Relaxed)), Word(self.last.load(Relaxed)))
    }
}

impl Place {
    pub fn new() -> Place {
        Place { states: [State::new(), State::new()], key: AtomicU64::new(0), whole: AtomicPtr::new(null_mut()) }
    }

    /// The newer state with its number, and the older one.
    #[inline(always)]
    fn by_age(&self) -> (Number, &State, &State) {
        let first = Number(self.states[0].number.load(Relaxed));
        let second = Number(self.states[1].number.load(Relaxed));
        let [one, other] = &self.states;
        let (newest, newer, older) = if second > first { (second, other, one) } else { (first, one, other) };
        (newest, newer, older)
    }

    #[inline(always)]
    fn key(&self) -> StateKey {
        StateKey(self.key.load(Relaxed))
    }

    /// For anybody: about how often the variable was read as a shared one, less what it has cost to
    /// join again.
    pub fn uses(&self) -> u32 {
        self.key().shared() / READ
    }

    /// For the pusher: as [`StateKey::allows`], of a use that is pushed now, if the variable may be
    /// shared.
    #[inline(always)]
    fn allows_shared(&self, generation: u32, mode: Mode) -> bool {
        let key = self.key();
        let allowed = key.allows(generation, mode);
        if allowed {
            self.key.store(StateKey::new(generation, key.shared().wrapping_add(READ)).0, Relaxed);
        }
        allowed
    }

    /// For the pusher: whether it owns the variable, of which it has a state since `start`; or
    /// shares it, if it is to be read.
    #[inline(always)]
    pub fn is_owned(&self, start: Number, generation: u32, mode: Mode) -> bool {
        self.by_age().0 >= start && self.key().allows(generation, mode)
    }

    /// For the pusher: the ticket of one more use by push `number`, the write before it, and the
    /// state that counts it, if it owns the variable.
    #[inline(always)]
    pub fn count(
        &self,
        (start, number): (Number, Number),
        generation: u32,
        mode: Mode,
        this: Word,
    ) -> Option<(Ticket, Word, &State)> {
        let (newest, now, next) = self.by_age();
        // Of this push: it names the variable once more.
        let is_repeat = newest >= number;
        let is_over = newest < start;
        if is_over || is_repeat || self.key() != StateKey::new(generation, 0) && !self.allows_shared(generation, mode) {
            return None;
        }
        let (ticket, last) = now.get();
        let Ticket { writes, reads } = ticket;
        match mode {
            Mode::Read => next.set(number, Ticket { writes, reads: reads.wrapping_add(1) }, last),
            Mode::Write | Mode::Delete => next.set(number, Ticket { writes: writes.wrapping_add(1), reads }, this),
        }
        Some((ticket, last, next))
    }

    /// For anybody: how many writes of the variable the pusher knew of when it did something that
    /// the caller has heard of, or more.
    ///
    /// A state may be found half written, with a number that is newer than what it counts: so what
    /// both count is looked at. The counts only grow, but for what was withdrawn.
    pub fn most_writes(&self) -> Option<u32> {
        // Acquire: what an operation did whose push was withdrawn.
        let counts = |state: &&State| state.number.load(Acquire) != Number::NONE.0;
        let writes = self.states.iter().filter(counts).map(|state| state.get().0.writes);
        writes.reduce(|first, second| if first.wrapping_sub(second) as i32 > 0 { first } else { second })
    }

    /// For anybody: the last write that [`Place::most_writes`] counts, and how many there are with
    /// it. May name one of which nothing has come, or an older one.
    pub fn last_write(&self) -> Option<(u32, Word)> {
        // Acquire: as in `most_writes`; and with the block.
        let counts = |state: &&State| state.number.load(Acquire) != Number::NONE.0;
        let writes = |state: &State| (state.get().0.writes, Word(state.last.load(Acquire)));
        let newer =
            |one: (u32, Word), other: (u32, Word)| if one.0.wrapping_sub(other.0) as i32 > 0 { one } else { other };
        self.states.iter().filter(counts).map(writes).reduce(newer)
    }

    /// For the pusher, which owns the variable:
    /// [`Peers::whole`](crate::tickets::owner::Peers::whole).
    #[inline(always)]
    pub fn whole(&self) -> *const () {
        self.whole.load(Relaxed)
    }

    /// For the pusher: how many writes of the variable it knows of.
    pub fn writes(&self) -> u32 {
        self.by_age().1.get().0.writes
    }

    /// For the pusher: the last write that it knows of.
    pub fn last(&self) -> Word {
        self.by_age().1.get().1
    }

    /// For the pusher, which is about to become the owner, or to share the variable: what it begins
    /// with, as of its push `number`.
    pub fn begin(&self, number: Number, generation: u32, start: Start, whole: *const (), shared: bool) {
        if self.key().generation() != generation {
            // What is here is of another variable, which nobody uses. It may be as new as what is
            // written now.
            self.forget();
            self.whole.store(whole.cast_mut(), Relaxed);
        }
        self.key.store(StateKey::new(generation, u32::from(shared)).0, Relaxed);
        self.begin_with(number, (start.ticket, start.last));
    }

    /// For the pusher, which has [begun](Place::begin) before, and goes on as of its push `number`.
    pub fn begin_again(&self, number: Number) {
        let key = self.key();
        self.key.store(StateKey::new(key.generation(), key.shared().saturating_sub(JOINED) | 1).0, Relaxed);
        self.begin_with(number, self.by_age().1.get());
    }

    fn begin_with(&self, number: Number, (ticket, last): (Ticket, Word)) {
        let state = self.by_age().2;
        state.number.store(number.0, Relaxed);
        // Release (both): who reads it finds the number as well.
        state.ticket.store(ticket.packed(), Release);
        state.last.store(last.0, Release);
    }

    /// For the pusher: writes to it, and changes nothing.
    pub fn touch(&self) {
        self.key.store(self.key.load(Relaxed), Relaxed);
    }

    /// For the pusher: takes back what it has written as of this number.
    pub fn void(&self, number: Number) {
        for state in &self.states {
            if state.number.load(Relaxed) == number.0 {
                state.number.store(Number::NONE.0, Relaxed);
            }
        }
    }

    /// For the pusher: nobody uses the variable any more.
    pub fn forget(&self) {
        // Release: who finds nothing finds that the variable was deleted.
        self.states.iter().for_each(|state| state.number.store(Number::NONE.0, Release));
    }

    /// For anybody: the newest state that is not newer than `number`. None, if there is none, or if
    /// it is written just now.
    pub fn until(&self, number: Number) -> Option<Start> {
        // Acquire: pairs with `forget`.
        let numbered = self.states.each_ref().map(|state| (Number(state.number.load(Acquire)), state));
        let counts = |found: &(Number, &State)| found.0 != Number::NONE && found.0 <= number;
        let (found, newest) = numbered.into_iter().filter(counts).max_by_key(|found| found.0)?;
        // Acquire: if this is what was written over it, so is the number.
        let (ticket, last) = (Ticket::of(newest.ticket.load(Acquire)), Word(newest.last.load(Acquire)));
        let stays = newest.number.load(Relaxed) == found.0;
        stays.then_some(Start { ticket, last })
    }
}
