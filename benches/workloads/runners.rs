//! One face for everything that can run a program: this engine in its kinds, and the baseline.

use std::time::{Duration, Instant};

use seriatim::{Context, Engine, Kind, Name, Operator, Property, Variable};

use super::Program;
use crate::baseline;

/// Something that runs programs.
pub trait Runner {
    /// What a table calls it.
    fn name(&self) -> &'static str;

    /// Makes what `program` needs and may be made beforehand: variables, and operators where those are used.
    fn prepare(&mut self, program: &'static Program);

    /// Pushes the whole program that was prepared and waits for its end. This is what is timed: it includes the
    /// pushing thread's own work.
    fn run(&mut self, program: &'static Program);
}

/// Runs a prepared program once, checks its result, and returns how long the run took.
///
/// # Panics
/// If the result is wrong.
pub fn measure(runner: &mut dyn Runner, program: &'static Program) -> Duration {
    program.reset();
    let start = Instant::now();
    runner.run(program);
    let elapsed = start.elapsed();
    program.verify(runner.name());
    elapsed
}

/// How operations reach an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// A closure for every push.
    Dynamic,
    /// Operators made beforehand, one for each distinct operation.
    Operators,
}

/// Makes a runner. Engines start with their threads, so a benchmark makes them when it needs them.
pub type Make = fn() -> Box<dyn Runner>;

/// Everything that the throughput is measured of, in the order of the tables' columns.
pub const RUNNERS: [(&str, Make); 8] = [
    ("naive", || ours("naive", Kind::Naive, 1, Style::Dynamic)),
    ("pooled-1", || ours("pooled-1", Kind::Pooled, 1, Style::Dynamic)),
    (PER_DEVICE, || ours(PER_DEVICE, Kind::PerDevice, 1, Style::Dynamic)),
    ("per-device-2", || ours("per-device-2", Kind::PerDevice, 2, Style::Dynamic)),
    ("per-device-1 operators", || ours("per-device-1 operators", Kind::PerDevice, 1, Style::Operators)),
    (BASELINE, || theirs(BASELINE, 1, Style::Dynamic)),
    ("baseline-2", || theirs("baseline-2", 2, Style::Dynamic)),
    ("baseline-1 operators", || theirs("baseline-1 operators", 1, Style::Operators)),
];

/// The two columns whose ratio is the headline.
pub const PER_DEVICE: &str = "per-device-1";
pub const BASELINE: &str = "baseline-1";

fn ours(name: &'static str, kind: Kind, workers: usize, style: Style) -> Box<dyn Runner> {
    let engine = Engine::builder().kind(kind).cpu_workers(workers).build().expect("an engine");
    Box::new(Seriatim { name, style, engine, accesses: Accesses::default(), operators: Vec::new() })
}

fn theirs(name: &'static str, workers: usize, style: Style) -> Box<dyn Runner> {
    let engine = baseline::Engine::new(workers);
    Box::new(Baseline { name, style, engine, accesses: Accesses::default(), operators: Vec::new() })
}

/// The variables of every distinct operation of a program, as handles of one engine, in flat arrays.
struct Accesses<V> {
    reads: Vec<V>,
    read_ends: Vec<usize>,
    writes: Vec<V>,
    write_ends: Vec<usize>,
}

impl<V> Default for Accesses<V> {
    fn default() -> Accesses<V> {
        Accesses { reads: Vec::new(), read_ends: vec![0], writes: Vec::new(), write_ends: vec![0] }
    }
}

impl<V: Copy> Accesses<V> {
    fn new(program: &Program, new_variable: impl Fn() -> V) -> Accesses<V> {
        let variables: Vec<V> = (0..program.variables()).map(|_| new_variable()).collect();
        let mut accesses = Accesses::default();
        for operation in 0..program.distinct() {
            accesses.reads.extend(program.reads(operation).iter().map(|index| variables[*index as usize]));
            accesses.read_ends.push(accesses.reads.len());
            accesses.writes.extend(program.writes(operation).iter().map(|index| variables[*index as usize]));
            accesses.write_ends.push(accesses.writes.len());
        }
        accesses
    }

    fn reads(&self, operation: u32) -> &[V] {
        let operation = operation as usize;
        &self.reads[self.read_ends[operation]..self.read_ends[operation + 1]]
    }

    fn writes(&self, operation: u32) -> &[V] {
        let operation = operation as usize;
        &self.writes[self.write_ends[operation]..self.write_ends[operation + 1]]
    }
}

/// The numbers of a program's distinct operations.
fn distinct(program: &Program) -> std::ops::Range<u32> {
    0..u32::try_from(program.distinct()).expect("a small number")
}

struct Seriatim {
    name: &'static str,
    style: Style,
    // Before the engine, which waits for the deletion of its operators when it is dropped.
    operators: Vec<Operator>,
    accesses: Accesses<Variable>,
    engine: Engine,
}

impl Runner for Seriatim {
    fn name(&self) -> &'static str {
        self.name
    }

    fn prepare(&mut self, program: &'static Program) {
        self.accesses = Accesses::new(program, || self.engine.new_variable());
        self.operators = match self.style {
            Style::Dynamic => Vec::new(),
            Style::Operators => distinct(program).map(|operation| self.operator(program, operation)).collect(),
        };
    }

    fn run(&mut self, program: &'static Program) {
        match self.style {
            Style::Dynamic => {
                let name = Name::from("benchmark");
                for operation in program.sequence().iter().copied() {
                    let (reads, writes) = (self.accesses.reads(operation), self.accesses.writes(operation));
                    self.engine
                        .push_sync(
                            move |_| program.execute(operation),
                            Context::default(),
                            reads,
                            writes,
                            Property::Normal,
                            0,
                            name,
                        )
                        .expect("a push");
                }
            }
            Style::Operators => {
                for operation in program.sequence() {
                    let operator = &self.operators[*operation as usize];
                    self.engine.push(operator, Context::default(), 0).expect("a push");
                }
            }
        }
        self.engine.wait_for_all().expect("operations that do not fail");
    }
}

impl Seriatim {
    fn operator(&self, program: &'static Program, operation: u32) -> Operator {
        self.engine
            .new_operator(
                move |_| program.execute(operation),
                self.accesses.reads(operation),
                self.accesses.writes(operation),
                Property::Normal,
                "benchmark",
            )
            .expect("an operator")
    }
}

struct Baseline {
    name: &'static str,
    style: Style,
    engine: baseline::Engine,
    accesses: Accesses<baseline::Var>,
    operators: Vec<baseline::Operator>,
}

impl Runner for Baseline {
    fn name(&self) -> &'static str {
        self.name
    }

    fn prepare(&mut self, program: &'static Program) {
        self.accesses = Accesses::new(program, || self.engine.new_variable());
        let (engine, accesses) = (&self.engine, &self.accesses);
        let operator = |operation| {
            let body = move || program.execute(operation);
            engine.new_operator(body, accesses.reads(operation), accesses.writes(operation))
        };
        self.operators = match self.style {
            Style::Dynamic => Vec::new(),
            Style::Operators => distinct(program).map(operator).collect(),
        };
    }

    fn run(&mut self, program: &'static Program) {
        match self.style {
            Style::Dynamic => {
                for operation in program.sequence().iter().copied() {
                    let (reads, writes) = (self.accesses.reads(operation), self.accesses.writes(operation));
                    self.engine.push(move || program.execute(operation), reads, writes, 0);
                }
            }
            Style::Operators => {
                for operation in program.sequence() {
                    self.engine.push_operator(&self.operators[*operation as usize], 0);
                }
            }
        }
        self.engine.wait_for_all();
    }
}
