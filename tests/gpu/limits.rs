//! What is refused, and with which error.

use crate::common::{assert_says, child, eventually, nothing, on_every_engine, run_child_well};
use crate::model::{Model, Release};
use crate::over;
use seriatim::gpu::{Backend, Class, DriverError, Previous, RawMark, RawStream};
use seriatim::{Context, Engine, ErrorKind, IdlePolicy, Kind, RunContext, WhenFull};
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::time::Duration;

/// A back end whose driver is not there.
struct Absent;

// SAFETY: it has no devices.
unsafe impl Backend for Absent {
    fn name(&self) -> &str {
        "absent"
    }
    fn devices(&self) -> Result<usize, DriverError> {
        Err(DriverError::refused("there is no driver: install it"))
    }
    fn enter(&self, _: usize) -> Result<Previous, DriverError> {
        unreachable!("there is no device")
    }
    unsafe fn leave(&self, _: Previous) {}
    fn stream(&self, _: usize, _: Class) -> Result<RawStream, DriverError> {
        unreachable!("there is no device")
    }
    fn mark(&self, _: usize) -> Result<RawMark, DriverError> {
        unreachable!("there is no device")
    }
    unsafe fn record(&self, _: RawMark, _: RawStream) -> Result<(), DriverError> {
        unreachable!("there is no device")
    }
    unsafe fn wait(&self, _: RawStream, _: RawMark) -> Result<(), DriverError> {
        unreachable!("there is no device")
    }
    unsafe fn reached(&self, _: RawMark) -> Result<bool, DriverError> {
        unreachable!("there is no device")
    }
    unsafe fn finish(&self, _: RawStream) -> Result<(), DriverError> {
        unreachable!("there is no device")
    }
    unsafe fn drop_stream(&self, _: RawStream) {}
    unsafe fn drop_mark(&self, _: RawMark) {}
}

fn push(engine: &Engine, device: u32) -> Result<(), seriatim::Error> {
    engine.op("kernel").context(Context::gpu(device)).push(nothing)
}

#[test]
fn devices_that_are_not_there_are_refused_and_nothing_is_lost() {
    let engine = Engine::builder().gpus(Arc::new(Absent)).build().unwrap();
    let says = ["gpu(0) cannot be used", "there is no driver: install it", "use cpu(i)"];
    assert_says(&push(&engine, 0).unwrap_err(), ErrorKind::DeviceUnavailable, &says);
    let model = Model::new(2, 1, 1);
    let engine = over(&model).build().unwrap();
    let says = ["gpu(2) cannot be used", "model has found 2 devices"];
    assert_says(&push(&engine, 2).unwrap_err(), ErrorKind::DeviceUnavailable, &says);
    let x = engine.new_variable();
    let deleted = engine.delete_variable(|_| (), Context::gpu(7), x);
    assert_eq!(deleted.unwrap_err().kind(), ErrorKind::DeviceUnavailable);
    push(&engine, 1).unwrap();
    engine.op("alive").writes([x]).push(nothing).unwrap();
    engine.wait_for_all().unwrap();
    on_every_engine(|engine| assert_eq!(push(&engine, 0).unwrap_err().kind(), ErrorKind::DeviceUnavailable));
}

/// The driver refuses to make a stream or a mark: each in turn.
#[test]
fn a_device_that_cannot_be_made_ready_is_an_error_and_may_be_tried_again() {
    for kind in [Kind::PerDevice, Kind::Naive] {
        for call in 0..200 {
            let model = Model::new(1, 1, 1);
            let engine = over(&model).kind(kind).build().unwrap();
            model.world().refuses = Some((call, DriverError::refused("out of memory")));
            let first = push(&engine, 0);
            let Err(error) = first else {
                // The call may be one that runs the operation.
                let _ = engine.wait_for_all();
                assert!(call > 0);
                break;
            };
            assert_says(&error, ErrorKind::DeviceUnavailable, &["gpu(0)", "out of memory"]);
            assert_eq!(model.left(), (0, 0), "what was made is given back");
            push(&engine, 0).unwrap();
            engine.wait_for_all().unwrap();
        }
    }
}

/// The bound counts an operation until its device has done it.
#[test]
fn the_bound_counts_what_a_device_has_not_done() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).bound(2).when_full(WhenFull::WouldBlock).build().unwrap();
    let _release = Release(Arc::clone(&model));
    model.hold(0, true);
    let x = engine.new_variable();
    let own = Arc::clone(&model);
    let kernel = move |run: &RunContext<'_>| own.work(run.stream().unwrap(), Vec::new(), Vec::new(), || ());
    (0..2).for_each(|_| engine.op("kernel").context(Context::gpu(0)).writes([x]).push(kernel.clone()).unwrap());
    eventually("both are queued", || engine.version(x).unwrap() == 2);
    assert_eq!(push(&engine, 0).unwrap_err().kind(), ErrorKind::EngineFull);
    model.hold(0, false);
    eventually("there is room", || push(&engine, 0).is_ok());
    engine.wait_for_all().unwrap();
}

/// Also while its closure runs: it has one place, not one as an operation and one of the device.
#[test]
fn what_is_being_queued_on_a_device_has_one_place_under_the_bound() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).bound(2).when_full(WhenFull::WouldBlock).build().unwrap();
    let (x, y) = (engine.new_variable(), engine.new_variable());
    let (begun, has_begun) = channel();
    let (go_on, may_go_on) = channel::<()>();
    let first = move |_: &RunContext<'_>| {
        begun.send(()).unwrap();
        may_go_on.recv().unwrap();
    };
    engine.op("held").context(Context::gpu(0)).writes([x]).push(first).unwrap();
    has_begun.recv().unwrap();
    engine.op("second").writes([y]).reads([x]).push(nothing).unwrap();
    assert_eq!(push(&engine, 0).unwrap_err().kind(), ErrorKind::EngineFull);
    go_on.send(()).unwrap();
    // Nothing is left of either place.
    for _ in 0..3 {
        engine.wait_for_all().unwrap();
        (0..2).for_each(|_| push(&engine, 0).unwrap());
    }
}

/// A chain that is longer than the streams are allowed to be: what waits for room waits in one
/// place, and nobody hands it to and fro. Measured by the time of a process.
#[cfg(unix)]
#[test]
fn what_waits_for_room_stays_where_it_is() {
    run_child_well(&mut child("wait for room"));
}

/// The task of that child.
#[cfg(unix)]
pub fn wait_for_room() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).gpu_ahead(4).idle(IdlePolicy::Park).build().unwrap();
    let x = engine.new_variable();
    model.hold(0, true);
    for _ in 0..60 {
        let own = Arc::clone(&model);
        let body = move |run: &RunContext<'_>| own.work(run.stream().unwrap(), Vec::new(), vec![0], || ());
        engine.op("link").context(Context::gpu(0)).writes([x]).push(body).unwrap();
    }
    // Two workers with two streams of four places each.
    eventually("the streams are full", || engine.version(x).unwrap() == 16);
    std::thread::sleep(Duration::from_millis(20));
    let (before, began) = (processor_time(), std::time::Instant::now());
    std::thread::sleep(Duration::from_millis(300));
    let (took, passed) = (processor_time() - before, began.elapsed());
    // The watcher looks now and then. Without optimisation its looks take most of the time.
    assert!(cfg!(debug_assertions) || took < passed / 2, "{took:?} of {passed:?}");
    model.hold(0, false);
    engine.wait_for_all_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!(model.world().races, [""; 0]);
}

/// How long the threads of this process have run.
#[cfg(unix)]
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
