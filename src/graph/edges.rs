//! Dependency edges of a graph: from the variables that each operation uses, in the order of
//! recording, to a list of predecessors for each operation. Also an order in which one thread can
//! run them, by priority ([`schedule`]).
//!
//! Used by `engine/replay/` when a graph is assembled, on that thread, by the other files of
//! `graph/`, and by the models in `loom-tests/`. There is no state: the lists are the caller's.
//! `profile/flows.rs` has a rule of its own for the arrows of a trace.

#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One use of a variable, by its number within the graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeUse {
    pub variable: u32,
    pub writes: bool,
}

/// Lists of numbers, one after the other in one piece of memory.
#[derive(Default, Debug)]
pub struct Adjacency {
    ends: Vec<u32>,
    items: Vec<u32>,
}

impl Adjacency {
    /// Adds a list. It is sorted, and repeats are removed; `list` is empty afterwards.
    pub fn add(&mut self, list: &mut Vec<u32>) {
        list.sort_unstable();
        list.dedup();
        self.items.append(list);
        self.ends.push(self.items.len() as u32);
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// List `index`.
    pub fn of(&self, index: usize) -> &[u32] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.items[start as usize..self.ends[index] as usize]
    }

    /// Returns the inverse: for each number below `count`, the lists that contain it.
    pub fn inverted(&self, count: usize) -> Adjacency {
        let mut lengths = vec![0u32; count + 1];
        self.items.iter().for_each(|item| lengths[*item as usize + 1] += 1);
        for index in 0..count {
            lengths[index + 1] += lengths[index];
        }
        let ends = lengths[1..].to_vec();
        let mut items = vec![0; self.items.len()];
        for list in 0..self.len() {
            for item in self.of(list) {
                let place = &mut lengths[*item as usize];
                items[*place as usize] = list as u32;
                *place += 1;
            }
        }
        Adjacency { ends, items }
    }
}

/// The operations that have used a variable so far.
#[derive(Clone, Default)]
struct Past {
    write: Option<u32>,
    /// The reads since the last write.
    reads: Vec<u32>,
}

/// Returns the predecessors of each operation. A read waits for the last write before it. A write
/// waits for the reads since the last write, or for that write if there are none. The time taken is
/// proportional to the number of uses.
pub fn predecessors(uses: &[&[NodeUse]], variables: usize) -> Adjacency {
    let mut past = vec![Past::default(); variables];
    let mut lists = Adjacency::default();
    let mut list = Vec::new();
    for (operation, uses) in uses.iter().enumerate() {
        for used in *uses {
            let past = &mut past[used.variable as usize];
            if !used.writes {
                list.extend(past.write);
                past.reads.push(operation as u32);
            } else {
                if past.reads.is_empty() {
                    list.extend(past.write);
                } else {
                    list.append(&mut past.reads);
                }
                past.write = Some(operation as u32);
            }
        }
        // An operation that names a variable twice does not wait for itself.
        list.retain(|before| *before != operation as u32);
        lists.add(&mut list);
    }
    lists
}

/// Returns the operations in an order in which one thread can run them. Among the operations that
/// wait for nothing any more, the one of the greatest priority comes first; among equals, the one
/// that was recorded first.
pub fn schedule(predecessors: &Adjacency, priorities: &[i32]) -> Vec<u32> {
    let count = predecessors.len();
    if priorities.windows(2).all(|pair| pair[0] == pair[1]) {
        return (0..count as u32).collect();
    }
    let successors = predecessors.inverted(count);
    let mut waits: Vec<usize> = (0..count).map(|operation| predecessors.of(operation).len()).collect();
    let key = |operation: usize| (priorities[operation], Reverse(operation));
    let mut ready: BinaryHeap<_> = (0..count).filter(|operation| waits[*operation] == 0).map(key).collect();
    let mut order = Vec::with_capacity(count);
    while let Some((_, Reverse(operation))) = ready.pop() {
        order.push(operation as u32);
        for next in successors.of(operation) {
            waits[*next as usize] -= 1;
            if waits[*next as usize] == 0 {
                ready.push(key(*next as usize));
            }
        }
    }
    order
}

/// Returns the same lists, with the operations numbered by their position in `order`.
pub fn renumbered(predecessors: &Adjacency, order: &[u32]) -> Adjacency {
    let mut places = vec![0; order.len()];
    for (place, operation) in order.iter().enumerate() {
        places[*operation as usize] = place as u32;
    }
    let mut lists = Adjacency::default();
    let mut list = Vec::new();
    for operation in order {
        list.extend(predecessors.of(*operation as usize).iter().map(|before| places[*before as usize]));
        lists.add(&mut list);
    }
    lists
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
    fn reads_wait_for_the_last_write_and_writes_for_the_reads_since() {
        let uses: [&[NodeUse]; 6] =
            [&[write(0)], &[read(0)], &[read(0), write(1)], &[write(0)], &[write(0)], &[read(1), read(0)]];
        let before = predecessors(&uses, 2);
        let all: Vec<&[u32]> = (0..6).map(|operation| before.of(operation)).collect();
        assert_eq!(all, [&[][..], &[0], &[0], &[1, 2], &[3], &[2, 4]]);
        let after = before.inverted(6);
        assert_eq!(after.of(0), [1, 2]);
        assert_eq!(after.of(2), [3, 5]);
        assert_eq!(after.of(5), []);
    }

    #[test]
    fn a_variable_named_twice_is_no_edge_to_oneself() {
        let before = predecessors(&[&[read(0), write(0)], &[write(0), read(0)]], 1);
        assert_eq!(before.of(0), []);
        assert_eq!(before.of(1), [0]);
    }

    #[test]
    fn the_schedule_obeys_edges_first_and_priorities_second() {
        let uses: [&[NodeUse]; 4] = [&[write(0)], &[write(1)], &[write(0)], &[write(2)]];
        let before = predecessors(&uses, 3);
        let order = schedule(&before, &[0, 1, 9, 5]);
        assert_eq!(order, [3, 1, 0, 2]);
        let renumbered = renumbered(&before, &order);
        assert_eq!(renumbered.of(3), [2]);
        assert_eq!(schedule(&before, &[7; 4]), [0, 1, 2, 3]);
    }
}
