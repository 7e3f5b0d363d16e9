//! What is published: its owner takes one at a time, others take all and may put back the end of
//! it. Each operation is run once, and is as it was left.

#![cfg(loom)]

use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom_tests::{explore, spawn, Blocks, Guarded};
use seriatim::internals::block::Block;
use seriatim::internals::local_queue::Queue;
use seriatim::internals::stealable::Stealable;
use std::sync::Arc;

struct Model {
    stealable: Stealable,
    blocks: Blocks,
    values: Vec<Guarded>,
    ran: AtomicUsize,
}

impl Model {
    fn new(count: usize) -> Arc<Model> {
        let values = (0..count).map(|_| Guarded::new()).collect();
        Arc::new(Model { stealable: Stealable::new(), blocks: Blocks::new(count), values, ran: AtomicUsize::new(0) })
    }

    /// What stands for the contents of an operation, its link among them.
    fn value(&self, block: *mut Block) -> &Guarded {
        &self.values[self.blocks.iter().position(|known| *known == block.addr()).expect("one of ours")]
    }

    fn run(&self, block: *mut Block) {
        assert_eq!(self.value(block).get(), 1, "run twice, or not as it was left");
        self.value(block).set(2);
        self.ran.fetch_add(1, Relaxed);
    }

    /// Puts operations into a queue, the first one before the others are published.
    fn push(&self, queue: &mut Queue, number: usize) {
        let block = self.blocks.pointer(number);
        self.values[number].set(1);
        // SAFETY: each is pushed once.
        unsafe {
            (*block).sequence = number as u64;
            queue.push(block);
        }
    }

    /// The owner: publishes the operations from `first` on, runs all that others leave, and one
    /// that comes later.
    fn own(&self, count: usize) {
        let mut queue = Queue::default();
        (1..count).for_each(|number| self.push(&mut queue, number));
        queue.publish(&self.stealable);
        if let Some(block) = queue.pop(&self.stealable) {
            self.run(block);
        }
        self.push(&mut queue, 0);
        if queue.is_hiding(&self.stealable) {
            queue.publish(&self.stealable);
        }
        while let Some(block) = queue.pop(&self.stealable) {
            self.run(block);
        }
        // As a worker that has nothing to do, or a helper that leaves.
        self.run_all(queue.take_all(&self.stealable).map_or(std::ptr::null_mut(), |row| row.first));
    }

    /// A thief.
    fn steal(&self) {
        self.run_all(self.stealable.take_half().0);
    }

    fn run_all(&self, mut list: *mut Block) {
        while !list.is_null() {
            // SAFETY: the list is ours.
            let next = unsafe { (*list).link };
            self.run(list);
            list = next;
        }
    }

    /// A pusher: runs the first, and puts back the others if it can, which it has seen.
    fn run_one(&self) {
        let first = self.stealable.take();
        if first.is_null() {
            return;
        }
        // SAFETY: the list is ours.
        let rest = unsafe { (*first).link };
        let mut seen = rest;
        while !seen.is_null() {
            assert_eq!(self.value(seen).get(), 1, "not as it was left");
            // SAFETY: as above.
            seen = unsafe { (*seen).link };
        }
        self.run(first);
        if !rest.is_null() && !self.stealable.put_back(rest) {
            self.run_all(rest);
        }
    }
}

fn all_run_once(name: &str, bound: usize, floor: usize, count: usize, others: &'static [fn(&Model)]) {
    explore(name, bound, floor, move || {
        let model = Model::new(count);
        let threads: Vec<_> = others
            .iter()
            .map(|other| {
                let model = Arc::clone(&model);
                spawn(move || other(&model))
            })
            .collect();
        model.own(count);
        for thread in threads {
            thread.join().unwrap();
        }
        // What was put back after the owner's last look: for other thieves.
        model.run_all(model.stealable.take());
        assert_eq!(model.ran.load(Relaxed), count, "an operation was lost");
    });
}

#[test]
fn an_owner_and_a_thief() {
    all_run_once("an owner and a thief", 3, 20, 4, &[|model| model.steal()]);
}

#[test]
fn an_owner_and_a_pusher_that_puts_back() {
    all_run_once("an owner and a pusher that puts back", 3, 20, 4, &[|model| model.run_one()]);
}

#[test]
fn a_thief_takes_what_a_pusher_has_put_back() {
    all_run_once("a thief behind a pusher", 2, 200, 4, &[|model| model.run_one(), |model| model.steal()]);
}

#[test]
fn two_pushers_put_back_what_they_have_of_two_lists() {
    all_run_once("two pushers put back", 2, 200, 5, &[|model| model.run_one(), |model| model.run_one()]);
}
