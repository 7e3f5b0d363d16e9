//! What does the pushing thread pay for one push?
//!
//! By criterion, nanoseconds a push, while one worker takes what is pushed: by the number of
//! variables, by the size of the closure (up to 512 bytes are stored in the operation's block,
//! larger ones are boxed), and of an operator made beforehand. The last two also on the naive
//! engine, which runs the operation inside its push. And of an asynchronous operation that its
//! closure ends: shipped, declared short, and on the naive engine. Waiting is not timed. That every
//! push ran is checked.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criterion::{criterion_group, criterion_main, BenchmarkId, Criterion, Throughput};
use seriatim::{Completion, Context, Engine, Kind, Name, Property, RunContext, Variable};
use seriatim_perf::entrants::baseline;

/// Pushes between two waits.
const BURST: u64 = 256;

/// How many operations have run, in any engine. A worker at a time counts, so this needs no locked
/// instruction.
static RUN: AtomicU64 = AtomicU64::new(0);

fn count() {
    RUN.store(RUN.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

fn engine() -> Engine {
    engine_of(Kind::PerDevice)
}

fn engine_of(kind: Kind) -> Engine {
    Engine::builder().kind(kind).cpu_workers(1).waiters_help(false).build().expect("an engine")
}

/// Times `pushes` calls of `push`, in bursts, and waits after each burst.
fn bursts(pushes: u64, push: impl Fn(u64), wait: impl Fn()) -> Duration {
    let before = RUN.load(Ordering::Relaxed);
    let mut total = Duration::ZERO;
    let mut done = 0;
    while done < pushes {
        let burst = BURST.min(pushes - done);
        let start = Instant::now();
        (done..done + burst).for_each(&push);
        total += start.elapsed();
        wait();
        done += burst;
    }
    assert_eq!(RUN.load(Ordering::Relaxed) - before, pushes, "pushes were lost or ran twice");
    total
}

fn variables(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("push, by variables");
    group.throughput(Throughput::Elements(1));
    for count_of in [1, 2, 3, 4, 8, 16] {
        let engine = engine();
        // As many reads as the rest, after one variable that is changed.
        let all: Vec<Variable> = (0..count_of).map(|_| engine.new_variable()).collect();
        let (writes, reads) = all.split_at(1);
        group.bench_function(BenchmarkId::new("seriatim", count_of), |bencher| {
            let (context, name) = (Context::default(), Name::from("push"));
            let push = |_| {
                let pushed = engine.push_sync(|_| count(), context, reads, writes, Property::Normal, 0, name);
                pushed.expect("a push");
            };
            bencher.iter_custom(|pushes| bursts(pushes, push, || engine.wait_for_all().expect("no failure")));
        });
        let engine = baseline::Engine::new(1);
        let all: Vec<baseline::Var> = (0..count_of).map(|_| engine.new_variable()).collect();
        let (writes, reads) = all.split_at(1);
        group.bench_function(BenchmarkId::new("baseline", count_of), |bencher| {
            let push = |_| engine.push(count, reads, writes, 0);
            bencher.iter_custom(|pushes| bursts(pushes, push, || engine.wait_for_all()));
        });
    }
    group.finish();
}

fn closures(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("push, by bytes of the closure");
    group.throughput(Throughput::Elements(1));
    size::<8>(&mut group);
    size::<64>(&mut group);
    size::<65>(&mut group);
    size::<128>(&mut group);
    size::<512>(&mut group);
    size::<1024>(&mut group);
    group.finish();
}

type Group<'a> = criterion::BenchmarkGroup<'a, criterion::measurement::WallTime>;

fn size<const BYTES: usize>(group: &mut Group<'_>) {
    for (name, kind) in [("seriatim", Kind::PerDevice), ("inside the push", Kind::Naive)] {
        let engine = engine_of(kind);
        let variable = engine.new_variable();
        group.bench_function(BenchmarkId::new(name, BYTES), |bencher| {
            let (context, name) = (Context::default(), Name::from("push"));
            let push = |number: u64| {
                let payload = [number as u8; BYTES];
                let body = move |_: &seriatim::RunContext<'_>| {
                    black_box(&payload);
                    count();
                };
                engine.push_sync(body, context, &[], &[variable], Property::Normal, 0, name).expect("a push");
            };
            bencher.iter_custom(|pushes| bursts(pushes, push, || engine.wait_for_all().expect("no failure")));
        });
    }
    let engine = baseline::Engine::new(1);
    let variable = engine.new_variable();
    group.bench_function(BenchmarkId::new("baseline", BYTES), |bencher| {
        let push = |number: u64| {
            let payload = [number as u8; BYTES];
            let body = move || {
                black_box(&payload);
                count();
            };
            engine.push(body, &[], &[variable], 0);
        };
        bencher.iter_custom(|pushes| bursts(pushes, push, || engine.wait_for_all()));
    });
}

fn operators(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("push of an operator");
    group.throughput(Throughput::Elements(1));
    for (name, kind) in [("seriatim", Kind::PerDevice), ("inside the push", Kind::Naive)] {
        let engine = engine_of(kind);
        let variable = engine.new_variable();
        let operator = engine.new_operator(|_| count(), &[], &[variable], Property::Normal, "push");
        let operator = operator.expect("an operator");
        group.bench_function(name, |bencher| {
            let push = |_| engine.push(&operator, Context::default(), 0).expect("a push");
            bencher.iter_custom(|pushes| bursts(pushes, push, || engine.wait_for_all().expect("no failure")));
        });
    }
    let engine = baseline::Engine::new(1);
    let variable = engine.new_variable();
    let operator = engine.new_operator(count, &[], &[variable]);
    group.bench_function("baseline", |bencher| {
        let push = |_| engine.push_operator(&operator, 0);
        bencher.iter_custom(|pushes| bursts(pushes, push, || engine.wait_for_all()));
    });
    group.finish();
}

fn asynchronous(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("push of an asynchronous operation");
    group.throughput(Throughput::Elements(1));
    let ways = [
        ("shipped", Kind::PerDevice, Property::Normal),
        ("declared short", Kind::PerDevice, Property::Short),
        ("inside the push", Kind::Naive, Property::Normal),
    ];
    for (way, kind, property) in ways {
        let engine = engine_of(kind);
        let variable = engine.new_variable();
        group.bench_function(way, |bencher| {
            let (context, name) = (Context::default(), Name::from("push"));
            let push = |_| {
                let start = |_: &RunContext<'_>, completion: Completion| {
                    count();
                    completion.complete();
                };
                engine.push_async(start, context, &[], &[variable], property, 0, name).expect("a push");
            };
            bencher.iter_custom(|pushes| bursts(pushes, push, || engine.wait_for_all().expect("no failure")));
        });
    }
    group.finish();
}

fn short() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
}

criterion_group!(name = benches; config = short(); targets = variables, closures, operators, asynchronous);
criterion_main!(benches);
