//! What `sweep.rs` plants faults in: programs with graphs that are captured and launched as a
//! whole, streams of the program's own, operations that end after a stream, profiled ones, and
//! arrays. Each keeps the errors that it meets, and goes on.

use crate::client::call;
use crate::faults::write_all;
use crate::memory::{compute, copy, kernel, kernel_of_graph, Entered, Place};
use crate::programs::LIMIT;
use seriatim::gpu::{AdoptedStream, Backend, Class, Cuda, DeviceData, DeviceHandle, PinnedData, RawStream};
use seriatim::{Capture, Completion, Context, Engine, Error, ErrorKind, Kind, Property, RunContext, Variable};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{mpsc, Arc};

const GPU: Context = Context::gpu(0);
/// The cells: one of the host, which the processor uses as well, and three of the device.
const HOST: usize = 0;
pub const CELLS: usize = 4;
/// The arrays' memory: for four buffers of 128 values.
const MEMORY: usize = 4096;
/// What is queued, by name.
pub const NAMES: [&str; 10] = [
    "kernel",
    "copy",
    "zeros",
    "part",
    "library",
    "late",
    "wait to read",
    "wait to write",
    "foreign read",
    "foreign write",
];
/// More often than the engine asks again.
pub const OFTEN: u64 = 200;

pub struct Bench {
    pub engine: Engine,
    pub device: DeviceHandle,
    pub streams: [RawStream; 2],
    places: Vec<Place>,
    variables: Vec<Variable>,
    /// Only the processor uses it, and it is to find nothing of the device's faults.
    own: Variable,
    ran: Arc<AtomicUsize>,
    pushed: usize,
    /// Whether the loss of the device was told: nobody knows what it has done, so the processor
    /// leaves its memory alone.
    is_lost: Arc<AtomicBool>,
    pub errors: Vec<Error>,
}

impl Bench {
    pub fn new(kind: Kind, entered: &Entered, cuda: &Cuda) -> Bench {
        let builder = Engine::builder().kind(kind).cpu_workers(1).gpu_workers(1).pin(false).on_error(|_| ());
        let builder = builder.gpu_memory(MEMORY);
        let engine = builder.build().expect("the settings are valid");
        let place = |cell| if cell == HOST { Place::of_host(entered) } else { Place::of_device(entered) };
        engine.op("first").context(GPU).push(|_| ()).expect("there is a device");
        engine.wait_for_all_timeout(LIMIT).expect("nothing is planted");
        Bench {
            device: engine.device(GPU).expect("it is ready"),
            streams: [0; 2].map(|_| cuda.stream(0, Class::Compute).expect("the device is entered")),
            places: (0..CELLS).map(place).collect(),
            variables: (0..CELLS).map(|_| engine.new_variable()).collect(),
            own: engine.new_variable(),
            ran: Arc::default(),
            pushed: 0,
            is_lost: Arc::default(),
            errors: Vec::new(),
            engine,
        }
    }

    /// Keeps an error; says whether there was none.
    pub fn note<T>(&mut self, outcome: Result<T, Error>) -> Option<T> {
        let error = match outcome {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        self.is_lost.fetch_or(is_loss(&error), SeqCst);
        self.errors.push(error);
        None
    }

    /// Pushes a kernel, or a copy if exactly one of the cells is of the host.
    fn push(&mut self, id: u64, from: usize, to: usize) {
        let (read, written) = (self.places[from], self.places[to]);
        let is_copy = (from == HOST) != (to == HOST);
        let builder = self.engine.op(if is_copy { "copy" } else { "kernel" }).context(GPU);
        let builder = builder.reads([self.variables[from]]).writes([self.variables[to]]);
        let builder = match (from == HOST, to == HOST) {
            (true, false) => builder.property(Property::CopyToGpu),
            (false, true) => builder.property(Property::CopyFromGpu),
            _ => builder,
        };
        let pushed = builder.push(move |run: &RunContext<'_>| {
            let stream = run.stream().expect("it is on a device");
            match is_copy {
                true => copy(stream, read, written),
                false => kernel(stream, id, vec![read], vec![written], || ()),
            }
        });
        self.note(pushed);
    }

    /// Work of the processor: on the cell of the host, and on what no device uses.
    fn compute(&mut self, id: u64) {
        let (place, is_lost, ran) = (self.places[HOST], Arc::clone(&self.is_lost), Arc::clone(&self.ran));
        let pushed = self.engine.op("processor").writes([self.variables[HOST]]).push(move |_| {
            if is_lost.load(SeqCst) {
                return Ok(());
            }
            compute(id, &[], &[place])
        });
        self.note(pushed);
        let pushed = self.engine.op("own").writes([self.own]).push(move |_| _ = ran.fetch_add(1, SeqCst));
        self.note(pushed).expect("the processor goes on");
        self.pushed += 1;
    }

    /// The work of a stream that could not be put in order is waited for by hand.
    fn finish(&self, stream: RawStream) {
        for _ in 0..2 * OFTEN {
            if call!(cuStreamSynchronize(stream.raw() => *mut c_void) -> i32) == 0 {
                return;
            }
        }
    }

    /// Waits until the processor can write every variable.
    pub fn processor_goes_on(&mut self) -> Result<(), String> {
        let mine = self.engine.wait_for_var_timeout(self.own, LIMIT);
        mine.map_err(|error| format!("work that no device has to do with fails: {error}"))?;
        if self.ran.load(SeqCst) != self.pushed {
            return Err(format!("{} of {} operations of the processor ran", self.ran.load(SeqCst), self.pushed));
        }
        for _ in 0..=CELLS {
            let waited = write_all(&self.engine, &self.variables)?;
            if self.note(waited).is_some() {
                return Ok(());
            }
        }
        Err(format!("the processor does not go on: {:?}", self.errors))
    }
}

pub fn is_loss(error: &Error) -> bool {
    error.kind() == ErrorKind::DeviceLost
}

pub type Program = fn(&mut Bench);
/// The programs, each with functions of the driver that it has to come by.
pub const PROGRAMS: [(&str, Program, &[&str]); 6] = [
    (
        "graphs",
        graphs,
        &["cuStreamBeginCapture_v2", "cuStreamIsCapturing", "cuGraphLaunch", "cuGraphExecDestroy", "cuGraphDestroy"],
    ),
    ("adopted streams", adopted, &["cuStreamIsCapturing", "cuStreamWaitEvent"]),
    ("ends after a stream", ends_after, &["cuStreamIsCapturing"]),
    ("profiled", profiled, &[]),
    ("arrays", arrays, &["cuMemAlloc_v2", "cuMemHostAlloc", "cuMemsetD8Async", "cuMemcpyDtoDAsync_v2"]),
    ("arrays under pressure", under_pressure, &["cuMemFree_v2"]),
];

/// Two parts for the device, and between them the processor and an operation that ends after its
/// stream. Captured anew after a parameter was replaced, with other operations between the replays.
fn graphs(bench: &mut Bench) {
    let ([host, x, y], [at, first, second]) =
        ([HOST, 1, 2].map(|cell| bench.variables[cell]), [HOST, 1, 2].map(|cell| bench.places[cell]));
    let is_lost = Arc::clone(&bench.is_lost);
    let record = |c: &mut Capture| {
        let number = c.parameter(1);
        for id in 0..3 {
            let number = number.clone();
            let body = move |run: &RunContext<'_>| {
                let id = number.get(run).map_err(|error| error.to_string())? + id;
                kernel_of_graph(run.stream().expect("it is on a device"), id, vec![first], vec![second])
            };
            c.op("part").context(GPU).read(x).write(y).device_graph().push(body)?;
        }
        let between = move |_: &RunContext<'_>| if is_lost.load(SeqCst) { Ok(()) } else { compute(4, &[], &[at]) };
        c.op("between").write(host).push(between)?;
        let late = move |run: &RunContext<'_>, completion: Completion| {
            let stream = run.stream().expect("it has one");
            let _ = kernel(stream, 6, vec![first], vec![second], || ());
            // SAFETY: the stream is the operation's.
            unsafe { completion.complete_after(stream) };
        };
        c.op("late").context(GPU).read(x).write(y).push_async(late)?;
        let body = move |run: &RunContext<'_>| kernel_of_graph(run.stream().unwrap(), 5, vec![at, second], vec![first]);
        c.op("part").context(GPU).read(host).read(y).write(x).device_graph().push(body)?;
        Ok(number)
    };
    let recorded = bench.engine.capture(record);
    let Some((graph, number)) = bench.note(recorded) else { return };
    for round in 0..4 {
        let replayed = graph.replay();
        bench.note(replayed);
        bench.compute(round);
        bench.push(round, 1, 3);
        if round % 2 == 1 {
            let set = number.set(round);
            bench.note(set);
        }
    }
    // What was captured may have to be done yet when it is given back.
    drop(graph);
    bench.push(9, 2, HOST);
}

/// Work on the program's streams between operations of the engine's.
fn adopted(bench: &mut Bench) {
    let device = bench.device.clone();
    for (round, stream) in (0..6).zip(bench.streams.into_iter().cycle()) {
        bench.push(round, HOST, 1);
        bench.compute(round);
        // SAFETY: the stream is destroyed after the engine.
        let taken = unsafe { device.adopt(stream) };
        let Some(adopted) = bench.note(taken) else { continue };
        let between = between_two_calls(bench, &adopted, round);
        if bench.note(between).is_none() {
            // What is on the stream is in no order.
            bench.finish(stream);
        }
        bench.push(round, 2, HOST);
    }
}

fn between_two_calls(bench: &mut Bench, adopted: &AdoptedStream, id: u64) -> Result<(), Error> {
    let [x, y] = [1, 2].map(|cell| bench.variables[cell]);
    adopted.wait_to_read(x)?;
    adopted.wait_to_write(y)?;
    // A lost device refuses it, and the next call says so.
    let _ = kernel(adopted.stream(), id, vec![bench.places[1]], vec![bench.places[2]], || ());
    adopted.has_read(x)?;
    adopted.has_written(y)
}

/// Asynchronous operations that end after the program's stream, or after their own: told on the
/// thread of the operation, or on another one.
fn ends_after(bench: &mut Bench) {
    let (send, receive) = mpsc::channel::<(Completion, RawStream)>();
    let thread = std::thread::spawn(move || {
        for (completion, stream) in receive {
            // SAFETY: the stream is destroyed after the engine.
            unsafe { completion.complete_after(stream) };
        }
    });
    for (id, stream) in (0..6).zip(bench.streams.into_iter().cycle()) {
        bench.push(id, HOST, 1);
        bench.compute(id);
        let (read, written) = (bench.places[1], bench.places[2]);
        let builder = bench.engine.op(if id % 3 == 0 { "library" } else { "late" }).context(GPU);
        let builder = builder.reads([bench.variables[1]]).writes([bench.variables[2]]);
        let send = send.clone();
        let pushed = match id % 3 {
            0 => builder.property(Property::Async).push_async(move |_: &RunContext<'_>, completion: Completion| {
                let _ = kernel(stream, id, vec![read], vec![written], || ());
                // SAFETY: the stream is destroyed after the engine.
                unsafe { completion.complete_after(stream) };
            }),
            own => builder.push_async(move |run: &RunContext<'_>, completion: Completion| {
                let stream = run.stream().expect("it has one");
                let _ = kernel(stream, id, vec![read], vec![written], || ());
                match own {
                    // SAFETY: the stream is the operation's.
                    1 => unsafe { completion.complete_after(stream) },
                    _ => send.send((completion, stream)).expect("the thread is there"),
                }
            }),
        };
        bench.note(pushed);
        bench.push(id, 2, HOST);
    }
    let waited = bench.engine.wait_for_all_timeout(LIMIT);
    bench.note(waited);
    drop(send);
    thread.join().expect("it does not panic");
}

fn profiled(bench: &mut Bench) {
    bench.engine.start_profiling();
    for id in 0..6 {
        bench.push(id, HOST, 1);
        bench.push(id, 1, 2);
        bench.compute(id);
        bench.push(id, 2, HOST);
        if id % 3 == 2 {
            let waited = bench.engine.wait_for_all_timeout(LIMIT);
            bench.note(waited);
        }
    }
    let _ = bench.engine.profile().overlap(GPU);
    bench.engine.stop_profiling();
}

/// Arrays that come and go, and copies between them.
fn arrays(bench: &mut Bench) {
    for id in 0..3 {
        bench.compute(id);
        let copied = copies(&bench.engine, &bench.device);
        bench.note(copied);
        bench.push(id, 1, 2);
        bench.device.trim();
    }
}

fn copies(engine: &Engine, device: &DeviceHandle) -> Result<(), Error> {
    let (x, y) = (DeviceData::from_slice(device, &[7u64; 40])?, DeviceData::<u64>::zeros(device, 40)?);
    let back = PinnedData::<u64>::zeros(device, 40)?;
    engine.copy(&x, &y)?;
    engine.copy(&y, &back)?;
    engine.wait_for_var_timeout(back.variable(), LIMIT)?;
    assert_eq!(*back.read()?, [7; 40]);
    Ok(())
}

/// Arrays that have memory once that of others is freed, which the device may have to use yet.
fn under_pressure(bench: &mut Bench) {
    for id in 0..3 {
        let copied = small_and_large(&bench.engine, &bench.device, id);
        bench.note(copied);
        bench.push(id, 1, 2);
        bench.compute(id);
    }
}

fn small_and_large(engine: &Engine, device: &DeviceHandle, id: u64) -> Result<(), Error> {
    let back = PinnedData::<u64>::zeros(device, 300)?;
    let small = [0; 6].map(|_| DeviceData::<u64>::zeros(device, 40));
    let small: Vec<DeviceData<u64>> = small.into_iter().collect::<Result<_, Error>>()?;
    let pinned = PinnedData::from_slice(device, &[id; 300])?;
    // Closures have a share of what they fill.
    small.iter().try_for_each(|array| engine.wait_for_var_timeout(array.variable(), LIMIT))?;
    drop(small);
    let large = DeviceData::<u64>::zeros(device, 300)?;
    engine.copy(&pinned, &large)?;
    engine.copy(&large, &back)?;
    engine.wait_for_var_timeout(back.variable(), LIMIT)?;
    assert_eq!(*back.read()?, [id; 300]);
    Ok(())
}
