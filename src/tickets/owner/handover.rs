//! The newcomer's side of the ownership protocol: how a variable changes hands. Any pusher that
//! wants a variable looks at it, one exchange of its [`Owner`] decides, and nobody waits.
//!
//! Used by `engine/push/acquire.rs` ([`Pusher::acquire`], [`Pusher::adopt`]), by `sharing.rs`, and
//! by `engine/wait/`, which asks for the writes of a variable that the calling thread does not own.
//! `Record::end_of` has the heavy fence for the light ones in `pusher.rs`. Shared variables are in
//! `sharing.rs`.
//!
//! There are only functions here. A newcomer writes its own record and places, and the variable's
//! [`Owner`] (`number.rs`). Of the owner's record it writes `limit` and `decided` (`pusher.rs`),
//! and the hint that it wants the variable (`share.rs`). Threads that wait only read.

use crate::operation::access::{Mode, Ticket};
use crate::platform::asymmetric_fence::heavy;
use crate::sync::{Ordering::*, MODELLED};
use crate::tickets::owner::number::{Holder, Number, Owner};
use crate::tickets::owner::place::Place;
use crate::tickets::owner::pusher::{Pusher, Record, LINKED};
use crate::tickets::owner::sharing::{end_share, has_paid};
use crate::tickets::owner::{Acquired, Peers};
use crate::tickets::run::{Progress, Start, Variables};
use crate::tickets::word::Word;

/// How often a variable changes hands before it becomes common. It is common for good, so the
/// threads that set a program up should not get there.
const CHANGES: u8 = if MODELLED { 2 } else { 8 };
/// If a pusher has used a variable this often before it changes hands, earlier changes are
/// forgotten: one `membarrier` for so many uses costs less than a common variable.
const TURN: u32 = 1000;

impl Pusher<'_> {
    /// Makes the pusher the owner of a variable, unless the variable is common or becomes so. If
    /// the variable is to be read and is another pusher's, the pusher shares it instead. Called
    /// when a [claim] was refused. Costs the time of a system call if the owner's era has to be
    /// closed.
    ///
    /// `failed`: a commit of this push has failed. Then even the pusher's own return to a variable
    /// counts as a change of hands, so that two pushers which want it cannot hinder each other
    /// without end.
    ///
    /// The caller holds a pin: the variable's slot is not used again meanwhile.
    ///
    /// [claim]: crate::tickets::owner::pusher::Push::claim
    #[cold]
    pub fn acquire(
        &mut self,
        (variable, generation): (u32, u32),
        mode: Mode,
        failed: bool,
        peers: &impl Peers,
    ) -> Acquired {
        let record = self.record;
        let owner = peers.owner(variable);
        let mut old = owner.holder();
        loop {
            let start = record.start.get();
            // If the pusher has counted reads in this era, as a member of a share, it ends the era:
            // the state that it begins with must not be as new as the state that has counted them.
            let counts = record.places.get(variable).is_some_and(|place| place.is_owned(start, generation, Mode::Read));
            // Nor may the pusher be the first member of two shares of a slot in one era. It has
            // heard of the end of the earlier share, which has closed the era.
            // Relaxed: because it has heard of this end, it sees the closed limit.
            let is_closed = start.0 >= record.limit.load(Relaxed);
            if counts || is_closed {
                record.end_own();
            }
            if record.start.get() == Number::NEVER && !record.open() {
                return Acquired::UsedUp;
            }
            let next = self.next(variable, old, (mode, failed), peers);
            // This comes after the look at the holder, so that nothing is taken from the push that
            // deletes the variable. It also comes after the look at what the holder has, which may
            // be as of that push.
            if !peers.lives(variable, generation) {
                return Acquired::Gone;
            }
            let (start, new) = match next {
                Wanted::Common => return Acquired::Common,
                Wanted::Join { host, id } => {
                    if self.join((variable, generation), (old, host, id), peers) {
                        return Acquired::Owned;
                    }
                    old = owner.holder();
                    continue;
                }
                Wanted::Pass(new) => {
                    old = owner.replace(old, new).err().unwrap_or(new);
                    continue;
                }
                Wanted::Begin(start) => {
                    peers.begin_common(variable, start);
                    old = owner.replace(old, Holder::Common).err().unwrap_or(Holder::Common);
                    continue;
                }
                Wanted::Take(start, new) => (start, new),
            };
            let (now, shared) = (Number(record.commit.load(Relaxed)), matches!(new, Holder::Shared { .. }));
            record.begun.set(now.next());
            let place = record.places.get_or_add(variable).expect("there is a place for each variable");
            let whole = peers.whole(variable);
            if let Holder::Shared { pusher, era, .. } = new {
                record.begin_share(variable, Holder::share(pusher, era), start);
            }
            place.begin(now, generation, start, whole, shared);
            match owner.replace(old, new) {
                Ok(()) => {
                    if !matches!(old, Holder::Pusher { pusher, .. } if pusher == record.index) {
                        let ended = peers.progress(variable).counts().0;
                        owner.note_taken(start.ticket, ended, peers.version(variable));
                    }
                    return Acquired::Owned;
                }
                Err(other) => old = other,
            }
            place.void(now);
        }
    }

    /// What the pusher has to do about a variable that it wants and that has the holder `old`.
    fn next(&self, variable: u32, old: Holder, (mode, failed): (Mode, bool), peers: &impl Peers) -> Wanted {
        let record = self.record;
        let era = record.start.get().era();
        let mine = |changes: u8| Holder::Pusher { pusher: record.index, era, changes };
        let take =
            |start: Option<Start>, new: Holder| start.map_or(Wanted::Pass(old), |start| Wanted::Take(start, new));
        match old {
            Holder::Nobody => {
                // All operations that used the slot before have ended: the deletion of the last
                // variable came last, and has ended.
                let (writes, reads) = peers.progress(variable).counts();
                Wanted::Take(Start { ticket: Ticket { writes, reads }, last: Word::NONE }, mine(0))
            }
            Holder::Pusher { pusher, era: theirs, changes } => {
                let owner = peers.record(pusher);
                let is_mine = pusher == record.index;
                if !is_mine {
                    owner.want(variable, theirs);
                }
                let is_wanted = !is_mine || record.is_wanted(variable, theirs);
                let hand_over = || owner.hand_over(variable, theirs, peers);
                // Only a newcomer's change is looked at for its uses: otherwise an owner that comes
                // back again and again could be followed without end.
                let start = if is_mine || failed { None } else { hand_over() };
                let uses = |start: Start| peers.owner(variable).used_since(start.ticket, peers.version(variable));
                let changes = if start.map_or(0, uses) >= TURN { 0 } else { changes + u8::from(failed || is_wanted) };
                if changes > CHANGES {
                    return Wanted::Pass(Holder::Ending { pusher, era: theirs });
                }
                // The variable is shared also if it was this pusher's own: otherwise the pusher
                // that wants it would come too late once more.
                let new = if mode == Mode::Read && is_wanted {
                    Holder::Shared { pusher: record.index, era, changes }
                } else {
                    mine(changes)
                };
                take(start.or_else(hand_over), new)
            }
            Holder::Shared { pusher, era, .. } if mode == Mode::Read => {
                Wanted::Join { host: pusher, id: Holder::share(pusher, era) }
            }
            Holder::Shared { pusher, era, changes } => {
                let changes = if has_paid(variable, Holder::share(pusher, era), peers) { 0 } else { changes + 1 };
                Wanted::Pass(Holder::Closed { pusher, era, changes })
            }
            Holder::Closed { pusher, era: theirs, changes } => {
                let id = Holder::share(pusher, theirs);
                match end_share(variable, id, peers) {
                    Some(start) if changes > CHANGES => Wanted::Begin(start),
                    start => take(start, mine(changes)),
                }
            }
            Holder::Ending { pusher, era } => {
                peers.record(pusher).hand_over(variable, era, peers).map_or(Wanted::Pass(old), Wanted::Begin)
            }
            Holder::Common => Wanted::Common,
        }
    }
}

/// What a pusher does about a variable that it wants.
enum Wanted {
    /// It takes the variable, begins with this start, and exchanges the holder for this one.
    Take(Start, Holder),
    /// It joins this share, whose first member is `host`.
    Join { host: u32, id: u64 },
    /// It exchanges the holder for this one, if it is still the same, and looks again.
    Pass(Holder),
    /// It makes the variable common, which begins with this start.
    Begin(Start),
    /// It does nothing: the variable is common.
    Common,
}

impl Pusher<'_> {
    /// Makes the pusher the owner of a variable that nobody has pushed to yet; says whether it has.
    /// Nothing is taken over from another pusher, so a push may be under way. If the result is
    /// `false`, the caller goes on to [`acquire`](Pusher::acquire). The rule is the same in both:
    /// the pusher begins its place before it exchanges the holder, and makes the state empty if the
    /// exchange fails.
    ///
    /// The caller holds a pin, under which it has found that the variable lives. `version` and
    /// `whole`: what the functions of [`Peers`] return.
    #[inline]
    pub fn adopt(
        &self,
        (variable, generation): (u32, u32),
        (owner, progress, version): (&Owner, &Progress, u64),
        whole: *const (),
    ) -> bool {
        let record = self.record;
        let (start, now) = (record.start.get(), Number(record.commit.load(Relaxed)));
        record.begun.set(now.next());
        // If the holder is `Nobody`, the deletion was not pushed either: a thread that pushes it
        // has acquired the variable before.
        let old = owner.holder();
        if start == Number::NEVER || old != Holder::Nobody {
            return false;
        }
        let Some(place) = record.places.get_or_add(variable) else { return false };
        // All operations that used the slot before have ended.
        let (writes, reads) = progress.counts();
        let begun = Start { ticket: Ticket { writes, reads }, last: Word::NONE };
        place.begin(now, generation, begun, whole, false);
        let mine = Holder::Pusher { pusher: record.index, era: start.era(), changes: 0 };
        let adopted = owner.replace(old, mine).is_ok();
        if adopted {
            owner.note_taken(begun.ticket, writes, version);
        } else {
            place.void(now);
        }
        adopted
    }
}

impl Owner {
    /// Whether every write of the variable of this number has ended that the caller has heard of.
    /// For a caller that does not own the variable; an owner asks [`Pusher::is_quiet`]. The result
    /// may be `false` although all have ended while the owner uses the variable, and is `false`
    /// while the variable is becoming common.
    pub fn is_quiet<'a>(
        &self,
        variable: u32,
        variables: &impl Variables,
        record: impl FnOnce(u32) -> Option<&'a Record>,
    ) -> bool {
        let writes = match self.holder() {
            Holder::Nobody => return true,
            Holder::Pusher { pusher, .. } => {
                let place = record(pusher).and_then(|record| record.places.get(variable));
                place.and_then(Place::most_writes)
            }
            Holder::Shared { pusher, era, .. } | Holder::Closed { pusher, era, .. } => {
                let start = record(pusher).and_then(|record| record.shared(variable, Holder::share(pusher, era)));
                start.map(|start| start.ticket.writes)
            }
            Holder::Ending { .. } | Holder::Common => None,
        };
        writes.is_some_and(|writes| variables.progress(variable).has_written(writes))
    }
}

impl Owner {
    /// What [`Owner::is_quiet`] waits for, if a pusher owns the variable: the number of writes, and
    /// the last of them. The reference may be to a write whose push fails, or to an older one.
    pub fn last_write<'a>(&self, variable: u32, record: impl FnOnce(u32) -> Option<&'a Record>) -> Option<(u32, Word)> {
        match self.holder() {
            Holder::Pusher { pusher, .. } => record(pusher)?.places.get(variable)?.last_write(),
            Holder::Shared { pusher, era, .. } | Holder::Closed { pusher, era, .. } => {
                let Start { ticket, last } = record(pusher)?.shared(variable, Holder::share(pusher, era))?;
                Some((ticket.writes, last))
            }
            Holder::Nobody | Holder::Ending { .. } | Holder::Common => None,
        }
    }

    /// A write of the variable whose push is over and finished, if a pusher owns the variable: the
    /// last one, or the one before it.
    pub fn last_finished<'a>(&self, variable: u32, record: impl FnOnce(u32) -> Option<&'a Record>) -> Option<Word> {
        let Holder::Pusher { pusher, era, .. } = self.holder() else { return None };
        let record = record(pusher)?;
        // Acquire: pairs with the release in `Record::commit`, so the operations of all pushes up
        // to `last` are seen. The pusher that has begun this push has finished the pushes before
        // it.
        let last = Number(record.commit.load(Acquire));
        let before = last.before_it();
        // A push that fails in a later era has a larger number.
        (last.era() == era).then(|| record.places.get(variable)?.until(before)).flatten().map(|start| start.last)
    }
}

impl Record {
    /// What the pusher had of a variable that it owned in this era. The era is over, or this call
    /// ends it. Whatever the pusher has pushed until then is finished.
    pub(super) fn hand_over(&self, variable: u32, era: u64, peers: &impl Peers) -> Option<Start> {
        self.hand_over_from((variable, era), false, peers)
    }

    /// Like [`Record::hand_over`], but if `fenced`, the caller has [closed](Record::close) the era,
    /// and has passed a heavy fence after that.
    pub(super) fn hand_over_from(
        &self,
        (variable, era): (u32, u64),
        fenced: bool,
        peers: &impl Peers,
    ) -> Option<Start> {
        let last = self.end_of(era, fenced);
        if last.is_push() && last != Number::last(era) {
            // Acquire: pairs with the release of `operations` in `Record::commit`. If the operation
            // is of a later push than `last`, this thread sees below that the era is over.
            let operation = Word(self.operations[last.parity()].load(Acquire));
            // If the era is over, the pusher has gone on to another, and has finished the push by
            // itself.
            if Number(self.decided.load(Relaxed)).era() == era {
                peers.finish(operation.at(0), operation.stage() == LINKED);
            }
        }
        self.places.get(variable)?.until(last)
    }

    /// Closes an era, unless it is over; says whether the era is closed.
    pub(super) fn close(&self, era: u64) -> bool {
        let closed = Number::before(era).0;
        // The exchange fails if the era is closed already, or over.
        // Relaxed: the caller's heavy fence orders it.
        let before = self.limit.compare_exchange(Number::limit(era).0, closed, Relaxed, Relaxed);
        before.map_or_else(|other| other == closed, |_| true)
    }

    /// The number of the last push of an era, which is closed if it is not yet. [`Number::last`] if
    /// the era is over, and all states that are valid in it were committed.
    fn end_of(&self, era: u64, fenced: bool) -> Number {
        let undecided = Number::before(era);
        // Acquire: pairs with the deciding exchanges and with the release in `open`.
        let mut decided = Number(self.decided.load(Acquire));
        if decided == undecided {
            if !fenced {
                self.close(era);
                // Heavy side of the asymmetric fence; the light sides are in `Record::commit` and
                // `Record::withdraw`. Either this thread sees the push, or the pusher sees that the
                // era is closed.
                heavy();
            }
            // Acquire: pairs with the releases of `commit` in `Record::commit` and
            // `Record::withdraw`, so the places and the operation of that push are seen.
            let commit = self.commit.load(Acquire);
            // Decided once for all: the pusher and each newcomer go by the same decision.
            // Release: passes on what the load of `commit` has acquired.
            decided = match self.decided.compare_exchange(undecided.0, commit, AcqRel, Acquire) {
                Ok(_) => Number(commit),
                Err(other) => Number(other),
            };
        }
        if decided.era() == era {
            decided
        } else {
            Number::last(era)
        }
    }
}
