//! How long does one operation take from its push to the end of the wait for it, on an engine that
//! has nothing else to do?
//!
//! criterion gives the mean of the round trip. After it come the percentiles, as one Markdown
//! table: of the round trip back to back, of the round trip after 200 µs of sleep, when the
//! engine's workers have gone idle, and of the push alone. All of them include the clock's own
//! cost, which is printed too. A count of what ran is checked at the end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criterion::{criterion_group, Criterion};
use hdrhistogram::Histogram;
use seriatim::{Context, Engine, IdlePolicy, Kind, Property, Variable};
use seriatim_perf::entrants::baseline;
use seriatim_perf::machine::Mode;

/// Long enough for a worker to stop spinning and go to sleep.
const PAUSE: Duration = Duration::from_micros(200);

/// One engine and one variable of it.
trait Subject {
    /// Pushes an operation that changes the variable and counts itself.
    fn push(&self);
    /// Waits for the variable.
    fn wait(&self);
}

type Make = fn() -> Box<dyn Subject>;

/// What is measured. Each engine lives only while it is its turn: one that spins would take a core
/// from the others.
const SUBJECTS: [(&str, Make); 10] = [
    ("naive", || ours(Kind::Naive, 1, IdlePolicy::SpinThenPark, false)),
    ("pooled-1 spin", || ours(Kind::Pooled, 1, IdlePolicy::Spin, false)),
    ("per-device-1 spin", || ours(Kind::PerDevice, 1, IdlePolicy::Spin, false)),
    ("per-device-1 spin, waiter helps", || ours(Kind::PerDevice, 1, IdlePolicy::Spin, true)),
    ("per-device-1 spin-then-park", || ours(Kind::PerDevice, 1, IdlePolicy::SpinThenPark, false)),
    ("per-device-1 spin-then-park, waiter helps", || ours(Kind::PerDevice, 1, IdlePolicy::SpinThenPark, true)),
    ("per-device-1 park", || ours(Kind::PerDevice, 1, IdlePolicy::Park, false)),
    ("per-device-2 spin-then-park", || ours(Kind::PerDevice, 2, IdlePolicy::SpinThenPark, false)),
    ("baseline-1", || theirs(1)),
    ("baseline-2", || theirs(2)),
];

/// How many operations have run, in any engine.
static RUN: AtomicU64 = AtomicU64::new(0);

fn count() {
    // Only one operation is in flight at a time, so this needs no locked instruction.
    RUN.store(RUN.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

struct Seriatim {
    engine: Engine,
    variable: Variable,
}

fn ours(kind: Kind, workers: usize, idle: IdlePolicy, waiters_help: bool) -> Box<dyn Subject> {
    let builder = Engine::builder().kind(kind).cpu_workers(workers).idle(idle);
    let engine = builder.waiters_help(waiters_help).build().expect("an engine");
    let variable = engine.new_variable();
    Box::new(Seriatim { engine, variable })
}

impl Subject for Seriatim {
    fn push(&self) {
        let (context, property) = (Context::default(), Property::Normal);
        let pushed = self.engine.push_sync(|_| count(), context, &[], &[self.variable], property, 0, "round trip");
        pushed.expect("a push");
    }

    fn wait(&self) {
        self.engine.wait_for_var(self.variable).expect("an operation that does not fail");
    }
}

struct Baseline {
    engine: baseline::Engine,
    variable: baseline::Var,
}

fn theirs(workers: usize) -> Box<dyn Subject> {
    let engine = baseline::Engine::new(workers);
    let variable = engine.new_variable();
    Box::new(Baseline { engine, variable })
}

impl Subject for Baseline {
    fn push(&self) {
        self.engine.push(count, &[], &[self.variable], 0);
    }

    fn wait(&self) {
        self.engine.wait_for_var(self.variable);
    }
}

fn round_trip(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("round trip");
    group.sample_size(20);
    group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
    for (name, make) in SUBJECTS {
        group.bench_function(name, |bencher| {
            let subject = make();
            bencher.iter(|| {
                subject.push();
                subject.wait();
            });
        });
    }
    group.finish();
}

/// The three distributions of one engine, in nanoseconds.
struct Percentiles {
    back_to_back: Histogram<u64>,
    after_pause: Histogram<u64>,
    push: Histogram<u64>,
}

impl Percentiles {
    fn measure(subject: &dyn Subject, trips: usize, pauses: usize) -> Percentiles {
        for _ in 0..trips / 10 {
            subject.push();
            subject.wait();
        }
        let before = RUN.load(Ordering::Relaxed);
        let trip = || {
            subject.push();
            subject.wait();
        };
        let percentiles = Percentiles {
            back_to_back: record(trips, || {}, trip, || {}),
            after_pause: record(pauses, || std::thread::sleep(PAUSE), trip, || {}),
            push: record(trips, || {}, || subject.push(), || subject.wait()),
        };
        let expected = (2 * trips + pauses) as u64;
        assert_eq!(RUN.load(Ordering::Relaxed) - before, expected, "operations were lost or run twice");
        percentiles
    }

    fn print(&self, name: &str) {
        print!("| {name} |");
        for histogram in [&self.back_to_back, &self.after_pause, &self.push] {
            for quantile in [0.5, 0.99, 0.999] {
                print!(" {:.2} |", histogram.value_at_quantile(quantile) as f64 / 1000.0);
            }
        }
        println!();
    }
}

/// Times `timed`, `count` times, with something before and after each that is not timed.
fn record(count: usize, before: impl Fn(), timed: impl Fn(), after: impl Fn()) -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds that make sense");
    for _ in 0..count {
        before();
        let start = Instant::now();
        timed();
        let elapsed = start.elapsed();
        after();
        histogram.saturating_record(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
    }
    histogram
}

fn print_percentiles(mode: Mode) {
    let (trips, pauses) = match mode {
        Mode::List => return,
        Mode::Test => (200, 20),
        Mode::Quick => (2_000, 100),
        Mode::Full => (20_000, 1_000),
    };
    let clock = record(trips, || {}, || {}, || {});
    println!("\nMicroseconds: p50, p99 and p99.9 over {trips} round trips back to back, {pauses} after a pause of");
    println!(
        "{PAUSE:?}, and {trips} pushes alone. Reading the clock takes {} ns of each.\n",
        clock.value_at_quantile(0.5)
    );
    println!("| engine | trip p50 | p99 | p99.9 | after pause p50 | p99 | p99.9 | push p50 | p99 | p99.9 |");
    println!("|---|{}", "---:|".repeat(9));
    for (name, make) in SUBJECTS {
        let subject = make();
        Percentiles::measure(&*subject, trips, pauses).print(name);
    }
}

criterion_group!(benches, round_trip);

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
    print_percentiles(Mode::from_arguments());
}
