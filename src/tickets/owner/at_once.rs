//! A push whose operation runs inside it, if all its tickets have come: nothing is written into a
//! block.
//!
//! When the operation has run, the push is withdrawn, unless it stands: see `Record::withdraw`.

use crate::operation::access::Mode;
use crate::tickets::owner::number::Number;
use crate::tickets::owner::place::State;
use crate::tickets::owner::pusher::{Pusher, Record};
use crate::tickets::run::Progress;
use crate::tickets::word::Word;

/// Such a push under way. Nothing has happened until it is committed; before that, who gives it up
/// takes back what it has claimed.
#[derive(Clone, Copy)]
pub struct AtOnce<'a> {
    record: &'a Record,
    start: Number,
    number: Number,
}

/// A use of a variable that was counted.
#[derive(Clone, Copy)]
pub struct Counted<'a> {
    state: &'a State,
    /// Writes that were pushed before. Pushes from inside may have overwritten the state.
    pub writes_before: u32,
}

impl Counted<'_> {
    /// Takes it back: its push is given up, or [withdrawn](AtOnce::withdraw).
    #[inline(always)]
    pub fn take_back(self) {
        self.state.withdraw();
    }
}

impl<'a> Pusher<'a> {
    /// Begins to push an operation that will have run when the push returns.
    #[inline]
    pub fn push_at_once(&mut self) -> AtOnce<'a> {
        let record = self.record;
        AtOnce { record, start: record.start.get(), number: record.begin() }
    }
}

impl<'a> AtOnce<'a> {
    /// Counts a use of a variable by the operation `this`, if the pusher owns the variable, the
    /// operation does not use it already, and all has ended that was pushed to it before. `find` is
    /// given what [`Peers::whole`](crate::tickets::owner::Peers::whole) said when the variable
    /// became the pusher's own.
    #[inline(always)]
    pub fn claim<'v, V>(
        &self,
        (variable, generation): (u32, u32),
        mode: Mode,
        this: Word,
        find: impl FnOnce(*const ()) -> (V, &'v Progress),
    ) -> Option<(Counted<'a>, V)> {
        let record: &'a Record = self.record;
        let place = record.places.get(variable)?;
        let (ticket, _, state) = place.count((self.start, self.number), generation, mode, this)?;
        let (found, progress) = find(place.whole());
        if !progress.has_come(ticket, mode) {
            state.withdraw();
            return None;
        }
        Some((Counted { state, writes_before: ticket.writes }, found))
    }

    /// Commits the push. `false`: nothing has happened, but for what is to be taken back.
    #[inline(always)]
    pub fn commit(&self, this: Word) -> bool {
        self.record.commit(self.number, this)
    }

    /// After the commit, when the operation has run: says whether it is as if there had been no
    /// such push. Then what it has counted is to be taken back. If not, its operation ends as any
    /// other does.
    #[inline(always)]
    pub fn withdraw(&self) -> bool {
        self.record.withdraw(self.number)
    }
}
