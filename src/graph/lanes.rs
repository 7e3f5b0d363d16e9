//! Running a plan: the protocol of the lanes.
//!
//! A lane is run by one thread at a time, its *runner*. The lane's inbox says whether it has one:
//! `IDLE` if not, else the messages that have come and that the runner has not yet taken. Who sends
//! to an idle lane becomes responsible for it: it hands the lane to a thread. So a lane is never
//! run by two threads, never forgotten, and costs nothing while nothing comes for it. (This is the
//! scheme of actors, Hewitt 1973, and of a stack that is emptied as a whole, Treiber 1986.)
//!
//! What a runner alone touches is not atomic: which segments are ready, what each of its segments
//! still waits for within the lane, how many are done. A segment that waits for other lanes has an
//! atomic counter for all of them; who takes it to zero sends the segment as a message, which
//! counts as one more wait within the lane. With one such wait there is no counter, only the
//! message.
//!
//! Counters are set back when their segment is run: all that counts down for this time has then
//! done so, and what counts down the next time comes after the end of this one. So a replay
//! prepares nothing, and allocates nothing.
//!
//! A replay begins *alone*: the runner of its first lane runs all segments, of whatever lane, in an
//! order in which one thread can, without any counter. When its host finds that it pays it
//! *spreads* what is left: it counts down what those that are done would have, then starts the
//! other lanes.

use crate::graph::own::Exclusive;
use crate::graph::plan::{Plan, Segment};
use crate::sync::{AtomicU32, Ordering::*, MODELLED};
use crate::util::spin::Spin;
use crossbeam_utils::CachePadded;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// In an inbox: the lane has a runner, and nothing has come.
pub const EMPTY: u32 = u32::MAX;
/// In an inbox: the lane has no runner.
const IDLE: u32 = u32::MAX - 1;
/// A message: a segment that ended later than its call. Without this bit: what it waits for of
/// other lanes is done.
const ENDED: u32 = 1 << 30;
/// The most segments of a plan; messages behind them are for lanes.
pub const MOST_SEGMENTS: usize = 1 << 29;

/// How long a runner without anything to run waits for a message before it gives up the lane, and
/// how long of that it does not yield its core, which may be the one that the other runner needs.
const LANE_SPINS: Duration = Duration::from_micros(80);
const LANE_SPINS_AWAKE: Duration = Duration::from_micros(20);
/// After how many of them it looks whether the thread has something better to do.
const GLANCES: u32 = 64;

/// What runs the segments, and threads the lanes.
pub trait LaneHost {
    /// Runs the operations of a segment; `false`: it ends later, by [`Lanes::ended`].
    fn run(&mut self, segment: u32) -> bool;
    /// What is still to be done for a segment that has ended later than its call.
    fn conclude(&mut self, segment: u32);
    /// The lane has got something to do: a thread is to call [`Lanes::work`] for it.
    fn hand_out(&mut self, lane: u32);
    /// A replay begins: whether alone.
    fn begins_alone(&mut self) -> bool;
    /// Asked between segments of a replay that is run alone, of which `left` are left.
    fn alone(&mut self, left: usize) -> SerialStep;
    /// Asked between segments of a lane.
    fn is_due(&mut self) -> bool;
    /// Whether to wait for messages: `false` if the thread has something better to do, or if it
    /// would wait for lanes that nobody runs. `others` says whether other threads run some.
    fn may_wait(&mut self, others: bool) -> bool;
    /// Everything is done.
    fn over(&mut self);
}

/// How a replay that is run alone goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SerialStep {
    GoOn,
    /// On several lanes.
    Spread,
    /// Later: the thread has something else to do first.
    Pause,
}

/// How [`Lanes::work`] ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Rest {
    /// The lane has no runner any more.
    Idle,
    /// The caller is still its runner, and is to call again.
    Paused,
}

/// What changes while a plan is run.
pub struct Lanes {
    pub(super) plan: Plan,
    pub(super) lanes: Box<[Lane]>,
    pub(super) segments: Box<[SegmentProgress]>,
    /// Of each message to a lane, the next one in the inbox: its start, and, last, the beginning of
    /// a replay.
    pub(super) links: Box<[AtomicU32]>,
    /// Lanes that are not done.
    pub(super) left: CachePadded<AtomicU32>,
    /// Lanes that have a runner which is at work.
    pub(super) at_work: CachePadded<AtomicU32>,
    /// The rank of the first segment that was not run alone.
    pub(super) from: AtomicU32,
}

pub struct Lane {
    pub(super) inbox: CachePadded<AtomicU32>,
    /// How many of its segments were left when it was started.
    pub(super) left: AtomicU32,
    pub(super) own: CachePadded<Exclusive<LaneState>>,
}

/// What only the runner of a lane touches.
pub struct LaneState {
    /// Ready segments: their numbers, which are in order.
    pub(super) ready: BinaryHeap<Reverse<u32>>,
    pub(super) done: u32,
    /// The next segment of a replay that this lane runs alone.
    pub(super) alone: Option<u32>,
}

/// What a segment still waits for.
pub struct SegmentProgress {
    /// Touched by the runner of its lane only, or, before the lanes are started, by who spreads the
    /// replay.
    pub(super) near: AtomicU32,
    pub(super) far: AtomicU32,
    /// The next message in the inbox.
    pub(super) next: AtomicU32,
}

impl Lanes {
    pub fn new(plan: Plan) -> Lanes {
        let lane = |segments: &std::ops::Range<u32>| Lane {
            inbox: CachePadded::new(AtomicU32::new(IDLE)),
            left: AtomicU32::new(0),
            own: CachePadded::new(Exclusive::new(LaneState {
                ready: BinaryHeap::with_capacity(segments.len()),
                done: 0,
                alone: None,
            })),
        };
        let progress = |segment: &Segment| SegmentProgress {
            near: AtomicU32::new(segment.waits_near),
            far: AtomicU32::new(segment.waits_far),
            next: AtomicU32::new(EMPTY),
        };
        Lanes {
            lanes: plan.lanes.iter().map(lane).collect(),
            segments: plan.segments.iter().map(progress).collect(),
            links: (0..=plan.lanes.len()).map(|_| AtomicU32::new(EMPTY)).collect(),
            left: CachePadded::new(AtomicU32::new(0)),
            at_work: CachePadded::new(AtomicU32::new(0)),
            from: AtomicU32::new(0),
            plan,
        }
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Begins a replay, on `lane`. `true`: the caller is the lane's runner from now on, and is to
    /// call [`Lanes::work`].
    ///
    /// # Safety
    /// No replay is under way, and the last one happened before.
    pub unsafe fn begin(&self, lane: u32) -> bool {
        self.send(lane, (self.segments.len() + self.lanes.len()) as u32)
    }

    /// A segment that ends later than its call has ended. `true`: as for [`Lanes::begin`].
    ///
    /// # Safety
    /// The segment has been run and has not ended, and its run said so.
    pub unsafe fn ended(&self, segment: u32) -> bool {
        self.send(self.plan.segments[segment as usize].lane, segment | ENDED)
    }

    /// Where the link of a message lies.
    #[inline]
    pub fn link(&self, message: u32) -> &AtomicU32 {
        let number = (message & !ENDED) as usize;
        match self.segments.get(number) {
            Some(segment) => &segment.next,
            None => &self.links[number - self.segments.len()],
        }
    }

    /// Sends a message; says whether the lane was idle, and the caller is its runner now.
    #[inline]
    pub fn send(&self, lane: u32, message: u32) -> bool {
        let inbox = &self.lanes[lane as usize].inbox;
        let link = self.link(message);
        let mut head = inbox.load(Relaxed);
        loop {
            let idle = head == IDLE;
            link.store(if idle { EMPTY } else { head }, Relaxed);
            // AcqRel: release what the message is about; acquire from an idle lane what its last
            // runner did. A head that comes back after others is no harm: the link to it is right.
            match inbox.compare_exchange_weak(head, message, AcqRel, Relaxed) {
                Ok(_) => return idle,
                Err(now) => head = now,
            }
        }
    }

    /// Runs a lane until there is nothing to run in it, or until the host has enough.
    ///
    /// # Safety
    /// The caller is the lane's runner, and what its runners did before happened before.
    pub unsafe fn work(&self, lane: u32, host: &mut impl LaneHost) -> Rest {
        let inbox = &self.lanes[lane as usize].inbox;
        self.at_work.fetch_add(1, Relaxed);
        let rest = loop {
            // SAFETY: by the contract; the lane is given up below, after this use.
            let rest = unsafe { self.lanes[lane as usize].own.with(|own| self.run(lane, own, host)) };
            if rest == Rest::Paused {
                break rest;
            }
            // Release: the thread that is the next runner sees what we did. Something may have come
            // meanwhile: then we still are.
            let given_up = inbox.compare_exchange(EMPTY, IDLE, Release, Relaxed);
            if given_up.is_ok() {
                break rest;
            }
        };
        self.at_work.fetch_sub(1, Relaxed);
        rest
    }

    fn run(&self, lane: u32, own: &mut LaneState, host: &mut impl LaneHost) -> Rest {
        let inbox = &self.lanes[lane as usize].inbox;
        loop {
            if inbox.load(Relaxed) != EMPTY {
                // Acquire: what the messages are about.
                let mut message = inbox.swap(EMPTY, Acquire);
                while message != EMPTY {
                    // The message may end the replay, and the next one send the same segment again.
                    let next = self.link(message).load(Relaxed);
                    self.receive(lane, own, message, host);
                    message = next;
                }
            }
            if own.alone.is_some() {
                if !self.run_alone(lane, own, host) {
                    return Rest::Paused;
                }
                continue;
            }
            let Some(Reverse(segment)) = own.ready.pop() else {
                if self.wait(lane, host) {
                    continue;
                }
                return Rest::Idle;
            };
            let (of, progress) = (&self.plan.segments[segment as usize], &self.segments[segment as usize]);
            progress.near.store(of.waits_near, Relaxed);
            if of.waits_far > 1 {
                progress.far.store(of.waits_far, Relaxed);
            }
            if host.run(segment) {
                self.finish(lane, own, segment, host);
            }
            if host.is_due() && !own.ready.is_empty() {
                return Rest::Paused;
            }
        }
    }

    fn receive(&self, lane: u32, own: &mut LaneState, message: u32, host: &mut impl LaneHost) {
        let count = self.segments.len() as u32;
        if message & ENDED != 0 {
            host.conclude(message & !ENDED);
            self.finish(lane, own, message & !ENDED, host);
        } else if message < count {
            self.arrive(own, message);
        } else if message < count + self.lanes.len() as u32 {
            self.start(lane, own, self.from.load(Relaxed));
        } else if self.plan.segments.is_empty() {
            host.over();
        } else if host.begins_alone() {
            own.alone = Some(0);
        } else {
            self.spread(lane, own, 0, host);
        }
    }

    /// Something that a segment of this lane waits for is done.
    #[inline]
    pub fn arrive(&self, own: &mut LaneState, segment: u32) {
        let near = &self.segments[segment as usize].near;
        let waits = near.load(Relaxed) - 1;
        near.store(waits, Relaxed);
        if waits == 0 {
            own.ready.push(Reverse(segment));
        }
    }

    /// What follows from the end of a segment.
    fn finish(&self, lane: u32, own: &mut LaneState, segment: u32, host: &mut impl LaneHost) {
        let of = &self.plan.segments[segment as usize];
        // Other threads first.
        for next in self.successors(&of.far) {
            let (to, progress) = (&self.plan.segments[*next as usize], &self.segments[*next as usize]);
            // AcqRel: the thread that sends has acquired what all the others have done.
            let last = to.waits_far == 1 || progress.far.fetch_sub(1, AcqRel) == 1;
            if last && self.send(to.lane, *next) {
                host.hand_out(to.lane);
            }
        }
        for next in self.successors(&of.near) {
            self.arrive(own, *next);
        }
        own.done += 1;
        if own.done == self.lanes[lane as usize].left.load(Relaxed) {
            own.done = 0;
            // AcqRel: the last lane ends the replay, and with it what all the others did.
            if self.left.fetch_sub(1, AcqRel) == 1 {
                host.over();
            }
        }
    }

    pub fn successors(&self, range: &std::ops::Range<u32>) -> &[u32] {
        &self.plan.successors[range.start as usize..range.end as usize]
    }

    /// Waits for a message; `false` if none comes, or none can.
    #[cold]
    fn wait(&self, lane: u32, host: &mut impl LaneHost) -> bool {
        let inbox = &self.lanes[lane as usize].inbox;
        let mut spin = Spin::new(LANE_SPINS_AWAKE, LANE_SPINS);
        for look in 0_u32.. {
            if MODELLED {
                break;
            }
            if inbox.load(Relaxed) != EMPTY {
                return true;
            }
            // Messages come from lanes that others are at work on, or will be.
            let others = || self.at_work.load(Relaxed) > 1;
            if self.left.load(Relaxed) == 0 || look % GLANCES == 0 && !host.may_wait(others()) {
                return false;
            }
            if !spin.pause() {
                break;
            }
        }
        false
    }
}
