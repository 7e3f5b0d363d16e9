//! What several tests use: engines of each kind, and random numbers that a seed repeats.

#![allow(dead_code, reason = "each test uses a part")]

pub mod cases;

use rand_core::RngCore;
use seriatim::{Engine, Graph, Kind};
use seriatim_tensor::resource::Philox;
use seriatim_tensor::Runtime;
use std::collections::BTreeSet;

/// A runtime on an engine of a kind with so many workers.
pub fn runtime(kind: Kind, workers: usize) -> Runtime {
    let builder = Engine::builder().kind(kind).pin(false);
    let builder = if kind == Kind::Naive { builder } else { builder.cpu_workers(workers) };
    Runtime::new(&builder.build().expect("an engine is made"))
}

#[cfg(not(miri))]
const WORKERS: [usize; 4] = [1, 2, 3, 16];
#[cfg(miri)]
const WORKERS: [usize; 1] = [2];

/// Engines of all kinds, with 0 (the naive engine), 1, 2, 3 and 16 workers; under Miri with 0 and
/// 2.
pub fn runtimes() -> Vec<(String, Runtime)> {
    let all = [(Kind::Naive, 0)]
        .into_iter()
        .chain(WORKERS.into_iter().flat_map(|workers| [Kind::Pooled, Kind::PerDevice].map(|kind| (kind, workers))));
    all.map(|(kind, workers)| (format!("{kind} {workers}"), runtime(kind, workers))).collect()
}

/// χ² of counts against the numbers that are expected.
pub fn chi_squared(counts: &[usize], expected: &[f64]) -> f64 {
    counts.iter().zip(expected).map(|(count, expected)| (*count as f64 - expected).powi(2) / expected).sum()
}

/// The names of the nodes of a graph, and its edges, as its picture has them.
pub fn nodes(graph: &Graph) -> (Vec<String>, BTreeSet<(usize, usize)>) {
    let (mut names, mut edges) = (vec![String::new(); graph.len()], BTreeSet::new());
    let number = |text: &str| text.trim().trim_start_matches('n').parse::<usize>();
    for line in graph.dump_dot().lines().map(|line| line.trim().trim_end_matches(';')) {
        if let Some((node, label)) = line.split_once(" [label=\"") {
            if let Ok(node) = number(node) {
                names[node] = label.trim_end_matches("\"]").to_owned();
            }
        } else if let Some((from, to)) = line.split_once(" -> ") {
            edges.insert((number(from).expect("a node"), number(to).expect("a node")));
        }
    }
    (names, edges)
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
