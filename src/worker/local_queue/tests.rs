//! Tests of `local_queue.rs`.

use super::*;
use crate::pool::memory::Memory;
use std::cmp::Reverse;

/// A free block for each pair of priority and sequence.
fn blocks(memory: &Memory, keys: impl IntoIterator<Item = (i32, u64)>) -> Vec<*mut Block> {
    let mut blocks = memory.blocks.slabs.add(0);
    let make = |(priority, sequence)| {
        let block = blocks.pop().expect("there are more");
        // SAFETY: free, and ours.
        unsafe { ((*block).priority, (*block).sequence) = (priority, sequence) };
        block
    };
    keys.into_iter().map(make).collect()
}

fn sequences(blocks: impl IntoIterator<Item = *mut Block>) -> Vec<u64> {
    // SAFETY: the block is ours.
    blocks.into_iter().map(|block| unsafe { (*block).sequence }).collect()
}

fn list(mut first: *mut Block) -> Vec<*mut Block> {
    let mut found = Vec::new();
    while !first.is_null() {
        found.push(first);
        // SAFETY: the block is ours.
        first = unsafe { (*first).link };
    }
    found
}

/// A queue of these operations, pushed in this order.
fn queue(blocks: &[*mut Block]) -> Queue {
    let mut queue = Queue::default();
    // SAFETY: ready, and ours.
    blocks.iter().for_each(|block| unsafe { queue.push(*block) });
    queue
}

fn all(queue: &mut Queue) -> Vec<u64> {
    sequences(std::iter::from_fn(|| queue.pop()))
}

/// The order of arrival does not matter: operations that are stolen or given back can be older
/// than the ones in the queue.
#[test]
fn among_equals_the_one_that_was_pushed_first_goes_first() {
    let memory = Memory::new().unwrap();
    for priority in [0, 1, -1] {
        let blocks = blocks(&memory, [5, 3, 6, 1, 4].map(|sequence| (priority, sequence)));
        assert_eq!(all(&mut queue(&blocks)), [1, 3, 4, 5, 6], "priority {priority}");
    }
}

/// While the owner runs an operation, others take some of what is left, and more becomes ready.
#[test]
fn what_is_lent_is_for_others_meanwhile_and_comes_back_in_order() {
    let (memory, stealable) = (Memory::new().unwrap(), Stealable::new());
    for priorities in [[0; 6], [3, 0, 0, -2, 5, 1]] {
        let mut order: Vec<u64> = (0..6).collect();
        order.sort_by_key(|sequence| Reverse(priorities[*sequence as usize]));
        let blocks = blocks(&memory, (0..6).map(|sequence| (priorities[sequence as usize], sequence)));

        let mut queue = queue(&blocks[..5]);
        order.retain(|sequence| *sequence != 5);
        assert_eq!(sequences(queue.pop()), order[..1]);
        queue.lend(&stealable);
        assert!(queue.is_empty() && !stealable.is_empty());
        let (half, are_some_left) = stealable.take_half();
        // Of urgent ones a thief takes one.
        let taken = if priorities[order[1] as usize] > 0 { 1 } else { 2 };
        assert_eq!(sequences(list(half)), order[1..1 + taken], "the best go first");
        assert!(are_some_left);
        // SAFETY: ready, and ours.
        unsafe { queue.push(blocks[5]) };
        queue.take_back(&stealable);
        assert!(stealable.is_empty());
        order.push(5);
        order.sort_by_key(|sequence| Reverse(priorities[*sequence as usize]));
        order.retain(|sequence| !sequences(list(half)).contains(sequence));
        assert_eq!(all(&mut queue), order[1..]);
    }
}

/// A thief has the queue in its hands while the owner takes it back, and while it lends the
/// next.
#[test]
fn what_is_put_back_late_is_not_lost() {
    let (memory, stealable) = (Memory::new().unwrap(), Stealable::new());
    let blocks = blocks(&memory, (0..6).map(|sequence| (0, sequence)));
    for lends in [false, true] {
        let mut queue = queue(&blocks[..4]);
        queue.lend(&stealable);
        let mut held = stealable.take().expect("it was lent");
        assert_eq!(sequences(list(held.take_list(2, |_| true))), [0, 1]);
        queue.take_back(&stealable);
        assert_eq!(queue.pop(), None);
        // SAFETY: ready, and ours.
        unsafe { queue.push(blocks[4]) };
        if lends {
            queue.lend(&stealable);
        }
        assert_eq!(stealable.put(held), lends, "more than was put is there now");
        // SAFETY: ready, and ours.
        unsafe { queue.push(blocks[5]) };
        queue.take_back(&stealable);
        assert_eq!(all(&mut queue), [2, 3, 4, 5]);
        assert!(stealable.is_empty());
    }
}

/// The lanes of a replay have one key. One of them is in the ring here, and one in the heap,
/// since a younger operation has come between them.
#[test]
fn of_equals_each_is_taken_once() {
    let (memory, stealable) = (Memory::new().unwrap(), Stealable::new());
    for take in [1, 2] {
        let blocks = blocks(&memory, [5, 9, 5].map(|sequence| (0, sequence)));
        let mut queue = queue(&blocks);
        queue.lend(&stealable);
        let mut ready = stealable.take().expect("it was lent");
        let mut found = list(ready.take_list(take, |_| true));
        stealable.put(ready);
        queue.take_back(&stealable);
        found.extend(std::iter::from_fn(|| queue.pop()));
        assert_eq!(sequences(found.iter().copied()), [5, 5, 9]);
        assert_ne!(found[0], found[1], "a lane is run by two threads, and the other one by none");
    }
}

/// The operations that a thief puts back go behind better ones that were lent meanwhile.
#[test]
fn of_two_rows_the_better_is_seen_first() {
    let (memory, stealable) = (Memory::new().unwrap(), Stealable::new());
    let blocks = blocks(&memory, [(0, 1), (0, 2), (3, 3), (0, 4)]);
    for late in [0..2, 2..4] {
        let (mut first, mut second) = (queue(&blocks[late.clone()]), queue(&blocks[2 - late.start..4 - late.start]));
        first.lend(&stealable);
        let held = stealable.take().expect("it was lent");
        second.lend(&stealable);
        assert!(stealable.put(held));
        assert_eq!(sequences(list(stealable.take_half().0)), [3]);
        assert_eq!(queue(&[]).take_all(&stealable).map(|row| list(row.first).len()), Some(3));
    }
}

/// Memory for rows is made while many threads have some in their hands. A thread that comes to
/// rest keeps a little.
#[test]
fn memory_for_many_rows_is_given_back() {
    let (memory, stealable) = (Memory::new().unwrap(), Stealable::new());
    let blocks = blocks(&memory, (0..50).map(|sequence| (0, sequence)));
    let mut queue = Queue::default();
    for block in &blocks {
        // SAFETY: ready, and ours.
        unsafe { queue.push(*block) };
        queue.lend(&stealable);
    }
    queue.take_back(&stealable);
    assert_eq!(queue.spare.as_ref().map(|spare| spare.rows()), Some(50));
    assert_eq!(all(&mut queue).len(), 50);
    queue.trim();
    assert_eq!(queue.spare.as_ref().map(|spare| spare.rows()), Some(8));
}

/// The memory of a queue that others have emptied comes back, and is used again.
#[test]
fn the_last_operation_may_be_stolen() {
    let (memory, stealable) = (Memory::new().unwrap(), Stealable::new());
    let blocks = blocks(&memory, [(0, 1), (0, 2)]);
    for block in blocks {
        let mut queue = queue(&[block]);
        queue.lend(&stealable);
        let (first, are_some_left) = stealable.take_half();
        assert!(first == block && !are_some_left && stealable.is_empty());
        assert_eq!(stealable.take_half(), (null_mut(), false));
        assert!(queue.spare.is_none());
        queue.take_back(&stealable);
        assert!(queue.is_empty() && queue.spare.is_some());
    }
}

/// A helper leaves: its queue gives all operations, those that were lent too, and the key of
/// the best one.
#[test]
fn who_leaves_takes_all_of_it() {
    let (memory, stealable) = (Memory::new().unwrap(), Stealable::new());
    let blocks = blocks(&memory, [(0, 3), (0, 4), (2, 5), (-1, 1), (0, 2)]);
    let mut queue = queue(&blocks[..3]);
    queue.lend(&stealable);
    // SAFETY: the block is ours.
    blocks[3..].iter().for_each(|block| unsafe { queue.push(*block) });
    let row = queue.take_all(&stealable).expect("there are five");
    assert_eq!((row.best, row.last), ((2, Reverse(5)), blocks[2]));
    assert_eq!(sequences(list(row.first)), [1, 4, 3, 2, 5], "newest first");
    assert!(queue.take_all(&stealable).is_none() && stealable.is_empty());
}

/// Of many urgent operations a worker keeps the best, and of few just one.
#[test]
fn urgent_operations_are_left_to_others_but_for_the_best() {
    let memory = Memory::new().unwrap();
    for (urgent, others, kept) in [(0, 3, 3), (1, 2, 3), (3, 2, 3), (29, 3, 5)] {
        let keys = (0..urgent + others).map(|sequence| (if sequence < urgent { 7 } else { 0 }, sequence));
        let blocks = blocks(&memory, keys);
        // SAFETY: the block is ours.
        let first = blocks.iter().fold(null_mut(), |next, block| unsafe { link(*block, next) });
        let mut queue = Queue::default();
        // SAFETY: ready, and ours.
        let row = unsafe { queue.add_best(first) };
        let left = row.map(|row| list(row.first)).unwrap_or_default();
        assert_eq!((all(&mut queue).len(), left.len() as u64), (kept, urgent + others - kept as u64));
    }
    // SAFETY: there is none.
    assert!(unsafe { Queue::default().add_best(null_mut()) }.is_none());
}
