//! The storage of the arrays: a record or a block is one thread's at a time, with all that earlier
//! owners have done to it; none is lost; and the last owner of an array's head has it alone.

#![cfg(loom)]

use loom_tests::storage::copies::Copies;
use loom_tests::storage::owners::Owners;
use loom_tests::storage::slots::{List, Slots};
use loom_tests::storage::{Handle, Storage, Tag};
use loom_tests::{explore, spawn, Guarded};
use seriatim::Context;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What lies in a record, where only the records matter. Loom sees that it is made before its use.
struct Value(Guarded);

impl Default for Value {
    fn default() -> Value {
        Value(Guarded::new())
    }
}

/// Takes a record, and uses it: a race if its last owner has not done with it.
fn taken(slots: &Slots<Value>) -> u32 {
    let number = slots.take().unwrap();
    slots.get(number).0.step();
    number
}

fn give(slots: &Slots<Value>, number: u32) {
    slots.get(number).0.step();
    slots.give(number);
}

/// The records that can be taken until new ones are made.
fn left(slots: &Slots<Value>, made: usize) -> BTreeSet<u32> {
    (0..made).map(|_| slots.take().unwrap()).collect()
}

#[test]
fn a_record_is_one_thread_s_at_a_time() {
    explore("records, three threads take and give", 2, 1000, || {
        let slots = Arc::new(Slots::<Value>::new());
        let threads = [(); 2].map(|()| {
            let slots = Arc::clone(&slots);
            spawn(move || {
                let number = taken(&slots);
                give(&slots, number);
            })
        });
        let own = taken(&slots);
        give(&slots, own);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(left(&slots, 3).len(), 3, "a record was taken twice");
    });
}

/// A thread that pops reads the next record of one that others take, and put back, meanwhile.
#[test]
fn a_record_that_has_come_back_meanwhile_is_no_other_s() {
    explore("records, one comes back while another thread pops", 4, 300, || {
        let slots = Arc::new(Slots::<Value>::new());
        let all = [taken(&slots), taken(&slots), taken(&slots)];
        all.iter().for_each(|number| give(&slots, *number));
        let popper = {
            let slots = Arc::clone(&slots);
            spawn(move || taken(&slots))
        };
        let (first, second) = (taken(&slots), taken(&slots));
        give(&slots, first);
        let third = taken(&slots);
        let theirs = popper.join().unwrap();
        assert!(theirs != second && theirs != third && second != third, "a record was taken twice");
        give(&slots, second);
        give(&slots, third);
        give(&slots, theirs);
        assert_eq!(left(&slots, 3), BTreeSet::from(all), "a record was lost");
    });
}

/// Two lists, as those of free records and of blocks: a record goes from one to the other.
#[test]
fn records_that_change_their_list_are_not_lost() {
    explore("records, two lists", 3, 500, || {
        let (slots, list) = (Arc::new(Slots::<Value>::new()), Arc::new(List::default()));
        let numbers = [taken(&slots), taken(&slots)];
        numbers.iter().for_each(|number| list.push(&slots, *number));
        let threads = [(); 2].map(|()| {
            let (slots, list) = (Arc::clone(&slots), Arc::clone(&list));
            spawn(move || {
                if let Some(number) = list.pop(&slots) {
                    give(&slots, number);
                    let number = taken(&slots);
                    list.push(&slots, number);
                }
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let found: BTreeSet<u32> = std::iter::from_fn(|| list.pop(&slots)).collect();
        assert_eq!(found, BTreeSet::from(numbers), "a record was lost, or came twice");
    });
}

/// Of a segment that two threads make at once one stays, and both see it made.
#[test]
fn threads_that_need_new_records_have_different_ones() {
    explore("records, new ones", 3, 100, || {
        let slots = Arc::new(Slots::<Value>::new());
        let threads = [(); 2].map(|()| {
            let slots = Arc::clone(&slots);
            spawn(move || taken(&slots))
        });
        let own = taken(&slots);
        let [one, other] = threads.map(|thread| thread.join().unwrap());
        assert!(own != one && own != other && one != other, "a record was taken twice");
    });
}

const BLOCK: usize = 64;

fn cpu() -> Context {
    Context::cpu(0)
}

/// A storage that has kept some blocks, and what stands for the bytes of each.
struct Kept {
    storage: Storage,
    bytes: BTreeMap<usize, Guarded>,
}

impl Kept {
    fn new(storage: Storage, blocks: usize) -> Arc<Kept> {
        let held: Vec<Handle> = (0..blocks).map(|_| storage.alloc(BLOCK, cpu()).unwrap()).collect();
        let bytes = held.iter().map(|block| (block.bytes().as_ptr().addr(), Guarded::new())).collect();
        drop(held);
        Arc::new(Kept { storage, bytes })
    }

    /// Takes a block and writes to it.
    fn taken(&self) -> Handle {
        let block = self.storage.alloc(BLOCK, cpu()).unwrap();
        self.used(&block);
        block
    }

    /// Writes to a block, which is a race if another thread has it, or has not done with it.
    fn used(&self, block: &Handle) {
        if let Some(bytes) = self.bytes.get(&block.bytes().as_ptr().addr()) {
            bytes.step();
        }
    }
}

#[test]
fn a_block_is_one_owner_s_at_a_time() {
    explore("storage, two threads take and give blocks", 2, 500, || {
        let kept = Kept::new(Storage::builder().build(), 1);
        let thread = {
            let kept = Arc::clone(&kept);
            spawn(move || {
                let block = kept.taken();
                kept.used(&block);
            })
        };
        let block = kept.taken();
        kept.used(&block);
        drop(block);
        thread.join().unwrap();
        let now = kept.storage.statistics(cpu()).unwrap();
        assert_eq!(now.live, 0, "a block was lost");
        assert_eq!(now.pooled, now.system_calls * BLOCK, "a block was lost, or came twice");
        let all: Vec<Handle> = (0..now.system_calls).map(|_| kept.storage.alloc(BLOCK, cpu()).unwrap()).collect();
        let places: BTreeSet<usize> = all.iter().map(|block| block.bytes().as_ptr().addr()).collect();
        assert_eq!(places.len(), all.len(), "a block came twice");
        assert_eq!(kept.storage.statistics(cpu()).unwrap().system_calls, all.len(), "a block was lost");
    });
}

/// One thread gives all kept blocks back to the system while others take and give.
#[test]
fn a_storage_is_emptied_while_it_is_used() {
    explore("storage, emptied beside a thread that uses it", 2, 500, || {
        let kept = Kept::new(Storage::builder().build(), 2);
        let thread = {
            let kept = Arc::clone(&kept);
            spawn(move || drop(kept.taken()))
        };
        kept.storage.release_all(cpu()).unwrap();
        thread.join().unwrap();
        kept.storage.release_all(cpu()).unwrap();
        let now = kept.storage.statistics(cpu()).unwrap();
        assert_eq!((now.live, now.pooled), (0, 0), "a block was lost, or came twice");
    });
}

/// At the limit both threads need what is kept. Neither is refused because the other one is just
/// giving it back to the system.
#[test]
fn what_another_thread_gives_to_the_system_counts_as_free() {
    explore("storage, two threads at its limit", 2, 500, || {
        let storage = Storage::builder().limit(4 * BLOCK).build();
        drop(storage.alloc(4 * BLOCK, cpu()).unwrap());
        let thread = {
            let storage = storage.clone();
            spawn(move || storage.alloc(2 * BLOCK, cpu()).map(drop))
        };
        let own = storage.alloc(2 * BLOCK, cpu()).map(drop);
        assert!(own.is_ok() && thread.join().unwrap().is_ok(), "refused, and half of the limit is free");
    });
}

/// A block comes back at the limit while two requests ask for other sizes: one gets its room before
/// that, and the other, which needs the block's room, perhaps after it. What is kept then has room
/// beside what is live.
#[test]
fn what_comes_back_at_the_limit_is_not_kept_beyond_it() {
    explore("storage, a block comes back at the limit", 3, 500, || {
        let storage = Storage::builder().limit(5 * BLOCK).build();
        let back = storage.alloc(2 * BLOCK, cpu()).unwrap();
        let giver = spawn(move || drop(back));
        let asker = {
            let storage = storage.clone();
            spawn(move || storage.alloc(BLOCK, cpu()).ok())
        };
        let own = storage.alloc(3 * BLOCK, cpu()).ok();
        giver.join().unwrap();
        let other = asker.join().unwrap();
        let now = storage.statistics(cpu()).unwrap();
        let live = own.iter().chain(&other).map(Handle::capacity).sum::<usize>();
        assert_eq!(now.live, live, "a request that is refused is not live");
        assert!(now.live + now.pooled <= 5 * BLOCK, "more is held than the limit: {now:?}");
    });
}

/// The same where one of the two takes a block that was kept before.
#[test]
fn who_takes_a_kept_block_looks_what_is_held() {
    explore("storage, a kept block is taken at the limit", 3, 500, || {
        let storage = Storage::builder().limit(4 * BLOCK).build();
        let back = storage.alloc(2 * BLOCK, cpu()).unwrap();
        drop(storage.alloc(BLOCK, cpu()).unwrap());
        let giver = spawn(move || drop(back));
        let asker = {
            let storage = storage.clone();
            spawn(move || storage.alloc(BLOCK, cpu()).ok())
        };
        let own = storage.alloc(2 * BLOCK, cpu()).ok();
        giver.join().unwrap();
        let other = asker.join().unwrap();
        let now = storage.statistics(cpu()).unwrap();
        assert_eq!(now.live, own.iter().chain(&other).map(Handle::capacity).sum::<usize>());
        assert!(now.live + now.pooled <= 4 * BLOCK, "more is held than the limit: {now:?}");
    });
}

/// A list is dropped by one thread, and its block has another list's values afterwards.
#[test]
fn a_list_is_dropped_before_its_block_has_another() {
    explore("storage, lists in blocks", 2, 100, || {
        let storage = Storage::builder().build();
        let list = |value: usize| {
            let mut list = Copies::new();
            list.push(&storage, value).unwrap();
            list
        };
        let (first, second) = (list(5), list(6));
        let thread = spawn(move || {
            assert_eq!(first.as_slice(), [5]);
            drop(first);
        });
        let own = list(7);
        assert_eq!((second.as_slice(), own.as_slice()), (&[6][..], &[7][..]), "another value is there");
        drop((second, own));
        thread.join().unwrap();
        assert_eq!(storage.statistics(cpu()).unwrap().live, 0);
    });
}

/// An array's head and what stands for its memory, which its owners read.
#[derive(Default)]
struct Head {
    owners: Owners,
    memory: Value,
}

/// One owner reads, and goes; the last one frees, as `ndarray/array.rs` does.
fn leave(heads: &Slots<Head>, number: u32, freed: &Guarded) {
    let head = heads.get(number);
    head.memory.0.get();
    if head.owners.leave() {
        head.memory.0.set(0);
        freed.step();
        heads.give(number);
    }
}

#[test]
fn the_last_owner_of_an_array_has_it_alone() {
    explore("heads of arrays, two owners go and a new one comes", 3, 100, || {
        let (heads, freed) = (Arc::new(Slots::<Head>::new()), Guarded::new());
        let number = heads.take().unwrap();
        heads.get(number).owners.begin();
        heads.get(number).memory.0.set(7);
        let threads = [(); 2].map(|()| {
            heads.get(number).owners.share();
            let (heads, freed) = (Arc::clone(&heads), freed.clone());
            spawn(move || leave(&heads, number, &freed))
        });
        leave(&heads, number, &freed);
        // May have the record again.
        let next = heads.take().unwrap();
        heads.get(next).owners.begin();
        heads.get(next).memory.0.set(8);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!((freed.get(), heads.get(next).memory.0.get()), (1, 8), "freed once, and not by another's owner");
    });
}
