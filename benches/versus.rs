//! How does this engine compare with the original's design and with the runtimes of crates.io, on
//! this machine, today?
//!
//! Everything runs in one sitting: each repetition of a workload runs all entrants one after
//! another, so that a slow minute of the machine hits all of them. A repetition during which other
//! processes used more than a tenth of a core is run again. Prints Markdown tables: nanoseconds an
//! operation, the median and its spread; the median processor time of the whole process; and last,
//! how many times longer each takes than the fastest of ours for that workload.
//!
//! `cargo bench --bench versus`; with `-- --quick` a tenth of the operations, three times; with `--
//! --test` only once over very few, to see that it works. `--save-baseline NAME` keeps the medians,
//! and `--baseline NAME` shows the new ones as multiples of those. `scripts/report.sh` does the
//! same with peers that are not crates.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use seriatim_perf::arguments::{keep, kept, kept_at, Arguments, Figures};
use seriatim_perf::entrants::{built_in, measure, Entrant, Runner};
use seriatim_perf::machine::{cache_line_hop, cores, processor_time, Mode, Quiet};
use seriatim_perf::program::Program;
use seriatim_perf::workloads;

/// How much to run.
struct Plan {
    operations: usize,
    repetitions: usize,
    /// How many disturbed repetitions of a workload to run again before taking them as they are.
    retries: usize,
}

/// What one entrant took for one workload, one entry a repetition, in nanoseconds an operation.
#[derive(Default, Clone)]
struct Cell {
    time: Vec<f64>,
    processor: Vec<f64>,
}

/// What everybody took for one workload.
struct Column {
    workload: &'static str,
    /// One for each entrant; empty for those that cannot express the workload.
    cells: Vec<Cell>,
    /// The cache line's way, one entry a repetition, in nanoseconds.
    hops: Vec<f64>,
}

/// How often a repetition was disturbed.
#[derive(Default)]
struct Disturbed {
    run_again: usize,
    kept: usize,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("versus: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let arguments = Arguments::from_process("versus")?;
    let plan = match arguments.mode {
        Mode::List => return Ok(()),
        Mode::Test => Plan { operations: workloads::TEST_OPERATIONS, repetitions: 1, retries: 0 },
        Mode::Quick => Plan { operations: workloads::OPERATIONS / 10, repetitions: 3, retries: 3 },
        Mode::Full => Plan { operations: workloads::OPERATIONS, repetitions: 9, retries: 9 },
    };
    let place = |name: &String| kept_at("versus", name);
    // Before the measurement, so that a name without figures is known at once.
    let baseline = arguments.baseline.as_ref().map(|name| kept(&place(name))).transpose()?;
    let entrants = built_in(&[1, 2]);
    let mut disturbed = Disturbed::default();
    let programs = workloads::all(plan.operations).into_iter();
    let columns: Vec<Column> = programs.map(|program| compare(&entrants, program, &plan, &mut disturbed)).collect();

    let (operations, cores) = (plan.operations, cores());
    println!(
        "\nMedian (lowest–highest) of {} repetitions of about {operations} operations, {cores} cores.",
        plan.repetitions
    );
    println!("{} disturbed repetitions were run again, {} were kept.\n", disturbed.run_again, disturbed.kept);
    print_table("nanoseconds an operation", &entrants, &columns, |cell, _| {
        let (low, middle, high) = spread(&cell.time);
        format!("{middle:.0} ({low:.0}–{high:.0})")
    });
    print!("| *a cache line's way between cores* |");
    for column in &columns {
        let (low, middle, high) = spread(&column.hops);
        print!(" {middle:.0} ({low:.0}–{high:.0}) |");
    }
    println!("\n");
    print_table("nanoseconds of processor time an operation", &entrants, &columns, |cell, _| {
        format!("{:.0}", spread(&cell.processor).1)
    });
    println!();
    let best = |column: &Column| {
        let ours = entrants.iter().zip(&column.cells).filter(|(entrant, _)| entrant.system == "seriatim");
        ours.map(|(_, cell)| spread(&cell.time).1).fold(f64::INFINITY, f64::min)
    };
    print_table("time, as a multiple of our fastest", &entrants, &columns, |cell, column| {
        format!("{:.1}", spread(&cell.time).1 / best(column))
    });
    let medians = figures(&entrants, &columns);
    if let (Some(before), Some(name)) = (&baseline, &arguments.baseline) {
        println!();
        print_against(&format!("time, as a multiple of '{name}'"), &entrants, &medians, before);
    }
    if let (Mode::Test, Some(name)) = (arguments.mode, &arguments.save) {
        println!("\nA run of --test is too short for a baseline: '{name}' is left as it is.");
    } else if let Some(name) = &arguments.save {
        keep(&place(name), &medians)?;
        println!("\nThe medians are kept as '{name}': {}", place(name).display());
    }
    Ok(())
}

/// The median time of each entrant in each workload that it can express.
fn figures(entrants: &[Entrant], columns: &[Column]) -> Figures {
    let medians = |column: &Column| {
        let run = entrants.iter().zip(&column.cells).filter(|(_, cell)| !cell.time.is_empty());
        run.map(|(entrant, cell)| (entrant.name.to_string(), spread(&cell.time).1)).collect()
    };
    columns.iter().map(|column| (column.workload.to_owned(), medians(column))).collect()
}

/// A table of the figures as multiples of earlier ones; a dash where there was none.
fn print_against(title: &str, entrants: &[Entrant], now: &Figures, before: &Figures) {
    print!("| {title} |");
    now.keys().for_each(|workload| print!(" {workload} |"));
    println!("\n|---|{}", "---:|".repeat(now.len()));
    for entrant in entrants {
        print!("| {} |", entrant.name);
        for (workload, figures) in now {
            let of = |figures: &BTreeMap<String, f64>| figures.get(&*entrant.name).copied();
            match (of(figures), before.get(workload).and_then(of)) {
                (Some(now), Some(before)) => print!(" {:.2} |", now / before),
                _ => print!(" – |"),
            }
        }
        println!();
    }
}

/// Runs one workload on all entrants, `plan.repetitions` times.
fn compare(entrants: &[Entrant], program: &'static Program, plan: &Plan, disturbed: &mut Disturbed) -> Column {
    let mut runners: Vec<Option<Box<dyn Runner>>> = entrants.iter().map(|entrant| prepared(entrant, program)).collect();
    let mut column =
        Column { workload: program.name(), cells: vec![Cell::default(); entrants.len()], hops: Vec::new() };
    let mut retries = plan.retries;
    while column.hops.len() < plan.repetitions {
        eprintln!("{}: repetition {} of {}", program.name(), column.hops.len() + 1, plan.repetitions);
        let quiet = Quiet::begin();
        let hop = cache_line_hop();
        let figures: Vec<_> = runners.iter_mut().map(|runner| repetition(runner.as_deref_mut(), program)).collect();
        if quiet.disturbed() {
            if retries > 0 {
                retries -= 1;
                disturbed.run_again += 1;
                continue;
            }
            disturbed.kept += 1;
        }
        column.hops.push(hop.as_nanos() as f64);
        for (cell, (time, processor)) in
            column.cells.iter_mut().zip(figures).filter_map(|(cell, figure)| Some((cell, figure?)))
        {
            cell.time.push(time);
            cell.processor.push(processor);
        }
    }
    column
}

/// A warm runner with the program prepared; none if it cannot express it.
fn prepared(entrant: &Entrant, program: &'static Program) -> Option<Box<dyn Runner>> {
    let mut runner = entrant.start().expect("an entrant that needs nothing but cargo");
    runner.prepare(program).ok()?;
    // Warms up the engine's pools, its threads and the caches.
    measure(&mut *runner, program).expect("a right result");
    Some(runner)
}

/// Time and processor time of one run, in nanoseconds an operation.
fn repetition(runner: Option<&mut (dyn Runner + 'static)>, program: &Program) -> Option<(f64, f64)> {
    let runner = runner?;
    // The engine that ran before may keep its workers awake for a moment.
    std::thread::sleep(Duration::from_millis(2));
    let operations = program.sequence().len() as f64;
    let before = processor_time();
    let time = measure(runner, program).expect("a right result");
    // This includes resetting and checking the cells, a few millionths of a second in all.
    let processor = processor_time() - before;
    Some((time.as_nanos() as f64 / operations, processor.as_nanos() as f64 / operations))
}

fn print_table(title: &str, entrants: &[Entrant], columns: &[Column], show: impl Fn(&Cell, &Column) -> String) {
    print!("| {title} |");
    columns.iter().for_each(|column| print!(" {} |", column.workload));
    println!("\n|---|{}", "---:|".repeat(columns.len()));
    for (index, entrant) in entrants.iter().enumerate() {
        print!("| {} |", entrant.name);
        for column in columns {
            match &column.cells[index] {
                cell if cell.time.is_empty() => print!(" – |"),
                cell => print!(" {} |", show(cell, column)),
            }
        }
        println!();
    }
}

/// The lowest, the median and the highest.
fn spread(values: &[f64]) -> (f64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1])
}
