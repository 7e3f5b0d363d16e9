//! A model: the steps of its threads, and how it is explored.

use crate::mixed::{Step, Thread, Uses, World};
#[cfg(loom)]
use crate::spawn;
#[cfg(shuttle)]
use shuttle::thread::spawn;
use std::sync::Arc;

/// Each row of steps is a thread's; the first is the main thread's.
pub struct Model {
    pub slots: usize,
    pub uses: &'static [Uses],
    /// Done one after the other, before the threads begin.
    pub first: &'static [(usize, Step)],
    pub threads: &'static [&'static [Step]],
    /// Whether threads pin: then blocks with links and slots are used again.
    pub pins: bool,
}

impl Model {
    /// Runs it once.
    pub fn run(&'static self) -> Arc<World> {
        let world = World::new(self.slots, self.threads.len(), self.pins, self.uses.to_vec());
        let threads: Vec<Thread> = (0..self.threads.len()).map(|number| world.thread(number)).collect();
        self.first.iter().for_each(|(thread, step)| threads[*thread].go(&[*step]));
        let mut threads = threads.into_iter();
        let mine = threads.next().unwrap();
        let others: Vec<_> = threads.map(|thread| spawn(move || thread.go(self.threads[thread.number]))).collect();
        mine.go(self.threads[0]);
        others.into_iter().for_each(|other| other.join().unwrap());
        world.check();
        world
    }

    #[cfg(loom)]
    pub fn explore(&'static self, name: &str, preemptions: usize, floor: usize) {
        crate::explore(&format!("mixed, {name}"), preemptions, floor, || drop(self.run()));
    }

    /// From one end only.
    #[cfg(loom)]
    pub fn explore_once(&'static self, name: &str, preemptions: usize, floor: usize) {
        crate::explore_once(&format!("mixed, {name}"), preemptions, floor, || drop(self.run()));
    }
}
