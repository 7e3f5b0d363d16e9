//! The word of an operation's block: stage, first parked block, and a tag that tells one use of the
//! block from the next. The word itself lies in the block; here are only its values. The pusher
//! stores it (`src/engine/push/`, `thread/pusher.rs`). Any thread may exchange it, to take the
//! operation or to park on it, and the thread that ends the operation frees it (`run.rs`). All code
//! that holds a reference to an operation compares it.
//!
//! Two bits are the stage, 41 an address (blocks lie on multiples of 128 below 2⁴⁸), and 21 the
//! tag. The address field has two uses:
//!
//! - In a block's own word it is the first block of the list of parked operations, or null.
//! - In a *reference* to an operation it is the operation's block; the stage is 0.

#![forbid(unsafe_code)]

use crate::operation::block::Block;
use crate::platform::low_memory::ADDRESS_BITS;

/// The operation of this tag has ended, or was never pushed.
pub const FREE: u64 = 1;
/// Pushed, and in a log or about to be: the thread that takes it runs or parks it.
pub const PUSHED: u64 = 2;
/// A thread has taken it. It may be parked since.
pub const TAKEN: u64 = 3;

const STAGE: u64 = 3;
const PLACE_BITS: u32 = 41;
const PLACE: u64 = ((1 << PLACE_BITS) - 1) << 2;
const TAG_SHIFT: u32 = 2 + PLACE_BITS;
/// An address is a multiple of 128; the address field begins at bit 2.
const PLACE_SHIFT: u32 = 5;
const _: () = assert!(PLACE_BITS + PLACE_SHIFT + 2 == ADDRESS_BITS);
/// A tag counts up to this, and starts again.
///
/// A stale reference can be used in one window only: after a thread has checked the counts of a
/// variable, by which the operation has not ended, and before it parks on the operation. To go
/// wrong, the thread would have to stand still there while the block is used two million times (at
/// least 40 ms), and go on at exactly the old tag. Then it would park on an unrelated operation.
/// Taking an operation by a stale reference does no harm: the operation is ready to be taken,
/// whichever reference leads to it.
const TAGS: u64 = u64::MAX >> TAG_SHIFT;
/// The word of a block that was never used. Its tags start again after a few uses, so that every
/// test covers this.
pub const UNUSED: Word = Word((TAGS - 1) << TAG_SHIFT | FREE);

/// A snapshot of a block's word, or a reference to an operation: its tag and its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word(pub u64);

impl Word {
    /// No operation.
    pub const NONE: Word = Word(0);

    /// The reference to the operation of this tag in `block`.
    #[inline]
    pub fn refers(block: *mut Block, tag: u64) -> Word {
        Word(place(block) | tag << TAG_SHIFT)
    }

    /// In a reference: the operation's block. In a block's own word: the first parked block, or
    /// null.
    #[inline]
    pub fn block(self) -> *mut Block {
        std::ptr::with_exposed_provenance_mut(((self.0 & PLACE) << PLACE_SHIFT) as usize)
    }

    /// The tag: which use of the block this is about.
    #[inline]
    pub fn tag(self) -> u64 {
        self.0 >> TAG_SHIFT
    }

    /// The stage: [`FREE`], [`PUSHED`] or [`TAKEN`]; 0 in a reference.
    #[inline]
    pub fn stage(self) -> u64 {
        self.0 & STAGE
    }

    /// Whether both tags are the same. For two words about the same block.
    #[inline]
    pub fn has_tag_of(self, other: Word) -> bool {
        self.tag() == other.tag()
    }

    /// The word of an operation of this tag, at this stage, on which nothing has parked.
    #[inline]
    pub fn fresh(tag: u64, stage: u64) -> Word {
        Word(tag << TAG_SHIFT | stage)
    }

    /// The same word with `block` as the first parked block.
    #[inline]
    pub fn parked(self, block: *mut Block) -> Word {
        Word(self.0 & !PLACE | place(block))
    }

    /// The same word at another stage.
    #[inline]
    pub fn at(self, stage: u64) -> Word {
        Word(self.0 & !STAGE | stage)
    }
}

#[inline]
fn place(block: *mut Block) -> u64 {
    (block.expose_provenance() as u64) >> PLACE_SHIFT & PLACE
}

#[cfg(all(test, target_pointer_width = "64", not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn addresses_tags_and_stages_do_not_meet() {
        for address in [128, 1 << 20, (1 << 48) - 128] {
            let block: *mut Block = std::ptr::without_provenance_mut(address);
            for tag in [0, 1, TAGS] {
                let word = Word::refers(block, tag);
                assert_eq!((word.block().addr(), word.tag(), word.stage()), (address, tag, 0));
                let word = Word::fresh(tag, PUSHED).parked(block).at(TAKEN);
                assert_eq!((word.block().addr(), word.tag(), word.stage()), (address, tag, TAKEN));
            }
        }
        assert!(Word::NONE.block().is_null());
        assert_eq!(Word::fresh(TAGS + 8, FREE).tag(), 7, "tags start again");
        assert_eq!((UNUSED.tag(), UNUSED.stage(), UNUSED.block().addr()), (TAGS - 1, FREE, 0));
    }
}
