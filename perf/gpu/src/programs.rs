//! Random programs against a sequential run: kernels, copies, operations of the processor, arrays
//! that come and go, waits; graphs that are captured and replayed, also as graphs of the driver;
//! kernels on a stream that is not the engine's, adopted or one that operations end after. Some
//! programs are profiled.

mod replays;

use crate::device::Device;
use crate::driver::{Driver, Stream};
use crate::mix::{mixed, Mixture};
use seriatim::gpu::{AdoptedStream, DeviceData, DeviceHandle, PinnedData, RawMemory};
use seriatim::{Completion, Context, Engine, Error, Kind, Property, RunContext, Variable};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// No wait takes so long.
const LIMIT: Duration = Duration::from_secs(60);
const ARRAYS: usize = 8;
/// The first arrays are of memory of the program's own, which streams that are not the engine's can
/// use. They stay.
const OWN: usize = 2;
/// Of one size class, so that memory goes from array to array.
const LENGTH: usize = 500;

#[derive(Clone)]
enum Array {
    Device(DeviceData<u64>),
    Pinned(PinnedData<u64>),
    Own(RawMemory, Variable),
}

impl Array {
    fn variable(&self) -> seriatim::Variable {
        match self {
            Array::Device(array) => array.variable(),
            Array::Pinned(array) => array.variable(),
            Array::Own(_, variable) => *variable,
        }
    }

    fn read_on(&self, run: &RunContext<'_>) -> Result<RawMemory, Error> {
        match self {
            Array::Device(array) => array.read_on(run),
            Array::Pinned(array) => array.read_on(run),
            Array::Own(at, _) => Ok(*at),
        }
    }

    fn write_on(&self, run: &RunContext<'_>) -> Result<RawMemory, Error> {
        match self {
            Array::Device(array) => array.write_on(run),
            Array::Pinned(array) => array.write_on(run),
            Array::Own(at, _) => Ok(*at),
        }
    }
}

/// An array, and what a sequential run has in each of its numbers.
struct Place {
    array: Array,
    expected: u64,
}

struct Program<'a> {
    device: &'a Device,
    engine: Engine,
    gpu: DeviceHandle,
    driver: Arc<Driver>,
    stream: Stream,
    adopted: AdoptedStream,
    places: Vec<Place>,
    /// Kernels that were pushed since the engine profiles, if it does.
    profiled: Option<u64>,
    state: u64,
    id: u64,
}

fn say(error: Error) -> String {
    error.to_string()
}

/// Calls something with the device current, which it is on the thread that has opened it only.
fn entered<T>(device: &Device, call: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let previous = device.backend.enter(0).map_err(|error| error.to_string())?;
    let result = call();
    // SAFETY: `enter` has returned it on this thread.
    unsafe { device.backend.leave(previous) };
    result
}

impl Program<'_> {
    fn new(device: &Device, seed: u64) -> Result<Program<'_>, String> {
        let mut state = seed;
        let kind = kind(&mut state);
        let ahead = [1, 3, 64, 64][below(&mut state, 4)];
        let builder = device.engine().kind(kind).cpu_workers(2).gpu_ahead(ahead);
        let builder = builder.gpu_workers(1 + below(&mut state, 3)).on_error(|_| ());
        let engine = builder.build().map_err(say)?;
        let gpu = engine.device(Context::gpu(0)).map_err(say)?;
        let driver = device.driver.clone().ok_or("bare calls need a driver")?;
        let stream = entered(device, || driver.stream())?;
        // SAFETY: the stream is of this device, and is destroyed when the program is over.
        let adopted = unsafe { gpu.adopt(stream.raw()) }.map_err(say)?;
        let profiled = (below(&mut state, 4) == 0).then_some(0);
        let places = Vec::new();
        let mut program = Program { device, engine, gpu, driver, stream, adopted, places, profiled, state, id: 0 };
        for at in 0..ARRAYS {
            let place = if at < OWN { program.own()? } else { program.array().map_err(say)? };
            program.places.push(place);
        }
        if program.profiled.is_some() {
            program.engine.start_profiling();
        }
        Ok(program)
    }

    /// An array of memory of the program's own.
    fn own(&self) -> Result<Place, String> {
        let at = entered(self.device, || {
            let at = self.driver.allocate(LENGTH * 8)?;
            // SAFETY: it has so many bytes, and nobody knows it yet.
            unsafe { self.driver.zero(self.stream, at, LENGTH * 8) }?;
            self.driver.synchronize(self.stream).map(|()| at)
        })?;
        Ok(Place { array: Array::Own(at, self.engine.new_variable()), expected: 0 })
    }

    fn below(&mut self, bound: usize) -> usize {
        below(&mut self.state, bound)
    }

    fn array(&mut self) -> Result<Place, Error> {
        let value = self.below(1000) as u64;
        let values = [value; LENGTH];
        let (array, expected) = match self.below(3) {
            0 => (Array::Device(DeviceData::zeros(&self.gpu, LENGTH)?), 0),
            1 => (Array::Device(DeviceData::from_slice(&self.gpu, &values)?), value),
            _ => (Array::Pinned(PinnedData::from_slice(&self.gpu, &values)?), value),
        };
        Ok(Place { array, expected })
    }

    /// Three arrays that are not the same.
    fn three(&mut self) -> [usize; 3] {
        let first = self.below(ARRAYS);
        let second = (first + 1 + self.below(ARRAYS - 1)) % ARRAYS;
        let third = (0..ARRAYS).cycle().skip(self.below(ARRAYS)).find(|at| *at != first && *at != second);
        [first, second, third.expect("there are more than two")]
    }

    fn kernel(&mut self) -> Result<(), Error> {
        let [to, one, other] = self.three();
        // Long kernels let what is not ordered overtake them.
        let spin = [0, 10, 300, 5000][self.below(4)];
        let property = [Property::Normal, Property::Normal, Property::GpuPrioritized][self.below(3)];
        let (mix, id) = (Arc::clone(&self.device.mix), self.id);
        let (out, from) = (self.places[to].array.clone(), [one, other].map(|at| self.places[at].array.clone()));
        let operation = self.engine.op("kernel").context(Context::gpu(0)).property(property);
        let operation = operation.reads(from.iter().map(Array::variable)).writes([out.variable()]);
        let values = [self.places[one].expected, self.places[other].expected, 0];
        self.places[to].expected = mixed(self.places[to].expected, values, id, spin);
        self.profiled = self.profiled.map(|count| count + 1);
        operation.push(move |run| {
            let stream = run.stream().ok_or("this operation has no stream")?;
            let lent = [Some(from[0].read_on(run).map_err(say)?), Some(from[1].read_on(run).map_err(say)?), None];
            let out = out.write_on(run).map_err(say)?;
            // SAFETY: the operation has declared the arrays, which its device can use.
            unsafe { mix.mix(0, stream, &Mixture { out, from: lent, id, spin, count: LENGTH }) }
        })
    }

    fn copy(&mut self) -> Result<(), Error> {
        let [to, from, _] = self.three();
        match (&self.places[from].array, &self.places[to].array) {
            (Array::Device(from), Array::Device(to)) => self.engine.copy(from, to)?,
            (Array::Device(from), Array::Pinned(to)) => self.engine.copy(from, to)?,
            (Array::Pinned(from), Array::Device(to)) => self.engine.copy(from, to)?,
            (Array::Pinned(from), Array::Pinned(to)) => {
                let (source, target) = (from.clone(), to.clone());
                let body = move |_: &RunContext<'_>| {
                    let source = source.read()?;
                    target.write().map(|mut target| target.copy_from_slice(&source))
                };
                self.engine.op("by hand").read(from).write(to).push(body)?;
            }
            (Array::Own(..), _) | (_, Array::Own(..)) => return self.kernel(),
        }
        self.places[to].expected = self.places[from].expected;
        Ok(())
    }

    /// An operation of the processor on a pinned array.
    fn stir(&mut self) -> Result<(), Error> {
        let (at, id) = (self.below(ARRAYS), self.id);
        let Array::Pinned(array) = &self.places[at].array else { return Ok(()) };
        let own = array.clone();
        let body = move |_: &RunContext<'_>| {
            own.write().map(|mut values| values.iter_mut().for_each(|value| *value = mixed(*value, [0; 3], id, 0)))
        };
        self.engine.op("stir").write(array).push(body)?;
        self.places[at].expected = mixed(self.places[at].expected, [0; 3], id, 0);
        Ok(())
    }

    /// Two arrays of the program's own: to change the first by the second. Notes what comes of it.
    fn two_own(&mut self, spin: u64) -> [(RawMemory, Variable); 2] {
        let to = self.below(OWN);
        let by = (to + 1) % OWN;
        let values = [self.places[by].expected, 0, 0];
        self.places[to].expected = mixed(self.places[to].expected, values, self.id, spin);
        [to, by].map(|at| match self.places[at].array {
            Array::Own(at, variable) => (at, variable),
            _ => unreachable!("the first arrays are the program's own"),
        })
    }

    /// A kernel on the adopted stream, between the calls that put it in order.
    fn foreign(&mut self) -> Result<(), String> {
        let spin = [0, 3000][self.below(2)];
        let [(out, to), (from, by)] = self.two_own(spin);
        self.adopted.wait_to_read(by).map_err(say)?;
        self.adopted.wait_to_write(to).map_err(say)?;
        let what = Mixture { out, from: [Some(from), None, None], id: self.id, spin, count: LENGTH };
        // SAFETY: the stream has been told to wait for what uses the arrays, and what comes later
        // waits for it.
        entered(self.device, || unsafe { self.device.mix.mix(0, self.stream.raw(), &what) })?;
        self.adopted.has_read(by).map_err(say)?;
        self.adopted.has_written(to).map_err(say)
    }

    /// An operation that ends when its kernel does, on a stream that is not the engine's.
    fn library(&mut self) -> Result<(), Error> {
        let spin = [0, 3000][self.below(2)];
        let [(out, to), (from, by)] = self.two_own(spin);
        let (mix, stream, id) = (Arc::clone(&self.device.mix), self.stream.raw(), self.id);
        let body = move |_: &RunContext<'_>, completion: Completion| {
            let what = Mixture { out, from: [Some(from), None, None], id, spin, count: LENGTH };
            // SAFETY: the operation has declared the arrays, and ends when the stream has come
            // here.
            match unsafe { mix.mix(0, stream, &what) } {
                // SAFETY: the stream is of this device, and is destroyed when all is done.
                Ok(()) => unsafe { completion.complete_after(stream) },
                Err(why) => completion.fail(why),
            }
        };
        let operation = self.engine.op("library").context(Context::gpu(0)).property(Property::Async);
        operation.reads([by]).writes([to]).push_async(body)
    }

    /// What an array has, when its operations are done.
    fn look(&mut self, at: usize) -> Result<(), String> {
        let back = PinnedData::zeros(&self.gpu, LENGTH).map_err(say)?;
        let back = match &self.places[at].array {
            Array::Pinned(array) => array.clone(),
            Array::Device(array) => self.engine.copy(array, &back).map(|()| back).map_err(say)?,
            Array::Own(from, variable) => {
                let (driver, from, to) = (Arc::clone(&self.driver), *from, back.clone());
                let out = self.engine.op("out").context(Context::gpu(0)).read(*variable).write(&back);
                let pushed = out.push(move |run| {
                    let stream = run.stream().ok_or("this operation has no stream")?;
                    let to = to.write_on(run).map_err(say)?;
                    // SAFETY: both have so many bytes, and the operation has declared them.
                    unsafe { driver.copy_out(Stream::of(stream), from, to.raw().cast(), LENGTH * 8) }
                });
                pushed.map(|()| back).map_err(say)?
            }
        };
        self.engine.wait_for_var_timeout(back.variable(), LIMIT).map_err(say)?;
        let (found, expected) = (back.read().map_err(say)?, self.places[at].expected);
        match found.iter().position(|value| *value != expected) {
            None => Ok(()),
            Some(place) => Err(format!(
                "number {place} of array {at} is {:#x} and not {expected:#x}, before operation {}",
                found[place], self.id
            )),
        }
    }

    fn step(&mut self) -> Result<(), String> {
        self.id += 1;
        match self.below(48) {
            0..20 => self.kernel().map_err(say),
            20..30 => self.copy().map_err(say),
            30..35 => self.stir().map_err(say),
            35..38 => {
                // The array is given back while what uses it is under way.
                let at = OWN + self.below(ARRAYS - OWN);
                self.places[at] = self.array().map_err(say)?;
                Ok(())
            }
            40..43 => self.foreign(),
            43..46 => self.library().map_err(say),
            46..48 => self.replays().map_err(say),
            38 => {
                let at = self.below(ARRAYS);
                self.look(at)
            }
            _ => self.engine.wait_for_all_timeout(LIMIT).map_err(say),
        }
    }

    fn run(mut self, operations: usize) -> Result<(), String> {
        (0..operations).try_for_each(|_| self.step())?;
        (0..ARRAYS).try_for_each(|at| self.look(at))?;
        self.engine.wait_for_all_timeout(LIMIT).map_err(say)?;
        self.spans()?;
        for place in &self.places[..OWN] {
            if let Array::Own(at, _) = place.array {
                // SAFETY: it was allocated so, and nothing is under way.
                entered(self.device, || unsafe { self.driver.free(at) })?;
            }
        }
        // SAFETY: it was made by the driver; all is done, and the adopted stream is used no more.
        entered(self.device, || unsafe { self.driver.drop_stream(self.stream) })
    }

    /// Each kernel of a program that was profiled has the device's times. Those of the naive engine
    /// have none.
    fn spans(&self) -> Result<(), String> {
        let Some(pushed) = self.profiled.filter(|_| self.engine.kind() != Kind::Naive) else { return Ok(()) };
        let profile = self.engine.profile();
        let kernels = profile.events().iter().filter(|event| event.name == "kernel");
        let timed = kernels.filter_map(|event| event.device()).filter(|span| span.end >= span.start).count() as u64;
        match timed == pushed {
            true => Ok(()),
            false => Err(format!("{timed} of {pushed} kernels have times of the device")),
        }
    }
}

fn kind(state: &mut u64) -> Kind {
    [Kind::PerDevice, Kind::PerDevice, Kind::Pooled, Kind::Naive][below(state, 4)]
}

/// Whether the program of a seed is one of the naive engine, which waits for its streams itself.
pub fn is_naive(mut seed: u64) -> bool {
    kind(&mut seed) == Kind::Naive
}

fn below(state: &mut u64, bound: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((word ^ (word >> 31)) >> 16) as usize % bound
}

/// Runs one program.
///
/// # Errors
/// What is wrong, with the seed.
pub fn program(device: &Device, seed: u64, operations: usize) -> Result<(), String> {
    Program::new(device, seed)?.run(operations).map_err(|why| format!("seed {seed}: {why}"))
}

/// Runs programs of 300 operations until the time is over, or there were so many; says how many.
///
/// # Errors
/// As [`program`].
pub fn programs(device: &Device, first: u64, most: u64, time: Duration) -> Result<String, String> {
    let (began, mut seed) = (Instant::now(), first);
    while seed < first + most && (seed == first || began.elapsed() < time) {
        program(device, seed, 300)?;
        seed += 1;
    }
    Ok(format!("{} programs of 300 operations, seeds {first} to {}", seed - first, seed - 1))
}
