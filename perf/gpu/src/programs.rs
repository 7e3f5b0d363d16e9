//! Random programs against a sequential run: kernels, copies, operations of the processor, arrays
//! that come and go, waits.

use crate::device::Device;
use crate::mix::{mixed, Mixture};
use seriatim::gpu::{DeviceData, DeviceHandle, PinnedData, RawMemory};
use seriatim::{Context, Engine, Error, Kind, Property, RunContext};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// No wait takes so long.
const LIMIT: Duration = Duration::from_secs(60);
const ARRAYS: usize = 8;
/// Of one size class, so that memory goes from array to array.
const LENGTH: usize = 500;

#[derive(Clone)]
enum Array {
    Device(DeviceData<u64>),
    Pinned(PinnedData<u64>),
}

impl Array {
    fn variable(&self) -> seriatim::Variable {
        match self {
            Array::Device(array) => array.variable(),
            Array::Pinned(array) => array.variable(),
        }
    }

    fn read_on(&self, run: &RunContext<'_>) -> Result<RawMemory, Error> {
        match self {
            Array::Device(array) => array.read_on(run),
            Array::Pinned(array) => array.read_on(run),
        }
    }

    fn write_on(&self, run: &RunContext<'_>) -> Result<RawMemory, Error> {
        match self {
            Array::Device(array) => array.write_on(run),
            Array::Pinned(array) => array.write_on(run),
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
    places: Vec<Place>,
    state: u64,
    id: u64,
}

fn say(error: Error) -> String {
    error.to_string()
}

impl Program<'_> {
    fn new(device: &Device, seed: u64) -> Result<Program<'_>, String> {
        let mut state = seed;
        let kind = [Kind::PerDevice, Kind::PerDevice, Kind::Pooled, Kind::Naive][below(&mut state, 4)];
        let ahead = [1, 3, 64, 64][below(&mut state, 4)];
        let builder = device.engine().kind(kind).cpu_workers(2).gpu_ahead(ahead);
        let builder = builder.gpu_workers(1 + below(&mut state, 3)).on_error(|_| ());
        let engine = builder.build().map_err(say)?;
        let gpu = engine.device(Context::gpu(0)).map_err(say)?;
        let mut program = Program { device, engine, gpu, places: Vec::new(), state, id: 0 };
        for _ in 0..ARRAYS {
            let place = program.array().map_err(say)?;
            program.places.push(place);
        }
        Ok(program)
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

    /// What an array has, when its operations are done.
    fn look(&mut self, at: usize) -> Result<(), String> {
        let back = PinnedData::zeros(&self.gpu, LENGTH).map_err(say)?;
        let back = match &self.places[at].array {
            Array::Pinned(array) => array.clone(),
            Array::Device(array) => self.engine.copy(array, &back).map(|()| back).map_err(say)?,
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
        match self.below(40) {
            0..20 => self.kernel().map_err(say),
            20..30 => self.copy().map_err(say),
            30..35 => self.stir().map_err(say),
            35..38 => {
                // The array is given back while what uses it is under way.
                let at = self.below(ARRAYS);
                self.places[at] = self.array().map_err(say)?;
                Ok(())
            }
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
        self.engine.wait_for_all_timeout(LIMIT).map_err(say)
    }
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
