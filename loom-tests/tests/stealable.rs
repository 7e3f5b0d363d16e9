//! What is lent: its owner takes it back, others take all and put back some. Each operation is run
//! once, and is as it was left.

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

    /// Puts an operation into a queue.
    fn push(&self, queue: &mut Queue, number: usize) {
        let block = self.blocks.pointer(number);
        self.values[number].set(1);
        // SAFETY: each is pushed once.
        unsafe {
            (*block).sequence = number as u64;
            queue.push(block);
        }
    }

    /// The owner: runs what it has, and one that comes later, and lends the others each time.
    fn own(&self, count: usize) {
        let mut queue = Queue::default();
        (1..count).for_each(|number| self.push(&mut queue, number));
        queue.lend(&self.stealable);
        self.push(&mut queue, 0);
        loop {
            queue.take_back(&self.stealable);
            let Some(block) = queue.pop() else { break };
            if !queue.is_empty() {
                queue.lend(&self.stealable);
            }
            self.run(block);
        }
        // As a helper that leaves.
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

    /// A pusher: runs the first, and puts back the others.
    fn run_one(&self) {
        let Some(mut ready) = self.stealable.take() else { return };
        let first = ready.take_list(1, |block| self.value(block).get() == 1);
        let _ = self.stealable.put(ready);
        self.run_all(first);
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
        if let Some(mut left) = model.stealable.take() {
            while !left.is_empty() {
                model.run_all(left.take_list(count, |_| true));
            }
        }
        assert_eq!(model.ran.load(Relaxed), count, "an operation was lost");
    });
}

#[test]
fn an_owner_and_a_thief() {
    all_run_once("an owner and a thief", 3, 20, 4, &[|model| model.steal()]);
}

#[test]
fn an_owner_and_a_pusher() {
    all_run_once("an owner and a pusher", 3, 20, 4, &[|model| model.run_one()]);
}

#[test]
fn a_thief_takes_what_a_pusher_has_put_back() {
    all_run_once("a thief behind a pusher", 2, 200, 4, &[|model| model.run_one(), |model| model.steal()]);
}

/// Each may have what the owner had lent at another time.
#[test]
fn two_pushers_put_back_what_they_have_left() {
    all_run_once("two pushers put back", 2, 200, 5, &[|model| model.run_one(), |model| model.run_one()]);
}
