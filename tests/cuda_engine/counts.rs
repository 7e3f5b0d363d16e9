//! How many calls of the driver an operation costs beside its own: counted, with the device at rest
//! until all is queued. Waits are exact. Marks are, but for those of the watcher, which puts one
//! behind the first of what is under way and one behind each sixteenth further operation.

use crate::client::{queue_again, Standin};
use crate::common::{eventually, nothing, Random, Watchdog};
use crate::memory::{kernel, kernel_of_graph, Entered, Place};
use seriatim::gpu::{DeviceData, PinnedData};
use seriatim::{Context, Engine, Error, ErrorKind, IdlePolicy, Kind, Property, RunContext, Variable};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const GPU: Context = Context::gpu(0);
const OPERATIONS: usize = 480;

/// The calls of one count, by function.
struct Calls(BTreeMap<String, u64>);

impl Calls {
    fn of(&self, function: &str) -> usize {
        self.0.get(function).copied().unwrap_or_default() as usize
    }

    /// Checks that nothing else was called but what asks which device is current, once behind each
    /// of so many closures. A worker enters the device before its first operation.
    fn assert_only(&self, named: &[&str], closures: usize) {
        for (name, count) in self.0.iter().filter(|(name, _)| !named.contains(&name.as_str())) {
            let most = match name.as_str() {
                "cuCtxGetCurrent" => closures as u64 + 2,
                "cuCtxSetCurrent" | "cuThreadExchangeStreamCaptureMode" => 2,
                _ => 0,
            };
            assert!(*count <= most, "{name} was called {count} times: {:?}", self.0);
        }
        assert!(self.of("cuCtxGetCurrent") >= closures, "{:?}", self.0);
    }
}

/// An engine over a device that does nothing until all is queued.
struct Counting {
    // Dropped in this order.
    engine: Engine,
    entered: Entered,
    _watchdog: Watchdog,
    standin: Standin,
}

impl Drop for Counting {
    fn drop(&mut self) {
        // For a test that fails: the engine waits for the device.
        self.standin.pace(256);
    }
}

impl Counting {
    fn new(kind: Kind, workers: usize) -> Counting {
        Counting::with(kind, workers, IdlePolicy::default())
    }

    fn with(kind: Kind, workers: usize, idle: IdlePolicy) -> Counting {
        let standin = Standin::begin(1, 256);
        let watchdog = Watchdog::new(120, "a count of the driver's calls");
        let entered = Entered::new(&standin);
        let builder = Engine::builder().kind(kind).cpu_workers(1).pin(false).gpu_ahead(1024).gpu_workers(workers);
        let engine = builder.idle(idle).build().expect("the settings are valid");
        // The device and its threads are made ready, and its workers have entered it.
        for property in [Property::Normal, Property::Normal, Property::CopyToGpu] {
            for _ in 0..8 {
                engine.op("first").context(GPU).property(property).push(nothing).unwrap();
            }
            engine.wait_for_all().unwrap();
        }
        if kind != Kind::Naive {
            standin.pace(0);
        }
        Counting { engine, entered, _watchdog: watchdog, standin }
    }

    fn push(&self, property: Property, place: Place, reads: &[Variable], writes: &[Variable]) {
        let body = move |run: &RunContext<'_>| {
            kernel(run.stream().expect("it is on a device"), 1, Vec::new(), vec![place], || ())
        };
        let builder = self.engine.op("counted").context(GPU).property(property);
        builder.reads(reads.iter().copied()).writes(writes.iter().copied()).push(body).unwrap();
    }

    /// The calls while `push` pushes operations, of which the last one writes `last` alone, until
    /// they are queued.
    fn calls(&self, push: impl FnOnce(), last: Variable, versions: u64) -> Calls {
        let before: BTreeMap<String, u64> = self.standin.called().into_iter().collect();
        push();
        eventually("all are queued", || self.engine.version(last).unwrap() == versions);
        let mut calls: BTreeMap<String, u64> = self.standin.called().into_iter().collect();
        before.into_iter().for_each(|(function, count)| *calls.entry(function).or_default() -= count);
        self.standin.pace(256);
        self.engine.wait_for_all().unwrap();
        assert_eq!(self.standin.reports(), [""; 0]);
        Calls(calls)
    }

    fn place(&self) -> Place {
        Place::of_device(&self.entered)
    }

    fn variable(&self) -> Variable {
        self.engine.new_variable()
    }
}

/// The most marks of the watcher, for so many operations on so many streams.
fn of_watcher(operations: usize, streams: usize) -> usize {
    operations / 16 + streams
}

const QUEUED: [&str; 3] = ["cuStreamWaitEvent", "cuEventRecord", "cuEventQuery"];

fn tell(what: &str, operations: usize, calls: &Calls) {
    let each = QUEUED.map(|function| calls.of(function) as f64 / operations as f64);
    println!("{what}: {:.3} waits, {:.3} marks, {:.3} queries an operation", each[0], each[1], each[2]);
}

/// With one worker: an idle one takes over what a busy one has, now and then, and then a stream
/// waits.
#[test]
fn a_chain_needs_no_waits() {
    let counting = Counting::new(Kind::PerDevice, 1);
    let (x, place) = (counting.variable(), counting.place());
    let push = || (0..OPERATIONS).for_each(|_| counting.push(Property::Normal, place, &[], &[x]));
    let calls = counting.calls(push, x, OPERATIONS as u64);
    tell("a chain", OPERATIONS, &calls);
    assert_eq!(calls.of("cuStreamWaitEvent"), 0);
    let records = calls.of("cuEventRecord");
    assert!(records <= of_watcher(OPERATIONS, 1), "{records} marks");
    calls.assert_only(&QUEUED, OPERATIONS);
}

/// How long the watcher naps between two questions (`src/engine/gpu/watch.rs`).
const NAP: Duration = Duration::from_micros(50);

/// How often a watcher looks before it naps, after each new thing (`src/util/spin.rs`).
const LOOKS: u128 = 32;

/// While a device does nothing its watcher asks once a stream and nap.
#[test]
fn a_watcher_asks_as_seldom_as_it_naps() {
    const STREAMS: usize = 2;
    let counting = Counting::with(Kind::PerDevice, 1, IdlePolicy::Park);
    let variables = [(); STREAMS].map(|()| counting.variable());
    let places = variables.map(|_| counting.place());
    let (asked, began) = (counting.standin.calls("cuEventQuery"), Instant::now());
    for (x, place) in variables.into_iter().zip(places) {
        counting.push(Property::Normal, place, &[], &[x]);
    }
    std::thread::sleep(Duration::from_millis(100));
    let asked = counting.standin.calls("cuEventQuery") - asked;
    let naps = began.elapsed().as_micros() / NAP.as_micros();
    counting.standin.pace(256);
    counting.engine.wait_for_all().unwrap();
    println!("{asked} questions of {STREAMS} streams in {naps} naps");
    assert!(asked > 0 && u128::from(asked) <= STREAMS as u128 * (naps + 3 * LOOKS), "{asked} questions in {naps} naps");
}

/// A replay of a chain costs what its operations cost when they are pushed.
#[test]
fn a_replay_of_a_chain_needs_no_waits() {
    const REPLAYS: usize = 10;
    let counting = Counting::new(Kind::PerDevice, 1);
    let (x, place) = (counting.variable(), counting.place());
    let record = |c: &mut seriatim::Capture| {
        for _ in 0..OPERATIONS / REPLAYS {
            let body = move |run: &RunContext<'_>| {
                kernel(run.stream().expect("it is on a device"), 1, Vec::new(), vec![place], || ())
            };
            c.op("part").context(GPU).write(x).push(body)?;
        }
        Ok(())
    };
    let (graph, ()) = counting.engine.capture(record).unwrap();
    let push = || (0..REPLAYS).for_each(|_| graph.replay().unwrap());
    let calls = counting.calls(push, x, OPERATIONS as u64);
    tell("a replay of a chain", OPERATIONS, &calls);
    assert_eq!(calls.of("cuStreamWaitEvent"), 0);
    let records = calls.of("cuEventRecord");
    assert!(records <= of_watcher(OPERATIONS, 1), "{records} marks");
    calls.assert_only(&QUEUED, OPERATIONS);
}

/// Once it is captured, a replay of a chain that is launched as a whole is one launch.
#[test]
fn a_replay_that_is_launched_as_a_whole_is_one_call() {
    const REPLAYS: usize = 160;
    let counting = Counting::new(Kind::PerDevice, 1);
    let (x, place) = (counting.variable(), counting.place());
    let record = |c: &mut seriatim::Capture| {
        for _ in 0..50 {
            let body = move |run: &RunContext<'_>| kernel_of_graph(run.stream().unwrap(), 1, Vec::new(), vec![place]);
            c.op("part").context(GPU).write(x).device_graph().push(body)?;
        }
        Ok(())
    };
    let (graph, ()) = counting.engine.capture(record).unwrap();
    graph.replay().unwrap();
    eventually("it was captured", || counting.engine.version(x).unwrap() == 50);
    let push = || (0..REPLAYS).for_each(|_| graph.replay().unwrap());
    let calls = counting.calls(push, x, 50 * (1 + REPLAYS as u64));
    assert_eq!((calls.of("cuGraphLaunch"), calls.of("cuStreamWaitEvent")), (REPLAYS, 0));
    let records = calls.of("cuEventRecord");
    assert!(records <= of_watcher(REPLAYS, 1), "{records} marks");
    calls.assert_only(&[&QUEUED[..], &["cuGraphLaunch"]].concat(), REPLAYS);
}

/// After a parameter was replaced the graph's instance is changed where it is, if the driver can.
/// What is queued of it stays as it was.
#[test]
fn a_graph_that_is_captured_again_is_changed_in_its_place() {
    let counting = Counting::new(Kind::PerDevice, 1);
    let (x, done) = (counting.variable(), Arc::new(Mutex::new(Vec::new())));
    let into = Arc::clone(&done);
    let record = |c: &mut seriatim::Capture| {
        let value = c.parameter(1);
        let inside = value.clone();
        c.op("part").context(GPU).write(x).device_graph().push(move |run: &RunContext<'_>| {
            let value = *inside.get(run)?;
            // Above 10 it is another number of nodes.
            for _ in 0..1 + value / 10 {
                let into = Arc::clone(&into);
                let body = move || {
                    into.lock().unwrap().push(value);
                    0
                };
                assert_eq!(queue_again(run.stream().unwrap().raw(), body), 0);
            }
            Ok::<(), Error>(())
        })?;
        Ok(value)
    };
    let (graph, value) = counting.engine.capture(record).unwrap();
    let replay_with = |values: &[usize]| {
        for number in values {
            value.set(*number).unwrap();
            (0..2).for_each(|_| graph.replay().unwrap());
        }
    };
    let made = |calls: &Calls| ["cuGraphInstantiateWithFlags", "cuGraphExecUpdate"].map(|function| calls.of(function));
    let calls = counting.calls(|| replay_with(&[1, 2, 3]), x, 6);
    assert_eq!((made(&calls), calls.of("cuGraphExecDestroy")), ([1, 2], 0));
    assert_eq!(*done.lock().unwrap(), [1, 1, 2, 2, 3, 3], "in the order of the replays");
    done.lock().unwrap().clear();
    counting.standin.pace(0);
    // What cannot be changed is made anew, and changed from then on.
    let calls = counting.calls(|| replay_with(&[10, 11, 4]), x, 12);
    assert_eq!((made(&calls), calls.of("cuGraphExecDestroy")), ([2, 3], 2));
    assert_eq!(*done.lock().unwrap(), [10, 10, 10, 10, 11, 11, 11, 11, 4, 4]);
    // So it is if the driver refuses for another reason; and what it refuses of an end is an error.
    done.lock().unwrap().clear();
    counting.standin.fail("cuGraphExecUpdate", 1, 2);
    replay_with(&[5]);
    counting.engine.wait_for_all().unwrap();
    counting.standin.fail("cuStreamEndCapture", 1, 900);
    value.set(6).unwrap();
    graph.replay().unwrap();
    assert_eq!(counting.engine.wait_for_var(x).unwrap_err().kind(), ErrorKind::DeviceUnavailable);
    let _ = counting.engine.wait_for_all();
    (0..2).for_each(|_| graph.replay().unwrap());
    counting.engine.wait_for_all().unwrap();
    assert_eq!(*done.lock().unwrap(), [5, 5, 6, 6]);
    assert_eq!(counting.standin.reports(), [""; 0]);
}

/// What the driver refuses of a graph, also what says that something cannot be captured, fails the
/// operation and loses no device. The next replay captures anew.
#[test]
fn a_graph_that_the_driver_refuses_is_an_error_of_its_operation() {
    let refused: [(&str, std::ops::Range<i32>); 4] = [
        ("cuStreamBeginCapture_v2", 900..901),
        ("cuStreamEndCapture", 900..909),
        ("cuGraphInstantiateWithFlags", 2..3),
        ("cuGraphLaunch", 2..3),
    ];
    for (function, code) in refused.into_iter().flat_map(|(function, codes)| codes.map(move |code| (function, code))) {
        let counting = Counting::new(Kind::PerDevice, 1);
        let (x, place) = (counting.variable(), counting.place());
        counting.standin.pace(128);
        let body = move |run: &RunContext<'_>| kernel_of_graph(run.stream().unwrap(), 1, Vec::new(), vec![place]);
        let record = |c: &mut seriatim::Capture| c.op("part").context(GPU).write(x).device_graph().push(body);
        let (graph, ()) = counting.engine.capture(record).unwrap();
        counting.standin.fail(function, 1, code);
        graph.replay().unwrap();
        let error = counting.engine.wait_for_var(x).unwrap_err();
        let name = function.trim_end_matches("_v2");
        crate::common::assert_says(&error, ErrorKind::DeviceUnavailable, &["'part'", name, &code.to_string()]);
        if function == "cuStreamEndCapture" {
            assert!(error.to_string().contains("without device_graph()"), "{error}");
        }
        graph.replay().unwrap();
        counting.engine.wait_for_all().unwrap();
        assert_eq!(counting.standin.reports(), [""; 0]);
    }
}

#[test]
fn two_streams_in_turn_need_a_mark_and_a_wait_an_operation() {
    let counting = Counting::new(Kind::PerDevice, 2);
    let (x, place) = (counting.variable(), counting.place());
    let push = || {
        for number in 0..OPERATIONS {
            let property = [Property::CopyToGpu, Property::CopyFromGpu][number % 2];
            counting.push(property, place, &[], &[x]);
        }
    };
    let calls = counting.calls(push, x, OPERATIONS as u64);
    tell("two streams in turn", OPERATIONS, &calls);
    assert_eq!(calls.of("cuStreamWaitEvent"), OPERATIONS - 1);
    let records = calls.of("cuEventRecord");
    assert!(records <= OPERATIONS - 1 + of_watcher(OPERATIONS, 2), "{records} marks");
    calls.assert_only(&QUEUED, OPERATIONS);
}

/// One operation, 64 behind it, and one behind those: each of the four streams waits once for the
/// first, and the last one once for each other stream.
#[test]
fn a_fan_waits_once_for_each_stream() {
    const WIDTH: usize = 64;
    let counting = Counting::new(Kind::PerDevice, 2);
    let (x, end) = (counting.variable(), counting.variable());
    let branches: Vec<Variable> = (0..WIDTH).map(|_| counting.variable()).collect();
    let places: Vec<Place> = (0..WIDTH).map(|_| counting.place()).collect();
    let (first, last) = (counting.place(), counting.place());
    let push = || {
        counting.push(Property::Normal, first, &[], &[x]);
        branches.iter().zip(&places).for_each(|(own, place)| counting.push(Property::Normal, *place, &[x], &[*own]));
        counting.push(Property::Normal, last, &branches, &[end]);
    };
    let calls = counting.calls(push, end, 1);
    tell("a fan of 64", WIDTH + 2, &calls);
    let (waits, records) = (calls.of("cuStreamWaitEvent"), calls.of("cuEventRecord"));
    assert!(waits <= 6, "{waits} waits");
    assert!(records <= WIDTH + 6 + of_watcher(WIDTH, 4), "{records} marks");
    calls.assert_only(&QUEUED, WIDTH + 2);
}

/// Each operation reads two of ten variables and writes one. Which stream it comes to depends on
/// how busy the workers are, and the more evenly both are, the more goes from stream to stream.
/// Counted in 720 runs, quiet, busy and on one core: 0.73 to 0.85 waits and 0.54 to 0.68 marks,
/// those of the watcher among them, as the guide says (`docs/src/gpus.md`). The bounds lie between
/// these and a mark for each operation, a wait for each of its tickets.
#[test]
fn operations_at_random_need_fewer_marks_and_waits_than_one_for_each_ticket() {
    let counting = Counting::new(Kind::PerDevice, 2);
    let variables: Vec<Variable> = (0..10).map(|_| counting.variable()).collect();
    let places: Vec<Place> = variables.iter().map(|_| counting.place()).collect();
    let (end, last, mut random) = (counting.variable(), counting.place(), Random(1));
    let push = || {
        for _ in 0..OPERATIONS {
            let [write, first, second] = std::array::from_fn(|_| random.below(10));
            let reads: Vec<Variable> = [first, second].map(|at| variables[at]).to_vec();
            counting.push(Property::Normal, places[write], &reads, &[variables[write]]);
        }
        counting.push(Property::Normal, last, &variables, &[end]);
    };
    let calls = counting.calls(push, end, 1);
    tell("operations at random", OPERATIONS, &calls);
    let (waits, records) = (calls.of("cuStreamWaitEvent"), calls.of("cuEventRecord"));
    assert!(waits < OPERATIONS, "{waits} waits");
    assert!(records <= OPERATIONS * 85 / 100, "{records} marks");
    calls.assert_only(&QUEUED, OPERATIONS + 1);
}

/// Copies of one direction follow each other on a stream. Each is one call of its own, and none
/// asks for memory.
#[test]
fn copies_of_one_direction_need_no_waits() {
    let counting = Counting::new(Kind::PerDevice, 1);
    counting.standin.pace(256);
    let (engine, gpu) = (&counting.engine, counting.engine.device(GPU).unwrap());
    let pinned = [1, 2].map(|value| PinnedData::from_slice(&gpu, &[value; 100]).unwrap());
    let arrays = [0; 2].map(|_| DeviceData::<u64>::zeros(&gpu, 100).unwrap());
    engine.wait_for_all().unwrap();
    type Push<'a> = &'a dyn Fn() -> Result<(), Error>;
    let sorts: [(&str, &str, Variable, Push); 3] = [
        ("to the device", "cuMemcpyHtoDAsync_v2", arrays[0].variable(), &|| engine.copy(&pinned[0], &arrays[0])),
        ("across it", "cuMemcpyDtoDAsync_v2", arrays[1].variable(), &|| engine.copy(&arrays[0], &arrays[1])),
        ("from the device", "cuMemcpyDtoHAsync_v2", pinned[1].variable(), &|| engine.copy(&arrays[1], &pinned[1])),
    ];
    for (what, function, to, push) in sorts {
        counting.standin.pace(0);
        let versions = engine.version(to).unwrap() + OPERATIONS as u64;
        let calls = counting.calls(|| (0..OPERATIONS).for_each(|_| push().unwrap()), to, versions);
        tell(what, OPERATIONS, &calls);
        assert_eq!((calls.of(function), calls.of("cuStreamWaitEvent")), (OPERATIONS, 0), "{what}");
        let records = calls.of("cuEventRecord");
        assert!(records <= of_watcher(OPERATIONS, 1), "{what}: {records} marks");
        calls.assert_only(&[&QUEUED[..], &[function]].concat(), OPERATIONS);
    }
    assert_eq!(*pinned[1].read().unwrap(), [1; 100]);
}

/// To the device, across it and back, between arrays that come and go: each copy is on another
/// stream than the one before it. The memory is that of arrays before.
#[test]
fn arrays_that_come_and_go_ask_for_no_memory() {
    const ROUNDS: usize = 100;
    let counting = Counting::new(Kind::PerDevice, 1);
    counting.standin.pace(256);
    let (engine, gpu) = (&counting.engine, counting.engine.device(GPU).unwrap());
    let round = |value: u64| {
        let x = DeviceData::from_slice(&gpu, &[value; 100]).unwrap();
        let (y, back) = (DeviceData::zeros(&gpu, 100).unwrap(), PinnedData::zeros(&gpu, 100).unwrap());
        engine.copy(&x, &y).unwrap();
        engine.copy(&y, &back).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(*back.read().unwrap(), [value; 100]);
    };
    round(0);
    // A round has one pinned array, or two: the values of `x` are in one until they are copied.
    drop([(); 2].map(|()| PinnedData::<u64>::zeros(&gpu, 100).unwrap()));
    let functions = ["cuMemAlloc_v2", "cuMemHostAlloc", "cuMemFree_v2", "cuMemFreeHost"];
    let count = || functions.map(|function| counting.standin.calls(function));
    let before = (count(), counting.standin.calls("cuStreamWaitEvent"));
    (1..=ROUNDS as u64).for_each(round);
    assert_eq!(count(), before.0, "{functions:?}");
    let waits = counting.standin.calls("cuStreamWaitEvent") - before.1;
    println!("to the device, zeros, across it and back: {:.2} waits a round", waits as f64 / ROUNDS as f64);
    assert!(waits as usize <= 4 * ROUNDS, "{waits} waits");
    assert_eq!(counting.standin.reports(), [""; 0]);
}

/// The pairs of timed marks of a device (`src/device/timed_marks.rs`).
const PAIRS: usize = 256;

#[test]
fn a_profiled_operation_needs_two_marks_more_and_others_none() {
    let counting = Counting::new(Kind::PerDevice, 1);
    let (x, place) = (counting.variable(), counting.place());
    let round = |number: usize| {
        counting.standin.pace(0);
        let push = || (0..OPERATIONS).for_each(|_| counting.push(Property::Normal, place, &[], &[x]));
        counting.calls(push, x, (number * OPERATIONS) as u64)
    };
    let named = [QUEUED[0], QUEUED[1], QUEUED[2], "cuEventCreate"];
    counting.engine.start_profiling();
    for (number, made) in [(1, 2 * PAIRS), (2, 0)] {
        let calls = round(number);
        tell("a profiled chain", OPERATIONS, &calls);
        assert_eq!((calls.of("cuStreamWaitEvent"), calls.of("cuEventCreate")), (0, made));
        let more = calls.of("cuEventRecord").checked_sub(2 * PAIRS).expect("two for each pair");
        assert!(more <= of_watcher(OPERATIONS, 1), "{more} marks more");
        calls.assert_only(&named, OPERATIONS);
        let overlap = counting.engine.profile().overlap(GPU).unwrap();
        assert_eq!(overlap.host_timed as usize, number * (OPERATIONS - PAIRS));
    }
    let elapsed = || counting.standin.calls("cuEventElapsedTime_v2");
    assert_eq!(elapsed() as usize, 2 * 2 * PAIRS);
    counting.engine.stop_profiling();
    let calls = round(3);
    let records = calls.of("cuEventRecord");
    assert!(records <= of_watcher(OPERATIONS, 1), "{records} marks");
    calls.assert_only(&QUEUED, OPERATIONS);
    assert_eq!(elapsed() as usize, 2 * 2 * PAIRS);
}

#[test]
fn the_naive_engine_enters_the_device_waits_and_leaves() {
    let counting = Counting::new(Kind::Naive, 1);
    let (x, place) = (counting.variable(), counting.place());
    let push = || (0..OPERATIONS).for_each(|_| counting.push(Property::Normal, place, &[], &[x]));
    let calls = counting.calls(push, x, OPERATIONS as u64);
    // The thread has entered the device already, so its mode of captures stays as it is.
    let own = [("cuCtxGetCurrent", 2), ("cuCtxSetCurrent", 2), ("cuStreamSynchronize", 1)];
    for (function, each) in own {
        assert_eq!(calls.of(function), each * OPERATIONS, "{function}");
    }
    calls.assert_only(&own.map(|(function, _)| function), OPERATIONS);
}
