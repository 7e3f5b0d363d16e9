//! One type of closure, of which some calls are long: is the placement of `inline_below` as good as
//! the better of running everything inside its push and shipping everything?
//!
//! Every cell of a grid: the share of long calls, in turn or at random; how long the short and the
//! long bodies are; the threshold. 64 variables in turn, one worker beside the pusher, all other
//! settings as they are by default; the time is from the first push to the end of the wait. A cell
//! is good if the placement takes at most 1 / 0.9 of the better of the two. Prints every cell, the
//! worst one first, with the longest push: how long placement held the pusher up.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use seriatim::{Engine, Kind, Variable};
use seriatim_perf::arguments::Arguments;
use seriatim_perf::machine::Mode;

const VARIABLES: usize = 64;
/// One call in so many is long; 0: none.
const LONG_ONE_IN: [u32; 4] = [0, 64, 16, 4];
const SHORT: [u64; 4] = [0, 100, 250, 500];
const LONG: [u64; 2] = [5_000, 50_000];
const BELOW: [u64; 3] = [100, 300, 1_000];
/// What a run of a cell takes on one thread, about.
const A_RUN: Duration = Duration::from_millis(8);
/// A pause before each run.
const REST: Duration = Duration::from_millis(2);
/// A cell is good from this share of the better plan on.
const GOOD: f64 = 0.9;

fn spin(rounds: u64) {
    (0..rounds).for_each(|round| {
        black_box(round);
    });
}

/// Rounds of [`spin`] in a microsecond.
fn rounds_a_microsecond() -> f64 {
    const ROUNDS: u64 = 1_000_000;
    let run = |_| {
        let start = Instant::now();
        spin(ROUNDS);
        start.elapsed().as_secs_f64()
    };
    ROUNDS as f64 / (0..9).map(run).fold(f64::MAX, f64::min) / 1e6
}

#[derive(Clone, Copy)]
struct Cell {
    one_in: u32,
    random: bool,
    short: u64,
    long: u64,
}

impl Cell {
    fn is_long(&self, operation: u32) -> bool {
        let place = if self.random {
            operation.wrapping_mul(0x9E37_79B9).rotate_left(13).wrapping_mul(0x85EB_CA6B) >> 7
        } else {
            operation
        };
        self.one_in > 0 && place % self.one_in == 0
    }

    /// What an operation takes without an engine, in nanoseconds.
    fn mean(&self) -> f64 {
        let share = if self.one_in == 0 { 0.0 } else { 1.0 / f64::from(self.one_in) };
        self.short as f64 * (1.0 - share) + self.long as f64 * share
    }

    /// Pushes the cell's operations and waits. Returns nanoseconds an operation, the share of the
    /// bodies that ran on the pusher, and the longest push in nanoseconds.
    fn run(&self, engine: &Engine, variables: &[Variable], rounds: f64) -> (f64, f64, u64) {
        static HERE: AtomicU64 = AtomicU64::new(0);
        HERE.store(0, Relaxed);
        let operations = (A_RUN.as_nanos() as f64 / (self.mean() + 30.0)) as u32;
        let [short, long] = [self.short, self.long].map(|time| (time as f64 * rounds / 1e3) as u64);
        // The workers of the engine before look for work for a while, on the same cores.
        std::thread::sleep(REST);
        let (start, mut longest) = (Instant::now(), 0);
        for operation in 0..operations {
            let body = if self.is_long(operation) { long } else { short };
            let began = (operation % 16 == 0).then(Instant::now);
            let closure = move |run: &seriatim::RunContext<'_>| {
                if run.worker().is_none() {
                    HERE.store(HERE.load(Relaxed) + 1, Relaxed);
                }
                spin(body);
            };
            engine.op("").writes([variables[operation as usize % VARIABLES]]).push(closure).expect("the engine runs");
            if let Some(began) = began {
                longest = longest.max(began.elapsed().as_nanos() as u64);
            }
        }
        engine.wait_for_all().expect("no failure");
        let each = start.elapsed().as_nanos() as f64 / f64::from(operations);
        (each, HERE.load(Relaxed) as f64 / f64::from(operations), longest)
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let (repetitions, cells_a_step) = match Arguments::mode("mix") {
        Mode::List => return,
        Mode::Test => (1, 13),
        Mode::Quick => (3, 3),
        Mode::Full => (7, 1),
    };
    let rounds = rounds_a_microsecond();
    let with = |kind, below| {
        let builder = Engine::builder().kind(kind).cpu_workers(1).inline_below(Duration::from_nanos(below));
        builder.build().expect("an engine")
    };
    let mut engines = vec![with(Kind::Naive, 0), with(Kind::PerDevice, 0)];
    engines.extend(BELOW.map(|below| with(Kind::PerDevice, below)));
    let variables: Vec<Vec<Variable>> =
        engines.iter().map(|engine| (0..VARIABLES).map(|_| engine.new_variable()).collect()).collect();
    let mut cells = Vec::new();
    for one_in in LONG_ONE_IN {
        for short in SHORT {
            if one_in == 0 {
                cells.push(Cell { one_in, random: false, short, long: 0 });
                continue;
            }
            for long in LONG {
                cells.extend([false, true].map(|random| Cell { one_in, random, short, long }));
            }
        }
    }
    let mut rows = Vec::new();
    for cell in cells.iter().step_by(cells_a_step) {
        let mut taken = vec![Vec::new(); engines.len()];
        let (mut here, mut longest) = (vec![0.0; engines.len()], vec![0; engines.len()]);
        for _ in 0..repetitions {
            for (index, engine) in engines.iter().enumerate() {
                let (each, on_pusher, push) = cell.run(engine, &variables[index], rounds);
                taken[index].push(each);
                here[index] = on_pusher;
                longest[index] = longest[index].max(push);
            }
        }
        let taken: Vec<f64> = taken.into_iter().map(median).collect();
        let best = taken[0].min(taken[1]);
        for (index, below) in BELOW.iter().enumerate() {
            let placed = index + 2;
            rows.push((
                best / taken[placed],
                *cell,
                *below,
                taken[0],
                taken[1],
                taken[placed],
                here[placed],
                longest[placed],
            ));
        }
    }
    rows.sort_by(|one, other| one.0.total_cmp(&other.0));
    let good = rows.iter().filter(|row| row.0 >= GOOD).count();
    println!(
        "{good} of {} cells have {GOOD} of the better plan. ns an operation, medians of {repetitions}:\n",
        rows.len()
    );
    println!("| of the better | long | short body | long body | threshold | all inside | all shipped | placed | on the pusher | longest push |");
    println!("|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    for (ratio, cell, below, inside, shipped, placed, here, longest) in rows {
        let long = match (cell.one_in, cell.random) {
            (0, _) => "none".to_string(),
            (one_in, random) => format!("1/{one_in} {}", if random { "random" } else { "in turn" }),
        };
        println!(
            "| {ratio:.2} | {long} | {} | {} | {below} | {inside:.0} | {shipped:.0} | {placed:.0} | {:.0} % | {:.1} µs |",
            cell.short,
            cell.long,
            100.0 * here,
            longest as f64 / 1e3
        );
    }
}
