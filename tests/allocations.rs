//! Counts what an operation costs besides time, in steady state: allocations of the whole process, through a counting allocator, and
//! locks, through the one mutex type of the crate (which also counts the calls into `object-pool`, whose pool locks inside).
//!
//! Not counted: what the system does inside `futex` when a thread parks or is woken.

use seriatim::{Completion, Context, Engine, Kind, Property, RunContext, Variable};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::mpsc;
use std::time::{Duration, Instant};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: passed on.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Operations between two moments at which nothing is in flight.
const ROUND: usize = 1_000;
const ROUNDS: usize = 100;

/// An engine, variables to use, and one more that the last operation of each round changes.
struct Bench {
    engine: Engine,
    variables: Vec<Variable>,
    end: Variable,
}

impl Bench {
    fn new(kind: Kind, workers: usize) -> Bench {
        let engine = Engine::builder().kind(kind).cpu_workers(workers).build().unwrap();
        let variables = (0..16).map(|_| engine.new_variable()).collect();
        let end = engine.new_variable();
        Bench { engine, variables, end }
    }

    /// Pushes `ROUND` operations and returns when all have ended. It watches a version, which takes no lock and allocates nothing. With
    /// `held`, all of them pile up behind an operation that ends only after the last push.
    fn round(&self, push: &dyn Fn(&Bench, usize), held: bool) {
        let mut version = self.engine.version(self.end).unwrap() + 1;
        let mut completion = None;
        if held {
            let (send, receive) = mpsc::channel::<Completion>();
            let hold = move |_: &RunContext<'_>, completion| send.send(completion).unwrap();
            let builder = self.engine.op("hold").writes(self.variables.iter().copied()).write(self.end);
            builder.property(Property::Async).push_async(hold).unwrap();
            completion = Some(receive.recv().unwrap());
            version += 1;
        }
        (0..ROUND).for_each(|index| push(self, index));
        let everything = self.variables.iter().copied();
        self.engine.op("end").writes(everything).write(self.end).push(|_| ()).unwrap();
        if let Some(completion) = completion {
            completion.complete();
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.engine.version(self.end).unwrap() < version {
            assert!(Instant::now() < deadline, "a round does not end");
            std::thread::yield_now();
        }
    }

    /// Allocations and locks of `ROUND * ROUNDS` operations, once the pools and queues have grown to what a round can need.
    fn cost(&self, push: &dyn Fn(&Bench, usize)) -> (usize, usize) {
        (0..4).for_each(|_| self.round(push, true));
        (0..20).for_each(|_| self.round(push, false));
        // The last operations of a round may still be on their way home.
        std::thread::sleep(Duration::from_millis(20));
        let measure = || {
            let before = (ALLOCATIONS.load(SeqCst), seriatim::locks_taken());
            (0..ROUNDS).for_each(|_| self.round(push, false));
            (ALLOCATIONS.load(SeqCst) - before.0, seriatim::locks_taken() - before.1)
        };
        // With several workers it takes a while until each queue has had the most that it will ever have at once; what an operation
        // costs in itself shows in every measurement.
        let mut least = measure();
        for _ in 0..10 {
            if least == (0, 0) {
                break;
            }
            least = least.min(measure());
        }
        least
    }
}

const ENGINES: [(Kind, usize); 4] = [(Kind::Naive, 1), (Kind::Pooled, 1), (Kind::PerDevice, 1), (Kind::PerDevice, 2)];

/// A way to push one operation, by its number.
type Shape = Box<dyn Fn(&Bench, usize)>;

fn shapes(bench: &Bench) -> Vec<(&'static str, Shape)> {
    let [x, y] = [bench.variables[0], bench.variables[1]];
    let step = bench.engine.op("step").reads([x]).writes([y]).operator(|_| ()).unwrap();
    vec![
        ("one variable", Box::new(|b, i| b.engine.op("a").writes([b.variables[i % 16]]).push(|_| ()).unwrap())),
        ("a chain", Box::new(|b, _| b.engine.op("a").writes([b.variables[0]]).push(|_| ()).unwrap())),
        (
            "three variables",
            Box::new(|b, i| {
                let [x, y, z] = [i % 16, (i * 7 + 3) % 16, (i * 5 + 1) % 16].map(|i| b.variables[i]);
                b.engine.op("a").reads([x, y]).writes([z]).push(|_| ()).unwrap();
            }),
        ),
        (
            "sixteen variables",
            Box::new(|b, _| b.engine.op("a").reads(b.variables.iter().copied()).push(|_| ()).unwrap()),
        ),
        (
            "a closure of 64 bytes and a priority",
            Box::new(|b, i| {
                let payload = [i as u64; 8];
                let builder = b.engine.op("a").writes([b.variables[i % 16]]).priority(i as i32 % 3);
                builder.push(move |_| assert_eq!(payload[0], payload[7])).unwrap();
            }),
        ),
        (
            "a closure that returns a Result",
            Box::new(|b, i| b.engine.op("a").writes([b.variables[i % 16]]).push(|_| Ok::<(), String>(())).unwrap()),
        ),
        ("an operator", Box::new(move |b, _| b.engine.push(&step, Context::cpu(0), 0).unwrap())),
        (
            "asynchronous",
            Box::new(|b, i| {
                let builder = b.engine.op("a").writes([b.variables[i % 16]]);
                builder.push_async(|_, completion| completion.complete()).unwrap();
            }),
        ),
    ]
}

#[test]
fn steady_state_costs_no_allocation_and_no_lock() {
    println!("{} operations each, from push to completion: allocations, locks", ROUND * ROUNDS);
    let mut all_free = true;
    for (kind, workers) in ENGINES {
        let bench = Bench::new(kind, workers);
        for (name, push) in shapes(&bench) {
            let (allocations, locks) = bench.cost(&*push);
            println!("{kind}, {workers} workers, {name}: {allocations}, {locks}");
            all_free &= (allocations, locks) == (0, 0);
        }
        // The check has teeth: a closure of 72 bytes is boxed, once an operation.
        let boxed = |b: &Bench, i: usize| {
            let payload = [i as u64; 9];
            b.engine.op("a").writes([b.variables[i % 16]]).push(move |_| assert_eq!(payload[0], payload[8])).unwrap();
        };
        let (allocations, locks) = bench.cost(&boxed);
        println!("{kind}, {workers} workers, a closure of 72 bytes: {allocations}, {locks}");
        assert_eq!((allocations, locks), (ROUND * ROUNDS, 0));
        waits(&bench);
    }
    assert!(all_free, "see the lines above");
    several_pushers();
}

/// Waiting for a variable allocates nothing and takes no lock either: the waiter parks on a bell that it keeps.
fn waits(bench: &Bench) {
    let round = || {
        for index in 0..200 {
            let x = bench.variables[index % 16];
            bench.engine.op("a").writes([x]).push(|_| ()).unwrap();
            bench.engine.wait_for_var(x).unwrap();
        }
    };
    (0..20).for_each(|_| round());
    let before = (ALLOCATIONS.load(SeqCst), seriatim::locks_taken());
    (0..100).for_each(|_| round());
    let cost = (ALLOCATIONS.load(SeqCst) - before.0, seriatim::locks_taken() - before.1);
    println!("{}, 20000 pushes and waits: {cost:?}", bench.engine.kind());
    assert_eq!(cost, (0, 0));
}

/// With several pushing threads blocks go through the epochs, which allocate a little for each batch.
fn several_pushers() {
    const OPERATIONS: usize = 200_000;
    for (kind, workers) in ENGINES {
        let bench = Bench::new(kind, workers);
        let push_all = |operations: usize| {
            std::thread::scope(|scope| {
                for thread in 0..2 {
                    let bench = &bench;
                    scope.spawn(move || {
                        for index in 0..operations / 2 {
                            let x = bench.variables[thread * 8 + index % 8];
                            bench.engine.op("a").writes([x]).push(|_| ()).unwrap();
                            if index % 500 == 499 {
                                bench.engine.wait_for_var(x).unwrap();
                            }
                        }
                    });
                }
            });
            bench.engine.wait_for_all().unwrap();
        };
        push_all(OPERATIONS);
        let before = (ALLOCATIONS.load(SeqCst), seriatim::locks_taken());
        push_all(OPERATIONS);
        let (allocations, locks) = (ALLOCATIONS.load(SeqCst) - before.0, seriatim::locks_taken() - before.1);
        println!("{kind}, {workers} workers, two pushers, {OPERATIONS} operations: {allocations}, {locks}");
        assert!(allocations < OPERATIONS / 10, "{allocations} allocations");
        assert!(locks < OPERATIONS / 20, "{locks} locks");
    }
}
