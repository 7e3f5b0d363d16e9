//! Merging operations of a graph: those that a device can do as one.
//!
//! Used by `engine/replay/merged.rs`, on the thread that captures. An operation joins the last row
//! of its kind if that adds no wait to the row: all that it waits for is in the row, or the row
//! waits for that already. So a row begins as early as its first operation can, and rows make no
//! circles. An operation that begins no row joins one only if it waits for something there: by
//! itself it could begin no earlier, since all of a row ends at once.

#![forbid(unsafe_code)]

use crate::graph::edges::Adjacency;
use std::collections::HashMap;
use std::hash::Hash;

/// Puts operations into rows, each in the order of its operations; the rows are in an order in
/// which they can run. Only operations of equal kinds are in one row, and one without a kind is
/// alone. `begins` says which may begin a row that others join.
pub fn merge<K: Eq + Hash + Copy>(predecessors: &Adjacency, kinds: &[Option<K>], begins: &[bool]) -> Vec<Vec<u32>> {
    let mut rows: Vec<Vec<u32>> = Vec::new();
    let mut row_of: Vec<u32> = Vec::with_capacity(kinds.len());
    // For each row the rows that it waits for, in order.
    let mut waits: Vec<Vec<u32>> = Vec::new();
    let mut open: HashMap<K, u32> = HashMap::new();
    for (operation, kind) in kinds.iter().enumerate() {
        let mut before: Vec<u32> = predecessors.of(operation).iter().map(|of| row_of[*of as usize]).collect();
        before.sort_unstable();
        before.dedup();
        let joins = |row: &u32| before.iter().all(|of| of == row || waits[*row as usize].binary_search(of).is_ok());
        let follows = |row: &u32| begins[operation] || before.contains(row);
        let joined = kind.and_then(|kind| open.get(&kind).copied()).filter(joins).filter(follows);
        let row = joined.unwrap_or_else(|| {
            rows.push(Vec::new());
            waits.push(before);
            rows.len() as u32 - 1
        });
        rows[row as usize].push(operation as u32);
        row_of.push(row);
        kind.filter(|_| begins[operation]).into_iter().for_each(|kind| _ = open.insert(kind, row));
    }
    rows
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::graph::edges::{predecessors, NodeUse};
    use crate::util::random::random;

    fn merged(uses: &[Vec<NodeUse>], variables: usize, kinds: &[Option<u8>]) -> (Adjacency, Vec<Vec<u32>>) {
        let uses: Vec<&[NodeUse]> = uses.iter().map(Vec::as_slice).collect();
        let before = predecessors(&uses, variables);
        let rows = merge(&before, kinds, &vec![true; kinds.len()]);
        (before, rows)
    }

    #[test]
    fn rows_wait_for_what_their_first_operations_wait_for() {
        let mut random = random(1);
        let mut longest = 0;
        for _ in 0..300 {
            let variables = 1 + random(10);
            let count = 1 + random(60);
            let mut used = |_| NodeUse { variable: random(variables) as u32, writes: random(2) == 0 };
            let uses: Vec<Vec<NodeUse>> = (0..count).map(|_| (0..2).map(&mut used).collect()).collect();
            let kinds: Vec<Option<u8>> = (0..count).map(|_| [None, Some(0), Some(1), Some(1)][random(4)]).collect();
            let (before, rows) = merged(&uses, variables, &kinds);
            let mut row_of = vec![usize::MAX; count];
            for (number, row) in rows.iter().enumerate() {
                assert!(row.is_sorted() && row.iter().all(|of| kinds[*of as usize] == kinds[row[0] as usize]));
                row.iter().for_each(|of| row_of[*of as usize] = number);
                longest = longest.max(row.len());
            }
            assert!(row_of.iter().all(|row| *row < rows.len()), "each operation is in a row");
            for row in &rows {
                let waits = |of: u32| before.of(of as usize).iter().map(|of| row_of[*of as usize]);
                let first: Vec<usize> = waits(row[0]).collect();
                assert!(first.iter().all(|of| *of < row_of[row[0] as usize]), "the rows are in order");
                let adds = |of: &u32| waits(*of).any(|of| of != row_of[row[0] as usize] && !first.contains(&of));
                assert!(!row.iter().any(adds), "an operation adds a wait to its row");
            }
        }
        assert!(longest >= 5, "rows of {longest} at most");
    }

    #[test]
    fn the_processor_parts_rows() {
        // Two of the device, one of the processor behind the first, and two more behind that.
        let (write, read) =
            (|variable| NodeUse { variable, writes: true }, |variable| NodeUse { variable, writes: false });
        let uses = vec![vec![write(0)], vec![write(1)], vec![read(0), write(2)], vec![read(2)], vec![read(1), read(2)]];
        let (_, rows) = merged(&uses, 3, &[Some(0), Some(0), None, Some(0), Some(0)]);
        assert_eq!(rows, [vec![0, 1], vec![2], vec![3], vec![4]]);
    }

    #[test]
    fn what_begins_no_row_follows_something_there() {
        let (write, read) =
            (|variable| NodeUse { variable, writes: true }, |variable| NodeUse { variable, writes: false });
        // Numbers 0, 2 and 4 begin no row: 0 and 2 wait for nothing, 4 for number 1. Number 5 waits
        // for 2, and so for more than the row before.
        let uses = [
            vec![write(0)],
            vec![write(1)],
            vec![write(2)],
            vec![read(1), write(3)],
            vec![read(1), write(5)],
            vec![read(2), write(4)],
            vec![read(4), read(2)],
        ];
        let uses: Vec<&[NodeUse]> = uses.iter().map(Vec::as_slice).collect();
        let begins = [false, true, false, true, false, true, true];
        let rows = merge(&predecessors(&uses, 6), &[Some(0); 7], &begins);
        assert_eq!(rows, [vec![0], vec![1, 3, 4], vec![2], vec![5, 6]]);
    }
}
