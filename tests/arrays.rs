//! Random programs over arrays of devices that are the processor (`gpu::Immediate`), against a
//! sequential run. All their memory is the allocator's, so Miri and the sanitizers watch every
//! byte: copies, borrows of pinned arrays as slices, memory that goes from array to array.

mod common;

use common::{by_length, Random, Watchdog};
use seriatim::gpu::{DeviceData, DeviceHandle, Immediate, PinnedData, Plain};
use seriatim::{Context, Engine, Error, Kind, RunContext};
use std::fmt::Debug;

const ARRAYS: usize = if cfg!(miri) { 3 } else { 4 };
const STEPS: usize = if cfg!(miri) { 10 } else { 300 };

#[derive(Clone)]
enum Array<T> {
    Device(DeviceData<T>, Context),
    Pinned(PinnedData<T>),
}

/// A program over arrays of one type, and what a sequential run has there.
struct Program<T> {
    arrays: Vec<Array<T>>,
    expected: Vec<u64>,
    devices: Vec<DeviceHandle>,
    engine: Engine,
    random: Random,
    length: usize,
    /// A value of the type for a number.
    value: fn(u64) -> T,
}

impl<T: Plain + PartialEq + Debug> Program<T> {
    fn drawn(&mut self) -> Result<(Array<T>, u64), Error> {
        let (device, number) = (self.random.below(self.devices.len()), self.random.next());
        let (device, values) = (&self.devices[device], vec![(self.value)(number); self.length]);
        Ok(match self.random.below(2) {
            0 => (Array::Device(DeviceData::from_slice(device, &values)?, device.context()), number),
            _ => (Array::Pinned(PinnedData::from_slice(device, &values)?), number),
        })
    }

    fn renew(&mut self, at: usize) -> Result<(), Error> {
        (self.arrays[at], self.expected[at]) = self.drawn()?;
        Ok(())
    }

    fn copy(&mut self, from: usize, to: usize) -> Result<(), Error> {
        self.expected[to] = self.expected[from];
        match (&self.arrays[from], &self.arrays[to]) {
            (Array::Device(from, _), Array::Device(to, _)) => self.engine.copy(from, to),
            (Array::Device(from, _), Array::Pinned(to)) => self.engine.copy(from, to),
            (Array::Pinned(from), Array::Device(to, _)) => self.engine.copy(from, to),
            (Array::Pinned(from), Array::Pinned(to)) => {
                let (source, target) = (from.clone(), to.clone());
                let body = move |_: &RunContext<'_>| {
                    let (source, mut target) = (source.read()?, target.write()?);
                    target.copy_from_slice(&source);
                    Ok::<(), Error>(())
                };
                self.engine.op("by hand").read(from).write(to).push(body)
            }
        }
    }

    /// An operation writes a number everywhere: a device by addresses, the processor by a slice.
    fn fill(&mut self, at: usize) -> Result<(), Error> {
        let (number, length) = (self.random.next(), self.length);
        let value = (self.value)(number);
        self.expected[at] = number;
        match &self.arrays[at] {
            Array::Device(array, context) => {
                let own = array.clone();
                let body = move |run: &RunContext<'_>| {
                    let start = own.write_on(run)?.raw().cast::<T>();
                    for index in 0..length {
                        // SAFETY: the array has so many elements, and is this operation's.
                        unsafe { start.add(index).write(value) };
                    }
                    Ok::<(), Error>(())
                };
                self.engine.op("kernel").context(*context).write(array).push(body)
            }
            Array::Pinned(array) => {
                let own = array.clone();
                let body = move |_: &RunContext<'_>| own.write().map(|mut values| values.fill(value));
                self.engine.op("fill").write(array).push(body)
            }
        }
    }

    /// Two borrows outside at once, after a wait.
    fn look(&self, at: usize) -> Result<(), Error> {
        let Array::Pinned(array) = &self.arrays[at] else { return Ok(()) };
        self.engine.wait_for_var(array.variable())?;
        let (one, other) = (array.read()?, array.read()?);
        assert_eq!(one.len(), self.length);
        assert!(one.iter().chain(other.iter()).all(|value| *value == (self.value)(self.expected[at])));
        Ok(())
    }

    fn run(&mut self) -> Result<(), Error> {
        for _ in 0..STEPS {
            let at = self.random.below(ARRAYS);
            let other = (at + 1 + self.random.below(ARRAYS - 1)) % ARRAYS;
            match self.random.below(10) {
                0..4 => self.copy(at, other)?,
                4..7 => self.fill(at)?,
                7 => self.look(at)?,
                8 => _ = self.devices[self.random.below(self.devices.len())].trim(),
                // It is given back while what uses it is under way.
                _ => self.renew(at)?,
            }
        }
        self.engine.wait_for_all()?;
        (0..ARRAYS).try_for_each(|at| self.look(at))
    }
}

fn program<T: Plain + PartialEq + Debug>(seed: u64, value: fn(u64) -> T) {
    let mut random = Random(seed);
    let kind = random.pick(&[Kind::Naive, Kind::Pooled, Kind::PerDevice]);
    let devices = random.between(1, 2);
    let builder = Engine::builder().kind(kind).cpu_workers(1).gpu_workers(1).pin(false);
    let engine = builder.gpus(Immediate::new(devices)).build().unwrap();
    if cfg!(miri) {
        // Miri stops inside crossbeam-epoch when the last handle of a collector goes.
        std::mem::forget(engine.clone());
    }
    let devices = (0..devices).map(|number| engine.device(Context::gpu(number as u32)).unwrap()).collect();
    // Also none, and more than the smallest class of memory has.
    let length = random.pick(&[0, 1, 3, 20, if cfg!(miri) { 3 } else { 200 }]);
    let mut program = Program { arrays: Vec::new(), expected: Vec::new(), devices, engine, random, length, value };
    for _ in 0..ARRAYS {
        let (array, expected) = program.drawn().unwrap();
        program.arrays.push(array);
        program.expected.push(expected);
    }
    program.run().unwrap_or_else(|error| panic!("ARRAYS_SEED={seed}: {error}"));
}

#[test]
fn random_programs_over_arrays_of_the_processor_do_what_a_sequential_run_does() {
    let _watchdog = (!cfg!(miri)).then(|| Watchdog::new(300, "random programs over arrays"));
    let only = std::env::var("ARRAYS_SEED").ok().map(|text| text.parse::<u64>().expect("a number"));
    let seeds = only.map_or(0..by_length(60, 600), |seed| seed..seed + 1);
    for seed in seeds {
        match seed % 3 {
            0 => program::<u8>(seed, |number| number as u8),
            1 => program::<u64>(seed, |number| number),
            _ => program::<[u16; 3]>(seed, |number| [number as u16, (number >> 16) as u16, (number >> 32) as u16]),
        }
    }
}
