//! A pusher's part in a share: see [`sharing`](crate::tickets::owner::sharing).

use crate::operation::access::Ticket;
use crate::sync::{AtomicU32, AtomicU64, Ordering::*};
use crate::tickets::run::Start;
use crate::tickets::word::Word;
use crate::util::bucket_array::Vacant;

/// A pusher's part in sharing a variable. The pusher writes it, and anybody reads it.
#[repr(C, align(32))]
pub struct Share {
    /// Which share it is: the number of the first member and of its era; 0: none.
    pub id: AtomicU64,
    /// The era in which the pusher has joined last.
    pub era: AtomicU64,
    /// The last write before the share.
    pub last: AtomicU64,
    /// How many writes there were with that one.
    pub writes: AtomicU32,
    /// An era in which the pusher owned the variable and another wanted it: the lower part. Others
    /// write it.
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
        // Release (both): who finds one of them finds that the variable has gone on from an earlier
        // share.
        self.last.store(start.last.0, Release);
        self.writes.store(start.ticket.writes, Release);
        // Release (both): who finds one of them finds the place. If the era is over, no fence
        // brings that.
        self.era.store(era, Release);
        self.id.store(id, Release);
    }

    /// With what a share begins for who joins it, of a member's part.
    pub fn start(&self, id: u64) -> Option<Start> {
        // Acquire (all): see `begin`.
        if self.id.load(Acquire) != id {
            return None;
        }
        let ticket = Ticket { writes: self.writes.load(Acquire), reads: 0 };
        Some(Start { ticket, last: Word(self.last.load(Acquire)) })
    }
}
