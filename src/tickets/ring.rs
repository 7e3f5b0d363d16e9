//! The rings of a pusher: blocks that its quick pushes use again and again, small ones in one ring
//! and large ones in another. A block is free when its word says so, so no thread brings it back:
//! the thread that ends the operation frees the word (`run.rs`). Used by `src/thread/pusher.rs`, on
//! the pusher's own thread, which alone touches the rings. `src/pool/thread_cache.rs` has them.
//!
//! A push looks at one block, which it has prefetched some pushes before, and touches none that a
//! worker uses. If the ring is full, blocks come from the pool for a while. The addresses of the
//! blocks are not in order: otherwise the processor of a worker close behind would prefetch the
//! blocks that the pusher is writing.

use crate::operation::block::Block;
use crate::operation::layout::USUAL;
use crate::platform::cache_line::{fetch_to_write, scattered, LINE};
use crate::sync::{Ordering::*, MODELLED};
use crate::tickets::word::{Word, FREE};

/// The most blocks of the two rings: as many as fit into the caches next to a core.
const MOST_BLOCKS: [usize; 2] = if MODELLED { [2, 2] } else { [2048, 256] };
/// A block is prefetched so many pushes ahead.
const ASKED_AHEAD: usize = 8;
/// A ring is full if so many blocks next to each other are in use. Then it is left alone for
/// [`REST`] pushes.
const FULL: usize = 4;
const REST: u32 = 256;

/// The size classes of the blocks of the two rings: 256 bytes, and 1 kB.
const SIZES: [u8; 2] = [if MODELLED { 0 } else { 1 }, USUAL];

/// The rings of a pusher.
pub struct Rings([Ring; 2]);

pub struct Ring {
    /// Each block, with the tag of its last use, so that a push need not read it from the block.
    blocks: Vec<(*mut Block, u64)>,
    at: usize,
    rests: u32,
    /// The size class of the blocks.
    pub class: u8,
    most: usize,
}

/// What [`Ring::next`] has found.
pub enum NextBlock {
    /// A free block, and the tag of its next use.
    Block(*mut Block, u64),
    /// No block is free, but the ring may be given one more.
    Grow,
    /// No block is free: use the pool.
    Full,
}

impl Rings {
    pub fn new() -> Rings {
        let ring = |size| Ring { blocks: Vec::new(), at: 0, rests: 0, class: SIZES[size], most: MOST_BLOCKS[size] };
        Rings([ring(0), ring(1)])
    }

    /// The ring whose blocks are as large as those of `class`, which is [`USUAL`] at most.
    #[inline]
    pub fn of(&mut self, class: u8) -> &mut Ring {
        &mut self.0[usize::from(class > SIZES[0])]
    }
}

impl Ring {
    /// A block of this ring, for an operation that needs so many cache lines.
    #[inline]
    pub fn next(&mut self, lines: usize) -> NextBlock {
        if self.rests > 0 {
            self.rests -= 1;
            return NextBlock::Full;
        }
        for _ in 0..FULL.min(self.blocks.len()) {
            let length = self.blocks.len();
            let ahead = self.at + ASKED_AHEAD;
            let ahead = self.blocks[if ahead < length { ahead } else { ahead % length }].0;
            (0..lines).for_each(|line| fetch_to_write(ahead.cast::<u8>().wrapping_add(line * LINE)));
            let (block, tag) = &mut self.blocks[self.at];
            self.at = if self.at + 1 < length { self.at + 1 } else { 0 };
            // SAFETY: blocks of the ring stay blocks. Acquire: pairs with the exchange that frees
            // the word (`give_back` in `run.rs`), so all use of the block is over.
            let word = Word(unsafe { (*Block::word(*block)).load(Acquire) });
            if word.stage() == FREE {
                *tag = tag.wrapping_add(1);
                return NextBlock::Block(*block, *tag);
            }
        }
        if self.blocks.len() < self.most {
            return NextBlock::Grow;
        }
        self.rests = REST;
        NextBlock::Full
    }

    /// Adds a block, which is used at once; returns the tag of that use.
    pub fn add(&mut self, block: *mut Block) -> u64 {
        // SAFETY: the block is the caller's.
        let tag = Word(unsafe { (*Block::word(block)).load(Relaxed) }).tag().wrapping_add(1);
        self.blocks.push((block, tag));
        let blocks = self.blocks.len();
        self.blocks.swap(blocks - 1, scattered(blocks));
        tag
    }
}
