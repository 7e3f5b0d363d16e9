//! Memory that goes back to the allocator, in bytes that are allocated and not freed. In a process
//! of its own, and one test: others would be counted as well.

mod common;

use common::{by_length, hold, nothing, Gate};
use seriatim::{Context, Engine, Kind, Property, Variable};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{mpsc, Barrier};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes everything on to the system's allocator. What is zeroed or grown goes through
// `alloc` by the trait's own methods.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Relaxed);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Relaxed);
        // SAFETY: passed on. Not through `alloc`: pages that are zero already are not touched.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The bytes by which `work` grows what is allocated.
fn growth(work: impl FnOnce()) -> isize {
    let before = LIVE.load(SeqCst);
    work();
    LIVE.load(SeqCst) as isize - before as isize
}

#[test]
fn what_is_not_needed_is_freed() {
    cycles_of_stop_and_start_leave_nothing();
    #[cfg(target_os = "linux")]
    forks_leave_nothing();
    failures_that_nobody_takes_are_bounded();
    a_dropped_engine_leaves_nothing();
    threads_that_take_turns_take_the_memory_of_one();
    a_log_that_others_empty_is_used_again();
    idle_variables_keep_no_large_blocks();
    variables_of_one_thread_keep_no_blocks();
    a_push_that_takes_its_tickets_back_leaves_its_block();
    what_ends_beside_a_held_read_leaves_nothing();
    what_is_in_flight_takes_a_block_each();
}

/// Each cycle starts threads, wakes them, and ends them.
fn cycles_of_stop_and_start_leave_nothing() {
    const CYCLES: usize = 300;
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(2).priority_workers(1).build().unwrap();
        let cycles = |count: usize| {
            for _ in 0..count {
                engine.op("wakes a worker").push(nothing).unwrap();
                engine.stop().unwrap();
                engine.start().unwrap();
            }
        };
        cycles(CYCLES);
        // On a busy machine a queue comes and goes with 3 kB. What a cycle leaves it leaves each
        // time.
        let grown = (0..3).map(|_| growth(|| cycles(CYCLES)));
        let grown: Vec<_> = grown.take_while(|grown| *grown >= 30 * CYCLES as isize).collect();
        assert!(grown.len() < 3, "{kind}: {CYCLES} cycles left {grown:?} bytes");
    }
}

/// Each fork ends the threads, and starts them again in the parent and in the child; so do the
/// forks of a child.
#[cfg(target_os = "linux")]
fn forks_leave_nothing() {
    const FORKS: usize = 100;
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(2).priority_workers(1).build().unwrap();
        let forks = || {
            for _ in 0..FORKS {
                engine.op("wakes a worker").push(nothing).unwrap();
                engine.wait_for_all().unwrap();
                common::fork_and(|| ());
            }
        };
        let leave_nothing = |who: &str| {
            // The epoch scheme comes and goes with 2 kB at a time, and a worker that is not up yet
            // has less than one that is. What a fork leaves it leaves each time.
            let grown: Vec<_> = (0..3).map(|_| growth(forks)).collect();
            let least = *grown.iter().min().expect("three times");
            assert!(least < 60 * FORKS as isize, "{kind}: {FORKS} forks of {who} left {grown:?} bytes");
        };
        forks();
        leave_nothing("a parent");
        common::fork_and(|| {
            forks();
            leave_nothing("a child");
        });
    }
}

/// Beyond the first 1,000 they are only counted.
fn failures_that_nobody_takes_are_bounded() {
    const FAILURES: usize = 20_000;
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    let kept = engine.new_variable();
    let fail = |count: usize| {
        for _ in 0..count {
            let deleted = engine.new_variable();
            let op = engine.op("fails").property(Property::NoSkip).writes([kept, deleted]);
            op.push(|_| Err("nobody is told of this")).unwrap();
            engine.delete_variable(|_| (), Context::cpu(0), deleted).unwrap();
        }
    };
    fail(2_000);
    let grown = growth(|| fail(FAILURES));
    assert!(grown < FAILURES as isize, "{FAILURES} failures left {grown} bytes");
    let told = engine.wait_for_all().unwrap_err().to_string();
    assert!(told.contains("(and 21000 more failed"), "{told}");
    assert!(engine.wait_for_all().is_ok() && engine.wait_for_var(kept).is_ok());
}

/// The only worker is in a long operation, and a thread that waits takes out of its log what it has
/// pushed. The log is used again.
fn a_log_that_others_empty_is_used_again() {
    const ROUNDS: usize = 50_000;
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).pin(false).build().unwrap();
    let (x, gate) = (engine.new_variable(), Gate::new());
    let stand = gate.clone();
    engine.op("long").push(move |_| stand.pass()).unwrap();
    gate.wait_for_someone();
    let rounds = || {
        for _ in 0..ROUNDS {
            engine.op("step").writes([x]).push(nothing).unwrap();
            engine.wait_for_var(x).unwrap();
        }
    };
    rounds();
    let grown = growth(rounds);
    assert!(grown < ROUNDS as isize, "{ROUNDS} operations left {grown} bytes");
    gate.open();
    engine.wait_for_all().unwrap();
}

/// What remains in a thread that has used the engine is a stub: where its state was, until it uses
/// another engine or ends. And if it has helped, on a busy machine perhaps only in the last round,
/// the memory for rows of a helper: up to 30 kB.
fn a_dropped_engine_leaves_nothing() {
    const BACKLOG: usize = 100_000;
    const STUBS: isize = 160 << 10;
    let backlog = |engine: &Engine, length: usize| {
        let x = engine.new_variable();
        let first = hold(engine, &[], &[x]);
        (0..length).for_each(|_| engine.op("waits").writes([x]).push(nothing).unwrap());
        first.complete();
        engine.wait_for_all().unwrap();
    };
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let make = || Engine::builder().kind(kind).cpu_workers(2).build().unwrap();
        let grown = growth(|| backlog(&make(), BACKLOG));
        assert!(grown < STUBS, "{kind}: {grown} bytes are left of an engine that this thread has used");
        // Others have used it as well, and sleep.
        let (engines, received): (Vec<_>, Vec<_>) = (0..3).map(|_| mpsc::channel::<(Engine, usize)>()).unzip();
        let (said, done) = mpsc::channel();
        std::thread::scope(|scope| {
            for received in received {
                let said = said.clone();
                scope.spawn(move || {
                    received.iter().for_each(|(engine, length)| {
                        backlog(&engine, length);
                        drop(engine);
                        said.send(()).unwrap();
                    });
                });
            }
            let round = |length: usize| {
                let engine = make();
                backlog(&engine, length);
                for thread in &engines {
                    thread.send((engine.clone(), length)).unwrap();
                    done.recv().unwrap();
                }
            };
            // Once for what the threads keep of whatever engine they used last.
            round(100);
            let grown = growth(|| round(BACKLOG));
            assert!(grown < STUBS, "{kind}: {grown} bytes are left of an engine that sleeping threads have used");
            drop(engines);
        });
    }
}

/// What has come back to a thread that sleeps is used by the others, and no queue keeps the room of
/// a long row.
fn threads_that_take_turns_take_the_memory_of_one() {
    for helps in [false, true] {
        // Of what a thread has spent itself it may keep some megabytes. How much it spends depends
        // on who gets the cores. Without sharing it would be six times the first each time.
        let shares = |(first, grown): (isize, isize)| grown < 3 * first;
        assert!(
            (0..8).any(|_| shares(turns(helps))),
            "waiters help: {helps}: more than three times the memory of a first backlog"
        );
    }
}

/// The bytes that a first thread's backlog leaves on a fresh engine, and those of six more threads.
fn turns(helps: bool) -> (isize, isize) {
    const BACKLOG: usize = 100_000;
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).waiters_help(helps).build().unwrap();
    let take_turns = |threads: usize| {
        let (said, done) = mpsc::channel();
        let over = Barrier::new(threads + 1);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let (said, over, engine) = (said.clone(), &over, &engine);
                scope.spawn(move || {
                    let x = engine.new_variable();
                    let first = hold(engine, &[], &[x]);
                    (0..BACKLOG).for_each(|_| engine.op("waits").reads([x]).push(nothing).unwrap());
                    first.complete();
                    engine.wait_for_all().unwrap();
                    said.send(()).unwrap();
                    over.wait();
                });
                done.recv().unwrap();
            }
            over.wait();
        });
    };
    let first = growth(|| take_turns(1));
    let grown = growth(|| take_turns(6));
    println!("waiters help: {helps}; the first thread's backlog left {first} bytes, those of six more {grown}");
    assert!(first >= (128 * BACKLOG) as isize, "the engine keeps the blocks");
    (first, grown)
}

/// A variable that one thread uses keeps no block of the operation that changed it last, however
/// large. One that several threads use keeps it: so says `docs/src/limits.md`.
fn idle_variables_keep_no_large_blocks() {
    const READS: usize = 1_000;
    const ROUND: usize = 100;
    // A block of 1,001 accesses.
    const BLOCK: isize = 16_384;
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).build().unwrap();
    let shared: Vec<_> = (0..READS).map(|_| engine.new_variable()).collect();
    let large_writes = || {
        let variables: Vec<_> = (0..ROUND).map(|_| engine.new_variable()).collect();
        for x in &variables {
            engine.op("large").reads(shared.iter().copied()).writes([*x]).push(nothing).unwrap();
            engine.wait_for_var(*x).unwrap();
        }
        variables
    };
    let used = |variables: &[Variable]| {
        variables.iter().for_each(|x| engine.op("small").writes([*x]).push(nothing).unwrap());
        engine.wait_for_all().unwrap();
    };
    let deleted = |variables: Vec<Variable>| {
        variables.into_iter().for_each(|x| engine.delete_variable(|_| (), Context::cpu(0), x).unwrap());
        engine.wait_for_all().unwrap();
    };
    let mut variables = Vec::new();
    let kept = growth(|| variables = large_writes());
    used(&variables);
    let after_uses = growth(|| (0..5).for_each(|_| used(&large_writes())));
    let after_deletions = growth(|| (0..5).for_each(|_| deleted(large_writes())));
    println!("{ROUND} idle variables keep {kept} bytes; then uses leave {after_uses}, deletions {after_deletions}");
    // The thread and the worker keep some for what comes next.
    let most = ROUND as isize * BLOCK / 4;
    assert!(kept < most, "{kept} bytes are kept");
    assert!(after_uses < most, "{after_uses} bytes more after five rounds of uses");
    assert!(after_deletions < most, "{after_deletions} bytes more after five rounds of deletions");
}

/// The last operation of a variable that one thread uses has no block any more when it has ended.
fn variables_of_one_thread_keep_no_blocks() {
    const VARIABLES: usize = 50_000;
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    let use_some = |count: usize| {
        for _ in 0..count {
            let x = engine.new_variable();
            engine.op("in a block").writes([x]).push_async(|_, completion| completion.complete()).unwrap();
            engine.op("inside its push").writes([x]).push(nothing).unwrap();
            engine.delete_variable(|_| (), Context::cpu(0), x).unwrap();
        }
    };
    use_some(VARIABLES / 10);
    let grown = growth(|| use_some(VARIABLES));
    // A block has 128 bytes.
    assert!(grown < 8 * VARIABLES as isize, "{VARIABLES} variables left {grown} bytes");
}

/// With so much in flight that the ring of blocks is full. A variable that is named twice sends a
/// push the long way after it has got a block.
fn a_push_that_takes_its_tickets_back_leaves_its_block() {
    const IN_FLIGHT: usize = 10_000;
    const PUSHES: usize = 100_000;
    // A worker that has lost its core meanwhile leaves a backlog, which takes blocks too.
    const BACKLOG: usize = 1_000;
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).build().unwrap();
    let [x, y] = [engine.new_variable(), engine.new_variable()];
    let first = hold(&engine, &[], &[x]);
    (0..IN_FLIGHT).for_each(|_| engine.op("waits").reads([x]).push(nothing).unwrap());
    let twice = |count: usize| {
        for number in 1..=count {
            engine.op("named twice").reads([y]).writes([y]).push(nothing).unwrap();
            if number % BACKLOG == 0 {
                engine.wait_for_var(y).unwrap();
            }
        }
    };
    twice(PUSHES);
    let grown = growth(|| twice(PUSHES));
    first.complete();
    engine.wait_for_all().unwrap();
    // A block has 256 bytes.
    assert!(grown < 64 * PUSHES as isize, "{PUSHES} pushes that went the long way left {grown} bytes");
}

/// Reads of one variable do not wait for each other, so they end in any order. What has ended goes
/// back however long another read is under way, also when a write waits behind all of them.
fn what_ends_beside_a_held_read_leaves_nothing() {
    const FIRST: usize = 100_000;
    // A worker that has lost its core leaves a backlog, which takes blocks.
    const BACKLOG: usize = 1_000;
    let operations = by_length(400_000, 5_000_000);
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        for pushers in [1, 2] {
            let engine = Engine::builder().kind(kind).cpu_workers(1).build().unwrap();
            let x = engine.new_variable();
            let held = hold(&engine, &[x], &[]);
            let own: Vec<_> = (0..pushers).map(|_| engine.new_variable()).collect();
            let reads = |y: Variable, count: usize| {
                for number in 1..=count {
                    engine.op("reads").read(x).write(y).push(nothing).unwrap();
                    if number % BACKLOG == 0 {
                        engine.wait_for_var(y).unwrap();
                    }
                }
            };
            let [begin, end] = &[Barrier::new(pushers), Barrier::new(pushers)];
            let grown = std::thread::scope(|scope| {
                for y in own.iter().copied().skip(1) {
                    let reads = &reads;
                    scope.spawn(move || {
                        reads(y, FIRST);
                        begin.wait();
                        reads(y, operations / pushers);
                        end.wait();
                        begin.wait(); // What a thread keeps goes when it ends.
                    });
                }
                reads(own[0], FIRST);
                begin.wait();
                let grown = growth(|| {
                    reads(own[0], operations / pushers);
                    end.wait();
                });
                begin.wait();
                grown
            });
            held.complete();
            engine.wait_for_all().unwrap();
            println!("{kind}, {pushers} pushers: {operations} reads beside a held one left {grown} bytes");
            assert!(grown < 1 << 20, "{kind}, {pushers} pushers: {operations} reads beside one left {grown} bytes");
        }
    }
}

/// Of an operation with up to three variables and a closure of 64 bytes: its block has 256 bytes,
/// and the log that it lies in until a worker comes to it at most 4 kB for each 448 entries.
const IN_FLIGHT: f64 = 266.0;

fn what_is_in_flight_takes_a_block_each() {
    let operations = by_length(200_000, 1_000_000);
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        for count in 1..=3 {
            for priority in [0, 1] {
                let engine = Engine::builder().kind(kind).cpu_workers(1).build().unwrap();
                let variables: Vec<_> = (0..count).map(|_| engine.new_variable()).collect();
                let held = hold(&engine, &[], &variables);
                let grown = growth(|| {
                    for _ in 0..operations {
                        let bytes = std::hint::black_box([1_u8; 64]);
                        let body = move |_: &seriatim::RunContext<'_>| _ = std::hint::black_box(&bytes);
                        let op = engine.op("waits").writes(variables.iter().copied()).priority(priority);
                        op.push(body).unwrap();
                    }
                });
                held.complete();
                engine.wait_for_all().unwrap();
                let each = grown as f64 / operations as f64;
                let text = format!("{kind}, {count} variables, priority {priority}: {each:.2} bytes each in flight");
                println!("{text}");
                assert!(each < IN_FLIGHT, "{text}");
            }
        }
    }
}
