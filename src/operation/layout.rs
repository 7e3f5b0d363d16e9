//! Layout of a block: where the parts of an operation lie, and how large its block must be.
//! `block.rs` asks it for addresses, and pushes for the size of a block ([`class_for`]). Which
//! block is taken is decided in `src/thread/context.rs`. There is no state here. The
//! [`Timestamps`] of an operation lie in its block, for the thread that has it.
//!
//! Blocks come in size classes: 128 bytes, and twice as much for each further class. The header is
//! the first cache line. Behind it come the accesses; for each access the write before it; the
//! links of an enlisted operation; the times of a profiled operation; and the closure.

use crate::operation::access::{Access, ACCESSES_OFFSET};
use crate::sync::{AtomicU64, MODELLED};
use std::mem::size_of;

/// Closures up to this many bytes are stored in the block.
pub const INLINE_CLOSURE: usize = 512;
/// Closures that need a larger alignment than this are not stored in the block.
pub const CLOSURE_ALIGN: usize = 16;

/// The size in bytes of a block of the smallest class: two lines, of which the header is the first.
pub const SMALLEST: usize = 2 * ACCESSES_OFFSET;

/// The bytes of the [`Links`](crate::tickets::links::Links) of an operation, without the
/// successors.
pub const LINKS: usize = if MODELLED { 512 } else { 16 };

/// The number of size classes: 128 bytes to 256 MiB.
pub const CLASSES: usize = if MODELLED { 2 } else { 22 };

/// The largest class that usual operations need: it holds eight accesses and the longest closure
/// that is stored in a block.
pub const USUAL: u8 = if MODELLED { 1 } else { 3 };

/// The most accesses that an operation can have, whatever its layout: 8 million.
pub const MOST_ACCESSES: usize =
    (size(CLASSES as u8 - 1) - ACCESSES_OFFSET - LINKS - size_of::<Timestamps>() - INLINE_CLOSURE - CLOSURE_ALIGN)
        / (size_of::<Access>() + 2 * size_of::<AtomicU64>());

const _: () = assert!(size_of::<Access>() % CLOSURE_ALIGN == 0 && ACCESSES_OFFSET % CLOSURE_ALIGN == 0);
const _: () = assert!(size_of::<Timestamps>() % CLOSURE_ALIGN == 0);
const _: () = assert!(behind(8, Layout::Linked) + size_of::<Timestamps>() + INLINE_CLOSURE <= size(USUAL));

/// The size in bytes of a block of `class`.
pub const fn size(class: u8) -> usize {
    SMALLEST << class
}

/// When an operation was pushed, became ready and was started, in nanoseconds of the engine's
/// clock, and on which threads.
#[derive(Clone, Copy)]
pub struct Timestamps {
    pub push: u64,
    pub ready: u64,
    pub start: u64,
    pub pushed_on: u32,
    pub started_on: u32,
}

/// In place of the time of the push: the operation was recorded before it ends.
pub const RECORDED: u64 = u64::MAX;

/// What lies between an operation's accesses and its times or closure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// For each access, the write before it: [`before`](crate::operation::block::Block::before).
    Plain,
    /// The same, and the operation's [`Links`](crate::tickets::links::Links).
    Linked,
}

/// The offset of the writes before, of an operation with so many accesses.
pub(super) const fn behind_accesses(accesses: usize) -> usize {
    ACCESSES_OFFSET + accesses * size_of::<Access>()
}

/// The offset of the times of an operation with so many accesses or, if it has no times, of its
/// closure.
pub(super) const fn behind(accesses: usize, layout: Layout) -> usize {
    let words = accesses * size_of::<AtomicU64>();
    let more = match layout {
        Layout::Plain => words,
        // As many successors as there are accesses, though some accesses may not be linked.
        Layout::Linked => words + LINKS + words,
    };
    behind_accesses(accesses) + more.next_multiple_of(CLOSURE_ALIGN)
}

/// The smallest class whose blocks hold so many accesses (at most [`MOST_ACCESSES`]), a closure of
/// so many bytes, and times if `timed`.
#[inline(always)]
pub fn class_for(accesses: usize, closure: usize, timed: bool, layout: Layout) -> u8 {
    let times = if timed { size_of::<Timestamps>() } else { 0 };
    let needed = behind(accesses, layout) + times + closure;
    let mut class = 0;
    while size(class) < needed {
        class += 1;
    }
    class
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// The operations that several threads push most are as small as those of one pusher.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn an_operation_on_one_variable_is_of_the_smallest_class() {
        assert_eq!(class_for(1, 16, false, Layout::Linked), 0);
        assert_eq!(class_for(1, 32, false, Layout::Plain), 0);
        assert_eq!(class_for(5, 64, false, Layout::Linked), 2);
    }

    #[test]
    fn the_largest_operations_fit_the_largest_class() {
        for layout in [Layout::Plain, Layout::Linked] {
            assert!(usize::from(class_for(MOST_ACCESSES, INLINE_CLOSURE, true, layout)) < CLASSES);
        }
    }
}
