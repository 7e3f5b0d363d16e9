//! Captured graphs with operations of devices: order inside, before and behind; errors, ends.

use crate::common::{assert_says, eventually, nothing, with_every_builder, Gate};
use crate::model::{Model, Release};
use crate::over;
use seriatim::{Completion, Context, Engine, ErrorKind, Graph, Property, RunContext, Variable};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const GPU: Context = Context::gpu(0);
const LIMIT: Duration = Duration::from_secs(30);
/// Long enough for something that would happen too early.
const MOMENT: Duration = Duration::from_millis(30);

/// A closure that queues work which adds one to `count` when it is done.
fn kernel(model: &Arc<Model>, count: &Arc<AtomicUsize>) -> impl Fn(&RunContext<'_>) + Send + 'static + use<> {
    let (model, count) = (Arc::clone(model), Arc::clone(count));
    move |run| {
        let (stream, count) = (run.stream().expect("it runs on a device"), Arc::clone(&count));
        model.work(stream, Vec::new(), Vec::new(), move || _ = count.fetch_add(1, SeqCst));
    }
}

fn counts(count: &Arc<AtomicUsize>) -> impl Fn(&RunContext<'_>) + Send + 'static + use<> {
    let count = Arc::clone(count);
    move |_| _ = count.fetch_add(1, SeqCst)
}

struct Held {
    // First: the engine of a test that fails waits for the device.
    _release: Release,
    model: Arc<Model>,
    engine: Engine,
    done: Arc<AtomicUsize>,
}

/// A device that does nothing until it is let go, and an engine over it.
fn held() -> Held {
    let model = Model::new(1, 1, 8);
    let engine = over(&model).build().unwrap();
    model.hold(0, true);
    Held { engine, done: Arc::default(), _release: Release(Arc::clone(&model)), model }
}

impl Held {
    fn variables<const N: usize>(&self) -> [Variable; N] {
        std::array::from_fn(|_| self.engine.new_variable())
    }

    /// A graph of one kernel that writes `x`.
    fn one(&self, x: Variable) -> Graph {
        let of = kernel(&self.model, &self.done);
        self.engine.capture(|c| c.op("one").context(GPU).write(x).push(of)).unwrap().0
    }
}

#[test]
fn operations_of_a_graph_wait_for_its_device_and_no_worker_does() {
    let held = held();
    let [x, y, z] = held.variables();
    let (engine, between) = (&held.engine, Arc::new(AtomicUsize::new(0)));
    let record = |c: &mut seriatim::Capture| {
        c.op("first").context(GPU).write(x).push(kernel(&held.model, &held.done))?;
        c.op("between").read(x).write(y).push(counts(&between))?;
        c.op("last").context(GPU).read(y).write(x).push(kernel(&held.model, &held.done))
    };
    let (graph, ()) = engine.capture(record).unwrap();
    graph.replay().unwrap();
    graph.replay().unwrap();
    // The one worker of the processor goes on with something else.
    engine.op("else").write(z).push(nothing).unwrap();
    engine.wait_for_var_timeout(z, LIMIT).unwrap();
    std::thread::sleep(MOMENT);
    assert_eq!(between.load(SeqCst), 0, "it has run before the device was done");
    held.model.hold(0, false);
    engine.wait_for_all_timeout(LIMIT).unwrap();
    assert_eq!((held.done.load(SeqCst), between.load(SeqCst)), (4, 2));
    assert_eq!([x, y].map(|variable| engine.version(variable).unwrap()), [4, 2]);
}

/// A replay is over when its operations are queued, so the next one is queued behind it.
#[test]
fn replays_follow_each_other_on_the_device() {
    let held = held();
    let [x, y] = held.variables();
    let graph = held.one(x);
    held.engine.op("before").context(GPU).write(x).push(kernel(&held.model, &held.done)).unwrap();
    (0..9).for_each(|_| graph.replay().unwrap());
    eventually("all are queued", || held.engine.version(x).unwrap() == 10);
    assert_eq!(held.done.load(SeqCst), 0);
    let after = Arc::new(AtomicUsize::new(0));
    held.engine.op("after").read(x).write(y).push(counts(&after)).unwrap();
    std::thread::sleep(MOMENT);
    assert_eq!(after.load(SeqCst), 0, "it comes after the replays");
    held.model.hold(0, false);
    held.engine.wait_for_var_timeout(y, LIMIT).unwrap();
    assert_eq!(held.done.load(SeqCst), 10);
}

#[test]
fn a_replay_comes_after_what_was_pushed_before() {
    let held = held();
    let [x, y] = held.variables();
    let ran = Arc::new(AtomicUsize::new(0));
    let record = |c: &mut seriatim::Capture| {
        c.op("on the processor").write(x).push(counts(&ran))?;
        c.op("on the device").context(GPU).write(y).push(kernel(&held.model, &held.done))
    };
    let (graph, ()) = held.engine.capture(record).unwrap();
    held.engine.op("before").context(GPU).write(x).push(kernel(&held.model, &held.done)).unwrap();
    graph.replay().unwrap();
    std::thread::sleep(MOMENT);
    assert_eq!(ran.load(SeqCst), 0, "the device has still to do what was pushed before");
    held.model.hold(0, false);
    held.engine.wait_for_all_timeout(LIMIT).unwrap();
    assert_eq!(ran.load(SeqCst), 1);
}

/// What follows on a device is queued by the device's workers: those of the processor are busy.
#[test]
fn a_chain_of_a_graph_needs_no_worker_of_the_processor() {
    let held = held();
    let x = held.engine.new_variable();
    let (first, gate) = (Gate::new(), Gate::new());
    let (stands, own) = (first.clone(), gate.clone());
    let record = |c: &mut seriatim::Capture| {
        c.op("first").context(GPU).write(x).push(move |_: &RunContext<'_>| stands.pass())?;
        (0..50).try_for_each(|_| c.op("link").context(GPU).write(x).push(kernel(&held.model, &held.done)))
    };
    let (graph, ()) = held.engine.capture(record).unwrap();
    // On the one worker of the processor. What it begins is on the device's worker then.
    graph.replay().unwrap();
    first.wait_for_someone();
    held.engine.op("holds the worker").push(move |_| own.pass()).unwrap();
    gate.wait_for_someone();
    first.open();
    eventually("all are queued", || held.engine.version(x).unwrap() == 51);
    gate.open();
    held.model.hold(0, false);
    held.engine.wait_for_all_timeout(LIMIT).unwrap();
    assert_eq!(held.done.load(SeqCst), 50);
}

/// The closures of a graph are dropped when the device is done with its last replay.
#[test]
fn a_graph_ends_when_the_device_is_done() {
    struct Ends(Arc<AtomicBool>);
    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    let held = held();
    let ended = Arc::new(AtomicBool::new(false));
    let (owned, of) = (Ends(Arc::clone(&ended)), kernel(&held.model, &held.done));
    let body = move |run: &RunContext<'_>| {
        let _ = &owned;
        of(run);
    };
    let x = held.engine.new_variable();
    let (graph, ()) = held.engine.capture(|c| c.op("owns").context(GPU).write(x).push(body)).unwrap();
    graph.replay().unwrap();
    eventually("it is queued", || held.engine.version(x).unwrap() == 1);
    drop(graph);
    std::thread::sleep(MOMENT);
    assert!(!ended.load(SeqCst), "the device is not done");
    held.model.hold(0, false);
    eventually("the closure is dropped", || ended.load(SeqCst));
}

/// A new value of a parameter waits for the replays' closures, and not for the device.
#[test]
fn parameters_change_while_the_device_works() {
    let held = held();
    let (x, seen) = (held.engine.new_variable(), Arc::new(Mutex::new(Vec::new())));
    let (own, model) = (Arc::clone(&seen), Arc::clone(&held.model));
    let record = |c: &mut seriatim::Capture| {
        let number = c.parameter(0);
        let inside = number.clone();
        c.op("sees").context(GPU).write(x).push(move |run: &RunContext<'_>| {
            own.lock().unwrap().push(*inside.get(run)?);
            model.work(run.stream().unwrap(), Vec::new(), Vec::new(), || ());
            Ok::<(), seriatim::Error>(())
        })?;
        Ok(number)
    };
    let (graph, number) = held.engine.capture(record).unwrap();
    for value in 0..5 {
        number.set(value).unwrap();
        graph.replay().unwrap();
    }
    eventually("all are queued", || held.engine.version(x).unwrap() == 5);
    held.model.hold(0, false);
    held.engine.wait_for_all_timeout(LIMIT).unwrap();
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2, 3, 4]);
}

/// On every engine: a failure marks what the operation writes, and skips what depends on it, in the
/// graph and behind.
#[test]
fn a_failure_on_a_device_travels() {
    with_every_builder(|builder| {
        let model = Model::new(1, 1, 4);
        let engine = builder.gpus(Arc::clone(&model) as _).build().unwrap();
        let [x, y, z] = std::array::from_fn(|_| engine.new_variable());
        let (ran, fails) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
        let own = Arc::clone(&fails);
        let record = |c: &mut seriatim::Capture| {
            c.op("fails").context(GPU).write(x).push(move |_| match own.load(SeqCst) {
                true => Err("no kernel"),
                false => Ok(()),
            })?;
            c.op("device behind").context(GPU).read(x).write(y).push(kernel(&model, &ran))?;
            c.op("completes behind").context(GPU).read(y).write(y).push_async({
                let ran = Arc::clone(&ran);
                move |_: &RunContext<'_>, completion: Completion| {
                    ran.fetch_add(1, SeqCst);
                    completion.complete();
                }
            })?;
            c.op("processor behind").read(y).write(z).push(counts(&ran))?;
            c.op("beside").context(GPU).property(Property::NoSkip).read(x).push(kernel(&model, &ran))
        };
        let (graph, ()) = engine.capture(record).unwrap();
        graph.replay().unwrap();
        let error = engine.wait_for_var_timeout(z, LIMIT).unwrap_err();
        assert_says(&error, ErrorKind::OperationFailed, &["'fails'", "no kernel"]);
        engine.wait_for_all_timeout(LIMIT).unwrap();
        assert_eq!(ran.swap(0, SeqCst), 1, "what is not skipped");
        fails.store(false, SeqCst);
        graph.replay().unwrap();
        engine.wait_for_all_timeout(LIMIT).unwrap();
        assert_eq!(ran.load(SeqCst), 4);
    });
}

/// One that ends by a completion, and is not called because its device is lost, fails by itself.
#[test]
fn what_is_not_called_since_its_device_is_lost_fails() {
    let held = held();
    let [x, y] = held.variables();
    let gate = Gate::new();
    let own = gate.clone();
    let record = |c: &mut seriatim::Capture| {
        c.op("queued").context(GPU).write(x).push(kernel(&held.model, &held.done))?;
        c.op("holds").write(y).push(move |_| own.pass())?;
        c.op("not called").context(GPU).write(y).push_async(|_, completion: Completion| completion.complete())
    };
    let (graph, ()) = held.engine.capture(record).unwrap();
    graph.replay().unwrap();
    gate.wait_for_someone();
    held.model.world().lost[0] = true;
    eventually("the loss is known", || {
        held.engine.op("asks").context(GPU).push(nothing).is_err_and(|error| error.kind() == ErrorKind::DeviceLost)
    });
    gate.open();
    let error = held.engine.wait_for_var_timeout(y, LIMIT).unwrap_err();
    assert_says(&error, ErrorKind::DeviceLost, &["'not called'", "gpu(0) is lost"]);
    let _ = held.engine.wait_for_all_timeout(LIMIT);
}

#[test]
fn a_lost_device_fails_the_operations_of_a_replay_and_nothing_hangs() {
    let held = held();
    let [x, y, z] = held.variables();
    let ran = Arc::new(AtomicUsize::new(0));
    let record = |c: &mut seriatim::Capture| {
        c.op("suspect").context(GPU).write(x).push(kernel(&held.model, &held.done))?;
        c.op("behind").read(x).write(y).push(counts(&ran))?;
        c.op("device behind").context(GPU).read(y).push(kernel(&held.model, &held.done))?;
        let own = Arc::clone(&ran);
        c.op("never called").context(GPU).write(x).push_async(move |_, completion: Completion| {
            own.fetch_add(1, SeqCst);
            completion.complete();
        })?;
        c.op("beside").write(z).push(counts(&ran))
    };
    let (graph, ()) = held.engine.capture(record).unwrap();
    graph.replay().unwrap();
    eventually("the rest has run", || ran.load(SeqCst) == 1);
    std::thread::sleep(MOMENT);
    held.model.world().lost[0] = true;
    let error = held.engine.wait_for_var_timeout(y, LIMIT).unwrap_err();
    assert_says(&error, ErrorKind::DeviceLost, &["gpu(0) is lost", "'suspect'"]);
    held.engine.wait_for_var_timeout(z, LIMIT).unwrap();
    assert_eq!(ran.load(SeqCst), 1, "what hangs on the device has run");
    assert_says(&graph.replay().unwrap_err(), ErrorKind::DeviceLost, &["gpu(0) is lost"]);
    let capture = held.engine.capture(|c| c.op("late").context(GPU).push(nothing));
    assert_eq!(capture.unwrap_err().kind(), ErrorKind::DeviceLost);
    held.engine.op("again").write(x).push(counts(&ran)).unwrap();
    held.engine.wait_for_var_timeout(x, LIMIT).unwrap();
    drop(graph);
    let _ = held.engine.wait_for_all_timeout(LIMIT);
    held.engine.stop().unwrap();
}

/// The place of a private variable goes to another one without what a device has left there.
#[test]
fn private_variables_leave_no_tickets_behind() {
    let held = held();
    held.model.hold(0, false);
    for lost in [false, true] {
        let record = |c: &mut seriatim::Capture| {
            let own = c.private_variable();
            c.op("writes").context(GPU).write(own).push(kernel(&held.model, &held.done))?;
            c.op("reads").context(GPU).read(own).push(kernel(&held.model, &held.done))
        };
        let (graph, ()) = held.engine.capture(record).unwrap();
        held.model.hold(0, lost);
        let before = held.done.load(SeqCst);
        graph.replay().unwrap();
        if lost {
            std::thread::sleep(MOMENT);
            held.model.world().lost[0] = true;
        }
        drop(graph);
        let _ = held.engine.wait_for_all_timeout(LIMIT);
        assert_eq!(held.done.load(SeqCst) - before, if lost { 0 } else { 2 });
        for _ in 0..200 {
            let x = held.engine.new_variable();
            held.engine.op("reads").read(x).push(nothing).unwrap();
            held.engine.wait_for_var_timeout(x, LIMIT).unwrap();
            held.engine.delete_variable(|_| (), Context::cpu(0), x).unwrap();
            held.engine.wait_for_all_timeout(LIMIT).unwrap();
        }
    }
}

/// On every engine: with a stream and a completion, without a stream, urgent, as a copy; stopped
/// and started between the replays.
#[test]
fn every_kind_of_operation_of_a_device_is_replayed() {
    with_every_builder(|builder| {
        let model = Model::new(1, 1, 4);
        let engine = builder.gpus(Arc::clone(&model) as _).build().unwrap();
        let (x, done) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)));
        let record = |c: &mut seriatim::Capture| {
            let properties = [Property::Normal, Property::GpuPrioritized, Property::CopyToGpu, Property::CopyFromGpu];
            for property in properties {
                c.op("kernel").context(GPU).property(property).write(x).push(kernel(&model, &done))?;
                c.op("urgent").context(GPU).property(property).priority(2).write(x).push(kernel(&model, &done))?;
            }
            let own = Arc::clone(&done);
            c.op("no stream").context(GPU).property(Property::Async).write(x).push(move |run: &RunContext<'_>| {
                assert!(run.stream().is_none());
                assert!(own.fetch_add(1, SeqCst) % 11 == 8, "what was queued before is done");
            })?;
            let own = Arc::clone(&done);
            c.op("later").context(GPU).write(x).push_async(move |run: &RunContext<'_>, completion: Completion| {
                assert!(run.stream().is_some());
                let own = Arc::clone(&own);
                std::thread::spawn(move || {
                    own.fetch_add(1, SeqCst);
                    completion.complete();
                });
            })?;
            c.op("at once").context(GPU).write(x).push_async({
                let done = Arc::clone(&done);
                move |_, completion: Completion| {
                    done.fetch_add(1, SeqCst);
                    completion.complete();
                }
            })
        };
        let (graph, ()) = engine.capture(record).unwrap();
        for round in 1..=6 {
            graph.replay().unwrap();
            if round % 2 == 0 {
                engine.stop().unwrap();
                assert_eq!(graph.replay().unwrap_err().kind(), ErrorKind::Stopped);
                assert_eq!(done.load(SeqCst), 11 * round, "it has stopped before the device was done");
                engine.start().unwrap();
            }
        }
        engine.wait_for_all_timeout(LIMIT).unwrap();
        assert_eq!((done.load(SeqCst), engine.version(x).unwrap()), (66, 66));
        drop((graph, engine));
        // The thread that has completed an operation may be the last to let go.
        eventually("all is given back", || model.left() == (0, 0));
    });
}

#[test]
fn a_device_that_is_not_there_is_refused_by_the_capture() {
    let model = Model::new(1, 1, 1);
    let engine = over(&model).build().unwrap();
    let refused = engine.capture(|c| c.op("kernel").context(Context::gpu(1)).push(nothing));
    assert_says(&refused.unwrap_err(), ErrorKind::DeviceUnavailable, &["gpu(1)", "1 devices"]);
}

/// The bound counts an operation of a replay until its device has done it.
#[test]
fn the_bound_counts_the_operations_of_replays() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).bound(2).when_full(seriatim::WhenFull::WouldBlock).build().unwrap();
    let _release = Release(Arc::clone(&model));
    model.hold(0, true);
    let (x, done) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)));
    let two = |c: &mut seriatim::Capture| {
        c.op("one").context(GPU).write(x).push(kernel(&model, &done))?;
        c.op("two").context(GPU).write(x).push(kernel(&model, &done))
    };
    let (graph, ()) = engine.capture(two).unwrap();
    graph.replay().unwrap();
    eventually("both are queued", || engine.version(x).unwrap() == 2);
    assert_eq!(graph.replay().unwrap_err().kind(), ErrorKind::EngineFull);
    model.hold(0, false);
    eventually("there is room", || graph.replay().is_ok());
    engine.wait_for_all_timeout(LIMIT).unwrap();
    assert_eq!(done.load(SeqCst), 4);
}

/// Set when it is dropped.
struct Guard(Arc<AtomicBool>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// The engine waits for the device, and takes no deletion any more.
#[test]
fn a_graph_that_is_dropped_while_the_engine_stops_keeps_its_closures_until_the_device_is_done() {
    let held = held();
    let (of, dropped) = (kernel(&held.model, &held.done), Arc::new(AtomicBool::new(false)));
    let guard = Guard(Arc::clone(&dropped));
    let body = move |run: &RunContext<'_>| {
        let _ = &guard;
        of(run);
    };
    let [x] = held.variables();
    let (graph, ()) = held.engine.capture(|c| c.op("one").context(GPU).write(x).push(body)).unwrap();
    graph.replay().unwrap();
    eventually("it is queued", || held.engine.version(x).unwrap() == 1);
    let engine = held.engine.clone();
    let stops = std::thread::spawn(move || engine.stop().unwrap());
    eventually("pushes are refused", || held.engine.op("late").push(nothing).is_err());
    drop(graph);
    std::thread::sleep(MOMENT);
    assert!(!dropped.load(SeqCst), "the device may still use what the closure has");
    held.model.hold(0, false);
    stops.join().unwrap();
    assert!(dropped.load(SeqCst) && held.done.load(SeqCst) == 1);
}

#[test]
fn an_operation_of_a_graph_ends_after_a_stream() {
    let held = held();
    let [x] = held.variables();
    let of = kernel(&held.model, &held.done);
    let start = move |run: &RunContext<'_>, completion: Completion| {
        of(run);
        // SAFETY: it is the operation's own stream.
        unsafe { completion.complete_after(run.stream().unwrap()) }
    };
    let (graph, ()) = held.engine.capture(|c| c.op("library").context(GPU).write(x).push_async(start)).unwrap();
    for replay in 1..=3 {
        held.model.hold(0, true);
        graph.replay().unwrap();
        std::thread::sleep(MOMENT);
        assert_eq!(held.engine.version(x).unwrap(), replay - 1, "it is over before its device is");
        held.model.hold(0, false);
        held.engine.wait_for_var_timeout(x, LIMIT).unwrap();
        assert_eq!(held.done.load(SeqCst) as u64, replay);
    }
}
