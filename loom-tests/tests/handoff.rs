//! Handing over: whatever a thread leaves is run by somebody, once, and is seen as it was left.

#![cfg(loom)]

use loom_tests::{explore, spawn, Blocks, Guarded};
use seriatim::internals::handoff::{Handoff, List};
use std::sync::Arc;

/// A place to hand over, and operations that are written before they are left.
struct Model {
    handoff: Handoff,
    blocks: Blocks,
    values: Vec<Guarded>,
}

impl Model {
    fn new(count: usize) -> Arc<Model> {
        let values = (0..count).map(|_| Guarded::new()).collect();
        Arc::new(Model { handoff: Handoff::new(), blocks: Blocks::new(count), values })
    }

    /// Runs a list; says how many operations that were.
    fn run(&self, list: Option<List>) -> usize {
        let Some(List { mut first, last }) = list else { return 0 };
        let mut count = 1;
        loop {
            let number = self.blocks.iter().position(|block| *block == first.addr()).expect("one of ours");
            assert_eq!(self.values[number].get(), 1, "run twice, or not as it was left");
            self.values[number].set(2);
            // SAFETY: the list was handed over, so it is ours.
            let next = unsafe { (*first).link };
            if first == last {
                assert!(next.is_null(), "a list goes on behind its last operation");
                return count;
            }
            (first, count) = (next, count + 1);
        }
    }

    /// Leaves a list of some operations, from `number` on, or runs what nobody takes over.
    fn leave(&self, number: usize, count: usize) -> usize {
        (number..number + count).for_each(|number| self.values[number].set(1));
        let (first, last) = (self.blocks.pointer(number), self.blocks.pointer(number + count - 1));
        // SAFETY: each is left by one thread, once.
        let back = unsafe {
            if count > 1 {
                (*first).link = last;
            }
            self.handoff.leave(List { first, last })
        };
        self.run(back)
    }

    /// Stands ready, for one look; runs what it is left.
    fn stand_ready(&self) -> usize {
        let mut looks = 0;
        let taken = self.handoff.stand_ready(|| {
            looks += 1;
            looks < 2
        });
        taken.into_iter().map(|list| self.run(list)).sum()
    }
}

#[test]
fn what_is_left_to_a_thread_that_stands_ready_is_run_by_one_of_the_two() {
    explore("hand-over, one leaver and one taker", 3, 50, || {
        let model = Model::new(2);
        let theirs = model.clone();
        let taker = spawn(move || theirs.stand_ready());
        let own = model.leave(0, 2);
        assert_eq!(own + taker.join().unwrap(), 2, "lost");
    });
}

#[test]
fn two_leavers_and_a_taker_lose_nothing() {
    explore("hand-over, two leavers and one taker", 3, 500, || {
        let model = Model::new(2);
        let (one, two) = (model.clone(), model.clone());
        let taker = spawn(move || one.stand_ready());
        let other = spawn(move || two.leave(1, 1));
        let own = model.leave(0, 1);
        assert_eq!(own + other.join().unwrap() + taker.join().unwrap(), 2, "lost");
    });
}

#[test]
fn a_leaver_and_two_takers_lose_nothing() {
    explore("hand-over, one leaver and two takers", 3, 500, || {
        let model = Model::new(1);
        let (one, two) = (model.clone(), model.clone());
        let takers = [spawn(move || one.stand_ready()), spawn(move || two.stand_ready())];
        let own = model.leave(0, 1);
        assert_eq!(own + takers.into_iter().map(|taker| taker.join().unwrap()).sum::<usize>(), 1, "lost");
    });
}
