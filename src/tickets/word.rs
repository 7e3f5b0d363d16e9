//! The word of an operation: its stage, what has parked on it, and a tag that tells one use of its
//! block from the next.
//!
//! Two bits of stage, 41 of the first parked block's address (blocks lie on multiples of 128 below
//! 2⁴⁸), 21 of tag. A [`Word`] without parked blocks but with an address is also how others refer
//! to an operation.

#![forbid(unsafe_code)]

use crate::operation::block::Block;
use crate::platform::low_memory::ADDRESS_BITS;

/// The operation of this tag has ended, or was never pushed.
pub const FREE: u64 = 1;
/// In a log: who takes it runs it.
pub const PUSHED: u64 = 2;
/// Somebody has it.
pub const TAKEN: u64 = 3;

const STAGE: u64 = 3;
const PLACE_BITS: u32 = 41;
const PLACE: u64 = ((1 << PLACE_BITS) - 1) << 2;
const TAG_SHIFT: u32 = 2 + PLACE_BITS;
/// An address is a multiple of 128; a place begins at bit 2.
const PLACE_SHIFT: u32 = 5;
const _: () = assert!(PLACE_BITS + PLACE_SHIFT + 2 == ADDRESS_BITS);
/// A tag counts up to this, and starts again.
///
/// A reference is older than the operation that it names only between two instructions: who parks
/// has just seen, by the counts of a variable, that the operation has not ended. So a thread would
/// have to stand there for two million uses of one block, 40 ms at the least, and go on at exactly
/// that tag. Then it would park on a stranger. Who takes an operation by such a reference runs one
/// that is ready to be taken, which does no harm.
const TAGS: u64 = u64::MAX >> TAG_SHIFT;
/// The word of a block that was never used. Its tags start again soon, so that every test sees it.
pub const UNUSED: Word = Word((TAGS - 1) << TAG_SHIFT | FREE);

/// A snapshot of an operation's word, or a reference to an operation: its tag and its block.
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

    /// The block that it refers to, or the first that has parked; null if there is none.
    #[inline]
    pub fn block(self) -> *mut Block {
        std::ptr::with_exposed_provenance_mut(((self.0 & PLACE) << PLACE_SHIFT) as usize)
    }

    /// Which use of the block it is about.
    #[inline]
    pub fn tag(self) -> u64 {
        self.0 >> TAG_SHIFT
    }

    /// Free, pushed or taken.
    #[inline]
    pub fn stage(self) -> u64 {
        self.0 & STAGE
    }

    /// Whether both are about the same use of one block.
    #[inline]
    pub fn has_tag_of(self, other: Word) -> bool {
        self.tag() == other.tag()
    }

    /// The word of an operation of this tag, at this stage, on which nothing has parked.
    #[inline]
    pub fn fresh(tag: u64, stage: u64) -> Word {
        Word(tag << TAG_SHIFT | stage)
    }

    /// With `block` as the first that has parked.
    #[inline]
    pub fn parked(self, block: *mut Block) -> Word {
        Word(self.0 & !PLACE | place(block))
    }

    /// At another stage.
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
