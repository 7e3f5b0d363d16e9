//! Handing over: each operation that a thread leaves is run once, and is seen as it was left.

#![cfg(loom)]

use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom_tests::{explore, spawn, Blocks, Guarded};
use seriatim::internals::handoff::{Handoff, List};
use std::sync::Arc;

/// A place to hand over, the threads that say that they will look, and operations that are written
/// before they are left.
struct Model {
    handoff: Handoff,
    will_look: [AtomicBool; 2],
    blocks: Blocks,
    values: Vec<Guarded>,
}

impl Model {
    fn new(count: usize) -> Arc<Model> {
        let values = (0..count).map(|_| Guarded::new()).collect();
        let will_look = [AtomicBool::new(false), AtomicBool::new(false)];
        Arc::new(Model { handoff: Handoff::new(), will_look, blocks: Blocks::new(count), values })
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

    /// Leaves a list of some operations, from `number` on, or runs it if no thread takes it over.
    fn leave(&self, number: usize, count: usize) -> usize {
        (number..number + count).for_each(|number| self.values[number].set(1));
        let (first, last) = (self.blocks.pointer(number), self.blocks.pointer(number + count - 1));
        let list = List { first, last };
        // SAFETY: each is left by one thread, once.
        unsafe {
            if count > 1 {
                (*first).link = last;
            }
            self.run(self.hand_over(list))
        }
    }

    unsafe fn hand_over(&self, list: List) -> Option<List> {
        let will_somebody_look = || self.will_look.iter().any(|will_look| will_look.load(Relaxed));
        // SAFETY: passed on.
        unsafe { self.handoff.leave(list, will_somebody_look) }
    }

    /// What a push does: it runs what was left meanwhile.
    fn push(&self, own: usize) -> usize {
        self.will_look[own].store(true, Relaxed);
        self.will_look[own].store(false, Relaxed);
        self.run(self.handoff.look())
    }

    /// As `push`, by a thread that has run its share at once, and leaves what it was left to
    /// another one.
    fn pass_on(&self, own: usize) -> usize {
        self.will_look[own].store(true, Relaxed);
        self.will_look[own].store(false, Relaxed);
        // SAFETY: it was left to us.
        self.run(self.handoff.look().and_then(|list| unsafe { self.hand_over(list) }))
    }
}

#[test]
fn what_is_left_to_a_thread_that_will_look_is_run_by_one_of_the_two() {
    explore("hand-over, one leaver and one taker", 5, 50, || {
        let model = Model::new(2);
        let theirs = model.clone();
        let taker = spawn(move || theirs.push(0));
        let own = model.leave(0, 2);
        assert_eq!(own + taker.join().unwrap(), 2, "lost");
    });
}

#[test]
fn two_leavers_and_a_taker_lose_nothing() {
    explore("hand-over, two leavers and one taker", 3, 100, || {
        let model = Model::new(3);
        let (one, two) = (model.clone(), model.clone());
        let taker = spawn(move || one.push(0));
        let other = spawn(move || two.leave(2, 1));
        let own = model.leave(0, 2);
        assert_eq!(own + other.join().unwrap() + taker.join().unwrap(), 3, "lost");
    });
}

#[test]
fn a_leaver_and_two_takers_that_pass_on_lose_nothing() {
    explore("hand-over, one leaver and two that pass on", 3, 100, || {
        let model = Model::new(1);
        let (one, two) = (model.clone(), model.clone());
        let takers = [spawn(move || one.pass_on(0)), spawn(move || two.pass_on(1))];
        let own = model.leave(0, 1);
        assert_eq!(own + takers.into_iter().map(|taker| taker.join().unwrap()).sum::<usize>(), 1, "lost");
    });
}
