//! The times of a profile, from the driver's events: the stand-in's clock counts commands.

use crate::client::{queue, Standin};
use crate::common::Watchdog;
use seriatim::{Context, Engine, RunContext};

const GPU: Context = Context::gpu(0);

#[test]
fn operations_have_the_times_that_the_driver_tells() {
    for seed in 1..=5 {
        let standin = Standin::begin(seed, 256);
        let _watchdog = Watchdog::new(120, "times of the driver");
        let engine = Engine::builder().cpu_workers(1).gpu_workers(1).pin(false).build().unwrap();
        let x = engine.new_variable();
        let push = |kernels: u64| {
            let body = move |run: &RunContext<'_>| {
                let stream = run.stream().expect("it is on a device").raw();
                (0..kernels).for_each(|_| assert_eq!(queue(stream, || 0), 0));
            };
            engine.op("kernels").context(GPU).writes([x]).push(body).unwrap();
        };
        engine.start_profiling();
        let kernels = |number: u64| 1 + number % 4;
        (0..50).for_each(|number| push(kernels(number)));
        engine.wait_for_all().unwrap();
        let profile = engine.profile();
        for (number, event) in (0..).zip(profile.events()) {
            let span = event.device().expect("it was done");
            assert!(span.accuracy.is_some(), "{event:?}");
            // The kernels and the mark behind them, and beside them marks of reference.
            let commands = (span.end - span.start) / 1000;
            assert!((kernels(number) + 1..=kernels(number) + 9).contains(&commands), "{number}: {commands}");
        }
        assert_eq!(profile.overlap(GPU).map(|overlap| overlap.operations), Some(50));
        drop(engine);
        assert_eq!(standin.reports(), [""; 0]);
    }
}
