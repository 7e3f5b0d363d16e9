//! The pools: blocks that are sent home arrive, once; and memory is reused at once only when nobody looks.

#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering::*};
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

#[test]
fn memory_is_reused_at_once_only_after_the_last_other_looker_has_left() {
    explore("a looker comes and leaves", 3, 10, || {
        let memory = Arc::new(Memory::new());
        // A link that leads to a value until it is cut, as a tail leads to a block.
        let shared = Arc::new((AtomicUsize::new(0), UnsafeCell::new(0usize)));
        memory.add_looker();
        let (theirs, seen) = (memory.clone(), shared.clone());
        let other = thread::spawn(move || {
            theirs.add_looker();
            if seen.0.load(Acquire) == 0 {
                // SAFETY: loom checks it.
                seen.1.with(|value| unsafe { assert!(*value < 2) });
            }
            theirs.remove_looker();
        });
        shared.0.store(1, Release);
        if memory.has_one_looker() {
            // SAFETY: loom checks it.
            shared.1.with_mut(|value| unsafe { *value = 1 });
        }
        other.join().unwrap();
    });
}
