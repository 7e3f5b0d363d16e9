//! The push of an operation that runs inside it, if all its tickets have come: nothing is written
//! into a block.
//!
//! Used by `engine/inline/fast_path.rs`, on the pusher's thread. When the operation has run, the
//! push is withdrawn, unless it stands: see `Record::withdraw` in `pusher.rs`, where [`Push`] is
//! the push of an operation that runs later. An [`AtOnce`] is that thread's own. It writes the
//! pusher's record and places (`place.rs`), which other threads read.
//!
//! [`Push`]: crate::tickets::owner::Push

use crate::operation::access::Mode;
use crate::tickets::owner::number::Number;
use crate::tickets::owner::place::State;
use crate::tickets::owner::pusher::{Pusher, Record};
use crate::tickets::run::Progress;
use crate::tickets::word::Word;
use crate::util::bucket_array::Location;

/// The push of an operation that runs inside it, under way. Nothing has happened until it is
/// committed. A caller that gives it up before takes back what it has claimed.
#[derive(Clone, Copy)]
pub struct AtOnce<'a> {
    record: &'a Record,
    start: Number,
    number: Number,
}

/// The same push once it is committed.
#[derive(Clone, Copy)]
pub struct Committed<'a> {
    record: &'a Record,
    number: Number,
}

/// A use of a variable that an [`AtOnce`] has counted.
#[derive(Clone, Copy)]
pub struct Counted<'a> {
    state: &'a State,
    /// How many writes of the variable were pushed before. Kept here, as pushes from inside the
    /// operation may have overwritten the state.
    pub writes_before: u32,
}

impl Counted<'_> {
    /// Takes the use back, when its push is given up or [withdrawn](Committed::withdraw).
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
    /// Counts a use of a variable by the operation `this`, under three conditions. The pusher owns
    /// the variable, or shares it and the use is a read. The operation does not use it already. All
    /// operations have ended that the use has to wait for. `at`: the location of the variable.
    /// `find` is given what [`Peers::whole`](crate::tickets::owner::Peers::whole) said when the
    /// pusher acquired the variable. The same rule is in
    /// [`Push::claim`](crate::tickets::owner::Push::claim).
    #[inline(always)]
    pub fn claim<'v, V>(
        &self,
        (at, generation): (Location, u32),
        mode: Mode,
        this: Word,
        find: impl FnOnce(*const ()) -> (V, &'v Progress),
    ) -> Option<(Counted<'a>, V)> {
        let record: &'a Record = self.record;
        let place = record.places.get_at(at)?;
        let (ticket, _, state) = place.count((self.start, self.number), generation, mode, this)?;
        let (found, progress) = find(place.whole());
        if !progress.has_come(ticket, mode) {
            state.withdraw();
            return None;
        }
        Some((Counted { state, writes_before: ticket.writes }, found))
    }

    /// Commits the push. `None`: nothing has happened, but the caller has to take back the counted
    /// uses.
    #[inline(always)]
    pub fn commit(self, this: Word) -> Option<Committed<'a>> {
        let AtOnce { record, number, .. } = self;
        record.commit(number, this).then_some(Committed { record, number })
    }
}

impl Committed<'_> {
    /// Withdraws the push after the operation has run. If this returns `true`, the push has left no
    /// trace, and the caller takes back the uses that it counted. Otherwise the operation ends as
    /// any other does.
    #[inline(always)]
    pub fn withdraw(&self) -> bool {
        self.record.withdraw(self.number)
    }
}
