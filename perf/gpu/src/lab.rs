//! What the rows of the table are made with: an engine, bare streams, and numbers on the device
//! whose values are known beforehand.

use crate::device::{Device, Which};
use crate::driver::{Driver, Event, Stream};
use crate::mix::{mixed, Mix, Mixture};
use crate::rival::Rival;
use seriatim::gpu::{DeviceData, DeviceHandle, PinnedData, RawMemory};
use seriatim::{Context, Engine, Error, Property};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// Who measures.
pub struct Lab {
    pub device: Device,
    pub driver: Arc<Driver>,
    pub engine: Engine,
    pub pusher: Pusher,
    pub gpu: DeviceHandle,
    /// As few operations as show that the code works.
    pub quick: bool,
    pub rival: Option<RefCell<Rival>>,
    word: *mut u64,
    stream: Stream,
}

/// What pushes kernels, on any thread.
#[derive(Clone)]
pub struct Pusher {
    engine: Engine,
    mix: Arc<dyn Mix>,
}

/// A number on the device that the engine orders, and what it should be when all is done.
pub struct Word {
    pub data: DeviceData<u64>,
    expected: AtomicU64,
}

/// A number on the device that bare calls use, and what it should be.
pub struct BareWord {
    at: RawMemory,
    expected: AtomicU64,
}

pub fn say(error: Error) -> String {
    error.to_string()
}

impl Lab {
    /// # Errors
    /// What is missing.
    pub fn new(device: Device, quick: bool, rival: Option<Rival>) -> Result<Lab, String> {
        let engine = device.engine().build().map_err(say)?;
        Lab::over(device, engine, quick, rival)
    }

    /// One with an engine of the caller's own, over the device.
    ///
    /// # Errors
    /// As for [`Lab::new`].
    pub fn over(device: Device, engine: Engine, quick: bool, rival: Option<Rival>) -> Result<Lab, String> {
        let driver = device.driver.clone().ok_or("bare calls need a driver")?;
        let gpu = engine.device(Context::gpu(0)).map_err(say)?;
        let (word, stream) = (driver.allocate_pinned(8)?.cast(), driver.stream()?);
        let pusher = Pusher { engine: engine.clone(), mix: Arc::clone(&device.mix) };
        Ok(Lab { device, driver, engine, pusher, gpu, quick, rival: rival.map(RefCell::new), word, stream })
    }

    /// Whether times mean nothing.
    pub fn has_no_time(&self) -> bool {
        self.device.which == Which::Standin
    }

    /// `many`, or a few in a quick run.
    pub fn count(&self, many: usize) -> usize {
        if self.quick {
            many.min(24)
        } else {
            many
        }
    }

    /// A number that begins with 0.
    ///
    /// # Errors
    /// If there is no memory; likewise below.
    pub fn word(&self) -> Result<Word, String> {
        let data = DeviceData::zeros(&self.gpu, 1).map_err(say)?;
        Ok(Word { data, expected: AtomicU64::new(0) })
    }

    pub fn words(&self, count: usize) -> Result<Vec<Word>, String> {
        (0..count).map(|_| self.word()).collect()
    }

    pub fn bare_word(&self) -> Result<BareWord, String> {
        let at = self.driver.allocate(8)?;
        // SAFETY: it has eight bytes, and nobody knows it yet.
        unsafe { self.driver.zero(self.stream, at, 8) }?;
        self.driver.synchronize(self.stream)?;
        Ok(BareWord { at, expected: AtomicU64::new(0) })
    }

    pub fn bare_words(&self, count: usize) -> Result<Vec<BareWord>, String> {
        (0..count).map(|_| self.bare_word()).collect()
    }

    pub fn streams(&self, count: usize) -> Result<Vec<Stream>, String> {
        (0..count).map(|_| self.driver.stream()).collect()
    }

    pub fn events(&self, count: usize) -> Result<Vec<Event>, String> {
        (0..count).map(|_| self.driver.event()).collect()
    }

    /// Pushes a kernel: [`Pusher::push`].
    pub fn push(&self, out: &Word, from: &[&Word], id: u64, spin: u64) -> Result<(), String> {
        self.pusher.push(Property::Normal, out, from, id, spin)
    }

    /// Launches the same kernel by a bare call.
    ///
    /// # Errors
    /// What the driver says; likewise below.
    pub fn launch(&self, stream: Stream, out: &BareWord, from: &[&BareWord], id: u64, spin: u64) -> Result<(), String> {
        out.mixes(from.iter().map(|word| &word.expected), id, spin);
        let from = std::array::from_fn(|at| from.get(at).map(|word| word.at));
        // SAFETY: the words are this lab's, and live as long as the process.
        unsafe { self.driver.mix(0, stream.raw(), &Mixture { out: out.at, from, id, spin, count: 1 }) }
    }

    /// Waits for an event as an engine's waiter does: by asking until it is there.
    pub fn spin_until(&self, event: Event) -> Result<(), String> {
        while !self.driver.reached(event)? {
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Waits for all, and checks that the numbers are what a sequential run makes of them.
    ///
    /// # Errors
    /// Which is wrong.
    pub fn settle<'a>(&self, words: impl IntoIterator<Item = &'a Word>) -> Result<(), String> {
        self.engine.wait_for_all().map_err(say)?;
        let back = PinnedData::<u64>::zeros(&self.gpu, 1).map_err(say)?;
        for word in words {
            self.engine.copy(&word.data, &back).map_err(say)?;
            self.engine.wait_for_var(back.variable()).map_err(say)?;
            same("the engine", back.read().map_err(say)?[0], &word.expected)?;
        }
        Ok(())
    }

    /// As [`Lab::settle`], for bare numbers whose streams are done.
    ///
    /// # Errors
    /// Which is wrong.
    pub fn settle_bare<'a>(&self, words: impl IntoIterator<Item = &'a BareWord>) -> Result<(), String> {
        for word in words {
            // SAFETY: the place is pinned, this lab's, and of eight bytes.
            unsafe { self.driver.copy_out(self.stream, word.at, self.word.cast(), 8) }?;
            self.driver.synchronize(self.stream)?;
            // SAFETY: as above; the copy is done.
            same("the bare calls", unsafe { *self.word }, &word.expected)?;
        }
        Ok(())
    }
}

impl Pusher {
    /// Pushes a kernel that mixes up to three numbers into one.
    ///
    /// # Errors
    /// If the engine does not take it.
    pub fn push(&self, property: Property, out: &Word, from: &[&Word], id: u64, spin: u64) -> Result<(), String> {
        out.mixes(from.iter().map(|word| &word.expected), id, spin);
        let (mix, to) = (Arc::clone(&self.mix), out.data.clone());
        let read: [Option<DeviceData<u64>>; 3] = std::array::from_fn(|at| from.get(at).map(|word| word.data.clone()));
        let operation = self.engine.op("mix").context(Context::gpu(0)).property(property);
        let operation = operation.reads(from.iter().map(|word| &word.data)).write(&out.data);
        let pushed = operation.push(move |run| {
            let stream = run.stream().ok_or("this operation has no stream")?;
            let mut lent = [None; 3];
            for (place, array) in lent.iter_mut().zip(&read) {
                *place = array.as_ref().map(|array| array.read_on(run)).transpose().map_err(say)?;
            }
            let out = to.write_on(run).map_err(say)?;
            // SAFETY: the operation has declared the numbers, of its own device.
            unsafe { mix.mix(0, stream, &Mixture { out, from: lent, id, spin, count: 1 }) }
        });
        pushed.map_err(say)
    }
}

impl Pusher {
    /// Pushes a kernel that reads a number and touches nothing.
    ///
    /// # Errors
    /// If the engine does not take it.
    pub fn push_reader(&self, word: &Word) -> Result<(), String> {
        let (mix, array) = (Arc::clone(&self.mix), word.data.clone());
        let operation = self.engine.op("reader").context(Context::gpu(0)).read(&word.data);
        let pushed = operation.push(move |run| {
            let stream = run.stream().ok_or("this operation has no stream")?;
            let out = array.read_on(run).map_err(say)?;
            // SAFETY: none of its numbers is touched.
            unsafe { mix.mix(0, stream, &Mixture { out, from: [None; 3], id: 0, spin: 0, count: 0 }) }
        });
        pushed.map_err(say)
    }
}

/// # Errors
/// If they are not the same.
fn same(whose: &str, found: u64, expected: &AtomicU64) -> Result<(), String> {
    match expected.load(Relaxed) {
        expected if expected == found => Ok(()),
        expected => Err(format!("{whose} left {found:#x} where {expected:#x} should be")),
    }
}

/// What an operation makes of the expected numbers, in the order of the calls.
fn mixes<'a>(out: &AtomicU64, from: impl Iterator<Item = &'a AtomicU64>, id: u64, spin: u64) {
    let mut values = [0; 3];
    values.iter_mut().zip(from).for_each(|(value, from)| *value = from.load(Relaxed));
    out.store(mixed(out.load(Relaxed), values, id, spin), Relaxed);
}

impl Word {
    /// Notes what a kernel will do that a graph launches.
    pub fn note(&self, id: u64) {
        self.mixes(std::iter::empty(), id, 0);
    }

    fn mixes<'a>(&self, from: impl Iterator<Item = &'a AtomicU64>, id: u64, spin: u64) {
        mixes(&self.expected, from, id, spin);
    }
}

impl BareWord {
    /// Notes what a kernel will do that a graph launches.
    pub fn note(&self, id: u64) {
        self.mixes(std::iter::empty(), id, 0);
    }

    /// Forgets what launches were expected to do that were captured, and have not run.
    pub fn forget(&self) {
        self.expected.store(0, Relaxed);
    }

    fn mixes<'a>(&self, from: impl Iterator<Item = &'a AtomicU64>, id: u64, spin: u64) {
        mixes(&self.expected, from, id, spin);
    }
}
