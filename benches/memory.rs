//! What does an operation take from the allocator, what does it lock, and how much memory is it
//! while it waits?
//!
//! The first table counts, for each entrant and workload, the allocations and the locks of one run
//! after some that warm up. A run has up to 200,000 operations in flight, all of them pushed as
//! fast as possible. Locks are counted where an engine counts its own, which is ours. The second
//! gives the bytes of each pending operation: 100,000 are pushed behind one that waits.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

use seriatim::{Context, Engine, Kind, Name, Property, Variable};
use seriatim_perf::arguments::Arguments;
use seriatim_perf::entrants::baseline;
use seriatim_perf::entrants::{built_in, measure, Entrant};
use seriatim_perf::machine::Mode;
use seriatim_perf::workloads;

/// Counts for all threads.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static DEALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        DEALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

fn main() {
    let (operations, pending) = match Arguments::mode("memory") {
        Mode::List => return,
        Mode::Test => (workloads::TEST_OPERATIONS, 1_000),
        Mode::Quick => (workloads::OPERATIONS / 10, 10_000),
        Mode::Full => (workloads::OPERATIONS, 100_000),
    };
    println!("Allocations / locks an operation, in a run of about {operations} operations, after five that warm up:\n");
    print!("| entrant |");
    workloads::NAMES.iter().for_each(|name| print!(" {name} |"));
    println!("\n|---|{}", "---:|".repeat(workloads::NAMES.len()));
    for entrant in built_in(&[1, 2]) {
        counts(&entrant, operations);
    }
    println!("\nBytes of a pending operation, {pending} of them behind one that waits:\n");
    println!("| variables | seriatim-per-device-1 | baseline-1 |\n|---:|---:|---:|");
    for variables in [1, 2, 3, 4, 8, 16] {
        println!(
            "| {variables} | {:.0} | {:.0} |",
            ours_pending(variables, pending),
            theirs_pending(variables, pending)
        );
    }
}

fn counts(entrant: &Entrant, operations: usize) {
    eprintln!("{}", entrant.name);
    let mut runner = entrant.start().expect("an entrant that needs nothing but cargo");
    print!("| {} |", entrant.name);
    for program in workloads::all(operations) {
        if runner.prepare(program).is_err() {
            print!(" – |");
            continue;
        }
        for _ in 0..5 {
            measure(&mut *runner, program).expect("a right result");
        }
        program.reset();
        let (allocations, locks) = (ALLOCATIONS.load(Ordering::Relaxed), seriatim::testing::locks_taken());
        runner.run();
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - allocations;
        let locks = seriatim::testing::locks_taken() - locks;
        program.verify().expect("a right result");
        let each = |count: f64| count / program.sequence().len() as f64;
        match entrant.system {
            "seriatim" => print!(" {:.3} / {:.3} |", each(allocations as f64), each(locks as f64)),
            _ => print!(" {:.3} |", each(allocations as f64)),
        }
    }
    println!();
}

/// Bytes that are taken while `push` fills up an engine whose worker waits, for each of `pending`
/// operations.
fn bytes_of(pending: usize, push: impl Fn(usize)) -> f64 {
    let before = BYTES.load(Ordering::Relaxed);
    (0..pending).for_each(push);
    let after = BYTES.load(Ordering::Relaxed);
    after.saturating_sub(before) as f64 / pending as f64
}

fn ours_pending(variables: usize, pending: usize) -> f64 {
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).build().expect("an engine");
    let all: Vec<Variable> = (0..variables).map(|_| engine.new_variable()).collect();
    let (context, name) = (Context::default(), Name::from("pending"));
    let (open, opened) = channel::<()>();
    let gate = move |_: &seriatim::RunContext<'_>| opened.recv().expect("a gate that is opened");
    engine.push_sync(gate, context, &[], &all, Property::Normal, 0, name).expect("a push");
    let bytes = bytes_of(pending, |_| {
        let (writes, reads) = all.split_at(1);
        engine.push_sync(|_| (), context, reads, writes, Property::Normal, 0, name).expect("a push");
    });
    open.send(()).expect("a worker at the gate");
    engine.wait_for_all().expect("no failure");
    bytes
}

fn theirs_pending(variables: usize, pending: usize) -> f64 {
    let engine = baseline::Engine::new(1);
    let all: Vec<baseline::Var> = (0..variables).map(|_| engine.new_variable()).collect();
    let (open, opened) = channel::<()>();
    engine.push(move || opened.recv().expect("a gate that is opened"), &[], &all, 0);
    let bytes = bytes_of(pending, |_| {
        let (writes, reads) = all.split_at(1);
        engine.push(|| (), reads, writes, 0);
    });
    open.send(()).expect("a worker at the gate");
    engine.wait_for_all();
    bytes
}
