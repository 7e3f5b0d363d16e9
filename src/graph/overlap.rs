//! The steps by which replays overlap: a lane ends its part, a thread looks for the next replay,
//! and that one begins. `graph/rounds.rs` has the words that they change, and says why this is
//! right.
//!
//! Called by `graph/lanes.rs`, and by `engine/replay/mod.rs` for a replay that is pushed or begins.

use crate::graph::lanes::{LaneHost, LaneState, Lanes};
use crate::graph::rounds::{BEGUN, LOOKING, NEXT};
use crate::sync::Ordering::*;

impl Lanes {
    /// Lets replays overlap. `after` is what [`comes_after`](crate::graph::rounds::comes_after) has
    /// found.
    pub fn overlapping(mut self, after: Box<[u64]>) -> Lanes {
        self.rounds.after = after;
        self
    }

    /// Begins the replay whose lanes have started early, in this round: all that was pushed before
    /// has ended. Runs nothing.
    ///
    /// # Safety
    /// [`LaneHost::follows`] has returned `true` for the replay before, which is over.
    pub unsafe fn begin_early(&self, round: usize, host: &mut impl LaneHost) {
        self.step(round, BEGUN, host);
        self.look_ahead(round, host);
    }

    /// Looks whether a replay that was just pushed may start early.
    pub fn pushed(&self, host: &mut impl LaneHost) {
        for round in 0..2 {
            self.look_ahead(round, host);
        }
    }

    /// A lane has done its part of a replay.
    pub fn end_round(&self, lane: u32, own: &mut LaneState, host: &mut impl LaneHost) {
        own.started = false;
        self.look_ahead(own.round, host);
        self.step(own.round, self.rounds.bit(lane), host);
    }

    /// Looks whether the next replay may start early, if one of this round is under way.
    fn look_ahead(&self, round: usize, host: &mut impl LaneHost) {
        if self.rounds.after.is_empty() {
            return;
        }
        let word = &self.rounds.words[round];
        let mut now = word.load(Relaxed);
        loop {
            if now & (BEGUN | LOOKING) != BEGUN || self.rounds.all_have_ended(now) {
                return;
            }
            // Acquire: pairs with the steps of the threads that have begun the replay, and that
            // have looked before. From here on the replay does not end.
            match word.compare_exchange_weak(now, now | LOOKING, Acquire, Relaxed) {
                Ok(_) => break,
                Err(other) => now = other,
            }
        }
        if host.follows(round) {
            if round == 1 {
                // Relaxed: sent on with the starts. The replay before this one is over, so its
                // lanes have taken theirs.
                self.from.store(0, Relaxed);
            }
            // Relaxed: the step below, and what follows from it, hands this on.
            self.rounds.words[1 - round].store(self.rounds.empty, Relaxed);
            self.step(round, NEXT, host);
        } else {
            // Release: for the thread that looks next. Acquire: what the lanes did, if they have
            // all ended meanwhile.
            let before = word.fetch_and(!LOOKING, AcqRel);
            if self.rounds.ends(before & !LOOKING) {
                host.over(round);
            }
        }
    }

    /// Sets a bit of the word of a round, and does what follows from that: starts lanes early, or
    /// ends the replay.
    fn step(&self, round: usize, bit: u64, host: &mut impl LaneHost) {
        // AcqRel: the steps pair with each other. So a lane that is started, and the thread that
        // ends the replay, have acquired what all the ended lanes did.
        let before = self.rounds.words[round].fetch_add(bit, AcqRel);
        let now = before + bit;
        if now & NEXT != 0 {
            for (lane, after) in (0..).zip(&self.rounds.after) {
                let waits_for = after | NEXT;
                if *after != 0 && now & waits_for == waits_for && before & waits_for != waits_for {
                    let start = self.start_of(lane, 1 - round);
                    if self.send(lane, start) {
                        host.hand_out(lane);
                    }
                }
            }
        }
        if self.rounds.ends(now) {
            host.over(round);
        }
    }
}
