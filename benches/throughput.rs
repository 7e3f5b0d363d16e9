//! How many nanoseconds does an operation cost, when there is nothing in it?
//!
//! Six shapes of dependencies, about 200,000 operations each, pushed by one thread that then waits for all: the figure
//! includes finding the dependencies, running the bodies, and the pushing thread's own work. Every run's result is
//! checked. `cargo bench --bench compare` puts the same figures into one table, taken alternately.

mod baseline;
mod workloads;

use std::time::Duration;

use criterion::{criterion_group, criterion_main, Criterion, SamplingMode, Throughput};
use workloads::machine::Mode;
use workloads::runners::{measure, RUNNERS};

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
        for (name, make) in RUNNERS {
            group.bench_function(name, |bencher| {
                let mut runner = make();
                runner.prepare(program);
                bencher.iter_custom(|runs| (0..runs).map(|_| measure(&mut *runner, program)).sum());
            });
        }
        group.finish();
    }
}

criterion_group!(benches, throughput);
criterion_main!(benches);
