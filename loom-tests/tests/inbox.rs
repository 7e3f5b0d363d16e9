//! The inbox: nothing is lost or given out twice, and a sleeping owner is always woken.

#![cfg(loom)]

use loom::thread;
use loom_tests::explore;
use seriatim::internals::block::Block;
use seriatim::internals::inbox::{Inbox, Met};
use std::ptr::null_mut;
use std::sync::Arc;

/// Blocks of std's memory, as many as needed: an inbox only looks at their links.
fn blocks(count: usize) -> Vec<usize> {
    (0..count)
        .map(|_| {
            let block = Box::into_raw(Box::<std::mem::MaybeUninit<Block>>::new_uninit()).cast::<Block>();
            // SAFETY: fresh memory of the right size and alignment. It is not freed.
            unsafe { Block::initialise(block, 0) };
            block.expose_provenance()
        })
        .collect()
}

fn pointer(block: usize) -> *mut Block {
    std::ptr::with_exposed_provenance_mut(block)
}

fn count(mut list: *mut Block) -> usize {
    let mut count = 0;
    while !list.is_null() {
        count += 1;
        // SAFETY: the list was taken, so it is ours.
        list = unsafe { (*list).link };
    }
    count
}

#[test]
fn two_pushers_and_two_takers_lose_nothing() {
    explore("inbox, two pushers, owner and thief", 3, 50, || {
        let inbox = Arc::new(Inbox::new());
        let all = blocks(2);
        let pushers: Vec<_> = all
            .iter()
            .map(|block| {
                let (inbox, block) = (inbox.clone(), *block);
                thread::spawn(move || {
                    // SAFETY: the block is this thread's.
                    let _ = unsafe { inbox.push(pointer(block), pointer(block)) };
                    count(inbox.take())
                })
            })
            .collect();
        let mut taken = count(inbox.take());
        for pusher in pushers {
            taken += pusher.join().unwrap();
        }
        taken += count(inbox.take());
        assert_eq!(taken, 2);
    });
}

#[test]
fn a_sleeping_owner_is_woken() {
    explore("inbox, sleep and wake", 3, 20, || {
        let inbox = Arc::new(Inbox::new());
        let block = blocks(1)[0];
        let owner = {
            let inbox = inbox.clone();
            thread::spawn(move || loop {
                let list = inbox.take();
                if !list.is_null() {
                    return count(list);
                }
                if !inbox.start_looking() || !inbox.fall_asleep() {
                    continue;
                }
                while inbox.is_asleep() {
                    thread::park();
                }
                let _ = inbox.stop_looking();
            })
        };
        // SAFETY: the block is this thread's.
        let met = unsafe { inbox.push(pointer(block), pointer(block)) };
        if met == Met::Asleep {
            owner.thread().unpark();
        }
        assert_eq!(owner.join().unwrap(), 1);
        assert_eq!(inbox.take(), null_mut());
    });
}
