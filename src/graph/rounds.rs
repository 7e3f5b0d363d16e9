//! Rounds: replays that follow each other, and how lanes go from one to the next without a barrier.
//!
//! Part of the protocol of `graph/lanes.rs`; the steps are in `graph/overlap.rs`. Of one graph two
//! replays can be under way: one that has begun, and the next one, whose lanes start *early*. They
//! have the rounds 0 and 1 by turns.
//!
//! A lane ends its part of a replay when its last segment is done. In the next replay it starts
//! when all lanes have ended this one that it *comes after*: itself, and each lane with which it
//! has a variable in common that one of the two changes. So two operations that have to run in
//! order do, also from one replay to the next: either they are in one lane, or their lanes come
//! after each other. Messages need no number of the replay: a lane sends them only to lanes that
//! come after it, and those have ended the replay before by then.
//!
//! The word of a round has a bit for each lane that has ended, and three more. `BEGUN`: the replay
//! has begun, which means that everything pushed before has ended. `LOOKING`: a thread looks
//! whether the next replay may start early, or has found that. `NEXT`: it may. A thread whose step
//! on the word brings the last bit that a lane waits for starts that lane. A thread whose step
//! brings the last bit of all ends the replay. While a thread looks and has not found, that is this
//! thread's next step: so the replay does not end meanwhile.
//!
//! A lane that ends looks, and so does the push of a replay, which may come later than that. If
//! both look at once, a replay can be missed that is pushed at that moment: then the next lane that
//! ends finds it, or it begins when this one is over.
//!
//! (Lanes that wait for their neighbours only are an old way to overlap iterations: wavefronts,
//! Lamport 1974. Cyclic graphs of tasks: `taskiter`, Álvarez and Beltran 2022.)

use crate::graph::edges::NodeUse;
use crate::graph::plan::Plan;
use crate::sync::{AtomicU64, Ordering::*};
use crossbeam_utils::CachePadded;

pub const BEGUN: u64 = 1 << 61;
pub const LOOKING: u64 = 1 << 62;
pub const NEXT: u64 = 1 << 63;
/// The most lanes of a graph whose replays overlap.
const MOST_LANES: usize = 60;

/// How far the replays under way have come.
pub struct Rounds {
    /// The word of each round. With more than [`MOST_LANES`] lanes the lanes that have ended are
    /// counted there, and have no bits.
    pub(super) words: [CachePadded<AtomicU64>; 2],
    counts: bool,
    /// The word of a replay in which only the lanes without segments have ended.
    pub(super) empty: u64,
    /// The word of a replay that is over.
    full: u64,
    /// For each lane the lanes that it comes after, as bits of a word; 0 for a lane without
    /// segments. Empty if replays do not overlap.
    pub(super) after: Box<[u64]>,
}

impl Rounds {
    pub fn new(plan: &Plan) -> Rounds {
        let lanes = 0..plan.lanes.len() as u32;
        let mut rounds = Rounds {
            words: [0; 2].map(|_| CachePadded::new(AtomicU64::new(0))),
            counts: plan.lanes.len() > MOST_LANES,
            empty: 0,
            full: BEGUN,
            after: Box::new([]),
        };
        for lane in lanes {
            rounds.full += rounds.bit(lane);
            if plan.lanes[lane as usize].is_empty() {
                rounds.empty += rounds.bit(lane);
            }
        }
        // Relaxed: no other thread knows the words.
        rounds.words.iter().for_each(|word| word.store(rounds.full, Relaxed));
        rounds
    }

    /// What the end of a lane adds to the word of its round.
    pub(super) fn bit(&self, lane: u32) -> u64 {
        if self.counts {
            1
        } else {
            1 << lane
        }
    }

    /// A replay begins in round 0. All lanes but these have nothing to do.
    pub fn begin(&self, lanes: impl Iterator<Item = u32>) {
        let left: u64 = lanes.map(|lane| self.bit(lane)).sum();
        // Release: pairs with the exchange in `look_ahead` of a thread that has just pushed, for
        // what the engine knows of the replay.
        self.words[0].store(self.full - left, Release);
    }

    /// Whether no replay is under way. A hint.
    pub fn are_over(&self) -> bool {
        self.words.iter().all(|word| self.ends(word.load(Relaxed)))
    }

    /// Whether a step that made this the word has ended the replay.
    pub(super) fn ends(&self, word: u64) -> bool {
        self.all_have_ended(word) && word & (LOOKING | NEXT) != LOOKING
    }

    pub(super) fn all_have_ended(&self, word: u64) -> bool {
        word & !(LOOKING | NEXT) == self.full
    }
}

/// The lanes that each lane comes after, as bits: `uses` has what each operation uses, and `lanes`
/// the lane of each. Empty if there are too many lanes, or only one that has operations.
pub fn comes_after(uses: &[&[NodeUse]], lanes: &[u32], variables: usize, count: usize) -> Box<[u64]> {
    let used = lanes.iter().fold(0, |used, lane| used | 1u64.checked_shl(*lane).unwrap_or(0));
    if count > MOST_LANES || used.count_ones() < 2 {
        return Box::new([]);
    }
    let mut users = vec![(0u64, 0u64); variables];
    for (lane, of) in lanes.iter().zip(uses).flat_map(|(lane, of)| of.iter().map(move |used| (*lane, used))) {
        let (all, writers) = &mut users[of.variable as usize];
        *all |= 1 << lane;
        *writers |= u64::from(of.writes) << lane;
    }
    let mut after: Box<[u64]> = (0..count).map(|lane| used & 1 << lane).collect();
    for (lane, after) in after.iter_mut().enumerate() {
        for (all, writers) in users.iter().filter(|(all, _)| all >> lane & 1 != 0) {
            *after |= if writers >> lane & 1 != 0 { *all } else { *writers };
        }
    }
    after
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    const fn read(variable: u32) -> NodeUse {
        NodeUse { variable, writes: false }
    }

    const fn write(variable: u32) -> NodeUse {
        NodeUse { variable, writes: true }
    }

    #[test]
    fn a_lane_comes_after_those_that_change_what_it_uses_or_use_what_it_changes() {
        // Variable 0 is only read. The second lane changes 1, which the first and the third read.
        let uses: [&[NodeUse]; 4] = [&[read(0), read(1)], &[read(0), write(1)], &[read(1)], &[write(2)]];
        assert_eq!(*comes_after(&uses, &[0, 1, 2, 4], 3, 6), [0b011, 0b111, 0b110, 0, 0b10000, 0]);
    }

    #[test]
    fn replays_on_one_lane_or_too_many_do_not_overlap() {
        let uses: [&[NodeUse]; 2] = [&[write(0)], &[write(1)]];
        assert!(comes_after(&uses, &[1, 1], 2, 3).is_empty());
        assert!(comes_after(&uses, &[0, 1], 2, MOST_LANES + 1).is_empty());
        assert_eq!(*comes_after(&uses, &[0, 59], 2, MOST_LANES), {
            let mut after = [0; MOST_LANES];
            (after[0], after[59]) = (1, 1 << 59);
            after
        });
    }
}
