//! Partitioning of a graph: chooses the lane that runs each operation. Used by
//! `engine/replay/assemble.rs`, on the thread that captures.
//!
//! Operations are dealt level by level of the longest path, so that operations that can run at once
//! are spread evenly. Within a level, an operation goes to the lane that has most of its
//! predecessors, as long as that lane has less than its share of the level. Among lanes with
//! equally many, it goes to the one that its position in the level gives. Level-based clustering
//! with a bound on each cluster's share is old: Hu 1961 for levels, and the linear clustering of
//! Kim and Browne 1988 for following the predecessors. Here both are greedy and linear in the
//! edges.

#![forbid(unsafe_code)]

use crate::graph::edges::Adjacency;

/// Returns the lane of each operation. Operations are dealt to the lanes below `lanes`; an
/// operation with a lane of its own (`fixed`) keeps it.
pub fn partition(predecessors: &Adjacency, lanes: usize, fixed: &[Option<u32>]) -> Vec<u32> {
    let count = predecessors.len();
    let mut chosen: Vec<u32> = fixed.iter().map(|lane| lane.unwrap_or(0)).collect();
    if lanes <= 1 {
        return chosen;
    }
    let mut levels = vec![0u32; count];
    for operation in 0..count {
        let before = predecessors.of(operation).iter().map(|before| levels[*before as usize] + 1);
        levels[operation] = before.max().unwrap_or(0);
    }
    let mut by_level: Vec<u32> = (0..count as u32).filter(|operation| fixed[*operation as usize].is_none()).collect();
    by_level.sort_by_key(|operation| levels[*operation as usize]);
    let mut votes = vec![0u32; lanes];
    let mut loads = vec![0u32; lanes];
    for level in by_level.chunk_by(|a, b| levels[*a as usize] == levels[*b as usize]) {
        let room = level.len().div_ceil(lanes) as u32;
        loads.fill(0);
        for (place, operation) in level.iter().enumerate() {
            let by_place = place * lanes / level.len();
            votes.fill(0);
            for before in predecessors.of(*operation as usize) {
                if let Some(votes) = votes.get_mut(chosen[*before as usize] as usize) {
                    *votes += 1;
                }
            }
            let lane = (0..lanes)
                .filter(|lane| loads[*lane] < room)
                // Among lanes with equal votes, the one by position in the level, then the one with
                // the least load.
                .max_by_key(|lane| (votes[*lane], *lane == by_place, std::cmp::Reverse(loads[*lane])))
                .unwrap_or(by_place);
            loads[lane] += 1;
            chosen[*operation as usize] = lane as u32;
        }
    }
    chosen
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::graph::edges::{predecessors, NodeUse};

    #[test]
    fn points_of_a_stencil_stay_where_they_are() {
        const WIDTH: u32 = 16;
        let mut uses = Vec::new();
        for step in 0..10 {
            for point in 0..WIDTH {
                let near = point.saturating_sub(1)..=(point + 1).min(WIDTH - 1);
                let mut list: Vec<NodeUse> =
                    near.map(|point| NodeUse { variable: (step + 1) % 2 * WIDTH + point, writes: false }).collect();
                list.push(NodeUse { variable: step % 2 * WIDTH + point, writes: true });
                uses.push(list);
            }
        }
        let uses: Vec<&[NodeUse]> = uses.iter().map(Vec::as_slice).collect();
        let lanes = partition(&predecessors(&uses, 2 * WIDTH as usize), 2, &vec![None; uses.len()]);
        for (operation, lane) in lanes.iter().enumerate() {
            assert_eq!(*lane, u32::from(operation as u32 % WIDTH >= WIDTH / 2), "operation {operation}");
        }
    }

    #[test]
    fn chains_stay_together_and_lanes_even() {
        let uses: Vec<[NodeUse; 1]> = (0..1000).map(|n| [NodeUse { variable: n % 10, writes: true }]).collect();
        let uses: Vec<&[NodeUse]> = uses.iter().map(|list| &list[..]).collect();
        let lanes = partition(&predecessors(&uses, 10), 3, &vec![None; 1000]);
        for operation in 10..1000 {
            assert_eq!(lanes[operation], lanes[operation - 10]);
        }
        for lane in 0..3 {
            assert!((300..=400).contains(&lanes.iter().filter(|of| **of == lane).count()));
        }
    }

    #[test]
    fn what_has_a_lane_keeps_it() {
        let uses: [&[NodeUse]; 2] = [&[], &[]];
        assert_eq!(partition(&predecessors(&uses, 0), 2, &[Some(5), None]), [5, 0]);
        assert_eq!(partition(&predecessors(&uses, 0), 1, &[Some(5), None]), [5, 0]);
    }
}
