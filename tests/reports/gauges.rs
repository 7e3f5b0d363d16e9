//! What recorders of `metrics` are told.

use crate::common::*;
use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use seriatim::{Engine, Kind};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The last value of each name with its labels.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<BTreeMap<String, f64>>>);

struct One(Told, String);

impl One {
    fn new(told: &Told, key: &Key) -> Arc<One> {
        let labels: Vec<String> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        Arc::new(One(told.clone(), format!("{} {}", key.name(), labels.join(" "))))
    }

    fn is(&self, value: f64) {
        self.0 .0.lock().unwrap().insert(self.1.clone(), value);
    }
}

impl CounterFn for One {
    fn increment(&self, _: u64) {
        panic!("it is told what the engine has counted");
    }

    fn absolute(&self, value: u64) {
        self.is(value as f64);
    }
}

impl GaugeFn for One {
    fn increment(&self, _: f64) {
        panic!("it is told what there is");
    }

    fn decrement(&self, _: f64) {
        panic!("it is told what there is");
    }

    fn set(&self, value: f64) {
        self.is(value);
    }
}

impl Recorder for Told {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(One::new(self, key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(One::new(self, key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn a_recorder_is_told_what_stats_say() {
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(2).pin(false).build().unwrap();
    let x = engine.new_variable();
    let held = hold(&engine, &[], &[x]);
    engine.op("behind").write(x).push(nothing).unwrap();
    let told = Told::default();
    metrics::with_local_recorder(&told, || engine.record_metrics());
    let stats = engine.stats();
    let values = told.0.lock().unwrap().clone();
    let number = format!("{engine:?}").split(' ').nth(1).unwrap().to_owned();
    let of_engine = |name: &str| values[&format!("seriatim_{name} engine={number}")];
    assert_eq!((of_engine("in_flight"), of_engine("running"), of_engine("ready")), (2.0, 1.0, 0.0));
    assert_eq!(
        (of_engine("pushed_total"), of_engine("completed_total")),
        (stats.pushed as f64, stats.completed as f64)
    );
    assert_eq!(of_engine("blocks"), stats.pool.blocks as f64);
    let of_worker = |name: &str| values[&format!("seriatim_worker_{name} engine={number} worker=seriatim-cpu-1")];
    assert!(of_worker("idle_seconds") > 0.0 && of_worker("busy_seconds") >= 0.0);
    assert!(of_worker("parks_total") >= of_worker("wake_ups_total") - 1.0 && of_worker("steals_total") >= 0.0);
    assert_eq!(values.len(), 9 + 5 * stats.workers.len(), "{values:?}");
    held.complete();
    engine.wait_for_all().unwrap();
    metrics::with_local_recorder(&told, || engine.record_metrics());
    assert_eq!(told.0.lock().unwrap()[&format!("seriatim_in_flight engine={number}")], 0.0);
    // Nobody listens any more.
    engine.record_metrics();
}
