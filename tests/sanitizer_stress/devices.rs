//! Devices in the stress: kernels, copies, graphs, streams of the program's own and operations that
//! end after one. The devices are the processor: their work is done inside the calls that queue it,
//! with no lock that would order anything. So what orders it is the engine alone.

use crate::common::Random;
use crate::pusher::{touch, variables};
use crate::world::{Guarded, Shape};
use seriatim::gpu::{
    AdoptedStream, Backend, Class, DeviceClock, DeviceData, DeviceHandle, DeviceMemory, DriverError, Immediate,
    PinnedData, Previous, RawMark, RawStream,
};
use seriatim::{Completion, Context, Engine, Error, Graph, IdlePolicy, Property, RunContext};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;
use std::thread;

const DEVICES: u32 = 2;
/// Values that all pushers share, and those of each pusher's own.
const SHARED: usize = 6;
const OWN: usize = 2;
const PUSHERS: usize = 2;
/// Steps of each pusher.
const STEPS: usize = 60;

/// [`Immediate`], but two of three questions are answered with 'not yet'. So operations are parked,
/// and streams are told to wait.
struct Late {
    devices: Arc<Immediate>,
    asked: AtomicUsize,
}

// SAFETY: what is queued is done at once, so everything is in order, and a mark may be reached
// later than it is.
unsafe impl Backend for Late {
    fn name(&self) -> &str {
        "the processor, late"
    }

    fn devices(&self) -> Result<usize, DriverError> {
        self.devices.devices()
    }

    fn enter(&self, device: usize) -> Result<Previous, DriverError> {
        self.devices.enter(device)
    }

    unsafe fn leave(&self, previous: Previous) {
        // SAFETY: the caller's contract is that of the other back end, here and below.
        unsafe { self.devices.leave(previous) }
    }

    fn stream(&self, device: usize, class: Class) -> Result<RawStream, DriverError> {
        self.devices.stream(device, class)
    }

    fn mark(&self, device: usize) -> Result<RawMark, DriverError> {
        self.devices.mark(device)
    }

    unsafe fn record(&self, mark: RawMark, stream: RawStream) -> Result<(), DriverError> {
        // SAFETY: as above.
        unsafe { self.devices.record(mark, stream) }
    }

    unsafe fn wait(&self, stream: RawStream, mark: RawMark) -> Result<(), DriverError> {
        // SAFETY: as above.
        unsafe { self.devices.wait(stream, mark) }
    }

    unsafe fn reached(&self, mark: RawMark) -> Result<bool, DriverError> {
        // Relaxed, so that the question orders nothing.
        if self.asked.fetch_add(1, Relaxed) % 3 != 0 {
            return Ok(false);
        }
        // SAFETY: as above.
        unsafe { self.devices.reached(mark) }
    }

    unsafe fn finish(&self, stream: RawStream) -> Result<(), DriverError> {
        // SAFETY: as above.
        unsafe { self.devices.finish(stream) }
    }

    unsafe fn drop_stream(&self, stream: RawStream) {
        // SAFETY: as above.
        unsafe { self.devices.drop_stream(stream) }
    }

    unsafe fn drop_mark(&self, mark: RawMark) {
        // SAFETY: as above.
        unsafe { self.devices.drop_mark(mark) }
    }

    fn memory(&self) -> Option<&dyn DeviceMemory> {
        self.devices.memory()
    }

    fn clock(&self) -> Option<&dyn DeviceClock> {
        self.devices.clock()
    }
}

/// An engine over such devices.
pub fn engine(shape: Shape, random: &mut Random) -> Engine {
    let late = Arc::new(Late { devices: Immediate::new(DEVICES as usize), asked: AtomicUsize::new(0) });
    let builder = Engine::builder().kind(shape.kind).cpu_workers(shape.workers).gpus(late);
    let builder = builder.gpu_workers(random.between(1, 2)).gpu_ahead(random.pick(&[1, 3, 64]));
    builder.idle(random.pick(&[IdlePolicy::SpinThenPark, IdlePolicy::Park])).build().expect("the settings are valid")
}

/// The program's own stream of a device: these devices have one.
pub fn adopted(gpu: &DeviceHandle) -> AdoptedStream {
    // SAFETY: it is never destroyed.
    unsafe { gpu.adopt(RawStream::new(null_mut())) }.expect("the device is there")
}

/// Runs one world with devices, and checks what is left of it. Returns how many steps there were.
pub fn run(shape: Shape, random: &mut Random) -> u64 {
    let engine = engine(shape, random);
    if random.chance(50) {
        engine.start_profiling();
    }
    let shared: Vec<Guarded> = (0..SHARED).map(|_| Guarded::new(&engine)).collect();
    let pushers: Vec<_> = (0..PUSHERS)
        .map(|_| {
            let (engine, shared, random) = (engine.clone(), shared.clone(), Random(random.next()));
            thread::spawn(move || Pusher::new(engine, shared, random).run())
        })
        .collect();
    let changes: Vec<_> = pushers.into_iter().map(|pusher| pusher.join().expect("pushers do not panic")).collect();
    engine.wait_for_all().unwrap_or_else(|error| panic!("{error}\n{shape:?}"));
    drop(engine.profile());
    engine.stop().expect("we are not inside");
    for (index, slot) in shared.into_iter().enumerate() {
        let expected: u64 = changes.iter().map(|changes| changes[index]).sum();
        // SAFETY: the engine is stopped.
        unsafe {
            assert_eq!(slot.read(), expected, "value {index} in {shape:?}");
            slot.free();
        }
    }
    (PUSHERS * STEPS) as u64
}

/// A thread that pushes to devices.
struct Pusher {
    engine: Engine,
    gpus: Vec<DeviceHandle>,
    shared: Vec<Guarded>,
    own: Vec<Guarded>,
    random: Random,
    /// Changes of each shared value, and of each of its own.
    changes: [u64; SHARED],
    own_changes: [u64; OWN],
    graph: Option<(Graph, Vec<usize>)>,
    host: PinnedData<u64>,
    array: DeviceData<u64>,
    sum: u64,
}

impl Pusher {
    fn new(engine: Engine, shared: Vec<Guarded>, random: Random) -> Pusher {
        let gpus: Vec<_> =
            (0..DEVICES).map(|device| engine.device(Context::gpu(device)).expect("it is there")).collect();
        Pusher {
            own: (0..OWN).map(|_| Guarded::new(&engine)).collect(),
            host: PinnedData::zeros(&gpus[0], 1).expect("there is memory"),
            array: DeviceData::zeros(&gpus[0], 1).expect("there is memory"),
            changes: [0; SHARED],
            own_changes: [0; OWN],
            graph: None,
            sum: 0,
            engine,
            gpus,
            shared,
            random,
        }
    }

    fn run(mut self) -> [u64; SHARED] {
        for _ in 0..STEPS {
            self.step().expect("nothing fails");
        }
        self.engine.copy(&self.array, &self.host).expect("nothing fails");
        self.engine.wait_for_var(self.host.variable()).expect("nothing fails");
        assert_eq!(*self.host.read().expect("it is not used"), [self.sum]);
        for (slot, changes) in self.own.into_iter().zip(self.own_changes) {
            self.engine.wait_until_unused(slot.variable).expect("nothing fails");
            // SAFETY: nobody uses it any more.
            unsafe {
                assert_eq!(slot.read(), changes);
                slot.free();
            }
        }
        self.changes
    }

    /// A few of the shared values: what an operation reads, and what it changes.
    fn drawn(&mut self) -> (Vec<Guarded>, Vec<usize>) {
        let write = self.random.below(SHARED);
        let reads = (0..SHARED).filter(|slot| *slot != write && self.random.chance(30));
        (reads.map(|slot| self.shared[slot]).collect(), vec![write])
    }

    fn step(&mut self) -> Result<(), Error> {
        let own = self.random.below(OWN);
        let slot = self.own[own];
        let device = self.random.below(self.gpus.len());
        let gpu = self.gpus[device].clone();
        match self.random.below(12) {
            0 => {
                let stream = adopted(&gpu);
                stream.wait_to_read(slot.variable)?;
                // SAFETY: the stream reads, as it has said.
                unsafe { slot.read() };
                stream.has_read(slot.variable)
            }
            1 => {
                let stream = adopted(&gpu);
                stream.wait_to_write(slot.variable)?;
                // SAFETY: the stream changes it, as it has said.
                unsafe { slot.change() };
                self.own_changes[own] += 1;
                stream.has_written(slot.variable)
            }
            2 => {
                self.own_changes[own] += 1;
                // SAFETY: the operation declares it.
                let change = move |_: &RunContext<'_>| unsafe { slot.change() };
                self.engine.op("own").context(gpu.context()).writes([slot.variable]).push(change)
            }
            3 => self.until(&gpu),
            4 => self.engine.copy(&self.array, &self.host),
            5 => self.engine.copy(&self.host, &self.array).map(|()| self.sum = self.sum_of_host()),
            6 => self.add(),
            7 => self.replay(),
            way => {
                let (reads, writes) = self.drawn();
                let context = if way == 8 { Context::cpu(0) } else { gpu.context() };
                self.changes[writes[0]] += 1;
                let writes: Vec<Guarded> = writes.iter().map(|slot| self.shared[*slot]).collect();
                let properties = [Property::Normal, Property::Normal, Property::NoSkip, Property::CopyToGpu];
                let builder = self.engine.op("drawn").reads(variables(&reads)).writes(variables(&writes));
                let builder = builder.context(context).property(self.random.pick(&properties));
                builder.push(move |_: &RunContext<'_>| touch(&reads, &writes))
            }
        }
    }

    /// What the last copy back has brought, once that is over.
    fn sum_of_host(&self) -> u64 {
        self.engine.wait_for_var(self.host.variable()).expect("nothing fails");
        self.host.read().expect("only copies use it, and they read")[0]
    }

    /// An operation that ends when a stream of the program's has come there.
    fn until(&mut self, gpu: &DeviceHandle) -> Result<(), Error> {
        let (reads, writes) = self.drawn();
        self.changes[writes[0]] += 1;
        let writes: Vec<Guarded> = writes.iter().map(|slot| self.shared[*slot]).collect();
        let builder = self.engine.op("until").reads(variables(&reads)).writes(variables(&writes));
        let start = move |_: &RunContext<'_>, completion: Completion| {
            touch(&reads, &writes);
            // SAFETY: these devices have one stream, which is never destroyed.
            unsafe { completion.complete_after(RawStream::new(null_mut())) };
        };
        builder.context(gpu.context()).property(Property::Async).push_async(start)
    }

    /// A kernel that adds one to the array.
    fn add(&mut self) -> Result<(), Error> {
        self.sum += 1;
        let array = self.array.clone();
        let kernel = move |run: &RunContext<'_>| {
            // SAFETY: the array has a number, and the operation declares it.
            unsafe { *array.write_on(run)?.raw().cast::<u64>() += 1 };
            Ok::<(), Error>(())
        };
        self.engine.op("add").context(self.gpus[0].context()).write(&self.array).push(kernel)
    }

    /// Replays a graph of operations of both devices and the processor, or captures another one.
    fn replay(&mut self) -> Result<(), Error> {
        if self.graph.is_none() || self.random.chance(20) {
            let parts: Vec<_> = (0..self.random.between(1, 6)).map(|_| self.drawn()).collect();
            let (graph, ()) = self.engine.capture(|c| {
                for (reads, writes) in &parts {
                    let contexts = [Context::cpu(0), Context::gpu(0), Context::gpu(1)];
                    let (reads, writes) = (reads.clone(), vec![self.shared[writes[0]]]);
                    let builder = c.op("part").reads(variables(&reads)).writes(variables(&writes));
                    let builder = builder.context(self.random.pick(&contexts));
                    builder.push(move |_: &RunContext<'_>| touch(&reads, &writes))?;
                }
                Ok(())
            })?;
            self.graph = Some((graph, parts.iter().map(|(_, writes)| writes[0]).collect()));
        }
        let (graph, changed) = self.graph.as_ref().expect("it was captured");
        changed.iter().for_each(|slot| self.changes[*slot] += 1);
        graph.replay()
    }
}
