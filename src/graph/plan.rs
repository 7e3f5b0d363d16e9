//! The plan of a graph: operations joined into segments, each of which one thread runs in a row,
//! with wait counters and successor lists.
//!
//! `engine/replay/assemble.rs` has it made, once a capture; it never changes after that. Any thread
//! reads it: runners of lanes, threads that end an asynchronous operation, and those that draw the
//! graph (`api/graph.rs`). While it is run, `graph/lanes.rs` keeps count of what each segment still
//! waits for, and brings messages from one lane to another. One thread at a time runs a lane
//! (`engine/replay/runner.rs`).
//!
//! Operations that follow each other in a lane are joined into a segment while this delays no other
//! lane. There are two reasons to begin a new segment. The operation waits for another lane. Or
//! another lane waits for the operation before it, and the new one would hold that lane up. If the
//! other lane waits for the new one as well, nothing is held up. So a segment can be run as soon as
//! its first operation can, apart from what its own lane has before it.
//!
//! Segments are numbered lane by lane, in order. Their *rank* is the order of their first
//! operations, and a single thread can run them by rank. The proof: if a segment waits for a
//! segment of another lane, its first operation does, since later operations add no such wait. So
//! the other segment has the lower rank. In its own lane every segment begins after those before
//! it.

#![forbid(unsafe_code)]

use crate::graph::edges::Adjacency;
use crate::sync::MODELLED;
use std::ops::Range;

/// The most operations of a segment. Between segments the thread looks for messages, and at the
/// clock.
const LONGEST: usize = if MODELLED { 2 } else { 16 };

/// Operations that one thread runs in a row.
#[derive(Debug)]
pub struct Segment {
    pub lane: u32,
    /// Its position in [`Plan::order`].
    pub rank: u32,
    /// Its operations, a part of [`Plan::operations`].
    pub operations: Range<u32>,
    /// The segments of the same lane that wait for it, as a part of [`Plan::successors`]. The
    /// segments of other lanes that wait for it (`far`) follow directly.
    pub near: Range<u32>,
    pub far: Range<u32>,
    /// The number of segments of the same lane that it waits for. One is added for all of other
    /// lanes together, or for the start of the lane if it waits for nothing else.
    pub waits_near: u32,
    /// The number of segments of other lanes that it waits for.
    pub waits_far: u32,
}

/// A graph whose dependencies are resolved.
#[derive(Debug, Default)]
pub struct Plan {
    pub operations: Vec<u32>,
    pub segments: Vec<Segment>,
    pub successors: Vec<u32>,
    /// The numbers of each lane's segments.
    pub lanes: Vec<Range<u32>>,
    /// For each lane, the segments of it that wait for nothing but the start, in ascending order.
    pub roots: Vec<Vec<u32>>,
    /// All segments by rank: an order in which one thread can run them.
    pub order: Vec<u32>,
}

/// What the plan needs to know of an operation.
#[derive(Clone, Copy)]
pub struct Member {
    pub lane: u32,
    pub priority: i32,
    /// Whether it ends at another time than its call (it is asynchronous). It is a segment by
    /// itself then.
    pub detached: bool,
}

/// A segment that is being put together.
struct SegmentDraft {
    members: Vec<u32>,
    /// Segments that it waits for.
    waits: Vec<u32>,
    lane: u32,
}

/// Puts operations into segments. The operations are numbered in an order in which they can run.
pub fn plan(members: &[Member], predecessors: &Adjacency, lanes: usize) -> Plan {
    let drafts = join(members, predecessors, lanes);
    let mut plan = Plan::default();
    // Drafts of one lane are in order already, and the sort is stable.
    let mut by_lane: Vec<u32> = (0..drafts.len() as u32).collect();
    by_lane.sort_by_key(|draft| drafts[*draft as usize].lane);
    let mut numbers = vec![0u32; drafts.len()];
    for (number, draft) in by_lane.iter().enumerate() {
        numbers[*draft as usize] = number as u32;
    }
    let mut waits = Adjacency::default();
    for draft in &by_lane {
        let mut list = drafts[*draft as usize].waits.iter().map(|before| numbers[*before as usize]).collect();
        waits.add(&mut list);
    }
    let lane_of = |number: u32| drafts[by_lane[number as usize] as usize].lane;
    let successors = waits.inverted(drafts.len());
    for (number, draft) in by_lane.iter().enumerate() {
        let SegmentDraft { members, lane, .. } = &drafts[*draft as usize];
        let first = plan.operations.len() as u32;
        plan.operations.extend(members);
        let mut part = |near: bool| {
            let start = plan.successors.len() as u32;
            plan.successors.extend(successors.of(number).iter().filter(|next| (lane_of(**next) == *lane) == near));
            start..plan.successors.len() as u32
        };
        let (near, far) = (part(true), part(false));
        let waits_far = waits.of(number).iter().filter(|before| lane_of(**before) != *lane).count() as u32;
        let waits_near = waits.of(number).len() as u32 - waits_far;
        plan.segments.push(Segment {
            lane: *lane,
            rank: *draft,
            operations: first..plan.operations.len() as u32,
            near,
            far,
            waits_near: waits_near + u32::from(waits_far > 0 || waits_near == 0),
            waits_far,
        });
    }
    plan.lanes = (0..lanes as u32)
        .map(|lane| {
            let start = plan.segments.partition_point(|segment| segment.lane < lane) as u32;
            start..plan.segments.partition_point(|segment| segment.lane <= lane) as u32
        })
        .collect();
    let is_root = |number: &u32| waits.of(*number as usize).is_empty();
    plan.roots = plan.lanes.iter().map(|lane| lane.clone().filter(is_root).collect()).collect();
    plan.order = numbers;
    plan
}

/// The most waits, and the most waiting operations, of a draft that may still grow: looking them up
/// takes time.
const MOST_LOOKED_UP: usize = 64;

/// The last draft of a lane.
#[derive(Clone)]
struct Open {
    draft: u32,
    /// Operations of other lanes that wait for it.
    awaited: Vec<u32>,
}

/// Joins neighbours of a lane into drafts, which are in the order of their first operations.
fn join(members: &[Member], predecessors: &Adjacency, lanes: usize) -> Vec<SegmentDraft> {
    let successors = predecessors.inverted(members.len());
    let mut drafts: Vec<SegmentDraft> = Vec::new();
    let mut draft_of = vec![0u32; members.len()];
    let mut last: Vec<Option<Open>> = vec![None; lanes];
    for (number, member) in members.iter().enumerate() {
        let before = predecessors.of(number);
        let is_far = |other: &u32| members[*other as usize].lane != member.lane;
        let open = last[member.lane as usize].take().filter(|open| {
            let draft = &drafts[open.draft as usize];
            let first = members[draft.members[0] as usize];
            !member.detached
                && !first.detached
                && first.priority == member.priority
                && draft.members.len() < LONGEST
                && draft.waits.len() <= MOST_LOOKED_UP
                && open.awaited.len() <= MOST_LOOKED_UP
                // The new operation adds no wait: neither for another lane, nor for an asynchronous
                // operation, whose end is not the thread's own doing.
                && before.iter().all(|other| {
                    !is_far(other) && !members[*other as usize].detached
                        || draft.waits.contains(&draft_of[*other as usize])
                })
                // Every operation of another lane that waits for the draft waits for the new
                // operation too.
                && open.awaited.iter().all(|next| predecessors.of(*next as usize).binary_search(&(number as u32)).is_ok())
        });
        let mut open = open.unwrap_or_else(|| {
            drafts.push(SegmentDraft { members: Vec::new(), waits: Vec::new(), lane: member.lane });
            Open { draft: drafts.len() as u32 - 1, awaited: Vec::new() }
        });
        draft_of[number] = open.draft;
        let draft = &mut drafts[open.draft as usize];
        draft.members.push(number as u32);
        draft.waits.extend(before.iter().map(|other| draft_of[*other as usize]).filter(|of| *of != open.draft));
        draft.waits.sort_unstable();
        draft.waits.dedup();
        open.awaited.extend(successors.of(number).iter().copied().filter(is_far));
        open.awaited.sort_unstable();
        open.awaited.dedup();
        last[member.lane as usize] = Some(open);
    }
    drafts
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::graph::edges::{predecessors, NodeUse};
    use crate::graph::partition::partition;
    use crate::util::random::random;

    fn planned(uses: &[Vec<NodeUse>], variables: usize, lanes: usize) -> (Adjacency, Plan) {
        let uses: Vec<&[NodeUse]> = uses.iter().map(Vec::as_slice).collect();
        let before = predecessors(&uses, variables);
        let chosen = partition(&before, lanes, &vec![None; uses.len()]);
        let members: Vec<Member> =
            chosen.iter().map(|lane| Member { lane: *lane, priority: 0, detached: *lane == 99 }).collect();
        let plan = plan(&members, &before, lanes);
        (before, plan)
    }

    /// Runs the plan by its counters, the segment chosen by `choose` first, and checks the edges.
    fn run(before: &Adjacency, plan: &Plan, mut choose: impl FnMut(usize) -> usize) {
        let mut near: Vec<u32> = plan.segments.iter().map(|segment| segment.waits_near).collect();
        let mut far: Vec<u32> = plan.segments.iter().map(|segment| segment.waits_far).collect();
        let mut ready = Vec::new();
        let arrive = |near: &mut Vec<u32>, ready: &mut Vec<u32>, segment: u32| {
            near[segment as usize] -= 1;
            if near[segment as usize] == 0 {
                ready.push(segment);
            }
        };
        plan.roots.iter().flatten().for_each(|root| arrive(&mut near, &mut ready, *root));
        let mut done = vec![false; before.len()];
        while !ready.is_empty() {
            let segment = ready.swap_remove(choose(ready.len()));
            let of = &plan.segments[segment as usize];
            for operation in &plan.operations[of.operations.start as usize..of.operations.end as usize] {
                assert!(before.of(*operation as usize).iter().all(|before| done[*before as usize]));
                assert!(!std::mem::replace(&mut done[*operation as usize], true));
            }
            for next in &plan.successors[of.near.start as usize..of.near.end as usize] {
                assert_eq!(plan.segments[*next as usize].lane, of.lane);
                arrive(&mut near, &mut ready, *next);
            }
            for next in &plan.successors[of.far.start as usize..of.far.end as usize] {
                assert_ne!(plan.segments[*next as usize].lane, of.lane);
                far[*next as usize] -= 1;
                if far[*next as usize] == 0 {
                    arrive(&mut near, &mut ready, *next);
                }
            }
        }
        assert!(done.iter().all(|done| *done), "every operation runs");
        let mut done = vec![false; before.len()];
        for (rank, segment) in plan.order.iter().enumerate() {
            let of = &plan.segments[*segment as usize];
            assert_eq!(of.rank as usize, rank);
            for operation in &plan.operations[of.operations.start as usize..of.operations.end as usize] {
                assert!(before.of(*operation as usize).iter().all(|before| done[*before as usize]));
                done[*operation as usize] = true;
            }
        }
    }

    #[test]
    fn every_order_of_every_plan_keeps_the_edges() {
        let mut random = random(1);
        for case in 0..300 {
            let variables = 1 + random(20);
            let uses: Vec<Vec<NodeUse>> = (0..1 + random(200))
                .map(|_| {
                    (0..random(4))
                        .map(|_| NodeUse { variable: random(variables) as u32, writes: random(2) == 0 })
                        .collect()
                })
                .collect();
            let (before, plan) = planned(&uses, variables, 1 + case % 4);
            run(&before, &plan, &mut random);
            run(&before, &plan, |_| 0);
            run(&before, &plan, |count| count - 1);
        }
    }

    #[test]
    fn a_lane_alone_is_cut_only_for_length() {
        let uses = vec![vec![NodeUse { variable: 0, writes: true }]; 100];
        let (_, plan) = planned(&uses, 1, 1);
        assert_eq!(plan.segments.len(), 100usize.div_ceil(LONGEST));
    }

    #[test]
    fn rows_that_all_wait_for_each_other_are_joined() {
        // All to all, 8 points: each row reads all of the row before.
        let mut uses = Vec::new();
        for step in 0..10u32 {
            for point in 0..8 {
                let mut list: Vec<NodeUse> =
                    (0..8).map(|point| NodeUse { variable: (step + 1) % 2 * 8 + point, writes: false }).collect();
                list.push(NodeUse { variable: step % 2 * 8 + point, writes: true });
                uses.push(list);
            }
        }
        let (_, plan) = planned(&uses, 16, 2);
        assert_eq!(plan.segments.len(), 20);
    }
}
