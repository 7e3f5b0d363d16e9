//! Operations that ask to be launched with others as a graph of the back end.

use crate::common::{assert_says, eventually, with_every_builder, Gate};
use crate::model::{Model, Release};
use crate::over;
use seriatim::gpu::{DriverError, PinnedData};
use seriatim::{Capture, Context, Data, Error, ErrorKind, Kind, Property, RunContext, Variable};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const GPU: Context = Context::gpu(0);
const LIMIT: Duration = Duration::from_secs(30);

/// How often closures were called, and the numbers of what was done, in order.
#[derive(Clone, Default)]
struct Log {
    called: Arc<AtomicUsize>,
    done: Arc<Mutex<Vec<usize>>>,
}

impl Log {
    /// A closure that queues work of this number.
    fn kernel(&self, model: &Arc<Model>, number: usize) -> impl Fn(&RunContext<'_>) + Send + 'static + use<> {
        let (model, log) = (Arc::clone(model), self.clone());
        move |run| {
            log.called.fetch_add(1, SeqCst);
            let done = Arc::clone(&log.done);
            model.work(run.stream().unwrap(), Vec::new(), vec![0], move || done.lock().unwrap().push(number));
        }
    }

    fn take(&self) -> (usize, Vec<usize>) {
        (self.called.swap(0, SeqCst), std::mem::take(&mut self.done.lock().unwrap()))
    }
}

/// On every engine: three operations of the device, one of the processor, and two of the device.
#[test]
fn what_lies_between_operations_of_the_processor_is_launched_as_one() {
    with_every_builder(|builder| {
        for has_graphs in [true, false] {
            let model = Model::new(1, 1, 4);
            model.has_graphs.store(has_graphs, SeqCst);
            let engine = builder.clone().gpus(Arc::clone(&model) as _).build().unwrap();
            let (x, log) = (engine.new_variable(), Log::default());
            let record = |c: &mut Capture| {
                for number in 0..3 {
                    c.op("before").context(GPU).write(x).device_graph().push(log.kernel(&model, number))?;
                }
                let done = Arc::clone(&log.done);
                c.op("between").write(x).device_graph().push(move |_| done.lock().unwrap().push(3))?;
                for number in 4..6 {
                    c.op("behind").context(GPU).write(x).device_graph().push(log.kernel(&model, number))?;
                }
                Ok(())
            };
            let (graph, ()) = engine.capture(record).unwrap();
            assert_eq!(graph.len(), 6);
            assert_eq!(graph.dump_dot().contains("before and 2 more"), has_graphs);
            (0..10).for_each(|_| graph.replay().unwrap());
            engine.wait_for_all_timeout(LIMIT).unwrap();
            let (called, done) = log.take();
            assert_eq!(done, [0, 1, 2, 3, 4, 5].repeat(10));
            assert_eq!(called, if has_graphs { 5 } else { 50 });
            assert_eq!(model.world().launches, if has_graphs { 20 } else { 0 });
            assert_eq!(engine.version(x).unwrap(), 60, "each captured operation counts");
            drop((graph, engine));
            eventually("all is given back", || model.left() == (0, 0));
            assert_eq!(model.world().races, [""; 0]);
        }
    });
}

/// It follows what is on its stream: no waits, and marks at its ends only.
#[test]
fn a_graph_of_the_device_is_one_operation_on_its_stream() {
    let model = Model::new(1, 1, 8);
    let engine = over(&model).gpu_workers(1).gpu_ahead(2).build().unwrap();
    let _release = Release(Arc::clone(&model));
    let (x, log) = (engine.new_variable(), Log::default());
    let record = |c: &mut Capture| {
        (0..100)
            .try_for_each(|number| c.op("part").context(GPU).write(x).device_graph().push(log.kernel(&model, number)))
    };
    let (graph, ()) = engine.capture(record).unwrap();
    model.hold(0, true);
    graph.replay().unwrap();
    graph.replay().unwrap();
    eventually("both are queued", || engine.version(x).unwrap() == 200);
    let (waits, queued) = {
        let world = model.world();
        (world.waits, world.most_queued)
    };
    assert_eq!((waits, queued), (0, 2));
    model.hold(0, false);
    engine.wait_for_all_timeout(LIMIT).unwrap();
    let records = model.world().records;
    assert!(records <= 4, "{records} marks");
    assert_eq!(log.take().0, 100);
}

#[test]
fn a_parameter_that_is_replaced_has_the_graph_captured_again() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).build().unwrap();
    let (x, done) = (engine.new_variable(), Arc::new(Mutex::new(Vec::new())));
    let (own, into) = (Arc::clone(&model), Arc::clone(&done));
    let record = |c: &mut Capture| {
        let number = c.parameter(1);
        let inside = number.clone();
        c.op("sees").context(GPU).write(x).device_graph().push(move |run: &RunContext<'_>| {
            let (value, into) = (*inside.get(run)?, Arc::clone(&into));
            own.work(run.stream().unwrap(), Vec::new(), Vec::new(), move || into.lock().unwrap().push(value));
            Ok::<(), Error>(())
        })?;
        Ok(number)
    };
    let (graph, number) = engine.capture(record).unwrap();
    model.hold(0, true);
    let _release = Release(Arc::clone(&model));
    (0..2).for_each(|_| graph.replay().unwrap());
    number.set(2).unwrap();
    (0..2).for_each(|_| graph.replay().unwrap());
    eventually("all are queued", || engine.version(x).unwrap() == 4);
    assert_eq!(model.world().graphs.len(), 2, "captured twice");
    model.hold(0, false);
    engine.wait_for_all_timeout(LIMIT).unwrap();
    assert_eq!(*done.lock().unwrap(), [1, 1, 2, 2]);
}

/// They have no variable in common that either changes, and so no order by tickets; but one handle,
/// whose memory both use.
#[test]
fn a_graph_that_replaces_another_is_launched_behind_it() {
    const WORKSPACE: usize = 0;
    let model = Model::new(1, 1, 8);
    let engine = over(&model).gpu_workers(1).build().unwrap();
    let _release = Release(Arc::clone(&model));
    let [x, y]: [Variable; 2] = std::array::from_fn(|_| engine.new_variable());
    let (mut value, own) = (Arc::new(()), Arc::clone(&model));
    let record = |c: &mut Capture| {
        let parameter = c.parameter(Arc::clone(&value));
        let inside = parameter.clone();
        c.op("reads").context(GPU).read(x).device_graph().push(move |run: &RunContext<'_>| {
            inside.get(run)?;
            let uses = |_: &mut usize| own.work(run.stream().unwrap(), Vec::new(), vec![WORKSPACE], || ());
            run.with_handle(|| Ok::<_, Error>(WORKSPACE), uses)
        })?;
        Ok(parameter)
    };
    let (graph, parameter) = engine.capture(record).unwrap();
    model.hold(0, true);
    for round in 0..6 {
        // A launch that could not be put behind another is none, and the next one is behind that.
        let is_refused = round == 3;
        model.world().refused = is_refused.then_some("wait");
        graph.replay().unwrap();
        let next = Arc::new(());
        parameter.set(Arc::clone(&next)).unwrap();
        eventually("the replay is over", || Arc::strong_count(&value) == 1);
        value = next;
        model.world().refused = None;
        if is_refused {
            // The streams take turns: so that the next launch is not where the last one is.
            engine.op("other").context(GPU).write(y).push(|_| ()).unwrap();
            eventually("it is queued", || engine.version(y).unwrap() == 1);
        }
    }
    let (launches, captured) = {
        let world = model.world();
        (world.launches, world.graphs.len())
    };
    assert_eq!((launches, captured), (5, 6));
    model.run_in_step();
    let error = engine.wait_for_all_timeout(LIMIT).unwrap_err();
    assert_says(&error, ErrorKind::DeviceUnavailable, &["'reads'", "no wait today"]);
    let world = model.world();
    let streams: std::collections::BTreeSet<_> = world.log.iter().collect();
    assert_eq!((world.log.len(), streams.len()), (5, 2), "launches, and their streams");
    assert_eq!(world.races, [""; 0]);
}

/// A failure of one closure is a failure of the whole: nothing of it is done. It names the one, and
/// the next replay tries again.
#[test]
fn a_closure_that_fails_while_it_is_captured() {
    for kind in [Kind::PerDevice, Kind::Naive] {
        for panics in [false, true] {
            let model = Model::new(1, 1, 4);
            let engine = over(&model).kind(kind).build().unwrap();
            let ([x, y], log) = (std::array::from_fn(|_| engine.new_variable()), Log::default());
            let fails = Arc::new(AtomicBool::new(true));
            let own = Arc::clone(&fails);
            let record = |c: &mut Capture| {
                c.op("first").context(GPU).write(x).device_graph().push(log.kernel(&model, 0))?;
                c.op("culprit").context(GPU).write(x).device_graph().push(move |_: &RunContext<'_>| {
                    match own.load(SeqCst) {
                        true if panics => panic!("no kernel"),
                        true => Err("no kernel"),
                        false => Ok(()),
                    }
                })?;
                c.op("last").context(GPU).read(x).write(y).device_graph().push(log.kernel(&model, 1))
            };
            let (graph, ()) = engine.capture(record).unwrap();
            graph.replay().unwrap();
            let error = engine.wait_for_var_timeout(y, LIMIT).unwrap_err();
            let of_it = if panics { ErrorKind::OperationPanicked } else { ErrorKind::OperationFailed };
            assert_says(&error, of_it, &["'first and 2 more'", "'culprit'", "no kernel"]);
            engine.wait_for_all_timeout(LIMIT).unwrap();
            assert_eq!(log.take(), (1, Vec::new()));
            fails.store(false, SeqCst);
            graph.replay().unwrap();
            engine.wait_for_all_timeout(LIMIT).unwrap();
            assert_eq!(log.take(), (2, vec![0, 1]));
        }
    }
}

/// What the driver refuses at a capture or a launch is an error of that operation, and no loss.
#[test]
fn a_driver_that_refuses_a_graph() {
    for refused in 0..6 {
        let model = Model::new(1, 1, 4);
        let engine = over(&model).build().unwrap();
        let (x, log, gate) = (engine.new_variable(), Log::default(), Gate::new());
        let own = gate.clone();
        let record = |c: &mut Capture| {
            c.op("holds").write(x).push(move |_| own.pass())?;
            c.op("part").context(GPU).write(x).device_graph().push(log.kernel(&model, 7))
        };
        let (graph, ()) = engine.capture(record).unwrap();
        graph.replay().unwrap();
        gate.wait_for_someone();
        model.world().refuses = Some((refused, DriverError::refused("no memory for a graph")));
        gate.open();
        match engine.wait_for_var_timeout(x, LIMIT) {
            // Of the call for a stream, the beginning, the end and the launch.
            Err(error) => {
                assert!(refused < 4, "{error}");
                assert_says(&error, ErrorKind::DeviceUnavailable, &["'part'", "a graph", "no memory for a graph"]);
                assert_eq!(log.take().1, []);
            }
            Ok(()) => assert!(refused >= 4, "call {refused} was refused"),
        }
        model.world().refuses = None;
        let _ = engine.wait_for_all_timeout(LIMIT);
        log.take();
        graph.replay().unwrap();
        engine.wait_for_all_timeout(LIMIT).unwrap();
        assert_eq!(log.take().1, [7]);
        drop((graph, engine));
        eventually("all is given back", || model.left() == (0, 0));
    }
}

/// Each of them may use what it has declared itself, and not what another has.
#[test]
fn each_closure_is_held_to_what_it_has_declared() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).build().unwrap();
    let (x, y) = (Data::new(&engine, 1), Data::new(&engine, 2));
    let record = |c: &mut Capture| {
        let of = x.clone();
        c.op("declares").context(GPU).write(&x).device_graph().push(move |_| of.read().map(|_| ()))?;
        let of = x.clone();
        c.op("does not").context(GPU).write(&y).device_graph().push(move |_| of.read().map(|_| ()))
    };
    let (graph, ()) = engine.capture(record).unwrap();
    graph.replay().unwrap();
    let error = engine.wait_for_var_timeout(y.variable(), LIMIT).unwrap_err();
    assert_says(&error, ErrorKind::UndeclaredAccess, &["'does not'"]);
    let _ = engine.wait_for_all_timeout(LIMIT);
}

/// On every engine: a launch borrows the arrays whose addresses its closures were given, as an
/// operation does that is called. A borrow of the program's is never used beside it.
#[test]
fn each_launch_borrows_what_its_closures_were_given() {
    with_every_builder(|builder| {
        let model = Model::new(1, 1, 4);
        let engine = builder.clone().gpus(Arc::clone(&model) as _).build().unwrap();
        let gpu = engine.device(GPU).unwrap();
        let [from, to] = [1u64, 0].map(|value| PinnedData::from_slice(&gpu, &[value]).unwrap());
        let borrowed = Arc::new(Mutex::new(Vec::new()));
        let record = |c: &mut Capture| {
            for _ in 0..2 {
                let (model, from, to, borrowed) = (Arc::clone(&model), from.clone(), to.clone(), Arc::clone(&borrowed));
                c.op("adds").context(GPU).read(&from.clone()).write(&to.clone()).device_graph().push(
                    move |run: &RunContext<'_>| {
                        // It is noted twice, in two ways.
                        to.read_on(run)?;
                        let [input, output] =
                            [from.read_on(run)?, to.write_on(run)?].map(|memory| memory.raw().expose_provenance());
                        let (to, borrowed) = (to.clone(), Arc::clone(&borrowed));
                        model.work(run.stream().unwrap(), vec![input], vec![output], move || {
                            borrowed.lock().unwrap().push(to.read().is_err());
                            let [input, output] = [input, output].map(std::ptr::with_exposed_provenance_mut::<u64>);
                            // SAFETY: the graph keeps both arrays, and its launches have them.
                            unsafe { *output += *input };
                        });
                        Ok::<(), Error>(())
                    },
                )?;
            }
            Ok(())
        };
        let (graph, ()) = engine.capture(record).unwrap();
        let mut launches = 0;
        let mut replay = |refused: bool| {
            graph.replay().unwrap();
            let outcome = engine.wait_for_var_timeout(to.variable(), LIMIT);
            launches += usize::from(!refused);
            assert_eq!(model.world().launches, launches);
            match outcome {
                Err(error) if refused => assert_says(&error, ErrorKind::BorrowConflict, &["'adds and 1 more'"]),
                outcome => assert_eq!(outcome.is_err(), refused),
            }
            let _ = engine.wait_for_all_timeout(LIMIT);
        };
        replay(false);
        let reader = to.read().unwrap();
        replay(true);
        assert_eq!(*reader, [2]);
        drop(reader);
        let writer = from.write().unwrap();
        replay(true);
        drop(writer);
        let reader = from.read().unwrap();
        replay(false);
        drop(reader);
        replay(false);
        assert_eq!(*to.read().unwrap(), [6]);
        assert_eq!(*borrowed.lock().unwrap(), [true; 6], "until the device is done");
        assert_eq!(model.world().races, [""; 0]);
    });
}

/// Another thread than the one that calls the closure would be given an address that no launch
/// borrows.
#[test]
fn the_thread_that_is_captured_asks_for_addresses() {
    for kind in [Kind::PerDevice, Kind::Naive] {
        let model = Model::new(1, 1, 4);
        let engine = over(&model).kind(kind).build().unwrap();
        let host = PinnedData::<u8>::zeros(&engine.device(GPU).unwrap(), 1).unwrap();
        for captured in [true, false] {
            let own = host.clone();
            let lends = move |run: &RunContext<'_>| {
                std::thread::scope(|scope| scope.spawn(|| own.write_on(run).map(|_| ())).join().unwrap())
            };
            let record = |c: &mut Capture| {
                let op = c.op("lends").context(GPU).write(&host);
                if captured { op.device_graph() } else { op }.push(lends)
            };
            let (graph, ()) = engine.capture(record).unwrap();
            graph.replay().unwrap();
            let error = engine.wait_for_var_timeout(host.variable(), LIMIT).unwrap_err();
            assert_says(&error, ErrorKind::NoStream, &["'lends' of a graph asks for memory on another thread"]);
            let _ = engine.wait_for_all_timeout(LIMIT);
        }
    }
}

/// Other devices, properties and priorities are not launched with it.
#[test]
fn what_is_not_of_one_kind_is_launched_apart() {
    let model = Model::new(2, 1, 4);
    let engine = over(&model).build().unwrap();
    let ([x, y], log): ([Variable; 2], Log) = (std::array::from_fn(|_| engine.new_variable()), Log::default());
    let record = |c: &mut Capture| {
        c.op("first").context(GPU).write(x).device_graph().push(log.kernel(&model, 0))?;
        c.op("other device").context(Context::gpu(1)).write(y).device_graph().push(log.kernel(&model, 1))?;
        c.op("urgent").context(GPU).write(x).priority(1).device_graph().push(log.kernel(&model, 2))?;
        c.op("copy").context(GPU).property(Property::CopyToGpu).write(x).device_graph().push(log.kernel(&model, 3))?;
        c.op("asks not").context(GPU).write(x).push(log.kernel(&model, 4))?;
        c.op("last").context(GPU).write(x).device_graph().push(log.kernel(&model, 5))
    };
    let (graph, ()) = engine.capture(record).unwrap();
    (0..2).for_each(|_| graph.replay().unwrap());
    engine.wait_for_all_timeout(LIMIT).unwrap();
    assert_eq!((model.world().launches, log.take().0), (10, 7));
}

#[test]
fn a_device_that_is_lost_beside_its_graphs() {
    let model = Model::new(1, 1, 4);
    let engine = over(&model).build().unwrap();
    let _release = Release(Arc::clone(&model));
    let (x, log) = (engine.new_variable(), Log::default());
    let part = |c: &mut Capture| c.op("part").context(GPU).write(x).device_graph().push(log.kernel(&model, 0));
    let (graph, ()) = engine.capture(part).unwrap();
    model.hold(0, true);
    graph.replay().unwrap();
    eventually("it is queued", || engine.version(x).unwrap() == 1);
    model.world().lost[0] = true;
    let error = engine.wait_for_var_timeout(x, LIMIT).unwrap_err();
    assert_says(&error, ErrorKind::DeviceLost, &["'part'"]);
    assert_eq!(graph.replay().unwrap_err().kind(), ErrorKind::DeviceLost);
    drop(graph);
    let _ = engine.wait_for_all_timeout(LIMIT);
    drop(engine);
    assert_eq!(model.world().graphs.iter().flatten().count(), 1, "nothing of a lost device is given back");
}
