//! A graph of Task Bench as a program: one operation a point, which changes its tile and reads
//! those of its inputs.
//!
//! Tiles are double-buffered: the tile of point *x* in row *t* is number *t* mod 2 of that point,
//! so that a task has to wait for the readers of the row before the last (write after read) and for
//! the task that wrote its tile two rows ago.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::sync::Arc;

use super::kernel::{Kernel, Scratch};
use super::pattern::Graph;
use crate::program::{small, Access, Body, Program};

/// What a task leaves for its readers, and how many tasks have done so here, alone on its cache
/// line.
#[repr(align(64))]
struct Tile {
    step: AtomicI64,
    point: AtomicI64,
    count: AtomicI64,
    scratch: Scratch,
}

/// One task: which cell of the graph it is, and where its inputs are listed.
struct Task {
    step: i64,
    point: i64,
    /// The row of the task that changed the tile before this one; −1 for the first.
    before: i64,
    inputs: std::ops::Range<usize>,
}

/// The bodies of a graph.
struct Tasks {
    graph: Graph,
    kernel: Kernel,
    tasks: Vec<Task>,
    /// The points that the tasks read, one task's after another's.
    inputs: Vec<i64>,
    tiles: Vec<Tile>,
    /// How many tasks each tile sees, and the row of the last.
    expected: Vec<i64>,
    last: Vec<i64>,
    settings: Arc<Settings>,
    /// Whether an input, or a tile to be changed, held something else than it should have.
    wrong: AtomicBool,
}

/// What can be changed between runs.
#[derive(Default)]
struct Settings {
    iterations: AtomicU32,
}

/// A program whose tasks can be made longer and shorter.
pub struct Granular {
    /// The program.
    pub program: &'static Program,
    kernel: Kernel,
    settings: Arc<Settings>,
}

impl Granular {
    /// Lays out a graph.
    ///
    /// # Errors
    /// If there is no such graph.
    pub fn new(graph: Graph, kernel: Kernel) -> Result<Granular, String> {
        graph.check()?;
        let (mut tasks, mut inputs, mut accesses) = (Vec::new(), Vec::new(), Vec::new());
        let mut expected = vec![0; 2 * graph.width as usize];
        let mut last = vec![-1; expected.len()];
        for step in 0..graph.steps {
            for point in graph.row(step) {
                let start = inputs.len();
                inputs.extend(graph.inputs(step, point));
                let reads = inputs[start..].iter().map(|input| small(tile(step - 1, *input))).collect();
                accesses.push(Access { reads, writes: vec![small(tile(step, point))] });
                let own = tile(step, point);
                tasks.push(Task { step, point, before: last[own], inputs: start..inputs.len() });
                expected[own] += 1;
                last[own] = step;
            }
        }
        let tiles = (0..expected.len()).map(|_| Tile::new(kernel)).collect();
        let sequence = (0..small(tasks.len())).collect();
        let settings = Arc::new(Settings::default());
        let (variables, name) = (expected.len(), graph.pattern.name());
        let (wrong, shared) = (AtomicBool::new(false), Arc::clone(&settings));
        let body = Tasks { graph, kernel, tasks, inputs, tiles, expected, last, settings: shared, wrong };
        Ok(Granular { program: Program::new(name, variables, &accesses, sequence, body), kernel, settings })
    }

    /// Sets how many iterations of the kernel every task runs from now on.
    pub fn set_iterations(&self, iterations: u32) {
        self.settings.iterations.store(iterations, Ordering::Relaxed);
    }

    /// How much work a run is: floating-point operations, or bytes.
    pub fn work(&self) -> u64 {
        let iterations = self.settings.iterations.load(Ordering::Relaxed);
        let tasks = 0..self.program.sequence().len() as u64;
        tasks.map(|task| self.kernel.work(self.kernel.iterations(iterations, task))).sum()
    }
}

/// The number of the tile of a point in a row.
fn tile(step: i64, point: i64) -> usize {
    (2 * point + step % 2) as usize
}

impl Tile {
    fn new(kernel: Kernel) -> Tile {
        let nothing = || AtomicI64::new(-1);
        Tile { step: nothing(), point: nothing(), count: AtomicI64::new(0), scratch: Scratch::new(kernel) }
    }
}

impl Body for Tasks {
    #[inline]
    fn execute(&self, operation: u32) {
        let Task { step, point, before, inputs } = &self.tasks[operation as usize];
        for input in &self.inputs[inputs.clone()] {
            let read = &self.tiles[tile(step - 1, *input)];
            if read.step.load(Ordering::Relaxed) != step - 1 || read.point.load(Ordering::Relaxed) != *input {
                self.wrong.store(true, Ordering::Relaxed);
            }
        }
        let own = &self.tiles[tile(*step, *point)];
        if own.step.load(Ordering::Relaxed) != *before {
            self.wrong.store(true, Ordering::Relaxed);
        }
        own.step.store(*step, Ordering::Relaxed);
        own.point.store(*point, Ordering::Relaxed);
        // Not an addition in one step: tasks of one tile are ordered, and two that are not should
        // be noticed.
        own.count.store(own.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let iterations = self.settings.iterations.load(Ordering::Relaxed);
        self.kernel.run(self.kernel.iterations(iterations, u64::from(operation)), &own.scratch);
    }

    fn reset(&self) {
        for tile in &self.tiles {
            tile.step.store(-1, Ordering::Relaxed);
            tile.point.store(-1, Ordering::Relaxed);
            tile.count.store(0, Ordering::Relaxed);
        }
        self.wrong.store(false, Ordering::Relaxed);
    }

    fn verify(&self) -> Result<(), String> {
        let name = self.graph.pattern.name();
        if self.wrong.load(Ordering::Relaxed) {
            return Err(format!("a task of {name} found what should not have been there"));
        }
        let count = |tile: &Tile| tile.count.load(Ordering::Relaxed);
        match self.tiles.iter().zip(&self.expected).position(|(tile, expected)| count(tile) != *expected) {
            Some(tile) => Err(format!("tile {tile} of {name} was changed by more or fewer tasks than there are")),
            None => {
                let step = |tile: &Tile| tile.step.load(Ordering::Relaxed);
                match self.tiles.iter().zip(&self.last).position(|(tile, last)| step(tile) != *last) {
                    Some(tile) => Err(format!("the last task of tile {tile} of {name} was not the last")),
                    None => Ok(()),
                }
            }
        }
    }
}
