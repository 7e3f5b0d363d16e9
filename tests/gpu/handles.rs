//! Handles of libraries that workers of a device keep.

use crate::common::{assert_says, eventually, Gate};
#[cfg(unix)]
use crate::common::{child, fork_and, run_child_well};
use crate::model::{entered, stray, Model};
use crate::over;
use seriatim::{Capture, Context, Engine, Error, ErrorKind, Graph, Kind, Property, RunContext, Variable};
use std::error::Error as _;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

const GPU: Context = Context::gpu(0);
const LIMIT: Duration = Duration::from_secs(30);

/// A thread, and the device that was current there.
type At = (ThreadId, Option<usize>);

fn here() -> At {
    (thread::current().id(), entered())
}

/// Where handles were made and dropped, by number.
#[derive(Default)]
struct Told {
    made: Mutex<Vec<At>>,
    dropped: Mutex<Vec<(usize, At)>>,
}

impl Told {
    fn made(&self) -> Vec<At> {
        self.made.lock().unwrap().clone()
    }

    fn dropped(&self) -> Vec<(usize, At)> {
        self.dropped.lock().unwrap().clone()
    }

    /// A closure that uses a handle, and says where.
    fn uses(
        self: &Arc<Told>,
        used: &Arc<Mutex<Vec<(usize, At)>>>,
    ) -> impl FnMut(&RunContext<'_>) -> Result<(), Error> + use<> {
        let (told, used) = (Arc::clone(self), Arc::clone(used));
        move |run| {
            run.with_handle(
                || Ok::<_, Error>(Handle::new(&told)),
                |handle| used.lock().unwrap().push((handle.number, here())),
            )
        }
    }
}

/// Of a library that binds its handles to a thread.
struct Handle {
    number: usize,
    told: Arc<Told>,
    _not_sent: Rc<()>,
}

impl Handle {
    fn new(told: &Arc<Told>) -> Handle {
        let mut made = told.made.lock().unwrap();
        made.push(here());
        Handle { number: made.len() - 1, told: Arc::clone(told), _not_sent: Rc::new(()) }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.told.dropped.lock().unwrap().push((self.number, here()));
    }
}

/// Two devices with two workers each, for kernels, and a copy worker.
#[test]
fn a_handle_is_made_once_a_worker_and_dropped_there_with_the_device_current() {
    for kind in [Kind::PerDevice, Kind::Pooled] {
        let model = Model::new(2, 1, 4);
        let engine = over(&model).kind(kind).build().unwrap();
        let (told, used) = (Arc::new(Told::default()), Arc::new(Mutex::new(Vec::new())));
        for round in 0..2 {
            for number in 0..60 {
                let context = Context::gpu(number % 2);
                let property = [Property::Normal, Property::CopyToGpu][number as usize / 2 % 2];
                let (mut uses, gate) = (told.uses(&used), Duration::from_micros(50));
                let pushed = engine.op("uses").context(context).property(property).push(move |run| {
                    // So that the second worker takes some.
                    thread::sleep(gate);
                    uses(run)
                });
                pushed.unwrap();
            }
            engine.wait_for_all_timeout(LIMIT).unwrap();
            let (made, dropped) = (told.made(), told.dropped());
            let used = std::mem::take(&mut *used.lock().unwrap());
            assert_eq!(used.len(), 60);
            for (number, at) in &used {
                assert_eq!(made[*number], *at, "{kind}: it is used where it was made, with the device current");
            }
            let new = &made[dropped.len()..];
            assert!((4..=6).contains(&new.len()), "{kind}: {} handles for six workers", new.len());
            let mut threads: Vec<_> = new.iter().map(|(thread, _)| format!("{thread:?}")).collect();
            threads.sort();
            threads.dedup();
            assert_eq!(threads.len(), new.len(), "{kind}: one for each thread");
            engine.stop().unwrap();
            let dropped = told.dropped();
            assert_eq!(dropped.len(), made.len(), "{kind}, round {round}: the workers have ended");
            for (number, at) in dropped {
                assert_eq!(made[number], at, "{kind}: dropped where it was made, with the device current");
            }
            engine.start().unwrap();
        }
        drop(engine);
        assert_eq!(told.dropped().len(), told.made().len());
        assert_eq!((model.left(), model.world().races.len()), ((0, 0), 0));
    }
}

#[test]
fn an_engine_that_ends_drops_the_handles_of_its_workers_the_youngest_first() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).gpu_workers(1).build().unwrap();
    let told = Arc::new(Told::default());
    for key in [3, 1, 2, 1, 3] {
        let told = Arc::clone(&told);
        let pushed = engine
            .op("uses")
            .context(GPU)
            .push(move |run| run.with_handle_of(key, || Ok::<_, Error>(Handle::new(&told)), |_| ()));
        pushed.unwrap();
    }
    engine.wait_for_all_timeout(LIMIT).unwrap();
    drop(engine);
    let order: Vec<usize> = told.dropped().iter().map(|(number, _)| *number).collect();
    assert_eq!(order, [2, 1, 0]);
    assert_eq!(model.left(), (0, 0));
}

#[test]
fn what_cannot_be_made_is_an_error_and_is_made_by_the_next_that_asks() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).gpu_workers(1).build().unwrap();
    let (told, x) = (Arc::new(Told::default()), engine.new_variable());
    let push = |how: usize| {
        let told = Arc::clone(&told);
        let make = move || match how {
            0 => Err("the library has no licence".into()),
            1 => panic!("in the library"),
            2 => Err(Box::<dyn std::error::Error + Send + Sync>::from("x".parse::<Kind>().unwrap_err())),
            _ => Ok(Handle::new(&told)),
        };
        engine.op("uses").context(GPU).write(x).push(move |run| run.with_handle(make, |_| ())).unwrap();
        engine.wait_for_var_timeout(x, LIMIT)
    };
    let error = push(0).unwrap_err();
    assert_says(&error, ErrorKind::OperationFailed, &["'uses'", "handles::Handle could not be made", "no licence"]);
    let source = error.source().and_then(|error| error.source()).expect("what `make` has returned");
    assert_eq!(source.to_string(), "the library has no licence");
    assert_says(&push(1).unwrap_err(), ErrorKind::OperationPanicked, &["in the library"]);
    assert_eq!(push(2).unwrap_err().kind(), ErrorKind::BadSetting);
    (0..3).for_each(|_| push(3).unwrap());
    assert_eq!(told.made().len(), 1);
}

/// A panic where a handle is used fails the operation. The handle is there for the next one.
#[test]
fn a_handle_outlives_an_operation_that_panics() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).gpu_workers(1).build().unwrap();
    let (told, x) = (Arc::new(Told::default()), engine.new_variable());
    for _ in 0..3 {
        let told = Arc::clone(&told);
        let pushed = engine
            .op("uses")
            .context(GPU)
            .write(x)
            .push(move |run| run.with_handle(|| Ok::<_, Error>(Handle::new(&told)), |_| panic!("in the middle")));
        pushed.unwrap();
        assert_eq!(engine.wait_for_var_timeout(x, LIMIT).unwrap_err().kind(), ErrorKind::OperationPanicked);
    }
    assert_eq!((told.made().len(), told.dropped().len()), (1, 0));
}

#[test]
fn a_handle_that_is_asked_for_in_its_own_use_or_making_is_an_error() {
    for kind in [Kind::PerDevice, Kind::Naive] {
        let model = Model::new(1, 1, 4);
        let engine = over(&model).kind(kind).build().unwrap();
        let x = engine.new_variable();
        let asks = |run: &RunContext<'_>| run.with_handle(|| Ok::<_, Error>(1u8), |_| ());
        let asks_for_it = |run: &RunContext<'_>| run.with_handle(|| Ok::<_, Error>(1u32), |_| ());
        engine
            .op("in its use")
            .context(GPU)
            .write(x)
            .push(move |run| run.with_handle(|| Ok::<_, Error>(1u8), |_| asks(run))?)
            .unwrap();
        let error = engine.wait_for_var_timeout(x, LIMIT).unwrap_err();
        assert_says(&error, ErrorKind::BorrowConflict, &["'in its use'", "the handle u8 of this worker is in use"]);
        engine
            .op("in its making")
            .context(GPU)
            .write(x)
            .push(move |run| run.with_handle(|| asks_for_it(run).map(|()| 1u32), |_| ()))
            .unwrap();
        let error = engine.wait_for_var_timeout(x, LIMIT).unwrap_err();
        assert_says(&error, ErrorKind::BorrowConflict, &["'in its making'", "is in use"]);
        // Others may be: one library is made with another's handle.
        engine
            .op("another")
            .context(GPU)
            .write(x)
            .push(move |run| {
                run.with_handle(
                    || asks(run).map(|()| 1u16),
                    |_| run.with_handle_of(1, || Ok::<_, Error>(1u16), |_| asks(run))?,
                )?
            })
            .unwrap();
        engine.wait_for_var_timeout(x, LIMIT).unwrap();
    }
}

#[test]
fn an_operation_without_a_stream_has_no_handles() {
    for kind in [Kind::PerDevice, Kind::Naive] {
        let model = Model::new(1, 1, 4);
        let engine = over(&model).kind(kind).build().unwrap();
        let x = engine.new_variable();
        for (context, property) in [(Context::cpu(0), Property::Normal), (GPU, Property::Async)] {
            let refused =
                move |run: &RunContext<'_>| run.with_handle(|| -> Result<u8, Error> { unreachable!() }, |_| ());
            engine.op("asks").context(context).property(property).write(x).push(refused).unwrap();
            let error = engine.wait_for_var_timeout(x, LIMIT).unwrap_err();
            let parts = ["'asks'", &context.to_string(), "has no stream", "Property::Async"];
            assert_says(&error, ErrorKind::NoStream, &parts);
        }
        // Neither has one of the processor inside of one that has.
        let inner = engine.clone();
        engine
            .op("outer")
            .context(GPU)
            .write(x)
            .push(move |_| inner.op("inner").push(|run| run.with_handle(|| Ok::<_, Error>(0u8), |_| ())))
            .unwrap();
        let error = engine.wait_for_all_timeout(LIMIT).unwrap_err();
        assert_says(&error, ErrorKind::NoStream, &["'inner'", "cpu(0)"]);
        // Nor has another thread than the operation's, which knows the operation all the same.
        engine
            .op("lends")
            .context(GPU)
            .write(x)
            .push(|run| {
                let ask = || (run.stream(), run.with_handle(|| Ok::<_, Error>(0u8), |_| ()));
                let (stream, handle) = std::thread::scope(|scope| scope.spawn(ask).join().unwrap());
                assert!(stream.is_none() && run.stream().is_some());
                handle
            })
            .unwrap();
        let error = engine.wait_for_var_timeout(x, LIMIT).unwrap_err();
        assert_says(&error, ErrorKind::NoStream, &["'lends'", "gpu(0)", "on the thread that calls its closure"]);
    }
}

/// On the naive engine a handle is the operation's: the device has done what it is used for when it
/// is dropped, by the pushing thread, whose own device is current afterwards.
#[test]
fn on_the_naive_engine_a_handle_lives_as_long_as_its_operation() {
    let model = Model::new(2, 1, 4);
    let engine = over(&model).kind(Kind::Naive).build().unwrap();
    let told = Arc::new(Told::default());
    let (done, inner) = (Arc::new(AtomicUsize::new(0)), engine.clone());
    stray(Some(1));
    for round in 1..=3 {
        let (own, told_too, model, done_too, inner) =
            (Arc::clone(&told), Arc::clone(&told), Arc::clone(&model), Arc::clone(&done), inner.clone());
        engine
            .op("uses")
            .context(GPU)
            .push(move |run| {
                let made = run.with_handle(|| Ok::<_, Error>(Handle::new(&own)), |handle| handle.number)?;
                let again = run.with_handle(|| -> Result<Handle, Error> { unreachable!() }, |handle| handle.number)?;
                assert_eq!(made, again);
                let counts = Arc::clone(&done_too);
                model.work(run.stream().unwrap(), Vec::new(), Vec::new(), move || _ = counts.fetch_add(1, SeqCst));
                // An operation inside has its own, on its own device.
                inner
                    .op("inner")
                    .context(Context::gpu(1))
                    .push(move |run| run.with_handle(|| Ok::<_, Error>(Handle::new(&told_too)), |_| ()))?;
                run.with_handle(
                    || -> Result<Handle, Error> { unreachable!() },
                    |handle| assert_eq!(handle.number, made),
                )
            })
            .unwrap();
        assert_eq!((done.load(SeqCst), entered()), (round, Some(1)));
        assert_eq!((told.made().len(), told.dropped().len()), (2 * round, 2 * round));
    }
    stray(None);
    let devices: Vec<_> = told.dropped().iter().map(|(_, (_, device))| device.unwrap()).collect();
    assert_eq!(devices, [1, 0, 1, 0, 1, 0]);
    engine.wait_for_all_timeout(LIMIT).unwrap();
    assert_eq!(model.world().races, [""; 0]);
}

/// `make` has the device current, also if the closure or another `make` has strayed.
#[test]
fn a_handle_is_made_with_its_device_current_wherever_the_closure_has_strayed() {
    for kind in [Kind::PerDevice, Kind::Naive] {
        let model = Model::new(2, 1, 4);
        let engine = over(&model).kind(kind).gpu_workers(1).build().unwrap();
        let (found, own) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Told::default()));
        for _ in 0..2 {
            let (found, own) = (Arc::clone(&found), Arc::clone(&own));
            engine
                .op("strays")
                .context(GPU)
                .push(move |run| {
                    stray(Some(1));
                    let make = || {
                        found.lock().unwrap().push(entered());
                        stray(None);
                        Ok::<_, Error>(Handle::new(&own))
                    };
                    run.with_handle(make, |_| found.lock().unwrap().push(entered()))
                })
                .unwrap();
        }
        engine.wait_for_all_timeout(LIMIT).unwrap();
        drop(engine);
        assert_eq!(found.lock().unwrap()[..2], [Some(0), Some(0)], "{kind}");
        assert!(own.dropped().iter().all(|(_, (_, device))| *device == Some(0)), "{kind}: {:?}", own.dropped());
    }
}

/// What drops a handle is the program's code: it may panic, and may leave another device current.
#[test]
fn a_destructor_that_panics_or_strays_spares_the_others() {
    struct Wild(usize, Arc<Told>);
    impl Drop for Wild {
        fn drop(&mut self) {
            self.1.dropped.lock().unwrap().push((self.0, here()));
            stray(Some(1));
            panic!("in a destructor");
        }
    }
    let model = Model::new(2, 1, 4);
    for kind in [Kind::PerDevice, Kind::Naive] {
        let engine = over(&model).kind(kind).gpu_workers(1).build().unwrap();
        let told = Arc::new(Told::default());
        let own = Arc::clone(&told);
        engine
            .op("makes")
            .context(GPU)
            .push(move |run| {
                (0..3)
                    .try_for_each(|key| run.with_handle_of(key, || Ok::<_, Error>(Wild(key, Arc::clone(&own))), |_| ()))
            })
            .unwrap();
        engine.wait_for_all_timeout(LIMIT).unwrap();
        engine.stop().unwrap();
        let dropped: Vec<_> = told.dropped().into_iter().map(|(key, (_, device))| (key, device)).collect();
        assert_eq!(dropped, [(2, Some(0)), (1, Some(0)), (0, Some(0))], "{kind}");
    }
}

/// The driver takes no more calls for it, and a destructor would make some.
#[test]
fn handles_of_a_lost_device_are_forgotten() {
    let model = Model::new(2, 1, 4);
    let engine = over(&model).gpu_workers(1).build().unwrap();
    let (told, used) = (Arc::new(Told::default()), Arc::new(Mutex::new(Vec::new())));
    for device in 0..2 {
        engine.op("uses").context(Context::gpu(device)).push(told.uses(&used)).unwrap();
    }
    engine.wait_for_all_timeout(LIMIT).unwrap();
    model.world().lost[0] = true;
    engine.op("finds it").context(GPU).push(told.uses(&used)).unwrap();
    assert_eq!(engine.wait_for_all_timeout(LIMIT).unwrap_err().kind(), ErrorKind::DeviceLost);
    drop(engine);
    let dropped: Vec<_> = told.dropped().into_iter().map(|(_, (_, device))| device).collect();
    assert_eq!(dropped, [Some(1)]);
}

/// An operation of a graph asks its worker, as one that is pushed. Those that are captured for a
/// graph of the driver have one of their own there.
#[test]
fn operations_of_a_graph_have_the_handles_of_their_worker() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).gpu_workers(1).build().unwrap();
    let (told, used, x) = (Arc::new(Told::default()), Arc::new(Mutex::new(Vec::new())), engine.new_variable());
    engine.op("uses").context(GPU).write(x).push(told.uses(&used)).unwrap();
    let record = |c: &mut seriatim::Capture| {
        c.op("part").context(GPU).write(x).push(told.uses(&used))?;
        c.op("captured").context(GPU).write(x).device_graph().push(told.uses(&used))
    };
    let (graph, ()) = engine.capture(record).unwrap();
    (0..3).for_each(|_| graph.replay().unwrap());
    engine.wait_for_all_timeout(LIMIT).unwrap();
    let numbers: Vec<usize> = used.lock().unwrap().iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [0, 0, 1, 0, 0]);
    drop((graph, engine));
    assert_eq!(told.dropped().len(), 2);
}

/// Graphs that use a handle: their operations, what these have found when a device did their work,
/// and how often their closures were called.
struct Captured {
    told: Arc<Told>,
    /// The handle of each launch, and whether it had been dropped.
    launched: Arc<Mutex<Vec<(usize, bool)>>>,
    called: Arc<AtomicUsize>,
}

impl Captured {
    fn new() -> Captured {
        Captured { told: Arc::default(), launched: Arc::default(), called: Arc::default() }
    }

    /// Captures two operations, the second of which uses a handle that the first has made.
    fn graph(&self, engine: &Engine, model: &Arc<Model>, x: Variable) -> Graph {
        let record = |c: &mut Capture| {
            for _ in 0..2 {
                let (told, model) = (Arc::clone(&self.told), Arc::clone(model));
                let (launched, called) = (Arc::clone(&self.launched), Arc::clone(&self.called));
                c.op("part").context(GPU).write(x).device_graph().push(move |run: &RunContext<'_>| {
                    called.fetch_add(1, SeqCst);
                    let number = run.with_handle(|| Ok::<_, Error>(Handle::new(&told)), |handle| handle.number)?;
                    let (told, launched) = (Arc::clone(&told), Arc::clone(&launched));
                    model.work(run.stream().unwrap(), Vec::new(), vec![0], move || {
                        let is_gone = told.dropped().iter().any(|(of, _)| *of == number);
                        launched.lock().unwrap().push((number, is_gone));
                    });
                    Ok::<(), Error>(())
                })?;
            }
            Ok(())
        };
        engine.capture(record).unwrap().0
    }

    fn launched(&self) -> Vec<(usize, bool)> {
        std::mem::take(&mut self.launched.lock().unwrap())
    }
}

/// What a library ties to the handle may be in the graph. It is there until the graph is not.
#[test]
fn a_graph_of_the_driver_has_handles_of_its_own() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).gpu_workers(1).build().unwrap();
    let (captured, used) = (Captured::new(), Arc::new(Mutex::new(Vec::new())));
    let [x, y] = std::array::from_fn(|_| engine.new_variable());
    let first = captured.graph(&engine, &model, x);
    engine.op("uses").context(GPU).write(x).push(captured.told.uses(&used)).unwrap();
    first.replay().unwrap();
    engine.op("uses").context(GPU).write(x).push(captured.told.uses(&used)).unwrap();
    engine.wait_for_all_timeout(LIMIT).unwrap();
    let second = captured.graph(&engine, &model, y);
    for graph in [&second, &first, &second] {
        graph.replay().unwrap();
        engine.wait_for_all_timeout(LIMIT).unwrap();
    }
    let pushed: Vec<usize> = used.lock().unwrap().iter().map(|(number, _)| *number).collect();
    assert_eq!(pushed, [0, 0]);
    let launched = [1, 1, 2, 2, 1, 1, 2, 2].map(|number| (number, false));
    assert_eq!((captured.launched(), captured.called.load(SeqCst)), (launched.to_vec(), 4));
    // Those of graphs that are gone go when the worker captures the next time.
    // A graph is gone with the two closures that it keeps.
    let gone = |graph: Graph, left: usize| {
        drop(graph);
        engine.wait_for_all_timeout(LIMIT).unwrap();
        eventually("the graph is gone", || Arc::strong_count(&captured.called) == 1 + 2 * left);
    };
    gone(first, 1);
    assert_eq!(captured.told.dropped(), []);
    for number in 3..13 {
        let graph = captured.graph(&engine, &model, x);
        (0..2).for_each(|_| graph.replay().unwrap());
        engine.wait_for_all_timeout(LIMIT).unwrap();
        assert_eq!(captured.launched(), [(number, false); 4]);
        gone(graph, 1);
        let dropped = captured.told.dropped();
        assert_eq!(dropped.len(), number - 2, "all but the second graph's, the last one's and the worker's");
        assert!(dropped.iter().all(|(number, at)| captured.told.made()[*number] == *at));
    }
    second.replay().unwrap();
    engine.wait_for_all_timeout(LIMIT).unwrap();
    assert_eq!(captured.launched(), [(2, false); 2]);
    drop((second, engine));
    assert_eq!(captured.told.dropped().len(), 13);
    assert_eq!((model.left(), model.world().races.len()), ((0, 0), 0));
}

/// A worker drops its handles at its end, and an operation of the naive engine at its own.
#[test]
fn a_graph_is_captured_anew_when_its_handles_are_gone() {
    for kind in [Kind::PerDevice, Kind::Pooled, Kind::Naive] {
        let model = Model::new(1, 1, 4);
        let engine = over(&model).kind(kind).build().unwrap();
        let captured = Captured::new();
        let [x, y] = std::array::from_fn(|_| engine.new_variable());
        let graph = captured.graph(&engine, &model, x);
        // One without a handle stays as it was captured.
        let called = Arc::new(AtomicUsize::new(0));
        let own = Arc::clone(&called);
        let without = move |_: &RunContext<'_>| _ = own.fetch_add(1, SeqCst);
        let (other, ()) =
            engine.capture(|c| c.op("without").context(GPU).write(y).device_graph().push(without)).unwrap();
        for _ in 0..3 {
            for _ in 0..3 {
                graph.replay().unwrap();
                other.replay().unwrap();
                engine.wait_for_all_timeout(LIMIT).unwrap();
            }
            engine.stop().unwrap();
            engine.start().unwrap();
        }
        let launched = captured.launched();
        assert_eq!(launched.len(), 18);
        assert_eq!(launched.iter().find(|(_, is_gone)| *is_gone), None, "{kind}");
        let captures = if kind == Kind::Naive { 9 } else { 3 };
        assert_eq!((captured.called.load(SeqCst), called.load(SeqCst)), (2 * captures, 1), "{kind}");
        assert_eq!(captured.told.made().len(), captures, "{kind}");
        drop((graph, other, engine));
        assert_eq!(captured.told.dropped().len(), captures, "{kind}");
        assert_eq!((model.left(), model.world().races.len()), ((0, 0), 0), "{kind}");
    }
}

/// Engines have workers of their own.
#[test]
fn engines_share_no_handle() {
    let model = Model::new(1, 1, 4);
    let (told, used) = (Arc::new(Told::default()), Arc::new(Mutex::new(Vec::new())));
    let engines: Vec<Engine> = (0..3).map(|_| over(&model).gpu_workers(1).build().unwrap()).collect();
    for engine in engines.iter().chain(&engines) {
        engine.op("uses").context(GPU).push(told.uses(&used)).unwrap();
        engine.wait_for_all_timeout(LIMIT).unwrap();
    }
    assert_eq!(told.made().len(), 3);
}

/// An asynchronous operation with a stream has them while its closure runs.
#[test]
fn asynchronous_operations_of_a_worker_have_them() {
    for kind in [Kind::PerDevice, Kind::Naive] {
        let model = Model::new(1, 1, 4);
        let engine = over(&model).kind(kind).gpu_workers(1).build().unwrap();
        let (told, used, gate) = (Arc::new(Told::default()), Arc::new(Mutex::new(Vec::new())), Gate::new());
        gate.open();
        for _ in 0..2 {
            let (mut uses, gate) = (told.uses(&used), gate.clone());
            engine
                .op("uses")
                .context(GPU)
                .push_async(move |run, completion| {
                    uses(run).unwrap();
                    thread::spawn(move || {
                        gate.pass();
                        completion.complete();
                    });
                })
                .unwrap();
        }
        engine.wait_for_all_timeout(LIMIT).unwrap();
        assert_eq!(told.made().len(), if kind == Kind::Naive { 2 } else { 1 }, "{kind}");
    }
}

#[cfg(unix)]
#[test]
fn the_child_of_a_fork_drops_no_handle_of_its_parent() {
    run_child_well(&mut child("fork with handles"));
}

#[cfg(unix)]
pub fn fork_with_handles() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).gpu_workers(1).fork_patience(LIMIT).build().unwrap();
    let (told, used) = (Arc::new(Told::default()), Arc::new(Mutex::new(Vec::new())));
    engine.op("uses").context(GPU).push(told.uses(&used)).unwrap();
    engine.wait_for_all_timeout(LIMIT).unwrap();
    let captured = Captured::new();
    let graph = captured.graph(&engine, &model, engine.new_variable());
    graph.replay().unwrap();
    engine.wait_for_all_timeout(LIMIT).unwrap();
    let child = engine.clone();
    fork_and(|| {
        // The fork has ended the workers, in the parent and with its devices.
        assert_eq!((told.made(), told.dropped()[0].1), (vec![told.dropped()[0].1], told.made()[0]));
        child.stop().unwrap();
        assert_eq!(told.dropped().len(), 1);
    });
    engine.op("uses").context(GPU).push(told.uses(&used)).unwrap();
    engine.wait_for_all_timeout(LIMIT).unwrap();
    // So is what was captured with one.
    graph.replay().unwrap();
    engine.wait_for_all_timeout(LIMIT).unwrap();
    assert_eq!(captured.launched(), [0, 0, 1, 1].map(|number| (number, false)));
    drop((graph, child, engine));
    assert_eq!((told.made().len(), told.dropped().len()), (2, 2));
}
