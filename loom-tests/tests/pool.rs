//! The pools: blocks that are sent home arrive, once; and memory is reused at once only when nobody looks.

#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering::*};
use loom_tests::{explore, spawn, Guarded};
use seriatim::internals::local::Local;
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
                spawn(move || stack.push(magazine))
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
        let other = spawn(move || {
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

/// A thread frees another one's blocks while that one runs dry and refills. `looking`: whether both look at tails, so that blocks go by way of
/// the reclaimer.
fn free_elsewhere_against_refill(looking: bool) {
    let memory = Arc::new(Memory::new());
    let home = Local::new(&memory);
    // SAFETY: nothing was read from a tail, here and below.
    let first: Vec<usize> = (0..2).map(|_| unsafe { home.allocate(0) }.expose_provenance()).collect();
    let values: Vec<Guarded> = first.iter().map(|_| Guarded::new()).collect();
    if looking {
        drop(home.pin());
    }
    let (theirs, known) = (memory.clone(), first.iter().copied().zip(values.clone()).collect::<Vec<_>>());
    let other = spawn(move || {
        let away = Local::new(&theirs);
        if looking {
            drop(away.pin());
        }
        for (block, value) in known {
            value.step();
            // SAFETY: handed over by its owner, and spent.
            unsafe { away.retire(std::ptr::with_exposed_provenance_mut(block)) };
            away.flush();
        }
    });
    let mut held = HashSet::new();
    for _ in 0..4 {
        // SAFETY: as above.
        let block = unsafe { home.allocate(0) }.expose_provenance();
        assert!(held.insert(block), "a block was handed out twice");
        if let Some(index) = first.iter().position(|known| *known == block) {
            // A race, if the other thread has not done with it.
            values[index].step();
        }
    }
    other.join().unwrap();
    for block in &held {
        // SAFETY: ours, and spent.
        unsafe { home.retire(std::ptr::with_exposed_provenance_mut(*block)) };
    }
    // The other has left: everything comes back at once, each block once.
    let mut again = HashSet::new();
    for _ in 0..held.len() {
        // SAFETY: as above.
        assert!(again.insert(unsafe { home.allocate(0) }.addr()), "a block came back twice");
    }
}

#[test]
fn blocks_that_another_thread_frees_come_home_once() {
    explore("free elsewhere against refill", 3, 20, || free_elsewhere_against_refill(false));
    explore("free elsewhere against refill, both look at tails", 3, 20, || free_elsewhere_against_refill(true));
}

#[test]
fn a_home_has_one_owner_at_a_time() {
    explore("two threads settle and leave", 3, 20, || {
        let memory = Arc::new(Memory::new());
        // A home without an owner, which both would like to adopt.
        drop(Local::new(&memory));
        let owners: Vec<_> = (0..2)
            .map(|_| {
                let memory = memory.clone();
                spawn(move || {
                    let local = Local::new(&memory);
                    // The private part of a home is the owner's alone.
                    // SAFETY: nothing was read from a tail.
                    let block = unsafe { local.allocate(0) };
                    // SAFETY: ours, and never enlisted.
                    unsafe { local.retire(block) };
                    std::ptr::from_ref(local.home()).addr()
                })
            })
            .collect();
        let homes: Vec<usize> = owners.into_iter().map(|owner| owner.join().unwrap()).collect();
        assert!(
            memory.homes().count() <= 2 && memory.homes().any(|home| homes.contains(&std::ptr::from_ref(home).addr()))
        );
    });
}
