//! What an engine knows of its devices: [`Gpus`], of each device [`Gpu`], and of each stream
//! [`DeviceStream`].
//!
//! The back end is asked for devices when a program first names one, and a device is made ready
//! when a program first names it (`admit.rs`). Then any thread reads it; what changes is atomic or
//! behind a lock. It is changed by these:
//!
//! - `fleet` and its devices: once, by the thread that names them first, under `making`;
//! - `forked`: by the child of a fork; `held`: by threads that drop graphs, and that stop or start
//!   the engine;
//! - a timeline: by the worker that owns it and by the watcher (`src/device/timeline.rs`); the
//!   names of its operations: by that worker. The thread that finds the device lost reads them;
//! - `turns`: by workers; `given`: by any thread that hands over an operation (`submit.rs`), and by
//!   the worker that comes to it; `waiting`: by the watcher only;
//! - `watcher`: by the watcher, and by any thread that parks an operation or wakes it (`sleep.rs`);
//!   `thread` and `stops`: by threads that start and end it (`watch.rs`);
//! - `handles_dropped`: by workers at their end (`entered.rs`), and on the naive engine by any
//!   thread at the end of an operation (`call.rs`);
//! - `lost`: once, by any thread (`loss.rs`);
//! - `rows`, `timing`, `buffers` and `spare_marks`: as `rows.rs`, `under_way.rs`, `buffers.rs` and
//!   `spare_marks.rs` say.
//!
//! The thread that drops the last reference to a [`Gpu`] gives its streams, marks and memory back.

use crate::device::backend::{Backend, Class};
use crate::device::raw::RawStream;
use crate::device::timeline::{DeviceTicket, Timeline};
use crate::device::Context;
use crate::engine::gpu::buffers::Buffers;
use crate::engine::gpu::rows::Rows;
use crate::engine::gpu::sleep::wake;
use crate::engine::gpu::spare_marks::SpareMarks;
use crate::engine::gpu::under_way::Timing;
use crate::error::Failure;
use crate::operation::completion::Due;
use crate::operation::property::Property;
use crate::sync::lock::Lock;
use crate::sync::thread::JoinHandle;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use crate::worker::group::Group;
use crate::worker::remote::Remote;
use std::fmt;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, OnceLock};

/// The compute streams of a worker. It also has one stream for urgent operations.
const COMPUTE: usize = 2;
/// The streams of a worker.
const OF_WORKER: usize = COMPUTE + 1;
/// The streams of the copy worker, one for each direction.
const COPIES: usize = 2;

/// What drives devices, if the program has given something.
#[derive(Clone, Default)]
pub struct GivenBackend(pub Option<Arc<dyn Backend>>);

// The builder only keeps it, and is never left half changed.
impl UnwindSafe for GivenBackend {}
impl RefUnwindSafe for GivenBackend {}

impl fmt::Debug for GivenBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GivenBackend").field(&self.0.as_ref().map(|backend| backend.name())).finish()
    }
}

/// The devices of an engine.
pub struct Gpus {
    pub given: GivenBackend,
    pub fleet: OnceLock<Fleet>,
    /// Held while the back end is asked, and while a device is made ready.
    pub making: Lock<()>,
    /// The process is the child of a fork, which no device survives.
    pub forked: AtomicBool,
    /// What devices may use until the engine has stopped; none once it has.
    pub held: Lock<Option<Vec<Box<dyn Send>>>>,
}

/// The devices that a back end has found.
pub struct Fleet {
    pub backend: Arc<dyn Backend>,
    pub gpus: Box<[OnceLock<Arc<Gpu>>]>,
    pub rows: Rows,
    /// How many timelines a device has.
    lines: usize,
}

/// A device that is ready for operations.
pub struct Gpu {
    pub number: usize,
    pub backend: Arc<dyn Backend>,
    /// Its timelines: those of each worker, then those of the copy worker. The naive engine has
    /// [`Gpu::stream`] instead.
    pub lines: Box<[DeviceStream]>,
    /// The stream of the naive engine.
    pub stream: Option<RawStream>,
    pub compute: Arc<Group>,
    pub copies: Arc<Group>,
    pub ahead: u64,
    /// How many operations took the next stream in turn, by class.
    pub turns: [AtomicUsize; Class::ALL.len()],
    /// What is parked, and the thread that looks after it.
    pub watcher: Remote,
    /// What the watcher's thread is called.
    pub watcher_name: String,
    pub thread: Lock<Option<JoinHandle<()>>>,
    pub stops: AtomicBool,
    /// How many operations the workers were given and have not come to: those for kernels, and the
    /// copy worker.
    pub given: [AtomicUsize; 2],
    /// How many operations wait for room on the streams, by class.
    pub waiting: [AtomicUsize; Class::ALL.len()],
    /// The memory that the engine has of the device.
    pub buffers: Buffers,
    /// Made when an operation is first profiled there.
    pub timing: OnceLock<Timing>,
    /// Marks for streams that are not the engine's.
    pub spare_marks: SpareMarks<Due>,
    /// How often a thread has dropped the handles of libraries that it had kept.
    pub handles_dropped: AtomicU64,
    /// Set once, when the device takes no more work.
    pub lost: OnceLock<Arc<Failure>>,
}

/// A timeline, and the names of what is queued there.
pub struct DeviceStream {
    pub timeline: Timeline,
    pub class: Class,
    /// By number, round and round: a name's address and, in the upper 16 bits, its length.
    names: Box<[AtomicU64]>,
    /// The last number that has a name: one above what is queued while a closure is called.
    noted: AtomicU64,
}

/// A timeline that the calling thread owns, until this is dropped.
pub struct OwnLine<'a> {
    line: &'a DeviceStream,
    /// Its index among those of its device.
    pub local: usize,
}

impl Deref for OwnLine<'_> {
    type Target = DeviceStream;

    fn deref(&self) -> &DeviceStream {
        self.line
    }
}

impl Drop for OwnLine<'_> {
    fn drop(&mut self) {
        self.line.timeline.disown();
    }
}

impl Gpus {
    pub fn new(given: GivenBackend) -> Gpus {
        let (making, forked) = (Lock::default(), AtomicBool::new(false));
        Gpus { given, fleet: OnceLock::new(), making, forked, held: Lock::new(Some(Vec::new())) }
    }

    /// Keeps something until the program has stopped the engine, which may wait for its devices
    /// now. If it has stopped already, the thing is dropped.
    pub fn hold(&self, thing: Box<dyn Send>) {
        let left = match &mut *self.held.lock() {
            Some(held) => {
                held.push(thing);
                None
            }
            None => Some(thing),
        };
        // Without the lock: it may call destructors of the program.
        drop(left);
    }

    /// Gives out what was kept: no device has anything to do. The caller drops it, without a lock:
    /// it may call destructors of the program.
    pub fn let_go(&self) -> Vec<Box<dyn Send>> {
        self.held.lock().take().unwrap_or_default()
    }

    /// Goes on after a stop.
    pub fn start(&self) {
        self.held.lock().get_or_insert_default();
    }

    /// The devices that have been used.
    pub fn used(&self) -> impl Iterator<Item = &Arc<Gpu>> {
        self.fleet.get().into_iter().flat_map(|fleet| fleet.gpus.iter().filter_map(OnceLock::get))
    }

    /// All groups of workers.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.used().flat_map(|gpu| [&*gpu.compute, &*gpu.copies])
    }

    /// How many operations are queued on each device, for the text of an error.
    pub fn report(&self) -> Option<String> {
        let of = |gpu: &Arc<Gpu>| {
            if gpu.lost.get().is_some() {
                return None;
            }
            let count: u64 = gpu.lines.iter().map(|line| line.timeline.under_way()).sum();
            (count > 0).then(|| format!("{count} queued on {}", Context::gpu(gpu.number as u32)))
        };
        let all: Vec<String> = self.used().filter_map(of).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

impl Fleet {
    pub fn new(backend: Arc<dyn Backend>, devices: usize, lines: usize) -> Fleet {
        Fleet {
            backend,
            gpus: (0..devices).map(|_| OnceLock::new()).collect(),
            rows: Rows::new(devices * lines),
            lines,
        }
    }

    /// The device of a ticket, and its timeline there.
    pub fn of(&self, ticket: DeviceTicket) -> (&Arc<Gpu>, usize) {
        let gpu = self.gpus[ticket.timeline() / self.lines].get().expect("it has given tickets");
        (gpu, ticket.timeline() % self.lines)
    }

    /// The ticket of a number on a timeline of a device.
    pub fn ticket(&self, gpu: &Gpu, local: usize, number: u64) -> DeviceTicket {
        DeviceTicket::new(gpu.number * self.lines + local, number)
    }

    /// Whether the device of a ticket has come there.
    pub fn is_reached(&self, ticket: DeviceTicket) -> bool {
        let (gpu, local) = self.of(ticket);
        gpu.lines[local].timeline.done() >= ticket.number()
    }
}

impl Gpu {
    pub fn context(&self) -> Context {
        Context::gpu(self.number as u32)
    }

    /// What an operation is to its device.
    pub fn class(property: Property, priority: i32) -> Class {
        match property {
            Property::CopyToGpu => Class::ToDevice,
            Property::CopyFromGpu => Class::FromDevice,
            Property::GpuPrioritized => Class::Urgent,
            _ if priority > 0 => Class::Urgent,
            _ => Class::Compute,
        }
    }

    /// How many timelines a device has with so many workers.
    pub const fn timelines(workers: usize) -> usize {
        workers * OF_WORKER + COPIES
    }

    /// The class of each timeline, in order.
    pub fn classes(workers: usize) -> impl Iterator<Item = Class> {
        let worker = [Class::Compute, Class::Compute, Class::Urgent];
        (0..workers).flat_map(move |_| worker).chain([Class::ToDevice, Class::FromDevice])
    }

    /// The workers that queue operations of a class.
    pub fn group(&self, class: Class) -> &Arc<Group> {
        match class {
            Class::Compute | Class::Urgent => &self.compute,
            Class::ToDevice | Class::FromDevice => &self.copies,
        }
    }

    /// The timelines of a class, by index.
    fn lines_of(&self, class: Class) -> impl Iterator<Item = usize> + Clone + '_ {
        (0..self.lines.len()).filter(move |local| self.lines[*local].class == class)
    }

    /// Makes the calling thread the owner of a timeline, if it has no owner and has room.
    pub fn own(&self, local: usize) -> Option<OwnLine<'_>> {
        let line = &self.lines[local];
        let own = (line.room(self.ahead) > 0 && line.timeline.own()).then(|| OwnLine { line, local });
        // Once more: the owner before may have queued something after the first look.
        own.filter(|own| own.room(self.ahead) > 0)
    }

    /// The number of the device's workers for kernels.
    pub fn workers(&self) -> usize {
        self.lines.len() / OF_WORKER
    }

    /// Makes the calling thread the owner of the next timeline of a class that has no owner and has
    /// room.
    pub fn own_next(&self, class: Class) -> Option<OwnLine<'_>> {
        let lines = self.lines_of(class);
        let count = lines.clone().count();
        // Relaxed: it only spreads the operations.
        let turn = self.turns[class as usize].fetch_add(1, Relaxed) % count;
        lines.cycle().skip(turn).take(count).find_map(|local| self.own(local))
    }

    /// How many operations the workers for a class were given and have not come to. Urgent ones and
    /// others are one number: an operation may become urgent while it waits.
    pub fn given(&self, class: Class) -> &AtomicUsize {
        match class {
            Class::Compute | Class::Urgent => &self.given[0],
            Class::ToDevice | Class::FromDevice => &self.given[1],
        }
    }

    /// How many more operations of a class can be given to workers, so that they find room on their
    /// streams.
    pub fn room(&self, class: Class) -> usize {
        let room: usize = self.lines_of(class).map(|local| self.lines[local].room(self.ahead)).sum();
        room.saturating_sub(self.given(class).load(Relaxed))
    }

    /// How many more operations of a class find room on streams that no worker owns at this moment.
    pub fn free_room(&self, class: Class) -> usize {
        let free = self.lines_of(class).filter(|local| !self.lines[*local].timeline.is_owned());
        let room: usize = free.map(|local| self.lines[local].room(self.ahead)).sum();
        room.saturating_sub(self.given(class).load(Relaxed))
    }

    /// Wakes the watcher if it sleeps. Called after something that it has to see.
    pub fn wake_watcher(&self) {
        wake(&self.watcher);
    }
}

impl DeviceStream {
    pub fn new(timeline: Timeline, class: Class, ahead: u64) -> DeviceStream {
        let names = (0..ahead).map(|_| AtomicU64::new(0)).collect();
        DeviceStream { timeline, class, names, noted: AtomicU64::new(0) }
    }

    /// How many more operations can be queued without being too far ahead.
    pub fn room(&self, ahead: u64) -> usize {
        ahead.saturating_sub(self.timeline.under_way()) as usize
    }

    /// Notes the name of the operation that is queued next. For the owner.
    pub fn note(&self, name: &'static str) {
        let (address, length) = (name.as_ptr().expose_provenance() as u64, name.len() as u64);
        // Names are of 65,535 bytes at most. An address that leaves no room is not kept.
        let word = if address >> 48 == 0 { length << 48 | address } else { 0 };
        let number = self.timeline.queued() + 1;
        self.names[(number % self.names.len() as u64) as usize].store(word, Relaxed);
        // Release: for `suspects`, which reads the name.
        self.noted.store(number, Release);
    }

    /// The names of the operations that are queued, or being called, and not known to be done,
    /// oldest first. The closure that is being called may have queued what has lost the device.
    pub fn suspects(&self) -> Vec<&'static str> {
        let (done, last) = (self.timeline.done(), self.noted.load(Acquire).max(self.timeline.queued()));
        let first = (done + 1).max(last.saturating_sub(self.names.len() as u64 - 1));
        let name = |number: u64| {
            let word = self.names[(number % self.names.len() as u64) as usize].load(Relaxed);
            let text = std::ptr::with_exposed_provenance::<u8>((word & ((1 << 48) - 1)) as usize);
            // SAFETY: `note` has stored address and length of a name, which is static, in one word.
            (word >> 48 != 0).then(|| unsafe { text_of(text, (word >> 48) as usize) })
        };
        (first..=last).filter_map(name).collect()
    }
}

/// # Safety
/// So many bytes from there on are a static text.
unsafe fn text_of(start: *const u8, length: usize) -> &'static str {
    // SAFETY: by the contract.
    unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(start, length)) }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if self.lost.get().is_some() {
            // The driver takes no more calls.
            return;
        }
        self.free_kept();
        // If the device cannot be entered, nothing of it can be given back.
        let _ = self.entered(|| {
            // SAFETY: the handles are this device's, and nobody uses them after the last owner.
            unsafe {
                self.lines.iter().for_each(|line| line.timeline.release(&*self.backend));
                self.timing.get().into_iter().for_each(|timing| timing.marks.release(&*self.backend));
                self.spare_marks.all().for_each(|mark| self.backend.drop_mark(mark));
                if let Some(stream) = self.stream {
                    // A wait for it may have been refused.
                    let _ = self.backend.finish(stream);
                    self.backend.drop_stream(stream);
                }
            }
            Ok(())
        });
    }
}
