//! What do priorities cost, and what do they buy?
//!
//! By criterion: nanoseconds an operation for a backlog that has built up behind a closed gate,
//! with equal priorities and with scattered ones, from the opening of the gate to the end of the
//! wait; and how long an urgent operation takes that is pushed onto a backlog of less urgent ones
//! of about 2 µs each. What ran is counted and checked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{criterion_group, criterion_main, BenchmarkId, Criterion, Throughput};
use seriatim::{Context, Engine, Kind, Name, Property, Variable};
use seriatim_perf::entrants::baseline::{self, Order};
use seriatim_perf::machine::Mode;
use seriatim_perf::metg::kernel::{Kernel, Scratch};

/// An engine with one worker and a variable for each operation of a backlog, so that only
/// priorities order them.
trait Subject {
    fn push(&self, body: Box<dyn FnOnce() + Send>, variable: usize, priority: i32);
    fn wait(&self);
}

struct Ours {
    engine: Engine,
    variables: Vec<Variable>,
}

impl Subject for Ours {
    fn push(&self, body: Box<dyn FnOnce() + Send>, variable: usize, priority: i32) {
        let (context, name) = (Context::default(), Name::from("priorities"));
        let body = move |_: &seriatim::RunContext<'_>| body();
        let pushed =
            self.engine.push_sync(body, context, &[], &[self.variables[variable]], Property::Normal, priority, name);
        pushed.expect("a push");
    }

    fn wait(&self) {
        self.engine.wait_for_all().expect("no failure");
    }
}

struct Theirs {
    engine: baseline::Engine,
    variables: Vec<baseline::Var>,
}

impl Subject for Theirs {
    fn push(&self, body: Box<dyn FnOnce() + Send>, variable: usize, priority: i32) {
        self.engine.push(body, &[], &[self.variables[variable]], priority);
    }

    fn wait(&self) {
        self.engine.wait_for_all();
    }
}

const SUBJECTS: [&str; 3] = ["seriatim-pooled-1", "seriatim-per-device-1", "baseline-1"];

/// The waiting thread does not help: it would take operations that the worker's priorities are
/// about.
fn subject(name: &str, variables: usize) -> Box<dyn Subject> {
    let ours = |kind| {
        let engine = Engine::builder().kind(kind).cpu_workers(1).waiters_help(false).build().expect("an engine");
        let variables = (0..variables).map(|_| engine.new_variable()).collect();
        Box::new(Ours { engine, variables })
    };
    match name {
        "seriatim-pooled-1" => ours(Kind::Pooled),
        "seriatim-per-device-1" => ours(Kind::PerDevice),
        _ => {
            let engine = baseline::Engine::with_order(1, Order::Priority);
            let variables = (0..variables).map(|_| engine.new_variable()).collect();
            Box::new(Theirs { engine, variables })
        }
    }
}

/// Occupies the worker until it is opened.
fn gate(subject: &dyn Subject, variable: usize) -> impl FnOnce() + use<> {
    let (open, opened) = channel::<()>();
    let started = Arc::new(AtomicBool::new(false));
    let inside = Arc::clone(&started);
    let body = move || {
        inside.store(true, Ordering::Release);
        opened.recv().expect("a gate that is opened");
    };
    subject.push(Box::new(body), variable, i32::MAX);
    while !started.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    move || open.send(()).expect("a worker at the gate")
}

fn backlog_size() -> usize {
    match Mode::from_arguments() {
        Mode::Full | Mode::Quick => 10_000,
        Mode::Test | Mode::List => 100,
    }
}

fn backlogs(criterion: &mut Criterion) {
    let size = backlog_size();
    let mut group = criterion.benchmark_group("a backlog");
    group.throughput(Throughput::Elements(size as u64));
    for (scatter, priority) in [("equal priorities", 0), ("scattered priorities", 1)] {
        for name in SUBJECTS {
            group.bench_function(BenchmarkId::new(name, scatter), |bencher| {
                let subject = subject(name, size + 1);
                let ran = Arc::new(AtomicU64::new(0));
                let backlog = |_| {
                    let open = gate(&*subject, size);
                    for variable in 0..size {
                        let ran = Arc::clone(&ran);
                        let body = move || ran.store(ran.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                        // Multiplying by an odd number scatters the numbers below 1024.
                        let scattered = (variable as i32).wrapping_mul(0x9E37) % 1024;
                        subject.push(Box::new(body), variable, priority * scattered);
                    }
                    let start = Instant::now();
                    open();
                    subject.wait();
                    start.elapsed()
                };
                bencher.iter_custom(|runs| {
                    let before = ran.load(Ordering::Relaxed);
                    let total = (0..runs).map(backlog).sum();
                    assert_eq!(ran.load(Ordering::Relaxed) - before, runs * size as u64, "operations were lost");
                    total
                });
            });
        }
    }
    group.finish();
}

fn urgent(criterion: &mut Criterion) {
    let size = backlog_size() / 10;
    let mut group = criterion.benchmark_group("an urgent operation behind a backlog");
    for name in SUBJECTS {
        group.bench_function(name, |bencher| {
            let subject = subject(name, size + 2);
            let urgent = |_| {
                let open = gate(&*subject, size);
                for variable in 0..size {
                    let body = || Kernel::Compute.run(1024, &Scratch::new(Kernel::Compute));
                    subject.push(Box::new(body), variable, 0);
                }
                open();
                let (done, is_done) = channel();
                let start = Instant::now();
                let body = move || done.send(Instant::now()).expect("somebody who waits");
                subject.push(Box::new(body), size + 1, 1000);
                let end = is_done.recv().expect("an operation that runs");
                subject.wait();
                end - start
            };
            bencher.iter_custom(|runs| (0..runs).map(urgent).sum());
        });
    }
    group.finish();
}

fn short() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
}

criterion_group!(name = benches; config = short(); targets = backlogs, urgent);
criterion_main!(benches);
