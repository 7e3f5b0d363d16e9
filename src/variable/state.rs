//! The state word of an access: the address of the next access of the same variable, with flags in its low bits.
//!
//! A word only ever gains bits, each by one atomic read-modify-write, so for every condition over the bits exactly one
//! thread sees it become true. That thread owes what the condition demands; [`Change`] says what. The one exception: a word in which
//! nothing can become true any more but by a next access may lose bits for a while, see [`super::loan`], by plain stores if only one thread looks; and the word of a variable's
//! own access starts anew when the variable comes home.

#![forbid(unsafe_code)]

use super::access::{Access, Mode};
use crate::mutants::mutate;

/// `R`: every write before this access is complete.
pub const READABLE: usize = 1;
/// `W`: every access before this one is complete.
pub const WRITABLE: usize = 1 << 1;
/// `C`: the operation of this access has run.
pub const COMPLETE: usize = 1 << 2;
/// `NR`: the next access reads. Set together with its address, in one compare-exchange.
pub const NEXT_READS: usize = 1 << 3;
/// `V`: there is no next access and never will be: the variable was deleted before this access could be linked. The bit of `NR`, which never
/// comes without an address.
pub const VOID: usize = NEXT_READS;

/// The last access of a variable on which nothing is pending: complete, and not followed by another.
pub const IDLE: usize = READABLE | WRITABLE | COMPLETE;
/// The last access of a variable that is lent to a read: others may read beside it.
pub const LENT_TO_READ: usize = READABLE;
/// The last access of a variable that is lent to a write. No other access is writable and not readable.
pub const LENT_TO_WRITE: usize = WRITABLE;

const FLAGS: usize = READABLE | WRITABLE | COMPLETE | NEXT_READS;

/// The bits above those of addresses say which worker has run the operation, counted from 1: they are set together with `C`. Elsewhere than on x86-64 there
/// may be something else in an address, and nothing is said.
const RAN_BITS: u32 = if cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) { 16 } else { 0 };
const RAN_SHIFT: u32 = if RAN_BITS > 0 { usize::BITS - RAN_BITS } else { 0 };
const RAN: usize = ((1 << RAN_BITS) - 1) << RAN_SHIFT;

const _: () = assert!(std::mem::align_of::<Access>() > FLAGS);

/// A snapshot of a state word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State(pub usize);

impl State {
    /// The next access of the variable, null while there is none.
    #[inline]
    pub fn next(self) -> *mut Access {
        std::ptr::with_exposed_provenance_mut(self.0 & !(FLAGS | RAN))
    }

    /// Whether words have room for the addresses of accesses up to this one.
    pub fn has_room_for(highest: usize) -> bool {
        highest & RAN == 0
    }

    /// Whether there will never be a next access.
    #[inline]
    pub fn is_void(self) -> bool {
        self.0 & !(IDLE | RAN) == VOID
    }

    /// `C` for an operation that has run on a worker, or elsewhere.
    #[inline]
    pub fn complete_on(worker: Option<usize>) -> usize {
        let number = worker.map_or(0, |worker| worker + 1);
        COMPLETE | number << RAN_SHIFT & RAN
    }

    /// The worker on which the operation has run, if it has run and that is known. With more workers than can be told apart, a number of another.
    #[inline]
    pub fn ran_on(self) -> Option<usize> {
        ((self.0 & RAN) >> RAN_SHIFT).checked_sub(1)
    }

    /// Whether the variable is idle if this is its last access.
    #[inline]
    pub fn is_idle(self) -> bool {
        self.0 & !RAN == IDLE
    }

    /// Whether all of `flags` are set.
    #[inline]
    pub fn has(self, flags: usize) -> bool {
        self.0 & flags == flags
    }

    /// This word with the address of its next access, which reads or does not.
    #[inline]
    #[must_use]
    pub fn linked_to(self, next: *mut Access, next_reads: bool) -> State {
        debug_assert!(self.next().is_null() && !self.is_void() && next.addr() & (FLAGS | RAN) == 0);
        State(self.0 | next.expose_provenance() | if next_reads { NEXT_READS } else { 0 })
    }

    /// This word with more flags.
    #[inline]
    #[must_use]
    pub fn with(self, flags: usize) -> State {
        State(self.0 | flags)
    }

    /// The flags that an access of mode `next` deserves when it is linked behind an access of mode `mode` in this state.
    #[inline]
    pub fn passed_on(self, mode: Mode, next: Mode) -> usize {
        if self.has(WRITABLE | COMPLETE) {
            READABLE | WRITABLE
        } else if mutate!("read-beside-a-write": true, self.is_read(mode)) && next == Mode::Read && self.has(READABLE) {
            READABLE
        } else {
            0
        }
    }

    /// Whether an access of mode `mode` that is readable reads: itself, or the operation that it is lent to. A write gets both flags at
    /// once, so one that is readable only is lent.
    #[inline]
    fn is_read(self, mode: Mode) -> bool {
        mode == Mode::Read || mutate!("loans-to-reads-not-shared": false, !self.has(WRITABLE))
    }

    /// Everything before is complete, this is complete, and there is someone to tell (or never will be): all the duties
    /// of this access are then done but the last message.
    #[inline]
    fn is_spent(self) -> bool {
        self.has(mutate!("write-beside-its-predecessor": WRITABLE, WRITABLE | COMPLETE)) && self.0 & !(IDLE | RAN) != 0
    }

    /// Whether an access of mode `mode` may run.
    #[inline]
    fn grants(self, mode: Mode) -> bool {
        self.has(if mode == Mode::Read { READABLE } else { WRITABLE })
    }

    /// Whether the next access, a read, may run beside this one, a read. (Or this one is void. Then it never was without the flags.)
    #[inline]
    fn shares(self, mode: Mode) -> bool {
        mode == Mode::Read && self.has(mutate!("write-beside-a-read": READABLE, READABLE | NEXT_READS))
    }
}

/// What the thread that changed a state word must now do, in this order.
#[must_use = "the thread that changed a state word owes what follows from it"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Flags to send to the next access (0: nothing to send).
    pub send: usize,
    /// The operation of this access waits for one access less.
    pub granted: bool,
    /// This access is spent: its operation block has one use less.
    pub spent: bool,
}

impl Change {
    /// What follows from the change of an access of mode `mode` from `old` to `new`.
    #[inline]
    pub fn of(mode: Mode, old: State, new: State) -> Change {
        let spent = !old.is_spent() && new.is_spent();
        let send = if spent {
            if new.next().is_null() {
                0
            } else {
                READABLE | WRITABLE
            }
        } else if mutate!("readers-not-told-of-readers": false, !old.shares(mode)) && new.shares(mode) {
            READABLE
        } else {
            0
        };
        Change { send, granted: mutate!("granted-again": true, !old.grants(mode)) && new.grants(mode), spent }
    }
}
