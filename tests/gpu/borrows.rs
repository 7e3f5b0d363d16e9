//! Borrows of pinned arrays by operations that leave no ticket: those of the naive engine, and the
//! asynchronous ones of each. They last until the device is done, and not only as long as the
//! closure, and so does the hold on the memory.

use crate::common::{assert_says, eventually, with_every_builder};
use crate::foreign::Own;
use crate::hooked::{Call, Hooked};
use crate::model::Model;
use crate::over;
use seriatim::gpu::{DeviceHandle, MemoryKind, PinnedData};
use seriatim::{Capture, Completion, Context, Engine, Error, ErrorKind, Kind, Property, RunContext};
use std::sync::{mpsc, Arc, Mutex};
use std::time::Duration;

const GPU: Context = Context::gpu(0);
const LIMIT: Duration = Duration::from_secs(30);

type Host = PinnedData<u64>;

/// The closure of a kernel that reads an array, or fills it with sevens.
fn kernel(model: &Arc<Model>, host: &Host, changes: bool) -> impl FnMut(&RunContext<'_>) -> Result<(), Error> + use<> {
    let (model, host) = (Arc::clone(model), host.clone());
    move |run| {
        let stream = run.stream().expect("it is on a device");
        if !changes {
            let memory = host.read_on(run)?;
            return model.queue(stream, &[memory], &[], || ()).map_err(Error::from);
        }
        // Asked for in both ways, as a closure may.
        let (memory, _) = (host.write_on(run)?, host.read_on(run)?);
        let length = host.len();
        let fill = move || {
            // SAFETY: the array has so many numbers, and its borrow lasts until the device is here.
            unsafe { std::slice::from_raw_parts_mut(memory.raw().cast::<u64>(), length) }.fill(7);
        };
        model.queue(stream, &[], &[memory], fill).map_err(Error::from)
    }
}

/// Which borrows another thread is refused now: to read, and to change.
fn refused(host: &Host) -> [bool; 2] {
    let look = || {
        let outcomes = [host.read().err(), host.write().err()];
        outcomes.map(|error| error.inspect(|error| assert_eq!(error.kind(), ErrorKind::BorrowConflict)).is_some())
    };
    std::thread::scope(|scope| scope.spawn(look).join().unwrap())
}

/// A naive engine, and what another thread was refused whenever a stream was waited for.
struct Naive {
    // Dropped in this order.
    engine: Engine,
    gpu: DeviceHandle,
    host: Host,
    found: Arc<Mutex<Vec<[bool; 2]>>>,
    model: Arc<Model>,
    hooked: Arc<Hooked>,
}

impl Drop for Naive {
    fn drop(&mut self) {
        // What the hook has keeps the engine.
        self.hooked.hook(|_| ());
    }
}

impl Naive {
    fn new() -> Naive {
        let model = Model::new(1, 1, 4);
        let hooked = Hooked::new(&model);
        let engine = over(&model).gpus(Arc::clone(&hooked) as _).kind(Kind::Naive).build().unwrap();
        let gpu = engine.device(GPU).unwrap();
        let host = Host::zeros(&gpu, 8).unwrap();
        let found: Arc<Mutex<Vec<_>>> = Arc::default();
        let (own, into) = (host.clone(), Arc::clone(&found));
        hooked.hook(move |call| {
            if call == Call::Finish {
                into.lock().unwrap().push(refused(&own));
            }
        });
        Naive { engine, gpu, host, found, model, hooked }
    }

    /// Checks what was refused, at the one wait, and that nothing is afterwards.
    fn assert_refused(&self, what: [bool; 2]) {
        self.engine.wait_for_all_timeout(LIMIT).unwrap();
        assert_eq!(std::mem::take(&mut *self.found.lock().unwrap()), [what]);
        assert_eq!(refused(&self.host), [false; 2]);
    }
}

#[test]
fn on_the_naive_engine_an_operation_borrows_until_the_device_is_done() {
    let naive = Naive::new();
    let Naive { engine, model, host, .. } = &naive;
    engine.op("reads").context(GPU).read(host).push(kernel(model, host, false)).unwrap();
    naive.assert_refused([false, true]);
    engine.op("fills").context(GPU).write(host).push(kernel(model, host, true)).unwrap();
    naive.assert_refused([true, true]);
    assert_eq!(*host.read().unwrap(), [7; 8]);
    // What comes late in a closure that fails is waited for as well.
    let mut fills = kernel(model, host, true);
    let fails = move |run: &RunContext<'_>| fills(run).and_then(|()| Err("x".parse::<Kind>().unwrap_err()));
    engine.op("fails").context(GPU).write(host).push(fails).unwrap();
    assert_eq!(engine.wait_for_var_timeout(host.variable(), LIMIT).unwrap_err().kind(), ErrorKind::BadSetting);
    let _ = engine.wait_for_all_timeout(LIMIT);
    naive.assert_refused([true, true]);
}

#[test]
fn so_do_those_of_a_replay_and_of_an_adopted_stream() {
    let naive = Naive::new();
    let Naive { engine, model, host, .. } = &naive;
    let record = |c: &mut Capture| c.op("fills").context(GPU).write(host).push(kernel(model, host, true));
    let (graph, ()) = engine.capture(record).unwrap();
    (0..2).for_each(|_| {
        graph.replay().unwrap();
        naive.assert_refused([true, true]);
    });
    let own = Own::new(model, 0);
    let adopted = own.adopted(engine, 0).unwrap();
    adopted.wait_to_write(host).unwrap();
    naive.assert_refused([true, true]);
    model.work(own.stream, Vec::new(), vec![0], || ());
    adopted.has_written(host).unwrap();
    naive.assert_refused([true, true]);
    assert_eq!(model.world().races, [""; 0]);
    drop((adopted, graph));
    engine.wait_for_all_timeout(LIMIT).unwrap();
}

/// The closure owns the last handle, and is gone when the device begins.
#[test]
fn on_the_naive_engine_memory_goes_on_when_the_device_is_done() {
    let naive = Naive::new();
    let last = Host::zeros(&naive.gpu, 8).unwrap();
    let (gpu, kept) = (naive.gpu.clone(), Arc::new(Mutex::new(Vec::new())));
    let into = Arc::clone(&kept);
    naive.hooked.hook(move |call| {
        if call == Call::Finish {
            into.lock().unwrap().push((gpu.memory(MemoryKind::Pinned).kept, gpu.trim()));
        }
    });
    let operation = naive.engine.op("fills").context(GPU).write(&last);
    let mut fills = kernel(&naive.model, &last, true);
    drop(last);
    operation.push(move |run: &RunContext<'_>| fills(run)).unwrap();
    naive.engine.wait_for_all_timeout(LIMIT).unwrap();
    assert_eq!(*kept.lock().unwrap(), [(0, 0)], "the device has not done it");
    assert_eq!(naive.gpu.memory(MemoryKind::Pinned).kept, 512);
}

/// An asynchronous operation of an array whose closure has returned, and its completion.
fn begun(engine: &Engine, host: &Host, property: Property, changes: bool) -> Completion {
    let (send, receive) = mpsc::channel();
    let own = host.clone();
    let start = move |run: &RunContext<'_>, completion: Completion| {
        let asked = if changes { own.write_on(run) } else { own.read_on(run) };
        asked.unwrap();
        assert!(own.write().is_err(), "it is borrowed for its own closure, too");
        drop(own);
        send.send(completion).unwrap();
    };
    let operation = engine.op("library").context(GPU).property(property);
    let operation = if changes { operation.write(host) } else { operation.read(host) };
    operation.push_async(start).unwrap();
    receive.recv_timeout(LIMIT).unwrap()
}

/// On every engine: from the call of the closure until the completion was used, or its stream has
/// come there.
#[test]
fn an_asynchronous_operation_borrows_until_it_ends() {
    with_every_builder(|builder| {
        let model = Model::new(1, 1, 4);
        let own = Own::new(&model, 0);
        let engine = builder.clone().gpus(Arc::clone(&model) as _).build().unwrap();
        let gpu = engine.device(GPU).unwrap();
        let host = Host::zeros(&gpu, 8).unwrap();
        for property in [Property::Normal, Property::Async] {
            for (changes, refuses) in [(true, [true, true]), (false, [false, true])] {
                let completion = begun(&engine, &host, property, changes);
                assert_eq!(refused(&host), refuses, "{property:?}");
                completion.complete();
                engine.wait_for_all_timeout(LIMIT).unwrap();
                assert_eq!(refused(&host), [false; 2], "{property:?}");
            }
            // Two at once, of which one ends.
            let [first, second] = [(); 2].map(|()| begun(&engine, &host, property, false));
            first.complete();
            assert_eq!(refused(&host), [false, true], "{property:?}");
            second.fail("so");
            let _ = engine.wait_for_all_timeout(LIMIT);
            assert_eq!(refused(&host), [false; 2], "{property:?}");
            let completion = begun(&engine, &host, property, true);
            // The device begins later than the closure ends.
            model.work(own.stream, Vec::new(), vec![0], || ());
            assert_says(&host.read().unwrap_err(), ErrorKind::BorrowConflict, &["wait before using it outside"]);
            // SAFETY: the stream lives until the test has ended.
            unsafe { completion.complete_after(own.stream) };
            engine.wait_for_var_timeout(host.variable(), LIMIT).unwrap();
            assert_eq!(*host.read().unwrap(), [0; 8]);
        }
        drop((host, gpu, engine));
        drop(own);
        eventually("all is given back", || model.left() == (0, 0));
    });
}

/// In a graph, replayed twice.
#[test]
fn so_does_one_of_a_replay() {
    for kind in [Kind::PerDevice, Kind::Naive] {
        let model = Model::new(1, 1, 4);
        let engine = over(&model).kind(kind).build().unwrap();
        let host = Host::zeros(&engine.device(GPU).unwrap(), 8).unwrap();
        let (send, receive) = mpsc::channel();
        let own = host.clone();
        let start = move |run: &RunContext<'_>, completion: Completion| {
            own.write_on(run).unwrap();
            send.send(completion).unwrap();
        };
        let record = |c: &mut Capture| c.op("library").context(GPU).write(&host).push_async(start);
        let (graph, ()) = engine.capture(record).unwrap();
        for _ in 0..2 {
            graph.replay().unwrap();
            let completion: Completion = receive.recv_timeout(LIMIT).unwrap();
            assert_eq!(refused(&host), [true; 2], "{kind}");
            completion.complete();
            engine.wait_for_all_timeout(LIMIT).unwrap();
            assert_eq!(refused(&host), [false; 2], "{kind}");
        }
    }
}

/// Though the operation keeps no handle.
#[test]
fn memory_goes_on_when_an_asynchronous_operation_has_ended() {
    with_every_builder(|builder| {
        let model = Model::new(1, 1, 4);
        let engine = builder.clone().gpus(Arc::clone(&model) as _).build().unwrap();
        let gpu = engine.device(GPU).unwrap();
        let host = Host::zeros(&gpu, 8).unwrap();
        let completion = begun(&engine, &host, Property::Normal, true);
        drop(host);
        assert_eq!(gpu.memory(MemoryKind::Pinned).kept, 0, "the operation may use it");
        completion.complete();
        engine.wait_for_all_timeout(LIMIT).unwrap();
        assert_eq!(gpu.memory(MemoryKind::Pinned).kept, 512);
    });
}
