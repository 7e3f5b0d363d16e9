//! Shared variables: several pushers read a variable, and nobody writes. Each of them counts its
//! reads in its own place, by plain loads and stores, as if the variable were its own.
//!
//! Used by `handover.rs` only, when a pusher acquires a variable. The argument for a single owner
//! is in [`owner`](crate::tickets::owner); this file adds the argument for several members. It has
//! functions only: the state is a [`Share`] for each member (`share.rs`), beside the member's
//! record and place.
//!
//! # A share
//! A share begins when a pusher takes a variable from its owner in order to read it
//! ([`Holder::Shared`]). This pusher is the first member of the share, and counts on from what the
//! owner had. The number of the share is made of its first member and of that member's era. No
//! other share of the variable has the same number.
//!
//! Other pushers join. A member's [`Share`] says so: it has the number of the share, and the era in
//! which the member has joined. The member joins again in each further era, with the reads that it
//! has counted. A member
//!
//! 1. begins its place, and then writes its [`Share`];
//! 2. passes a light fence, and looks whether the variable is still shared. If it is not, the
//!    member has not joined, and it ends its era, in which nothing was pushed to the variable.
//!
//! # A write
//! A pusher that wants to write exchanges the holder to [`Holder::Closed`], so that no pusher joins
//! any more, and passes a heavy fence. Then it ends the eras of all members, as a newcomer ends an
//! owner's era, and finishes their last pushes. The variable has had as many reads as all members
//! have counted together. All pushers that find the share closed compute the same sum, and one
//! exchange makes one of them the owner. A member that does so ends its own era first, if it has
//! joined in that era.
//!
//! # Why it holds
//! - *No member is missed.* A member stores its [`Share`] and looks at the holder; the writer
//!   exchanges the holder and looks at the members. One of the two looks sees the other thread's
//!   store: the fences are between.
//! - *What a member has counted stays* until the variable is no longer closed. A place that is
//!   begun has a number of a later era than the era in which its pusher has joined last, and so is
//!   not valid. It is written over the older state, which is the state of a try to join that has
//!   failed, if there was one. A pusher that has read the number of this state just before looks at
//!   it again.
//! - *A read is never early.* The first member has finished the last push of the owner; the other
//!   members find the share behind it. A write is not early either, as the writer has finished the
//!   last push of each member.
//! - *Reads have no order among themselves.* No operation waits for another one that only reads
//!   what it reads.
//! - *No two shares have the same number*, also among the variables that a slot has one after the
//!   other. The end of a share closes the era of its first member, and the member notices this
//!   before it begins another share.
//! - *Nobody hinders another without end.* The closing of a share counts as a change of hands,
//!   unless the share was of use [often enough](PAID). (Reads of pushes that were given up count as
//!   uses as well.)
//!
//! [`Share`]: crate::tickets::owner::share::Share

use crate::operation::access::Ticket;
use crate::platform::asymmetric_fence::{heavy, light};
use crate::sync::{Ordering::*, MODELLED};
use crate::tickets::owner::number::{Holder, Number};
use crate::tickets::owner::place::Place;
use crate::tickets::owner::pusher::{Pusher, Record};
use crate::tickets::owner::Peers;
use crate::tickets::run::Start;
use crate::util::array_vec::ArrayVec;

/// How many reads pay for a share. The end of a share costs some microseconds, and another share
/// may begin at once. So many reads would cost as much if the variable were common.
const PAID: u32 = if MODELLED { 2 } else { 32 };

/// How many members are closed with one fence.
const CLOSED_AT_ONCE: usize = 16;

impl Record {
    /// What the first member of share `id` knows of the last write before the share. `None`: the
    /// member is not in that share any more.
    pub(super) fn shared(&self, variable: u32, id: u64) -> Option<Start> {
        self.shares.get(variable)?.start(id)
    }

    /// Notes that another pusher wants a variable which this pusher owns in this era. This is a
    /// hint: an owner that comes back to its variable lets the other pusher in.
    pub(super) fn want(&self, variable: u32, era: u64) {
        if let Some(share) = self.shares.get_or_add(variable) {
            share.wanted.store(era as u32, Relaxed);
        }
    }

    /// Whether another pusher wanted a variable which this pusher owned in this era.
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
    /// Joins a share, or joins it again; says whether the pusher has joined. If not, the variable
    /// has gone on to another holder, and the caller looks again.
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
            // Release: pairs with the acquire in `members`, like the one in `Share::begin`.
            share.era.store(era, Release);
        } else {
            let Some(start) = peers.record(host).shared(variable, id) else { return false };
            place.begin(now, generation, start, peers.whole(variable), true);
            share.begin(id, era, start);
        }
        // Light side of the asymmetric fence; the heavy side is in `end_share`. Either this thread
        // sees that the share is closed, or the writer that closes it sees this member.
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

/// Whether, about, so many reads were pushed in a share that its end need not count as a change of
/// hands.
pub(super) fn has_paid(variable: u32, id: u64, peers: &impl Peers) -> bool {
    let places = members(variable, id, peers).filter_map(|(record, _)| record.places.get(variable));
    places.map(Place::uses).fold(0, u32::saturating_add) >= PAID
}

/// Ends a share that is closed. Returns the start for the pusher that takes the variable, with the
/// reads of all members. `None`: the caller looks at the holder again.
pub(super) fn end_share(variable: u32, id: u64, peers: &impl Peers) -> Option<Start> {
    // The members that are found before the fence, with the eras that are closed. The one fence
    // serves for all of them; each further member needs a fence of its own.
    let mut closed = ArrayVec::<(u32, u64), CLOSED_AT_ONCE>::new();
    for (record, era) in members(variable, id, peers).take(CLOSED_AT_ONCE) {
        if record.close(era) {
            closed.add((record.index, era));
        }
    }
    // Heavy side of the asymmetric fence; the light sides are in `join`, `Record::commit` and
    // `Record::withdraw`.
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

/// The pushers that have joined a share, or tried to, each with the era in which it has last done
/// so.
fn members<P: Peers>(variable: u32, id: u64, peers: &P) -> impl Iterator<Item = (&Record, u64)> {
    let records = (0..peers.pushers()).filter_map(|pusher| peers.record_if_any(pusher));
    records.filter_map(move |record| {
        let share = record.shares.get(variable)?;
        // Acquire (both): pairs with the releases in `Share::begin` and `join`, so the place is
        // seen.
        (share.id.load(Acquire) == id).then(|| (record, share.era.load(Acquire)))
    })
}
