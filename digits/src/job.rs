//! Running the plan: with the engine, as plain calls, and with empty bodies.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use seriatim::{Data, Engine, OperationBuilder};

use crate::data::{Inputs, CLASSES};
use crate::plan::{Plan, Task};
use crate::tile::Tile;

/// How long one run took.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// From the first operation pushed to the end of the wait.
    pub wall: Duration,
    /// The time inside the tile kernels, added up over all threads.
    pub kernels: Duration,
}

/// The plan, the images, and a value guarded by a variable for every tile.
pub struct Job {
    pub plan: Plan,
    pub inputs: Inputs,
    tiles: Vec<Data<Tile>>,
    // Padded: every operation adds to these, and reads what stands beside them.
    kernel_nanos: CachePadded<AtomicU64>,
    done: CachePadded<AtomicU64>,
}

/// The tiles of the plain run: the same numbers, with nothing around them.
#[derive(Debug)]
pub struct SerialTiles(Vec<Tile>);

impl Job {
    pub fn new(engine: &Engine, plan: Plan, inputs: Inputs) -> Job {
        let tiles = blank_tiles(&plan, &inputs).into_iter().map(|tile| Data::new(engine, tile)).collect();
        Job { plan, inputs, tiles, kernel_nanos: CachePadded::default(), done: CachePadded::default() }
    }

    /// A task as an operation: its name, its tiles and its place on the critical path.
    fn operation<'a>(&self, engine: &'a Engine, task: &Task) -> OperationBuilder<'a> {
        engine
            .op(task.name)
            .reads(task.reads.iter().map(|&slot| &self.tiles[slot]))
            .write(&self.tiles[task.write])
            .priority(task.priority)
    }

    /// Pushes every operation of the plan and waits for all of them.
    ///
    /// # Errors
    /// The first failure of an operation, or the engine's refusal to take one.
    pub fn run(self: &Arc<Self>, engine: &Engine) -> Result<Timing, seriatim::Error> {
        self.timed(|| {
            for (index, task) in self.plan.tasks.iter().enumerate() {
                let job = Arc::clone(self);
                self.operation(engine, task).push(move |_| job.perform(&job.plan.tasks[index]))?;
            }
            engine.wait_for_all()
        })
    }

    /// Pushes the same operations on the same variables, each doing no more than count itself, and
    /// waits. What this takes is the engine's own work: it makes the closures, orders, wakes and
    /// completes, with nothing to hide behind.
    ///
    /// # Errors
    /// As [`Job::run`].
    pub fn run_empty(self: &Arc<Self>, engine: &Engine) -> Result<Timing, seriatim::Error> {
        self.timed(|| {
            for task in &self.plan.tasks {
                let job = Arc::clone(self);
                self.operation(engine, task).push(move |_| job.count())?;
            }
            engine.wait_for_all()
        })
    }

    /// Calls every operation of the plan in turn, on this thread.
    ///
    /// # Errors
    /// The first failure of an operation.
    pub fn run_serial(&self, tiles: &mut SerialTiles) -> Result<Timing, String> {
        let tiles = &mut tiles.0;
        self.timed(|| {
            for task in &self.plan.tasks {
                // Out of the list while it changes, so that the others can be lent; nothing is
                // copied.
                let mut out = std::mem::take(&mut tiles[task.write]);
                let outcome = self.measure(|| task.run(&self.inputs, |slot| Ok::<_, String>(&tiles[slot]), &mut out));
                tiles[task.write] = out;
                outcome?;
            }
            Ok(())
        })
    }

    /// How many operations were done so far, in all the runs together.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Lends a tile after a run.
    ///
    /// # Errors
    /// When an operation is changing it.
    pub fn tile(&self, slot: usize) -> Result<impl Deref<Target = Tile> + '_, seriatim::Error> {
        self.tiles[slot].read()
    }

    /// The body of an operation: borrows the tiles, which checks that the plan declared them
    /// rightly, and does it.
    fn perform(&self, task: &Task) -> Result<(), String> {
        let mut out = self.tiles[task.write].write().map_err(|error| error.to_string())?;
        self.measure(|| task.run(&self.inputs, |slot| self.tiles[slot].read(), &mut out))
    }

    /// The plain run is measured by the same two clock readings and two counters as the engine's.
    fn measure<T>(&self, kernel: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let value = kernel();
        self.kernel_nanos.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        self.count();
        value
    }

    fn count(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn timed<E>(&self, run: impl FnOnce() -> Result<(), E>) -> Result<Timing, E> {
        self.kernel_nanos.store(0, Ordering::Relaxed);
        let done_before = self.done();
        let start = Instant::now();
        run()?;
        let wall = start.elapsed();
        let done = self.done() - done_before;
        assert_eq!(done, self.plan.tasks.len() as u64, "every operation runs exactly once");
        Ok(Timing { wall, kernels: Duration::from_nanos(self.kernel_nanos.load(Ordering::Relaxed)) })
    }
}

impl SerialTiles {
    pub fn new(job: &Job) -> SerialTiles {
        SerialTiles(blank_tiles(&job.plan, &job.inputs))
    }

    pub fn tile(&self, slot: usize) -> &Tile {
        &self.0[slot]
    }
}

/// A tile of zeros for every slot of the plan. Every run writes each of them anew before it reads
/// it.
fn blank_tiles(plan: &Plan, inputs: &Inputs) -> Vec<Tile> {
    let mut tiles = vec![Tile::default(); plan.slots()];
    for (row, rows) in inputs.fit.iter().map(|block| block.labels.len()).enumerate() {
        for (column, block) in inputs.fit[..=row].iter().enumerate() {
            tiles[plan.lower(row, column)] = Tile::zeros(rows, block.labels.len());
        }
        tiles[plan.weights(row)] = Tile::zeros(rows, CLASSES);
        for (test, block) in inputs.test.iter().enumerate() {
            tiles[plan.cross(test, row)] = Tile::zeros(block.labels.len(), rows);
        }
    }
    for (test, block) in inputs.test.iter().enumerate() {
        tiles[plan.scores(test)] = Tile::zeros(block.labels.len(), CLASSES);
        tiles[plan.guesses(test)] = Tile::zeros(block.labels.len(), 1);
    }
    tiles
}
