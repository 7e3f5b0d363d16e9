//! How many operations a second several threads push and an engine runs.
//!
//! Each thread pushes every so-many-th operation of one program. Which of two threads comes first
//! is open, so the result of a run cannot be that of a serial one; instead each body checks what it
//! finds. A writer makes its cells odd, and then even again; a cell that is odd when an operation
//! begins is being changed by another, and in the end each cell has been changed as often as there
//! are operations that change it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Barrier;
use std::time::Instant;

use serde::Serialize;

use crate::entrants::{measure, Entrant, Runner, Shared};
use crate::program::{small, Access, Body, Program};
use crate::record::{self, Who};

/// What came out.
#[derive(Serialize, Debug)]
pub struct Pushers {
    /// The workload's name.
    pub workload: &'static str,
    /// Threads that push; the entrant's workers come on top.
    pub pushers: usize,
    /// Operations that were pushed, by all threads together.
    pub operations: usize,
    /// Operations a second, of all threads together, to the end of the wait.
    pub per_s: f64,
}

/// The workloads.
pub const NAMES: [&str; 3] = ["disjoint", "read-mostly", "common"];
/// How many threads push.
pub const COUNTS: [usize; 2] = [1, 2];
/// About how many operations a run has.
pub const OPERATIONS: usize = 100_000;

/// Variables that a pusher of `disjoint` has, and those that all pushers of `read-mostly` share.
const VARIABLES: usize = 64;
/// What an operation of `read-mostly` reads, and how many of them there are for one that changes a
/// variable.
const READS: usize = 8;
const READS_FOR_A_WRITE: usize = 1000;
/// How often a run is repeated; after one that warms up; the middle one is taken.
const RUNS: usize = 3;

#[repr(align(64))]
struct Cell(AtomicU64);

/// The bodies: they look at what they read, and count in what they change.
struct Watching {
    accesses: Vec<Access>,
    cells: Vec<Cell>,
    expected: Vec<u64>,
    overlapped: AtomicBool,
}

impl Body for Watching {
    fn execute(&self, operation: u32) {
        let Access { reads, writes } = &self.accesses[operation as usize];
        let cell = |variable: &u32| &self.cells[*variable as usize].0;
        for variable in reads {
            if cell(variable).load(Ordering::Relaxed) % 2 == 1 {
                self.overlapped.store(true, Ordering::Relaxed);
            }
        }
        for variable in writes {
            let before = cell(variable).load(Ordering::Relaxed);
            if before % 2 == 1 {
                self.overlapped.store(true, Ordering::Relaxed);
            }
            // Not in one step: two at once lose one of them.
            cell(variable).store(before + 1, Ordering::Relaxed);
            cell(variable).store(before + 2, Ordering::Relaxed);
        }
    }

    fn reset(&self) {
        self.cells.iter().for_each(|cell| cell.0.store(0, Ordering::Relaxed));
        self.overlapped.store(false, Ordering::Relaxed);
    }

    fn verify(&self) -> Result<(), String> {
        if self.overlapped.load(Ordering::Relaxed) {
            return Err(String::from("an operation ran while another changed what it uses"));
        }
        let value = |cell: &Cell| cell.0.load(Ordering::Relaxed);
        match self.cells.iter().zip(&self.expected).position(|(cell, expected)| value(cell) != *expected) {
            Some(index) => Err(format!("cell {index} was changed more or less often than it should have been")),
            None => Ok(()),
        }
    }
}

/// The workload of that name for so many pushers; none if there is none. Place *i* of its sequence
/// is pushed by thread *i* mod `pushers`.
pub fn named(name: &str, pushers: usize, operations: usize) -> Option<&'static Program> {
    let (name, accesses): (&'static str, Vec<Access>) = match name {
        // A thread's operations go round its own variables.
        "disjoint" => {
            let own = |number: usize| Access { reads: Vec::new(), writes: vec![small(number)] };
            ("disjoint", (0..pushers * VARIABLES).map(own).collect())
        }
        "read-mostly" => {
            let reading = |first: usize| {
                let reads = (0..READS).map(|next| small((first + next * READS + next) % VARIABLES)).collect();
                Access { reads, writes: Vec::new() }
            };
            let writing = |number: usize| Access { reads: Vec::new(), writes: vec![small(number)] };
            ("read-mostly", (0..VARIABLES).map(reading).chain((0..VARIABLES).map(writing)).collect())
        }
        "common" => ("common", vec![Access { reads: Vec::new(), writes: vec![0] }]),
        _ => return None,
    };
    let variables = if name == "disjoint" { pushers * VARIABLES } else { VARIABLES };
    let place = |place: usize| match name {
        "read-mostly" if place % READS_FOR_A_WRITE == READS_FOR_A_WRITE - 1 => {
            VARIABLES + place / READS_FOR_A_WRITE % VARIABLES
        }
        "read-mostly" => place % VARIABLES,
        "common" => 0,
        // Operation `n`, which changes variable `n`, is of pusher `n` mod `pushers`.
        _ => place % (pushers * VARIABLES),
    };
    let sequence: Vec<u32> = (0..operations).map(|number| small(place(number))).collect();
    let mut expected = vec![0; variables];
    for operation in &sequence {
        accesses[*operation as usize].writes.iter().for_each(|variable| expected[*variable as usize] += 2);
    }
    let cells = (0..variables).map(|_| Cell(AtomicU64::new(0))).collect();
    let body = Watching { accesses: accesses.clone(), cells, expected, overlapped: AtomicBool::new(false) };
    Some(Program::new(name, variables, &accesses, sequence, body))
}

/// Runs every workload with every number of pushing threads, and prints a record of each.
///
/// # Errors
/// If the entrant cannot be started, takes pushes of one thread only, or computes something wrong.
pub fn run(entrant: &Entrant, operations: usize) -> Result<(), String> {
    let mut runner = entrant.start()?;
    let who = Who::new(entrant, runner.version());
    for name in NAMES {
        for pushers in COUNTS {
            let program = named(name, pushers, operations).expect("a workload of that name");
            runner.prepare(program)?;
            measure(&mut *runner, program)?;
            let per_s = several(&mut *runner, program, pushers)?;
            record::print("pushers", &who, Pushers { workload: name, pushers, operations, per_s });
        }
    }
    Ok(())
}

/// The middle one of some runs, after one that warms up, in operations a second.
fn several(runner: &mut dyn Runner, program: &Program, pushers: usize) -> Result<f64, String> {
    let shared = runner.shared().ok_or("it takes pushes of one thread only")?;
    let rates: Result<Vec<f64>, String> = (0..=RUNS).map(|_| together(shared, program, pushers)).collect();
    let mut rates = rates?.split_off(1);
    rates.sort_by(f64::total_cmp);
    Ok(rates[rates.len() / 2])
}

fn together(shared: &dyn Shared, program: &Program, pushers: usize) -> Result<f64, String> {
    program.reset();
    let barrier = Barrier::new(pushers);
    let start = std::thread::scope(|scope| {
        let part = |part: usize| {
            barrier.wait();
            let start = Instant::now();
            shared.push_part(part, pushers);
            start
        };
        let others: Vec<_> = (1..pushers).map(|number| scope.spawn(move || part(number))).collect();
        let own = part(0);
        let starts = others.into_iter().map(|other| other.join().expect("a pusher does not panic"));
        starts.fold(own, Instant::min)
    });
    shared.wait();
    let elapsed = start.elapsed();
    program.verify()?;
    Ok(program.sequence().len() as f64 / elapsed.as_secs_f64())
}
