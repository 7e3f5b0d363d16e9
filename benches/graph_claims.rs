//! What does a replay cost beside its operations?
//!
//! Nanoseconds a replay, by criterion, of graphs over 1 to 64 variables (a node for each, and one
//! node for all), and of 64 nodes over 65 variables, private to the graph or not. Then graphs
//! of few long operations, on three workers, beside the same operations pushed one by one: the
//! bodies sleep, so that three of them run at once on any machine. The first of these graphs is
//! made anew for each replay, the second is replayed again and again. Each run's result is checked.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use criterion::{criterion_group, criterion_main, BenchmarkId, Criterion, SamplingMode};
use seriatim::{Capture, Engine, Error, Graph, Kind, RunContext, Variable};
use seriatim_perf::machine::Mode;

const NAMES: [usize; 12] = [1, 2, 4, 7, 8, 9, 12, 16, 24, 32, 48, 64];
const KINDS: [Kind; 2] = [Kind::Naive, Kind::PerDevice];
/// Replays between two waits.
const BURST: u64 = 64;

fn engine(kind: Kind) -> Engine {
    Engine::builder().kind(kind).cpu_workers(1).build().expect("valid settings")
}

/// A body that counts. One thread at a time runs it, so this needs no locked instruction.
fn counting(ran: &Arc<AtomicU64>) -> impl Fn(&RunContext<'_>) + Send + 'static + use<> {
    let ran = Arc::clone(ran);
    move |_| ran.store(ran.load(Relaxed) + 1, Relaxed)
}

/// Times replays of a graph whose last operation counts; `record` records the others.
fn measure(criterion: &mut Criterion, kind: Kind, id: BenchmarkId, record: impl Fn(&Engine, &mut Capture) -> Variable) {
    let engine = engine(kind);
    let ran = Arc::new(AtomicU64::new(0));
    let captured = engine.capture(|c| {
        let last = record(&engine, c);
        c.op("count").write(last).push(counting(&ran))?;
        Ok(last)
    });
    let (graph, last): (Graph, Variable) = captured.expect("valid variables");
    let mut group = criterion.benchmark_group(format!("replay, {kind}"));
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    group.warm_up_time(Duration::from_millis(50)).measurement_time(Duration::from_millis(150));
    let mut replayed = 0;
    group.bench_function(id, |bencher| {
        bencher.iter_custom(|replays| {
            let start = Instant::now();
            for number in 1..=replays {
                graph.replay().expect("the engine runs");
                if number % BURST == 0 || number == replays {
                    engine.wait_for_var(last).expect("nothing fails");
                }
            }
            replayed += replays;
            start.elapsed()
        });
    });
    engine.wait_for_all().expect("nothing fails");
    assert_eq!(ran.load(Relaxed), replayed);
    group.finish();
}

fn names(criterion: &mut Criterion) {
    for kind in KINDS {
        for names in NAMES {
            measure(criterion, kind, BenchmarkId::new("a node for each name", names), |engine, c| {
                let variables: Vec<Variable> = (0..names).map(|_| engine.new_variable()).collect();
                let recorded: Result<(), Error> =
                    variables[1..].iter().try_for_each(|variable| c.op("one").write(*variable).push(|_| ()));
                recorded.expect("valid variables");
                variables[0]
            });
            measure(criterion, kind, BenchmarkId::new("one node for all names", names), |engine, c| {
                let variables: Vec<Variable> = (0..names).map(|_| engine.new_variable()).collect();
                let (first, others) = (variables[0], variables[1..].iter().copied());
                c.op("all").reads(others).write(first).push(|_| ()).expect("valid variables");
                first
            });
        }
    }
}

/// Chains of 64 nodes, each of which reads one array and writes the next. Others can use the arrays
/// too, or all but the last are private to the graph.
fn arrays(criterion: &mut Criterion) {
    for kind in KINDS {
        for what in ["variables", "private variables"] {
            measure(criterion, kind, BenchmarkId::new("64 nodes over 65", what), |engine, c| {
                let is_private = |number: usize| what != "variables" && number < 64;
                let mut make = |number| if is_private(number) { c.private_variable() } else { engine.new_variable() };
                let variables: Vec<Variable> = (0..65).map(&mut make).collect();
                for pair in variables.windows(2).take(63) {
                    c.op("step").read(pair[0]).write(pair[1]).push(|_| ()).expect("valid variables");
                }
                variables[64]
            });
        }
    }
}

/// Runs so many sleeping operations on three workers, pushed one by one or as a replay.
fn long(criterion: &mut Criterion) {
    let scale = match Mode::from_arguments() {
        Mode::Full | Mode::Quick => 10,
        Mode::Test | Mode::List => 1,
    };
    for (operations, tenths) in [(3, 10), (6, 5), (64, 2)] {
        let nap = Duration::from_micros(100 * tenths * scale);
        let engine = Engine::builder().cpu_workers(3).build().expect("valid settings");
        engine.prepare().expect("threads");
        let variables: Vec<Variable> = (0..operations).map(|_| engine.new_variable()).collect();
        let record = || {
            let record = |c: &mut Capture| {
                variables.iter().try_for_each(|variable| c.op("nap").write(*variable).push(move |_| sleep(nap)))
            };
            engine.capture(record).expect("valid variables").0
        };
        let mut group = criterion.benchmark_group(format!("{operations} operations of {nap:?}, three workers"));
        group.sampling_mode(SamplingMode::Flat).sample_size(10);
        group.warm_up_time(Duration::from_millis(1)).measurement_time(Duration::from_millis(300));
        let waited = |start: Instant| {
            engine.wait_for_all().expect("nothing fails");
            start.elapsed()
        };
        let pushes = || {
            let start = Instant::now();
            for variable in &variables {
                engine.op("nap").write(*variable).push(move |_| sleep(nap)).expect("valid variables");
            }
            waited(start)
        };
        group.bench_function("pushed one by one", |bencher| {
            bencher.iter_custom(|runs| (0..runs).map(|_| pushes()).sum());
        });
        let replay = |graph: &Graph| {
            let start = Instant::now();
            graph.replay().expect("the engine runs");
            waited(start)
        };
        group.bench_function("the first replay", |bencher| {
            bencher.iter_custom(|runs| (0..runs).map(|_| replay(&record())).sum());
        });
        let graph = record();
        group.bench_function("later replays", |bencher| {
            bencher.iter_custom(|runs| (0..runs).map(|_| replay(&graph)).sum());
        });
        group.finish();
    }
}

criterion_group!(benches, names, arrays, long);
criterion_main!(benches);
