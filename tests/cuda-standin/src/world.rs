//! The state of the stand-in: devices, streams, events, memory, and what tests have asked for.

#![forbid(unsafe_code)]

use crate::clocks::{Clock, History, Who};
use crate::planted::{Pauses, Planted};
use crate::random::Random;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Addresses of device memory have this bit, so that host code that follows one faults at once.
pub const DEVICE: u64 = 1 << 62;

pub mod code {
    pub const INVALID_VALUE: i32 = 1;
    pub const NO_DEVICE: i32 = 100;
    pub const INVALID_DEVICE: i32 = 101;
    pub const INVALID_CONTEXT: i32 = 201;
    pub const INVALID_HANDLE: i32 = 400;
    pub const ILLEGAL_STATE: i32 = 401;
    pub const NOT_FOUND: i32 = 500;
    pub const NOT_READY: i32 = 600;
    pub const ILLEGAL_ADDRESS: i32 = 700;
    pub const NOT_PERMITTED: i32 = 800;
    pub const CAPTURE_UNSUPPORTED: i32 = 900;
    pub const CAPTURE_ISOLATION: i32 = 905;
    pub const CAPTURED_EVENT: i32 = 907;
    pub const TIMEOUT: i32 = 909;
    pub const UPDATE_FAILURE: i32 = 910;
}

/// A function of a test that is run in the order of a stream: returns 0, or the error by which the
/// device is lost.
pub type Body = unsafe extern "C" fn(usize) -> i32;
/// A kernel of a test: its own word, the arguments, the grid and the block.
pub type Kernel = unsafe extern "C" fn(usize, *const *const u8, *const u32, *const u32) -> i32;
/// A host function.
pub type HostFn = unsafe extern "C" fn(*mut std::ffi::c_void);

#[derive(Clone)]
pub struct KernelSpec {
    pub run: Kernel,
    pub word: usize,
    pub sizes: Vec<usize>,
}

#[derive(Clone)]
pub enum Command {
    Access { cell: u64, write: bool, label: u64 },
    Body { run: Body, word: usize },
    Kernel { name: String, arguments: Vec<Vec<u8>>, grid: [u32; 3], block: [u32; 3] },
    Copy { from: u64, to: u64, bytes: usize, staged: Option<Vec<u8>> },
    Set { to: u64, value: u8, bytes: usize },
    Free { base: u64 },
    Host { run: HostFn, word: usize },
    Record { recording: u64 },
    Wait { recording: u64 },
}

#[derive(Default)]
pub struct Device {
    /// How often its primary context is retained.
    pub retained: usize,
    /// The error by which it is lost, or 0.
    pub lost: i32,
    pub address: String,
}

pub struct Stream {
    pub device: usize,
    /// Its place in clocks.
    pub index: usize,
    pub priority: i32,
    pub flags: u32,
    /// Commands, each with what the host knew when it was queued.
    pub queue: VecDeque<(Command, Arc<Clock>)>,
    pub clock: Clock,
    pub running: bool,
    pub capture: Option<usize>,
    /// How many commands it may run, where a test steps by hand.
    pub allowance: usize,
}

pub struct Event {
    pub device: usize,
    pub flags: u32,
    /// Where it was recorded last.
    pub recording: Option<u64>,
    pub capture: Option<usize>,
}

/// One recording of an event. Waits keep the one that they were queued with.
#[derive(Default)]
pub struct Recording {
    pub reached: bool,
    /// How many commands had run when it was.
    pub at: u64,
    pub clock: Clock,
    /// The event, and commands that are queued.
    pub users: usize,
}

pub struct Memory {
    pub bytes: usize,
    pub device: bool,
    pub freed: bool,
    pub history: History,
}

/// A call that fails because a test wants it to.
pub struct Failing {
    pub function: String,
    pub nth: u64,
    pub error: i32,
    pub sticky: bool,
}

pub struct World {
    pub version: i32,
    pub devices: Vec<Device>,
    pub streams: BTreeMap<usize, Stream>,
    pub events: BTreeMap<usize, Event>,
    pub recordings: BTreeMap<u64, Recording>,
    pub memory: BTreeMap<u64, Memory>,
    pub cells: BTreeMap<u64, History>,
    pub kernels: BTreeMap<String, KernelSpec>,
    pub functions: BTreeMap<usize, String>,
    pub graphs: BTreeMap<usize, Vec<Command>>,
    pub host: Arc<Clock>,
    next: usize,
    indices: usize,
    random: Random,
    /// How eager streams are: of 256 calls so many run a command more. 0: a test steps by hand.
    pub pace: u64,
    /// So many commands at a time, and as many times more seldom.
    pub burst: u64,
    pub failing: Vec<Failing>,
    pub planted: Planted,
    pub pauses: Pauses,
    pub calls: BTreeMap<&'static str, u64>,
    pub all_calls: u64,
    pub reports: Vec<String>,
    /// A sum over the commands that were run, in their order.
    pub trace: u64,
    /// How many commands have run: the clock of all devices, in microseconds.
    pub clock: u64,
}

impl Default for World {
    fn default() -> World {
        World {
            version: 13_000,
            devices: vec![Device::numbered(0)],
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            recordings: BTreeMap::new(),
            memory: BTreeMap::new(),
            cells: BTreeMap::new(),
            kernels: BTreeMap::new(),
            functions: BTreeMap::new(),
            graphs: BTreeMap::new(),
            host: Arc::default(),
            next: 0x1000,
            indices: 0,
            random: Random(1),
            pace: 128,
            burst: 1,
            failing: Vec::new(),
            planted: Planted::default(),
            pauses: Pauses::default(),
            calls: BTreeMap::new(),
            all_calls: 0,
            reports: Vec::new(),
            trace: 0,
            clock: 0,
        }
    }
}

impl Device {
    pub fn numbered(number: usize) -> Device {
        Device { retained: 0, lost: 0, address: format!("0000:{:02X}:00.0", 0xA0 + number) }
    }
}

impl World {
    /// Forgets everything; handles of before stay invalid.
    pub fn reset(&mut self, seed: u64, pace: u64) {
        let next = self.next;
        *self = World { next, pace, random: Random(seed), ..World::default() };
    }

    pub fn handle(&mut self) -> usize {
        self.next += 16;
        self.next
    }

    /// The next place in clocks.
    pub fn index(&mut self) -> usize {
        self.indices += 1;
        self.indices
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    pub fn report(&mut self, text: String) {
        self.reports.push(text);
    }

    /// The host has learnt of something.
    pub fn host_learns(&mut self, clock: &Clock) {
        Arc::make_mut(&mut self.host).join(clock);
    }

    /// A device is lost, by the first error that says so.
    pub fn lose(&mut self, device: usize, error: i32) {
        if let Some(device) = self.devices.get_mut(device).filter(|device| device.lost == 0) {
            device.lost = error;
        }
    }

    /// Queues a command on a stream, or puts it into the graph that is captured there.
    pub fn push(&mut self, stream: usize, command: Command) -> Result<(), i32> {
        let host = Arc::clone(&self.host);
        let place = self.stream(stream)?;
        match place.capture {
            None => place.queue.push_back((command, host)),
            Some(graph) => self.graphs.entry(graph).or_default().push(command),
        }
        Ok(())
    }

    /// A stream by its handle.
    ///
    /// # Errors
    /// If it is none, or its device is lost.
    pub fn stream(&mut self, handle: usize) -> Result<&mut Stream, i32> {
        let lost = self.streams.get(&handle).map(|stream| self.devices[stream.device].lost);
        match lost {
            None => {
                let what = if handle == 0 { "the default stream" } else { "a stream that is gone, or never was," };
                self.report(format!("{what} was used"));
                Err(code::INVALID_HANDLE)
            }
            Some(0) => Ok(self.streams.get_mut(&handle).expect("it was there")),
            Some(lost) => Err(lost),
        }
    }

    /// An event by its handle.
    ///
    /// # Errors
    /// If it is none, or its device is lost.
    pub fn event(&mut self, handle: usize) -> Result<&mut Event, i32> {
        let lost = self.events.get(&handle).map(|event| self.devices[event.device].lost);
        match lost {
            None => {
                self.report("an event that is gone, or never was, was used".to_owned());
                Err(code::INVALID_HANDLE)
            }
            Some(0) => Ok(self.events.get_mut(&handle).expect("it was there")),
            Some(lost) => Err(lost),
        }
    }

    /// One more that needs the recording, or one less.
    pub fn uses(&mut self, recording: u64, more: bool) {
        let place = self.recordings.get_mut(&recording).expect("somebody uses it");
        place.users = if more { place.users + 1 } else { place.users - 1 };
        if place.users == 0 {
            self.recordings.remove(&recording);
        }
    }

    pub fn is_idle(&self, stream: usize) -> bool {
        self.streams.get(&stream).is_none_or(|stream| stream.queue.is_empty() && !stream.running)
    }

    /// Notes an access to a cell.
    pub fn touch_cell(&mut self, cell: u64, write: bool, who: Who, clock: &Clock) {
        let found = self.cells.entry(cell).or_default().access((0, 1), write, who, clock);
        if let Some(found) = found {
            self.report(format!("cell {cell}: {found}"));
        }
    }

    /// Notes an access to memory. An access to what has been freed, or beyond the end, is reported
    /// as well, and answered with the error by which the device is lost.
    pub fn touch_memory(&mut self, at: u64, bytes: usize, write: bool, who: Who, clock: &Clock) -> Result<(), i32> {
        let real = at & !DEVICE;
        let is_device = at & DEVICE != 0;
        let end = real + bytes as u64;
        let Some((&base, memory)) = self.memory.range_mut(..=real).next_back() else {
            return if is_device { Err(code::ILLEGAL_ADDRESS) } else { Ok(()) };
        };
        let inside = end <= base + memory.bytes as u64;
        if !inside && !is_device {
            return Ok(()); // Memory of the host that is not ours.
        }
        let freed = memory.freed;
        let found = memory.history.access((real, end), write, who, clock);
        if !inside || freed {
            let how = if inside { "after its free" } else { "beyond its end" };
            self.report(format!("memory is used {how}, by '{}'", who.label));
            return Err(code::ILLEGAL_ADDRESS);
        }
        if let Some(found) = found {
            self.report(format!("memory: {found}"));
        }
        Ok(())
    }
}
