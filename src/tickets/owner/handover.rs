//! How a variable changes hands: any pusher that wants it looks at it, one exchange decides, and nobody
//! waits.

use super::number::{Holder, Number, Owner};
use super::place::Place;
use super::pusher::{Pusher, Record, LINKED};
use super::{Acquired, Peers};
use crate::fences::heavy;
use crate::mutants::{mutant, mutate};
use crate::sync::{Ordering::*, MODELLED};
use crate::tickets::run::{Progress, Start, Ticket, Variables};
use crate::tickets::word::Word;

/// So often a variable changes hands; after that it is common.
const CHANGES: u8 = if MODELLED { 2 } else { 4 };

impl Pusher<'_> {
    /// Makes a variable the pusher's own, unless it is common or becomes so. For one that a [claim]
    /// has refused. Costs the time of a system call if its owner has to be closed for that.
    ///
    /// `failed`: a commit of this push has failed. Then even the pusher's own return to a variable
    /// counts as a change of hands, so that two who want it cannot hinder each other without end.
    ///
    /// The caller holds a pin: the variable's slot is not used again meanwhile.
    ///
    /// [claim]: super::pusher::Push::claim
    #[cold]
    pub fn acquire(&mut self, variable: u32, generation: u32, failed: bool, peers: &impl Peers) -> Acquired {
        let record = self.record;
        if record.start.get() == Number::NEVER && !record.open() {
            return Acquired::UsedUp;
        }
        let (era, now) = (record.start.get().era(), Number(record.commit.load(Relaxed)));
        record.begun.set(now.next());
        let place = record.places.get_or_add(variable).expect("there is a place for each variable");
        let owner = peers.owner(variable);
        let mut old = owner.holder();
        let mine = |changes: u8| Holder::Pusher { pusher: record.index, era, changes };
        let begun = loop {
            let early = mutant("life-asked-for-too-early").then(|| peers.lives(variable, generation));
            let (start, new) = match old {
                Holder::Nobody => {
                    // All that used the slot before has ended: its deletion came last, and has.
                    let (writes, reads) = peers.progress(variable).counts();
                    (Some(Start { ticket: Ticket { writes, reads }, last: Word::NONE }), mine(0))
                }
                Holder::Pusher { pusher, era: theirs, changes } => {
                    let changes = changes + u8::from(failed || pusher != record.index);
                    let hand_over = || peers.record(pusher).hand_over(variable, theirs, peers);
                    match changes > CHANGES {
                        true if mutant("common-in-one-exchange") => (hand_over(), Holder::Common),
                        true => (None, Holder::Ending { pusher, era: theirs }),
                        false => (hand_over(), mine(changes)),
                    }
                }
                Holder::Ending { pusher, era } => {
                    (peers.record(pusher).hand_over(variable, era, peers), Holder::Common)
                }
                Holder::Common => (None, Holder::Common),
            };
            // After the look at the holder, so that nothing is taken from the push that deletes the
            // variable; and after the look at what it has, which may be as of that push.
            if !early.unwrap_or_else(|| peers.lives(variable, generation)) {
                return Acquired::Gone;
            }
            if old == Holder::Common {
                return Acquired::Common;
            }
            let Some(start) = start else {
                // It ends. Or its owner has come back to it, in a later era, which an exchange finds.
                let next = if matches!(new, Holder::Ending { .. }) { new } else { old };
                old = owner.replace(old, next).err().unwrap_or(next);
                continue;
            };
            if new == Holder::Common {
                peers.begin_common(variable, start);
                old = owner.replace(old, new).err().unwrap_or(new);
                continue;
            }
            if !mutant("counts-after-the-exchange") {
                place.begin(now, generation, start, peers.whole(variable));
            }
            match owner.replace(old, new) {
                Ok(()) => break start,
                Err(other) => old = other,
            }
            place.void(now);
        };
        if mutant("counts-after-the-exchange") {
            place.begin(now, generation, begun, peers.whole(variable));
        }
        Acquired::Owned
    }
}

impl Pusher<'_> {
    /// Makes a variable the pusher's own that nobody has pushed to yet; says whether. Nothing is taken
    /// over from anybody, so a push may be under way. Where it does not serve,
    /// [`acquire`](Pusher::acquire) does.
    ///
    /// The caller holds a pin, under which it has found that the variable lives. `whole`: what
    /// [`Peers::whole`] says.
    #[inline]
    pub fn adopt(
        &self,
        (variable, generation): (u32, u32),
        (owner, progress): (&Owner, &Progress),
        whole: *const (),
    ) -> bool {
        let record = self.record;
        let (start, now) = (record.start.get(), Number(record.commit.load(Relaxed)));
        record.begun.set(now.next());
        // Nor was its deletion pushed then: who does that has acquired it.
        let old = owner.holder();
        if start == Number::NEVER || old != Holder::Nobody && !mutant("adopted-from-anybody") {
            return false;
        }
        let Some(place) = record.places.get_or_add(variable) else { return false };
        // All that used the slot before has ended.
        let (writes, reads) = progress.counts();
        let begun = Start { ticket: Ticket { writes, reads }, last: Word::NONE };
        place.begin(now, generation, begun, whole);
        let mine = Holder::Pusher { pusher: record.index, era: start.era(), changes: 0 };
        let adopted = owner.replace(old, mine).is_ok();
        if !adopted {
            mutate!("adopted-in-vain-and-kept": (), place.void(now));
        }
        adopted
    }
}

impl Owner {
    /// Whether every write of the variable of this number has ended that the caller has heard of, for
    /// who does not own it. May say "no" of one that its owner uses just now, and says so of one that
    /// is becoming common.
    pub fn is_quiet<'a>(
        &self,
        variable: u32,
        variables: &impl Variables,
        record: impl FnOnce(u32) -> Option<&'a Record>,
    ) -> bool {
        match self.holder() {
            Holder::Nobody => true,
            Holder::Pusher { pusher, .. } => {
                let place = record(pusher).and_then(|record| record.places.get(variable));
                let writes = place.and_then(Place::most_writes);
                writes.is_some_and(|writes| variables.progress(variable).has_written(writes))
            }
            Holder::Ending { .. } | Holder::Common => false,
        }
    }
}

impl Owner {
    /// What [`Owner::is_quiet`] waits for, if a pusher owns the variable: so many writes, and the last of
    /// them. It may be one of which nothing comes, or an older one.
    pub fn last_write<'a>(&self, variable: u32, record: impl FnOnce(u32) -> Option<&'a Record>) -> Option<(u32, Word)> {
        let Holder::Pusher { pusher, .. } = self.holder() else { return None };
        record(pusher)?.places.get(variable)?.last_write()
    }
}

impl Record {
    /// What the pusher had of a variable that it owned in this era, which is over or ends now.
    /// Whatever it has pushed until then is finished.
    fn hand_over(&self, variable: u32, era: u64, peers: &impl Peers) -> Option<Start> {
        let last = self.end_of(era);
        if last.is_push() && last != Number::last(era) && !mutant("last-push-not-finished") {
            // Acquire: if it is of a later push than we look for, we see that the era is over.
            let operation = Word(self.operations[last.parity()].load(Acquire));
            // If the era is over, the pusher has gone on, and has finished it by itself.
            if Number(self.decided.load(Relaxed)).era() == era || mutant("operation-of-another-era") {
                peers.finish(operation.at(0), operation.stage() == LINKED);
            }
        }
        self.places.get(variable)?.until(last)
    }

    /// The number of the last push of an era, which is closed if it is not. [`Number::last`] if it
    /// is over, and all that counts in it was committed.
    fn end_of(&self, era: u64) -> Number {
        let undecided = Number::before(era);
        // Acquire: pairs with the deciding exchanges and with the release in `open`.
        let order = mutate!("decision-read-relaxed": Relaxed, Acquire);
        let mut decided = Number(self.decided.load(order));
        if decided == undecided {
            // It fails if the era is closed, or over. Relaxed: the fence orders it.
            let _ = self.limit.compare_exchange(Number::limit(era).0, undecided.0, Relaxed, Relaxed);
            // Against the light one in `commit`: either we see the push, or the pusher sees that
            // the era is closed.
            mutate!("closed-without-a-fence": (), heavy());
            // Acquire: the places and the operation of that push.
            let commit = self.commit.load(Acquire);
            if mutant("nothing-decided") {
                return Number(commit);
            }
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
            mutate!("states-of-later-eras-count": Number::NEVER, Number::last(era))
        }
    }
}
