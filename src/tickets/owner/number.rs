//! Two words of the ownership protocol: the [`Number`] of a push, and the [`Owner`] of a variable.
//!
//! Numbers are used within this folder only. The `Owner` is a part of the variable's slot
//! (`variable/slot.rs`, which calls [`Owner::renew`]). Any pusher changes it, by the exchanges in
//! `handover.rs`. Threads that wait for the variable read it.

#![forbid(unsafe_code)]

use crate::operation::access::Ticket;
use crate::sync::{AtomicU32, AtomicU64, Ordering::*, MODELLED};

/// Bits of the count, which numbers a push within its era. An era that has used up its counts ends:
/// after minutes at 10 ns a push.
const COUNT_BITS: u32 = 36;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
const ERA_BITS: u32 = 64 - COUNT_BITS;
/// A record whose eras are used up cannot be used by a pusher any more.
const ERAS: u64 = (1 << ERA_BITS) - 1;

/// The number of a push: its era, and below it the count within the era. Count 0 is no push. Count
/// 1 stands for what the pusher has when the era begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Number(pub u64);

impl Number {
    /// Smaller than all others: the number of a state that is empty.
    pub const NONE: Number = Number(0);
    /// Larger than all others.
    pub const NEVER: Number = Number(u64::MAX);

    /// Smaller than the start of an era. In `decided`, it says that the end of the era is
    /// undecided; in `limit`, that the era is closed.
    pub fn before(era: u64) -> Number {
        Number(era << COUNT_BITS)
    }

    /// What an era begins with, before its first push.
    pub fn start(era: u64) -> Number {
        Number(era << COUNT_BITS | 1)
    }

    /// Larger than all pushes of an era.
    pub fn last(era: u64) -> Number {
        Number(era << COUNT_BITS | COUNT)
    }

    /// The limit of an open era. The push that has this number is the last one of the era: it has
    /// to look at `decided`.
    pub fn limit(era: u64) -> Number {
        Number(Number::last(era).0 - 1)
    }

    pub fn era(self) -> u64 {
        self.0 >> COUNT_BITS
    }

    /// The era after the one of this number, if there is one more.
    pub fn next_era(self) -> Option<u64> {
        (self.era() + 1 < ERAS).then_some(self.era() + 1)
    }

    /// The next push, of the same era.
    #[inline]
    pub fn next(self) -> Number {
        Number(self.0 + 1)
    }

    /// The number of the push before, or of what the pusher had when the era began.
    #[inline]
    pub fn before_it(self) -> Number {
        Number(self.0 - 1)
    }

    /// Whether a push has this number.
    pub fn is_push(self) -> bool {
        self.0 & COUNT > 1
    }

    /// The index of the push among the last two: 0 if the number is even, 1 if it is odd.
    #[inline]
    pub fn parity(self) -> usize {
        (self.0 & 1) as usize
    }
}

/// The owner of a variable, or how it is held without one. In the variants `pusher` is a pusher's
/// number and `era` an era of this pusher; `changes` counts the changes of hands that are not
/// forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Holder {
    /// Nobody has used the variable.
    Nobody,
    /// This pusher owns the variable, in this era.
    Pusher { pusher: u32, era: u64, changes: u8 },
    /// Several pushers read the variable, and nobody writes. This pusher was the first of them, in
    /// this era.
    Shared { pusher: u32, era: u64, changes: u8 },
    /// The variable was `Shared`; no pusher joins the share any more.
    Closed { pusher: u32, era: u64, changes: u8 },
    /// Nobody owns the variable any more. It is about to be common, and begins with what this
    /// pusher had of it in this era.
    Ending { pusher: u32, era: u64 },
    /// Nobody owns the variable: pushes enlist.
    Common,
}

impl Holder {
    /// The number of a share: made of its first member and the era of that member.
    pub fn share(pusher: u32, era: u64) -> u64 {
        Holder::Shared { pusher, era, changes: 0 }.word()
    }
}

/// The word of a variable that names its owner, its [`Holder`]. All else about the owner's pushes
/// is in the owner's [`Record`](crate::tickets::owner::Record).
pub struct Owner {
    holder: AtomicU64,
    /// How many uses were pushed when the holder took the variable, and how many writes will have
    /// ended when all of these uses have, modulo 2³². Hints.
    taken_at: [AtomicU32; 2],
}

/// Bits of a pusher's number. There are fewer threads than such numbers.
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
    /// The word of a variable that nobody has used: all zeros.
    pub fn new() -> Owner {
        Owner { holder: AtomicU64::new(0), taken_at: [AtomicU32::new(0), AtomicU32::new(0)] }
    }

    /// Resets the word for a new variable, which no other thread knows.
    pub fn renew(&self) {
        self.holder.store(0, Relaxed);
    }

    /// Makes a new variable common from the start, which no other thread knows yet.
    pub fn begin_common(&self) {
        self.holder.store(Holder::Common.word(), Relaxed);
    }

    /// Notes that the variable has changed hands when the uses of the ticket `pushed` were pushed,
    /// of which `ended` writes have ended. `version`: the variable's version, which is looked at
    /// later than `ended`.
    pub(super) fn note_taken(&self, pushed: Ticket, ended: u32, version: u64) {
        if MODELLED {
            return; // In a model these would be more accesses to explore, on which nothing depends.
        }
        let backlog = pushed.writes.wrapping_sub(ended);
        let [at_push, at_end] = &self.taken_at;
        at_push.store(pushed.writes.wrapping_add(pushed.reads), Relaxed);
        at_end.store((version as u32).wrapping_add(backlog), Relaxed);
    }

    /// About how often the variable was used since it changed hands. `pushed`: its ticket now;
    /// `ended`: its version now. Uses whose pushes were withdrawn are not among the pushed ones,
    /// and reads not among the ended ones.
    pub(super) fn used_since(&self, pushed: Ticket, ended: u64) -> u32 {
        if MODELLED {
            return 0;
        }
        let [at_push, at_end] = &self.taken_at;
        let pushed = pushed.writes.wrapping_add(pushed.reads).wrapping_sub(at_push.load(Relaxed));
        let ended = (ended as u32).wrapping_sub(at_end.load(Relaxed));
        // The noted numbers may be newer than the numbers that are compared with them.
        (pushed as i32).max(ended as i32).max(0) as u32
    }

    pub(super) fn holder(&self) -> Holder {
        // Acquire: pairs with the release in `replace`. What the holder has of the variable was
        // written before it became the holder.
        Holder::of(self.holder.load(Acquire))
    }

    /// Exchanges the holder `old` for `new`. If another pusher was quicker, returns the holder that
    /// it has stored.
    pub(super) fn replace(&self, old: Holder, new: Holder) -> Result<(), Holder> {
        // Release: publishes what the new holder has of the variable.
        // Acquire: pairs with this release of the pusher that was quicker, like the load in
        // `holder`.
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
        // 3,000 writes were pushed, of which none has ended. Then they end, and one more.
        owner.note_taken(Ticket { writes: 3000, reads: 0 }, 0, 7);
        assert_eq!(owner.used_since(Ticket { writes: 3001, reads: 0 }, 7 + 3000), 1);
        // Writes whose pushes were withdrawn are among the ended ones alone.
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
