//! Random programs over arrays that come and go: copies, kernels, operations of the processor, and
//! borrows outside, against a sequential run. Also with hardly enough memory: what is kept is freed
//! all the time.

use crate::common::{by_length, Random};
use crate::model::Model;
use crate::programs::Plan;
use seriatim::gpu::{DeviceData, DeviceHandle, PinnedData};
use seriatim::{Context, Engine, Error, ErrorKind, RunContext};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const ARRAYS: usize = 5;
/// The lengths of arrays: of one size class, so that memory goes from array to array; and of
/// several, of which memory has to be freed for others.
const ONE_CLASS: &[usize] = &[40];
const CLASSES: &[usize] = &[40, 100, 200];
/// Room for three of the longest on each device.
const HARDLY_ENOUGH: usize = 3 * 2048;

enum Array {
    Device(DeviceData<u64>, u32),
    Pinned(PinnedData<u64>, u32),
}

/// An array, and what a sequential run has there.
struct Place {
    array: Array,
    length: usize,
    expected: u64,
}

/// What an operation makes of a value.
fn stirred(id: u64, one: u64, other: u64) -> u64 {
    (one ^ other.rotate_left(9) ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}

struct Program {
    engine: Engine,
    model: Arc<Model>,
    devices: Vec<DeviceHandle>,
    random: Random,
    places: Vec<Place>,
    lengths: &'static [usize],
    seed: u64,
}

impl Program {
    fn new(seed: u64, memory: usize, lengths: &'static [usize]) -> Program {
        let mut random = Random(seed);
        let plan = Plan { memory, ..Plan::drawn(&mut random) };
        let model = Model::new(plan.devices, seed, plan.steps);
        let engine = plan.engine(&model);
        model.allocations.frees_wait.store(memory > 0, SeqCst);
        let device = |number| engine.device(Context::gpu(number as u32)).unwrap();
        let devices = (0..plan.devices).map(device).collect();
        let mut program = Program { engine, model, devices, random, places: Vec::new(), lengths, seed };
        for _ in 0..ARRAYS {
            let place = program.drawn();
            program.places.push(place);
        }
        program
    }

    /// A new array.
    fn drawn(&mut self) -> Place {
        let number = self.random.below(self.devices.len());
        let (device, value) = (&self.devices[number], 1 + self.random.below(1000) as u64);
        let length = self.lengths[self.random.below(self.lengths.len())];
        let values = vec![value; length];
        let number = number as u32;
        let kind = self.random.below(3);
        let on_device = || match kind {
            0 => DeviceData::zeros(device, length),
            _ => DeviceData::from_slice(device, &values),
        };
        let made = if kind == 2 { None } else { self.if_there_is_room(on_device) };
        let (array, expected) = match made {
            Some(array) => (Array::Device(array, number), if kind == 0 { 0 } else { value }),
            None => (Array::Pinned(PinnedData::from_slice(device, &values).unwrap(), number), value),
        };
        Place { array, length, expected }
    }

    /// Makes an array, unless those that there are have all the memory. Operations in flight have
    /// some as well.
    fn if_there_is_room<T>(&self, make: impl Fn() -> Result<T, Error>) -> Option<T> {
        for waits in [true, false] {
            match make() {
                Ok(made) => return Some(made),
                Err(error) if error.kind() == ErrorKind::OutOfMemory => {}
                Err(error) => self.fail(&error.to_string()),
            }
            if waits {
                self.engine.wait_for_all_timeout(LIMIT).unwrap_or_else(|error| self.fail(&error.to_string()));
            }
        }
        None
    }

    fn pair(&mut self) -> (usize, usize) {
        let from = self.random.below(ARRAYS);
        (from, (from + 1 + self.random.below(ARRAYS - 1)) % ARRAYS)
    }

    fn copy(&mut self) {
        let (from, to) = self.pair();
        if self.places[from].length != self.places[to].length {
            return;
        }
        let copied = match (&self.places[from].array, &self.places[to].array) {
            (Array::Device(from, _), Array::Device(to, _)) => self.engine.copy(from, to),
            (Array::Device(from, _), Array::Pinned(to, _)) => self.engine.copy(from, to),
            (Array::Pinned(from, _), Array::Device(to, _)) => self.engine.copy(from, to),
            (Array::Pinned(from, _), Array::Pinned(to, _)) => {
                let (source, target, model) = (from.clone(), to.clone(), Arc::clone(&self.model));
                let body = move |_: &RunContext<'_>| {
                    let (source, mut target) = (source.read()?, target.write()?);
                    model.host_uses(source.as_ptr().addr(), false);
                    model.host_uses(target.as_ptr().addr(), true);
                    target.copy_from_slice(&source);
                    Ok::<(), seriatim::Error>(())
                };
                self.engine.op("by hand").read(from).write(to).push(body)
            }
        };
        copied.unwrap();
        self.places[to].expected = self.places[from].expected;
    }

    /// A kernel over two arrays of one device, of which it reads one and changes one.
    fn kernel(&mut self, id: u64) {
        let (from, to) = self.pair();
        let Array::Device(target, device) = &self.places[to].array else { return };
        let length = target.len();
        if self.places[from].length != length {
            return;
        }
        let body = {
            let (target, model) = (target.clone(), Arc::clone(&self.model));
            let source: Box<dyn Fn(&RunContext<'_>) -> _ + Send> = match &self.places[from].array {
                Array::Device(_, other) if other != device => return,
                Array::Device(source, _) => {
                    let source = source.clone();
                    Box::new(move |run| source.read_on(run))
                }
                Array::Pinned(_, other) if other != device => return,
                Array::Pinned(source, _) => {
                    let source = source.clone();
                    Box::new(move |run| source.read_on(run))
                }
            };
            move |run: &RunContext<'_>| {
                let (from, to) = (source(run)?, target.write_on(run)?);
                let stream = run.stream().expect("it is on a device");
                let effect = move || {
                    let (from, to) = (from.raw().cast::<u64>(), to.raw().cast::<u64>());
                    for index in 0..length {
                        // SAFETY: the arrays have so many numbers, and are this operation's.
                        unsafe { *to.add(index) = stirred(id, *to.add(index), *from.add(index)) };
                    }
                };
                model
                    .queue(stream, &[from], &[to], effect)
                    .map_err(Into::<Box<dyn std::error::Error + Send + Sync>>::into)
            }
        };
        let operation = self.engine.op("kernel").context(Context::gpu(*device));
        let operation = match &self.places[from].array {
            Array::Device(source, _) => operation.read(source),
            Array::Pinned(source, _) => operation.read(source),
        };
        operation.write(target).push(body).unwrap();
        self.places[to].expected = stirred(id, self.places[to].expected, self.places[from].expected);
    }

    /// An operation of the processor over a pinned array.
    fn stir(&mut self, id: u64) {
        let place = self.random.below(ARRAYS);
        let Array::Pinned(array, _) = &self.places[place].array else { return };
        let (own, model) = (array.clone(), Arc::clone(&self.model));
        let body = move |_: &RunContext<'_>| {
            own.write().map(|mut values| {
                model.host_uses(values.as_ptr().addr(), true);
                values.iter_mut().for_each(|value| *value = stirred(id, *value, 1));
            })
        };
        self.engine.op("stir").write(array).push(body).unwrap();
        self.places[place].expected = stirred(id, self.places[place].expected, 1);
    }

    /// A borrow outside, after a wait for the last change.
    fn peek(&mut self) {
        let place = self.random.below(ARRAYS);
        let Array::Pinned(array, _) = &self.places[place].array else { return };
        let waited = self.engine.wait_for_var_timeout(array.variable(), LIMIT);
        waited.unwrap_or_else(|error| self.fail(&error.to_string()));
        let values = array.read().unwrap_or_else(|error| self.fail(&error.to_string()));
        self.model.host_uses(values.as_ptr().addr(), false);
        let wanted = self.places[place].expected;
        assert!(values.iter().all(|value| *value == wanted), "seed {}: an array after a wait", self.seed);
    }

    fn fail(&self, why: &str) -> ! {
        panic!("seed {}: {why}", self.seed)
    }

    /// Runs the program; says whether the watchers of its devices have freed anything.
    fn run(mut self, memory: usize) -> bool {
        for id in 0..150 {
            match self.random.below(12) {
                0..4 => self.copy(),
                4..7 => self.kernel(id),
                7..9 => self.stir(id),
                9 => self.peek(),
                _ => {
                    // The array is given back while what uses it is under way.
                    let (place, new) = (self.random.below(ARRAYS), self.drawn());
                    self.places[place] = new;
                }
            }
        }
        let seed = self.seed;
        let sound = self.engine.wait_for_all_timeout(LIMIT);
        sound.unwrap_or_else(|error| self.fail(&error.to_string()));
        for place in &self.places {
            let found = match &place.array {
                Array::Pinned(array, _) => array.read().unwrap().to_vec(),
                Array::Device(array, device) => {
                    let back = PinnedData::zeros(&self.devices[*device as usize], array.len()).unwrap();
                    self.engine.copy(array, &back).unwrap();
                    self.engine.wait_for_var_timeout(back.variable(), LIMIT).unwrap();
                    back.read().unwrap().to_vec()
                }
            };
            assert_eq!(found, vec![place.expected; place.length], "seed {seed}");
        }
        assert!(self.model.world().races.is_empty(), "seed {seed}: {:?}", self.model.world().races);
        let model = Arc::clone(&self.model);
        if memory > 0 {
            let most = memory * self.devices.len();
            assert!(model.allocations.peak.load(SeqCst) <= most, "seed {seed}: there was more than {most}");
        }
        let freed_by = model.allocations.freed_by.lock().unwrap().clone();
        drop(self);
        assert_eq!((model.allocations.left(), model.left()), (0, (0, 0)), "seed {seed}: something is left");
        freed_by.iter().any(|name| name.starts_with("seriatim-watch"))
    }
}

fn base() -> u64 {
    std::env::var("SERIATIM_GPU_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

#[test]
fn random_programs_over_arrays_do_what_a_sequential_run_does() {
    (0..by_length(60, 1000)).for_each(|number| _ = Program::new(base() + number, 0, ONE_CLASS).run(0));
}

#[test]
fn random_programs_with_hardly_enough_memory_do_what_a_sequential_run_does() {
    let count = by_length(60, 1000);
    let run = |number: &u64| Program::new(base() + number, HARDLY_ENOUGH, CLASSES).run(HARDLY_ENOUGH);
    let freed = (0..count).filter(run).count() as u64;
    // One in four is of the naive engine, which has no watchers.
    assert!(freed >= count / 3, "in {freed} of {count} programs arrays have waited for memory");
}
