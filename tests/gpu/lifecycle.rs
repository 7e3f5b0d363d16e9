//! Stops, starts, ends and forks of engines that use devices.

#[cfg(unix)]
use crate::common::{child, fork_and, nothing, run_child_well};
use crate::model::Model;
use crate::over;
use seriatim::{Context, ErrorKind, IdlePolicy, Kind, RunContext};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;

const GPU: Context = Context::gpu(0);

fn kernel(model: &Arc<Model>, count: &Arc<AtomicUsize>) -> impl FnMut(&RunContext<'_>) + Send + 'static + use<> {
    let (model, count) = (Arc::clone(model), Arc::clone(count));
    move |run| {
        let stream = run.stream().expect("it is on a device");
        let count = Arc::clone(&count);
        model.work(stream, Vec::new(), Vec::new(), move || _ = count.fetch_add(1, SeqCst));
    }
}

#[test]
fn a_stop_waits_for_the_device_and_a_start_brings_its_threads_back() {
    for kind in [Kind::PerDevice, Kind::Pooled, Kind::Naive] {
        for idle in [IdlePolicy::Park, IdlePolicy::SpinThenPark] {
            let model = Model::new(1, 1, 2);
            let engine = over(&model).kind(kind).idle(idle).build().unwrap();
            let (x, done) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)));
            for round in 1..=20 {
                (0..5).for_each(|_| {
                    engine.op("kernel").context(GPU).writes([x]).push(kernel(&model, &done)).unwrap();
                });
                engine.stop().unwrap();
                assert_eq!(done.load(SeqCst), 5 * round, "{kind}: it has stopped before the device was done");
                let refused = engine.op("kernel").context(GPU).push(nothing);
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::Stopped);
                engine.start().unwrap();
            }
            drop(engine);
            assert_eq!(model.left(), (0, 0));
        }
    }
}

/// The watcher sleeps while nothing is queued, and each push wakes it.
#[test]
fn operations_far_apart_are_all_done() {
    let model = Model::new(1, 1, 2);
    let engine = over(&model).idle(IdlePolicy::Park).build().unwrap();
    let (x, done) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)));
    for round in 1..=50 {
        engine.op("kernel").context(GPU).writes([x]).push(kernel(&model, &done)).unwrap();
        engine.wait_for_var_timeout(x, Duration::from_secs(30)).unwrap();
        assert_eq!(done.load(SeqCst), round);
        std::thread::sleep(Duration::from_micros(300 * (round as u64 % 4)));
    }
}

#[test]
fn engines_share_a_back_end() {
    let model = Model::new(1, 1, 4);
    let done = Arc::new(AtomicUsize::new(0));
    let engines = [Kind::PerDevice, Kind::Pooled, Kind::Naive].map(|kind| over(&model).kind(kind).build().unwrap());
    for _ in 0..20 {
        engines.iter().for_each(|engine| engine.op("kernel").context(GPU).push(kernel(&model, &done)).unwrap());
    }
    drop(engines);
    assert_eq!(done.load(SeqCst), 60);
    assert_eq!(model.left(), (0, 0));
}

#[cfg(unix)]
#[test]
fn the_child_of_a_fork_has_no_devices() {
    run_child_well(&mut child("fork"));
}

#[cfg(unix)]
pub fn fork_after_use() {
    for kind in [Kind::PerDevice, Kind::Naive] {
        let model = Model::new(2, 1, 4);
        let engine = over(&model).kind(kind).fork_patience(Duration::from_secs(30)).build().unwrap();
        let (x, done) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)));
        let push = || engine.op("kernel").context(GPU).writes([x]).push(kernel(&model, &done));
        push().unwrap();
        let counted = kernel(&model, &done);
        let (graph, ()) = engine.capture(|c| c.op("part").context(GPU).write(x).push(counted)).unwrap();
        let (streams, marks) = model.left();
        let child = engine.clone();
        fork_and(|| {
            assert_eq!(done.load(SeqCst), 1, "the fork has waited for the device");
            let refused = push().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::DeviceUnavailable, "{refused}");
            assert!(refused.to_string().contains("fork"), "{refused}");
            assert!(graph.replay().unwrap_err().to_string().contains("fork"));
            // Nor one that the parent has not used.
            let refused = child.op("kernel").context(Context::gpu(1)).push(nothing).unwrap_err();
            assert!(refused.to_string().contains("fork"), "{refused}");
            child.op("on the processor").writes([x]).push(nothing).unwrap();
            child.wait_for_all_timeout(Duration::from_secs(30)).unwrap();
            drop(child);
        });
        assert_eq!(model.left(), (streams, marks));
        push().unwrap();
        graph.replay().unwrap();
        engine.wait_for_all_timeout(Duration::from_secs(30)).unwrap();
        assert_eq!(done.load(SeqCst), 3);
    }
}
