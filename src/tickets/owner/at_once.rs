//! A push whose operation runs inside it, if all its tickets have come: nothing is written into a
//! block.

use super::number::Number;
use super::pusher::{Pusher, Record};
use crate::fences::light;
use crate::sync::Ordering::*;
use crate::tickets::run::{Progress, Ticket};
use crate::tickets::word::Word;
use crate::variable::access::Mode;

/// Such a push under way. Nothing has happened until it is committed; before that, who gives it up
/// takes back what it has claimed.
pub struct AtOnce<'a> {
    record: &'a Record,
    start: Number,
    number: Number,
}

/// A push that was committed.
#[derive(Clone, Copy)]
pub struct Committed(Number);

impl<'a> Pusher<'a> {
    /// Begins to push an operation that will have run when the push returns.
    #[inline]
    pub fn push_at_once(&mut self) -> AtOnce<'a> {
        let record = self.record;
        let number = Number(record.commit.load(Relaxed)).next();
        AtOnce { record, start: record.start.get(), number }
    }

    /// Whether nobody was given a ticket since a push was committed: the pusher has committed no
    /// other, and nobody has closed its era. If so, whoever is given one from now on finds all that
    /// the caller has done.
    #[inline]
    pub fn is_last(&self, Committed(number): Committed) -> bool {
        // Against the heavy one in `end_of`: either we see that the era is closed, or who closes it
        // sees what was done before this.
        light();
        self.record.commit.load(Relaxed) == number.0 && number.0 < self.record.limit.load(Relaxed)
    }
}

impl AtOnce<'_> {
    /// Counts a use of a variable by the operation `this`, if the pusher owns the variable, the
    /// operation does not use it already, and all has ended that was pushed to it before. Says what
    /// its ticket is. `find` is given what [`Peers::whole`](super::Peers::whole) said when the variable
    /// became the pusher's own.
    #[inline(always)]
    pub fn claim<'v, V>(
        &self,
        (variable, generation): (u32, u32),
        mode: Mode,
        this: Word,
        find: impl FnOnce(*const ()) -> (V, &'v Progress),
    ) -> Option<(Ticket, V)> {
        let place = self.record.places.get(variable)?;
        let (ticket, _) = place.count((self.start, self.number), generation, mode, this)?;
        let (found, progress) = find(place.whole());
        if !progress.has_come(ticket, mode) {
            place.void(self.number);
            return None;
        }
        Some((ticket, found))
    }

    /// Takes back what [`AtOnce::claim`] has counted.
    pub fn take_back(&self, variable: u32) {
        if let Some(place) = self.record.places.get(variable) {
            place.void(self.number);
        }
    }

    /// Commits the push. `false`: nothing has happened, but for what is to be taken back.
    #[inline]
    pub fn commit(&self, this: Word) -> Option<Committed> {
        self.record.commit(self.number, this).then_some(Committed(self.number))
    }
}
