//! What does it cost that many operations read one variable?
//!
//! One writer, then so many readers, repeated: the next writer has to wait for all of them.
//! Nanoseconds an operation, by criterion; every run's result is checked.

use std::time::Duration;

use criterion::{criterion_group, criterion_main, BenchmarkId, Criterion, SamplingMode, Throughput};
use seriatim_perf::entrants::{built_in, measure};
use seriatim_perf::machine::Mode;
use seriatim_perf::workloads::fan_out;

const READERS: [usize; 5] = [1, 4, 16, 64, 1024];
const ENTRANTS: [&str; 5] =
    ["seriatim-naive", "seriatim-per-device-1", "seriatim-per-device-2", "baseline-1", "baseline-2"];

fn readers(criterion: &mut Criterion) {
    let operations = match Mode::from_arguments() {
        Mode::Full | Mode::Quick => 50_000,
        Mode::Test | Mode::List => 2_000,
    };
    let mut group = criterion.benchmark_group("fan-out");
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(500));
    for readers in READERS {
        let program = fan_out("fan-out", readers, operations);
        group.throughput(Throughput::Elements(program.sequence().len() as u64));
        for entrant in built_in(&[1, 2]).into_iter().filter(|entrant| ENTRANTS.contains(&entrant.name.as_str())) {
            group.bench_function(BenchmarkId::new(&entrant.name, readers), |bencher| {
                let mut runner = entrant.start().expect("an entrant that needs nothing but cargo");
                runner.prepare(program).expect("an engine with dependencies");
                let mut run = |_| measure(&mut *runner, program).expect("a right result");
                bencher.iter_custom(|runs| (0..runs).map(&mut run).sum());
            });
        }
    }
    group.finish();
}

criterion_group!(benches, readers);
criterion_main!(benches);
