//! Copies that are recorded into graphs.

use crate::common::{assert_says, eventually, with_every_builder};
use crate::model::{Model, Release};
use crate::over;
use seriatim::gpu::{DeviceData, DriverError, PinnedData};
use seriatim::{Context, Error, ErrorKind, Kind, RunContext};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;
use std::time::Duration;

const GPU: Context = Context::gpu(0);
const LIMIT: Duration = Duration::from_secs(30);

/// Each replay takes what is there then: to a device, to another one, and back.
#[test]
fn each_replay_copies_what_is_there_then() {
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let model = Model::new(2, 1, 3);
        let engine = over(&model).kind(kind).build().unwrap();
        let [first, second] = [0, 1].map(|device| engine.device(Context::gpu(device)).unwrap());
        let [from, back] = [(); 2].map(|()| PinnedData::<u32>::zeros(&first, 100).unwrap());
        let (x, y) = (DeviceData::zeros(&first, 100).unwrap(), DeviceData::zeros(&second, 100).unwrap());
        let record = |c: &mut seriatim::Capture| {
            c.copy(&from, &x)?;
            c.copy(&x, &y)?;
            c.copy(&y, &back)
        };
        let (graph, ()) = engine.capture(record).unwrap();
        assert_eq!(graph.len(), 3);
        // The graph keeps them.
        drop((x, y));
        for round in 1..=20 {
            from.write().unwrap().fill(round);
            graph.replay().unwrap();
            engine.wait_for_all_timeout(LIMIT).unwrap();
            assert_eq!(*back.read().unwrap(), [round; 100], "{kind}");
        }
        assert_eq!(model.world().races, [""; 0]);
        drop((graph, from, back, first, second));
        engine.wait_for_all_timeout(LIMIT).unwrap();
        drop(engine);
        assert_eq!((model.left(), model.allocations.left()), ((0, 0), 0), "{kind}");
    }
}

/// Beside operations that are launched as a whole, and with an array that is the graph's own.
#[test]
fn copies_take_their_turn_beside_a_graph_of_the_driver() {
    let model = Model::new(1, 1, 3);
    let engine = over(&model).build().unwrap();
    let gpu = engine.device(GPU).unwrap();
    let [from, back] = [(); 2].map(|()| PinnedData::<u64>::zeros(&gpu, 1).unwrap());
    let x = DeviceData::<u64>::zeros(&gpu, 1).unwrap();
    let record = |c: &mut seriatim::Capture| {
        c.make_private(x.variable())?;
        c.copy(&from, &x)?;
        for factor in [3, 5] {
            let (x, model) = (x.clone(), Arc::clone(&model));
            c.op("times").context(GPU).write(&x.clone()).device_graph().push(move |run| {
                let address = x.write_on(run)?.raw().expose_provenance();
                model.work(run.stream().unwrap(), Vec::new(), vec![0], move || {
                    let value = std::ptr::with_exposed_provenance_mut::<u64>(address);
                    // SAFETY: the array lives as long as the graph, and the operation has it.
                    unsafe { *value = *value * factor + 1 };
                });
                Ok::<(), seriatim::Error>(())
            })?;
        }
        c.copy(&x, &back)
    };
    let (graph, ()) = engine.capture(record).unwrap();
    for round in 0..10 {
        from.write().unwrap()[0] = round;
        graph.replay().unwrap();
        engine.wait_for_all_timeout(LIMIT).unwrap();
        assert_eq!(*back.read().unwrap(), [(round * 3 + 1) * 5 + 1]);
    }
    let world = model.world();
    assert_eq!((world.launches, world.races.len()), (10, 0));
}

/// A closure that computes `value * factor + 1` in place, on the device.
fn times(
    model: &Arc<Model>,
    x: &DeviceData<u64>,
    factor: u64,
) -> impl FnMut(&RunContext<'_>) -> Result<(), Error> + use<> {
    let (x, model) = (x.clone(), Arc::clone(model));
    move |run| {
        let address = x.write_on(run)?.raw().expose_provenance();
        model.work(run.stream().unwrap(), Vec::new(), vec![address], move || {
            let value = std::ptr::with_exposed_provenance_mut::<u64>(address);
            // SAFETY: the array lives as long as the graph, and the operation has it.
            unsafe { *value = *value * factor + 1 };
        });
        Ok(())
    }
}

/// On every engine: to another array of the device, to the processor and back. They are launched
/// with the operations that they come after, and the launch borrows what they use.
#[test]
fn copies_behind_operations_of_a_graph_of_the_driver_are_launched_with_them() {
    with_every_builder(|builder| {
        for has_graphs in [true, false] {
            let model = Model::new(1, 1, 4);
            model.has_graphs.store(has_graphs, SeqCst);
            let engine = builder.clone().gpus(Arc::clone(&model) as _).build().unwrap();
            let gpu = engine.device(GPU).unwrap();
            let [x, y] = [(); 2].map(|()| DeviceData::<u64>::zeros(&gpu, 1).unwrap());
            let [through, back] = [(); 2].map(|()| PinnedData::<u64>::zeros(&gpu, 1).unwrap());
            let record = |c: &mut seriatim::Capture| {
                c.op("first").context(GPU).write(&x).device_graph().push(times(&model, &x, 3))?;
                c.copy(&x, &through)?;
                c.copy(&through, &y)?;
                c.op("second").context(GPU).write(&y).device_graph().push(times(&model, &y, 5))?;
                c.copy(&y, &back)
            };
            let (graph, ()) = engine.capture(record).unwrap();
            assert_eq!(graph.len(), 5);
            assert_eq!(graph.dump_dot().contains("first and 4 more"), has_graphs);
            let mut value = 0;
            for _ in 0..5 {
                graph.replay().unwrap();
                value = value * 3 + 1;
                engine.wait_for_all_timeout(LIMIT).unwrap();
                assert_eq!(*back.read().unwrap(), [value * 5 + 1]);
            }
            assert_eq!(model.world().launches, if has_graphs { 5 } else { 0 });
            for borrowed in [&through, &back] {
                let reader = borrowed.read().unwrap();
                graph.replay().unwrap();
                let error = engine.wait_for_var_timeout(borrowed.variable(), LIMIT).unwrap_err();
                let name = if has_graphs { "'first and 4 more'" } else { "'copy'" };
                assert_says(&error, ErrorKind::BorrowConflict, &[name]);
                drop(reader);
                let _ = engine.wait_for_all_timeout(LIMIT);
            }
            assert_eq!(model.world().launches, if has_graphs { 5 } else { 0 });
            assert_eq!(model.world().races, [""; 0]);
        }
    });
}

/// One that could begin earlier by itself, one with another device, and one that follows nothing
/// that is launched.
#[test]
fn other_copies_are_operations_of_their_own() {
    let model = Model::new(2, 1, 4);
    let engine = over(&model).build().unwrap();
    let [gpu, other] = [0, 1].map(|device| engine.device(Context::gpu(device)).unwrap());
    let [x, y, z] = [(); 3].map(|()| DeviceData::<u64>::zeros(&gpu, 1).unwrap());
    let far = DeviceData::<u64>::zeros(&other, 1).unwrap();
    let [from, back, late] = [1u64, 0, 0].map(|value| PinnedData::from_slice(&other, &[value]).unwrap());
    let record = |c: &mut seriatim::Capture| {
        c.op("part").context(GPU).write(&x).device_graph().push(times(&model, &x, 3))?;
        // Beside the part.
        c.copy(&from, &y)?;
        // To the other device, and from there.
        c.copy(&x, &far)?;
        c.copy(&far, &z)?;
        c.copy(&far, &late)?;
        // With the part.
        c.copy(&x, &back)
    };
    let (graph, ()) = engine.capture(record).unwrap();
    let dot = graph.dump_dot();
    assert!(dot.contains("part and 1 more"), "{dot}");
    for _ in 0..3 {
        graph.replay().unwrap();
        engine.wait_for_all_timeout(LIMIT).unwrap();
    }
    assert_eq!((back.read().unwrap()[0], late.read().unwrap()[0]), (13, 13));
    assert_eq!(model.world().launches, 3);
    assert_eq!(model.world().races, [""; 0]);
}

#[test]
fn a_pinned_array_of_a_replay_is_borrowed_until_the_device_is_done() {
    let model = Model::new(1, 2, 4);
    let engine = over(&model).build().unwrap();
    let _release = Release(Arc::clone(&model));
    let gpu = engine.device(GPU).unwrap();
    let (x, host) = (DeviceData::from_slice(&gpu, &[1u8, 2, 3]).unwrap(), PinnedData::zeros(&gpu, 3).unwrap());
    let (graph, ()) = engine.capture(|c| c.copy(&x, &host)).unwrap();
    engine.wait_for_all_timeout(LIMIT).unwrap();
    model.hold(0, true);
    graph.replay().unwrap();
    eventually("it is queued", || engine.version(host.variable()).unwrap() == 1);
    assert_says(&host.read().unwrap_err(), ErrorKind::BorrowConflict, &["a device has still to copy"]);
    model.hold(0, false);
    engine.wait_for_var_timeout(host.variable(), LIMIT).unwrap();
    assert_eq!(*host.read().unwrap(), [1, 2, 3]);
}

#[test]
fn what_cannot_be_copied_is_refused_by_the_capture_and_what_the_driver_refuses_by_the_replay() {
    let model = Model::new(1, 2, 4);
    let engine = over(&model).build().unwrap();
    let other = over(&model).build().unwrap();
    let gpu = engine.device(GPU).unwrap();
    let (x, y) = (DeviceData::<u8>::zeros(&gpu, 3).unwrap(), DeviceData::<u8>::zeros(&gpu, 4).unwrap());
    let [host, second] = [(); 2].map(|()| PinnedData::<u8>::zeros(&gpu, 3).unwrap());
    let mut capture = engine.begin_capture();
    assert_says(&capture.copy(&x, &x).unwrap_err(), ErrorKind::BufferMismatch, &["to itself"]);
    assert_says(&capture.copy(&x, &y).unwrap_err(), ErrorKind::BufferMismatch, &["has 3 elements", "has 4"]);
    assert_says(&capture.copy(&host, &second).unwrap_err(), ErrorKind::BufferMismatch, &["both the processor's"]);
    assert_eq!(other.begin_capture().copy(&x, &host).unwrap_err().kind(), ErrorKind::ForeignVariable);
    capture.copy(&x, &host).unwrap();
    let graph = capture.finish().unwrap();
    assert_eq!(graph.len(), 1);
    engine.wait_for_all_timeout(LIMIT).unwrap();
    let mut failed = 0;
    for call in 0..20 {
        model.world().refuses = Some((call, DriverError::refused("the model is busy")));
        graph.replay().unwrap();
        if let Err(error) = engine.wait_for_all_timeout(LIMIT) {
            assert_says(&error, ErrorKind::DeviceUnavailable, &["'copy'", "the model is busy"]);
            failed += 1;
        }
        model.world().refuses = None;
    }
    assert!(failed > 0, "no call was the copy's");
}
