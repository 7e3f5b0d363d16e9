//! Single faults of the driver at known places, each of which a sweep has found once. What has
//! to be in order or given back is so in spite of one refusal, and a loss is told as one.

use crate::client::{fail, queue, Count, Standin};
use crate::common::{assert_says, nothing, Watchdog};
use crate::faults::{LOST, REFUSED};
use crate::memory::{compute, kernel, Entered, Place};
use crate::programs::LIMIT;
use seriatim::gpu::{Backend, Class, Cuda, DeviceData, DeviceHandle, PinnedData, RawStream};
use seriatim::{Capture, Completion, Context, Engine, Error, ErrorKind, Kind, Property, RunContext};
use std::ffi::CStr;

const GPU: Context = Context::gpu(0);
const KINDS: [Kind; 2] = [Kind::PerDevice, Kind::Naive];
/// By which a thread enters a device, and leaves it.
const ENTERS: [&CStr; 2] = [c"cuCtxGetCurrent", c"cuCtxSetCurrent"];

/// An engine whose device is ready.
fn engine(kind: Kind) -> (Engine, DeviceHandle) {
    let engine = Engine::builder().kind(kind).cpu_workers(1).gpu_workers(1).pin(false).on_error(|_| ());
    let engine = engine.build().expect("the settings are valid");
    engine.op("first").context(GPU).push(nothing).unwrap();
    engine.wait_for_all_timeout(LIMIT).unwrap();
    let device = engine.device(GPU).unwrap();
    (engine, device)
}

fn begin(what: &str) -> (Standin, Watchdog) {
    (Standin::begin(1, 200), Watchdog::new(120, what.to_owned()))
}

/// Refuses each call in turn of a function that `makes` comes by; `bench` makes what it needs.
fn refuse_each<B>(standin: &Standin, function: &CStr, bench: impl Fn() -> B, makes: impl Fn(B, &str)) {
    let name = function.to_str().unwrap();
    let (mut calls, mut nth) = (1, 0);
    while nth <= calls {
        standin.again(1, 200);
        let bench = bench();
        let before = standin.calls(name);
        if nth > 0 {
            fail(function, nth, REFUSED);
        }
        makes(bench, &format!("call {nth} of {calls} of {name}"));
        if nth == 0 {
            calls = standin.calls(name) - before;
            assert!(calls > 0, "{name} is not called");
        }
        nth += 1;
    }
}

#[test]
fn a_device_that_an_allocation_finds_lost_is_lost_for_the_engine() {
    let (standin, _watchdog) = begin("allocations that find a device lost");
    type Make = fn(&DeviceHandle) -> Result<(), Error>;
    let makes: [(&str, Make); 2] = [
        ("cuMemAlloc_v2", |device| DeviceData::<u64>::zeros(device, 40).map(drop)),
        ("cuMemHostAlloc", |device| PinnedData::<u64>::zeros(device, 40).map(drop)),
    ];
    for (kind, (function, make)) in KINDS.into_iter().flat_map(|kind| makes.map(|make| (kind, make))) {
        standin.again(1, 200);
        let (engine, device) = engine(kind);
        standin.fail_for_good(function, 1, LOST);
        let error = make(&device).unwrap_err();
        assert_says(&error, ErrorKind::DeviceLost, &["gpu(0) is lost", "found the device lost"]);
        // No other call of the driver has to find it out once more.
        let calls = standin.calls(function);
        assert_eq!(make(&device).unwrap_err().kind(), ErrorKind::DeviceLost, "{kind}, {function}");
        let pushed = engine.op("behind").context(GPU).push(nothing);
        let error = pushed.and_then(|()| engine.wait_for_all_timeout(LIMIT)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeviceLost, "{kind}, {function}: {error}");
        assert_eq!(standin.calls(function), calls, "{kind}, {function}");
    }
}

#[test]
fn a_device_that_cannot_be_entered_at_once_gives_everything_back() {
    let (standin, _watchdog) = begin("refused entries at the end");
    for (kind, function) in KINDS.into_iter().flat_map(|kind| ENTERS.map(|function| (kind, function))) {
        let bench = || {
            let (engine, device) = engine(kind);
            engine.start_profiling();
            for property in [Property::Normal, Property::CopyToGpu] {
                engine.op("profiled").context(GPU).property(property).push(nothing).unwrap();
            }
            engine.wait_for_all_timeout(LIMIT).unwrap();
            drop(DeviceData::<u64>::zeros(&device, 40).unwrap());
            engine.stop().unwrap();
            drop(device);
            engine
        };
        refuse_each(&standin, function, bench, |engine, what| {
            drop(engine);
            let left = [Count::Streams, Count::Events, Count::Allocations].map(|count| standin.count(count));
            assert_eq!(left, [0; 3], "{kind}, {what}: streams, events and allocations are left");
            assert_eq!(standin.reports(), [""; 0], "{kind}, {what}");
        });
    }
}

/// A stream that is not the engine's, and what was made for it.
struct Foreign {
    engine: Engine,
    device: DeviceHandle,
    stream: RawStream,
    place: Place,
    entered: Entered,
}

impl Foreign {
    fn new(standin: &Standin, kind: Kind) -> Foreign {
        let entered = Entered::new(standin);
        let (engine, device) = engine(kind);
        let stream = Cuda::open().unwrap().stream(0, Class::Compute).unwrap();
        Foreign { engine, device, stream, place: Place::of_device(&entered), entered }
    }
}

#[test]
fn a_stream_that_was_used_is_in_order_though_an_entry_is_refused() {
    let (standin, _watchdog) = begin("refused entries before a stream is put in order");
    for (kind, function) in KINDS.into_iter().flat_map(|kind| ENTERS.map(|function| (kind, function))) {
        let bench = || {
            let bench = Foreign::new(&standin, kind);
            // SAFETY: nobody destroys it.
            let adopted = unsafe { bench.device.adopt(bench.stream) }.unwrap();
            kernel(bench.stream, 1, vec![], vec![bench.place], || ()).unwrap();
            (bench, adopted)
        };
        refuse_each(&standin, function, bench, |(bench, adopted), what| {
            let (x, y) = (bench.engine.new_variable(), bench.engine.new_variable());
            let told = adopted.has_written(x).and_then(|()| adopted.has_read(y));
            told.unwrap_or_else(|error| panic!("{kind}, {what}: {error}"));
            let place = bench.place;
            let behind = bench.engine.op("behind").context(GPU).read(x).write(y);
            let pushed = behind.push(move |run: &RunContext<'_>| {
                kernel(run.stream().expect("it has one"), 2, vec![], vec![place], || ())
            });
            let waited = pushed.and_then(|()| bench.engine.wait_for_all_timeout(LIMIT));
            waited.unwrap_or_else(|error| panic!("{kind}, {what}: {error}"));
            assert_eq!(standin.reports(), [""; 0], "{kind}, {what}");
        });
    }
}

#[test]
fn an_end_behind_a_stream_is_in_order_though_a_call_is_refused() {
    let (standin, _watchdog) = begin("ends behind streams");
    // On the naive engine the call waits for the stream itself.
    let needed = |kind| if kind == Kind::Naive { c"cuStreamSynchronize" } else { c"cuEventRecord" };
    for kind in KINDS {
        for function in [c"cuStreamIsCapturing", needed(kind), c"cuCtxGetCurrent", c"cuCtxSetCurrent"] {
            standin.again(1, 200);
            let bench = Foreign::new(&standin, kind);
            if kind != Kind::Naive {
                // The stream has its work to do yet when the call ends.
                standin.pace(0);
            }
            let (x, stream, place) = (bench.engine.new_variable(), bench.stream, bench.place);
            let start = move |_: &RunContext<'_>, completion: Completion| {
                kernel(stream, 1, vec![], vec![place], || ()).expect("it is queued");
                fail(function, 1, REFUSED);
                // SAFETY: nobody destroys the stream.
                unsafe { completion.complete_after(stream) };
            };
            bench.engine.op("ends").context(GPU).property(Property::Async).write(x).push_async(start).unwrap();
            bench.engine.op("behind").write(x).push(move |_| compute(2, &[], &[place])).unwrap();
            standin.pace(200);
            let waited = bench.engine.wait_for_all_timeout(LIMIT);
            waited.unwrap_or_else(|error| panic!("{kind}, {function:?}: {error}"));
            assert_eq!(standin.reports(), [""; 0], "{kind}, {function:?}");
        }
    }
}

/// How an operation comes to have work on a stream.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    Synchronous,
    EndsAfter,
    EndsAfterInGraph,
}

/// On the naive engine no ticket says whose work a stream had to do.
#[test]
fn a_loss_names_the_operation_that_has_waited_for_its_work() {
    let (standin, _watchdog) = begin("losses by kernels");
    let ways = [Way::Synchronous, Way::EndsAfter, Way::EndsAfterInGraph];
    for (kind, way) in KINDS.into_iter().flat_map(|kind| ways.map(|way| (kind, way))) {
        standin.again(1, 200);
        let Foreign { engine, device, stream, entered, .. } = Foreign::new(&standin, kind);
        let ends = move |_: &RunContext<'_>, completion: Completion| {
            assert_eq!(queue(stream.raw(), || 700), 0);
            // SAFETY: nobody destroys the stream.
            unsafe { completion.complete_after(stream) };
        };
        let pushed = match way {
            Way::Synchronous => engine.op("breaks").context(GPU).push(|run: &RunContext<'_>| {
                assert_eq!(queue(run.stream().expect("it has one").raw(), || 700), 0);
            }),
            Way::EndsAfter => engine.op("breaks").context(GPU).property(Property::Async).push_async(ends),
            Way::EndsAfterInGraph => {
                let record = |c: &mut Capture| {
                    c.op("breaks").context(GPU).property(Property::Async).write(engine.new_variable()).push_async(ends)
                };
                engine.capture(record).unwrap().0.replay()
            }
        };
        let error = pushed.and_then(|()| engine.wait_for_all_timeout(LIMIT)).unwrap_err();
        assert_says(&error, ErrorKind::DeviceLost, &["gpu(0) is lost"]);
        // A watcher asks for the mark of an operation that has no ticket, and knows no name.
        if way == Way::Synchronous || kind == Kind::Naive {
            assert_says(&error, ErrorKind::DeviceLost, &["not known to be done: 'breaks'"]);
        }
        drop((device, engine));
        entered.forget();
    }
}
