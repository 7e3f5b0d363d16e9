//! How many nanoseconds does an operation cost, when there is nothing in it?
//!
//! Seven shapes of dependencies, about 200,000 operations each, pushed by one thread that then
//! waits for all: the figure includes finding the dependencies, running the bodies, and the pushing
//! thread's own work. Every run's result is checked. `cargo bench --bench versus` puts the same
//! figures into one table, taken alternately.

use std::time::Duration;

use criterion::{criterion_group, criterion_main, Criterion, SamplingMode, Throughput};
use seriatim_perf::entrants::{built_in, measure};
use seriatim_perf::machine::Mode;
use seriatim_perf::workloads;

fn throughput(criterion: &mut Criterion) {
    let operations = match Mode::from_arguments() {
        Mode::Full | Mode::Quick => workloads::OPERATIONS,
        Mode::Test | Mode::List => workloads::TEST_OPERATIONS,
    };
    for program in workloads::all(operations) {
        let mut group = criterion.benchmark_group(program.name());
        group.throughput(Throughput::Elements(program.sequence().len() as u64));
        // A run is long, so criterion's usual growing number of runs a sample would take an hour.
        group.sampling_mode(SamplingMode::Flat).sample_size(10);
        group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
        for entrant in built_in(&[1, 2]) {
            let mut runner = entrant.start().expect("an engine that needs nothing but cargo");
            // Some know no dependencies, or take no single pushes.
            if runner.prepare(program).is_err() {
                continue;
            }
            group.bench_function(&entrant.name, |bencher| {
                let mut run = |_| measure(&mut *runner, program).expect("a right result");
                bencher.iter_custom(|runs| (0..runs).map(&mut run).sum());
            });
        }
        group.finish();
    }
}

criterion_group!(benches, throughput);
criterion_main!(benches);
