//! The throughput workloads: programs of small operations whose result shows whether they ran in a
//! right order.
//!
//! A program is a sequence over a set of distinct operations, all laid out in flat arrays before
//! anything is timed. A body is as near to empty as one that can be checked may be: four loads and
//! a store that hash the operation and what it reads into the cell of the variable that it changes.
//! The hash depends on the order of the writers of a cell and on which value every read saw, so an
//! operation that is lost, run twice, or run before another that it depends on gives another
//! result: all cells are compared with those of a serial run.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::metg::kernel::{Kernel, Scratch};
use crate::program::{small, Access, Body, Program};

/// About how many operations a workload has; the stencil has 192,000, the fan a whole number of
/// rounds.
pub const OPERATIONS: usize = 200_000;
/// Enough of them to see that everything runs.
pub const TEST_OPERATIONS: usize = 2_000;
/// As many as instructions are counted of: one thread's stock still holds the blocks of all of
/// them.
pub const COUNTED_OPERATIONS: usize = 10_000;
/// The graphs whose replays are counted (`benches/replays.rs`), and how many replays of each.
pub const REPLAYED: [&str; 5] = ["names-1", "names-8", "names-64", "arrays", "private-arrays"];
pub const COUNTED_REPLAYS: usize = 1_000;

/// The most variables that one operation of a workload reads.
const MOST_READS: usize = 3;
/// Variables of `independent` and `shared-read`, not counting the shared one.
const INDEPENDENT_VARIABLES: usize = 1024;
/// Readers between two writers of `fan`.
const FAN_READERS: usize = 16;
/// Variables of `random`.
pub(crate) const RANDOM_VARIABLES: usize = 1000;
const STENCIL_POINTS: usize = 64;
const STENCIL_STEPS: usize = 3000;
const BRIEF_STEPS: usize = 50;

/// A cell for a body's result, alone on its cache line: bodies must not share what their operations
/// do not.
#[repr(align(64))]
struct Cell(AtomicU64);

/// The cells of one operation. Unused inputs name a cell that is always zero, so that no body
/// branches.
#[derive(Clone, Copy)]
struct Cells {
    output: u32,
    inputs: [u32; MOST_READS],
}

/// The bodies of a workload: each hashes what its operation reads into what it changes.
pub(crate) struct Hashing {
    operations: Vec<Cells>,
    /// One for each variable, then those of operations that change nothing, then the one that stays
    /// zero.
    cells: Vec<Cell>,
    expected: Vec<u64>,
}

impl Hashing {
    /// Bodies for operations with these accesses; `sequence` is run once, here, to know what to
    /// expect.
    pub(crate) fn new(variables: usize, accesses: &[Access], sequence: &[u32]) -> Hashing {
        let readers = accesses.iter().filter(|access| access.writes.is_empty()).count();
        let zero = small(variables + readers);
        let mut spare_cell = small(variables);
        let operations = accesses.iter().map(|access| {
            let mut inputs = [zero; MOST_READS];
            inputs.iter_mut().zip(&access.reads).for_each(|(input, read)| *input = *read);
            let output = access.writes.first().copied().unwrap_or_else(|| {
                spare_cell += 1;
                spare_cell - 1
            });
            Cells { output, inputs }
        });
        let operations = operations.collect();
        let cells: Vec<Cell> = (0..=zero).map(|_| Cell(AtomicU64::new(0))).collect();
        let mut body = Hashing { operations, cells, expected: Vec::new() };
        body.expect(sequence, 1);
        body
    }

    /// The same bodies, checked after so many runs of the sequence without a reset between them.
    fn after(mut self, sequence: &[u32], runs: usize) -> Hashing {
        self.reset();
        self.expect(sequence, runs);
        self
    }

    fn expect(&mut self, sequence: &[u32], runs: usize) {
        (0..runs).for_each(|_| sequence.iter().for_each(|operation| self.execute(*operation)));
        self.expected = self.cells.iter().map(|cell| cell.0.load(Ordering::Relaxed)).collect();
    }
}

impl Body for Hashing {
    /// Its loads and stores are relaxed: the engine under test has to order them.
    #[inline]
    fn execute(&self, operation: u32) {
        let operands = &self.operations[operation as usize];
        let load = |cell: u32| self.cells[cell as usize].0.load(Ordering::Relaxed);
        let value = mix(operation, load(operands.output), operands.inputs.map(load));
        self.cells[operands.output as usize].0.store(value, Ordering::Relaxed);
    }

    fn reset(&self) {
        for cell in &self.cells {
            cell.0.store(0, Ordering::Relaxed);
        }
    }

    fn verify(&self) -> Result<(), String> {
        let value = |cell: &Cell| cell.0.load(Ordering::Relaxed);
        match self.cells.iter().zip(&self.expected).position(|(cell, expected)| value(cell) != *expected) {
            Some(index) => Err(format!("cell {index} differs from that of a serial run")),
            None => Ok(()),
        }
    }
}

/// One step of the hash. The three inputs are turned by different amounts, so that they cannot
/// stand for each other.
fn mix(operation: u32, before: u64, inputs: [u64; MOST_READS]) -> u64 {
    before
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .wrapping_add(u64::from(operation) + 1)
        .wrapping_add(inputs[0].rotate_left(7))
        .wrapping_add(inputs[1].rotate_left(23))
        .wrapping_add(inputs[2].rotate_left(41))
}

/// The same bodies, each of which then computes for a while.
struct Long {
    hashing: Hashing,
    iterations: u32,
    scratch: Scratch,
}

impl Body for Long {
    #[inline]
    fn execute(&self, operation: u32) {
        self.hashing.execute(operation);
        Kernel::Compute.run(self.iterations, &self.scratch);
    }

    fn reset(&self) {
        self.hashing.reset();
    }

    fn verify(&self) -> Result<(), String> {
        self.hashing.verify()
    }
}

/// Collects the distinct operations of a program.
struct Builder {
    name: &'static str,
    variables: usize,
    accesses: Vec<Access>,
    /// What a body computes besides, in iterations of the compute kernel.
    iterations: u32,
}

impl Builder {
    fn new(name: &'static str, variables: usize) -> Builder {
        Builder { name, variables, accesses: Vec::new(), iterations: 0 }
    }

    /// Adds a distinct operation; the first is number 0.
    fn operation(&mut self, reads: &[usize], writes: &[usize]) {
        let numbers = |variables: &[usize]| variables.iter().copied().map(small).collect();
        self.accesses.push(Access { reads: numbers(reads), writes: numbers(writes) });
    }

    /// Lays everything out. Operations are pushed in the order of `sequence`.
    fn build(self, sequence: impl Iterator<Item = usize>) -> &'static Program {
        let sequence: Vec<u32> = sequence.map(small).collect();
        let hashing = Hashing::new(self.variables, &self.accesses, &sequence);
        if self.iterations == 0 {
            return Program::new(self.name, self.variables, &self.accesses, sequence, hashing);
        }
        let body = Long { hashing, iterations: self.iterations, scratch: Scratch::new(Kernel::Compute) };
        Program::new(self.name, self.variables, &self.accesses, sequence, body)
    }
}

/// The share of operations that `unrelated` has: its variables then fit into a cache.
const UNRELATED_PART: usize = 8;

/// The names of all, in the order of the tables.
pub const NAMES: [&str; 8] = ["independent", "shared-read", "chain", "fan", "random", "stencil", "brief", "unrelated"];

/// The workload of that name, with about `operations` operations; none if there is none.
pub fn named(name: &str, operations: usize) -> Option<&'static Program> {
    lengthened(name, operations, 0)
}

/// The same, whose bodies compute for so many iterations of the compute kernel besides.
pub fn lengthened(name: &str, operations: usize, iterations: u32) -> Option<&'static Program> {
    let (builder, sequence) = laid_out(name, operations)?;
    Some(Builder { iterations, ..builder }.build(sequence))
}

type Sequence = Box<dyn Iterator<Item = usize>>;

fn laid_out(name: &str, operations: usize) -> Option<(Builder, Sequence)> {
    let make = match name {
        "independent" => independent,
        "shared-read" => shared_read,
        "chain" => chain,
        "fan" => fan,
        "random" => random,
        "stencil" => stencil,
        "brief" => brief,
        "unrelated" => unrelated,
        _ => return None,
    };
    Some(make(operations))
}

/// All of them, with about `operations` operations each.
pub fn all(operations: usize) -> Vec<&'static Program> {
    NAMES.into_iter().filter_map(|name| named(name, operations)).collect()
}

/// Operation *i* changes variable *i* mod 1024. Four different operations for each variable make
/// their order count.
fn independent(operations: usize) -> (Builder, Sequence) {
    let distinct = 4 * INDEPENDENT_VARIABLES;
    let mut builder = Builder::new("independent", INDEPENDENT_VARIABLES);
    for operation in 0..distinct {
        builder.operation(&[], &[operation % INDEPENDENT_VARIABLES]);
    }
    (builder, Box::new((0..operations).map(move |i| i % distinct)))
}

/// Every operation changes a variable of its own: what runtimes without dependencies can run too.
fn unrelated(operations: usize) -> (Builder, Sequence) {
    let operations = operations / UNRELATED_PART;
    let mut builder = Builder::new("unrelated", operations);
    for operation in 0..operations {
        builder.operation(&[], &[operation]);
    }
    (builder, Box::new(0..operations))
}

/// Like `independent`, and all read one more variable, which only the first operation changes.
fn shared_read(operations: usize) -> (Builder, Sequence) {
    let distinct = 4 * INDEPENDENT_VARIABLES;
    let shared = INDEPENDENT_VARIABLES;
    let mut builder = Builder::new("shared-read", INDEPENDENT_VARIABLES + 1);
    for operation in 0..distinct {
        builder.operation(&[shared], &[operation % INDEPENDENT_VARIABLES]);
    }
    builder.operation(&[], &[shared]);
    (builder, Box::new(std::iter::once(distinct).chain((0..operations).map(move |i| i % distinct))))
}

/// All change one variable.
fn chain(operations: usize) -> (Builder, Sequence) {
    let distinct = 64;
    let mut builder = Builder::new("chain", 1);
    for _ in 0..distinct {
        builder.operation(&[], &[0]);
    }
    (builder, Box::new((0..operations).map(move |i| i % distinct)))
}

/// One writer, then 16 readers of one variable, repeated.
fn fan(operations: usize) -> (Builder, Sequence) {
    fans("fan", FAN_READERS, operations)
}

/// One writer, then so many readers of one variable, repeated. Reader *j* of every round keeps what
/// it saw in the same cell: the writer between two rounds orders them.
pub fn fan_out(name: &'static str, readers: usize, operations: usize) -> &'static Program {
    let (builder, sequence) = fans(name, readers, operations);
    builder.build(sequence)
}

fn fans(name: &'static str, readers: usize, operations: usize) -> (Builder, Sequence) {
    let (round, rounds) = (1 + readers, 4);
    let mut builder = Builder::new(name, 1);
    for _ in 0..rounds {
        builder.operation(&[], &[0]);
    }
    for _ in 0..readers {
        builder.operation(&[0], &[]);
    }
    let place = move |i: usize| match i % round {
        0 => i / round % rounds,
        reader => rounds + reader - 1,
    };
    (builder, Box::new((0..operations.next_multiple_of(round)).map(place)))
}

/// 1000 variables; each operation reads two and changes a third.
fn random(operations: usize) -> (Builder, Sequence) {
    let mut builder = Builder::new("random", RANDOM_VARIABLES);
    builder.accesses = random_accesses(operations);
    (builder, Box::new(0..operations))
}

/// Operations that each read two of [`RANDOM_VARIABLES`] and change a third, the same ones every
/// time.
pub(crate) fn random_accesses(operations: usize) -> Vec<Access> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut draw = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // The high bits, because the low ones of this generator are the weaker.
        small((state >> 33) as usize % RANDOM_VARIABLES)
    };
    let mut access = || {
        let written = draw();
        let mut other = |not: [u32; 2]| loop {
            let variable = draw();
            if !not.contains(&variable) {
                break variable;
            }
        };
        let first = other([written, written]);
        let second = other([written, first]);
        Access { reads: vec![first, second], writes: vec![written] }
    };
    (0..operations).map(|_| access()).collect()
}

/// 64 points; at step *t* point *i* reads *i−1, i, i+1* of parity *t−1* and changes *i* of parity
/// *t*.
fn stencil(operations: usize) -> (Builder, Sequence) {
    stencil_of("stencil", (STENCIL_STEPS * operations / OPERATIONS).max(2))
}

/// A stencil of 50 steps, to be run again and again: every run is waited for.
fn brief(operations: usize) -> (Builder, Sequence) {
    stencil_of("brief", BRIEF_STEPS.min(operations / STENCIL_POINTS).max(2))
}

fn stencil_of(name: &'static str, steps: usize) -> (Builder, Sequence) {
    // Four steps of different operations, so that steps of one parity differ from each other.
    let distinct_steps = 4;
    let builder = stencil_steps(name, STENCIL_POINTS, distinct_steps);
    (builder, Box::new((0..steps * STENCIL_POINTS).map(move |i| i % (distinct_steps * STENCIL_POINTS))))
}

/// The operations of so many steps of a stencil.
fn stencil_steps(name: &'static str, points: usize, steps: usize) -> Builder {
    let cell = |parity: usize, point: usize| (parity % 2) * points + point;
    let mut builder = Builder::new(name, 2 * points);
    for step in 0..steps {
        for point in 0..points {
            let neighbours = point.saturating_sub(1)..=(point + 1).min(points - 1);
            let reads: Vec<usize> = neighbours.map(|near| cell(step + 1, near)).collect();
            builder.operation(&reads, &[cell(step, point)]);
        }
    }
    builder
}

/// Two steps of a stencil of two points, whose bodies compute for so many iterations besides. Its
/// result is that of so many runs in a row, without a reset between them.
pub fn pair(runs: usize, iterations: u32) -> &'static Program {
    const POINTS: usize = 2;
    const STEPS: usize = 2;
    let builder = stencil_steps("pair", POINTS, STEPS);
    let sequence: Vec<u32> = (0..small(POINTS * STEPS)).collect();
    let hashing = Hashing::new(builder.variables, &builder.accesses, &sequence).after(&sequence, runs);
    let body = Long { hashing, iterations, scratch: Scratch::new(Kernel::Compute) };
    Program::new(builder.name, builder.variables, &builder.accesses, sequence, body)
}
