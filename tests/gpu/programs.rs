//! Random programs against a sequential run: on each engine, with one to three devices, operations
//! of the processor between those of devices, replays of graphs of both, deletions and waits.

use crate::common::{by_length, Random};
use crate::model::Model;
use seriatim::{Capture, Completion, Context, Engine, Graph, Kind, Property, RunContext, Variable};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
pub const CELLS: usize = 6;

/// What an operation of number `id` makes of what it reads.
fn mixed(id: u64, values: impl Iterator<Item = u64>) -> u64 {
    values.fold(id.wrapping_mul(0x9e37_79b9_7f4a_7c15), |sum, value| {
        (sum ^ value).rotate_left(7).wrapping_mul(0x2545_f491_4f6c_dd1d)
    })
}

pub type Cells = Arc<[AtomicU64]>;

pub fn apply(id: u64, cells: &[AtomicU64], reads: &[usize], writes: &[usize]) {
    let value = mixed(id, reads.iter().chain(writes).map(|cell| cells[*cell].load(Relaxed)));
    writes.iter().for_each(|cell| cells[*cell].store(value, Relaxed));
}

pub struct Plan {
    pub kind: Kind,
    pub devices: usize,
    pub start: u64,
    pub ahead: usize,
    pub workers: usize,
    pub steps: usize,
    /// Whether the back end has graphs.
    pub graphs: bool,
    /// How much memory the engine takes of a device; 0 for no limit.
    pub memory: usize,
}

impl Plan {
    pub fn drawn(random: &mut Random) -> Plan {
        Plan {
            kind: [Kind::PerDevice, Kind::Pooled, Kind::PerDevice, Kind::Naive][random.below(4)],
            devices: 1 + random.below(3),
            start: [0, (1 << 31) - 20, (1 << 32) - 20, (1 << 47) - 20][random.below(4)],
            ahead: [1, 3, 64][random.below(3)],
            workers: 1 + random.below(3),
            steps: [1, 4, 30][random.below(3)],
            graphs: random.below(4) > 0,
            memory: 0,
        }
    }

    pub fn engine(&self, model: &Arc<Model>) -> Engine {
        model.has_graphs.store(self.graphs, Relaxed);
        let builder = Engine::builder().kind(self.kind).cpu_workers(2).pin(false).gpus(Arc::clone(model) as _);
        let builder = builder.gpu_workers(self.workers).gpu_ahead(self.ahead).gpu_memory(self.memory).on_error(|_| ());
        seriatim::testing::gpu_numbers_follow(builder, self.start).build().expect("the settings are valid")
    }
}

/// An operation: which cells, where.
pub struct Operation {
    pub id: u64,
    pub reads: Vec<usize>,
    pub writes: Vec<usize>,
    pub context: Context,
    property: Property,
    priority: i32,
    is_async: bool,
}

impl Operation {
    pub fn drawn(id: u64, random: &mut Random, devices: usize) -> Operation {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for cell in 0..CELLS {
            match random.below(7) {
                0 | 1 => reads.push(cell),
                2 => writes.push(cell),
                _ => {}
            }
        }
        let on_device = random.below(4) > 0;
        let properties = [
            Property::Normal,
            Property::Normal,
            Property::Normal,
            Property::GpuPrioritized,
            Property::CopyToGpu,
            Property::CopyFromGpu,
            Property::NoSkip,
        ];
        Operation {
            id,
            reads,
            writes,
            context: if on_device { Context::gpu(random.below(devices) as u32) } else { Context::cpu(0) },
            property: if on_device { properties[random.below(properties.len())] } else { Property::Normal },
            priority: if random.below(8) == 0 { 1 + random.below(3) as i32 } else { 0 },
            is_async: random.below(8) == 0,
        }
    }

    /// What the operation does.
    fn body(&self, model: &Arc<Model>, cells: &Cells) -> impl Fn(&RunContext<'_>) + Send + 'static + use<> {
        let (id, reads, writes) = (self.id, self.reads.clone(), self.writes.clone());
        let (model, cells) = (Arc::clone(model), Arc::clone(cells));
        move |run: &RunContext<'_>| match run.stream() {
            Some(stream) => {
                let (cells, read, written) = (Arc::clone(&cells), reads.clone(), writes.clone());
                model.work(stream, reads.clone(), writes.clone(), move || apply(id, &cells, &read, &written));
            }
            None => {
                let mut world = model.world();
                reads.iter().for_each(|cell| world.host_uses(*cell, false));
                writes.iter().for_each(|cell| world.host_uses(*cell, true));
                apply(id, &cells, &reads, &writes);
            }
        }
    }

    pub fn push(self, engine: &Engine, model: &Arc<Model>, variables: &[Variable], cells: &Cells) {
        let of = |list: &[usize]| list.iter().map(|cell| variables[*cell]).collect::<Vec<_>>();
        let builder = engine.op("drawn").reads(of(&self.reads)).writes(of(&self.writes)).context(self.context);
        let builder = builder.property(self.property).priority(self.priority);
        let body = self.body(model, cells);
        if self.is_async {
            builder.push_async(started(body)).unwrap();
        } else {
            builder.push(body).unwrap();
        }
    }
}

/// An asynchronous closure of a body, which ends when the body's work is done.
fn started(body: impl Fn(&RunContext<'_>)) -> impl Fn(&RunContext<'_>, Completion) {
    move |run, completion| {
        body(run);
        match run.stream() {
            // SAFETY: the stream is the operation's.
            Some(stream) => unsafe { completion.complete_after(stream) },
            None => completion.complete(),
        }
    }
}

/// A graph of a few operations, of which most have devices and two have a cell of the graph's own.
fn capture(
    engine: &Engine,
    random: &mut Random,
    plan: &Plan,
    world: (&Arc<Model>, &[Variable], &Cells),
) -> (Graph, Vec<Operation>) {
    let (model, variables, cells) = world;
    let drawn: Vec<Operation> =
        (0..1 + random.below(12)).map(|part| Operation::drawn(1000 + part as u64, random, plan.devices)).collect();
    let private = (0..2).map(|_| random.below(drawn.len())).collect::<Vec<_>>();
    let record = |c: &mut Capture| {
        let own = c.private_variable();
        for (number, part) in drawn.iter().enumerate() {
            let of = |list: &[usize]| list.iter().map(|cell| variables[*cell]).collect::<Vec<_>>();
            let builder = c.op("part").reads(of(&part.reads)).writes(of(&part.writes)).context(part.context);
            let builder = builder.property(part.property).priority(part.priority);
            let builder = if private.contains(&number) { builder.write(own) } else { builder };
            let body = part.body(model, cells);
            if part.is_async {
                builder.push_async(started(body))?;
            } else {
                let builder = if random.below(3) > 0 { builder.device_graph() } else { builder };
                builder.push(body)?;
            }
        }
        Ok(())
    };
    let (graph, ()) = engine.capture(record).unwrap();
    (graph, drawn)
}

pub fn cells() -> Cells {
    (0..CELLS).map(|_| AtomicU64::new(0)).collect()
}

fn run(seed: u64) {
    let mut random = Random(seed);
    let plan = Plan::drawn(&mut random);
    let model = Model::new(plan.devices, seed, plan.steps);
    let engine = plan.engine(&model);
    let (cells, expected) = (cells(), cells());
    let mut variables: Vec<Variable> = (0..CELLS).map(|_| engine.new_variable()).collect();
    let mut graphs = Vec::new();
    for id in 0..120 {
        match random.below(40) {
            3 => graphs.push(capture(&engine, &mut random, &plan, (&model, &variables, &cells))),
            4..=7 if !graphs.is_empty() => {
                let (graph, parts) = &graphs[random.below(graphs.len())];
                parts.iter().for_each(|part| apply(part.id, &expected, &part.reads, &part.writes));
                graph.replay_with_priority(random.below(3) as i32).unwrap();
            }
            8 => graphs.truncate(random.below(graphs.len() + 1)),
            0 => {
                let cell = random.below(CELLS);
                let waited = engine.wait_for_var_timeout(variables[cell], LIMIT);
                waited.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                let found = cells[cell].load(Relaxed);
                assert_eq!(found, expected[cell].load(Relaxed), "seed {seed}: cell {cell} after a wait");
            }
            1 => {
                // Graphs go with the variables that they use.
                graphs.clear();
                let cell = random.below(CELLS);
                let (own, value) = (Arc::clone(&cells), expected[cell].load(Relaxed));
                let check = move |_: &RunContext<'_>| assert_eq!(own[cell].load(Relaxed), value, "at a deletion");
                engine.delete_variable(check, Context::cpu(0), variables[cell]).unwrap();
                // The values stay; the next variable must not come before the deletion.
                engine.wait_for_all_timeout(LIMIT).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                variables[cell] = engine.new_variable();
            }
            2 => {
                let cell = random.below(CELLS);
                let waited = engine.wait_until_unused(variables[cell]);
                waited.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
            _ => {
                let drawn = Operation::drawn(id, &mut random, plan.devices);
                apply(id, &expected, &drawn.reads, &drawn.writes);
                drawn.push(&engine, &model, &variables, &cells);
            }
        }
    }
    engine.wait_for_all_timeout(LIMIT).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    for cell in 0..CELLS {
        assert_eq!(cells[cell].load(Relaxed), expected[cell].load(Relaxed), "seed {seed}: cell {cell}");
    }
    let world = model.world();
    assert!(world.races.is_empty(), "seed {seed}: {:?}", world.races);
    assert!(plan.kind == Kind::Naive || world.most_queued <= plan.ahead, "seed {seed}: {} queued", world.most_queued);
    drop(world);
    drop(graphs);
    drop(engine);
    assert_eq!(model.left(), (0, 0), "seed {seed}: streams and marks are left");
}

#[test]
fn random_programs_do_what_a_sequential_run_does() {
    let base = std::env::var("SERIATIM_GPU_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    (0..by_length(60, 1000)).for_each(|number| run(base + number));
}

/// Several threads push: there is no one order to compare with, but every use is ordered, and no
/// change of a cell is lost.
#[test]
fn random_programs_of_several_threads_are_ordered() {
    for seed in 0..by_length(15, 200) {
        let mut random = Random(seed);
        let plan = Plan::drawn(&mut random);
        let model = Model::new(plan.devices, seed, plan.steps);
        let engine = plan.engine(&model);
        let counts = cells();
        let variables: Vec<Variable> = (0..CELLS).map(|_| engine.new_variable()).collect();
        let wanted = cells();
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (engine, model, counts, wanted, variables) = (&engine, &model, &counts, &wanted, &variables);
                let devices = plan.devices;
                scope.spawn(move || {
                    let mut random = Random(seed ^ thread << 32);
                    for id in 0..60 {
                        let drawn = Operation::drawn(id, &mut random, devices);
                        drawn.writes.iter().for_each(|cell| _ = wanted[*cell].fetch_add(1, Relaxed));
                        let Operation { reads, writes, context, .. } = drawn;
                        let of = |list: &[usize]| list.iter().map(|cell| variables[*cell]).collect::<Vec<_>>();
                        let builder = engine.op("counts").reads(of(&reads)).writes(of(&writes)).context(context);
                        let (model, counts) = (Arc::clone(model), Arc::clone(counts));
                        // Not atomic as a whole: two at once lose one.
                        let count = move |writes: &[usize]| {
                            for cell in writes {
                                counts[*cell].store(counts[*cell].load(Relaxed) + 1, Relaxed);
                            }
                        };
                        let body = move |run: &RunContext<'_>| match run.stream() {
                            Some(stream) => {
                                let written = writes.clone();
                                model.work(stream, reads, writes, move || count(&written));
                            }
                            None => count(&writes),
                        };
                        builder.push(body).unwrap();
                    }
                });
            }
        });
        engine.wait_for_all_timeout(LIMIT).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        for cell in 0..CELLS {
            assert_eq!(counts[cell].load(Relaxed), wanted[cell].load(Relaxed), "seed {seed}: cell {cell}");
        }
        assert!(model.world().races.is_empty(), "seed {seed}: {:?}", model.world().races);
    }
}
