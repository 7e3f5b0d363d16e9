//! What an operation costs besides time, once the engine is warm: no allocation, no lock, and no
//! call into the system.
//!
//! Counted are, from push to completion and by the thread that does it (those that push, and all
//! others, which are the engine's): every call of the global allocator; every lock, through the
//! crate's one lock type, which also counts the calls into `object-pool`, whose pool locks inside
//! (`tests/locks.rs` shows that there are no others); and every futex call, of whatever library.
//! Not counted are locks inside the system's allocator, which is not called, and inside the kernel.
//! Threads that park and threads that unpark them make futex calls too: so that what remains would
//! be locks that somebody waits for, the runs that count futex calls keep their workers spinning
//! and wait by looking.
//!
//! One test, since the counters are the process's.

mod common;
#[path = "allocations/counting.rs"]
mod counting;
#[path = "allocations/devices.rs"]
mod devices;
#[path = "allocations/graphs.rs"]
mod graphs;
#[path = "allocations/late.rs"]
mod late;
#[cfg(target_os = "linux")]
#[path = "allocations/turns.rs"]
mod turns;

use common::*;
use counting::*;
use seriatim::{
    CancelToken, Completion, Context, Engine, IdlePolicy, Kind, Operator, Property, RunContext, StartLimits, Value,
    Variable, WhenFull, Write,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

// ---- Operations ----

/// Operations that have ended.
static ENDED: AtomicUsize = AtomicUsize::new(0);
/// Whether bodies take their time, so that a backlog builds up.
static SLOW: AtomicBool = AtomicBool::new(false);

fn body() {
    if SLOW.load(Relaxed) {
        spin(std::time::Duration::from_micros(3));
    }
    ENDED.fetch_add(1, Release);
}

/// A closure of so many bytes. One of 512 is the largest that costs nothing.
fn sized<const BYTES: usize>() -> impl FnOnce(&RunContext<'_>) + Send + 'static {
    let ballast = std::hint::black_box([1u8; BYTES]);
    let closure = move |_: &RunContext<'_>| {
        std::hint::black_box(&ballast);
        body();
    };
    assert_eq!(size_of_val(&closure), BYTES);
    closure
}

fn push_largest(stage: &Stage, variable: Variable) {
    stage.engine.op("op").writes([variable]).push(sized::<512>()).unwrap();
}

/// Everything that a run of one shape uses.
struct Stage {
    engine: Engine,
    variables: Vec<Variable>,
    values: [Value<u64>; 8],
    step: Operator,
    asynchronous: Operator,
    graphs: graphs::Graphs,
    /// A token that is not cancelled, and a deadline.
    limits: StartLimits,
}

impl Stage {
    fn new(kind: Kind, workers: usize, idle: IdlePolicy) -> Stage {
        let builder = Engine::builder().kind(kind).cpu_workers(workers).priority_workers(1).idle(idle);
        let engine = builder.waiters_help(false).build().unwrap();
        let variables: Vec<Variable> = (0..64).map(|_| engine.new_variable()).collect();
        let step = engine.op("step").reads([variables[1]]).writes([variables[0]]).operator(|_| body()).unwrap();
        let complete = |_: &RunContext<'_>, completion: Completion| {
            body();
            completion.complete();
        };
        let asynchronous = engine.op("tick").writes([variables[0]]).async_operator(complete).unwrap();
        let values = [0; 8].map(|number| engine.value(number));
        let limits = StartLimits::from(&CancelToken::new()).deadline(Instant::now() + Duration::from_secs(3_600));
        Stage { graphs: graphs::Graphs::new(&engine), engine, variables, values, step, asynchronous, limits }
    }

    fn name(&self) -> String {
        format!("{} {}", self.engine.kind(), self.engine.settings().cpu_workers)
    }

    fn variable(&self, number: usize) -> Variable {
        self.variables[number % self.variables.len()]
    }
}

type Push = fn(&Stage, usize);

/// The shapes of operation that should cost nothing.
const SHAPES: [(&str, Push); 31] = [
    ("no variable", |s, _| s.engine.op("op").push(|_| body()).unwrap()),
    ("1 variable", |s, i| s.engine.op("op").writes([s.variable(i)]).push(|_| body()).unwrap()),
    ("64 bytes", |s, i| s.engine.op("op").writes([s.variable(i)]).push(sized::<64>()).unwrap()),
    ("65 bytes", |s, i| s.engine.op("op").writes([s.variable(i)]).push(sized::<65>()).unwrap()),
    ("512 bytes", |s, i| push_largest(s, s.variable(i))),
    ("512 bytes, 8 variables", |s, i| {
        let builder = s.engine.op("op").reads((0..7).map(|n| s.variable(i + n)));
        builder.writes([s.variable(i * 11 + 7)]).push(sized::<512>()).unwrap();
    }),
    ("512 bytes, asynchronous", |s, i| {
        let ballast = std::hint::black_box([1u8; 512]);
        let start = move |_: &RunContext<'_>, completion: Completion| {
            std::hint::black_box(&ballast);
            body();
            completion.complete();
        };
        s.engine.op("op").writes([s.variable(i)]).push_async(start).unwrap();
    }),
    ("short, asynchronous", |s, i| {
        let start = |_: &RunContext<'_>, completion: Completion| {
            body();
            completion.complete();
        };
        s.engine.op("op").writes([s.variable(i)]).short().push_async(start).unwrap();
    }),
    ("3 variables", |s, i| {
        let builder = s.engine.op("op").reads([s.variable(i * 7), s.variable(i * 13 + 5)]);
        builder.writes([s.variable(i * 11 + 3)]).push(|_| body()).unwrap();
    }),
    ("12 variables", |s, i| {
        let builder = s.engine.op("op").reads((0..11).map(|n| s.variable(i + n)));
        builder.writes([s.variable(i * 11 + 3)]).push(|_| body()).unwrap();
    }),
    ("1 writer, 16 readers", |s, i| {
        let builder = s.engine.op("op");
        let builder = if i % 17 == 0 { builder.writes([s.variable(0)]) } else { builder.reads([s.variable(0)]) };
        builder.push(|_| body()).unwrap();
    }),
    ("priorities", |s, i| {
        let builder = s.engine.op("op").writes([s.variable(i)]).priority(i as i32 % 5 - 2);
        builder.push(|_| body()).unwrap();
    }),
    ("properties", |s, i| {
        let properties = [Property::CpuPrioritized, Property::CopyToGpu, Property::Async, Property::NoSkip];
        let builder = s.engine.op("op").writes([s.variable(i)]).property(properties[i % 4]);
        builder.push(|_| body()).unwrap();
    }),
    ("contexts", |s, i| {
        let builder = s.engine.op("op").writes([s.variable(i)]).context(Context::cpu(i as u32 % 5));
        builder.push(|_| body()).unwrap();
    }),
    ("asynchronous", |s, i| {
        let start = |_: &RunContext<'_>, completion: Completion| {
            body();
            completion.complete();
        };
        s.engine.op("op").writes([s.variable(i)]).push_async(start).unwrap();
    }),
    ("operator", |s, _| s.engine.push(&s.step, Context::cpu(0), 0).unwrap()),
    ("asynchronous operator", |s, _| s.engine.push(&s.asynchronous, Context::cpu(0), 0).unwrap()),
    ("2 values", |s, i| {
        let (x, y) = (&s.values[i % 8], &s.values[(i * 5 + 3) % 8]);
        let pushed = match std::ptr::eq(x, y) {
            true => s.engine.op("op").run(Write(y), |_| body()),
            false => s.engine.op("op").run((x, Write(y)), |(_, _)| body()),
        };
        pushed.unwrap();
    }),
    ("8 values", |s, _| {
        let [first, second, rest @ ..] = &s.values;
        s.engine.op("op").run((rest.each_ref(), first, Write(second)), |(_, _, _)| body()).unwrap();
    }),
    ("replay", graphs::chain),
    ("replay on all lanes", graphs::spread),
    ("replay of every kind", graphs::mixed),
    ("replay with a parameter", graphs::with_parameter),
    ("within limits", |s, i| {
        let op = s.engine.op("op").writes([s.variable(i)]).limits(s.limits.clone());
        op.push(sized::<64>()).unwrap();
    }),
    ("operator within limits", |s, _| {
        s.engine.push_limited(&s.step, Context::cpu(0), 0, s.limits.clone()).unwrap();
    }),
    ("replay within limits", graphs::limited),
    ("result", |s, i| drop(s.engine.op("op").writes([s.variable(i)]).compute(|_| body()).unwrap())),
    ("a wait as a future", |s, i| {
        s.engine.op("op").writes([s.variable(i)]).push(|_| body()).unwrap();
        drop(s.engine.ready(s.variable(i)));
    }),
    ("a scope of 3 children", |s, i| {
        let engine = s.engine.clone();
        let body = move |_: &RunContext<'_>| {
            engine.scope(|s| (0..3).try_for_each(|_| s.op("child").push(|_| ()))).unwrap();
            body();
        };
        s.engine.op("op").writes([s.variable(i)]).push(body).unwrap();
    }),
    ("future", |s, i| s.engine.op("op").writes([s.variable(i)]).push_future(async { body() }).unwrap()),
    ("future that is polled twice", |s, i| {
        let mut is_first = true;
        let twice = std::future::poll_fn(move |context| {
            if std::mem::take(&mut is_first) {
                context.waker().wake_by_ref();
                return std::task::Poll::Pending;
            }
            body();
            std::task::Poll::Ready(())
        });
        s.engine.op("op").writes([s.variable(i)]).push_future(twice).unwrap();
    }),
];

/// At most so many operations are in flight in a measured run.
const CHUNK: usize = 500;

/// Pushes operations, never too many at once, and returns when all have ended. Waits without the
/// engine's help: looking is free.
fn push_all(stage: &Stage, push: Push, operations: usize, chunk: usize) {
    let mut left = operations;
    while left > 0 {
        let now = left.min(chunk);
        let until = ENDED.load(Relaxed) + now;
        (0..now).for_each(|number| push(stage, left + number));
        wait_until(until);
        left -= now;
    }
}

fn wait_until(ended: usize) {
    while ENDED.load(Acquire) < ended {
        std::thread::yield_now();
    }
}

/// Lets every part of an engine grow to what it may come to hold: blocks for a backlog, and the
/// queues of all workers.
fn warm_up(stage: &Stage, push: Push) {
    SLOW.store(true, Relaxed);
    push_all(stage, push, 4 * CHUNK, 4 * CHUNK);
    SLOW.store(false, Relaxed);
    push_all(stage, push, 10 * CHUNK, CHUNK);
}

// ---- The test ----

/// How many operations a shape is counted over.
fn operations() -> usize {
    by_length(5_000, 50_000)
}

fn stages(idle: IdlePolicy) -> Vec<Stage> {
    let stages = [(Kind::Naive, 1), (Kind::Pooled, 1), (Kind::Pooled, 2), (Kind::PerDevice, 1), (Kind::PerDevice, 3)];
    stages.into_iter().map(|(kind, workers)| Stage::new(kind, workers, idle)).collect()
}

#[test]
fn an_operation_costs_no_allocation_no_lock_and_no_futex_call() {
    let _watchdog = Watchdog::new(800, "counting allocations");
    this_thread_pushes();
    let mut faults = Vec::new();
    #[cfg(target_os = "linux")]
    turns::turns_cost_a_fence_in_a_thousand_pushes(&mut faults);
    devices::kernels_and_copies_cost_nothing(&mut faults);
    late::what_waits_for_a_device_costs_nothing(&mut faults);
    devices::a_million_reads_need_no_more_memory_than_a_few(&mut faults);
    for (kind, workers) in [(Kind::Naive, 1), (Kind::Pooled, 1), (Kind::PerDevice, 1)] {
        a_first_push_after_prepare_costs_nothing(kind, workers, &mut faults);
    }
    for stage in stages(IdlePolicy::SpinThenPark) {
        shapes_cost_nothing(&stage, &mut faults);
        waits_cost_nothing(&stage, &mut faults);
        large_closures_cost_one_allocation(&stage, &mut faults);
    }
    bounded_pushes_allocate_nothing(&mut faults);
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        no_thread_waits_for_a_lock(&Stage::new(kind, 1, IdlePolicy::Spin), &mut faults);
    }
    for stage in stages(IdlePolicy::SpinThenPark) {
        several_pushers_cost_little(&stage, 3, ("3 variables", |s, i, _| SHAPES[7].1(s, i)), false, &mut faults);
        for pushers in [1, 2, 4] {
            let shared: PushOf = |s, i, _| push_largest(s, s.variable(i));
            several_pushers_cost_little(&stage, pushers, ("512 bytes", shared), false, &mut faults);
            let own: PushOf = |s, _, own| push_largest(s, own);
            several_pushers_cost_little(&stage, pushers, ("512 bytes, own variables", own), true, &mut faults);
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

fn tell(stage: &str, what: &str, costs: Costs, operations: usize, expected: bool, faults: &mut Vec<String>) {
    let text = format!("{stage}, {what}: {costs:?} in {operations} operations");
    println!("{text}");
    if !expected {
        faults.push(text);
    }
}

fn shapes_cost_nothing(stage: &Stage, faults: &mut Vec<String>) {
    for (shape, push) in SHAPES {
        warm_up(stage, push);
        let costs = least_cost(Costs::no_allocation_no_lock, || push_all(stage, push, operations(), CHUNK));
        tell(&stage.name(), shape, costs, operations(), costs.no_allocation_no_lock(), faults);
    }
}

/// On a fresh engine each time. A worker that was not given its core in time may still be at its
/// own beginning.
fn a_first_push_after_prepare_costs_nothing(kind: Kind, workers: usize, faults: &mut Vec<String>) {
    let first_push = |stage: &Stage, large: bool| {
        stage.engine.prepare().unwrap();
        let variable = stage.variable(0);
        cost(|| if large { push_largest(stage, variable) } else { push_all(stage, SHAPES[0].1, 1, CHUNK) })
    };
    let make = || Stage::new(kind, workers, IdlePolicy::Spin);
    for (large, what) in [(false, "the first push after prepare"), (true, "the first one of 512 bytes after prepare")] {
        let mut costs = first_push(&make(), large);
        for _ in 0..5 {
            if !costs.nothing() {
                costs = first_push(&make(), large);
            }
        }
        tell(&make().name(), what, costs, 1, costs.nothing(), faults);
    }
}

/// Push and wait, again and again; also with a waiter that runs operations itself.
fn waits_cost_nothing(stage: &Stage, faults: &mut Vec<String>) {
    let count = by_length(2_000, 10_000);
    let settings = stage.engine.settings();
    let helping = Engine::builder().kind(settings.kind).cpu_workers(settings.cpu_workers).build().unwrap();
    for (engine, what) in [(&stage.engine, "waits for a variable"), (&helping, "waits for a variable and helps")] {
        let x = engine.new_variable();
        let rounds = |rounds: usize| {
            for _ in 0..rounds {
                engine.op("op").writes([x]).push(|_| body()).unwrap();
                engine.op("op").writes([x]).push(|_| body()).unwrap();
                engine.wait_for_var(x).unwrap();
            }
        };
        rounds(2_000);
        // On a busy machine a wait may come to park, which takes a lock and calls the kernel.
        let enough = |costs: Costs| costs.no_allocation() && costs.locks <= costs.futex;
        let costs = least_cost(enough, || rounds(count));
        tell(&stage.name(), what, costs, 2 * count, enough(costs), faults);
    }
    // The thread that waits for everything may enter a list, under a lock, but only if something is
    // in flight. On the naive engine nothing is.
    let naive = settings.kind == Kind::Naive;
    let enough = if naive { Costs::no_allocation_no_lock } else { Costs::no_allocation };
    for (engine, what) in [(&stage.engine, "waits for everything"), (&helping, "waits for everything and helps")] {
        let rounds = |rounds: usize| {
            for _ in 0..rounds {
                engine.op("op").push(|_| body()).unwrap();
                engine.wait_for_all().unwrap();
            }
        };
        rounds(2_000);
        let costs = least_cost(enough, || rounds(count));
        tell(&stage.name(), what, costs, count, enough(costs), faults);
    }
}

/// The counters count: a closure that does not fit is boxed, once an operation.
fn large_closures_cost_one_allocation(stage: &Stage, faults: &mut Vec<String>) {
    let push: Push = |s, i| s.engine.op("op").writes([s.variable(i)]).push(sized::<513>()).unwrap();
    let expected = |costs: Costs| costs == Costs { pushers: operations(), engine: 0, locks: 0, ..costs };
    warm_up(stage, push);
    let costs = least_cost(expected, || push_all(stage, push, operations(), CHUNK));
    tell(&stage.name(), "513 bytes", costs, operations(), expected(costs), faults);
}

/// At a bound, a pusher that blocks parks (for which it enters a list, under a lock), and one that
/// helps runs operations: neither allocates.
fn bounded_pushes_allocate_nothing(faults: &mut Vec<String>) {
    for when_full in [WhenFull::Block, WhenFull::Help] {
        let engine = Engine::builder().cpu_workers(1).bound(64).when_full(when_full).build().unwrap();
        let push = |operations: usize| {
            let until = ENDED.load(Relaxed) + operations;
            (0..operations).for_each(|_| engine.op("op").push(|_| body()).unwrap());
            wait_until(until);
        };
        push(20_000);
        let costs = least_cost(Costs::no_allocation, || push(operations()));
        tell("bound 64", &when_full.to_string(), costs, operations(), costs.no_allocation(), faults);
    }
}

/// With workers that spin, and a pusher that waits for nothing, a futex call can only come from a
/// lock that is held by another.
fn no_thread_waits_for_a_lock(stage: &Stage, faults: &mut Vec<String>) {
    for (shape, push) in SHAPES {
        warm_up(stage, push);
        let costs = least_cost(Costs::nothing, || push_all(stage, push, operations() / 4, CHUNK));
        let what = format!("{shape}, spinning");
        tell(&stage.name(), &what, costs, operations() / 4, costs.nothing(), faults);
    }
    // The counter counts: a thread that parks until another wakes it. One that gets no core in time
    // is woken before it parks.
    let park = |patience: u64| {
        cost(|| {
            let other = std::thread::spawn(std::thread::park);
            std::thread::sleep(std::time::Duration::from_millis(patience));
            other.thread().unpark();
            other.join().unwrap();
        })
    };
    let parks = [20, 20, 100, 500, 3_000].map(|patience| move || park(patience).futex > 0);
    assert!(parks.into_iter().any(|seen| seen()) || !cfg!(target_os = "linux"), "futex calls are not seen");
}

/// Like [`Push`], with a variable that no other thread pushes to.
type PushOf = fn(&Stage, usize, Variable);

/// Several threads push at once: blocks are then reused by way of epochs, whose bookkeeping
/// allocates for each batch of blocks. Those of operations on variables of the thread's `own` come
/// from its rings, so they cost nothing.
fn several_pushers_cost_little(
    stage: &Stage,
    pushers: usize,
    (what, push): (&str, PushOf),
    own: bool,
    faults: &mut Vec<String>,
) {
    let each = by_length(4_000, 40_000);
    let operations = pushers * each;
    let most = operations / if own { 500 } else { 20 };
    // A wait that comes to park takes a lock and calls the kernel.
    let expected = |costs: Costs| costs.pushers + costs.engine < most && costs.locks < most + costs.futex;
    let start = Barrier::new(pushers);
    // The first thread counts, and tells when that is over.
    let (counted, over) = (OnceLock::new(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for thread in 0..pushers {
            let (start, counted, over, expected) = (&start, &counted, &over, &expected);
            scope.spawn(move || {
                this_thread_pushes();
                let own = stage.engine.new_variable();
                let work = |operations: usize| {
                    for number in 0..operations {
                        push(stage, number * pushers + thread, own);
                        if number % (CHUNK / pushers) == 0 {
                            stage.engine.wait_for_var(own).unwrap();
                            stage.engine.wait_for_var(stage.variable(number)).unwrap();
                        }
                    }
                };
                // A backlog first, as [`warm_up`] makes one: a worker whose core is taken leaves as
                // much behind later.
                start.wait();
                SLOW.store(true, Relaxed);
                work(each);
                start.wait();
                SLOW.store(false, Relaxed);
                work(each);
                let mut patience = Patience::new();
                while !over.load(SeqCst) {
                    start.wait();
                    let before = costs();
                    start.wait();
                    work(each);
                    start.wait();
                    if thread == 0 {
                        let costs = costs() - before;
                        if expected(costs) || patience.ends() {
                            counted.set(costs).expect("it ends once");
                            over.store(true, SeqCst);
                        }
                    }
                    start.wait();
                }
            });
        }
    });
    let costs = counted.into_inner().unwrap();
    stage.engine.wait_for_all().unwrap();
    tell(&stage.name(), &format!("{what}, {pushers} pushers"), costs, operations, expected(costs), faults);
}
