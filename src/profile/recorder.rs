//! The recorder: a lock-free, append-only list of events that any thread adds to.

use crate::device::Context;
use crate::operation::block::Block;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::*, MODELLED};
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::time::Instant;

/// Events of a chunk, and the most chunks: a million events of about 100 bytes.
const CHUNK: usize = 4096;
const CHUNKS: usize = if MODELLED { 1 } else { 256 };

/// One operation, as it was recorded. Times are in nanoseconds since the engine was made.
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// engine.start_profiling();
/// engine.op("work").push(|_| ())?;
/// engine.wait_for_all()?;
/// let event = engine.profile().events()[0];
/// assert!(event.push <= event.ready && event.ready <= event.start && event.start <= event.end);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Event {
    /// The operation's name.
    pub name: &'static str,
    /// What kind of work it is.
    pub property: Property,
    /// Where it was to run.
    pub context: Context,
    /// The worker's number, or `None` for a thread that is not the engine's.
    pub worker: Option<usize>,
    /// The thread that ended it: a number of its own for each thread of the process.
    pub thread: u32,
    /// That thread's name.
    pub thread_name: &'static str,
    /// When it was pushed.
    pub push: u64,
    /// When nothing held it up any more.
    pub ready: u64,
    /// When it started to run.
    pub start: u64,
    /// When it ended.
    pub end: u64,
}

impl Event {
    /// The event of an operation that ends now, and was ready when it started. The recorder sets its end.
    pub fn new(
        name: &'static str,
        property: Property,
        context: Context,
        worker: Option<usize>,
        push: u64,
        start: u64,
    ) -> Event {
        let (thread, thread_name) = this_thread();
        Event { name, property, context, worker, thread, thread_name, push, ready: start, start, end: start }
    }

    /// As [`Event::new`], with the time at which it became ready.
    ///
    /// # Safety
    /// The operation is ours.
    pub unsafe fn of(block: *mut Block, started: u64, worker: Option<usize>) -> Event {
        // SAFETY: ours.
        unsafe {
            let (property, context, times) = (Block::property(block), Block::context(block), *Block::times(block));
            let event = Event::new(Block::name(block), property, context, worker, times.push, started);
            Event { ready: times.ready, ..event }
        }
    }
}

/// A number and a name for the calling thread.
fn this_thread() -> (u32, &'static str) {
    static THREADS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
    thread_local! {
        static THIS: Cell<Option<(u32, &'static str)>> = const { Cell::new(None) };
    }
    THIS.try_with(|this| {
        let known = this.get().unwrap_or_else(|| {
            let number = THREADS.fetch_add(1, Relaxed);
            let name = std::thread::current().name().unwrap_or("thread").to_owned();
            (number, Name::from(name).as_str())
        });
        this.set(Some(known));
        known
    })
    .unwrap_or((0, "ending thread"))
}

struct Place {
    written: AtomicBool,
    event: UnsafeCell<MaybeUninit<Event>>,
}

/// Records events.
pub struct Profiler {
    epoch: Instant,
    chunks: Box<[AtomicPtr<Place>]>,
    /// Places handed out, also those past the end.
    next: AtomicUsize,
    lost: AtomicU32,
}

// SAFETY: a place is written by the one thread that drew its number, and read only once it is marked as written.
unsafe impl Sync for Profiler {}
// SAFETY: the recorder owns its chunks.
unsafe impl Send for Profiler {}

impl Profiler {
    pub fn new() -> Profiler {
        Profiler {
            epoch: Instant::now(),
            chunks: (0..CHUNKS).map(|_| AtomicPtr::new(null_mut())).collect(),
            next: AtomicUsize::new(0),
            lost: AtomicU32::new(0),
        }
    }

    /// Nanoseconds since the engine was made.
    pub fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// The time, or 0 if nobody will ask for it.
    #[inline]
    pub fn time_if(&self, asked: bool) -> u64 {
        if asked {
            self.now()
        } else {
            0
        }
    }

    /// Records an operation that ends now.
    #[cold]
    pub fn record(&self, mut event: Event) {
        event.end = self.now();
        let index = self.next.fetch_add(1, Relaxed);
        let Some(chunk) = self.chunks.get(index / CHUNK) else {
            self.next.store(CHUNK * CHUNKS, Relaxed);
            self.lost.fetch_add(1, Relaxed);
            return;
        };
        let mut places = chunk.load(Acquire);
        if places.is_null() {
            places = add_chunk(chunk);
        }
        // SAFETY: inside the chunk, and the number is ours alone.
        unsafe {
            let place = places.add(index % CHUNK);
            (*(*place).event.get()).write(event);
            // Release: a reader that finds the mark finds the event.
            (*place).written.store(true, Release);
        }
    }

    /// A copy of all that is recorded.
    pub fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for chunk in &self.chunks {
            let places = chunk.load(Acquire);
            if places.is_null() {
                break;
            }
            for index in 0..CHUNK {
                // SAFETY: inside the chunk; the event is read only if it is written, after which it does not change.
                unsafe {
                    let place = places.add(index);
                    if (*place).written.load(Acquire) {
                        events.push((*(*place).event.get()).assume_init());
                    }
                }
            }
        }
        events.sort_by_key(|event| event.end);
        events
    }

    /// How many did not fit.
    pub fn lost(&self) -> u64 {
        u64::from(self.lost.load(Relaxed))
    }
}

#[cold]
fn add_chunk(chunk: &AtomicPtr<Place>) -> *mut Place {
    let places: Box<[Place]> = (0..CHUNK)
        .map(|_| Place { written: AtomicBool::new(false), event: UnsafeCell::new(MaybeUninit::uninit()) })
        .collect();
    let places = Box::into_raw(places);
    match chunk.compare_exchange(null_mut(), places.cast(), AcqRel, Acquire) {
        Ok(_) => places.cast(),
        Err(other) => {
            // SAFETY: another thread was quicker, and ours was never seen.
            drop(unsafe { Box::from_raw(places) });
            other
        }
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        for chunk in &self.chunks {
            let places = chunk.load(Acquire);
            if !places.is_null() {
                // SAFETY: made from such a box in `add_chunk`.
                drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(places, CHUNK)) });
            }
        }
    }
}
