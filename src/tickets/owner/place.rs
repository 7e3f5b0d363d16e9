//! A pusher's place for a variable: how many uses were pushed, and which was the last write, in two
//! numbered states.
//!
//! Only the pusher of the record writes a place (`pusher.rs`, `at_once.rs`, and `handover.rs` and
//! `sharing.rs` for a variable that it acquires). Any thread reads it: newcomers by
//! [`Place::until`], threads that wait by [`Place::most_writes`] and [`Place::last_write`].

#![forbid(unsafe_code)]

use crate::operation::access::{Mode, Ticket};
use crate::sync::{AtomicPtr, AtomicU64, Ordering::*};
use crate::tickets::owner::number::Number;
use crate::tickets::run::Start;
use crate::tickets::word::Word;
use std::ptr::null_mut;

/// What a pusher knew of a variable when one of its pushes had used it.
#[repr(C)]
pub(super) struct State {
    /// The number of the push, or of the pusher's last push when the pusher acquired the variable.
    /// [`Number::NONE`]: the state is empty.
    number: AtomicU64,
    /// How many writes and reads were pushed, as [`Ticket::packed`].
    ticket: AtomicU64,
    /// The reference of the last write that was pushed.
    last: AtomicU64,
}

/// The generation of a variable in the lower half, and in the upper half what its pusher may do. If
/// the upper half is 0, the pusher may do anything, so one comparison tests both halves. If it is
/// odd, the pusher [shares](crate::tickets::owner::share) the variable, and may only read. Then
/// each read has added [`READ`], also a read whose push was withdrawn, and each further joining has
/// subtracted [`JOINED`].
#[derive(Clone, Copy, PartialEq, Eq)]
struct StateKey(u64);

/// The saving of one read of a shared variable, and the cost of joining a share again: as much as
/// one and a half reads save. Both are even, so that the sum stays odd.
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

    /// Whether the key lets its pusher use the variable of this generation in this mode.
    #[inline(always)]
    fn allows(self, generation: u32, mode: Mode) -> bool {
        self == StateKey::new(generation, 0) || self.generation() == generation && self.is_read(mode)
    }

    /// Whether the mode is a read, the only use that a shared variable allows.
    fn is_read(self, mode: Mode) -> bool {
        mode == Mode::Read
    }
}

/// A pusher's two states of a variable. A push writes the older state, so that the newer one is
/// still valid if the push fails. Only the pusher writes. Other threads read, and know by the
/// decision about the era which of the two states they may rely on. So an access is relaxed unless
/// its comment says otherwise, as for the numbers of a deleted variable.
#[repr(C, align(64))]
pub(super) struct Place {
    states: [State; 2],
    /// A [`StateKey`]: which variable the place is for, as a deleted variable leaves its place to
    /// the next one of its slot. Written by the pusher alone.
    key: AtomicU64,
    /// What [`Peers::whole`](crate::tickets::owner::Peers::whole) said. Read by the pusher alone.
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
        // Release: pairs with the acquire in `Place::last_write`, so a thread that waits for this
        // write finds the block as it was when it was first referred to.
        self.last.store(last.0, Release);
    }

    /// For the pusher, whose last push has written this state: makes it empty again.
    #[inline(always)]
    pub fn withdraw(&self) {
        // Release: pairs with the acquires in `Place::most_writes` and `Place::last_write`, so a
        // thread that finds the state empty may read what the operation did.
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

    /// The number of the newer state, the newer state, and the older one.
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

    /// For any thread: about how often the pusher has read the variable as a shared one, less what
    /// it has cost to join again.
    pub fn uses(&self) -> u32 {
        self.key().shared() / READ
    }

    /// For the pusher: like [`StateKey::allows`], but for a use that is pushed now, of a variable
    /// that may be shared: a use that is allowed adds [`READ`] to the key.
    #[inline(always)]
    fn allows_shared(&self, generation: u32, mode: Mode) -> bool {
        let key = self.key();
        let allowed = key.allows(generation, mode);
        if allowed {
            self.key.store(StateKey::new(generation, key.shared().wrapping_add(READ)).0, Relaxed);
        }
        allowed
    }

    /// For the pusher: whether it owns the variable, or, if the mode is a read, shares it. Then the
    /// place has a state since `start`, where the pusher's era begins.
    #[inline(always)]
    pub fn is_owned(&self, start: Number, generation: u32, mode: Mode) -> bool {
        self.by_age().0 >= start && self.key().allows(generation, mode)
    }

    /// For the pusher: counts one more use by push `number` of the operation `this`. Returns the
    /// ticket of this use, the write before it, and the state that counts it. `None`: the pusher
    /// may not use the variable so, or the push uses it already.
    #[inline(always)]
    pub fn count(
        &self,
        (start, number): (Number, Number),
        generation: u32,
        mode: Mode,
        this: Word,
    ) -> Option<(Ticket, Word, &State)> {
        let (newest, now, next) = self.by_age();
        // The newest state is of this push: the operation names the variable a second time.
        let is_repeat = newest >= number;
        let is_over = newest < start;
        if is_over || is_repeat || self.key() != StateKey::new(generation, 0) && !self.allows_shared(generation, mode) {
            return None;
        }
        let (ticket, last) = now.get();
        let Ticket { writes, reads } = ticket;
        match mode {
            Mode::Read => next.set(number, Ticket { writes, reads: reads.wrapping_add(1) }, last),
            _ => next.set(number, Ticket { writes: writes.wrapping_add(1), reads }, this),
        }
        Some((ticket, last, next))
    }

    /// For any thread: how many writes of the variable the pusher knew of when it did something
    /// that the caller has heard of, or more. The same rule is in [`Place::last_write`].
    ///
    /// A state may be found half written, with a number that is newer than its ticket. So the
    /// tickets of both states are looked at. They only grow, except when a push is withdrawn.
    pub fn most_writes(&self) -> Option<u32> {
        // Acquire: pairs with the release in `State::withdraw`, so the caller sees what an
        // operation did whose push was withdrawn.
        let counts = |state: &&State| state.number.load(Acquire) != Number::NONE.0;
        let writes = self.states.iter().filter(counts).map(|state| state.get().0.writes);
        writes.reduce(|first, second| if first.wrapping_sub(second) as i32 > 0 { first } else { second })
    }

    /// For any thread: the number of writes that [`Place::most_writes`] returns, and the last of
    /// them. The reference may name a write whose push fails, or an older one.
    pub fn last_write(&self) -> Option<(u32, Word)> {
        // Acquire: as in `most_writes`. The acquire of `last` pairs with the release in
        // `State::set`, so the caller sees the block.
        let counts = |state: &&State| state.number.load(Acquire) != Number::NONE.0;
        let writes = |state: &State| (state.get().0.writes, Word(state.last.load(Acquire)));
        let newer =
            |one: (u32, Word), other: (u32, Word)| if one.0.wrapping_sub(other.0) as i32 > 0 { one } else { other };
        self.states.iter().filter(counts).map(writes).reduce(newer)
    }

    /// For the pusher, which owns the variable: what
    /// [`Peers::whole`](crate::tickets::owner::Peers::whole) said when it acquired it.
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

    /// For the pusher, which is about to own or to share the variable: writes what it begins with,
    /// with the number of its last push, `number`.
    pub fn begin(&self, number: Number, generation: u32, start: Start, whole: *const (), shared: bool) {
        if self.key().generation() != generation {
            // The states here are of another variable, which nobody uses. Their numbers may be as
            // new as the one that is written now.
            self.forget();
            self.whole.store(whole.cast_mut(), Relaxed);
        }
        self.key.store(StateKey::new(generation, u32::from(shared)).0, Relaxed);
        self.begin_with(number, (start.ticket, start.last));
    }

    /// For the pusher, which has [begun](Place::begin) before, and joins the same share again: goes
    /// on with what it has counted, with the number of its last push, `number`.
    pub fn begin_again(&self, number: Number) {
        let key = self.key();
        self.key.store(StateKey::new(key.generation(), key.shared().saturating_sub(JOINED) | 1).0, Relaxed);
        self.begin_with(number, self.by_age().1.get());
    }

    fn begin_with(&self, number: Number, (ticket, last): (Ticket, Word)) {
        let state = self.by_age().2;
        state.number.store(number.0, Relaxed);
        // Release (both): pairs with the acquires in `until`, so a thread that reads one of these
        // values finds the new number as well.
        state.ticket.store(ticket.packed(), Release);
        state.last.store(last.0, Release);
    }

    /// For the pusher: writes to the place, and changes nothing.
    pub fn touch(&self) {
        self.key.store(self.key.load(Relaxed), Relaxed);
    }

    /// For the pusher: makes the states that have this number empty.
    pub fn void(&self, number: Number) {
        for state in &self.states {
            if state.number.load(Relaxed) == number.0 {
                state.number.store(Number::NONE.0, Relaxed);
            }
        }
    }

    /// For the pusher, when nobody uses the variable any more: makes both states empty.
    pub fn forget(&self) {
        // Release: pairs with the acquire in `until`, so a thread that finds the states empty finds
        // that the variable was deleted.
        self.states.iter().for_each(|state| state.number.store(Number::NONE.0, Release));
    }

    /// For any thread: the newest state whose number is at most `number`. `None`: there is no such
    /// state, or it is being overwritten just now.
    pub fn until(&self, number: Number) -> Option<Start> {
        // Acquire: pairs with the release in `forget`.
        let numbered = self.states.each_ref().map(|state| (Number(state.number.load(Acquire)), state));
        let counts = |found: &(Number, &State)| found.0 != Number::NONE && found.0 <= number;
        let (found, newest) = numbered.into_iter().filter(counts).max_by_key(|found| found.0)?;
        // Acquire: pairs with the releases in `begin_with`. If one of these values was written over
        // the state that was found, the load of the number below finds the new number.
        let (ticket, last) = (Ticket::of(newest.ticket.load(Acquire)), Word(newest.last.load(Acquire)));
        let stays = newest.number.load(Relaxed) == found.0;
        stays.then_some(Start { ticket, last })
    }
}
