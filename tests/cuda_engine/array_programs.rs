//! Random programs over arrays that come and go, of one pusher and of several: `Engine::copy` to,
//! from and between devices, kernels, operations of the processor on pinned arrays, some of both
//! asynchronous, replays of graphs (`array_graphs.rs`), failures, priorities, waits in the middle,
//! and borrows outside. What each pusher has is compared with a sequential run, and the stand-in
//! judges every access to the memory, which goes from array to array and from pusher to pusher.
//!
//! `seeds.rs` says how to choose seeds and how many.

#[path = "array_graphs.rs"]
mod array_graphs;

use crate::array::{Array, Value};
use crate::client::{Count, Standin};
use crate::common::Random;
use crate::memory::mixed;
use crate::operation::{failure, Work, CELLS};
use crate::oracle::Oracle;
use crate::plan::Plan;
use crate::programs::{compare, drawn, refused, what_is_left, LIMIT};
use crate::seeds::{run_seeds, Run};
use seriatim::gpu::DeviceHandle;
use seriatim::{Completion, Context, Engine, Kind, Property, RunContext};

/// A pusher: its arrays, and what a sequential run has there.
pub struct Pusher {
    // Dropped in this order.
    arrays: Vec<Array>,
    shared: Option<Array>,
    devices: Vec<DeviceHandle>,
    engine: Engine,
    oracle: Oracle,
    random: Random,
    /// What it has added to the shared array.
    added: u64,
    /// Whether it is the only one: then it also waits for everything.
    is_alone: bool,
    id: u64,
}

impl Pusher {
    fn new(number: usize, engine: &Engine, plan: &Plan, random: Random, is_alone: bool) -> Result<Pusher, String> {
        let device = |number| engine.device(Context::gpu(number as u32)).map_err(|error| error.to_string());
        let mut pusher = Pusher {
            arrays: Vec::new(),
            shared: None,
            devices: (0..plan.devices).map(device).collect::<Result<_, _>>()?,
            engine: engine.clone(),
            oracle: Oracle::new(),
            random,
            added: 0,
            is_alone,
            id: (number as u64) << 32,
        };
        for cell in 0..CELLS {
            let array = pusher.drawn(cell)?;
            pusher.arrays.push(array);
        }
        Ok(pusher)
    }

    fn next_id(&mut self) -> u64 {
        self.id += 1;
        self.id
    }

    /// A new array for a cell.
    fn drawn(&mut self, cell: usize) -> Result<Array, String> {
        let device = self.random.below(self.devices.len());
        let (array, value, versions) = match self.random.below(4) {
            0 => (Array::zeros(&self.devices[device]), 0, 1),
            kind => {
                let value = self.random.next();
                let array = Array::of(&self.devices[device], kind == 1, value);
                // A pinned array is filled at once, and one of a device by an operation.
                (array, value, u64::from(kind == 1))
            }
        };
        self.oracle.renew(cell, value);
        self.oracle.versions[cell] = versions;
        array.map_err(refused)
    }

    /// A copy by the engine; between two pinned arrays, which it has none for, by hand.
    fn copy(&mut self) -> Result<(), String> {
        let (id, from) = (self.next_id(), self.random.below(CELLS));
        let to = (from + 1 + self.random.below(CELLS - 1)) % CELLS;
        self.oracle.apply(id, &[from], &[to], Work::Copies, false);
        let (source, target) = (&self.arrays[from], &self.arrays[to]);
        if source.is_on_device() || target.is_on_device() {
            return source.copy_to(target, &self.engine).map_err(refused);
        }
        let (read, written) = (source.clone(), target.clone());
        let body = move |_: &RunContext<'_>| {
            read.borrow(id, false, |from| written.borrow(id, true, |to| to.set(from.get())))?
        };
        let operation = self.engine.op("by hand").reads([source.variable()]).writes([target.variable()]);
        operation.push(body).map_err(refused)
    }

    /// An operation over one or two arrays, of a device or of the processor, which changes the
    /// second one, or fails.
    fn operate(&mut self) -> Result<(), String> {
        let (id, target) = (self.next_id(), self.random.below(CELLS));
        // The processor uses pinned arrays, and a device its own arrays and pinned ones of its own.
        let gpu = self.arrays[target].context();
        let on_device = self.arrays[target].is_on_device() || self.random.chance(25);
        let may = |array: &Array| if on_device { array.context() == gpu } else { !array.is_on_device() };
        let source = self.random.below(CELLS);
        let source = (source != target && may(&self.arrays[source])).then_some(source);
        let fails = self.oracle.failed.is_none() && self.random.chance(2);
        let no_skip = self.random.chance(8);
        let work = if fails { Work::Fails } else { Work::Computes };
        let reads: Vec<usize> = source.into_iter().collect();
        self.oracle.apply(id, &reads, &[target], work, no_skip);

        let kernels = [Property::Normal, Property::Normal, Property::GpuPrioritized];
        let of_processor = [Property::Normal, Property::Short, Property::CpuPrioritized, Property::Async];
        let property = match (no_skip, on_device) {
            (true, _) => Property::NoSkip,
            (_, true) => self.random.pick(&kernels),
            (_, false) => self.random.pick(&of_processor),
        };
        let context = if on_device { gpu } else { Context::cpu(self.random.below(3) as u32) };
        let priority = if self.random.chance(12) { self.random.between(1, 3) as i32 } else { 0 };
        let is_async = self.random.chance(12) && !(on_device && fails);
        let of = |cell: &usize| self.arrays[*cell].variable();
        let operation = self.engine.op("drawn").reads(reads.iter().map(of)).writes([of(&target)]);
        let operation = operation.context(context).property(property).priority(priority);
        let (from, to) = (source.map(|cell| self.arrays[cell].clone()), self.arrays[target].clone());
        let change = move |from: Option<u64>, to: &Value| {
            to.set(mixed(id, from.into_iter().chain([to.get()])));
        };
        let body = move |run: &RunContext<'_>| match (run.stream(), fails) {
            (Some(_), false) => to.kernel(run, id, from.as_ref(), change),
            // What it has queued is done all the same.
            (Some(_), true) => to.look(run, id).and_then(|()| Err(failure(id))),
            (None, true) => to.borrow(id, false, |_| ()).and_then(|()| Err(failure(id))),
            (None, false) => match &from {
                None => to.borrow(id, true, |to| change(None, to)),
                Some(from) => from.borrow(id, false, |from| to.borrow(id, true, |to| change(Some(from.get()), to)))?,
            },
        };
        match is_async {
            false => operation.push(body),
            true => operation.push_async(move |run, completion: Completion| match (body(run), run.stream()) {
                // SAFETY: the stream is the operation's.
                (Ok(()), Some(stream)) => unsafe { completion.complete_after(stream) },
                (Ok(()), None) => completion.complete(),
                (Err(said), _) => completion.fail(said),
            }),
        }
        .map_err(refused)
    }

    /// Adds to the array that all pushers change.
    fn add(&mut self) -> Result<(), String> {
        let (id, value) = (self.next_id(), self.random.next());
        let Some(shared) = self.shared.clone() else { return Ok(()) };
        self.added = self.added.wrapping_add(value);
        let (operation, target) = (self.engine.op("add").context(shared.context()), shared.clone());
        let add = move |_: Option<u64>, to: &Value| to.set(to.get().wrapping_add(value));
        let operation = operation.writes([shared.variable()]);
        operation.push(move |run| target.kernel(run, id, None, add)).map_err(refused)
    }

    fn wait(&mut self, cell: usize) -> Result<(), String> {
        let variable = self.arrays[cell].variable();
        let found = match self.random.below(3) {
            0 => self.engine.wait_for_var(variable),
            1 => self.engine.wait_for_var_timeout(variable, LIMIT),
            _ => self.engine.wait_until_unused(variable),
        };
        compare(self.oracle.wait(cell), found)?;
        match self.arrays[cell].is_on_device() {
            true => Ok(()),
            false => self.look_at(&self.arrays[cell].clone(), cell),
        }
    }

    /// Reads a pinned array, outside of operations, which is to be what a cell is.
    fn look_at(&mut self, array: &Array, cell: usize) -> Result<(), String> {
        let (id, expected) = (self.next_id(), self.oracle.values[cell]);
        let found = array.borrow(id, false, Value::get)?;
        match found == expected {
            true => Ok(()),
            false => Err(format!("array {cell} is {found:#x} and not {expected:#x}, before operation {id}")),
        }
    }

    /// One step of the program.
    fn step(&mut self) -> Result<(), String> {
        match self.random.below(100) {
            0..3 => {
                let cell = self.random.below(CELLS);
                self.wait(cell)
            }
            3 if self.is_alone => {
                let found = self.engine.wait_for_all_timeout(LIMIT);
                compare(self.oracle.wait_for_all(), found)
            }
            4 => {
                let device = self.random.below(self.devices.len());
                self.devices[device].trim();
                Ok(())
            }
            // Also where a failure of the one before is left: it goes with its variable.
            5..15 => {
                let cell = self.random.below(CELLS);
                let new = self.drawn(cell)?;
                self.arrays[cell] = new;
                Ok(())
            }
            18..20 if self.oracle.failed.is_none() => self.replay(),
            15..20 => self.add(),
            20..60 => self.copy(),
            _ => self.operate(),
        }
    }

    fn run(&mut self, operations: usize) -> Result<(), String> {
        (0..operations).try_for_each(|_| self.step())?;
        (0..CELLS).try_for_each(|cell| self.wait(cell))?;
        for cell in 0..CELLS {
            let array = self.arrays[cell].clone();
            let found = self.engine.version(array.variable()).map_err(refused)?;
            let expected = self.oracle.versions[cell];
            if found != expected {
                return Err(format!("array {cell} is at version {found} and not {expected}"));
            }
            if array.is_on_device() {
                let back = array.back(&self.engine, &self.devices).map_err(refused)?;
                self.look_at(&back, cell)?;
            }
        }
        Ok(())
    }
}

/// Runs the program of a seed on a plan, with so many pushers.
pub fn run(standin: &Standin, plan: &Plan, mut random: Random, count: usize) -> Result<(), String> {
    let engine = plan.engine();
    let outcome = run_on(&engine, plan, &mut random, count);
    // What the checker says explains what comes of it.
    if let Some(report) = standin.reports().first() {
        return Err(report.clone());
    }
    outcome?;
    drop(engine);
    match standin.count(Count::Allocations) {
        0 => what_is_left(standin),
        left => Err(format!("{left} allocations are left")),
    }
}

fn run_on(engine: &Engine, plan: &Plan, random: &mut Random, count: usize) -> Result<(), String> {
    let pusher = |number| Pusher::new(number, engine, plan, Random(random.next()), count == 1);
    let mut pushers: Vec<Pusher> = (0..count).map(pusher).collect::<Result<_, _>>()?;
    let devices = pushers[0].devices.clone();
    let shared = Array::zeros(&devices[0]).map_err(refused)?;
    pushers.iter_mut().for_each(|pusher| pusher.shared = Some(shared.clone()));
    let each = plan.operations / count;
    match &mut pushers[..] {
        [alone] => alone.run(each)?,
        several => std::thread::scope(|scope| {
            let threads: Vec<_> = several.iter_mut().map(|pusher| scope.spawn(move || pusher.run(each))).collect();
            let outcomes = threads.into_iter().map(|thread| thread.join().expect("it does not panic"));
            outcomes.collect::<Vec<_>>().into_iter().collect::<Result<(), String>>()
        })?,
    }
    let added = pushers.iter().fold(0, |sum: u64, pusher| sum.wrapping_add(pusher.added));
    let found = shared.back(engine, &devices).map_err(refused)?.borrow(0, false, Value::get)?;
    if found != added {
        return Err(format!("the pushers have added {added:#x}, and found is {found:#x}"));
    }
    // The failures that nobody has taken.
    let left = pushers.iter().any(|pusher| pusher.oracle.failed.is_some());
    match engine.wait_for_all_timeout(LIMIT) {
        outcome if outcome.is_err() == left => Ok(()),
        outcome => Err(format!("the wait for everything returned {outcome:?}; a failure is left: {left}")),
    }
}

#[test]
fn random_programs_over_arrays_do_what_a_sequential_run_does() {
    run_seeds(
        (15_000, 200_000),
        |_| |standin, plan, _, random| run(standin, plan, random, 1),
        |plan, _| plan,
        |_, _| (),
    );
}

#[test]
fn random_programs_over_arrays_of_several_pushers_do_what_sequential_runs_do() {
    let of: [Run; 3] = [
        |standin, plan, _, random| run(standin, plan, random, 2),
        |standin, plan, _, random| run(standin, plan, random, 3),
        |standin, plan, _, random| run(standin, plan, random, 4),
    ];
    run_seeds((15_000, 200_000), |seed| of[(seed % 3) as usize], |plan, _| plan, |_, _| ());
}

#[test]
fn a_seed_of_arrays_replays_exactly_on_the_naive_engine() {
    let standin = Standin::begin(1, 128);
    let once = |seed| {
        let (plan, random) = drawn(seed);
        let plan = Plan { kind: Kind::Naive, operations: 150, inline: false, ..plan };
        plan.set_up(&standin, seed);
        run(&standin, &plan, random, 1).unwrap_or_else(|said| panic!("seed {seed}: {said}"));
        (standin.trace(), standin.called())
    };
    let first: Vec<_> = (1..=10).map(once).collect();
    assert_eq!(first, (1..=10).map(once).collect::<Vec<_>>());
    let different: std::collections::BTreeSet<u64> = first.iter().map(|(trace, _)| *trace).collect();
    assert_eq!(different.len(), 10, "ten seeds, ten orders");
}
