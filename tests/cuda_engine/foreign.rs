//! Streams of the program's own: random programs whose work is on streams of the engine, on adopted
//! ones, and on such that an operation ends after; with the stand-in's checker silent.

use crate::client::{call, Fault, Standin};
use crate::common::{assert_says, by_length, Random, Watchdog};
use crate::memory::{compute, kernel, mixed, Entered, Place, FRESH};
use crate::orders::UNORDERED;
use crate::programs::LIMIT;
use crate::seeds::number;
use seriatim::gpu::{AdoptedStream, Backend, Class, Cuda, RawStream};
use seriatim::{Completion, Context, Engine, Error, ErrorKind, Kind, Property, RunContext, Variable};
use std::ffi::c_void;
use std::sync::{mpsc, Arc, Mutex};
use std::thread::JoinHandle;

const GPU: Context = Context::gpu(0);
const HOST: usize = 2;
const CELLS: usize = 5;
/// Of so many steps of a program the last ones are done while the devices stand still: each order
/// is then one of streams.
const STRETCH: u64 = 50;
const STILL: u64 = 25;

/// Streams that the engine has not made.
fn streams(_: &Entered) -> [RawStream; 2] {
    let cuda = Cuda::open().expect("the stand-in is a driver");
    [0; 2].map(|device| cuda.stream(device, Class::Compute).expect("the device is entered"))
}

struct Program {
    engine: Engine,
    places: Vec<Place>,
    variables: Vec<Variable>,
    streams: [RawStream; 2],
    adopted: Vec<AdoptedStream>,
    values: [u64; CELLS],
    /// Each has a share of the engine, which ends with the last.
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Program {
    fn new(kind: Kind, entered: &Entered) -> Program {
        let engine = Engine::builder().kind(kind).cpu_workers(2).pin(false).on_error(|_| ());
        // So many can be queued while the devices stand still.
        let engine = engine.gpu_ahead(1024).build().unwrap();
        let place = |cell| if cell < HOST { Place::of_host(entered) } else { Place::of_device(entered) };
        let streams = streams(entered);
        let gpu = engine.device(GPU).unwrap();
        // SAFETY: nobody destroys them.
        let adopted = streams.iter().map(|stream| unsafe { gpu.adopt(*stream) }.unwrap()).collect();
        let variables = (0..CELLS).map(|_| engine.new_variable()).collect();
        let places = (0..CELLS).map(place).collect();
        Program { engine, places, variables, streams, adopted, values: [FRESH; CELLS], threads: Arc::default() }
    }

    /// A step; with `stands_still`, one that nothing of the processor has to come before or after.
    fn step(&mut self, id: u64, random: &mut Random, stands_still: bool) -> Result<(), Error> {
        let way = if stands_still { 3 + random.below(3) } else { random.below(6) };
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for cell in 0..if way == 0 { HOST } else { CELLS } {
            match random.below(6) {
                0 | 1 => reads.push(cell),
                2 => writes.push(cell),
                _ => {}
            }
        }
        let value = mixed(id, reads.iter().chain(&writes).map(|cell| self.values[*cell]));
        writes.iter().for_each(|cell| self.values[*cell] = value);
        let places = |list: &[usize]| list.iter().map(|cell| self.places[*cell]).collect::<Vec<_>>();
        let variables = |list: &[usize]| list.iter().map(|cell| self.variables[*cell]).collect::<Vec<_>>();
        let (read, written) = (places(&reads), places(&writes));
        let (reads, writes) = (variables(&reads), variables(&writes));
        let builder = self.engine.op("drawn").reads(reads.clone()).writes(writes.clone());
        let own = random.below(self.streams.len());
        let stream = self.streams[own];
        match way {
            0 => builder.push(move |_| compute(id, &read, &written)),
            1 => {
                let start = move |_: &RunContext<'_>, completion: Completion| {
                    kernel(stream, id, read, written, || ()).expect("it is queued");
                    // SAFETY: the stream is never destroyed.
                    unsafe { completion.complete_after(stream) };
                };
                builder.context(GPU).property(Property::Async).push_async(start)
            }
            2 => {
                let threads = Arc::clone(&self.threads);
                let start = move |run: &RunContext<'_>, completion: Completion| {
                    let stream = run.stream().expect("it has one");
                    kernel(stream, id, read, written, || ()).expect("it is queued");
                    // SAFETY: the stream is the operation's.
                    let ends = std::thread::spawn(move || unsafe { completion.complete_after(stream) });
                    threads.lock().unwrap().push(ends);
                };
                builder.context(GPU).push_async(start)
            }
            3 => {
                drop(builder);
                let adopted = &self.adopted[own];
                reads.iter().try_for_each(|variable| adopted.wait_to_read(*variable))?;
                writes.iter().try_for_each(|variable| adopted.wait_to_write(*variable))?;
                kernel(stream, id, read, written, || ()).expect("it is queued");
                reads.iter().try_for_each(|variable| adopted.has_read(*variable))?;
                writes.iter().try_for_each(|variable| adopted.has_written(*variable))
            }
            _ => builder.context(GPU).push(move |run: &RunContext<'_>| {
                kernel(run.stream().expect("it has one"), id, read.clone(), written.clone(), || ())
            }),
        }
    }
}

/// Runs a program at a pace of the devices; says what was wrong.
fn run(standin: &Standin, kind: Kind, seed: u64, pace: u64) -> Result<(), String> {
    let _watchdog = Watchdog::new(240, format!("seed {seed} on {kind}"));
    let entered = Entered::new(standin);
    let (mut program, mut random) = (Program::new(kind, &entered), Random(seed));
    let stepped = (0..200).try_for_each(|id| {
        // The naive engine waits for its stream in each operation.
        let stands_still = kind != Kind::Naive && id % STRETCH >= STRETCH - STILL;
        if stands_still && id % STRETCH == STRETCH - STILL {
            program.engine.wait_for_all_timeout(LIMIT).map_err(|error| error.to_string())?;
        }
        standin.pace(if stands_still { 0 } else { pace });
        program.step(id, &mut random, stands_still).map_err(|error| format!("step {id}: {error}"))
    });
    standin.pace(pace);
    stepped?;
    program.engine.wait_for_all_timeout(LIMIT).map_err(|error| error.to_string())?;
    // On the naive engine such a thread may run operations that add threads.
    loop {
        let Some(thread) = program.threads.lock().unwrap().pop() else { break };
        thread.join().expect("it does not panic");
    }
    for (cell, place) in program.places.iter().enumerate() {
        let found = place.value(1 << 40)?;
        if found != program.values[cell] {
            return Err(format!("cell {cell} has {found:x} and not {:x}", program.values[cell]));
        }
    }
    standin.reports().into_iter().next().map_or(Ok(()), Err)
}

const KINDS: [Kind; 3] = [Kind::PerDevice, Kind::Pooled, Kind::Naive];

#[test]
fn random_programs_with_streams_of_their_own_are_in_order() {
    let standin = Standin::begin(1, 128);
    let first = number("CUDA_ENGINE_FIRST_SEED").unwrap_or(1);
    for seed in first..first + by_length(30, 300) {
        let kind = KINDS[seed as usize % 3];
        let pace = [12, 60, 240][seed as usize % 3];
        standin.again(seed, pace);
        run(&standin, kind, seed, pace).unwrap_or_else(|said| panic!("seed {seed} on {kind}: {said}"));
    }
}

/// As the tests of `orders.rs`: wrong values are for the test above.
#[test]
fn every_two_uses_of_a_cell_by_streams_of_all_sorts_are_ordered() {
    let standin = Standin::begin(1, 128);
    let first = number("CUDA_ENGINE_FIRST_SEED").unwrap_or(1);
    for seed in first..first + 20 {
        standin.again(seed, 60);
        let outcome = run(&standin, KINDS[seed as usize % 2], seed, 60);
        let said = standin.reports().into_iter().chain(outcome.err()).find(|said| said.contains(UNORDERED));
        assert!(said.is_none(), "seed {seed}: {said:?}");
    }
}

#[test]
fn such_programs_find_a_driver_that_swallows_waits() {
    let standin = Standin::begin(1, 128);
    let mut found = 0;
    for seed in 1..=20 {
        // Threads that come late wait for the processor, and need no waits of the device.
        let is_found = (0..3).any(|_| {
            standin.again(seed, 60);
            standin.plant(Fault::WaitSwallowed, 5);
            run(&standin, KINDS[seed as usize % 2], seed, 60).is_err()
        });
        found += usize::from(is_found);
    }
    println!("{found} of 20 faulty programs are found");
    assert!(found >= 18, "{found} of 20");
}

#[test]
fn streams_that_cannot_be_put_in_order_are_refused() {
    let standin = Standin::begin(1, 128);
    let entered = Entered::new(&standin);
    let program = Program::new(Kind::PerDevice, &entered);
    let (engine, x, stream) = (&program.engine, program.variables[0], program.streams[0]);
    let gpu = engine.device(GPU).unwrap();
    let adopt = |raw: usize| {
        // SAFETY: these are the default streams, which are never destroyed.
        unsafe { gpu.adopt(RawStream::new(std::ptr::without_provenance_mut(raw))) }
    };
    assert_says(&adopt(2).unwrap_err(), ErrorKind::StreamRefused, &["CU_STREAM_PER_THREAD", "gpu(0)"]);
    assert_eq!(call!(cuStreamBeginCapture_v2(stream.raw() => *mut c_void, 1 => i32) -> i32), 0);
    let refused = [
        program.adopted[0].wait_to_read(x),
        program.adopted[0].wait_to_write(x),
        program.adopted[0].has_read(x),
        program.adopted[0].has_written(x),
    ];
    for refused in refused {
        assert_says(&refused.unwrap_err(), ErrorKind::StreamRefused, &["is being captured"]);
    }
    // SAFETY: the stream is never destroyed.
    let start = move |_: &RunContext<'_>, completion: Completion| unsafe { completion.complete_after(stream) };
    engine.op("captured").context(GPU).writes([x]).push_async(start).unwrap();
    let error = engine.wait_for_var_timeout(x, LIMIT).unwrap_err();
    assert_says(&error, ErrorKind::StreamRefused, &["'captured'", "is being captured"]);
    let mut graph = std::ptr::null_mut::<c_void>();
    assert_eq!(call!(cuStreamEndCapture(stream.raw() => *mut c_void, &raw mut graph => *mut *mut c_void) -> i32), 0);
    // The capture has not been spoiled, and the stream is as good as before.
    assert!(!graph.is_null());
    program.adopted[0].wait_to_write(x).unwrap();
    program.adopted[0].has_written(x).unwrap();
    engine.wait_for_all_timeout(LIMIT).unwrap();
}

/// The device is lost by its next call while an operation is to end after a stream: it fails.
#[test]
fn a_lost_device_fails_what_ends_after_a_stream() {
    let standin = Standin::begin(1, 128);
    let _watchdog = Watchdog::new(240, "a lost device and a stream");
    let entered = Entered::new(&standin);
    let program = Program::new(Kind::PerDevice, &entered);
    let (engine, x, stream) = (&program.engine, program.variables[0], program.streams[0]);
    standin.pace(0);
    let (send, receive) = mpsc::channel();
    let start = move |_: &RunContext<'_>, completion: Completion| {
        kernel(stream, 1, Vec::new(), Vec::new(), || ()).expect("it is queued");
        // SAFETY: the stream is never destroyed.
        unsafe { completion.complete_after(stream) };
        send.send(()).expect("the test waits for it");
    };
    engine.op("library").context(GPU).writes([x]).push_async(start).unwrap();
    receive.recv_timeout(LIMIT).unwrap();
    standin.lose(0, 719);
    let error = engine.wait_for_var_timeout(x, LIMIT).unwrap_err();
    assert_says(&error, ErrorKind::DeviceLost, &["'library'", "gpu(0) is lost"]);
    entered.forget();
    let _ = engine.wait_for_all_timeout(LIMIT);
}
