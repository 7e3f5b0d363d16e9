//! One simulated run: a program or a number of pushers, an engine, a machine, and what came of it.

use crate::program::Program;
use crate::workloads;
use seriatim::{Context, Engine, Kind, Name, Property, RunContext, Variable};
use seriatim_sim::machine::{busy, catch_up, causes, count_from_here, now, run, work, Cause};
use seriatim_sim::thread::Builder;
use seriatim_sim::{lines::Parameters, spin_loop, touch, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// Which engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// Per-device: every operation goes to a worker.
    Shipped,
    /// Per-device, `inline_below` 300 ns: short operations run inside their push.
    Inline,
    /// Naive: the pusher runs everything.
    Naive,
}

/// What the tables call them.
pub const ENGINES: [(How, &str); 3] =
    [(How::Shipped, "shipped"), (How::Inline, "inline below 300 ns"), (How::Naive, "naive")];

/// What came of a run.
pub struct Outcome {
    /// Operations that were counted.
    pub operations: usize,
    /// From the first push to the end of the wait, in nanoseconds.
    pub elapsed: u64,
    /// From the first push to the end of the last one.
    pub pushing: u64,
    /// What moved.
    pub causes: Vec<Cause>,
    /// The share of the time that the workers spent in bodies.
    pub busy: f64,
}

impl Outcome {
    /// Lines that moved, for each operation.
    pub fn lines(&self) -> f64 {
        let moved: u64 = self.causes.iter().map(|cause| cause.moved + cause.upgraded).sum();
        moved as f64 / self.operations as f64
    }

    /// Nanoseconds an operation.
    pub fn each(&self) -> f64 {
        self.elapsed as f64 / self.operations as f64
    }
}

fn engine(how: How, workers: usize) -> Engine {
    let builder = Engine::builder().cpu_workers(workers).pin(false).waiters_help(true);
    let builder = match how {
        How::Naive => builder.kind(Kind::Naive),
        How::Shipped => builder.kind(Kind::PerDevice),
        How::Inline => builder.kind(Kind::PerDevice).inline_below(Duration::from_nanos(300)),
    };
    builder.build().expect("an engine on the simulated machine")
}

/// Data of a body, alone on its line.
#[repr(align(64))]
struct Cell(#[allow(dead_code)] [u8; 64]);

struct Bodies {
    program: &'static Program,
    cells: Vec<Cell>,
    nanoseconds: u64,
}

impl Bodies {
    fn new(program: &'static Program, nanoseconds: u64) -> &'static Bodies {
        let count = program.variables() + program.distinct();
        Box::leak(Box::new(Bodies { program, cells: (0..count).map(|_| Cell([0; 64])).collect(), nanoseconds }))
    }

    /// Charges the lines that the body reads and writes, works, and calls the body itself, which
    /// notices a wrong order.
    fn execute(&self, operation: u32) {
        let cell = |index: usize| &raw const self.cells[index];
        for read in self.program.reads(operation) {
            touch(cell(*read as usize), 8, false);
        }
        let writes = self.program.writes(operation);
        // What changes nothing keeps its result in a cell of its own.
        let spare = self.program.variables() + operation as usize;
        touch(cell(writes.first().map_or(spare, |write| *write as usize)), 8, true);
        work(self.nanoseconds);
        self.program.execute(operation);
    }
}

struct Claims {
    reads: Vec<Variable>,
    writes: Vec<Variable>,
}

/// Runs a workload twice on one engine, pushed by one thread: the first time to fill the pools, the
/// second time to count.
///
/// # Panics
/// If there is no such workload, or if its result is wrong.
pub fn workload(name: &str, operations: usize, how: How, workers: usize, body: u64, machine: &Parameters) -> Outcome {
    let program = workloads::named(name, operations).expect("a known workload");
    let bodies = Bodies::new(program, body);
    run(machine.clone(), move || {
        let engine = engine(how, workers);
        let variables: Vec<Variable> = (0..program.variables()).map(|_| engine.new_variable()).collect();
        let of = |indices: &[u32]| indices.iter().map(|index| variables[*index as usize]).collect();
        let claims: Vec<Claims> = (0..program.distinct() as u32)
            .map(|operation| Claims { reads: of(program.reads(operation)), writes: of(program.writes(operation)) })
            .collect();
        let once = || {
            program.reset();
            count_from_here();
            let start = clock();
            for operation in program.sequence().iter().copied() {
                let claims = &claims[operation as usize];
                push(&engine, &claims.reads, &claims.writes, move || bodies.execute(operation));
            }
            let pushing = clock() - start;
            engine.wait_for_all().expect("operations that do not fail");
            let elapsed = clock() - start;
            program.verify().expect("the result of a serial run");
            let worked: u64 = busy().iter().skip(1).sum();
            Outcome {
                operations: program.sequence().len(),
                elapsed,
                pushing,
                causes: causes(),
                busy: worked as f64 / (elapsed * workers as u64) as f64,
            }
        };
        once();
        once()
    })
}

fn clock() -> u64 {
    now().unwrap_or(0)
}

fn push(engine: &Engine, reads: &[Variable], writes: &[Variable], body: impl FnOnce() + Send + 'static) {
    let body = move |_: &RunContext<'_>| body();
    let pushed = engine.push_sync(body, Context::default(), reads, writes, Property::Normal, 0, Name::default());
    pushed.expect("a push that is not refused");
}

/// What several pushers push.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Each changes variables of its own, in turn.
    Own,
    /// All change one of the same thousand variables, and read two others.
    Common,
}

/// Variables that each pusher has, or that all share.
const OWN: usize = 256;
const COMMON: usize = 1000;

/// Lets so many threads push empty operations at once.
///
/// # Panics
/// If an operation is lost.
pub fn pushers(count: usize, operations: usize, load: Load, how: How, workers: usize, machine: &Parameters) -> Outcome {
    run(machine.clone(), move || {
        let engine = engine(how, workers);
        let variables = match load {
            Load::Own => count * OWN,
            Load::Common => COMMON,
        };
        let variables: Arc<Vec<Variable>> = Arc::new((0..variables).map(|_| engine.new_variable()).collect());
        let arrived = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let threads: Vec<_> = (0..count)
            .map(|number| {
                let (engine, variables, arrived) = (engine.clone(), Arc::clone(&variables), Arc::clone(&arrived));
                let pusher = move || {
                    let mut state = 0x2545_F491_4F6C_DD1D_u64.wrapping_mul(number as u64 + 1);
                    let push_all = |state: &mut u64, operations: usize| {
                        for place in 0..operations {
                            push_one(&engine, &variables, load, number, place, state);
                        }
                    };
                    push_all(&mut state, operations / 2);
                    engine.wait_for_all().expect("operations that do not fail");
                    together(&arrived[0], count);
                    if number == 0 {
                        count_from_here();
                    }
                    together(&arrived[1], count);
                    let start = clock();
                    push_all(&mut state, operations);
                    (start, clock())
                };
                Builder::new().spawn(pusher).expect("a thread of the simulated machine")
            })
            .collect();
        let times: Vec<(u64, u64)> = threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
        assert_eq!(times.len(), count, "a pusher has failed");
        engine.wait_for_all().expect("operations that do not fail");
        let start = times.iter().map(|(start, _)| *start).min().unwrap_or(0);
        let end = times.iter().map(|(_, end)| *end).max().unwrap_or(0);
        let elapsed = clock().max(end) - start;
        Outcome { operations: count * operations, elapsed, pushing: end - start, causes: causes(), busy: 0.0 }
    })
}

fn push_one(engine: &Engine, variables: &[Variable], load: Load, number: usize, place: usize, state: &mut u64) {
    match load {
        Load::Own => push(engine, &[], &[variables[number * OWN + place % OWN]], || ()),
        Load::Common => {
            let mut draw = || {
                *state ^= *state << 13;
                *state ^= *state >> 7;
                *state ^= *state << 17;
                variables[(*state >> 33) as usize % COMMON]
            };
            let (first, second, third) = (draw(), draw(), draw());
            push(engine, &[first, second], &[third], || ());
        }
    }
}

/// Waits until `count` threads are here.
fn together(arrived: &AtomicUsize, count: usize) {
    arrived.fetch_add(1, Ordering::AcqRel);
    while arrived.load(Ordering::Acquire) < count {
        spin_loop();
    }
    catch_up();
}
