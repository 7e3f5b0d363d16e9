//! A pusher's part in a share: the share's number, and with what the share began. Only the member
//! writes it, except `wanted`, which other pushers write. Any pusher reads it, and so do threads
//! that wait for the variable. The protocol is in [`sharing`](crate::tickets::owner::sharing).

use crate::operation::access::Ticket;
use crate::sync::{AtomicU32, AtomicU64, Ordering::*};
use crate::tickets::run::Start;
use crate::tickets::word::Word;
use crate::util::bucket_array::Vacant;

/// A pusher's part in sharing a variable. The pusher writes it (except `wanted`), and any thread
/// reads it.
#[repr(C, align(32))]
pub struct Share {
    /// The number of the share, made of its first member and the era of that member. 0: no share.
    pub id: AtomicU64,
    /// The era in which the pusher has last joined the share.
    pub era: AtomicU64,
    /// The last write before the share.
    pub last: AtomicU64,
    /// How many writes there were up to that one, itself included.
    pub writes: AtomicU32,
    /// The lower part of an era in which the pusher owned the variable and another pusher wanted
    /// it. Other pushers write it.
    pub wanted: AtomicU32,
}

// SAFETY: zeros are the atomics of `vacant`; it needs no destructor.
unsafe impl Vacant for Share {
    const NAME: &'static str = "share";

    fn vacant() -> Share {
        Share {
            id: AtomicU64::new(0),
            era: AtomicU64::new(0),
            last: AtomicU64::new(0),
            writes: AtomicU32::new(0),
            wanted: AtomicU32::new(0),
        }
    }
}

impl Share {
    /// Becomes a member's part in share `id`, which begins with `start`.
    pub fn begin(&self, id: u64, era: u64, start: Start) {
        // Release (both): pairs with the acquires in `start`. A thread that reads one of these
        // values finds that the variable has gone on from an earlier share.
        self.last.store(start.last.0, Release);
        self.writes.store(start.ticket.writes, Release);
        // Release (both): pairs with the acquires in `sharing::members`. A thread that reads one of
        // these values finds the place. If the era is over, the thread passes no fence that would
        // bring the place.
        self.era.store(era, Release);
        self.id.store(id, Release);
    }

    /// With what the share `id` begins for a pusher that joins it, according to this member's part.
    /// `None`: the member is not in that share any more.
    pub fn start(&self, id: u64) -> Option<Start> {
        // Acquire (all): pairs with the releases in `begin`.
        if self.id.load(Acquire) != id {
            return None;
        }
        let ticket = Ticket { writes: self.writes.load(Acquire), reads: 0 };
        Some(Start { ticket, last: Word(self.last.load(Acquire)) })
    }
}
