//! What several tests use: engines of each kind, and random numbers that a seed repeats.

#![allow(dead_code, reason = "each test uses a part")]

pub mod cases;

use rand_core::RngCore;
use seriatim::{Engine, Kind};
use seriatim_tensor::resource::Philox;
use seriatim_tensor::Runtime;

/// A runtime on an engine of a kind with so many workers.
pub fn runtime(kind: Kind, workers: usize) -> Runtime {
    let builder = Engine::builder().kind(kind).pin(false);
    let builder = if kind == Kind::Naive { builder } else { builder.cpu_workers(workers) };
    Runtime::new(&builder.build().expect("an engine is made"))
}

/// Engines of all kinds, with 0 (the naive engine), 1, 2, 3 and 16 workers.
pub fn runtimes() -> Vec<(String, Runtime)> {
    let all = [(Kind::Naive, 0)].into_iter().chain(
        [1, 2, 3, 16].into_iter().flat_map(|workers| [Kind::Pooled, Kind::PerDevice].map(|kind| (kind, workers))),
    );
    all.map(|(kind, workers)| (format!("{kind} {workers}"), runtime(kind, workers))).collect()
}

/// Random numbers for tests.
pub struct Draws(Philox);

impl Draws {
    pub fn new(seed: u64) -> Draws {
        Draws(Philox::new(seed, 77))
    }

    pub fn below(&mut self, end: usize) -> usize {
        ((u64::from(self.0.next_u32()) * end as u64) >> 32) as usize
    }

    /// From `low` on and below `high`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + f64::from(self.0.next_u32()) / 4_294_967_296.0 * (high - low)
    }

    pub fn values(&mut self, count: usize, low: f64, high: f64) -> Vec<f64> {
        (0..count).map(|_| self.between(low, high)).collect()
    }

    /// A shape of at most three axes.
    pub fn shape(&mut self) -> Vec<usize> {
        let rank = self.below(4);
        (0..rank).map(|_| 1 + self.below(4)).collect()
    }
}
