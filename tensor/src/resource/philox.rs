//! Philox 4×32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw (2011): a pure
//! function from a counter and a key to four words.
//!
//! Used by `distributions.rs`, `lanes.rs` and operators that draw words. [`Philox`] is also a
//! generator for the traits of `rand_core`, for programs.

#![forbid(unsafe_code)]

use crate::kernel::simd::{self, Loops};
use rand_core::{RngCore, SeedableRng};

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// The words of many counters: the first two words of each, then the others, which are alike.
#[inline(always)]
fn blocks<const N: usize>(counters: [[u32; N]; 2], stream: [u32; 2], mut key: [u32; 2]) -> [[u32; N]; 4] {
    let [mut a, mut b] = counters;
    let (mut c, mut d) = ([stream[0]; N], [stream[1]; N]);
    for round in 0..ROUNDS {
        if round > 0 {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        for at in 0..N {
            let one = u64::from(MULTIPLIERS[0]) * u64::from(a[at]);
            let two = u64::from(MULTIPLIERS[1]) * u64::from(c[at]);
            a[at] = (two >> 32) as u32 ^ b[at] ^ key[0];
            b[at] = two as u32;
            c[at] = (one >> 32) as u32 ^ d[at] ^ key[1];
            d[at] = one as u32;
        }
    }
    [a, b, c, d]
}

/// A generator of random numbers: a seed, a stream and a counter. Draw *i* of it is a pure function
/// of these, so numbers may be drawn anywhere and in any order.
///
/// ```
/// use rand_core::RngCore;
/// use seriatim_tensor::resource::Philox;
/// let mut one = Philox::new(42, 0);
/// let first: Vec<u32> = (0..8).map(|_| one.next_u32()).collect();
/// let mut later = Philox::new(42, 0);
/// later.skip(1); // Four words.
/// assert_eq!(later.next_u32(), first[4]);
/// assert_ne!(Philox::new(42, 1).next_u32(), first[0]);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Philox {
    seed: u64,
    stream: u64,
    counter: u64,
    /// The words of the last block, and how many of them have been drawn.
    words: [u32; 4],
    drawn: u8,
}

impl Philox {
    /// The generator of a seed and a stream. Streams of one seed have nothing in common.
    ///
    /// ```
    /// # use seriatim_tensor::resource::Philox;
    /// assert_eq!(Philox::new(1, 2), Philox::new(1, 2));
    /// ```
    pub fn new(seed: u64, stream: u64) -> Philox {
        Philox { seed, stream, counter: 0, words: [0; 4], drawn: 4 }
    }

    /// Leaves out so many blocks of four words. What is left of the last block is left out too.
    ///
    /// ```
    /// # use seriatim_tensor::resource::Philox;
    /// let mut generator = Philox::new(1, 2);
    /// generator.skip(3);
    /// assert_eq!(generator.counter(), 3);
    /// ```
    pub fn skip(&mut self, blocks: u64) {
        self.counter = self.counter.wrapping_add(blocks);
        self.drawn = 4;
    }

    /// Moves on by so many blocks of four words, and returns a generator that begins with them: for
    /// code that draws somewhere else, such as a kernel of a GPU. It is handed the
    /// [`seed`](Philox::seed), the [`stream`](Philox::stream) and the [`counter`](Philox::counter).
    ///
    /// Block *i* is Philox 4×32-10 of the key `[seed, seed >> 32]` and of the counter
    /// `[counter + i, (counter + i) >> 32, stream, stream >> 32]`, the lower 32 bits of each.
    ///
    /// ```
    /// # use seriatim_tensor::resource::Philox;
    /// use rand_core::RngCore;
    /// let mut generator = Philox::new(1, 2);
    /// let mut kernel = generator.reserve(10);
    /// assert_eq!((kernel.seed(), kernel.stream(), kernel.counter()), (1, 2, 0));
    /// assert_eq!(generator.counter(), 10);
    /// assert_eq!(kernel.next_u32(), Philox::new(1, 2).next_u32());
    /// ```
    pub fn reserve(&mut self, blocks: u64) -> Philox {
        let mut reserved = self.clone();
        // What is left of the last block is left out.
        reserved.skip(0);
        self.skip(blocks);
        reserved
    }

    /// Its seed.
    ///
    /// ```
    /// assert_eq!(seriatim_tensor::resource::Philox::new(1, 2).seed(), 1);
    /// ```
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The number of the next block.
    ///
    /// ```
    /// assert_eq!(seriatim_tensor::resource::Philox::new(1, 2).counter(), 0);
    /// ```
    pub fn counter(&self) -> u64 {
        self.counter
    }

    /// The number of its stream.
    ///
    /// ```
    /// assert_eq!(seriatim_tensor::resource::Philox::new(1, 2).stream(), 2);
    /// ```
    pub fn stream(&self) -> u64 {
        self.stream
    }

    /// The words of the block that is `ahead` blocks after the next one.
    #[inline]
    pub(crate) fn block_ahead(&self, ahead: u64) -> [u32; 4] {
        self.blocks_ahead(ahead).map(|[word]| word)
    }

    /// The words of `N` blocks from that on: the first word of each, and so on. For loops of
    /// `kernel/simd.rs`.
    #[inline(always)]
    pub(crate) fn blocks_ahead<const N: usize>(&self, ahead: u64) -> [[u32; N]; 4] {
        let low_high = |word: u64| [word as u32, (word >> 32) as u32];
        let first = self.counter.wrapping_add(ahead);
        let counter = |at: usize| low_high(first.wrapping_add(at as u64));
        let counters = [std::array::from_fn(|at| counter(at)[0]), std::array::from_fn(|at| counter(at)[1])];
        blocks(counters, low_high(self.stream), low_high(self.seed))
    }

    /// Fills a slice with the words of blocks one after the other.
    pub(crate) fn words_ahead(&self, ahead: u64, out: &mut [u32]) {
        simd::run(Words { generator: self, ahead, out });
    }
}

struct Words<'a> {
    generator: &'a Philox,
    ahead: u64,
    out: &'a mut [u32],
}

/// How many blocks are made at a time.
const MANY: usize = 16;

impl Loops for Words<'_> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (out, ahead) in self.out.chunks_mut(4 * MANY).zip((self.ahead..).step_by(MANY)) {
            let [a, b, c, d] = self.generator.blocks_ahead::<MANY>(ahead);
            for (at, out) in out.chunks_mut(4).enumerate().take(MANY) {
                out.copy_from_slice(&[a[at], b[at], c[at], d[at]][..out.len()]);
            }
        }
    }
}

impl RngCore for Philox {
    fn next_u32(&mut self) -> u32 {
        if self.drawn == 4 {
            self.words = self.block_ahead(0);
            self.skip(1);
            self.drawn = 0;
        }
        self.drawn += 1;
        self.words[usize::from(self.drawn) - 1]
    }

    fn next_u64(&mut self) -> u64 {
        u64::from(self.next_u32()) | u64::from(self.next_u32()) << 32
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(4) {
            part.copy_from_slice(&self.next_u32().to_le_bytes()[..part.len()]);
        }
    }
}

impl SeedableRng for Philox {
    type Seed = [u8; 16];

    /// The first eight bytes are the seed, the others the stream.
    fn from_seed(seed: [u8; 16]) -> Philox {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| seed[at + byte]));
        Philox::new(word(0), word(8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of one counter.
    fn block([a, b, c, d]: [u32; 4], key: [u32; 2]) -> [u32; 4] {
        blocks([[a], [b]], [c, d], key).map(|[word]| word)
    }

    /// The known answers of Random123's `kat_vectors`, for philox4x32 with 10 rounds.
    #[test]
    fn the_published_vectors_come_out() {
        let ones = u32::MAX;
        let answers = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([ones; 4], [ones; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, expected) in answers {
            assert_eq!(block(counter, key), expected, "{counter:x?} {key:x?}");
        }
    }

    #[test]
    fn words_come_block_by_block() {
        let mut generator = Philox::from_seed(std::array::from_fn(|at| at as u8));
        let blocks = [generator.block_ahead(0), generator.block_ahead(1)].concat();
        let words: Vec<u32> = (0..8).map(|_| generator.next_u32()).collect();
        assert_eq!(words, blocks);
        let (mut bytes, mut long) = ([0; 6], Philox::from_seed(std::array::from_fn(|at| at as u8)));
        long.fill_bytes(&mut bytes);
        assert_eq!(bytes[..4], words[0].to_le_bytes());
        assert_eq!(bytes[4..], words[1].to_le_bytes()[..2]);
        assert_eq!(long.next_u64(), u64::from(words[2]) | u64::from(words[3]) << 32);
        // What is left of a block is left out too.
        let first = long.next_u32();
        long.skip(0);
        assert!(long.counter() == 2 && first == words[4]);
        assert_eq!(long.next_u32(), generator.next_u32());
    }

    #[test]
    fn many_blocks_are_those_made_one_by_one() {
        let mut generator = Philox::new(0x1234_5678_9ABC_DEF0, 77);
        // The lower word of the counter wraps around on the way.
        generator.skip(u64::from(u32::MAX) - 20);
        for count in [1, 3, 4, 63, 64, 65, 200] {
            let mut words = vec![0; count];
            generator.words_ahead(3, &mut words);
            for (at, word) in words.iter().enumerate() {
                assert_eq!(*word, generator.block_ahead(3 + at as u64 / 4)[at % 4], "{at} of {count}");
            }
        }
    }
}
