//! One rule a test: each is a sentence of the source, and a mutant breaks it (`mutants/list.txt`).
//! A wait that should end and does not is a failure here, and not a test that hangs.

use crate::common::{eventually, nothing};
use crate::hooked::{Call, Hooked};
use crate::model::{Model, Release};
use crate::over;
use seriatim::gpu::{DeviceData, MemoryKind, PinnedData};
use seriatim::{Completion, Context, Engine, Error, ErrorKind, Kind, Property, RunContext, Variable, WhenFull};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{mpsc, Arc, Mutex};
use std::time::Duration;

const GPU: Context = Context::gpu(0);
const OTHER: Context = Context::gpu(1);
const LIMIT: Duration = Duration::from_secs(15);

fn kernel(model: &Arc<Model>) -> impl Fn(&RunContext<'_>) + Clone + Send + 'static + use<> {
    let model = Arc::clone(model);
    move |run| model.work(run.stream().expect("it is on a device"), Vec::new(), Vec::new(), || ())
}

/// Waits for a variable. If that does not end, the test fails, and leaves the engine as it is.
#[track_caller]
fn wait(engine: &Engine, variable: Variable) -> Result<(), Error> {
    let waited = engine.wait_for_var_timeout(variable, LIMIT);
    if waited.as_ref().is_err_and(|error| error.kind() == ErrorKind::TimedOut) {
        std::mem::forget(engine.clone());
        panic!("it does not end: {waited:?}");
    }
    waited
}

/// `watch.rs`, `poll`: the watcher puts a mark where one is needed to see how far the device is.
#[test]
fn the_watcher_puts_a_mark_where_there_is_none() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).build().unwrap();
    let x = engine.new_variable();
    engine.op("alone").context(GPU).writes([x]).push(kernel(&model)).unwrap();
    // Not for the variable: who waits for that has a mark put there.
    let waited = engine.wait_for_all_timeout(LIMIT);
    if waited.is_err() {
        std::mem::forget(engine);
        panic!("it does not end: {waited:?}");
    }
}

/// `watch.rs`, `sort`: what is behind two devices goes from one's watcher to the other's.
#[test]
fn what_is_behind_two_devices_is_parked_with_one_after_the_other() {
    let model = Model::new(2, 1, 4);
    let engine = over(&model).gpu_workers(1).build().unwrap();
    let [x, y, z] = std::array::from_fn(|_| engine.new_variable());
    (0..2).for_each(|device| model.hold(device, true));
    let _release = Release(Arc::clone(&model));
    engine.op("one").context(GPU).writes([x]).push(kernel(&model)).unwrap();
    (0..3).for_each(|_| engine.op("three").context(OTHER).writes([y]).push(kernel(&model)).unwrap());
    eventually("all are queued", || engine.version(y).unwrap() == 3 && engine.version(x).unwrap() == 1);
    engine.op("behind").reads([x, y]).writes([z]).push(nothing).unwrap();
    model.hold(0, false);
    wait(&engine, x).unwrap();
    model.hold(1, false);
    wait(&engine, z).unwrap();
}

/// `watch.rs`, `hand_out`: what is parked behind a device that is lost is handed out.
#[test]
fn what_is_parked_behind_a_lost_device_goes_on() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).build().unwrap();
    let _release = Release(Arc::clone(&model));
    let [x, y, z] = std::array::from_fn(|_| engine.new_variable());
    model.hold(0, true);
    engine.op("lost").context(GPU).reads([x]).writes([z]).push(kernel(&model)).unwrap();
    eventually("it is queued", || engine.version(z).unwrap() == 1);
    engine.op("parked").writes([x, y]).push(nothing).unwrap();
    // So that the watcher has it.
    std::thread::sleep(Duration::from_millis(20));
    model.world().lost[0] = true;
    wait(&engine, y).unwrap();
}

/// `watch.rs`, `bear`: a device that refuses to say how far it has come is lost in the end.
#[test]
fn a_device_that_stays_mute_is_lost() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).build().unwrap();
    let x = engine.new_variable();
    model.world().mute = true;
    engine.op("asked").context(GPU).writes([x]).push(kernel(&model)).unwrap();
    assert_eq!(wait(&engine, x).unwrap_err().kind(), ErrorKind::DeviceLost);
}

/// `call.rs`, `leave_tickets`: under a bound an operation counts until its device has done it.
#[test]
fn the_bound_counts_operations_until_their_device_is_done() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).bound(2).when_full(WhenFull::WouldBlock).build().unwrap();
    let _release = Release(Arc::clone(&model));
    let x = engine.new_variable();
    model.hold(0, true);
    (0..2).for_each(|_| engine.op("kernel").context(GPU).writes([x]).push(kernel(&model)).unwrap());
    eventually("both are queued", || engine.version(x).unwrap() == 2);
    let full = engine.op("third").push(nothing).map_err(|error| error.kind());
    if full != Err(ErrorKind::EngineFull) {
        // The count goes below none when the device is done.
        std::mem::forget(engine);
        panic!("a third operation of two has room: {full:?}");
    }
}

/// `watch.rs`, `ask`: a push that waits for room is told when a device has made some.
#[test]
fn a_push_that_waits_for_room_is_told_when_a_device_is_done() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).bound(2).build().unwrap();
    let x = engine.new_variable();
    model.hold(0, true);
    let _release = Release(Arc::clone(&model));
    (0..2).for_each(|_| engine.op("kernel").context(GPU).writes([x]).push(kernel(&model)).unwrap());
    eventually("both are queued", || engine.version(x).unwrap() == 2);
    let (own, (send, receive)) = (engine.clone(), mpsc::channel());
    std::thread::spawn(move || send.send(own.op("third").push(nothing).is_ok()));
    // It does not come before there is room.
    assert!(receive.recv_timeout(Duration::from_millis(50)).is_err());
    model.hold(0, false);
    let pushed = receive.recv_timeout(LIMIT);
    if pushed != Ok(true) {
        std::mem::forget(engine);
        panic!("the push waits for ever: {pushed:?}");
    }
}

/// `turn.rs`, `tell_loss`: each lost variable is told of once, also when the failure was taken.
#[test]
fn a_lost_variable_is_told_of_once() {
    let model = Model::new(2, 1, 4);
    let engine = over(&model).build().unwrap();
    let _release = Release(Arc::clone(&model));
    let [x, y] = std::array::from_fn(|_| engine.new_variable());
    model.hold(0, true);
    engine.op("suspect").context(GPU).writes([x]).push(kernel(&model)).unwrap();
    eventually("it is queued", || engine.version(x).unwrap() == 1);
    model.world().lost[0] = true;
    assert_eq!(wait(&engine, x).unwrap_err().kind(), ErrorKind::DeviceLost);
    // A completion leaves no ticket, so the lost one stays; the mark goes with what was written.
    let start = |_: &RunContext<'_>, completion: Completion| completion.complete();
    engine.op("writes anew").context(OTHER).writes([x]).push_async(start).unwrap();
    eventually("it has ended", || engine.version(x).unwrap() == 2);
    engine.op("reads").reads([x]).writes([y]).push(nothing).unwrap();
    wait(&engine, y).expect("what was lost was told of");
}

/// `turn.rs`, `obstacle`: who deletes a lost variable is told of nothing.
#[test]
fn a_deletion_of_a_lost_variable_tells_of_nothing() {
    let model = Model::new(1, 1, 4);
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let own = Arc::clone(&told);
    let engine = over(&model).on_error(move |error| own.lock().unwrap().push(error.to_string())).build().unwrap();
    let _release = Release(Arc::clone(&model));
    let x = engine.new_variable();
    model.hold(0, true);
    engine.op("suspect").context(GPU).writes([x]).push(kernel(&model)).unwrap();
    eventually("it is queued", || engine.version(x).unwrap() == 1);
    engine.delete_variable(|_| (), Context::cpu(0), x).unwrap();
    model.world().lost[0] = true;
    // The hook is told of what no wait has returned.
    drop(engine);
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 1, "the device is told of, and no variable: {told:?}");
}

/// `submit.rs`: nothing goes past operations that wait for room on the streams.
#[test]
fn nothing_goes_past_what_waits_for_room() {
    // In one program of some the first stream is done, and the second is asked after that.
    let order = (1..100).find_map(pushed_past_what_waits).expect("the watcher asks for one stream after the other");
    let at = |name| order.iter().position(|one| *one == name);
    assert!(at("waits") < at("comes later"), "{order:?}");
}

/// The order in which operations were queued, if one was pushed in the moment of the test.
fn pushed_past_what_waits(seed: u64) -> Option<Vec<&'static str>> {
    let model = Model::new(1, seed, 4);
    let hooked = Hooked::new(&model);
    let engine = over(&model).gpus(Arc::clone(&hooked) as _).gpu_workers(1).gpu_ahead(1).build().unwrap();
    let order: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let push = {
        let (engine, model, order) = (engine.clone(), Arc::clone(&model), Arc::clone(&order));
        move |name: &'static str, priority| {
            let (model, order) = (Arc::clone(&model), Arc::clone(&order));
            let body = move |run: &RunContext<'_>| {
                order.lock().unwrap().push(name);
                model.work(run.stream().unwrap(), Vec::new(), Vec::new(), || ());
            };
            engine.op(name).context(GPU).priority(priority).push(body).unwrap();
        }
    };
    let _release = Release(Arc::clone(&model));
    model.hold(0, true);
    ["first", "second"].into_iter().for_each(|name| push(name, 0));
    eventually("the streams are full", || order.lock().unwrap().len() == 2);
    // Asked about the second stream, when it has heard that the first has room and before it acts
    // on that, the watcher is held up by a push that is less urgent than what waits.
    const MARKS: usize = 64;
    let (later, pushed, looks) = (push.clone(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (mut has_room, count, looked) = (false, Arc::clone(&pushed), Arc::clone(&looks));
    hooked.hook(move |call| match call {
        Call::Answered(mark, reached) if mark < MARKS => {
            looked.fetch_add(1, SeqCst);
            has_room |= reached;
        }
        Call::Reached(mark) if mark >= MARKS && has_room && count.fetch_add(1, SeqCst) == 0 => {
            later("comes later", -5);
            // So that a worker that was given it comes before the watcher goes on.
            std::thread::sleep(Duration::from_millis(50));
        }
        _ => {}
    });
    push("waits", 0);
    // Between two looks the watcher takes what has come.
    let before = looks.load(SeqCst);
    eventually("the watcher has it", || looks.load(SeqCst) >= before + 2);
    model.hold(0, false);
    engine.wait_for_all_timeout(LIMIT).unwrap();
    let order = order.lock().unwrap().clone();
    (pushed.load(SeqCst) > 0).then_some(order)
}

/// `buffers.rs`, `reuse`: memory that a lost device has used has no other owner.
#[test]
fn memory_that_a_lost_device_uses_is_left_alone() {
    let model = Model::new(2, 1, 4);
    let engine = over(&model).build().unwrap();
    let [gpu, other] = [GPU, OTHER].map(|context| engine.device(context).unwrap());
    let address = |array: &DeviceData<u64>| {
        let (send, receive) = mpsc::channel();
        let own = array.clone();
        let look = move |run: &RunContext<'_>| send.send(own.write_on(run).unwrap().raw().addr()).unwrap();
        engine.op("look").context(GPU).write(array).push(look).unwrap();
        receive.recv_timeout(LIMIT).expect("the operation runs")
    };
    let x = DeviceData::<u64>::zeros(&gpu, 8).unwrap();
    let y = DeviceData::<u64>::zeros(&other, 8).unwrap();
    let before = address(&x);
    engine.wait_for_all_timeout(LIMIT).unwrap();
    let _release = Release(Arc::clone(&model));
    model.hold(1, true);
    engine.copy(&x, &y).unwrap();
    eventually("the copy is queued", || engine.version(y.variable()).unwrap() == 2);
    model.world().lost[1] = true;
    let _ = engine.wait_for_all_timeout(LIMIT);
    model.world().lost[1] = false;
    drop((x, y));
    let _ = engine.wait_for_all_timeout(LIMIT);
    assert_eq!(gpu.memory(MemoryKind::Device).kept, 512);
    let new = DeviceData::<u64>::zeros(&gpu, 8).unwrap();
    assert_ne!(address(&new), before, "the lost device may still read it");
}

/// `allocate.rs`, `trim`: kept memory is freed when its device is done with it.
#[test]
fn kept_memory_is_not_freed_while_a_device_uses_it() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).build().unwrap();
    let _release = Release(Arc::clone(&model));
    let gpu = engine.device(GPU).unwrap();
    let x = DeviceData::<u64>::zeros(&gpu, 8).unwrap();
    engine.wait_for_all_timeout(LIMIT).unwrap();
    model.hold(0, true);
    engine.op("kernel").context(GPU).write(&x).push(kernel(&model)).unwrap();
    eventually("it is queued", || engine.version(x.variable()).unwrap() == 2);
    drop(x);
    assert_eq!((gpu.trim(), model.allocations.left()), (0, 1));
    model.hold(0, false);
    engine.wait_for_all_timeout(LIMIT).unwrap();
    assert_eq!(gpu.trim(), 1);
    engine.wait_for_all_timeout(LIMIT).unwrap();
    assert_eq!(model.allocations.left(), 0);
}

/// `call.rs`: on the naive engine a copy is over before its borrows of the arrays end.
#[test]
fn on_the_naive_engine_a_copy_is_over_before_its_borrows_end() {
    let model = Model::new(1, 1, 4);
    let hooked = Hooked::new(&model);
    let engine = over(&model).gpus(Arc::clone(&hooked) as _).kind(Kind::Naive).build().unwrap();
    let gpu = engine.device(GPU).unwrap();
    let x = DeviceData::from_slice(&gpu, &[7u64; 8]).unwrap();
    let host = PinnedData::<u64>::zeros(&gpu, 8).unwrap();
    let (borrowed, own) = (Arc::new(Mutex::new(Vec::new())), host.clone());
    let seen = Arc::clone(&borrowed);
    hooked.hook(move |call| {
        if call == Call::Finish {
            // Another thread: this one is inside the operation.
            let outside = std::thread::scope(|scope| scope.spawn(|| own.read().is_err()).join().unwrap());
            seen.lock().unwrap().push(outside);
        }
    });
    engine.copy(&x, &host).unwrap();
    assert_eq!(borrowed.lock().unwrap().first(), Some(&true), "the first wait is inside the borrow");
    assert_eq!(*host.read().unwrap(), [7; 8]);
}

/// `lease.rs`: the variable of an array goes with its last handle.
#[test]
fn the_variable_of_an_array_goes_with_it() {
    let model = Model::new(1, 1, 4);
    for kind in [Kind::PerDevice, Kind::Naive] {
        let engine = over(&model).kind(kind).build().unwrap();
        let x = PinnedData::<u64>::zeros(&engine.device(GPU).unwrap(), 8).unwrap();
        let variable = x.variable();
        assert_eq!(engine.version(variable).unwrap(), 0);
        drop(x);
        engine.wait_for_all_timeout(LIMIT).unwrap();
        assert!(engine.version(variable).is_err(), "{kind}");
    }
}

/// `timeline.rs`, `follow`: a stream that waits for a mark learns what that mark's stream knew.
#[test]
fn what_a_stream_has_waited_for_need_not_be_waited_for_behind_it() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).gpu_workers(1).build().unwrap();
    let _release = Release(Arc::clone(&model));
    let [x, y, z] = std::array::from_fn(|_| engine.new_variable());
    model.hold(0, true);
    let push = |property, read: &[Variable], write: &[Variable]| {
        let operation = engine.op("link").context(GPU).property(property);
        operation.reads(read.iter().copied()).writes(write.iter().copied()).push(kernel(&model)).unwrap();
    };
    push(Property::CopyToGpu, &[], &[x]);
    push(Property::CopyFromGpu, &[x], &[y]);
    // One stream, which waits for the second, and so for the first.
    push(Property::GpuPrioritized, &[y], &[z]);
    push(Property::GpuPrioritized, &[x, z], &[]);
    push(Property::GpuPrioritized, &[], &[z]);
    eventually("all are queued", || engine.version(z).unwrap() == 2);
    assert_eq!(model.world().waits, 2);
}

/// `queue.rs`: a stream is chosen, and perhaps marked, by a thread that has entered the device.
#[test]
fn a_worker_enters_its_device_before_it_marks_a_stream() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).gpu_workers(2).build().unwrap();
    let _release = Release(Arc::clone(&model));
    model.hold(0, true);
    let push = |body: Box<dyn FnOnce(&RunContext<'_>) + Send>| {
        let x = engine.new_variable();
        engine.op("kernel").context(GPU).writes([x]).push(move |run: &RunContext<'_>| body(run)).unwrap();
        x
    };
    let queued = |x| eventually("it is queued", || engine.version(x).unwrap() == 1);
    // Two on each stream, by the first worker: the watcher marks the first of each.
    (0..8).for_each(|_| queued(push(Box::new(kernel(&model)))));
    let (open, gate) = mpsc::channel::<()>();
    push(Box::new(move |_| _ = gate.recv()));
    // The other worker comes to a stream that it has not used.
    (0..4).for_each(|_| queued(push(Box::new(kernel(&model)))));
    open.send(()).unwrap();
    model.hold(0, false);
    engine.wait_for_all_timeout(LIMIT).unwrap();
    assert_eq!(model.world().races, [""; 0]);
}
