//! Random programs over arrays that the engine allocates and copies: they come and go while kernels
//! use them, and processor work changes the pinned ones.

use crate::backend::{Bug, OpenCl};
use crate::common::{by_length, Random};
use crate::kernels::{blend, blend_alone, Factors, Values, WORDS};
use crate::programs::{engine, first_seed};
use seriatim::gpu::{DeviceData, DeviceHandle, PinnedData};
use seriatim::{Context, Engine, Error, RunContext};
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const ARRAYS: usize = 5;
const STEPS: usize = 150;

enum Array {
    Device(DeviceData<u32>),
    Pinned(PinnedData<u32>),
}

/// An array, its device, and what a sequential run has there.
struct Place {
    array: Array,
    device: usize,
    expected: Values,
}

struct Program {
    opencl: Arc<OpenCl>,
    engine: Engine,
    devices: Vec<DeviceHandle>,
    random: Random,
    places: Vec<Place>,
}

impl Program {
    fn new(seed: u64, bug: Bug) -> Option<Program> {
        let opencl = OpenCl::new(bug, seed % 2 == 0)?;
        let mut random = Random(seed);
        let engine = engine(&mut random, &opencl);
        let device = |number| engine.device(Context::gpu(number as u32)).expect("there is a device");
        let devices = (0..opencl.driver.library.devices.len()).map(device).collect();
        let mut program = Program { opencl, engine, devices, random, places: Vec::new() };
        program.places = (0..ARRAYS).map(|_| program.drawn()).collect();
        Some(program)
    }

    /// A new array.
    fn drawn(&mut self) -> Place {
        let device = self.random.below(self.devices.len());
        let (on, values) = (&self.devices[device], [self.random.next() as u32; WORDS]);
        let (array, expected) = match self.random.below(3) {
            0 => (DeviceData::zeros(on, WORDS).map(Array::Device), [0; WORDS]),
            1 => (DeviceData::from_slice(on, &values).map(Array::Device), values),
            _ => (PinnedData::from_slice(on, &values).map(Array::Pinned), values),
        };
        Place { array: array.expect("there is memory"), device, expected }
    }

    fn factors(&mut self) -> (Factors, u32) {
        let factors = [self.random.next() as u32 | 1, self.random.next() as u32 | 1, self.random.next() as u32];
        (factors, self.random.pick(&[1, 30, 1000]))
    }

    fn copy(&mut self, from: usize, to: usize) -> Result<(), Error> {
        match (&self.places[from].array, &self.places[to].array) {
            (Array::Device(from), Array::Device(to)) => self.engine.copy(from, to)?,
            (Array::Device(from), Array::Pinned(to)) => self.engine.copy(from, to)?,
            (Array::Pinned(from), Array::Device(to)) => self.engine.copy(from, to)?,
            // The processor's.
            (Array::Pinned(_), Array::Pinned(_)) => return Ok(()),
        }
        self.places[to].expected = self.places[from].expected;
        Ok(())
    }

    /// A kernel over two arrays of one device.
    fn blend(&mut self, from: usize, to: usize) -> Result<(), Error> {
        let (factors, rounds) = self.factors();
        let (Array::Device(x), Array::Device(y)) = (&self.places[from].array, &self.places[to].array) else {
            return Ok(());
        };
        if self.places[from].device != self.places[to].device {
            return Ok(());
        }
        let (own_x, own_y, opencl) = (x.clone(), y.clone(), Arc::clone(&self.opencl));
        let body = move |run: &RunContext<'_>| {
            let (x, y) = (own_x.read_on(run)?, own_y.write_on(run)?);
            let stream = run.stream().expect("it is on a device");
            opencl.blend_memory(stream, [y, x], factors, rounds)?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        };
        let context = Context::gpu(self.places[to].device as u32);
        self.engine.op("blend").context(context).read(x).write(y).push(body)?;
        let x = self.places[from].expected;
        blend(&mut self.places[to].expected, &x, factors, rounds);
        Ok(())
    }

    /// An operation of the processor over a pinned array.
    fn stir(&mut self, at: usize) -> Result<(), Error> {
        let (factors, rounds) = self.factors();
        let Array::Pinned(array) = &self.places[at].array else { return Ok(()) };
        let own = array.clone();
        let body = move |_: &RunContext<'_>| {
            let mut values = own.write()?;
            let values: &mut Values = (&mut values[..]).try_into().expect("it has so many");
            blend_alone(values, factors, rounds);
            Ok::<_, Error>(())
        };
        self.engine.op("stir").write(array).push(body)?;
        blend_alone(&mut self.places[at].expected, factors, rounds);
        Ok(())
    }

    /// The values of an array, after a wait for its last change.
    fn values(&self, at: usize) -> Result<Vec<u32>, Error> {
        let copied;
        let array = match &self.places[at].array {
            Array::Pinned(array) => array,
            Array::Device(array) => {
                copied = PinnedData::zeros(&self.devices[self.places[at].device], WORDS)?;
                self.engine.copy(array, &copied)?;
                &copied
            }
        };
        self.engine.wait_for_var_timeout(array.variable(), LIMIT)?;
        let values = array.read()?;
        Ok(values.to_vec())
    }

    fn check(&self, at: usize) -> Result<(), String> {
        match self.values(at).map_err(|error| error.to_string())? == self.places[at].expected {
            true => Ok(()),
            false => Err(format!("array {at} has a wrong value")),
        }
    }

    fn run(&mut self) -> Result<(), String> {
        for _ in 0..STEPS {
            let (at, step) = (self.random.below(ARRAYS), 1 + self.random.below(ARRAYS - 1));
            let to = (at + step) % ARRAYS;
            let pushed = match self.random.below(20) {
                0..=5 => self.copy(at, to),
                6..=13 => self.blend(at, to),
                14..=16 => self.stir(at),
                17 => {
                    self.check(at)?;
                    Ok(())
                }
                _ => {
                    // The array is given back while what uses it is under way.
                    self.places[at] = self.drawn();
                    Ok(())
                }
            };
            pushed.map_err(|error| error.to_string())?;
        }
        (0..ARRAYS).try_for_each(|at| self.check(at))
    }
}

fn run(seed: u64, bug: Bug) -> Result<(), String> {
    let Some(mut program) = Program::new(seed, bug) else { return Ok(()) };
    program.run()?;
    let opencl = Arc::clone(&program.opencl);
    drop(program);
    match (opencl.left(), opencl.memory_left()) {
        ((0, 0), 0) => Ok(()),
        left => Err(format!("streams, marks and memory are left: {left:?}")),
    }
}

#[test]
fn random_programs_over_arrays_do_what_a_sequential_run_does() {
    for seed in first_seed()..first_seed() + by_length(40, 400) {
        run(seed, Bug::Nothing).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn a_back_end_that_does_not_wait_is_found_out_by_arrays() {
    if OpenCl::new(Bug::NoWait, false).is_some() {
        let is_wrong = |seed: &u64| run(*seed, Bug::NoWait).err().is_some_and(|error| error.contains("wrong value"));
        println!("found by program {:?}", (1..=300).find(is_wrong).expect("it is found"));
    }
}
