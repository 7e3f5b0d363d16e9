//! The back end: in-order queues for streams, and marker events for marks.
//!
//! An event of OpenCL is one place in one queue and is never used again. A mark moves, so it is an
//! object that holds the event of its latest place. Whoever waits for the mark takes that event,
//! and stays with it when the mark moves on.

use crate::kernels::SOURCE;
use crate::library::{check, made, Code, Library, Object, COMPLETE, STATUS};
use crate::queue::Queued;
use seriatim::gpu::{Backend, Class, DriverError, Memory, Previous, RawMark, RawStream};
use std::alloc::Layout;
use std::collections::HashMap;
use std::io::Write;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Names the driver's library. Without it there is nothing to test.
const DRIVER: &str = "SERIATIM_TEST_OPENCL";

/// The driver and the program of this process. They stay.
pub struct Driver {
    pub library: Library,
    pub program: Object,
}

/// The driver, if the environment names one.
pub fn driver() -> Option<&'static Driver> {
    static FOUND: OnceLock<Option<Driver>> = OnceLock::new();
    let find = || {
        let Ok(path) = std::env::var(DRIVER) else {
            // Past the harness, which shows nothing of a test that passes.
            let text = format!("skipped: {DRIVER} names no driver of OpenCL; scripts/opencl.sh gets one\n");
            let _ = std::io::stderr().write_all(text.as_bytes());
            return None;
        };
        let library = Library::load(&path).unwrap_or_else(|error| panic!("{DRIVER}: {error}"));
        let program = library.build(SOURCE).unwrap_or_else(|error| panic!("{error}"));
        Some(Driver { library, program })
    };
    FOUND.get_or_init(find).as_ref()
}

/// What is wrong with a back end, to see that the programs find it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    Nothing,
    /// Streams do not wait for marks.
    NoWait,
    /// Every mark is reached as soon as somebody asks.
    ReachedAtOnce,
    /// A mark stays where it was put first.
    FirstPlace,
}

pub struct OpenCl {
    pub driver: &'static Driver,
    bug: Bug,
    /// Whether it keeps work to itself until a flush (`queue.rs`).
    pub is_lazy: bool,
    /// A queue for the processor's own uses of buffers. One thread at a time has a buffer mapped:
    /// PoCL 3.0 confuses two mappings of one buffer.
    pub own: Mutex<Object>,
    /// How often a mark was put on a stream.
    pub records: AtomicUsize,
    streams: AtomicUsize,
    marks: AtomicUsize,
    /// Memory that copies use. A back end with a bug may run them after the program has ended.
    pub kept: Mutex<Vec<Arc<[AtomicU32]>>>,
    /// What `memory.rs` has allocated, by its handle.
    pub memory: Mutex<HashMap<usize, Layout>>,
}

/// An in-order queue.
pub struct Stream {
    pub queue: Object,
    pub queued: Mutex<Queued>,
}

/// The event of the latest place; [`Object::NONE`] if there is none yet.
struct Mark(Mutex<Object>);

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call that was refused; the device goes on.
pub fn refused(what: &str, code: Code) -> Result<(), DriverError> {
    check(what, code).map_err(DriverError::refused)
}

impl OpenCl {
    /// A back end with such a bug, if there is a driver.
    pub fn new(bug: Bug, is_lazy: bool) -> Option<Arc<OpenCl>> {
        let driver = driver()?;
        let own = Mutex::new(driver.queue(0).expect("the driver makes queues"));
        let [records, streams, marks] = std::array::from_fn(|_| AtomicUsize::new(0));
        let (kept, memory) = Default::default();
        Some(Arc::new(OpenCl { driver, bug, is_lazy, own, records, streams, marks, kept, memory }))
    }

    /// Streams and marks that were made and not given back.
    pub fn left(&self) -> (usize, usize) {
        (self.streams.load(SeqCst), self.marks.load(SeqCst))
    }

    /// Pieces of memory that were allocated and not freed.
    pub fn memory_left(&self) -> usize {
        lock(&self.memory).len()
    }

    pub fn at(&self, stream: RawStream) -> &Stream {
        // SAFETY: `stream` has made it, and it was not given back: so `Backend` says.
        unsafe { &*stream.raw().cast::<Stream>() }
    }

    fn mark_of(&self, mark: RawMark) -> &Mark {
        // SAFETY: `mark` has made it, and it was not given back: so `Backend` says.
        unsafe { &*mark.raw().cast::<Mark>() }
    }

    /// The event where a mark is now, which the caller releases.
    fn place(&self, mark: RawMark) -> Object {
        let place = lock(&self.mark_of(mark).0);
        assert_ne!(*place, Object::NONE, "a mark is asked for that is nowhere");
        // SAFETY: the mark holds the event.
        unsafe { (self.driver.library.call.retain_event)(*place) };
        *place
    }

    fn release(&self, event: Object) {
        if event != Object::NONE {
            // SAFETY: the caller gives its hold of the event up.
            unsafe { (self.driver.library.call.release_event)(event) };
        }
    }
}

impl Driver {
    fn queue(&self, device: usize) -> Result<Object, String> {
        let Library { call, devices, context } = &self.library;
        // SAFETY: the device is one of the context. No properties: the queue is in order.
        made("clCreateCommandQueue", |code| unsafe { (call.create_queue)(*context, devices[device], 0, code) })
    }
}

impl Drop for OpenCl {
    fn drop(&mut self) {
        // SAFETY: the queue is ours, and nobody uses it any more.
        unsafe { (self.driver.library.call.release_queue)(*lock(&self.own)) };
    }
}

// SAFETY: the queues are in order, and so is what a lazy back end keeps. Markers and barriers do
// what `record` and `wait` say. With a bug they do not: then programs have wrong values, in memory
// that stays and whose words are atomic.
unsafe impl Backend for OpenCl {
    fn name(&self) -> &str {
        "OpenCL"
    }

    fn devices(&self) -> Result<usize, DriverError> {
        Ok(self.driver.library.devices.len())
    }

    fn enter(&self, _: usize) -> Result<Previous, DriverError> {
        Ok(Previous::new(null_mut()))
    }

    unsafe fn leave(&self, _: Previous) {}

    fn stream(&self, device: usize, _: Class) -> Result<RawStream, DriverError> {
        let queue = self.driver.queue(device).map_err(DriverError::refused)?;
        let stream = Stream::new(self.driver, queue).map_err(DriverError::refused)?;
        self.streams.fetch_add(1, SeqCst);
        Ok(RawStream::new(Box::into_raw(Box::new(stream)).cast()))
    }

    fn mark(&self, _: usize) -> Result<RawMark, DriverError> {
        self.marks.fetch_add(1, SeqCst);
        Ok(RawMark::new(Box::into_raw(Box::new(Mark(Mutex::new(Object::NONE)))).cast()))
    }

    unsafe fn record(&self, mark: RawMark, stream: RawStream) -> Result<(), DriverError> {
        let (call, stream) = (&self.driver.library.call, self.at(stream));
        // What is pending comes before the mark.
        stream.flush(self.driver)?;
        let mut event = Object::NONE;
        // Held while the marker is queued: of two threads that put the mark on one stream, the one
        // whose marker comes later leaves it there.
        let mut place = lock(&self.mark_of(mark).0);
        if self.bug == Bug::FirstPlace && *place != Object::NONE {
            return Ok(());
        }
        // SAFETY: the queue is there, and `event` is ours.
        refused("clEnqueueMarkerWithWaitList", unsafe { (call.marker)(stream.queue, 0, null(), &mut event) })?;
        let before = std::mem::replace(&mut *place, event);
        drop(place);
        self.release(before);
        self.records.fetch_add(1, SeqCst);
        // Nobody may wait for what was not flushed.
        stream.flush(self.driver)
    }

    unsafe fn wait(&self, stream: RawStream, mark: RawMark) -> Result<(), DriverError> {
        if self.bug == Bug::NoWait {
            return Ok(());
        }
        let event = self.place(mark);
        self.queue(stream, move |driver, queue, _| {
            let call = &driver.library.call;
            // SAFETY: the queue is there, and so is the event. The call takes a hold of its own.
            let code = unsafe { (call.barrier)(queue, 1, &event, null_mut()) };
            // SAFETY: the event was held for this.
            unsafe { (call.release_event)(event) };
            refused("clEnqueueBarrierWithWaitList", code)
        })
    }

    unsafe fn reached(&self, mark: RawMark) -> Result<bool, DriverError> {
        if self.bug == Bug::ReachedAtOnce {
            return Ok(true);
        }
        let event = self.place(mark);
        let mut status: Code = 0;
        // SAFETY: the event is there, and `status` has room for its status.
        let code = unsafe {
            let to = (&raw mut status).cast();
            (self.driver.library.call.event_info)(event, STATUS, size_of::<Code>(), to, null_mut())
        };
        self.release(event);
        refused("clGetEventInfo", code)?;
        match status {
            COMPLETE => Ok(true),
            1.. => Ok(false),
            // What comes behind a command that has failed will not run.
            _ => Err(DriverError::lost(format!("a command has failed: OpenCL's error {status}"))),
        }
    }

    unsafe fn finish(&self, stream: RawStream) -> Result<(), DriverError> {
        self.flush(stream)?;
        // SAFETY: the queue is there.
        refused("clFinish", unsafe { (self.driver.library.call.finish)(self.at(stream).queue) })
    }

    unsafe fn drop_stream(&self, stream: RawStream) {
        // Nothing is queued, unless the back end has a bug.
        // SAFETY: as the caller says.
        let _ = unsafe { self.finish(stream) };
        // SAFETY: `stream` has made it of a box, and gives it back once.
        unsafe { Box::from_raw(stream.raw().cast::<Stream>()) }.release(self.driver);
        self.streams.fetch_sub(1, SeqCst);
    }

    unsafe fn drop_mark(&self, mark: RawMark) {
        // SAFETY: `mark` has made it of a box, and gives it back once.
        let mark = unsafe { Box::from_raw(mark.raw().cast::<Mark>()) };
        self.release(*lock(&mark.0));
        self.marks.fetch_sub(1, SeqCst);
    }

    fn memory(&self) -> Option<&dyn Memory> {
        Some(self)
    }
}
