//! How do this engine and the original's design compare, on this machine, today?
//!
//! Everything runs in one sitting: each repetition of a workload runs all the engines one after another, so that a slow
//! minute of the machine hits all of them. A repetition during which other processes used more than a tenth of a core is
//! run again. Prints one Markdown table, in nanoseconds an operation: the median time and its spread, and below it the
//! median processor time of the whole process. The last column is the time that a cache line took between the cores in
//! the meantime, which explains slow rows.
//!
//! `cargo bench --bench compare`; with `-- --quick` a tenth of the operations, three times; with `-- --test` only once
//! over very few, to see that it works.

mod baseline;
mod workloads;

use std::time::Duration;

use workloads::machine::{cache_line_hop, processor_time, Mode, Quiet};
use workloads::runners::{measure, Runner, BASELINE, PER_DEVICE, RUNNERS};
use workloads::Program;

/// What one engine took for one workload, one entry a repetition, in nanoseconds an operation.
#[derive(Default)]
struct Column {
    time: Vec<f64>,
    processor: Vec<f64>,
}

/// What all the engines took for one workload.
struct Table {
    columns: Vec<Column>,
    /// The cache line's way, one entry a repetition, in nanoseconds.
    hops: Vec<f64>,
    /// Repetitions that were run again because the machine was busy.
    again: usize,
    /// Repetitions that were kept although it was.
    disturbed: usize,
}

/// How much to run.
struct Plan {
    operations: usize,
    repetitions: usize,
    /// How many disturbed repetitions of a workload to run again before taking them as they are.
    retries: usize,
}

fn main() {
    let plan = match Mode::from_arguments() {
        Mode::List => return,
        Mode::Test => Plan { operations: workloads::TEST_OPERATIONS, repetitions: 1, retries: 0 },
        Mode::Quick => Plan { operations: workloads::OPERATIONS / 10, repetitions: 3, retries: 3 },
        Mode::Full => Plan { operations: workloads::OPERATIONS, repetitions: 9, retries: 9 },
    };
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    println!("Nanoseconds an operation: median (lowest–highest) of {} repetitions", plan.repetitions);
    println!("of about {} operations, on {cores} cores; below it the processor time of the", plan.operations);
    println!("whole process. The ratio is {BASELINE} to {PER_DEVICE}.\n");
    print_heading();
    let (mut again, mut disturbed) = (0, 0);
    for program in workloads::all(plan.operations) {
        let table = compare(program, &plan);
        print_rows(program, &table);
        again += table.again;
        disturbed += table.disturbed;
    }
    println!("\n{again} disturbed repetitions were run again, {disturbed} were kept.");
}

/// Runs one workload on all engines, `plan.repetitions` times.
fn compare(program: &'static Program, plan: &Plan) -> Table {
    let mut runners: Vec<Box<dyn Runner>> = RUNNERS.iter().map(|(_, make)| make()).collect();
    let columns = RUNNERS.iter().map(|_| Column::default()).collect();
    let mut table = Table { columns, hops: Vec::new(), again: 0, disturbed: 0 };
    for runner in &mut runners {
        runner.prepare(program);
        // Warms up the engine's pools, its threads and the caches.
        measure(&mut **runner, program);
    }
    while table.hops.len() < plan.repetitions {
        let quiet = Quiet::begin();
        let hop = cache_line_hop();
        let figures: Vec<_> = runners.iter_mut().map(|runner| repetition(&mut **runner, program)).collect();
        if quiet.disturbed() {
            if table.again < plan.retries {
                table.again += 1;
                continue;
            }
            table.disturbed += 1;
        }
        table.hops.push(hop.as_nanos() as f64);
        for (column, (time, processor)) in table.columns.iter_mut().zip(figures) {
            column.time.push(time);
            column.processor.push(processor);
        }
    }
    table
}

/// Time and processor time of one run, in nanoseconds an operation.
fn repetition(runner: &mut dyn Runner, program: &'static Program) -> (f64, f64) {
    // The engine that ran before may keep its workers awake for a moment.
    std::thread::sleep(Duration::from_millis(2));
    let operations = program.sequence().len() as f64;
    let before = processor_time();
    let time = measure(runner, program);
    // This includes resetting and checking the cells, a few millionths of a second in all.
    let processor = processor_time() - before;
    (time.as_nanos() as f64 / operations, processor.as_nanos() as f64 / operations)
}

fn print_heading() {
    print!("| workload |");
    for (name, _) in RUNNERS {
        print!(" {name} |");
    }
    println!(" ratio | hop |");
    println!("|---|{}", "---:|".repeat(RUNNERS.len() + 2));
}

fn print_rows(program: &Program, table: &Table) {
    let columns = &table.columns;
    print!("| {} |", program.name());
    for column in columns {
        let (low, middle, high) = spread(&column.time);
        print!(" {middle:.0} ({low:.0}–{high:.0}) |");
    }
    let median = |name: &str| {
        let index = RUNNERS.iter().position(|(runner, _)| *runner == name).expect("a column of that name");
        spread(&columns[index].time).1
    };
    let (low, hop, high) = spread(&table.hops);
    println!(" {:.1} | {hop:.0} ({low:.0}–{high:.0}) |", median(BASELINE) / median(PER_DEVICE));
    print!("| – processor |");
    for column in columns {
        print!(" {:.0} |", spread(&column.processor).1);
    }
    println!(" | |");
}

/// The lowest, the median and the highest.
fn spread(values: &[f64]) -> (f64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1])
}
