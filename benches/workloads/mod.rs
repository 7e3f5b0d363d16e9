//! The six throughput workloads: programs of small operations whose result shows whether they ran in a right order.
//!
//! A program is a sequence over a set of distinct operations, all laid out in flat arrays before anything is timed. A
//! body is as near to empty as one that can be checked may be: four loads and a store that hash the operation and what
//! it reads into the cell of the variable that it changes. The hash depends on the order of the writers of a cell and on
//! which value every read saw, so an operation that is lost, run twice, or run before another that it depends on gives
//! another result; [`Program::verify`] compares all cells with those of a serial run and panics if one differs.

// Every target that includes this module uses another part of it.
#![allow(dead_code)]

pub mod machine;
pub mod runners;

use std::sync::atomic::{AtomicU64, Ordering};

/// About how many operations a workload has; the stencil has 192,000, the fan a whole number of rounds.
pub const OPERATIONS: usize = 200_000;
/// Enough of them to see that everything runs.
pub const TEST_OPERATIONS: usize = 2_000;

/// The most variables that one operation of a workload reads.
const MOST_READS: usize = 3;
/// Variables of `independent` and `shared-read`, not counting the shared one.
const INDEPENDENT_VARIABLES: usize = 1024;
/// Readers between two writers of `fan`.
const FAN_READERS: usize = 16;
const RANDOM_VARIABLES: usize = 1000;
const STENCIL_POINTS: usize = 64;
const STENCIL_STEPS: usize = 3000;

/// A cell for a body's result, alone on its cache line: bodies must not share what their operations do not.
#[repr(align(64))]
struct Cell(AtomicU64);

/// What a body needs to know: its cells. Unused inputs name a cell that is always zero, so that no body branches.
#[derive(Clone, Copy)]
struct Body {
    output: u32,
    inputs: [u32; MOST_READS],
}

/// A workload, ready to be pushed.
pub struct Program {
    name: &'static str,
    variables: usize,
    /// Which of the distinct operations to push, in order.
    sequence: Vec<u32>,
    bodies: Vec<Body>,
    /// The reads of operation `i` are `reads[read_ends[i]..read_ends[i + 1]]`; the same for its writes.
    reads: Vec<u32>,
    read_ends: Vec<u32>,
    writes: Vec<u32>,
    write_ends: Vec<u32>,
    /// One for each variable, then those of operations that change nothing, then the one that stays zero.
    cells: Vec<Cell>,
    expected: Vec<u64>,
}

impl Program {
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How many variables an engine needs for it.
    pub fn variables(&self) -> usize {
        self.variables
    }

    /// The operations to push, in order, each as a number below [`Program::distinct`].
    pub fn sequence(&self) -> &[u32] {
        &self.sequence
    }

    /// How many different operations there are: what to prepare as reusable operators.
    pub fn distinct(&self) -> usize {
        self.bodies.len()
    }

    /// The variables that operation `operation` reads.
    pub fn reads(&self, operation: usize) -> &[u32] {
        &self.reads[self.read_ends[operation] as usize..self.read_ends[operation + 1] as usize]
    }

    /// The variables that operation `operation` changes.
    pub fn writes(&self, operation: usize) -> &[u32] {
        &self.writes[self.write_ends[operation] as usize..self.write_ends[operation + 1] as usize]
    }

    /// The body of an operation. Its loads and stores are relaxed: the engine under test has to order them.
    #[inline]
    pub fn execute(&self, operation: u32) {
        let body = &self.bodies[operation as usize];
        let load = |cell: u32| self.cells[cell as usize].0.load(Ordering::Relaxed);
        let value = mix(operation, load(body.output), body.inputs.map(load));
        self.cells[body.output as usize].0.store(value, Ordering::Relaxed);
    }

    /// Sets all cells back, before a run.
    pub fn reset(&self) {
        for cell in &self.cells {
            cell.0.store(0, Ordering::Relaxed);
        }
    }

    /// Compares the cells with those of a serial run.
    ///
    /// # Panics
    /// If one differs: what was measured did not do its work.
    pub fn verify(&self, runner: &str) {
        for (index, (cell, expected)) in self.cells.iter().zip(&self.expected).enumerate() {
            let value = cell.0.load(Ordering::Relaxed);
            assert_eq!(value, *expected, "{runner} computed a wrong result for {}: cell {index}", self.name);
        }
    }
}

/// One step of the hash. The three inputs are turned by different amounts, so that they cannot stand for each other.
fn mix(operation: u32, before: u64, inputs: [u64; MOST_READS]) -> u64 {
    before
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .wrapping_add(u64::from(operation) + 1)
        .wrapping_add(inputs[0].rotate_left(7))
        .wrapping_add(inputs[1].rotate_left(23))
        .wrapping_add(inputs[2].rotate_left(41))
}

/// Collects the distinct operations of a program.
struct Builder {
    name: &'static str,
    variables: usize,
    accesses: Vec<(Vec<usize>, Vec<usize>)>,
}

impl Builder {
    fn new(name: &'static str, variables: usize) -> Builder {
        Builder { name, variables, accesses: Vec::new() }
    }

    /// Adds a distinct operation; the first is number 0.
    fn operation(&mut self, reads: &[usize], writes: &[usize]) {
        self.accesses.push((reads.to_vec(), writes.to_vec()));
    }

    /// Lays everything out. Operations are pushed in the order of `sequence`.
    fn build(self, sequence: impl Iterator<Item = usize>) -> Program {
        let index = |value: usize| u32::try_from(value).expect("a small number");
        let readers = self.accesses.iter().filter(|(_, writes)| writes.is_empty()).count();
        let zero = index(self.variables + readers);
        let mut program = Program {
            name: self.name,
            variables: self.variables,
            sequence: sequence.map(index).collect(),
            bodies: Vec::new(),
            reads: Vec::new(),
            read_ends: vec![0],
            writes: Vec::new(),
            write_ends: vec![0],
            cells: (0..=zero).map(|_| Cell(AtomicU64::new(0))).collect(),
            expected: Vec::new(),
        };
        let mut spare_cell = index(self.variables);
        for (reads, writes) in &self.accesses {
            let mut body = Body { output: spare_cell, inputs: [zero; MOST_READS] };
            for (input, read) in body.inputs.iter_mut().zip(reads) {
                *input = index(*read);
            }
            match writes.first() {
                Some(written) => body.output = index(*written),
                None => spare_cell += 1,
            }
            program.bodies.push(body);
            program.reads.extend(reads.iter().copied().map(index));
            program.read_ends.push(index(program.reads.len()));
            program.writes.extend(writes.iter().copied().map(index));
            program.write_ends.push(index(program.writes.len()));
        }
        for operation in &program.sequence {
            program.execute(*operation);
        }
        program.expected = program.cells.iter().map(|cell| cell.0.load(Ordering::Relaxed)).collect();
        program.reset();
        program
    }
}

/// All six, with about `operations` operations each.
///
/// They are leaked: a body can then hold a plain reference, and no engine pays for counting the bodies that hold one.
pub fn all(operations: usize) -> Vec<&'static Program> {
    let programs = [
        independent(operations),
        shared_read(operations),
        chain(operations),
        fan(operations),
        random(operations),
        stencil(operations),
    ];
    programs.into_iter().map(|program| &*Box::leak(Box::new(program))).collect()
}

/// Operation *i* changes variable *i* mod 1024. Four different operations for each variable make their order count.
fn independent(operations: usize) -> Program {
    let distinct = 4 * INDEPENDENT_VARIABLES;
    let mut builder = Builder::new("independent", INDEPENDENT_VARIABLES);
    for operation in 0..distinct {
        builder.operation(&[], &[operation % INDEPENDENT_VARIABLES]);
    }
    builder.build((0..operations).map(|i| i % distinct))
}

/// The same, and all read one more variable, which only the first operation changes.
fn shared_read(operations: usize) -> Program {
    let distinct = 4 * INDEPENDENT_VARIABLES;
    let shared = INDEPENDENT_VARIABLES;
    let mut builder = Builder::new("shared-read", INDEPENDENT_VARIABLES + 1);
    for operation in 0..distinct {
        builder.operation(&[shared], &[operation % INDEPENDENT_VARIABLES]);
    }
    builder.operation(&[], &[shared]);
    builder.build(std::iter::once(distinct).chain((0..operations).map(|i| i % distinct)))
}

/// All change one variable.
fn chain(operations: usize) -> Program {
    let distinct = 64;
    let mut builder = Builder::new("chain", 1);
    for _ in 0..distinct {
        builder.operation(&[], &[0]);
    }
    builder.build((0..operations).map(|i| i % distinct))
}

/// One writer, then 16 readers of one variable, repeated. Reader *j* of every round keeps what it saw in the same cell:
/// the writer between two rounds orders them.
fn fan(operations: usize) -> Program {
    let (round, rounds) = (1 + FAN_READERS, 4);
    let mut builder = Builder::new("fan", 1);
    for _ in 0..rounds {
        builder.operation(&[], &[0]);
    }
    for _ in 0..FAN_READERS {
        builder.operation(&[0], &[]);
    }
    let place = move |i: usize| match i % round {
        0 => i / round % rounds,
        reader => rounds + reader - 1,
    };
    builder.build((0..operations.next_multiple_of(round)).map(place))
}

/// 1000 variables; each operation reads two and changes a third.
fn random(operations: usize) -> Program {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut draw = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // The high bits, because the low ones of this generator are the weaker.
        (state >> 33) as usize % RANDOM_VARIABLES
    };
    let mut builder = Builder::new("random", RANDOM_VARIABLES);
    for _ in 0..operations {
        let written = draw();
        let mut other = |not: [usize; 2]| loop {
            let variable = draw();
            if !not.contains(&variable) {
                break variable;
            }
        };
        let first = other([written, written]);
        let second = other([written, first]);
        builder.operation(&[first, second], &[written]);
    }
    builder.build(0..operations)
}

/// 64 points; at step *t* point *i* reads *i−1, i, i+1* of parity *t−1* and changes *i* of parity *t*.
fn stencil(operations: usize) -> Program {
    let steps = (STENCIL_STEPS * operations / OPERATIONS).max(2);
    // Four steps of different operations, so that steps of one parity differ from each other.
    let distinct_steps = 4;
    let cell = |parity: usize, point: usize| (parity % 2) * STENCIL_POINTS + point;
    let mut builder = Builder::new("stencil", 2 * STENCIL_POINTS);
    for step in 0..distinct_steps {
        for point in 0..STENCIL_POINTS {
            let neighbours = point.saturating_sub(1)..=(point + 1).min(STENCIL_POINTS - 1);
            let reads: Vec<usize> = neighbours.map(|near| cell(step + 1, near)).collect();
            builder.operation(&reads, &[cell(step, point)]);
        }
    }
    builder.build((0..steps * STENCIL_POINTS).map(move |i| i % (distinct_steps * STENCIL_POINTS)))
}
