//! Edges whose commands may run, and the pools that hold some of them back. Used by `runner.rs`.

use crate::graph::{EdgeId, Graph, PoolId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An edge by its weight, and then by its place in the manifest.
type Ranked = (u32, Reverse<EdgeId>);

/// The commands of a pool.
#[derive(Default)]
struct Use {
    count: usize,
    held: BinaryHeap<Ranked>,
}

/// Edges that are ready: the one with the longest way behind it comes first.
pub struct Queue {
    ready: BinaryHeap<Ranked>,
    pools: Vec<Use>,
}

impl Queue {
    /// An empty one.
    pub fn new(graph: &Graph) -> Queue {
        Queue { ready: BinaryHeap::new(), pools: graph.pools.iter().map(|_| Use::default()).collect() }
    }

    /// Adds an edge.
    pub fn add(&mut self, graph: &Graph, weights: &[u32], edge: EdgeId) {
        let (pool, rank) = (graph.edges[edge].pool, (weights[edge], Reverse(edge)));
        if graph.pools[pool].depth == 0 {
            self.ready.push(rank);
        } else {
            self.pools[pool].held.push(rank);
        }
    }

    /// Lets edges of a pool through, as many as it has room for.
    fn admit(&mut self, graph: &Graph, pool: PoolId) {
        let this = &mut self.pools[pool];
        while this.count < graph.pools[pool].depth {
            let Some(rank) = this.held.pop() else { return };
            this.count += 1;
            self.ready.push(rank);
        }
    }

    /// The next edge to run.
    pub fn next(&mut self, graph: &Graph) -> Option<EdgeId> {
        (0..self.pools.len()).for_each(|pool| self.admit(graph, pool));
        self.ready.pop().map(|(_, Reverse(edge))| edge)
    }

    /// An edge has ended that had been given out.
    pub fn end(&mut self, graph: &Graph, edge: EdgeId) {
        let pool = graph.edges[edge].pool;
        if graph.pools[pool].depth > 0 {
            self.pools[pool].count -= 1;
        }
    }
}
