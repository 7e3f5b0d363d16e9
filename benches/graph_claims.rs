//! What does a replay cost beside its operations?
//!
//! Nanoseconds a replay, by criterion, of graphs over 1 to 64 variables (a node for each, and one
//! node for all), and of 64 nodes over 65 variables, private to the graph or not. Then graphs
//! of few long operations, on three workers, beside the same operations pushed one by one: the
//! bodies sleep, so that three of them run at once on any machine. The first of these graphs is
//! made anew for each replay, the second is replayed again and again. Each run's result is checked.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use criterion::{criterion_group, criterion_main, BenchmarkId, Criterion, SamplingMode};
use seriatim::{Engine, Graph, Kind};
use seriatim_perf::machine::Mode;
use seriatim_perf::replays::few::{Naps, MEASURED};
use seriatim_perf::replays::shapes::{Counted, Shape, BURST, NODES};

const NAMES: [usize; 12] = [1, 2, 4, 7, 8, 9, 12, 16, 24, 32, 48, 64];
const KINDS: [Kind; 2] = [Kind::Naive, Kind::PerDevice];

fn engine(kind: Kind) -> Engine {
    Engine::builder().kind(kind).cpu_workers(1).build().expect("valid settings")
}

/// Times replays of a graph of that shape.
fn measure(criterion: &mut Criterion, kind: Kind, id: BenchmarkId, shape: Shape, names: usize) {
    let engine = engine(kind);
    let counted = Counted::capture(&engine, shape, names).expect("valid variables");
    let mut group = criterion.benchmark_group(format!("replay, {kind}"));
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    group.warm_up_time(Duration::from_millis(50)).measurement_time(Duration::from_millis(150));
    let mut replayed = 0;
    group.bench_function(id, |bencher| {
        bencher.iter_custom(|replays| {
            let start = Instant::now();
            for number in 1..=replays {
                counted.graph.replay().expect("the engine runs");
                if number % BURST as u64 == 0 || number == replays {
                    engine.wait_for_var(counted.last).expect("nothing fails");
                }
            }
            replayed += replays;
            start.elapsed()
        });
    });
    engine.wait_for_all().expect("nothing fails");
    assert_eq!(counted.ran.load(Relaxed), replayed);
    group.finish();
}

fn names(criterion: &mut Criterion) {
    for kind in KINDS {
        for names in NAMES {
            let each = BenchmarkId::new("a node for each name", names);
            measure(criterion, kind, each, Shape::NodeEach, names);
            let one = BenchmarkId::new("one node for all names", names);
            measure(criterion, kind, one, Shape::OneNode, names);
        }
    }
}

/// Chains of 64 nodes, each of which reads one array and writes the next. Others can use the arrays
/// too, or all but the last are private to the graph.
fn arrays(criterion: &mut Criterion) {
    for kind in KINDS {
        for (what, shape) in [("variables", Shape::Arrays), ("private variables", Shape::PrivateArrays)] {
            measure(criterion, kind, BenchmarkId::new("64 nodes over 65", what), shape, NODES + 1);
        }
    }
}

/// Runs so many sleeping operations on three workers, pushed one by one or as a replay.
fn long(criterion: &mut Criterion) {
    let shorter = match Mode::from_arguments() {
        Mode::Full | Mode::Quick => 1,
        Mode::Test | Mode::List => 10,
    };
    for (operations, nap) in MEASURED {
        let nap = nap / shorter;
        let naps = Naps::new(operations, nap).expect("threads");
        let mut group = criterion.benchmark_group(format!("{operations} operations of {nap:?}, three workers"));
        group.sampling_mode(SamplingMode::Flat).sample_size(10);
        group.warm_up_time(Duration::from_millis(1)).measurement_time(Duration::from_millis(300));
        let push = || naps.push().expect("valid variables");
        group.bench_function("pushed one by one", |bencher| {
            bencher.iter_custom(|runs| (0..runs).map(|_| push()).sum());
        });
        let graph = || naps.capture().expect("valid variables");
        let replay = |graph: &Graph| naps.replay(graph).expect("the engine runs");
        group.bench_function("the first replay", |bencher| {
            bencher.iter_custom(|runs| (0..runs).map(|_| replay(&graph())).sum());
        });
        let graph = graph();
        group.bench_function("later replays", |bencher| {
            bencher.iter_custom(|runs| (0..runs).map(|_| replay(&graph)).sum());
        });
        group.finish();
    }
}

criterion_group!(benches, names, arrays, long);
criterion_main!(benches);
