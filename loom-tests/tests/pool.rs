//! The pools: blocks that are sent back arrive, once. Memory is reused at once only when no thread
//! looks at it.

#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};
use loom_tests::{explore, explore_light_fences, spawn, Guarded};
use seriatim::internals::access::{Access, Mode, Ticket};
use seriatim::internals::beside_epoch::unheld;
use seriatim::internals::block::Block;
use seriatim::internals::context::ThreadContext;
use seriatim::internals::heavy;
use seriatim::internals::magazine::Magazine;
use seriatim::internals::memory::Memory;
use seriatim::internals::slot::Slot;
use seriatim::internals::stack::Stack;
use seriatim::internals::table::Table;
use seriatim::internals::thread_cache::ThreadCache;
use seriatim::internals::tickets::hazards::Hazards;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

#[test]
fn two_threads_send_magazines_back_while_the_owner_takes() {
    explore("stack of magazines", 3, 100, || {
        let memory = Memory::new().unwrap();
        let mut blocks = memory.blocks.slabs.add(0);
        let stack = Arc::new(Stack::new());
        let mut values = HashMap::new();
        let senders: Vec<_> = (0..2)
            .map(|_| {
                let stack = stack.clone();
                let block = blocks.pop().unwrap();
                let value = Guarded::new();
                values.insert(block.addr(), value.clone());
                let mut magazine = Magazine::new();
                // SAFETY: the block comes from the other magazine.
                unsafe { magazine.push(block) };
                spawn(move || {
                    // What was done with the block before is over for the thread that takes it.
                    value.step();
                    stack.push(magazine);
                })
            })
            .collect();
        let take = || -> usize {
            let mut taken = stack.take();
            let magazines = std::iter::from_fn(|| taken.pop());
            magazines
                .inspect(|taken| taken.for_each(|block| values[&block.addr()].step()))
                .map(|taken| taken.len())
                .sum()
        };
        let mut count: usize = take();
        for sender in senders {
            sender.join().unwrap();
        }
        count += take();
        assert_eq!(count, 2);
        assert!(values.values().all(|value| value.get() == 2), "a block was taken twice");
    });
}

#[test]
fn memory_is_reused_at_once_only_after_the_last_other_reader_has_left() {
    explore("a reader comes and leaves", 3, 30, || {
        let memory = Arc::new(Memory::new().unwrap());
        // A link that leads to a value until it is cut, as a tail leads to a block.
        let shared = Arc::new((AtomicUsize::new(0), UnsafeCell::new(0usize)));
        memory.blocks.readers.add();
        let (theirs, seen) = (memory.clone(), shared.clone());
        let other = spawn(move || {
            theirs.blocks.readers.add();
            if seen.0.load(Acquire) == 0 {
                // SAFETY: loom checks it.
                seen.1.with(|value| unsafe { assert!(*value < 2) });
            }
            theirs.blocks.readers.remove();
        });
        shared.0.store(1, Release);
        if memory.blocks.readers.has_none_but(true) {
            // SAFETY: loom checks it.
            shared.1.with_mut(|value| unsafe { *value = 1 });
        }
        other.join().unwrap();
    });
}

#[test]
fn a_block_that_is_looked_at_is_not_reused() {
    explore("a look against reuse", 2, 20, || a_look_against_reuse(false));
    explore("a look against reuse by who looks at nothing", 2, 20, || a_look_against_reuse(true));
}

/// `leaves`: the thread ends, and the next one, which has not looked at a tail, has its cache.
fn a_look_against_reuse(leaves: bool) {
    let memory = Arc::new(Memory::new().unwrap());
    let mut cache = ThreadContext::new(&memory);
    drop(cache.pin());
    // SAFETY: nothing was read from a tail, here and below.
    let block = unsafe { cache.allocate(0) }.expose_provenance();
    // A link that leads to the block until it is cut, as a tail does; and whether the other
    // thread is looking at the block. The epochs are not loom's here, so that is no atomic of
    // the model.
    let (link, looking) = (Arc::new(AtomicUsize::new(1)), Arc::new(AtomicBool::new(false)));
    let (theirs, seen, looks) = (memory.clone(), link.clone(), looking.clone());
    let other = spawn(move || {
        let away = ThreadContext::new(&theirs);
        let pin = away.pin();
        if seen.load(Acquire) == 1 {
            looks.store(true, SeqCst);
            loom::thread::yield_now();
            looks.store(false, SeqCst);
        }
        drop(pin);
    });
    link.store(0, Release);
    // SAFETY: the link is cut, so no thread finds the block any more.
    unsafe { cache.retire(std::ptr::with_exposed_provenance_mut(block)) };
    if leaves {
        drop(cache);
        cache = ThreadContext::new(&memory);
    }
    for _ in 0..6 {
        // SAFETY: as above.
        let again = unsafe { cache.allocate(0) }.expose_provenance();
        assert!(again != block || !looking.load(SeqCst), "reused while a pinned thread looks at it");
    }
    other.join().unwrap();
}

/// A thread frees another one's blocks while the other runs dry and refills. `looking`: whether
/// both look at tails, so that blocks go by way of the reclaimer.
fn free_elsewhere_against_refill(looking: bool) {
    let memory = Arc::new(Memory::new().unwrap());
    let cache = ThreadContext::new(&memory);
    // SAFETY: nothing was read from a tail, here and below.
    let first: Vec<usize> = (0..2).map(|_| unsafe { cache.allocate(0) }.expose_provenance()).collect();
    let values: Vec<Guarded> = first.iter().map(|_| Guarded::new()).collect();
    if looking {
        drop(cache.pin());
    }
    let (theirs, known) = (memory.clone(), first.iter().copied().zip(values.clone()).collect::<Vec<_>>());
    let other = spawn(move || {
        let away = ThreadContext::new(&theirs);
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
        let block = unsafe { cache.allocate(0) }.expose_provenance();
        assert!(held.insert(block), "a block was handed out twice");
        if let Some(index) = first.iter().position(|known| *known == block) {
            // A race, if the other thread has not done with it.
            values[index].step();
        }
    }
    other.join().unwrap();
    for block in &held {
        // SAFETY: ours, and spent.
        unsafe { cache.retire(std::ptr::with_exposed_provenance_mut(*block)) };
    }
    // The other has left: everything has come back, each block once, and nothing new is needed.
    let known: HashSet<usize> = held.into_iter().chain(first).collect();
    let all = memory.blocks.slabs.blocks().count();
    let mut again = HashSet::new();
    for _ in 0..known.len() {
        // SAFETY: as above.
        assert!(again.insert(unsafe { cache.allocate(0) }.addr()), "a block came back twice");
    }
    // What was sent through the epochs may take a while.
    assert!(looking || memory.blocks.slabs.blocks().count() == all, "a block did not come back");
}

#[test]
fn blocks_that_another_thread_frees_come_back_once() {
    explore("free elsewhere against refill", 3, 15, || free_elsewhere_against_refill(false));
    explore("free elsewhere against refill, both look at tails", 3, 30, || free_elsewhere_against_refill(true));
}

#[test]
fn a_cache_has_one_owner_at_a_time() {
    explore("two threads settle and leave", 3, 200, || {
        let memory = Arc::new(Memory::new().unwrap());
        // A cache without an owner, which both would like to adopt. What is private to its owner is
        // the value.
        let known = std::ptr::from_ref(ThreadContext::new(&memory).cache()).addr();
        let private = Guarded::new();
        let owners: Vec<_> = (0..2)
            .map(|_| {
                let (memory, private) = (memory.clone(), private.clone());
                spawn(move || {
                    let local = ThreadContext::new(&memory);
                    if std::ptr::from_ref(local.cache()).addr() == known {
                        private.step();
                    }
                })
            })
            .collect();
        owners.into_iter().for_each(|owner| owner.join().unwrap());
        assert!(private.get() > 0, "nobody adopted a cache that was free");
        assert!(memory.blocks.caches.iter().count() <= 2, "more caches than owners at a time");
    });
}

/// A thread that has looked at tails ends, and another one takes its cache over, which looks too.
/// Both send a block back to a third one.
#[test]
fn who_takes_a_cache_over_is_counted_while_its_last_owner_leaves() {
    explore("a reader takes over the cache of one that leaves", 2, 20, || {
        let memory = Arc::new(Memory::new().unwrap());
        let [owner, leaver] = [(); 2].map(|()| ThreadContext::new(&memory));
        // SAFETY: nothing was read from a tail, here and below.
        let [one, other] = [(); 2].map(|()| unsafe { owner.allocate(0) }.expose_provenance());
        drop(leaver.pin());
        // SAFETY: the block is as good as spent, here and below.
        unsafe { leaver.retire(std::ptr::with_exposed_provenance_mut(one)) };
        let theirs = memory.clone();
        let newcomer = spawn(move || {
            let local = ThreadContext::new(&theirs);
            let pin = local.pin();
            // SAFETY: as above.
            unsafe { local.retire(std::ptr::with_exposed_provenance_mut(other)) };
            local.flush();
            loom::thread::yield_now();
            assert!(!theirs.blocks.readers.has_none_but(false), "a thread that is pinned is not counted");
            drop(pin);
        });
        drop(leaver);
        newcomer.join().unwrap();
        assert!(memory.blocks.readers.has_none_but(false), "a thread that is gone is counted");
    });
}

/// Frees a taken place, as the deletion of its variable does when no thread looks.
fn give_back(table: &Table, slot: &Slot) {
    slot.generation.fetch_add(1, Relaxed);
    table.retire(slot);
    let retired = table.take_retired().expect("retired just now");
    // SAFETY: taken just now, and no thread looks at variables.
    unsafe { table.release(retired) };
}

#[test]
fn a_place_is_taken_by_one_however_often_it_was_given_back() {
    explore("places taken beside others that come back", 3, 200, || {
        let table = Arc::new(Table::new());
        let places: Vec<Guarded> = (0..3).map(|_| Guarded::new()).collect();
        let known: Vec<&Slot> = places.iter().map(|_| table.take()).collect();
        let take = |table: &Table, places: &[Guarded]| -> Option<u32> {
            let slot = table.pop_free()?;
            let index = slot.index();
            // A race, if another thread has it or its last user is not done with it.
            places[index as usize].step();
            Some(index)
        };
        for slot in &known {
            // SAFETY: all three are taken, and no thread looks at them.
            unsafe { table.open(slot) };
        }
        known.iter().for_each(|slot| give_back(&table, slot));
        let (theirs, seen) = (table.clone(), places.clone());
        let other = spawn(move || take(&theirs, &seen));
        // The first comes back when the second is gone: the list then starts as it did, and goes on
        // differently.
        let first = take(&table, &places);
        let second = take(&table, &places);
        if let Some(slot) = first.and_then(|index| table.get(index)) {
            give_back(&table, slot);
        }
        let mut held: Vec<u32> = second.into_iter().chain(other.join().unwrap()).collect();
        held.extend(std::iter::from_fn(|| take(&table, &places)));
        held.sort_unstable();
        assert_eq!(held, [0, 1, 2], "a place was lost, or taken twice");
    });
}

/// A tail leads to a block until the main thread cuts it off, which then uses the block again if no
/// thread holds it. The other thread looks at the block if it finds it.
fn held_against_reuse(name: &str, look: impl Fn(&Memory, &AtomicPtr<Access>, &Guarded) + Copy + Sync + Send + 'static) {
    explore_light_fences(name, 2, 20, move || {
        let memory = Arc::new(Memory::new().unwrap());
        memory.blocks.caches.add(|number| {
            let mut cache = ThreadCache::new(number);
            *cache.hazards = Hazards::read();
            cache
        });
        let mut spent = memory.blocks.slabs.add(0);
        let block = spent.pop().expect("a slab has blocks");
        let (mut magazine, value) = (Magazine::new(), Guarded::new());
        // SAFETY: the block is ours, and large enough.
        let tail = unsafe {
            Block::renew(block, 1, false);
            Block::access(block, 0).write(Access::new(0, 0, Mode::Write, Ticket::default()));
            Arc::new(AtomicPtr::new(Block::access(block, 0)))
        };
        let (theirs, other_tail, seen) = (memory.clone(), tail.clone(), value.clone());
        let other = spawn(move || look(&theirs, &other_tail, &seen));
        tail.store(std::ptr::null_mut(), Release);
        // SAFETY: the block is ours, and no tail leads to it.
        let [free, held] = unsafe {
            magazine.push(block);
            unheld(magazine, 0, &memory.blocks.looks, memory.blocks.caches.iter().map(|cache| &*cache.hazards))
        };
        assert_eq!(free.len() + held.len(), 1);
        if !free.is_empty() {
            value.set(1);
        }
        other.join().unwrap();
    });
}

#[test]
fn what_a_thread_holds_is_not_reused_beside_the_reclaimer() {
    held_against_reuse("held against reuse", |memory, tail, value| {
        let hazards = &memory.blocks.caches.get(0).expect("added").hazards;
        if !hazards.tail(tail, std::ptr::null_mut()).is_null() {
            value.get();
        }
        hazards.clear();
    });
}

#[test]
fn nothing_is_reused_beside_the_reclaimer_while_a_thread_looks_at_all() {
    held_against_reuse("a look at all against reuse", |memory, tail, value| {
        memory.blocks.looks.begin();
        heavy();
        if !tail.load(Acquire).is_null() {
            value.get();
        }
        memory.blocks.looks.end();
    });
}
