//! Replays for `instructions.rs`: of a graph over 1, 8 and 64 variables, with one node for all, and
//! of 64 nodes over 65 variables, which are private to the graph or not. The naive engine runs
//! them; of the per-device engine the pushes are counted, while its worker is held up.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use seriatim::{Builder, Capture, Engine, Error, Graph, IdlePolicy, Kind, RunContext, Variable};
use seriatim_perf::workloads::COUNTED_REPLAYS;

use super::gate::Gate;

/// The nodes of a chain over arrays. Each reads one array and writes the next.
const NODES: usize = 64;

/// What is replayed.
#[derive(Clone, Copy)]
pub enum Shape {
    /// One node that writes the first of so many variables and reads the others.
    Names(usize),
    /// A chain, over variables that others can use too.
    Arrays,
    /// A chain whose variables, all but the last, are private to the graph.
    PrivateArrays,
}

/// A graph that has been replayed once.
pub struct Replays {
    engine: Engine,
    graph: Graph,
    last: Variable,
    /// How often the last node of the graph ran.
    ran: Arc<AtomicU64>,
    /// Holds the worker up.
    gate: Option<Gate>,
}

impl Replays {
    pub fn new(shape: Shape) -> Replays {
        let replays = Replays::on(Engine::builder().kind(Kind::Naive), shape);
        replays.replay();
        replays.ran.store(0, Relaxed);
        replays
    }

    /// On an engine whose only worker is held up, inside an operation, until [`Replays::check`].
    pub fn shipped(shape: Shape) -> Replays {
        let builder = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).pin(false);
        let mut replays = Replays::on(builder.idle(IdlePolicy::Park), shape);
        // As many as will be counted, so that their blocks are there.
        replays.gate = Some(Gate::close(&replays.engine));
        replays.run();
        replays.check();
        replays.ran.store(0, Relaxed);
        replays.gate = Some(Gate::close(&replays.engine));
        replays
    }

    fn on(builder: Builder, shape: Shape) -> Replays {
        let engine = builder.build().expect("an engine");
        let ran = Arc::new(AtomicU64::new(0));
        let (graph, last) = engine.capture(|c| record(&engine, c, shape, &ran)).expect("valid variables");
        Replays { engine, graph, last, ran, gate: None }
    }

    #[inline]
    pub fn run(&self) {
        (0..COUNTED_REPLAYS).for_each(|_| self.replay());
    }

    #[inline]
    fn replay(&self) {
        self.graph.replay().expect("the engine runs");
    }

    pub fn check(&mut self) {
        self.gate.take().into_iter().for_each(Gate::open);
        self.engine.wait_for_var(self.last).expect("nothing fails");
        assert_eq!(self.ran.load(Relaxed), COUNTED_REPLAYS as u64);
    }
}

fn record(engine: &Engine, c: &mut Capture, shape: Shape, ran: &Arc<AtomicU64>) -> Result<Variable, Error> {
    let ran = Arc::clone(ran);
    // One thread at a time runs it, so this needs no locked instruction.
    let count = move |_: &RunContext<'_>| ran.store(ran.load(Relaxed) + 1, Relaxed);
    if let Shape::Names(names) = shape {
        let variables: Vec<Variable> = (0..names).map(|_| engine.new_variable()).collect();
        c.op("all").reads(variables[1..].iter().copied()).write(variables[0]).push(count)?;
        return Ok(variables[0]);
    }
    let is_private = |number: usize| matches!(shape, Shape::PrivateArrays) && number < NODES;
    let mut make = |number| if is_private(number) { c.private_variable() } else { engine.new_variable() };
    let variables: Vec<Variable> = (0..=NODES).map(&mut make).collect();
    for pair in variables.windows(2).take(NODES - 1) {
        c.op("step").read(pair[0]).write(pair[1]).push(|_| ())?;
    }
    c.op("last").read(variables[NODES - 1]).write(variables[NODES]).push(count)?;
    Ok(variables[NODES])
}
