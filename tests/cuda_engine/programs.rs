//! Random programs of one pusher against a sequential run, with the stand-in's checker silent:
//! operations of devices and of the processor on the same memory, copies, failures, deletions,
//! replays of captured graphs, waits.
//!
//! `seeds.rs` says how to choose seeds and how many.

use crate::client::{Count, Standin};
use crate::common::Random;
use crate::memory::{Entered, Place, FRESH};
use crate::operation::{failure, Operation, CELLS, FIRST_OF_DEVICE, HOST, OF_GRAPHS};
use crate::oracle::Oracle;
use crate::plan::Plan;
use crate::seeds::run_seeds;
use seriatim::{Context, Engine, Error, Graph, Kind, RunContext, Variable};
use std::time::Duration;

/// No wait takes so long.
pub const LIMIT: Duration = Duration::from_secs(60);

struct Program<'a> {
    // Dropped in this order.
    graphs: Vec<(Graph, Vec<Operation>)>,
    engine: Engine,
    entered: Entered,
    standin: &'a Standin,
    random: Random,
    oracle: Oracle,
    places: Vec<Place>,
    variables: Vec<Variable>,
    plan: &'a Plan,
    id: u64,
}

/// What a wait should return, and what it has returned.
pub fn compare(expected: Option<u64>, found: Result<(), Error>) -> Result<(), String> {
    match (expected, found) {
        (None, Ok(())) => Ok(()),
        (Some(id), Err(error)) if error.to_string().contains(&failure(id)) => Ok(()),
        (expected, found) => Err(format!("a wait returned {found:?}; the failure expected is that of {expected:?}")),
    }
}

pub fn refused(error: Error) -> String {
    format!("a push was refused: {error}")
}

impl Program<'_> {
    fn new<'a>(plan: &'a Plan, standin: &'a Standin, random: Random) -> Result<Program<'a>, String> {
        let (engine, entered) = (plan.engine(), Entered::new(standin));
        let place = |cell| if cell < HOST { Place::of_host(&entered) } else { Place::of_device(&entered) };
        let places = (0..CELLS).map(place).collect();
        let variables = (0..CELLS).map(|_| engine.new_variable()).collect();
        let (oracle, graphs) = (Oracle::new(), Vec::new());
        let mut program = Program { graphs, engine, entered, standin, random, oracle, places, variables, plan, id: 0 };
        for _ in 0..2 {
            let graph = program.capture().map_err(refused)?;
            program.graphs.push(graph);
        }
        Ok(program)
    }

    fn next_id(&mut self) -> u64 {
        self.id += 1;
        self.id
    }

    fn capture(&mut self) -> Result<(Graph, Vec<Operation>), Error> {
        let count = self.random.between(1, 6);
        let drawn: Vec<Operation> = (0..count)
            .map(|_| {
                let id = self.next_id();
                Operation::of_graph(id, &mut self.random, self.plan)
            })
            .collect();
        let (variables, places) = (&self.variables, &self.places);
        let record = |capture: &mut seriatim::Capture| {
            for operation in &drawn {
                let of = |list: &[usize]| list.iter().map(|cell| variables[*cell]).collect::<Vec<_>>();
                let builder = capture.op("part").reads(of(&operation.reads)).writes(of(&operation.writes));
                let builder = builder.context(operation.context).property(operation.property);
                let builder = if operation.joins { builder.device_graph() } else { builder };
                builder.push(operation.body(places))?;
            }
            Ok(())
        };
        let (graph, ()) = self.engine.capture(record)?;
        Ok((graph, drawn))
    }

    /// One step of the program.
    fn step(&mut self) -> Result<(), String> {
        match self.random.below(100) {
            0 | 1 => {
                let cell = self.random.below(CELLS);
                let found = match self.random.below(3) {
                    0 => self.engine.wait_for_var(self.variables[cell]),
                    1 => self.engine.wait_for_var_timeout(self.variables[cell], LIMIT),
                    _ => self.engine.wait_until_unused(self.variables[cell]),
                };
                compare(self.oracle.wait(cell), found)?;
                self.look_at(cell)
            }
            2 => self.wait_for_all(),
            3 => self.delete().map_err(refused),
            4..=7 => {
                let at = self.random.below(self.graphs.len());
                // What is launched as a whole is skipped as a whole: the oracle does not know it.
                if self.oracle.failed.is_some() && self.graphs[at].1.iter().any(|operation| operation.joins) {
                    self.wait_for_all()?;
                }
                let (graph, operations) = &self.graphs[at];
                operations.iter().for_each(|operation| self.oracle.run(operation));
                graph.replay().map_err(refused)
            }
            _ => {
                let (id, may_fail) = (self.next_id(), self.oracle.failed.is_none());
                let operation = Operation::drawn(id, &mut self.random, self.plan, may_fail);
                self.oracle.run(&operation);
                operation.push(&self.engine, &self.variables, &self.places).map_err(refused)
            }
        }
    }

    /// Deletes the variable of a cell that no graph uses, on the processor or on a device, and has
    /// another one in its place. Memory of a device is freed in the order of a stream.
    fn delete(&mut self) -> Result<(), Error> {
        let cell = self.random.between(OF_GRAPHS, FIRST_OF_DEVICE - 1);
        let (place, variable) = (self.places[cell], self.variables[cell]);
        let next = self.engine.new_variable();
        let context = match self.random.chance(60) && cell >= HOST {
            true => Context::gpu(self.random.below(self.plan.devices) as u32),
            false => Context::cpu(0),
        };
        let id = self.next_id();
        let last = move |run: &RunContext<'_>| match run.stream() {
            Some(stream) => place.free(stream),
            None => place.value(id).map(|_| ()),
        };
        self.engine.delete_variable(last, context, variable)?;
        self.variables[cell] = next;
        self.oracle.renew(cell, FRESH);
        // What is not freed is left alone.
        self.places[cell] = if cell < HOST { Place::of_host(&self.entered) } else { Place::of_device(&self.entered) };
        Ok(())
    }

    fn wait_for_all(&mut self) -> Result<(), String> {
        let found = match self.random.chance(50) {
            true => self.engine.wait_for_all(),
            false => self.engine.wait_for_all_timeout(LIMIT),
        };
        compare(self.oracle.wait_for_all(), found)
    }

    /// Reads a cell whose writes have ended.
    fn look_at(&mut self, cell: usize) -> Result<(), String> {
        let id = self.next_id();
        let (found, expected) = (self.places[cell].value(id)?, self.oracle.values[cell]);
        match found == expected {
            true => Ok(()),
            false => Err(format!("cell {cell} is {found:#x} and not {expected:#x}, before operation {id}")),
        }
    }

    /// Waits for everything, and looks at everything.
    fn finish(mut self) -> Result<(), String> {
        self.wait_for_all()?;
        (0..CELLS).try_for_each(|cell| self.look_at(cell))?;
        for (cell, expected) in self.oracle.versions.into_iter().enumerate() {
            let found = self.engine.version(self.variables[cell]).map_err(refused)?;
            if found != expected {
                return Err(format!("the variable of cell {cell} is at version {found} and not {expected}"));
            }
        }
        let Program { engine, graphs, entered, standin, .. } = self;
        drop(graphs);
        drop(engine);
        drop(entered);
        what_is_left(standin)
    }
}

/// Checks that the stand-in has nothing to say, and that all was given back.
pub fn what_is_left(standin: &Standin) -> Result<(), String> {
    let reports = standin.reports();
    if let Some(first) = reports.first() {
        return Err(format!("{} reports, of which the first: {first}", reports.len()));
    }
    let counts = [Count::Streams, Count::Events, Count::Recordings, Count::Commands, Count::Graphs];
    let counts = counts.map(|what| standin.count(what));
    if counts != [0; 5] {
        return Err(format!("streams, events, recordings, commands and graphs are left: {counts:?}"));
    }
    Ok(())
}

/// Runs the program of a seed on a plan.
pub fn run(standin: &Standin, plan: &Plan, seed: u64, random: Random) -> Result<(), String> {
    let mut program = Program::new(plan, standin, random)?;
    let steps = (0..plan.operations).try_for_each(|_| program.step());
    let reports = standin.reports();
    match (steps, reports.first()) {
        (Ok(()), None) => program.finish(),
        // What the checker says explains what comes of it.
        (_, Some(report)) => Err(format!("{report}; seed {seed}")),
        (failed, None) => failed,
    }
}

/// The plan of a seed, and the random numbers that its program goes on with.
pub fn drawn(seed: u64) -> (Plan, Random) {
    let mut random = Random(seed);
    (Plan::drawn(&mut random), random)
}

#[test]
fn random_programs_do_what_a_sequential_run_does() {
    let (mut queued, mut calls) = (0, [0; 3]);
    let ended = |standin: &Standin, plan: &Plan| {
        if plan.kind != Kind::Naive {
            queued += plan.operations as u64;
            let functions = ["cuStreamWaitEvent", "cuEventRecord", "cuEventQuery"];
            calls.iter_mut().zip(functions).for_each(|(count, function)| *count += standin.calls(function));
        }
    };
    run_seeds((25_000, 400_000), |_| run, |plan, _| plan, ended);
    let each = calls.map(|count| format!("{:.2}", count as f64 / queued.max(1) as f64));
    println!("waits, marks, queries a step, without the naive engine: {}", each.join(", "));
}

/// Where one thread does everything, a seed gives the same calls and the same order of commands.
#[test]
fn a_seed_replays_exactly_on_the_naive_engine() {
    let standin = Standin::begin(1, 128);
    let once = |seed| {
        let (plan, random) = drawn(seed);
        let plan = Plan { kind: Kind::Naive, operations: 150, inline: false, ..plan };
        plan.set_up(&standin, seed);
        run(&standin, &plan, seed, random).unwrap_or_else(|said| panic!("seed {seed}: {said}"));
        (standin.trace(), standin.called())
    };
    let first: Vec<_> = (1..=15).map(once).collect();
    let second: Vec<_> = (1..=15).map(once).collect();
    assert_eq!(first, second);
    let mut traces: Vec<u64> = first.iter().map(|(trace, _)| *trace).collect();
    traces.sort_unstable();
    traces.dedup();
    assert_eq!(traces.len(), 15, "fifteen seeds, fifteen orders");
}
