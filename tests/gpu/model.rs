//! A back end whose devices are queues in memory. Their work is done late and in a random order, a
//! few steps at each call, as far as streams and marks allow.
//!
//! It checks the order twice. Work has its effects when it is done, so a value is wrong if
//! something came too early. And clocks tell whether two uses of a cell were ordered at all,
//! whatever order they were done in: each stream has a vector clock, which grows by what its marks
//! carry over.

use crate::common::Random;
use crate::model_memory::Allocations;
use seriatim::gpu::{
    Backend, Class, DeviceClock, DeviceGraphs, DeviceMemory, DriverError, Previous, RawMark, RawStream,
};
use std::cell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ptr::without_provenance_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

pub type Clock = Vec<u64>;

std::thread_local! {
    /// The device that the thread has entered, and one; 0 for none.
    static ENTERED: cell::Cell<usize> = const { cell::Cell::new(0) };
}

/// The device that is current on this thread.
pub fn entered() -> Option<usize> {
    ENTERED.get().checked_sub(1)
}

/// Makes a device current on this thread, or none.
pub fn stray(device: Option<usize>) {
    ENTERED.set(device.map_or(0, |device| device + 1));
}

fn join(into: &mut Clock, other: &[u64]) {
    into.resize(into.len().max(other.len()), 0);
    into.iter_mut().zip(other).for_each(|(own, other)| *own = (*own).max(*other));
}

fn at(clock: &[u64], stream: usize) -> u64 {
    clock.get(stream).copied().unwrap_or(0)
}

/// What a device does: it uses cells, and has an effect.
pub struct Work {
    reads: Vec<usize>,
    writes: Vec<usize>,
    effect: Box<dyn Fn() + Send + Sync>,
}

pub enum Item {
    /// One after the other, as one piece.
    Work(Arc<[Work]>),
    /// Remembers the clock, under this number.
    Record(u64),
    /// Notes the time as well.
    RecordTimed(u64),
    /// Waits for the recording of this number.
    Wait(u64),
}

pub struct Stream {
    pub device: usize,
    class: Class,
    pub items: VecDeque<(Clock, Item)>,
    clock: Clock,
    /// What was put there since a capture has begun.
    pub captured: Option<Vec<Work>>,
}

/// Who has used a cell: the stream and its own time.
#[derive(Default)]
struct Cell {
    write: Option<(usize, u64)>,
    reads: HashMap<usize, u64>,
}

pub struct World {
    random: Random,
    pub streams: Vec<Stream>,
    /// For each mark its latest recording; 0 for none.
    marks: Vec<u64>,
    /// The clocks of the recordings that the devices have come to.
    reached: HashMap<u64, Clock>,
    recordings: u64,
    /// The steps of all devices so far: their clock.
    ticks: u64,
    /// When the devices came to the recordings of timed marks, and which marks these are.
    noted: HashMap<u64, u64>,
    timed: HashSet<usize>,
    /// Whether there is a clock.
    pub has_clock: bool,
    pub host: Clock,
    cells: HashMap<usize, Cell>,
    pub races: Vec<String>,
    pub records: usize,
    pub timed_records: usize,
    pub waits: usize,
    /// The graphs that were captured; those that were given back are none.
    pub graphs: Vec<Option<Arc<[Work]>>>,
    pub launches: usize,
    /// Workers cannot enter a device.
    pub is_closed: bool,
    /// Work that was done, in order, by its stream.
    pub log: Vec<usize>,
    /// A device does nothing while it is held.
    pub held: Vec<bool>,
    /// Whether no device says how far it has come.
    pub mute: bool,
    /// Devices that fail at their next call.
    pub lost: Vec<bool>,
    /// The call, counted from now, that is refused; and how.
    pub refuses: Option<(usize, DriverError)>,
    /// The function whose calls are all refused.
    pub refused: Option<&'static str>,
    pub most_queued: usize,
    /// Whether streams of the program's are being captured.
    pub captured: bool,
    /// The processor's cores that are near the devices.
    pub near: Vec<usize>,
    streams_given_back: usize,
    marks_given_back: usize,
}

pub struct Model {
    world: Mutex<World>,
    devices: usize,
    steps: usize,
    pub allocations: Arc<Allocations>,
    /// Whether the back end has graphs.
    pub has_graphs: AtomicBool,
}

impl Model {
    /// `steps`: how many steps of the devices a call may take at most.
    pub fn new(devices: usize, seed: u64, steps: usize) -> Arc<Model> {
        Arc::new(Model {
            world: Mutex::new(World {
                random: Random(seed),
                streams: Vec::new(),
                marks: Vec::new(),
                reached: HashMap::new(),
                recordings: 0,
                ticks: 0,
                noted: HashMap::new(),
                timed: HashSet::new(),
                has_clock: true,
                host: Clock::new(),
                cells: HashMap::new(),
                races: Vec::new(),
                records: 0,
                timed_records: 0,
                waits: 0,
                graphs: Vec::new(),
                launches: 0,
                is_closed: false,
                log: Vec::new(),
                held: vec![false; devices],
                mute: false,
                lost: vec![false; devices],
                refuses: None,
                refused: None,
                most_queued: 0,
                captured: false,
                near: Vec::new(),
                streams_given_back: 0,
                marks_given_back: 0,
            }),
            devices,
            steps,
            allocations: Arc::default(),
            has_graphs: AtomicBool::new(true),
        })
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Queues work on a stream: it uses these cells, and has this effect when it is done.
    pub fn work(
        &self,
        stream: RawStream,
        reads: Vec<usize>,
        writes: Vec<usize>,
        effect: impl Fn() + Send + Sync + 'static,
    ) {
        let mut world = self.world();
        let number = number(stream.raw());
        let work = Work { reads, writes, effect: Box::new(effect) };
        match &mut world.streams[number].captured {
            Some(captured) => captured.push(work),
            None => world.queue(number, [work].into()),
        }
    }

    /// Holds a device, or lets it go.
    pub fn hold(&self, device: usize, held: bool) {
        self.world().held[device] = held;
    }

    pub fn class(&self, stream: RawStream) -> Class {
        self.world().streams[number(stream.raw())].class
    }

    /// Takes a step, and says whether a device has still something to do that it is not lost with.
    pub fn is_busy(&self) -> bool {
        let mut world = self.world();
        world.step();
        let World { streams, lost, .. } = &*world;
        streams.iter().any(|stream| !stream.items.is_empty() && !lost[stream.device])
    }

    /// Streams and marks that were made and not given back. Graphs are given back before.
    pub fn left(&self) -> (usize, usize) {
        let world = self.world();
        assert!(world.graphs.iter().all(Option::is_none), "graphs are left");
        (world.streams.len() - world.streams_given_back, world.marks.len() - world.marks_given_back)
    }

    /// Has the devices do all that is queued, a step at a time: in each step every stream does one
    /// piece of work, if it need not wait. Returns the number of steps, and lets the devices go.
    pub fn run_in_step(&self) -> usize {
        let mut world = self.world();
        world.held.iter_mut().for_each(|held| *held = false);
        let is_work =
            |world: &World, number: usize| matches!(world.streams[number].items.front(), Some((_, Item::Work(_))));
        for steps in 0.. {
            let count = world.streams.len();
            while let Some(number) = (0..count).find(|number| world.can_go_on(*number) && !is_work(&world, *number)) {
                world.next_of(number);
            }
            let able: Vec<usize> = (0..count).filter(|number| is_work(&world, *number)).collect();
            if able.is_empty() {
                return steps;
            }
            able.into_iter().for_each(|number| world.next_of(number));
        }
        unreachable!("the queues are finite")
    }

    /// As [`Model::call`], unless all calls of this function are refused.
    fn call_of(&self, function: &str) -> Result<MutexGuard<'_, World>, DriverError> {
        let is_refused = self.world().refused == Some(function);
        if is_refused {
            return Err(DriverError::refused(format!("no {function} today")));
        }
        self.call()
    }

    pub fn call(&self) -> Result<MutexGuard<'_, World>, DriverError> {
        let mut world = self.world();
        match &mut world.refuses {
            Some((0, fault)) => {
                let fault = fault.clone();
                world.refuses = None;
                return Err(fault);
            }
            Some((left, _)) => *left -= 1,
            None => {}
        }
        let steps = world.random.below(self.steps + 1);
        (0..steps).for_each(|_| world.step());
        Ok(world)
    }
}

/// Lets the devices go, so that the engine of a test that fails can end.
pub struct Release(pub Arc<Model>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.world().held.fill(false);
    }
}

pub fn number(raw: *mut std::ffi::c_void) -> usize {
    raw.addr() - 1
}

impl World {
    /// A call with a stream is made by a thread that has entered its device.
    fn is_entered(&mut self, stream: usize) {
        if ENTERED.get() != self.streams[stream].device + 1 {
            self.races.push(format!("a call with stream {stream} on a thread that has not entered its device"));
        }
    }

    /// Queues work on a stream, as one piece.
    pub fn queue(&mut self, number: usize, work: Arc<[Work]>) {
        let host = self.host.clone();
        self.streams[number].items.push_back((host, Item::Work(work)));
        let is_work = |(_, item): &&(Clock, Item)| matches!(item, Item::Work(_));
        let queued = self.streams[number].items.iter().filter(is_work).count();
        self.most_queued = self.most_queued.max(queued);
    }

    fn can_go_on(&self, number: usize) -> bool {
        let stream = &self.streams[number];
        match stream.items.front() {
            _ if self.held[stream.device] || self.lost[stream.device] => false,
            None => false,
            Some((_, Item::Wait(recording))) => self.reached.contains_key(recording),
            Some(_) => true,
        }
    }

    /// Notes races of the processor with what devices do to a cell that it uses now.
    pub fn host_uses(&mut self, cell: usize, changes: bool) {
        let Some(of) = self.cells.get(&cell) else { return };
        let reads = of.reads.iter().filter(|_| changes).map(|(stream, time)| (*stream, *time));
        if reads.chain(of.write).any(|(stream, time)| at(&self.host, stream) < time) {
            self.races.push(format!("the processor uses cell {cell} beside a device"));
        }
    }

    /// Does the next item of a stream that can go on.
    fn step(&mut self) {
        let able: Vec<usize> = (0..self.streams.len()).filter(|number| self.can_go_on(*number)).collect();
        if !able.is_empty() {
            let number = able[self.random.below(able.len())];
            self.next_of(number);
        }
    }

    /// Does the next item of a stream.
    fn next_of(&mut self, number: usize) {
        let Some((host, item)) = self.streams[number].items.pop_front() else { return };
        let mut clock = std::mem::take(&mut self.streams[number].clock);
        join(&mut clock, &host);
        self.ticks += 1;
        match item {
            Item::Wait(recording) => join(&mut clock, &self.reached[&recording]),
            Item::Record(recording) => _ = self.reached.insert(recording, clock.clone()),
            Item::RecordTimed(recording) => {
                self.reached.insert(recording, clock.clone());
                self.noted.insert(recording, self.ticks);
            }
            Item::Work(work) => {
                for Work { reads, writes, effect } in &*work {
                    self.does(number, &mut clock, (reads, writes));
                    effect();
                }
                self.log.push(number);
            }
        }
        self.streams[number].clock = clock;
    }

    /// Notes what a stream uses, and races of that.
    fn does(&mut self, number: usize, clock: &mut Clock, (reads, writes): (&[usize], &[usize])) {
        clock.resize(clock.len().max(number + 1), 0);
        clock[number] += 1;
        let now = clock[number];
        for cell in reads.iter().filter(|cell| !writes.contains(cell)) {
            let of = self.cells.entry(*cell).or_default();
            if of.write.is_some_and(|(stream, time)| at(clock, stream) < time) {
                self.races.push(format!("stream {number} reads cell {cell} beside a write"));
            }
            of.reads.insert(number, now);
        }
        for cell in writes {
            let of = self.cells.entry(*cell).or_default();
            let before = of.reads.iter().map(|(stream, time)| (*stream, *time)).chain(of.write);
            if before.into_iter().any(|(stream, time)| at(clock, stream) < time) {
                self.races.push(format!("stream {number} writes cell {cell} beside another use"));
            }
            *of = Cell { write: Some((number, now)), reads: HashMap::new() };
        }
    }
}

// SAFETY: each stream is a queue of its own, and marks are places in queues.
unsafe impl Backend for Model {
    fn name(&self) -> &str {
        "model"
    }

    fn devices(&self) -> Result<usize, DriverError> {
        Ok(self.devices)
    }

    fn enter(&self, device: usize) -> Result<Previous, DriverError> {
        if self.world().lost[device] {
            return Err(DriverError::lost("the model has lost it"));
        }
        // The threads of the engine are refused, and not those of the test.
        let is_of_engine = std::thread::current().name().is_some_and(|name| name.starts_with("seriatim-gpu"));
        if is_of_engine && self.world().is_closed {
            return Err(DriverError::refused("the model is closed"));
        }
        let previous = ENTERED.replace(device + 1);
        Ok(Previous::new(without_provenance_mut(previous)))
    }

    fn reenter(&self, device: usize) -> Result<(), DriverError> {
        ENTERED.set(device + 1);
        Ok(())
    }

    unsafe fn leave(&self, previous: Previous) {
        ENTERED.set(previous.raw().addr());
    }

    fn stream(&self, device: usize, class: Class) -> Result<RawStream, DriverError> {
        let mut world = self.call()?;
        world.streams.push(Stream { device, class, items: VecDeque::new(), clock: Clock::new(), captured: None });
        Ok(RawStream::new(without_provenance_mut(world.streams.len())))
    }

    fn mark(&self, _: usize) -> Result<RawMark, DriverError> {
        let mut world = self.call()?;
        world.marks.push(0);
        Ok(RawMark::new(without_provenance_mut(world.marks.len())))
    }

    unsafe fn record(&self, mark: RawMark, stream: RawStream) -> Result<(), DriverError> {
        let mut world = self.call_of("record")?;
        let (mark, stream) = (number(mark.raw()), number(stream.raw()));
        world.is_entered(stream);
        if world.lost[world.streams[stream].device] {
            return Err(DriverError::lost("the model has lost it"));
        }
        assert!(world.streams[stream].captured.is_none(), "a mark came into a capture");
        world.recordings += 1;
        let (recording, host) = (world.recordings, world.host.clone());
        world.marks[mark] = recording;
        let is_timed = world.timed.contains(&mark);
        *if is_timed { &mut world.timed_records } else { &mut world.records } += 1;
        let item = if is_timed { Item::RecordTimed(recording) } else { Item::Record(recording) };
        world.streams[stream].items.push_back((host, item));
        Ok(())
    }

    unsafe fn wait(&self, stream: RawStream, mark: RawMark) -> Result<(), DriverError> {
        let mut world = self.call_of("wait")?;
        let (mark, stream) = (number(mark.raw()), number(stream.raw()));
        world.is_entered(stream);
        world.waits += 1;
        let (recording, host) = (world.marks[mark], world.host.clone());
        assert!(recording > 0, "a stream waits for a mark that is nowhere");
        world.streams[stream].items.push_back((host, Item::Wait(recording)));
        Ok(())
    }

    unsafe fn reached(&self, mark: RawMark) -> Result<bool, DriverError> {
        let mut world = self.call()?;
        if world.lost.contains(&true) {
            return Err(DriverError::lost("the model has lost it"));
        }
        if world.mute {
            return Err(DriverError::refused("the model is mute"));
        }
        let recording = world.marks[number(mark.raw())];
        let Some(clock) = world.reached.get(&recording).cloned() else { return Ok(false) };
        join(&mut world.host, &clock);
        Ok(true)
    }

    unsafe fn finish(&self, stream: RawStream) -> Result<(), DriverError> {
        let stream = number(stream.raw());
        loop {
            let mut world = self.call()?;
            if world.lost[world.streams[stream].device] {
                return Err(DriverError::lost("the model has lost it"));
            }
            world.step();
            if world.streams[stream].items.is_empty() {
                let clock = world.streams[stream].clock.clone();
                join(&mut world.host, &clock);
                return Ok(());
            }
            drop(world);
            std::thread::yield_now();
        }
    }

    unsafe fn drop_stream(&self, stream: RawStream) {
        let mut world = self.world();
        let items = &world.streams[number(stream.raw())].items;
        let work = items.iter().any(|(_, item)| matches!(item, Item::Work { .. }));
        assert!(!work, "a stream is given back with work on it");
        world.streams_given_back += 1;
    }

    unsafe fn drop_mark(&self, _: RawMark) {
        self.world().marks_given_back += 1;
    }

    unsafe fn check_stream(&self, _: RawStream) -> Result<(), DriverError> {
        match self.call()?.captured {
            false => Ok(()),
            true => Err(DriverError::refused("the stream is being captured")),
        }
    }

    fn memory(&self) -> Option<&dyn DeviceMemory> {
        Some(self)
    }

    fn graphs(&self) -> Option<&dyn DeviceGraphs> {
        self.has_graphs.load(Ordering::Relaxed).then_some(self)
    }

    fn cores(&self, _: usize) -> Vec<usize> {
        self.world().near.clone()
    }

    fn clock(&self) -> Option<&dyn DeviceClock> {
        self.world().has_clock.then_some(self as &dyn DeviceClock)
    }
}

/// A step takes a microsecond.
// SAFETY: its marks are those of `mark`, which also note a time.
unsafe impl DeviceClock for Model {
    fn timed_mark(&self, device: usize) -> Result<RawMark, DriverError> {
        let mark = self.mark(device)?;
        self.world().timed.insert(number(mark.raw()));
        Ok(mark)
    }

    unsafe fn elapsed(&self, from: RawMark, to: RawMark) -> Result<i64, DriverError> {
        let world = self.call()?;
        let [from, to] = [from, to].map(|mark| {
            let recording = world.marks[number(mark.raw())];
            *world.noted.get(&recording).expect("a time is read where no device has come")
        });
        Ok(1000 * (to as i64 - from as i64))
    }
}
