//! The sequential part of a replay: one thread runs the segments of all lanes by itself. It goes on
//! to the end of the replay, or starts all lanes on what is left.
//!
//! Used by `graph/lanes.rs` only, which has the state (`Lanes`). Until the lanes are started, the
//! calling runner is the only thread that touches the progress of the segments. [`Lanes::start`] is
//! called by the runner of each lane, for its own segments.

use crate::graph::lanes::{LaneHost, LaneState, Lanes, SerialStep, EMPTY};
use crate::sync::Ordering::*;

impl Lanes {
    /// Goes on with a replay that is run alone. `false` if it pauses.
    pub fn run_alone(&self, lane: u32, own: &mut LaneState, host: &mut impl LaneHost) -> bool {
        let order = &self.plan.order;
        let mut rank = own.alone.take().unwrap_or(0) as usize;
        while rank < order.len() {
            host.run(order[rank]);
            rank += 1;
            match host.alone(order.len() - rank) {
                SerialStep::GoOn => {}
                SerialStep::Pause => {
                    own.alone = Some(rank as u32);
                    return false;
                }
                SerialStep::Spread => {
                    self.spread(lane, own, rank as u32, host);
                    return true;
                }
            }
        }
        host.over();
        true
    }

    /// Starts all lanes on what is left of a replay whose segments of rank below `from` are done.
    /// The caller is the runner of `lane`.
    pub fn spread(&self, lane: u32, own: &mut LaneState, from: u32, host: &mut impl LaneHost) {
        let (order, segments) = (&self.plan.order, &self.plan.segments);
        let Some(done) = order.get(..from as usize).filter(|done| done.len() < order.len()) else {
            host.over();
            return;
        };
        // Relaxed: no thread looks at a lane's counters before the lane gets a message of this
        // replay. The release in `send` of the first messages hands on all stores of this function.
        // A lane sends messages only after it has been started by such a message itself.
        let mut ready = self.count_down(done, from);
        let mut lanes = 0;
        for (lane, range) in self.lanes.iter().zip(&self.plan.lanes) {
            let of = &segments[range.start as usize..range.end as usize];
            let left = of.len() - of.partition_point(|segment| segment.rank < from);
            lane.left.store(left as u32, Relaxed);
            lanes += u32::from(left > 0);
        }
        self.left.store(lanes, Relaxed);
        self.from.store(from, Relaxed);
        // A start is sent only to a lane with a segment that waits for the start. Such a lane is
        // not done before its runner has taken the start, and so the replay is not over before
        // that.
        for other in 0..self.lanes.len() as u32 {
            let message = segments.len() as u32 + other;
            let waits = self.has_root(other, from);
            if other != lane && waits && self.send(other, message) {
                host.hand_out(other);
            }
        }
        self.start(lane, own, from);
        while ready != EMPTY {
            let next = self.link(ready).load(Relaxed);
            let to = segments[ready as usize].lane;
            if to == lane {
                self.arrive(own, ready);
            } else if self.send(to, ready) {
                host.hand_out(to);
            }
            ready = next;
        }
    }

    /// Counts down what the segments in `done` would have counted down, had they not been run
    /// alone, for the segments of rank `from` and above. Returns a list of the segments that wait
    /// for nothing else, linked by their inbox links. Each of them is left with one wait, for a
    /// message.
    fn count_down(&self, done: &[u32], from: u32) -> u32 {
        let mut ready = EMPTY;
        for of in done.iter().map(|done| &self.plan.segments[*done as usize]) {
            for next in self.successors(&(of.near.start..of.far.end)) {
                let (to, progress) = (&self.plan.segments[*next as usize], &self.segments[*next as usize]);
                if to.rank < from {
                    continue;
                }
                if to.lane != of.lane && to.waits_far > 1 {
                    let far = progress.far.load(Relaxed) - 1;
                    progress.far.store(far, Relaxed);
                    if far > 0 {
                        continue;
                    }
                }
                let near = progress.near.load(Relaxed) - 1;
                progress.near.store(near.max(1), Relaxed);
                if near == 0 {
                    progress.next.store(ready, Relaxed);
                    ready = *next;
                }
            }
        }
        ready
    }

    /// Returns whether a lane has segments of rank `from` or above that wait for nothing but the
    /// start.
    fn has_root(&self, lane: u32, from: u32) -> bool {
        // Roots are in ascending order, and so are their ranks.
        self.plan.roots[lane as usize].last().is_some_and(|root| self.plan.segments[*root as usize].rank >= from)
    }

    /// Starts a lane: counts down the start for its segments of rank `from` or above that wait for
    /// nothing else.
    pub fn start(&self, lane: u32, own: &mut LaneState, from: u32) {
        for root in &self.plan.roots[lane as usize] {
            if self.plan.segments[*root as usize].rank >= from {
                self.arrive(own, *root);
            }
        }
    }
}
