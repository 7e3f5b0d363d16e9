//! The order between operations of devices and of the processor, one rule a test.

use crate::common::{eventually, nothing};
use crate::model::{Model, Release};
use crate::over;
use seriatim::gpu::Class;
use seriatim::{CancelToken, Completion, Context, Engine, ErrorKind, Property, RunContext, Variable, WhenFull};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const GPU: Context = Context::gpu(0);
/// Long enough for something that would happen too early.
const MOMENT: Duration = Duration::from_millis(30);

/// A closure that queues work which adds one to `count` when it is done.
fn kernel(model: &Arc<Model>, count: &Arc<AtomicUsize>) -> impl FnOnce(&RunContext<'_>) + Send + 'static + use<> {
    let (model, count) = (Arc::clone(model), Arc::clone(count));
    move |run| {
        let stream = run.stream().expect("it runs on a device");
        model.work(stream, Vec::new(), Vec::new(), move || _ = count.fetch_add(1, SeqCst));
    }
}

fn flag() -> (Arc<AtomicBool>, impl FnOnce(&RunContext<'_>) + Send + 'static) {
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    (flag, move |_: &RunContext<'_>| set.store(true, SeqCst))
}

/// Devices that do nothing until they are let go, an engine over them, and a count.
fn held(devices: usize) -> (Arc<Model>, Engine, Arc<AtomicUsize>, Release) {
    let model = Model::new(devices, 1, 8);
    let engine = over(&model).build().unwrap();
    (0..devices).for_each(|device| model.hold(device, true));
    (Arc::clone(&model), engine, Arc::default(), Release(model))
}

#[test]
fn the_processor_comes_after_the_device_and_no_worker_waits_for_it() {
    let (model, engine, done, _release) = held(1);
    let [x, y] = [engine.new_variable(), engine.new_variable()];
    engine.op("kernel").context(GPU).writes([x]).push(kernel(&model, &done)).unwrap();
    let (after, set) = flag();
    engine.op("after").reads([x]).push(set).unwrap();
    // The one worker of the processor goes on with something else.
    engine.op("else").writes([y]).push(nothing).unwrap();
    engine.wait_for_var_timeout(y, Duration::from_secs(30)).unwrap();
    std::thread::sleep(MOMENT);
    assert!(!after.load(SeqCst), "it has run before the device was done");
    model.hold(0, false);
    engine.wait_for_all().unwrap();
    assert!(after.load(SeqCst));
}

#[test]
fn a_device_comes_after_another_device() {
    let (model, engine, done, _release) = held(2);
    let x = engine.new_variable();
    let second = Arc::new(AtomicUsize::new(0));
    engine.op("first").context(GPU).writes([x]).push(kernel(&model, &done)).unwrap();
    engine.op("second").context(Context::gpu(1)).writes([x]).push(kernel(&model, &second)).unwrap();
    model.hold(1, false);
    std::thread::sleep(MOMENT);
    assert_eq!(second.load(SeqCst), 0, "it was queued before the other device was done");
    model.hold(0, false);
    engine.wait_for_all().unwrap();
    assert_eq!((done.load(SeqCst), second.load(SeqCst)), (1, 1));
}

#[test]
fn a_chain_stays_on_one_stream_and_needs_no_waits() {
    // Whichever of the two workers takes a link.
    let (model, engine, done, _release) = held(1);
    let x = engine.new_variable();
    for _ in 0..40 {
        engine.op("link").context(GPU).writes([x]).push(kernel(&model, &done)).unwrap();
    }
    eventually("all are queued", || engine.version(x).unwrap() == 40);
    model.hold(0, false);
    engine.wait_for_all().unwrap();
    let world = model.world();
    assert_eq!(world.waits, 0);
    assert!(world.log.iter().all(|stream| *stream == world.log[0]), "{:?}", world.log);
    // Only the watcher's: one for each step of it.
    assert!(world.records <= 6, "{} marks for 40 operations", world.records);
}

#[test]
fn what_is_independent_spreads_over_streams() {
    let (model, engine, done, _release) = held(1);
    for _ in 0..64 {
        let x = engine.new_variable();
        engine.op("alone").context(GPU).writes([x]).push(kernel(&model, &done)).unwrap();
    }
    model.hold(0, false);
    engine.wait_for_all().unwrap();
    let mut streams = model.world().log.clone();
    streams.sort_unstable();
    streams.dedup();
    assert_eq!(streams.len(), 4, "two workers, and two streams for each: {streams:?}");
}

#[test]
fn readers_do_not_wait_for_each_other_and_a_write_waits_for_all_of_them() {
    let (model, engine, done, _release) = held(1);
    let x = engine.new_variable();
    for _ in 0..8 {
        let y = engine.new_variable();
        engine.op("read").context(GPU).reads([x]).writes([y]).push(kernel(&model, &done)).unwrap();
    }
    let y = engine.new_variable();
    engine.op("queued").writes([y]).push(nothing).unwrap();
    engine.wait_for_var(y).unwrap();
    eventually("all readers are queued", || engine.wait_for_var_timeout(x, Duration::ZERO).is_ok());
    let (after, set) = flag();
    engine.op("write").writes([x]).push(set).unwrap();
    std::thread::sleep(MOMENT);
    assert!(!after.load(SeqCst), "it has not waited for the readers");
    assert_eq!(model.world().waits, 0, "a reader waits for a reader");
    model.hold(0, false);
    engine.wait_for_all().unwrap();
}

#[test]
fn a_deletion_comes_after_the_device() {
    let (model, engine, done, _release) = held(1);
    let x = engine.new_variable();
    engine.op("kernel").context(GPU).reads([x]).push(kernel(&model, &done)).unwrap();
    let (deleted, set) = flag();
    engine.delete_variable(set, Context::cpu(0), x).unwrap();
    std::thread::sleep(MOMENT);
    assert!(!deleted.load(SeqCst));
    model.hold(0, false);
    engine.wait_for_all().unwrap();
    assert!(deleted.load(SeqCst));
    // Its place is another variable's, which owes the device nothing.
    model.hold(0, true);
    let again: Vec<Variable> = (0..4).map(|_| engine.new_variable()).collect();
    engine.op("free").writes(again).push(nothing).unwrap();
    engine.wait_for_all_timeout(Duration::from_secs(30)).unwrap();
    model.hold(0, false);
}

#[test]
fn waits_look_at_the_device_and_say_what_is_queued_there() {
    let (model, engine, done, _release) = held(1);
    let x = engine.new_variable();
    engine.op("kernel").context(GPU).writes([x]).push(kernel(&model, &done)).unwrap();
    eventually("it is queued", || engine.version(x).unwrap() == 1);
    for late in [
        // First: the others leave a wait behind, which is in flight as well.
        engine.wait_for_all_timeout(MOMENT),
        engine.wait_for_var_timeout(x, MOMENT),
        engine.wait_until_unused_timeout(x, MOMENT),
    ] {
        let error = late.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(error.to_string().contains("1 queued on gpu(0)"), "{error}");
    }
    let other = engine.clone();
    let waiter = std::thread::spawn(move || other.wait_for_var(x).map(|()| done.load(SeqCst)));
    std::thread::sleep(MOMENT);
    model.hold(0, false);
    assert_eq!(waiter.join().unwrap().unwrap(), 1, "the wait has ended before the device was done");
}

#[test]
fn no_stream_is_further_ahead_than_it_may_and_the_most_urgent_goes_first() {
    let model = Model::new(1, 1, 8);
    let engine = over(&model).gpu_workers(1).gpu_ahead(2).build().unwrap();
    let _release = Release(Arc::clone(&model));
    model.hold(0, true);
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |number: i32| {
        let (model, order) = (Arc::clone(&model), Arc::clone(&order));
        move |run: &RunContext<'_>| {
            let stream = run.stream().expect("it runs on a device");
            model.work(stream, Vec::new(), Vec::new(), move || order.lock().unwrap().push(number));
        }
    };
    let push = |property, priority: i32, number| {
        let builder = engine.op("one").context(GPU).property(property).priority(priority);
        builder.push(note(number)).unwrap();
    };
    // Fills both streams for copies to the device and from it; neither holds the other up.
    (0..4).for_each(|number| push(Property::CopyToGpu, 0, number));
    push(Property::CopyFromGpu, 0, 4);
    // The urgent stream: two are queued, the others wait.
    (0..2).for_each(|number| push(Property::Normal, 1, 10 + number));
    eventually("they are queued", || model.world().most_queued >= 2);
    std::thread::sleep(MOMENT);
    (0..3).for_each(|number| push(Property::Normal, 1, 20 + number));
    std::thread::sleep(MOMENT);
    push(Property::Normal, 9, 30);
    // The watcher has to take it before it hands out what waits.
    std::thread::sleep(4 * MOMENT);
    assert_eq!(model.world().most_queued, 2);
    model.hold(0, false);
    engine.wait_for_all().unwrap();
    let order = order.lock().unwrap();
    let place = |number: i32| order.iter().position(|other| *other == number).unwrap();
    assert!(place(30) < place(21) && place(20) < place(21), "{order:?}");
    assert_eq!(model.world().most_queued, 2);
}

#[test]
fn each_kind_of_operation_has_its_streams() {
    let model = Model::new(1, 1, 8);
    let engine = over(&model).build().unwrap();
    for (property, priority, class) in [
        (Property::Normal, 0, Class::Compute),
        (Property::Normal, 1, Class::Urgent),
        (Property::GpuPrioritized, 0, Class::Urgent),
        (Property::CopyToGpu, 5, Class::ToDevice),
        (Property::CopyFromGpu, 0, Class::FromDevice),
    ] {
        let own = Arc::clone(&model);
        let check = move |run: &RunContext<'_>| assert_eq!(own.class(run.stream().unwrap()), class);
        engine.op("where").context(GPU).property(property).priority(priority).push(check).unwrap();
    }
    // On the pushing thread, without a stream; and inside an operation of a device the processor's
    // operations have none.
    let (here, engine_inside) = (std::thread::current().id(), engine.clone());
    let pushed = move |run: &RunContext<'_>| {
        assert!(run.stream().is_none() && std::thread::current().id() == here);
    };
    engine.op("async").context(GPU).property(Property::Async).push(pushed).unwrap();
    let outer = move |run: &RunContext<'_>| {
        assert!(run.stream().is_some());
        let inner = |run: &RunContext<'_>| assert!(run.stream().is_none());
        engine_inside.op("inner").property(Property::Async).push(inner).unwrap();
        engine_inside.op("inner").context(GPU).property(Property::Async).push(inner).unwrap();
        assert!(run.stream().is_some());
    };
    engine.op("outer").context(GPU).push(outer).unwrap();
    engine.wait_for_all().unwrap();
}

#[test]
fn a_graph_beside_a_device_comes_to_its_turn() {
    let (model, engine, done, _release) = held(1);
    let x = engine.new_variable();
    let ran = Arc::new(AtomicBool::new(false));
    let own = Arc::clone(&ran);
    let (graph, ()) = engine.capture(|c| c.op("part").writes([x]).push(move |_| own.store(true, SeqCst))).unwrap();
    graph.replay().unwrap();
    engine.wait_for_all().unwrap();
    ran.store(false, SeqCst);
    engine.op("kernel").context(GPU).writes([x]).push(kernel(&model, &done)).unwrap();
    graph.replay().unwrap();
    std::thread::sleep(MOMENT);
    assert!(!ran.load(SeqCst), "the replay has not waited for the device");
    model.hold(0, false);
    engine.wait_for_all().unwrap();
    assert!(ran.load(SeqCst));
}

#[test]
fn an_asynchronous_operation_of_a_device_ends_when_its_completion_is_used() {
    let (model, engine, done, _release) = held(1);
    let x = engine.new_variable();
    engine.op("kernel").context(GPU).writes([x]).push(kernel(&model, &done)).unwrap();
    let (place, completion) = std::sync::mpsc::channel();
    let start = move |run: &RunContext<'_>, completion| {
        assert!(run.stream().is_some());
        place.send(completion).unwrap();
    };
    engine.op("async").context(GPU).writes([x]).push_async(start).unwrap();
    let (after, set) = flag();
    engine.op("after").reads([x]).push(set).unwrap();
    // What came before it is not done, though it is.
    completion.recv().unwrap().complete();
    std::thread::sleep(MOMENT);
    assert!(!after.load(SeqCst), "an asynchronous operation has hidden the one before it");
    model.hold(0, false);
    engine.wait_for_all().unwrap();
    assert!(after.load(SeqCst));
}

/// What is queued has started. What the processor holds up has not, though it is for a device.
#[test]
fn what_is_queued_is_not_cancelled_and_what_is_not_is_skipped_on_the_device() {
    let (model, engine, done, _release) = held(1);
    let ([x, y, z], token) =
        ([engine.new_variable(), engine.new_variable(), engine.new_variable()], CancelToken::new());
    engine.op("queued").context(GPU).write(x).token(&token).push(kernel(&model, &done)).unwrap();
    eventually("it is queued", || engine.version(x).unwrap() == 1);
    let (open, gate) = std::sync::mpsc::channel::<()>();
    engine.op("gate").write(y).push(move |_| _ = gate.recv()).unwrap();
    engine.op("not queued").context(GPU).reads([x, y]).write(z).token(&token).push(kernel(&model, &done)).unwrap();
    token.cancel();
    open.send(()).unwrap();
    eventually("it has come to its turn", || engine.version(z).unwrap() == 1);
    assert_eq!(done.load(SeqCst), 0, "the device is held");
    model.hold(0, false);
    let error = engine.wait_for_var_timeout(z, Duration::from_secs(30)).unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Cancelled, Some("not queued")));
    engine.wait_for_all().unwrap();
    assert_eq!(done.load(SeqCst), 1);
    // The streams are in order behind it.
    engine.op("next").context(GPU).writes([x, z]).push(kernel(&model, &done)).unwrap();
    engine.wait_for_all().unwrap();
    assert_eq!(done.load(SeqCst), 2);
}

/// Whether its completion is used at once, or by the watcher when the stream has come there.
#[test]
fn asynchronous_operations_are_not_further_ahead_than_they_may_either() {
    for ends_after_the_stream in [false, true] {
        let model = Model::new(1, 1, 8);
        let engine = over(&model).gpu_workers(1).gpu_ahead(2).build().unwrap();
        let _release = Release(Arc::clone(&model));
        model.hold(0, true);
        let called = Arc::new(AtomicUsize::new(0));
        let x = engine.new_variable();
        for _ in 0..12 {
            let (own, called) = (Arc::clone(&model), Arc::clone(&called));
            let start = move |run: &RunContext<'_>, completion: Completion| {
                let stream = run.stream().expect("it runs on a device");
                own.work(stream, Vec::new(), Vec::new(), || ());
                called.fetch_add(1, SeqCst);
                match ends_after_the_stream {
                    // SAFETY: the stream is the operation's.
                    true => unsafe { completion.complete_after(stream) },
                    false => completion.complete(),
                }
            };
            engine.op("independent").context(GPU).property(Property::CopyToGpu).read(x).push_async(start).unwrap();
        }
        eventually("the stream is full", || called.load(SeqCst) >= 2);
        std::thread::sleep(MOMENT);
        assert_eq!(called.load(SeqCst), 2, "more are queued on one stream");
        let error = engine.wait_for_all_timeout(MOMENT).unwrap_err();
        assert!(error.to_string().contains("2 queued on gpu(0)"), "{error}");
        model.hold(0, false);
        engine.wait_for_all_timeout(Duration::from_secs(30)).unwrap();
        assert_eq!((called.load(SeqCst), model.world().most_queued), (12, 2));
    }
}

/// Under a bound an asynchronous operation gives back all its room, in whichever order it ends.
#[test]
fn asynchronous_operations_give_their_room_back() {
    const BOUND: usize = 50;
    let model = Model::new(1, 1, 8);
    let engine = over(&model).bound(BOUND).when_full(WhenFull::WouldBlock).build().unwrap();
    let _release = Release(Arc::clone(&model));
    for round in 0..BOUND / 3 {
        let (place, completions) = std::sync::mpsc::channel();
        let own = Arc::clone(&model);
        let start = move |run: &RunContext<'_>, completion: Completion| {
            own.work(run.stream().expect("it runs on a device"), Vec::new(), Vec::new(), || ());
            place.send(completion).unwrap();
        };
        if let Err(error) = engine.op("one").context(GPU).push_async(start) {
            // The count has gone below none.
            std::mem::forget(engine);
            panic!("round {round}: {error}");
        }
        // Half of them end when the device has come there, and half perhaps before.
        let completion = completions.recv().unwrap();
        if round % 2 == 0 {
            eventually("the device is done", || !model.is_busy());
        }
        completion.complete();
    }
    engine.wait_for_all_timeout(Duration::from_secs(30)).unwrap();
    // All places are free, and no more than these.
    model.hold(0, true);
    let fill = || engine.op("fills").context(GPU).push(kernel(&model, &Arc::default()));
    (0..BOUND).for_each(|_| fill().unwrap());
    assert_eq!(fill().unwrap_err().kind(), ErrorKind::EngineFull);
    model.hold(0, false);
    engine.wait_for_all_timeout(Duration::from_secs(30)).unwrap();
}
