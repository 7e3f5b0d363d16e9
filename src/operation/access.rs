//! Accesses: how an operation uses a variable, and its ticket there. Pushes write them into blocks
//! (`src/engine/push/`); `src/tickets/run.rs` tests and counts the tickets, on the thread that has
//! the operation. Which other thread may change what is said at [`Access`].

use crate::sync::{AtomicU64, MODELLED};

/// How an access uses its variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mode {
    /// Has the variable to itself.
    Write = 0,
    /// Shares the variable with other reads.
    Read = 1,
    /// A write after which nothing uses the variable again.
    Delete = 2,
    /// Of a commutative variable: changes it, one operation at a time, in any order with others of
    /// this mode (`src/tickets/phases.rs`, `src/tickets/hold.rs`).
    Commute = 4,
    /// A read of a commutative variable. Only enlisted accesses have this mode: a claim says
    /// [`Mode::Read`].
    PhasedRead = 5,
}

/// The bit that all modes have which change nothing.
const READS: u8 = 1;

impl Mode {
    /// Whether an access of this mode changes its variable.
    #[inline(always)]
    pub fn changes(self) -> bool {
        self as u8 & READS == 0
    }

    /// The same without phases, for what only asks whether an access reads or changes.
    pub fn plain(self) -> Mode {
        match self {
            Mode::PhasedRead => Mode::Read,
            Mode::Commute => Mode::Write,
            plain => plain,
        }
    }
}

/// A ticket: how many writes and reads of one variable were pushed before the operation. The
/// operation may run when they have ended; for a read only the writes count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ticket {
    pub writes: u32,
    pub reads: u32,
}

impl Ticket {
    /// The ticket as one number.
    #[inline]
    pub fn packed(self) -> u64 {
        u64::from(self.writes) | u64::from(self.reads) << 32
    }

    /// The ticket that [`Ticket::packed`] gave.
    #[inline]
    pub fn of(packed: u64) -> Ticket {
        Ticket { writes: packed as u32, reads: (packed >> 32) as u32 }
    }
}

/// One operation's use of one variable: four accesses fill a cache line.
///
/// Only `ticket` changes once another thread can see the access; the rest is written before. On a
/// common variable any thread that helps with the push stores the ticket, all the same one
/// (`src/tickets/linking.rs`). Pushes and waits that come behind it there read it, and so does
/// `src/engine/diagnose.rs`. When the operation has ended, `Block::mark_lines` may write over it.
#[repr(C, align(16))]
pub struct Access {
    /// The access's ticket, as [`Ticket::packed`] gives it.
    pub ticket: AtomicU64,
    /// The number of the variable.
    pub variable: u32,
    /// The distance in bytes from the operation's block, and in the lowest bits the mode.
    place: u32,
}

/// The distance in bytes from a block to its first access.
pub const ACCESSES_OFFSET: usize = if MODELLED { 2048 } else { 64 };

/// The bits of `place` that hold a [`Mode`]: distances are multiples of 16.
const MODE: u32 = 15;
const _: () = assert!(ACCESSES_OFFSET % 16 == 0 && std::mem::size_of::<Access>() % 16 == 0);

impl Access {
    /// Access `index` of an operation that no other thread knows yet.
    #[inline]
    pub fn new(variable: u32, index: u32, mode: Mode, ticket: Ticket) -> Access {
        let distance = ACCESSES_OFFSET as u32 + index * std::mem::size_of::<Access>() as u32;
        Access { ticket: AtomicU64::new(ticket.packed()), variable, place: distance | mode as u32 }
    }

    /// How the variable is used.
    #[inline]
    pub fn mode(&self) -> Mode {
        // SAFETY: `new` has put a mode there.
        unsafe { std::mem::transmute::<u8, Mode>((self.place & MODE) as u8) }
    }

    /// The distance in bytes from the operation's block.
    #[inline]
    pub fn distance(&self) -> usize {
        (self.place & !MODE) as usize
    }
}
