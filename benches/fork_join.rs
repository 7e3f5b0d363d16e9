//! What does it cost to fork and to join inside an operation, and what beside rayon?
//!
//! Three questions, each with the same threads: two empty halves (`Engine::scope` with one child,
//! and `rayon::join`); a scope of 64 empty children (`Engine::scope` and `rayon::scope`); and a
//! quicksort of half a million numbers that recurses down to 2,000 (the same code over both, and
//! over neither). All are measured inside an operation or inside the pool. Time by criterion; what
//! was sorted is checked.

use criterion::{criterion_group, criterion_main, BenchmarkId, Criterion, SamplingMode};
use seriatim::{Engine, Error};
use seriatim_perf::machine::Mode;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const CHILDREN: usize = 64;
const SERIAL: usize = 2_000;

/// What runs two halves, or many children.
trait Fork: Sync {
    fn join(&self, one: impl FnOnce() + Send, other: impl FnOnce());
    fn children(&self, child: &(impl Fn() + Sync));
}

struct Rayon;

impl Fork for Rayon {
    fn join(&self, one: impl FnOnce() + Send, other: impl FnOnce()) {
        rayon::in_place_scope(|scope| {
            scope.spawn(|_| one());
            other();
        });
    }

    fn children(&self, child: &(impl Fn() + Sync)) {
        rayon::scope(|scope| (0..CHILDREN).for_each(|_| scope.spawn(|_| child())));
    }
}

/// By `rayon::join`, both of whose halves are sent.
struct RayonJoin;

struct Serial;

impl Fork for Serial {
    fn join(&self, one: impl FnOnce() + Send, other: impl FnOnce()) {
        one();
        other();
    }

    fn children(&self, child: &(impl Fn() + Sync)) {
        (0..CHILDREN).for_each(|_| child());
    }
}

impl Fork for Engine {
    fn join(&self, one: impl FnOnce() + Send, other: impl FnOnce()) {
        let joined = self.scope(|s| {
            s.op("one").push(|_| one())?;
            other();
            Ok(())
        });
        joined.expect("a scope");
    }

    fn children(&self, child: &(impl Fn() + Sync)) {
        let pushed = self.scope(|s| (0..CHILDREN).try_for_each(|_| s.op("child").push(|_| child())));
        pushed.expect("a scope");
    }
}

/// Where a part of the numbers is cut: behind the last one that belongs to the left.
fn partition(numbers: &mut [u64]) -> usize {
    let (last, middle) = (numbers.len() - 1, numbers.len() / 2);
    if numbers[0] > numbers[last] {
        numbers.swap(0, last);
    }
    if numbers[middle] > numbers[last] {
        numbers.swap(middle, last);
    }
    numbers.swap(last, if numbers[0] > numbers[middle] { 0 } else { middle });
    let pivot = numbers[last];
    let mut end = 0;
    for at in 0..last {
        if numbers[at] < pivot {
            numbers.swap(at, end);
            end += 1;
        }
    }
    numbers.swap(end, last);
    end
}

fn sort(fork: &impl Fork, numbers: &mut [u64]) {
    if numbers.len() <= SERIAL {
        return numbers.sort_unstable();
    }
    let at = partition(numbers);
    let (left, right) = numbers.split_at_mut(at);
    fork.join(|| sort(fork, left), || sort(fork, &mut right[1..]));
}

fn sort_by_join(numbers: &mut [u64]) {
    if numbers.len() <= SERIAL {
        return numbers.sort_unstable();
    }
    let at = partition(numbers);
    let (left, right) = numbers.split_at_mut(at);
    rayon::join(|| sort_by_join(left), || sort_by_join(&mut right[1..]));
}

/// So many numbers without an order.
fn numbers(count: usize) -> Vec<u64> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 20
    };
    (0..count).map(|_| next()).collect()
}

/// What is measured, so many times.
#[derive(Clone, Copy)]
enum What {
    Halves,
    Children,
    Sort(usize),
}

fn time(runs: u64, mut run: impl FnMut()) -> Duration {
    let begin = Instant::now();
    (0..runs).for_each(|_| run());
    begin.elapsed()
}

/// Only the sorting counts, and not the making of numbers.
fn time_sorts(runs: u64, count: usize, mut sort: impl FnMut(&mut [u64])) -> Duration {
    let mut taken = Duration::ZERO;
    for _ in 0..runs {
        let mut row = numbers(count);
        let begin = Instant::now();
        sort(&mut row);
        taken += begin.elapsed();
        assert!(row.is_sorted(), "a wrong result");
    }
    taken
}

fn measure(fork: &impl Fork, what: What, runs: u64) -> Duration {
    let ran = AtomicU64::new(0);
    let child = || _ = ran.fetch_add(1, Relaxed);
    match what {
        What::Halves => time(runs, || fork.join(|| black_box(()), || black_box(()))),
        What::Children => {
            let taken = time(runs, || fork.children(&child));
            assert_eq!(ran.into_inner(), runs * CHILDREN as u64, "children were lost");
            taken
        }
        What::Sort(count) => time_sorts(runs, count, |row| sort(fork, row)),
    }
}

impl RayonJoin {
    fn measure(what: What, runs: u64) -> Option<Duration> {
        match what {
            What::Halves => Some(time(runs, || _ = rayon::join(|| black_box(()), || black_box(())))),
            What::Children => None,
            What::Sort(count) => Some(time_sorts(runs, count, sort_by_join)),
        }
    }
}

fn inside(engine: &Engine, what: What, runs: u64) -> Result<Duration, Error> {
    let own = engine.clone();
    engine.op("measured").compute(move |_| measure(&own, what, runs))?.wait()
}

fn forks(criterion: &mut Criterion) {
    let count = match Mode::from_arguments() {
        Mode::Full | Mode::Quick => 500_000,
        Mode::Test | Mode::List => 10_000,
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let questions = [("halves", What::Halves), ("64 children", What::Children), ("quicksort", What::Sort(count))];
    for (name, what) in questions {
        let mut group = criterion.benchmark_group(format!("fork-join, {name}"));
        group.sampling_mode(SamplingMode::Flat).sample_size(10);
        group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(500));
        group.bench_function("serial", |bencher| bencher.iter_custom(|runs| measure(&Serial, what, runs)));
        for threads in [1, 2, 4].into_iter().filter(|threads| *threads <= cores) {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            if !matches!(what, What::Children) {
                let run = |runs| pool.install(|| RayonJoin::measure(what, runs)).expect("it has two halves");
                group.bench_function(BenchmarkId::new("rayon join", threads), |bencher| bencher.iter_custom(run));
            }
            let run = |runs| pool.install(|| measure(&Rayon, what, runs));
            group.bench_function(BenchmarkId::new("rayon scope", threads), |bencher| bencher.iter_custom(run));
            let builder = Engine::builder().cpu_workers(threads).waiters_help(false);
            let engine = builder.build().expect("an engine");
            engine.prepare().expect("its workers start");
            let run = |runs| inside(&engine, what, runs).expect("it does not fail");
            group.bench_function(BenchmarkId::new("seriatim scope", threads), |bencher| bencher.iter_custom(run));
        }
        group.finish();
    }
}

criterion_group!(benches, forks);
criterion_main!(benches);
