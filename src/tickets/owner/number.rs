//! Numbers of pushes, and the word that says whose a variable is.

#![forbid(unsafe_code)]

use crate::operation::access::Ticket;
use crate::sync::{AtomicU32, AtomicU64, Ordering::*, MODELLED};

/// Bits of a push's number within its era. An era that has used them up ends: after minutes at 10
/// ns a push.
const COUNT_BITS: u32 = 36;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
const ERA_BITS: u32 = 64 - COUNT_BITS;
/// A record whose eras are used up is of no use to a pusher any more.
const ERAS: u64 = (1 << ERA_BITS) - 1;

/// The number of a push: its era, and within that its count. Count 0 is no push; count 1 stands for
/// what the pusher has when the era begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Number(pub u64);

impl Number {
    /// Before all others: that of a state that does not count.
    pub const NONE: Number = Number(0);
    /// Behind all others.
    pub const NEVER: Number = Number(u64::MAX);

    /// Before the start of an era.
    pub fn before(era: u64) -> Number {
        Number(era << COUNT_BITS)
    }

    /// Where an era begins.
    pub fn start(era: u64) -> Number {
        Number(era << COUNT_BITS | 1)
    }

    /// Behind all pushes of an era.
    pub fn last(era: u64) -> Number {
        Number(era << COUNT_BITS | COUNT)
    }

    /// An era has no push behind this one, which looks further.
    pub fn limit(era: u64) -> Number {
        Number(Number::last(era).0 - 1)
    }

    pub fn era(self) -> u64 {
        self.0 >> COUNT_BITS
    }

    /// The era behind this number's, if there is one more.
    pub fn next_era(self) -> Option<u64> {
        (self.era() + 1 < ERAS).then_some(self.era() + 1)
    }

    /// The next push, of the same era.
    #[inline]
    pub fn next(self) -> Number {
        Number(self.0 + 1)
    }

    /// The push before this one, or what the pusher had then.
    #[inline]
    pub fn before_it(self) -> Number {
        Number(self.0 - 1)
    }

    /// Whether a push has this number.
    pub fn is_push(self) -> bool {
        self.0 & COUNT > 1
    }

    /// Even or odd.
    #[inline]
    pub fn parity(self) -> usize {
        (self.0 & 1) as usize
    }
}

/// Whose a variable is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Holder {
    /// Nobody has used it.
    Nobody,
    /// The pusher of this number, in one of its eras; that many changes of hands ago it was new.
    Pusher { pusher: u32, era: u64, changes: u8 },
    /// Several pushers read it, and nobody writes. This one was the first, in this era of its.
    Shared { pusher: u32, era: u64, changes: u8 },
    /// It was, and nobody joins them any more.
    Closed { pusher: u32, era: u64, changes: u8 },
    /// Nobody's any more; as a common variable it begins with what this pusher had of it.
    Ending { pusher: u32, era: u64 },
    /// Nobody's: pushes enlist.
    Common,
}

impl Holder {
    /// The number of a share: that of its first member, and of its era.
    pub fn share(pusher: u32, era: u64) -> u64 {
        Holder::Shared { pusher, era, changes: 0 }.word()
    }
}

/// Which pusher owns a variable. A word of the variable; all else about its owner's pushes is the
/// owner's.
pub struct Owner {
    holder: AtomicU64,
    /// What was pushed when the holder took the variable, and how many writes will have ended when
    /// all of that has, modulo 2³². Hints.
    taken_at: [AtomicU32; 2],
}

/// Bits of a pusher's number. There are fewer threads.
pub(super) const PUSHER_BITS: u32 = 24;
const KIND: u64 = 7;
const CHANGES_SHIFT: u32 = 3;
const PUSHER_SHIFT: u32 = 10;
const MOST_CHANGES: u8 = (1 << (PUSHER_SHIFT - CHANGES_SHIFT)) - 1;
const ERA_SHIFT: u32 = PUSHER_SHIFT + PUSHER_BITS;
const _: () = assert!(ERA_SHIFT + ERA_BITS <= 64);

impl Holder {
    fn word(self) -> u64 {
        let place = |pusher: u32, era: u64, changes: u8| {
            u64::from(changes) << CHANGES_SHIFT | u64::from(pusher) << PUSHER_SHIFT | era << ERA_SHIFT
        };
        match self {
            Holder::Nobody => 0,
            Holder::Pusher { pusher, era, changes } => 1 | place(pusher, era, changes),
            Holder::Ending { pusher, era } => 2 | place(pusher, era, 0),
            Holder::Common => 3,
            Holder::Shared { pusher, era, changes } => 4 | place(pusher, era, changes),
            Holder::Closed { pusher, era, changes } => 5 | place(pusher, era, changes),
        }
    }

    fn of(word: u64) -> Holder {
        let pusher = (word >> PUSHER_SHIFT) as u32 & ((1 << PUSHER_BITS) - 1);
        let era = word >> ERA_SHIFT;
        let changes = (word >> CHANGES_SHIFT) as u8 & MOST_CHANGES;
        match word & KIND {
            0 => Holder::Nobody,
            1 => Holder::Pusher { pusher, era, changes },
            2 => Holder::Ending { pusher, era },
            4 => Holder::Shared { pusher, era, changes },
            5 => Holder::Closed { pusher, era, changes },
            _ => Holder::Common,
        }
    }
}

impl Owner {
    /// Of a variable that nobody has used: all zeros.
    pub fn new() -> Owner {
        Owner { holder: AtomicU64::new(0), taken_at: [AtomicU32::new(0), AtomicU32::new(0)] }
    }

    /// Makes it that of a new variable, which nobody else knows.
    pub fn renew(&self) {
        self.holder.store(0, Relaxed);
    }

    /// Notes that the variable has changed hands, after so many uses pushed, of which so many
    /// writes have ended: first by the tickets' count, then, looked at later, by the variable's
    /// version.
    pub(super) fn note_taken(&self, pushed: Ticket, ended: u32, version: u64) {
        if MODELLED {
            return; // To a model these were more accesses to explore, on which nothing depends.
        }
        let backlog = pushed.writes.wrapping_sub(ended);
        let [at_push, at_end] = &self.taken_at;
        at_push.store(pushed.writes.wrapping_add(pushed.reads), Relaxed);
        at_end.store((version as u32).wrapping_add(backlog), Relaxed);
    }

    /// About how often the variable was used since it changed hands. Uses whose pushes were
    /// withdrawn are not among the pushed ones, and reads not among those that have ended.
    pub(super) fn used_since(&self, pushed: Ticket, ended: u64) -> u32 {
        if MODELLED {
            return 0;
        }
        let [at_push, at_end] = &self.taken_at;
        let pushed = pushed.writes.wrapping_add(pushed.reads).wrapping_sub(at_push.load(Relaxed));
        let ended = (ended as u32).wrapping_sub(at_end.load(Relaxed));
        // What was noted may be newer than what is compared with it.
        (pushed as i32).max(ended as i32).max(0) as u32
    }

    pub(super) fn holder(&self) -> Holder {
        // Acquire: what the holder has of the variable was written before it became the holder.
        Holder::of(self.holder.load(Acquire))
    }

    /// Changes hands, unless somebody else was quicker: then who holds it now.
    pub(super) fn replace(&self, old: Holder, new: Holder) -> Result<(), Holder> {
        // Release: what the new holder has of the variable. Acquire: as in `holder`.
        match self.holder.compare_exchange(old.word(), new.word(), AcqRel, Acquire) {
            Ok(_) => Ok(()),
            Err(other) => Err(Holder::of(other)),
        }
    }
}

impl Default for Owner {
    fn default() -> Owner {
        Owner::new()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_read_as_it_was_written() {
        let pusher = (1 << PUSHER_BITS) - 1;
        for era in [1, ERAS] {
            for holder in [
                Holder::Nobody,
                Holder::Pusher { pusher, era, changes: 0 },
                Holder::Pusher { pusher: 0, era, changes: MOST_CHANGES },
                Holder::Shared { pusher, era, changes: 3 },
                Holder::Closed { pusher: 7, era, changes: MOST_CHANGES },
                Holder::Ending { pusher, era },
                Holder::Common,
            ] {
                assert_eq!(Holder::of(holder.word()), holder);
            }
        }
        assert_eq!(Owner::default().holder(), Holder::Nobody);
    }

    #[test]
    fn what_was_pushed_before_a_change_of_hands_is_not_used_after_it() {
        let owner = Owner::new();
        // 3,000 were pushed, of which none has ended; then they end, and one more.
        owner.note_taken(Ticket { writes: 3000, reads: 0 }, 0, 7);
        assert_eq!(owner.used_since(Ticket { writes: 3001, reads: 0 }, 7 + 3000), 1);
        // Writes whose pushes were withdrawn: they are among the ended ones alone.
        assert_eq!(owner.used_since(Ticket { writes: 3001, reads: 0 }, 7 + 3000 + 1200), 1200);
    }

    #[test]
    fn numbers_of_a_later_era_are_larger() {
        assert!(Number::NONE < Number::before(1) && Number::before(1) < Number::start(1));
        assert!(Number::start(1).next() < Number::last(1) && Number::last(1) < Number::before(2));
        assert!(!Number::start(3).is_push() && !Number::before(3).is_push() && Number::start(3).next().is_push());
        assert_eq!(Number::last(ERAS - 1).next_era(), None);
        assert!(Number::last(ERAS) <= Number::NEVER);
    }
}
