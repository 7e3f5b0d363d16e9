//! Graphs and pipelines in the oracle's programs: captured before the threads start, replayed by
//! the thread that they belong to.

use crate::common::eventually;
use crate::plan::{Node, Plan};
use crate::run::{changes, is_planted, note_outcome, run_async, run_sync};
use crate::world::{Captured, World};
use seriatim::{Capture, Context, Error, ErrorKind, Graph, Operator, Pipeline, RunContext};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, OnceLock};

/// A graph in the hands of its thread.
pub struct Held {
    pub index: usize,
    graph: Whole,
    /// Replays that were accepted.
    accepted: usize,
}

/// What was captured, replayed as a whole or operation by operation.
enum Whole {
    Graph(Graph),
    Pipeline(Pipeline),
}

/// What a captured closure owns: it tells when it is dropped.
struct Part {
    world: Arc<World>,
    graph: usize,
    member: usize,
}

impl Part {
    fn node(&self, run: &RunContext<'_>) -> usize {
        node_of_call(&self.world, self.graph, self.member, run)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.world.graphs[self.graph].closures.fetch_sub(1, SeqCst);
    }
}

/// The node that a call of a graph's operation stands for. What is wrong with the parameters ends
/// here.
pub fn node_of_call(world: &World, graph: usize, member: usize, run: &RunContext<'_>) -> usize {
    let captured = &world.graphs[graph];
    let (number, value) = captured.parameters.get().expect("set before the first replay");
    let calls = captured.calls[member].fetch_add(1, Relaxed);
    let number = if world.plan.program.graphs[graph].counts {
        captured.accepted[calls].load(Relaxed)
    } else {
        *number.get(run).expect("inside its graph")
    };
    let (replay, found) = (&world.plan.graphs[graph].replays[number], *value.get(run).expect("inside its graph"));
    if found != replay.value {
        world.violation(format!("replay {number} of graph {graph} found the value {found}, not {}", replay.value));
    }
    replay.nodes[member]
}

/// What the world keeps for graphs.
pub fn none_captured(plan: &Plan) -> Vec<Captured> {
    let zeroes = |count| (0..count).map(|_| AtomicUsize::new(0)).collect();
    let graphs = plan.graphs.iter().map(|graph| Captured {
        parameters: OnceLock::new(),
        accepted: zeroes(graph.replays.len() + 1),
        calls: zeroes(graph.members.len()),
        closures: AtomicUsize::new(graph.members.iter().filter(|member| member.operator.is_none()).count()),
    });
    graphs.collect()
}

pub fn capture_all(world: &Arc<World>, operators: &[Operator]) -> Vec<Held> {
    (0..world.plan.graphs.len()).map(|index| capture(world, operators, index)).collect()
}

fn capture(world: &Arc<World>, operators: &[Operator], index: usize) -> Held {
    let members = &world.plan.graphs[index].members;
    let record = |c: &mut Capture| {
        c.name("a graph");
        if let Some(operations) = world.plan.program.graphs[index].spreads_after {
            seriatim::testing::spreads_after(c, operations);
        }
        for (number, member) in members.iter().enumerate() {
            if let Some((operator, number)) = member.operator {
                c.push(&operators[operator], Context::cpu(number as u32 + 1), member.priority)?;
                continue;
            }
            let tokens = |variables: &[usize]| variables.iter().map(|v| world.tokens[*v]).collect::<Vec<_>>();
            let part = Part { world: Arc::clone(world), graph: index, member: number };
            let builder = c.op("captured").priority(member.priority).property(member.template.property);
            let (commuting, written) = changes(world, &member.template);
            let builder =
                builder.context(Context::cpu(member.context)).writes(tokens(&written)).commutes(tokens(&commuting));
            let builder =
                builder.reads(tokens(wrong_reads(&world.plan, member, members).unwrap_or(&member.template.reads)));
            if member.template.body.is_async() {
                builder.push_async(move |run, completion| run_async(&part.world, part.node(run), completion))?;
            } else {
                builder.push(move |run| run_sync(&part.world, part.node(run)))?;
            }
        }
        Ok((c.parameter(usize::MAX), c.parameter(0)))
    };
    let (graph, parameters) = if world.plan.program.graphs[index].overlaps {
        let (pipeline, parameters) = world.engine.capture_pipeline(record).expect("the variables are new");
        assert_eq!(pipeline.len(), members.len());
        (Whole::Pipeline(pipeline), parameters)
    } else {
        let (graph, parameters) = world.engine.capture(record).expect("the variables are new");
        assert_eq!(graph.len(), members.len());
        (Whole::Graph(graph), parameters)
    };
    assert!(world.graphs[index].parameters.set(parameters).is_ok(), "captured once");
    Held { index, graph, accepted: 0 }
}

/// With the planted bug: what an operation of one rare kind says that it reads, without its first
/// read. That one is of a variable that others of the graph use, so the replay has it, and only the
/// order inside is lost: which shows where a replay is spread over threads.
fn wrong_reads<'a>(plan: &Plan, member: &'a Node, members: &[Node]) -> Option<&'a [usize]> {
    let first = member.template.reads.first()?;
    let own = |variables: &[usize]| variables.contains(first);
    let declared = members.iter().any(|other| !std::ptr::eq(member, other) && own(&other.template.writes));
    let rare = member.large
        && !plan.failures
        && declared
        && !own(&member.template.writes)
        && !own(&member.template.reads[1..]);
    (rare && is_planted("graphs")).then(|| &member.template.reads[1..])
}

/// Pushes until there is room.
fn insist(world: &World, mut push: impl FnMut() -> Result<(), Error>) {
    while let Err(error) = push() {
        if error.kind() != ErrorKind::EngineFull {
            return world.violation(format!("a parameter was refused: {error}"));
        }
        std::thread::yield_now();
    }
}

pub fn find(graphs: &mut [Held], index: usize) -> &mut Held {
    graphs.iter_mut().find(|held| held.index == index).expect("a script replays its own graphs, until it drops them")
}

/// Pushes a replay; returns its nodes.
pub fn replay<'a>(world: &'a World, held: &mut Held, number: usize, priority: i32) -> &'a [usize] {
    let (captured, graph) = (&world.graphs[held.index], &world.plan.graphs[held.index]);
    if !world.plan.program.graphs[held.index].counts {
        let (parameter, _) = captured.parameters.get().expect("captured");
        insist(world, || parameter.set(number));
    }
    // Before it can run. One that is refused does not, and the next takes its place.
    captured.accepted[held.accepted].store(number, Relaxed);
    let outcome = match &mut held.graph {
        Whole::Graph(graph) => graph.replay_with_priority(priority),
        Whole::Pipeline(pipeline) => pipeline.replay(),
    };
    held.accepted += usize::from(outcome.is_ok());
    let nodes = &graph.replays[number].nodes;
    note_outcome(world, nodes, outcome);
    nodes
}

pub fn set(world: &World, graph: usize, value: u64) {
    let (_, parameter) = world.graphs[graph].parameters.get().expect("captured");
    insist(world, || parameter.set(value));
}

/// Drops the graphs that are left, and looks whether all closures have gone.
pub fn drop_all(world: &World, kept: impl Iterator<Item = Held>) {
    kept.for_each(drop);
    for captured in &world.graphs {
        eventually("a dropped graph drops its closures", || captured.closures.load(SeqCst) == 0);
    }
}
