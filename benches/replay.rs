//! What does it save to capture operations and replay them?
//!
//! The same program pushed closure by closure, pushed as operators, and captured once and replayed;
//! each run is waited for. First the brief stencil of 64 points and 50 steps and the other
//! workloads at that size; then chains of 1 to 256 operations, to see from how many on it is worth
//! it. Nanoseconds an operation, by criterion; every run's result is checked. Last what the capture
//! itself costs, alone and with one replay: what a graph costs that lives no longer than that.

use std::time::{Duration, Instant};

use criterion::{criterion_group, criterion_main, BenchmarkId, Criterion, SamplingMode, Throughput};
use seriatim::{Engine, Kind};
use seriatim_perf::entrants::{built_in, measure};
use seriatim_perf::machine::Mode;
use seriatim_perf::program::Program;
use seriatim_perf::workloads::{named, NAMES};

const ENTRANTS: [&str; 6] = [
    "seriatim-naive",
    "seriatim-naive operators",
    "seriatim-naive graph",
    "seriatim-per-device-1",
    "seriatim-per-device-1 graph",
    "shred-2 graph",
];
const OPERATIONS: usize = 3_200;
const LENGTHS: [usize; 5] = [1, 4, 16, 64, 256];

fn compare(criterion: &mut Criterion, group: &str, case: impl std::fmt::Display, program: &'static Program) {
    let mut group = criterion.benchmark_group(group);
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(300));
    group.throughput(Throughput::Elements(program.sequence().len() as u64));
    for entrant in built_in(&[1, 2]).into_iter().filter(|entrant| ENTRANTS.contains(&entrant.name.as_str())) {
        let mut runner = entrant.start().expect("an entrant that needs nothing but cargo");
        if runner.prepare(program).is_err() {
            continue; // It cannot express the program.
        }
        group.bench_function(BenchmarkId::new(&entrant.name, &case), |bencher| {
            let mut run = |_| measure(&mut *runner, program).expect("a right result");
            bencher.iter_custom(|runs| (0..runs).map(&mut run).sum());
        });
    }
    group.finish();
}

fn workloads(criterion: &mut Criterion) {
    for name in NAMES {
        compare(criterion, "replay", name, named(name, OPERATIONS).expect("a workload"));
    }
}

fn lengths(criterion: &mut Criterion) {
    for length in LENGTHS {
        compare(criterion, "replay-chain", length, named("chain", length).expect("a workload"));
    }
}

/// The capture of a chain, with the variables that it takes.
fn capture(criterion: &mut Criterion) {
    let operations = match Mode::from_arguments() {
        Mode::Full | Mode::Quick => 100_000,
        Mode::Test | Mode::List => 1_000,
    };
    let engine = Engine::builder().kind(Kind::Naive).build().expect("valid settings");
    let variables: Vec<_> = (0..64).map(|_| engine.new_variable()).collect();
    let mut group = criterion.benchmark_group("capture");
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(500));
    group.throughput(Throughput::Elements(operations as u64));
    group.bench_function("read one, write one", |bencher| {
        bencher.iter_custom(|runs| {
            let mut elapsed = Duration::ZERO;
            for _ in 0..runs {
                let start = Instant::now();
                let (graph, ()) = engine
                    .capture(|c| {
                        (0..operations).try_for_each(|n| {
                            let (from, to) = (variables[n % 64], variables[(n * 7 + 1) % 64]);
                            c.op("step").reads([from]).writes([to]).push(|_| ())
                        })
                    })
                    .expect("valid variables");
                elapsed += start.elapsed();
                assert_eq!(graph.len(), operations);
            }
            elapsed
        });
    });
    group.finish();
}

/// Operations pushed one by one, and the same captured, replayed once and dropped, so many at a
/// time.
fn short_lived(criterion: &mut Criterion) {
    const OPERATIONS: usize = 7_680;
    let mut group = criterion.benchmark_group("short-lived");
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(500));
    group.throughput(Throughput::Elements(OPERATIONS as u64));
    for kind in [Kind::Naive, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(1).build().expect("valid settings");
        let variables: Vec<_> = (0..64).map(|_| engine.new_variable()).collect();
        let uses = |n: usize| (variables[n % 64], variables[(n * 7 + 1) % 64]);
        group.bench_function(BenchmarkId::new(kind.to_string(), "pushes"), |bencher| {
            bencher.iter(|| {
                for (from, to) in (0..OPERATIONS).map(uses) {
                    engine.op("step").reads([from]).writes([to]).push(|_| ()).expect("valid variables");
                }
                engine.wait_for_all().expect("nothing fails");
            });
        });
        for length in [15, 240] {
            group.bench_function(BenchmarkId::new(kind.to_string(), format!("graphs of {length}")), |bencher| {
                bencher.iter(|| {
                    for first in (0..OPERATIONS).step_by(length) {
                        let record = |c: &mut seriatim::Capture| {
                            (first..first + length)
                                .map(uses)
                                .try_for_each(|(from, to)| c.op("step").reads([from]).writes([to]).push(|_| ()))
                        };
                        engine.capture(record).and_then(|(graph, ())| graph.replay()).expect("valid variables");
                    }
                    engine.wait_for_all().expect("nothing fails");
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, workloads, lengths, capture, short_lived);
criterion_main!(benches);
