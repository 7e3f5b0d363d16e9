//! The pools: blocks that are sent home arrive, once.

#![cfg(loom)]

use loom::thread;
use loom_tests::explore;
use seriatim::internals::magazine::{Magazine, Stack};
use seriatim::internals::memory::Memory;
use std::collections::HashSet;
use std::sync::Arc;

#[test]
fn two_threads_send_magazines_home_while_the_owner_takes() {
    explore("stack of magazines", 3, 20, || {
        let memory = Memory::new();
        let mut blocks = memory.fetch(0);
        let stack = Arc::new(Stack::new());
        let senders: Vec<_> = (0..2)
            .map(|_| {
                let stack = stack.clone();
                let mut magazine = Magazine::new();
                // SAFETY: the block comes from the other magazine.
                unsafe { magazine.push(blocks.pop().unwrap()) };
                thread::spawn(move || stack.push(magazine))
            })
            .collect();
        let mut taken = stack.take();
        for sender in senders {
            sender.join().unwrap();
        }
        taken.append(stack.take());
        let mut seen = HashSet::new();
        taken.for_each(|block| assert!(seen.insert(block)));
        assert_eq!((taken.len(), seen.len()), (2, 2));
    });
}
