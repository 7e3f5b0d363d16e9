//! Devices that fail.

use crate::common::{assert_says, eventually, nothing, Random};
use crate::model::{Model, Release};
use crate::over;
use crate::programs::Plan;
use seriatim::gpu::DriverError;
use seriatim::{Context, ErrorKind, Kind, RunContext};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;

const GPU: Context = Context::gpu(0);
const LIMIT: Duration = Duration::from_secs(30);

fn kernel(model: &Arc<Model>) -> impl FnOnce(&RunContext<'_>) + Send + 'static + use<> {
    let model = Arc::clone(model);
    move |run| model.work(run.stream().expect("it is on a device"), Vec::new(), Vec::new(), || ())
}

#[test]
fn a_lost_device_fails_what_hangs_on_it_and_the_rest_goes_on() {
    let model = Model::new(2, 1, 4);
    let engine = over(&model).build().unwrap();
    let _release = Release(Arc::clone(&model));
    let [x, y, read, other] = std::array::from_fn(|_| engine.new_variable());
    (0..2).for_each(|device| model.hold(device, true));
    engine.op("suspect").context(GPU).reads([read]).writes([x]).push(kernel(&model)).unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let count = || {
        let ran = Arc::clone(&ran);
        move |_: &RunContext<'_>| _ = ran.fetch_add(1, SeqCst)
    };
    engine.op("behind").reads([x]).writes([y]).push(count()).unwrap();
    engine.op("reads on").writes([read]).push(count()).unwrap();
    engine.op("there").context(Context::gpu(1)).reads([x]).push(kernel(&model)).unwrap();
    eventually("it is queued", || engine.version(x).unwrap() == 1);
    {
        // The other device is asked as well: a model of one driver for both.
        let mut world = model.world();
        world.lost[0] = true;
    }
    let error = engine.wait_for_var_timeout(y, LIMIT).unwrap_err();
    assert_says(&error, ErrorKind::DeviceLost, &["gpu(0) is lost", "the model has lost it", "'suspect'"]);
    // What the device only read is as it was. The wait is for uses: no write is due.
    engine.wait_until_unused_timeout(read, LIMIT).unwrap();
    assert_eq!(ran.load(SeqCst), 1, "one is behind lost reads, and one behind a lost write");
    // The error was told: what is pushed now runs, and the variables are as good as new.
    engine.op("again").writes([x, y]).push(count()).unwrap();
    engine.wait_for_var_timeout(y, LIMIT).unwrap();
    engine.op("and again").reads([x]).push(count()).unwrap();
    engine.op("other").writes([other]).push(count()).unwrap();
    // The device itself is told of once as well.
    assert_eq!(engine.wait_for_all_timeout(LIMIT).unwrap_err().kind(), ErrorKind::DeviceLost);
    engine.wait_for_all_timeout(LIMIT).unwrap();
    assert_eq!(ran.load(SeqCst), 4);
    let refused = engine.op("late").context(GPU).push(nothing).unwrap_err();
    assert_says(&refused, ErrorKind::DeviceLost, &["gpu(0) is lost"]);
    engine.delete_variable(|_| (), Context::cpu(0), x).unwrap();
    engine.stop().unwrap();
}

/// The watcher finds the loss while the closure that has queued the cause has not returned.
#[test]
fn an_operation_that_is_being_called_is_suspected_as_well() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).build().unwrap();
    let _release = Release(Arc::clone(&model));
    model.hold(0, true);
    let [x, y] = std::array::from_fn(|_| engine.new_variable());
    engine.op("before").context(GPU).writes([x, y]).push(kernel(&model)).unwrap();
    engine.op("behind").reads([y]).push(nothing).unwrap();
    let told = Arc::new(AtomicBool::new(false));
    let (queue, device, is_told) = (kernel(&model), Arc::clone(&model), Arc::clone(&told));
    let strays = move |run: &RunContext<'_>| {
        queue(run);
        device.world().lost[0] = true;
        eventually("the loss is told", || is_told.load(SeqCst));
    };
    engine.op("strays").context(GPU).writes([x]).push(strays).unwrap();
    let error = engine.wait_for_var_timeout(y, LIMIT).unwrap_err();
    told.store(true, SeqCst);
    assert_says(&error, ErrorKind::DeviceLost, &["gpu(0) is lost", "not known to be done: 'before', 'strays'"]);
    engine.wait_for_all_timeout(LIMIT).unwrap_err();
    engine.stop().unwrap();
}

/// Each call of the driver fails once, or loses the device: nothing waits for ever, and every
/// operation has run or has failed.
#[test]
fn a_fault_at_each_call_of_the_driver_ends_everything() {
    for lost in [false, true] {
        for kind in [Kind::PerDevice, Kind::Pooled, Kind::Naive] {
            for call in 0..60 {
                let mut random = Random(call);
                let plan =
                    Plan { kind, devices: 2, start: 0, ahead: 2, workers: 2, steps: 3, graphs: false, memory: 0 };
                let model = Model::new(2, call, plan.steps);
                let engine = plan.engine(&model);
                let variables: Vec<_> = (0..4).map(|_| engine.new_variable()).collect();
                // Makes both devices ready.
                (0..2).for_each(|device| engine.op("first").context(Context::gpu(device)).push(nothing).unwrap());
                engine.wait_for_all_timeout(LIMIT).unwrap();
                let fault =
                    if lost { DriverError::lost("it fell off the bus") } else { DriverError::refused("not now") };
                model.world().refuses = Some((call as usize, fault));
                for number in 0..40 {
                    let context = [GPU, Context::gpu(1), Context::cpu(0)][random.below(3)];
                    let [first, second] = [variables[random.below(4)], variables[random.below(4)]];
                    let own = Arc::clone(&model);
                    let body = move |run: &RunContext<'_>| {
                        run.stream().into_iter().for_each(|stream| own.work(stream, Vec::new(), Vec::new(), || ()));
                    };
                    let pushed = engine.op("some").context(context).reads([first]).writes([second]).push(body);
                    if let Err(error) = pushed {
                        assert!(lost && error.kind() == ErrorKind::DeviceLost, "{kind}, call {call}: {error}");
                    }
                    if number % 16 == 15 {
                        let _ = engine.wait_for_var_timeout(first, LIMIT);
                    }
                }
                let outcome = engine.wait_for_all_timeout(LIMIT);
                let fine = |error: &seriatim::Error| {
                    matches!(error.kind(), ErrorKind::DeviceLost | ErrorKind::DeviceUnavailable)
                };
                assert!(outcome.as_ref().err().is_none_or(fine), "{kind}, call {call}: {outcome:?}");
                let after = Arc::new(AtomicBool::new(false));
                let set = Arc::clone(&after);
                engine.op("after").writes(variables.iter().copied()).push(move |_| set.store(true, SeqCst)).unwrap();
                engine.wait_for_all_timeout(LIMIT).unwrap_or_else(|error| panic!("{kind}, call {call}: {error}"));
                assert!(after.load(SeqCst), "{kind}, call {call}: the processor does not go on");
                assert!(model.world().races.is_empty(), "{kind}, call {call}");
            }
        }
    }
}

#[test]
fn a_closure_that_fails_on_a_device_marks_what_it_writes_and_its_work_is_waited_for() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).build().unwrap();
    let _release = Release(Arc::clone(&model));
    model.hold(0, true);
    let x = engine.new_variable();
    let own = Arc::clone(&model);
    let fails = move |run: &RunContext<'_>| {
        own.work(run.stream().unwrap(), Vec::new(), Vec::new(), || ());
        Err::<(), _>("the launch was refused")
    };
    engine.op("fails").context(GPU).writes([x]).push(fails).unwrap();
    engine.op("behind").context(GPU).writes([x]).push(|_| panic!("it is not called")).unwrap();
    let late = engine.wait_for_var_timeout(x, Duration::from_millis(20)).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::TimedOut, "what it had queued may still run");
    model.hold(0, false);
    let error = engine.wait_for_var_timeout(x, LIMIT).unwrap_err();
    assert_says(&error, ErrorKind::OperationFailed, &["'fails'", "the launch was refused"]);
    engine.wait_for_all_timeout(LIMIT).unwrap();
}

/// Of two lost variables each is told of, whatever was told of the other.
#[test]
fn each_lost_variable_is_told_of() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).build().unwrap();
    let _release = Release(Arc::clone(&model));
    model.hold(0, true);
    let [x, z, y] = std::array::from_fn(|_| engine.new_variable());
    engine.op("one").context(GPU).writes([x]).push(kernel(&model)).unwrap();
    engine.op("two").context(GPU).writes([z]).push(kernel(&model)).unwrap();
    eventually("both are queued", || engine.version(x).unwrap() + engine.version(z).unwrap() == 2);
    model.world().lost[0] = true;
    assert_eq!(engine.wait_for_var_timeout(x, LIMIT).unwrap_err().kind(), ErrorKind::DeviceLost);
    engine.op("reads z").reads([z]).writes([y]).push(|_| panic!("there is nothing to read")).unwrap();
    assert_eq!(engine.wait_for_var_timeout(y, LIMIT).unwrap_err().kind(), ErrorKind::DeviceLost);
    engine.wait_for_var_timeout(z, LIMIT).unwrap();
    assert_eq!(engine.wait_for_all_timeout(LIMIT).unwrap_err().kind(), ErrorKind::DeviceLost);
    engine.wait_for_all_timeout(LIMIT).unwrap();
}

/// A deletion runs on a device as well, whatever has become of its variable, or of the device.
#[test]
fn a_deletion_is_not_skipped() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).build().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    for lost in [false, true] {
        let x = engine.new_variable();
        let release = Release(Arc::clone(&model));
        if lost {
            model.hold(0, true);
            engine.op("queued").context(GPU).writes([x]).push(kernel(&model)).unwrap();
        }
        engine.op("fails").writes([x]).push(|_| Err::<(), _>("no")).unwrap();
        let own = Arc::clone(&ran);
        let delete = move |_: &RunContext<'_>| _ = own.fetch_add(1, SeqCst);
        // Pushed before: a device that is known to be lost takes none.
        engine.delete_variable(delete, GPU, x).unwrap();
        model.world().lost[0] = lost;
        drop(release);
        let _ = engine.wait_for_all_timeout(LIMIT);
        assert_eq!(ran.load(SeqCst), 1 + usize::from(lost));
    }
    // The places of deleted variables are used again, without what a device has left there.
    for _ in 0..200 {
        let x = engine.new_variable();
        engine.op("reads").reads([x]).push(nothing).unwrap();
        engine.wait_for_var_timeout(x, LIMIT).unwrap();
        engine.delete_variable(|_| (), Context::cpu(0), x).unwrap();
        engine.wait_for_all_timeout(LIMIT).unwrap();
    }
}

/// A device that never says how far it has come, without being lost, is lost after a while.
#[test]
fn a_device_that_refuses_to_answer_is_lost_in_the_end() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).build().unwrap();
    let _release = Release(Arc::clone(&model));
    let x = engine.new_variable();
    model.hold(0, true);
    engine.op("asked").context(GPU).writes([x]).push(kernel(&model)).unwrap();
    model.world().mute = true;
    let error = engine.wait_for_var_timeout(x, LIMIT).unwrap_err();
    assert_says(&error, ErrorKind::DeviceLost, &["for 1s it did not say", "the model is mute", "'asked'"]);
}
