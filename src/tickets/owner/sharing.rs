//! Shared variables: several pushers read them, and nobody writes. Each counts its reads in its own
//! place, by plain loads and stores, as if the variable were its own.
//!
//! # A share
//! It begins when a pusher takes a variable from its owner in order to read it
//! ([`Holder::Shared`]): that is its first member, who counts on from what the owner had. A share
//! has the number of its first member and of that one's era, which no other share of the variable
//! has.
//!
//! Others join. A member's [`Share`] says so: the number of the share, and the era in which the
//! member has joined. It joins again in each further era, with the reads that it has counted. A
//! member
//!
//! 1. begins its place, and then writes its [`Share`];
//! 2. passes a light fence, and looks whether the variable is still shared. If it is not, the
//!    member has not joined, and it ends its era, in which nothing was pushed to the variable.
//!
//! # A write
//! Who wants to write exchanges the holder to [`Holder::Closed`], so that nobody joins any more,
//! and passes a heavy fence. Then it ends the eras of all members, as for a newcomer, and finishes
//! their last pushes. The variable has had as many reads as all members have counted together. All
//! who find it closed compute the same, and one exchange makes it somebody's own. A member that
//! does so ends its era first, if it has joined in that.
//!
//! # Why it holds
//! - *No member is missed.* Of its store and its look, and of the exchange and the look at the
//!   members, one sees the other: the fences are between.
//! - *What a member has counted stays* until the variable is no longer closed. A place that is
//!   begun has a number of a later era than the one in which its pusher has joined last, and so
//!   does not count. It is written over the older state, which is that of a try to join that has
//!   failed, if there was one. Who has read its number just before that looks at it again.
//! - *A read is never early.* The first member has finished the last push of the owner; the others
//!   find the share behind that. A write is not early, as it has finished the last push of each
//!   member.
//! - *Reads have no order among themselves.* No operation waits for one that only reads what it
//!   reads.
//! - *A share has its number alone*, also among the variables that a slot has after each other. Its
//!   end closes the era of its first member, who notices that before it begins another.
//! - *Nobody hinders another without end.* That a share is closed counts as a change of hands,
//!   unless it was of use [so often](PAID). (Reads of pushes that were given up count as well.)

use crate::operation::access::Ticket;
use crate::platform::asymmetric_fence::{heavy, light};
use crate::sync::{Ordering::*, MODELLED};
use crate::tickets::owner::number::{Holder, Number};
use crate::tickets::owner::place::Place;
use crate::tickets::owner::pusher::{Pusher, Record};
use crate::tickets::owner::Peers;
use crate::tickets::run::Start;
use crate::util::array_vec::ArrayVec;

/// The end of a share costs some microseconds, and it begins as soon again. So many reads would
/// cost as much if the variable were common.
const PAID: u32 = if MODELLED { 2 } else { 32 };

/// So many members are closed by one fence.
const FEW: usize = 16;

impl Record {
    /// What the first member of a share knows of the last write before it.
    pub(super) fn shared(&self, variable: u32, id: u64) -> Option<Start> {
        self.shares.get(variable)?.start(id)
    }

    /// Notes that another pusher wants a variable that is this one's in this era. A hint: an owner
    /// that comes back to its variable lets the other in.
    pub(super) fn want(&self, variable: u32, era: u64) {
        if let Some(share) = self.shares.get_or_add(variable) {
            share.wanted.store(era as u32, Relaxed);
        }
    }

    /// Whether another pusher wanted a variable in this era.
    pub(super) fn is_wanted(&self, variable: u32, era: u64) -> bool {
        self.shares.get(variable).is_some_and(|share| share.wanted.load(Relaxed) == era as u32)
    }

    /// Notes that the pusher is about to be the first member of a share, in its present era.
    pub(super) fn begin_share(&self, variable: u32, id: u64, start: Start) {
        let share = self.shares.get_or_add(variable).expect("there is a share for each variable");
        share.begin(id, self.start.get().era(), start);
    }
}

impl Pusher<'_> {
    /// Joins a share, or joins it again; says whether it has. If not, the variable has gone on.
    pub(super) fn join(
        &self,
        (variable, generation): (u32, u32),
        (old, host, id): (Holder, u32, u64),
        peers: &impl Peers,
    ) -> bool {
        let record = self.record;
        let (era, now) = (record.start.get().era(), Number(record.commit.load(Relaxed)));
        record.begun.set(now.next());
        let place = record.places.get_or_add(variable).expect("there is a place for each variable");
        let share = record.shares.get_or_add(variable).expect("there is a share for each variable");
        let again = share.id.load(Relaxed) == id;
        if again {
            place.begin_again(now);
            // Release: as in `begin`.
            share.era.store(era, Release);
        } else {
            let Some(start) = peers.record(host).shared(variable, id) else { return false };
            place.begin(now, generation, start, peers.whole(variable), true);
            share.begin(id, era, start);
        }
        // Against the heavy one in `end_share`: either we see that the share is closed, or who
        // closes it sees us.
        light();
        let joined = peers.owner(variable).holder() == old;
        if !joined {
            if again {
                place.void(now);
            }
            record.end_own();
        }
        joined
    }
}

/// Whether so many reads were pushed in a share that its end need not count as a change of hands.
/// About.
pub(super) fn has_paid(variable: u32, id: u64, peers: &impl Peers) -> bool {
    let places = members(variable, id, peers).filter_map(|(record, _)| record.places.get(variable));
    places.map(Place::uses).fold(0, u32::saturating_add) >= PAID
}

/// What a share has come to that is closed: the start of the thread that takes the variable.
/// `None`: look again.
pub(super) fn end_share(variable: u32, id: u64, peers: &impl Peers) -> Option<Start> {
    // Of those that are found before the fence. It serves for all; the others need one each.
    let mut closed = ArrayVec::<(u32, u64), FEW>::new();
    for (record, era) in members(variable, id, peers).take(FEW) {
        if record.close(era) {
            closed.add((record.index, era));
        }
    }
    // Against the light one in `join`, and those in `commit`.
    heavy();
    let (mut all, mut reads) = (None, 0_u32);
    for (record, era) in members(variable, id, peers) {
        let fenced = closed.contains(&(record.index, era));
        let start = record.hand_over_from((variable, era), fenced, peers)?;
        reads = reads.wrapping_add(start.ticket.reads);
        all = Some(start);
    }
    let Start { ticket, last } = all?;
    Some(Start { ticket: Ticket { writes: ticket.writes, reads }, last })
}

/// Those who have joined a share, or tried to, each with the era in which it has done so last.
fn members<P: Peers>(variable: u32, id: u64, peers: &P) -> impl Iterator<Item = (&Record, u64)> {
    let records = (0..peers.pushers()).filter_map(|pusher| peers.record_if_any(pusher));
    records.filter_map(move |record| {
        let share = record.shares.get(variable)?;
        // Acquire (both): the place.
        (share.id.load(Acquire) == id).then(|| (record, share.era.load(Acquire)))
    })
}
