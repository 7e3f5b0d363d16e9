//! How a variable changes hands: any pusher that wants it looks at it, one exchange decides, and
//! nobody waits.

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

/// So often a variable changes hands; after that it is common. For good, so the threads that set a
/// program up should not get there.
const CHANGES: u8 = if MODELLED { 2 } else { 8 };
/// If a pusher has used a variable so often before it changes hands, earlier changes are forgotten:
/// a `membarrier` for so many uses costs less than a common variable.
const TURN: u32 = 1000;

impl Pusher<'_> {
    /// Makes a variable the pusher's own, unless it is common or becomes so; or shares it with
    /// others, if it is to be read and is another's. For one that a [claim] has refused. Costs the
    /// time of a system call if its owner has to be closed for that.
    ///
    /// `failed`: a commit of this push has failed. Then even the pusher's own return to a variable
    /// counts as a change of hands, so that two who want it cannot hinder each other without end.
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
            // What it begins with must not be as new as what it has counted as one of several that
            // read.
            let counts = record.places.get(variable).is_some_and(|place| place.is_owned(start, generation, Mode::Read));
            // Nor may it be the first of two shares of a slot in one era: it has heard of the end
            // of the first, which has closed the era. Relaxed: so it has heard of that.
            let is_closed = start.0 >= record.limit.load(Relaxed);
            if counts || is_closed {
                record.end_own();
            }
            if record.start.get() == Number::NEVER && !record.open() {
                return Acquired::UsedUp;
            }
            let next = self.next(variable, old, (mode, failed), peers);
            // After the look at the holder, so that nothing is taken from the push that deletes the
            // variable; and after the look at what it has, which may be as of that push.
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

    /// What becomes of a variable with this holder that the pusher wants.
    fn next(&self, variable: u32, old: Holder, (mode, failed): (Mode, bool), peers: &impl Peers) -> Wanted {
        let record = self.record;
        let era = record.start.get().era();
        let mine = |changes: u8| Holder::Pusher { pusher: record.index, era, changes };
        let take =
            |start: Option<Start>, new: Holder| start.map_or(Wanted::Pass(old), |start| Wanted::Take(start, new));
        match old {
            Holder::Nobody => {
                // All that used the slot before has ended: its deletion came last, and has.
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
                // Of a newcomer's change alone: an owner that comes back again and again could be
                // followed without end.
                let start = if is_mine || failed { None } else { hand_over() };
                let uses = |start: Start| peers.owner(variable).used_since(start.ticket, peers.version(variable));
                let changes = if start.map_or(0, uses) >= TURN { 0 } else { changes + u8::from(failed || is_wanted) };
                if changes > CHANGES {
                    return Wanted::Pass(Holder::Ending { pusher, era: theirs });
                }
                // Also if it was its own: who wants it would come too late once more.
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
    /// It takes it, and begins with this.
    Take(Start, Holder),
    /// It joins those who read it.
    Join { host: u32, id: u64 },
    /// The variable goes on to this holder, if it is still the same; then it looks again.
    Pass(Holder),
    /// The variable becomes common, and begins with this.
    Begin(Start),
    /// It is common.
    Common,
}

impl Pusher<'_> {
    /// Makes a variable the pusher's own that nobody has pushed to yet; says whether. Nothing is
    /// taken over from anybody, so a push may be under way. Where it does not serve,
    /// [`acquire`](Pusher::acquire) does.
    ///
    /// The caller holds a pin, under which it has found that the variable lives. `version` and
    /// `whole`: what [`Peers`] says.
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
        // Nor was its deletion pushed then: who does that has acquired it.
        let old = owner.holder();
        if start == Number::NEVER || old != Holder::Nobody {
            return false;
        }
        let Some(place) = record.places.get_or_add(variable) else { return false };
        // All that used the slot before has ended.
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
    /// Whether every write of the variable of this number has ended that the caller has heard of,
    /// for who does not own it. May say "no" of one that its owner uses just now, and says so of
    /// one that is becoming common.
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
    /// What [`Owner::is_quiet`] waits for, if a pusher owns the variable: so many writes, and the
    /// last of them. It may be one of which nothing comes, or an older one.
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

    /// A write of the variable whose push is over, if a pusher owns it: the last one, or the one
    /// before that.
    pub fn last_finished<'a>(&self, variable: u32, record: impl FnOnce(u32) -> Option<&'a Record>) -> Option<Word> {
        let Holder::Pusher { pusher, era, .. } = self.holder() else { return None };
        let record = record(pusher)?;
        // Acquire: the operations of the pushes up to there. Who has begun this one has finished
        // those before.
        let last = Number(record.commit.load(Acquire));
        let before = last.before_it();
        // A push that fails in a later era has a larger number.
        (last.era() == era).then(|| record.places.get(variable)?.until(before)).flatten().map(|start| start.last)
    }
}

impl Record {
    /// What the pusher had of a variable that it owned in this era, which is over or ends now.
    /// Whatever it has pushed until then is finished.
    pub(super) fn hand_over(&self, variable: u32, era: u64, peers: &impl Peers) -> Option<Start> {
        self.hand_over_from((variable, era), false, peers)
    }

    /// As that. `fenced`: the era was [closed](Record::close), and then the caller has passed a
    /// heavy fence.
    pub(super) fn hand_over_from(
        &self,
        (variable, era): (u32, u64),
        fenced: bool,
        peers: &impl Peers,
    ) -> Option<Start> {
        let last = self.end_of(era, fenced);
        if last.is_push() && last != Number::last(era) {
            // Acquire: if it is of a later push than we look for, we see that the era is over.
            let operation = Word(self.operations[last.parity()].load(Acquire));
            // If the era is over, the pusher has gone on, and has finished it by itself.
            if Number(self.decided.load(Relaxed)).era() == era {
                peers.finish(operation.at(0), operation.stage() == LINKED);
            }
        }
        self.places.get(variable)?.until(last)
    }

    /// Closes an era, unless it is over; says whether it is closed.
    pub(super) fn close(&self, era: u64) -> bool {
        let closed = Number::before(era).0;
        // It fails if the era is closed, or over. Relaxed: a fence orders it.
        let before = self.limit.compare_exchange(Number::limit(era).0, closed, Relaxed, Relaxed);
        before.map_or_else(|other| other == closed, |_| true)
    }

    /// The number of the last push of an era, which is closed if it is not. [`Number::last`] if it
    /// is over, and all that counts in it was committed.
    fn end_of(&self, era: u64, fenced: bool) -> Number {
        let undecided = Number::before(era);
        // Acquire: pairs with the deciding exchanges and with the release in `open`.
        let mut decided = Number(self.decided.load(Acquire));
        if decided == undecided {
            if !fenced {
                self.close(era);
                // Against the light one in `commit`: either we see the push, or the pusher sees
                // that the era is closed.
                heavy();
            }
            // Acquire: the places and the operation of that push.
            let commit = self.commit.load(Acquire);
            // Once for all: the pusher and each newcomer go by the same. Release: what we have
            // acquired.
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
