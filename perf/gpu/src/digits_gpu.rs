//! The digits with their tiles on a device: the plan of `digits/`, whose images come from the
//! processor and whose linear algebra is the device's.
//!
//! The processor builds each tile of the kernel matrix in pinned memory, a copy takes it to the
//! device, and factorisation, solves and scores are operations there. What is built later is
//! copied while the device works on what came before. Only the scores come back.

use crate::algebra::{Algebra, DeviceTile};
use crate::device::Device;
use digits::data::{self, Inputs, CLASSES};
use digits::job::{Job, SerialTiles};
use digits::kernels;
use digits::plan::{Plan, Step, Task};
use digits::tile::Tile;
use seriatim::gpu::{DeviceHandle, PinnedData};
use seriatim::{Context, Engine, Error};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// How many of the test images the reference reads right.
pub const RIGHT: usize = digits::check::REFERENCE_RIGHT;
/// How far the scores may be from the processor's, relative to the largest of them.
pub const DIFFERENCE: f64 = 1e-9;

/// What a run came to.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Test images read right.
    pub right: usize,
    /// The largest difference of a score from the processor's, over the largest score.
    pub difference: f64,
    /// From the first push to the end of the wait, copies included.
    pub seconds: f64,
    pub operations: usize,
}

impl Outcome {
    /// # Errors
    /// What is not as it should be.
    pub fn check(&self) -> Result<(), String> {
        if self.right != RIGHT {
            return Err(format!("{} of {} read right, where the reference has {RIGHT}", self.right, data::TEST_ROWS));
        }
        if self.difference.is_nan() || self.difference > DIFFERENCE {
            return Err(format!("the scores differ from the processor's by {:.1e} of the largest", self.difference));
        }
        Ok(())
    }
}

/// The program, ready to run more than once.
pub struct Digits {
    engine: Engine,
    plan: Plan,
    inputs: Arc<Inputs>,
    algebra: Algebra,
    /// By slot of the plan: the tile on the device, none for the digits that are read in the end.
    tiles: Vec<Option<DeviceTile>>,
    /// By slot: what goes to the device, and the scores that come from it.
    staged: Vec<Option<PinnedData<f64>>>,
    expected: Vec<Tile>,
}

fn say(error: Error) -> String {
    error.to_string()
}

impl Digits {
    /// Reads the images, cut into blocks of `tile` rows, and computes the processor's scores.
    ///
    /// # Errors
    /// What is missing.
    pub fn new(device: &Device, images: &Path, tile: usize) -> Result<Digits, String> {
        let ops = device.tiles.as_ref().map_err(Clone::clone)?;
        let engine = device.engine().build().map_err(say)?;
        let gpu = engine.device(Context::gpu(0)).map_err(say)?;
        let inputs = data::read(images, tile)?;
        let plan = Plan::new(inputs.fit.len(), inputs.test.len());
        let expected = on_the_processor(data::read(images, tile)?)?;
        let largest = inputs.fit[0].labels.len();
        let algebra = Algebra::new(&gpu, ops, largest, plan.fit)?;
        let (tiles, staged) = memory(&gpu, &plan, &inputs).map_err(say)?;
        Ok(Digits { engine, plan, inputs: Arc::new(inputs), algebra, tiles, staged, expected })
    }

    /// Runs the plan once.
    ///
    /// # Errors
    /// What has failed.
    pub fn run(&self) -> Result<Outcome, String> {
        let began = Instant::now();
        let tasks = self.plan.tasks.iter().enumerate();
        tasks.into_iter().try_for_each(|(index, task)| self.push(index, task)).map_err(say)?;
        self.algebra.finish()?;
        let seconds = began.elapsed().as_secs_f64();
        let (right, difference) = self.judge()?;
        Ok(Outcome { right, difference, seconds, operations: self.plan.tasks.len() })
    }

    fn tile(&self, slot: usize) -> &DeviceTile {
        self.tiles[slot].as_ref().expect("the slot is on the device")
    }

    fn staged(&self, slot: usize) -> &PinnedData<f64> {
        self.staged[slot].as_ref().expect("the slot is copied")
    }

    fn push(&self, index: usize, task: &Task) -> Result<(), Error> {
        let reads: Vec<&DeviceTile> = task.reads.iter().filter_map(|slot| self.tiles[*slot].as_ref()).collect();
        let (algebra, name, write) = (&self.algebra, task.name, task.write);
        match task.step {
            Step::Kernel { .. } | Step::Targets { .. } | Step::Cross { .. } => self.build(index, task),
            Step::Potrf => algebra.potrf(name, index_of_step(&self.plan, write), self.tile(write)),
            Step::Trsm => algebra.trsm(name, reads[0], self.tile(write)),
            Step::Syrk => algebra.syrk(name, reads[0], self.tile(write)),
            Step::Gemm => algebra.gemm(name, -1.0, (reads[0], false), (reads[1], true), 1.0, self.tile(write)),
            Step::Forward => algebra.solve(name, reads[0], false, self.tile(write)),
            Step::Backward => algebra.solve(name, reads[0], true, self.tile(write)),
            Step::ForwardUpdate => {
                algebra.gemm(name, -1.0, (reads[0], false), (reads[1], false), 1.0, self.tile(write))
            }
            Step::BackwardUpdate => {
                algebra.gemm(name, -1.0, (reads[0], true), (reads[1], false), 1.0, self.tile(write))
            }
            Step::Score { first } => {
                let keep = if first { 0.0 } else { 1.0 };
                algebra.gemm(name, 1.0, (reads[0], false), (reads[1], false), keep, self.tile(write))
            }
            // The scores come back; the digit of each image is read from them in the end.
            Step::Classify => self.engine.copy(&self.tile(task.reads[0]).data, self.staged(task.reads[0])),
        }
    }

    /// A tile that the processor builds in pinned memory, and its copy to the device.
    fn build(&self, index: usize, task: &Task) -> Result<(), Error> {
        let (tile, host, inputs) = (self.tile(task.write), self.staged(task.write), Arc::clone(&self.inputs));
        let (rows, columns, own, step) = (tile.rows, tile.columns, host.clone(), self.plan.tasks[index].step);
        self.engine.op(task.name).write(host).push(move |_| {
            let mut built = Tile::zeros(rows, columns);
            match step {
                Step::Kernel { row, column } => {
                    kernels::gaussian(&inputs.fit[row], &inputs.fit[column], &mut built);
                    if row == column {
                        kernels::add_ridge(&mut built);
                    }
                }
                Step::Targets { row } => kernels::targets(&inputs.fit[row], &mut built),
                Step::Cross { test, row } => kernels::gaussian(&inputs.test[test], &inputs.fit[row], &mut built),
                _ => unreachable!("only these are built on the processor"),
            }
            own.write().map(|mut values| values.copy_from_slice(built.values()))
        })?;
        self.engine.copy(host, &tile.data)
    }

    /// Test images read right, and how far the scores are from the processor's.
    fn judge(&self) -> Result<(usize, f64), String> {
        let (mut right, mut worst, mut largest) = (0, 0f64, 0f64);
        for (test, block) in self.inputs.test.iter().enumerate() {
            let values = self.staged(self.plan.scores(test)).read().map_err(say)?;
            let rows = block.labels.len();
            let found = Tile::from_fn(rows, CLASSES, |row, column| values[column * rows + row]);
            let mut guesses = Tile::zeros(rows, 1);
            kernels::classify(&found, &mut guesses);
            let pairs = guesses.column(0).iter().zip(&block.labels);
            right += pairs.filter(|(guess, label)| **guess == f64::from(**label)).count();
            for (found, expected) in found.values().iter().zip(self.expected[test].values()) {
                // No comparison with what is no number is true.
                let difference = (found - expected).abs();
                worst = if difference.is_nan() { f64::INFINITY } else { worst.max(difference) };
                largest = largest.max(expected.abs());
            }
        }
        Ok((right, worst / largest))
    }
}

/// Which column of tiles a tile on the diagonal belongs to.
fn index_of_step(plan: &Plan, slot: usize) -> usize {
    (0..plan.fit).find(|step| plan.lower(*step, *step) == slot).expect("it lies on the diagonal")
}

/// The scores that plain calls on one thread of the processor come to.
fn on_the_processor(inputs: Inputs) -> Result<Vec<Tile>, String> {
    let engine = Engine::builder().cpu_workers(1).build().map_err(say)?;
    let plan = Plan::new(inputs.fit.len(), inputs.test.len());
    let job = Job::new(&engine, plan, inputs);
    let mut serial = SerialTiles::new(&job);
    job.run_serial(&mut serial)?;
    Ok((0..job.plan.test).map(|test| serial.tile(job.plan.scores(test)).clone()).collect())
}

type Memory = (Vec<Option<DeviceTile>>, Vec<Option<PinnedData<f64>>>);

/// A tile on the device for each slot that has one, and the pinned ones.
fn memory(gpu: &DeviceHandle, plan: &Plan, inputs: &Inputs) -> Result<Memory, Error> {
    let (mut tiles, mut staged) = (vec![None; plan.slots()], vec![None; plan.slots()]);
    let mut add = |slot: usize, rows: usize, columns: usize| {
        tiles[slot] = Some(DeviceTile::zeros(gpu, rows, columns)?);
        staged[slot] = Some(PinnedData::zeros(gpu, rows * columns)?);
        Ok::<(), Error>(())
    };
    for (row, rows) in inputs.fit.iter().map(|block| block.labels.len()).enumerate() {
        for (column, block) in inputs.fit[..=row].iter().enumerate() {
            add(plan.lower(row, column), rows, block.labels.len())?;
        }
        add(plan.weights(row), rows, CLASSES)?;
        for (test, block) in inputs.test.iter().enumerate() {
            add(plan.cross(test, row), block.labels.len(), rows)?;
        }
    }
    for (test, block) in inputs.test.iter().enumerate() {
        add(plan.scores(test), block.labels.len(), CLASSES)?;
    }
    Ok((tiles, staged))
}
