//! Random programs against a sequential run: on each engine, with one device or two, kernels and
//! copies of every stream, operations of the processor between them, failures and deletions, and
//! one to three threads that push.

use crate::backend::{lock, Bug, OpenCl};
use crate::cells::Cell;
use crate::common::{by_length, Random};
use crate::kernels::{Values, WORDS};
use crate::operation::{Choice, Operation, Place, Pushed};
use seriatim::{Context, Engine, ErrorKind, Kind, RunContext};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
/// Of one thread; as many again are common to all.
const DEVICE_CELLS: usize = 4;
const HOST_CELLS: usize = 2;
/// How many operations a program has, by lot. In the longest each mark is used several times.
const OPERATIONS: [usize; 6] = [40, 150, 150, 600, 600, LONGEST];
const LONGEST: usize = 3000;

/// The first seed. `SERIATIM_GPU_SEED` sets it.
pub fn first_seed() -> u64 {
    std::env::var("SERIATIM_GPU_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

/// An engine of settings by lot.
pub fn engine(random: &mut Random, opencl: &Arc<OpenCl>) -> Engine {
    let kind = random.pick(&[Kind::PerDevice, Kind::Pooled, Kind::PerDevice, Kind::Naive]);
    let (workers, ahead) = (1 + random.below(3), random.pick(&[1, 3, 64]));
    let builder = Engine::builder().kind(kind).cpu_workers(2).pin(false).gpus(Arc::clone(opencl) as _);
    builder.gpu_workers(workers).gpu_ahead(ahead).on_error(|_| ()).build().expect("the settings are valid")
}

/// What a sequential run knows. It runs when it is asked, so that it does not hold pushes up.
struct Expected {
    pushed: Vec<Pushed>,
    values: Vec<Values>,
    /// Whether a failure has left its mark on a cell.
    marked: Vec<bool>,
    failed: bool,
    /// What was seen, and what should have been.
    looks: Vec<(Arc<Cell>, u32)>,
}

impl Expected {
    fn new(cells: usize) -> Expected {
        let (values, marked) = (vec![[0; WORDS]; cells], vec![false; cells]);
        Expected { pushed: Vec::new(), values, marked, failed: false, looks: Vec::new() }
    }

    /// Carries out what was pushed. An operation that finds a mark is skipped.
    fn catch_up(&mut self) {
        for Pushed { operation, found } in self.pushed.drain(..) {
            let is_skipped = operation.cells().any(|cell| self.marked[cell]);
            let seen = if is_skipped { 0 } else { operation.apply(&mut self.values) };
            if is_skipped || operation.fails {
                operation.writes.iter().for_each(|cell| self.marked[*cell] = true);
            }
            self.failed |= operation.fails && !is_skipped;
            self.looks.extend(found.map(|found| (found, seen)));
        }
    }

    /// Waits for everything, and compares.
    fn check(&mut self, engine: &Engine, opencl: &OpenCl, places: &[Place]) -> Result<(), String> {
        let outcome = engine.wait_for_all_timeout(LIMIT);
        self.catch_up();
        let as_expected = match &outcome {
            Ok(()) => !self.failed,
            Err(error) => self.failed && error.kind() == ErrorKind::OperationFailed,
        };
        if !as_expected {
            return Err(format!("a wait for everything returned {outcome:?}"));
        }
        for (cell, place) in places.iter().enumerate() {
            if opencl.load(&place.cell) != self.values[cell] {
                return Err(format!("cell {cell} has a wrong value"));
            }
        }
        if self.looks.drain(..).any(|(found, expected)| opencl.load(&found)[0] != expected) {
            return Err("an operation has read a wrong value".to_owned());
        }
        self.marked.fill(false);
        self.failed = false;
        Ok(())
    }
}

fn places(engine: &Engine, opencl: &OpenCl, threads: usize) -> Vec<Place> {
    let cell = |number: usize| match number % (DEVICE_CELLS + HOST_CELLS) < DEVICE_CELLS {
        true => opencl.cell(),
        false => opencl.host_cell(),
    };
    let place = |number| Place { cell: cell(number), variable: engine.new_variable() };
    (0..threads * (DEVICE_CELLS + HOST_CELLS)).map(place).collect()
}

/// The cells of a thread.
fn choice(thread: usize) -> Choice {
    let first = thread * (DEVICE_CELLS + HOST_CELLS);
    let middle = first + DEVICE_CELLS;
    Choice { device: (first..middle).collect(), host: (middle..middle + HOST_CELLS).collect() }
}

/// One thread pushes, and waits now and then.
fn run(seed: u64, bug: Bug, operations: &[usize]) -> Result<(), String> {
    let Some(opencl) = OpenCl::new(bug, seed % 2 == 0) else { return Ok(()) };
    let mut random = Random(seed);
    let engine = engine(&mut random, &opencl);
    let mut places = places(&engine, &opencl, 1);
    let (choice, devices) = (choice(0), opencl.driver.library.devices.len());
    let mut expected = Expected::new(places.len());
    let complaints = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..random.pick(operations) {
        let cell = random.below(places.len());
        let failed = |error: seriatim::Error| format!("{}: {error}", engine.kind());
        let step = random.below(60);
        if step < 3 {
            expected.catch_up();
        }
        match step {
            0 if !expected.marked[cell] => {
                engine.wait_for_var_timeout(places[cell].variable, LIMIT).map_err(failed)?;
                if opencl.load(&places[cell].cell) != expected.values[cell] {
                    return Err(format!("cell {cell} has a wrong value after a wait for it"));
                }
            }
            1 if !expected.marked[cell] => {
                // Nobody uses it: the program may change it by itself.
                engine.wait_until_unused_timeout(places[cell].variable, LIMIT).map_err(failed)?;
                expected.values[cell] = [seed as u32; WORDS];
                opencl.store(&places[cell].cell, &expected.values[cell]);
            }
            2 => {
                let (own, old, values) = (Arc::clone(&opencl), Arc::clone(&places[cell].cell), expected.values[cell]);
                let complaints = Arc::clone(&complaints);
                let check = move |_: &RunContext<'_>| {
                    if own.load(&old) != values {
                        lock(&complaints).push(format!("cell {cell} has a wrong value when it is deleted"));
                    }
                };
                engine.delete_variable(check, Context::cpu(0), places[cell].variable).map_err(failed)?;
                // Other memory: what comes next need not wait for the deletion.
                let new = if choice.device.contains(&cell) { opencl.cell() } else { opencl.host_cell() };
                places[cell] = Place { cell: new, variable: engine.new_variable() };
                (expected.values[cell], expected.marked[cell]) = ([0; WORDS], false);
            }
            3 => expected.check(&engine, &opencl, &places)?,
            _ => {
                let operation = Operation::drawn(&mut random, &choice, devices);
                expected.pushed.push(operation.push(&engine, &opencl, &places).map_err(failed)?);
            }
        }
    }
    expected.check(&engine, &opencl, &places).map_err(|error| format!("{}: {error}", engine.kind()))?;
    drop(engine);
    lock(&complaints).pop().map_or(Ok(()), Err)?;
    match opencl.left() {
        (0, 0) => Ok(()),
        left => Err(format!("streams and marks are left: {left:?}")),
    }
}

/// Several threads push, each on cells of its own and on some that all have in common. What uses a
/// common cell is pushed under a lock, so that the order is known.
fn run_threads(seed: u64) -> Result<(), String> {
    let Some(opencl) = OpenCl::new(Bug::Nothing, seed % 2 == 0) else { return Ok(()) };
    let mut random = Random(seed);
    let engine = engine(&mut random, &opencl);
    let (threads, devices) = (2 + random.below(2), opencl.driver.library.devices.len());
    let places = places(&engine, &opencl, threads + 1);
    let common = choice(threads);
    let operations = random.pick(&OPERATIONS) / threads;
    // The threads, in the order of their pushes that use a common cell.
    let order = Mutex::new(Vec::new());
    let push_all = |thread: usize| {
        let mut random = Random(seed ^ (thread as u64 + 1) << 40);
        let own = choice(thread);
        let both = Choice {
            device: [own.device, common.device.clone()].concat(),
            host: [own.host, common.host.clone()].concat(),
        };
        let mut pushed = Vec::new();
        for _ in 0..operations {
            let operation = Operation::drawn(&mut random, &both, devices);
            let is_common = operation.cells().any(|cell| common.device.contains(&cell) || common.host.contains(&cell));
            let order = is_common.then(|| lock(&order));
            let done = operation.push(&engine, &opencl, &places).map_err(|error| error.to_string())?;
            order.into_iter().for_each(|mut order| order.push(thread));
            pushed.push((done, is_common));
        }
        Ok::<_, String>(pushed)
    };
    let pushed = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || push_all(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect::<Result<Vec<_>, _>>()
    })?;
    // One order that all of them have seen.
    let mut expected = Expected::new(places.len());
    let mut left: Vec<_> = pushed.into_iter().map(Vec::into_iter).collect();
    for thread in lock(&order).iter() {
        for (done, is_common) in left[*thread].by_ref() {
            expected.pushed.push(done);
            if is_common {
                break;
            }
        }
    }
    expected.pushed.extend(left.into_iter().flatten().map(|(done, _)| done));
    expected.check(&engine, &opencl, &places).map_err(|error| format!("{}: {error}", engine.kind()))
}

fn run_all(what: fn(u64) -> Result<(), String>, count: u64) {
    let seeds = first_seed()..first_seed() + count;
    println!("programs {seeds:?}; set SERIATIM_GPU_SEED for others");
    seeds.for_each(|seed| what(seed).unwrap_or_else(|error| panic!("seed {seed}: {error}")));
}

#[test]
fn random_programs_do_what_a_sequential_run_does() {
    run_all(|seed| run(seed, Bug::Nothing, &OPERATIONS), by_length(40, 400));
}

#[test]
fn random_programs_of_several_threads_do_what_a_sequential_run_does() {
    run_all(run_threads, by_length(25, 250));
}

/// A back end with a bug is found out by a wrong value.
fn is_found(bug: Bug, operations: &[usize]) {
    const PROGRAMS: u64 = 300;
    if OpenCl::new(bug, false).is_none() {
        return;
    }
    let is_wrong = |seed: &u64| run(*seed, bug, operations).err().is_some_and(|error| error.contains("wrong value"));
    let found = (1..=PROGRAMS).find(is_wrong).unwrap_or_else(|| panic!("{bug:?}: not found in {PROGRAMS} programs"));
    println!("{bug:?}: found by program {found}");
}

#[test]
fn a_back_end_that_does_not_wait_is_found_out() {
    is_found(Bug::NoWait, &OPERATIONS);
}

#[test]
fn a_back_end_that_says_reached_too_early_is_found_out() {
    is_found(Bug::ReachedAtOnce, &OPERATIONS);
}

#[test]
fn a_back_end_whose_marks_do_not_move_is_found_out() {
    is_found(Bug::FirstPlace, &[LONGEST]);
}
