//! Replay of a plan: the protocol by which threads run the lanes of a graph.
//!
//! Used by `engine/replay/`. The operations themselves are run by `engine/replay/runner.rs`,
//! through [`LaneHost`]. The sequential beginning of a replay is in `graph/spread.rs`.
//!
//! A lane is run by one thread at a time, its *runner*. The lane's inbox says whether it has one:
//! it is `IDLE` if not; otherwise it holds the messages that have come and that the runner has not
//! yet taken. A thread that sends to an idle lane becomes responsible for the lane: it hands the
//! lane to a thread. So a lane is never run by two threads, never forgotten, and costs nothing
//! while no message comes. (This is the scheme of actors, Hewitt 1973, and of a stack that is
//! emptied as a whole, Treiber 1986.)
//!
//! Any thread may be a runner. It may have begun the replay, or run the block by which a lane is
//! handed out (a worker, a helper). The runner of a device's lane may be any thread that has
//! something for it. Runners send to other lanes. So does a thread that ends an operation later
//! than its call ([`Lanes::ended`]): a program's thread, a worker, a device's watcher. The plan
//! never changes, and any thread reads it.
//!
//! The runner's own state is not shared: which segments are ready, what each segment of the lane
//! still waits for within the lane, and how many are done. A segment that waits for other lanes has
//! one atomic counter for all of them. The thread that takes this counter to zero sends the segment
//! to its lane as a message, and the message counts as one more wait within the lane. A segment
//! with a single wait for another lane needs no counter, only the message.
//!
//! The counters of a segment are set back when the segment is run. All that counts down in this
//! replay has done so by then, and what counts down in the next replay comes after the end of this
//! one. So a replay prepares nothing, and allocates nothing.
//!
//! A replay begins *alone*: one runner runs all segments, of every lane, in an order in which one
//! thread can. Its lane is the one given to [`Lanes::begin`], not lane 0. It uses no counter for
//! this. When the host finds that more threads pay, the runner *spreads* what is left: it counts
//! down what the segments that are done would have counted down, then starts the other lanes. The
//! host may have run the first segments by itself, or all, before it gives a lane the rest.

use crate::graph::exclusive::Exclusive;
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
/// Bit of a message about a segment: the segment has ended, later than its call returned. Without
/// this bit, the message says that all that the segment waits for in other lanes is done.
const SEGMENT_ENDED: u32 = 1 << 30;
/// The most segments of a plan. A message below the plan's number of segments is about that
/// segment. The next numbers, one for each lane, start that lane. The number after them begins a
/// replay.
pub const MOST_SEGMENTS: usize = 1 << 29;

/// How long a runner without a ready segment waits for a message before it gives up the lane; and
/// for how much of this time it keeps its core. After that it yields between looks, for another
/// runner may need the core.
const LANE_SPINS: Duration = Duration::from_micros(80);
const LANE_SPINS_AWAKE: Duration = Duration::from_micros(20);
/// Once in so many looks the runner asks the host (`may_wait`) whether the thread has something
/// better to do.
const GLANCES: u32 = 64;

/// What the lanes need of the engine: it runs segments, and it finds threads for lanes. Implemented
/// by `engine/replay/runner.rs`.
pub trait LaneHost {
    /// Runs the operations of a segment. `false` if the segment ends by [`Lanes::ended`], which may
    /// be called before this returns.
    fn run(&mut self, segment: u32) -> bool;
    /// Does what is left to do for a segment that has ended later than its call.
    fn conclude(&mut self, segment: u32);
    /// Finds a thread that calls [`Lanes::work`] for the lane, which has got something to do. It
    /// may be the calling one, inside this call.
    fn hand_out(&mut self, lane: u32);
    /// Called when a replay comes to a lane. Returns how it goes on there.
    fn begins(&mut self) -> Beginning;
    /// Asked between the segments of a replay that is run alone, of which `left` segments are left.
    fn alone(&mut self, left: usize) -> SerialStep;
    /// Asked between the segments of a lane. Returns whether the thread has something else to do
    /// first.
    fn is_due(&mut self) -> bool;
    /// Returns whether to wait for messages: `false` if the thread has something better to do, or
    /// if it would wait for lanes that no thread runs. `others` says whether other threads run
    /// lanes.
    fn may_wait(&mut self, others: bool) -> bool;
    /// Called when all segments are done: the replay is over.
    fn over(&mut self);
}

/// How a replay goes on when it comes to a lane.
#[derive(Clone, Copy, Debug)]
pub struct Beginning {
    /// The rank of the first segment that is left: the thread that has sent the replay has run
    /// those before it.
    pub from: u32,
    /// Whether the lane's runner runs what is left by itself; else it starts all lanes.
    pub alone: bool,
}

/// How a replay that is run alone goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SerialStep {
    GoOn,
    /// Start all lanes on what is left.
    Spread,
    /// Go on later: the thread has something else to do first.
    Pause,
}

/// How [`Lanes::work`] ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Rest {
    /// The lane has no runner any more.
    Idle,
    /// The caller is still the lane's runner, and is to call [`Lanes::work`] again.
    Paused,
}

/// A plan, and all that changes while it is run.
pub struct Lanes {
    pub(super) plan: Plan,
    pub(super) lanes: Box<[Lane]>,
    pub(super) segments: Box<[SegmentProgress]>,
    /// The inbox links of the messages about lanes: one for the start of each lane, and, last, one
    /// for the beginning of a replay.
    pub(super) links: Box<[AtomicU32]>,
    /// The number of lanes that are not done. The thread that spreads the replay stores it, as it
    /// does `from` and each lane's `left`; runners count it down.
    pub(super) left: CachePadded<AtomicU32>,
    /// The number of lanes whose runner is inside [`Lanes::work`].
    pub(super) at_work: CachePadded<AtomicU32>,
    /// The rank of the first segment that was not run alone.
    pub(super) from: AtomicU32,
}

pub struct Lane {
    /// `IDLE`, `EMPTY`, or the message that came last, which links to the one before it.
    pub(super) inbox: CachePadded<AtomicU32>,
    /// The number of its segments that were left when the lanes were started.
    pub(super) left: AtomicU32,
    pub(super) own: CachePadded<Exclusive<LaneState>>,
}

/// What only the runner of a lane touches.
pub struct LaneState {
    /// The ready segments by number; the lowest number runs first.
    pub(super) ready: BinaryHeap<Reverse<u32>>,
    /// The number of segments that are done since the lane was started.
    pub(super) done: u32,
    /// The rank of the next segment, while this lane's runner runs a replay alone.
    pub(super) alone: Option<u32>,
}

/// What a segment still waits for.
pub struct SegmentProgress {
    /// Waits within the lane. Touched only by the runner of the segment's lane, or, before the
    /// lanes are started, by the thread that spreads the replay.
    pub(super) near: AtomicU32,
    /// Waits for other lanes; not used if there is at most one. Runners of other lanes count it
    /// down, and the thread that spreads the replay; the runner of the segment's lane sets it back.
    pub(super) far: AtomicU32,
    /// The inbox link of a message about this segment, stored by the sender.
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

    /// Begins a replay, on `lane`, or has the lane go on with one that the caller has begun without
    /// lanes. If this returns `true`, the caller is the lane's runner from now on, and is to call
    /// [`Lanes::work`].
    ///
    /// # Safety
    /// No lane has a part of a replay, and the last one happened before.
    pub unsafe fn begin(&self, lane: u32) -> bool {
        self.send(lane, (self.segments.len() + self.lanes.len()) as u32)
    }

    /// Says that a segment whose end comes later than its call has ended. The result means the same
    /// as that of [`Lanes::begin`], for the segment's lane.
    ///
    /// # Safety
    /// The segment has been run and has not ended, and [`LaneHost::run`] has returned `false` for
    /// it, or will and does nothing more with it.
    pub unsafe fn ended(&self, segment: u32) -> bool {
        self.send(self.plan.segments[segment as usize].lane, segment | SEGMENT_ENDED)
    }

    /// Returns the inbox link of a message.
    #[inline]
    pub fn link(&self, message: u32) -> &AtomicU32 {
        let number = (message & !SEGMENT_ENDED) as usize;
        match self.segments.get(number) {
            Some(segment) => &segment.next,
            None => &self.links[number - self.segments.len()],
        }
    }

    /// Sends a message to a lane. `true` if the lane was idle: the caller is its runner now.
    #[inline]
    pub fn send(&self, lane: u32, message: u32) -> bool {
        let inbox = &self.lanes[lane as usize].inbox;
        let link = self.link(message);
        let mut head = inbox.load(Relaxed);
        loop {
            let idle = head == IDLE;
            link.store(if idle { EMPTY } else { head }, Relaxed);
            // AcqRel: the release is for what the message is about, and pairs with the acquire in
            // `run`. The acquire is for an idle lane, and pairs with the release in `work` of its
            // last runner. ABA is harmless: if the same head has come back meanwhile, our link to
            // it is still right.
            match inbox.compare_exchange_weak(head, message, AcqRel, Relaxed) {
                Ok(_) => return idle,
                Err(now) => head = now,
            }
        }
    }

    /// Runs a lane until no segment of it is ready, or until the host has something else to do.
    ///
    /// # Safety
    /// The caller is the lane's runner, and all that its earlier runners did happened before this
    /// call.
    pub unsafe fn work(&self, lane: u32, host: &mut impl LaneHost) -> Rest {
        let inbox = &self.lanes[lane as usize].inbox;
        self.at_work.fetch_add(1, Relaxed);
        let rest = loop {
            // SAFETY: by the contract; the lane is given up below, after this use.
            let rest = unsafe { self.lanes[lane as usize].own.with(|own| self.run(lane, own, host)) };
            if rest == Rest::Paused {
                break rest;
            }
            // Release: pairs with the acquire in `send`, so the next runner sees what we did. If
            // the exchange fails, a message has come meanwhile, and we are still the runner.
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
                // Acquire: pairs with the release in `send`, for what the messages are about.
                let mut message = inbox.swap(EMPTY, Acquire);
                while message != EMPTY {
                    // Read the link first: the message may end the replay, and the next replay may
                    // send the same segment again.
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
            // A message in the inbox may make the next segment ready.
            if host.is_due() && (!own.ready.is_empty() || inbox.load(Relaxed) != EMPTY) {
                return Rest::Paused;
            }
        }
    }

    fn receive(&self, lane: u32, own: &mut LaneState, message: u32, host: &mut impl LaneHost) {
        let count = self.segments.len() as u32;
        if message & SEGMENT_ENDED != 0 {
            host.conclude(message & !SEGMENT_ENDED);
            self.finish(lane, own, message & !SEGMENT_ENDED, host);
        } else if message < count {
            self.arrive(own, message);
        } else if message < count + self.lanes.len() as u32 {
            self.start(lane, own, self.from.load(Relaxed));
        } else {
            let Beginning { from, alone } = host.begins();
            if alone {
                own.alone = Some(from);
            } else {
                self.spread(lane, own, from, host);
            }
        }
    }

    /// Counts down one wait of a segment of this lane. The segment is ready at zero.
    #[inline]
    pub fn arrive(&self, own: &mut LaneState, segment: u32) {
        let near = &self.segments[segment as usize].near;
        let waits = near.load(Relaxed) - 1;
        near.store(waits, Relaxed);
        if waits == 0 {
            own.ready.push(Reverse(segment));
        }
    }

    /// Does what follows from the end of a segment: counts down what waits for it, and the lane.
    fn finish(&self, lane: u32, own: &mut LaneState, segment: u32, host: &mut impl LaneHost) {
        let of = &self.plan.segments[segment as usize];
        // Segments of other lanes come first: other threads can run them.
        for next in self.successors(&of.far) {
            let (to, progress) = (&self.plan.segments[*next as usize], &self.segments[*next as usize]);
            // AcqRel: the countdowns of one counter pair with each other, so the thread that sends
            // has acquired what all the others have done.
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
            // AcqRel: the countdowns pair with each other, so the runner of the last lane, which
            // ends the replay, has acquired what all the others did.
            if self.left.fetch_sub(1, AcqRel) == 1 {
                host.over();
            }
        }
    }

    pub fn successors(&self, range: &std::ops::Range<u32>) -> &[u32] {
        &self.plan.successors[range.start as usize..range.end as usize]
    }

    /// Waits for a message. `false` if none comes in time, or none can come.
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
            // Messages come from lanes that other threads are at work on, or will be.
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
