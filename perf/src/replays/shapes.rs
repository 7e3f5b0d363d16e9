//! Graphs by the variables that they name: what a replay costs is what it claims.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use seriatim::{Capture, Engine, Error, Graph, RunContext, Variable};

/// The nodes of a chain over arrays. Each reads one array and writes the next.
pub const NODES: usize = 64;

/// What is replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Shape {
    /// One node that writes the first of so many variables and reads the others.
    #[serde(rename = "one node")]
    OneNode,
    /// A node that writes each of so many variables.
    #[serde(rename = "a node for each name")]
    NodeEach,
    /// A chain of [`NODES`] nodes over arrays that others can use too.
    #[serde(rename = "64 nodes over arrays")]
    Arrays,
    /// The same chain, whose arrays, all but the last, are private to the graph.
    #[serde(rename = "64 nodes over private arrays")]
    PrivateArrays,
}

/// What the suite measures: shapes, and how many variables they name.
pub const MEASURED: [(Shape, usize); 12] = [
    (Shape::OneNode, 1),
    (Shape::OneNode, 7),
    (Shape::OneNode, 8),
    (Shape::OneNode, 16),
    (Shape::OneNode, 64),
    (Shape::NodeEach, 1),
    (Shape::NodeEach, 7),
    (Shape::NodeEach, 8),
    (Shape::NodeEach, 16),
    (Shape::NodeEach, 64),
    (Shape::Arrays, NODES + 1),
    (Shape::PrivateArrays, NODES + 1),
];

/// A graph whose last node counts.
pub struct Counted {
    /// The graph.
    pub graph: Graph,
    /// What its last node writes.
    pub last: Variable,
    /// How often that node ran.
    pub ran: Arc<AtomicU64>,
}

impl Counted {
    /// Captures a graph of that shape over so many variables. Chains have always as many.
    ///
    /// # Errors
    /// Those of a capture.
    pub fn capture(engine: &Engine, shape: Shape, names: usize) -> Result<Counted, Error> {
        let ran = Arc::new(AtomicU64::new(0));
        let (graph, last) = engine.capture(|c| record(engine, c, shape, names, &ran))?;
        Ok(Counted { graph, last, ran })
    }
}

fn record(
    engine: &Engine,
    c: &mut Capture,
    shape: Shape,
    names: usize,
    ran: &Arc<AtomicU64>,
) -> Result<Variable, Error> {
    let ran = Arc::clone(ran);
    // One thread at a time runs it, so this needs no locked instruction.
    let count = move |_: &RunContext<'_>| ran.store(ran.load(Relaxed) + 1, Relaxed);
    if matches!(shape, Shape::OneNode | Shape::NodeEach) {
        let variables: Vec<Variable> = (0..names).map(|_| engine.new_variable()).collect();
        let (first, others) = (variables[0], &variables[1..]);
        if shape == Shape::OneNode {
            c.op("all").reads(others.iter().copied()).write(first).push(count)?;
            return Ok(first);
        }
        others.iter().try_for_each(|variable| c.op("one").write(*variable).push(|_| ()))?;
        c.op("one").write(first).push(count)?;
        return Ok(first);
    }
    let is_private = |number: usize| shape == Shape::PrivateArrays && number < NODES;
    let mut make = |number| if is_private(number) { c.private_variable() } else { engine.new_variable() };
    let variables: Vec<Variable> = (0..=NODES).map(&mut make).collect();
    for pair in variables.windows(2).take(NODES - 1) {
        c.op("step").read(pair[0]).write(pair[1]).push(|_| ())?;
    }
    c.op("last").read(variables[NODES - 1]).write(variables[NODES]).push(count)?;
    Ok(variables[NODES])
}

/// What a replay of empty operations took.
#[derive(Serialize, Debug)]
pub struct Claims {
    /// What was replayed.
    pub graph: Shape,
    /// How many variables it names.
    pub names: usize,
    /// Nanoseconds a replay, with its part of the waits.
    pub ns: f64,
}

/// Replays between two waits.
pub const BURST: usize = 64;

/// Replays a graph of that shape so often, in bursts that are waited for.
pub(super) fn measure(engine: &Engine, shape: Shape, names: usize, replays: usize) -> Result<Claims, String> {
    let said = |error: Error| error.to_string();
    let counted = Counted::capture(engine, shape, names).map_err(said)?;
    let bursts = replays.div_ceil(BURST);
    let burst = || {
        (0..BURST).try_for_each(|_| counted.graph.replay())?;
        engine.wait_for_var(counted.last)
    };
    // A tenth as many before, so that blocks and lines are there.
    (0..bursts.div_ceil(10)).try_for_each(|_| burst()).map_err(said)?;
    engine.wait_for_all().map_err(said)?;
    counted.ran.store(0, Relaxed);
    let start = Instant::now();
    (0..bursts).try_for_each(|_| burst()).map_err(said)?;
    let elapsed = start.elapsed();
    engine.wait_for_all().map_err(said)?;
    let (ran, wanted) = (counted.ran.load(Relaxed), (bursts * BURST) as u64);
    if ran != wanted {
        return Err(format!("{wanted} replays ran {ran} times"));
    }
    Ok(Claims { graph: shape, names, ns: elapsed.as_nanos() as f64 / wanted as f64 })
}
