//! Puts work on streams: kernels, copies, and holds.
//!
//! A driver need not begin with what was queued before it is flushed. PoCL does begin, so a back
//! end can be *lazy*: it keeps what is queued to itself until a flush, as command buffers do.

use crate::backend::{lock, refused, Driver, OpenCl, Stream};
use crate::cells::{Cell, BYTES};
use crate::kernels::{Factors, Kernels};
use crate::library::{made, Code, Object, FALSE, OUT_OF_RESOURCES};
use seriatim::gpu::{DriverError, RawMemory, RawStream};
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex};

/// Queues something on the stream's queue.
type Command = Box<dyn FnOnce(&Driver, Object, &Kernels) -> Result<(), DriverError> + Send>;

/// What a stream keeps behind its lock.
pub struct Queued {
    kernels: Kernels,
    /// What a lazy back end has not queued yet.
    pending: Vec<Command>,
}

enum Argument {
    Cell(Arc<Cell>),
    Memory(RawMemory),
    Number(u32),
}

/// Something that holds a stream up until the test ends it.
pub struct Hold {
    driver: &'static Driver,
    event: Object,
    /// The command that waits for it. PoCL 3.0 aborts if such a command fails and nobody has it.
    held: Object,
}

impl Hold {
    /// Lets the stream go on.
    pub fn end(self) {
        self.end_with(0);
    }

    /// Fails, like a command that lacks something.
    pub fn fail(self) {
        self.end_with(OUT_OF_RESOURCES);
    }

    fn end_with(self, code: Code) {
        // SAFETY: the event is ours.
        let code = unsafe { (self.driver.library.call.set_status)(self.event, code) };
        assert_eq!(code, 0, "clSetUserEventStatus");
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The engine, which is dropped next, waits for the stream.
            // SAFETY: the event is ours.
            unsafe { (self.driver.library.call.set_status)(self.event, 0) };
        }
        for event in [self.event, self.held] {
            // SAFETY: the events are ours.
            unsafe { (self.driver.library.call.release_event)(event) };
        }
    }
}

impl Stream {
    pub fn new(driver: &Driver, queue: Object) -> Result<Stream, String> {
        Ok(Stream { queue, queued: Mutex::new(Queued { kernels: Kernels::new(driver)?, pending: Vec::new() }) })
    }

    /// Queues everything that is pending, and has it begin.
    pub fn flush(&self, driver: &Driver) -> Result<(), DriverError> {
        let mut queued = lock(&self.queued);
        let pending = std::mem::take(&mut queued.pending);
        pending.into_iter().try_for_each(|command| command(driver, self.queue, &queued.kernels))?;
        // SAFETY: the queue is there.
        refused("clFlush", unsafe { (driver.library.call.flush)(self.queue) })
    }

    pub fn release(self, driver: &Driver) {
        lock(&self.queued).kernels.release(driver);
        // SAFETY: the queue is ours, and nobody uses it any more.
        unsafe { (driver.library.call.release_queue)(self.queue) };
    }
}

/// Launches a kernel, on one thread of the device.
fn launch(driver: &Driver, queue: Object, kernel: Object, arguments: &[Argument]) -> Result<(), DriverError> {
    let call = &driver.library.call;
    for (index, argument) in (0..).zip(arguments) {
        let (memory, number);
        let (size, from) = match argument {
            Argument::Cell(cell) => {
                memory = cell.memory();
                (size_of::<Object>(), (&raw const memory).cast::<c_void>())
            }
            Argument::Memory(of) => {
                memory = Object(of.raw());
                (size_of::<Object>(), (&raw const memory).cast())
            }
            Argument::Number(of) => {
                number = *of;
                (size_of::<u32>(), (&raw const number).cast())
            }
        };
        // SAFETY: the stream is locked; the argument is of the kind that the kernel has there.
        refused("clSetKernelArg", unsafe { (call.set_argument)(kernel, index, size, from) })?;
    }
    // SAFETY: the kernel has its arguments.
    refused("clEnqueueNDRangeKernel", unsafe { (call.launch)(queue, kernel, 1, null(), &1, &1, 0, null(), null_mut()) })
}

impl OpenCl {
    /// Queues something, or keeps it until the next flush.
    ///
    /// # Errors
    /// If the driver refuses it.
    pub fn queue(
        &self,
        stream: RawStream,
        command: impl FnOnce(&Driver, Object, &Kernels) -> Result<(), DriverError> + Send + 'static,
    ) -> Result<(), DriverError> {
        let stream = self.at(stream);
        let mut queued = lock(&stream.queued);
        if self.is_lazy {
            queued.pending.push(Box::new(command));
            return Ok(());
        }
        command(self.driver, stream.queue, &queued.kernels)
    }

    /// Queues the kernel `blend`.
    ///
    /// # Errors
    /// If the driver refuses it.
    pub fn blend(
        &self,
        stream: RawStream,
        cells: [&Arc<Cell>; 2],
        factors: Factors,
        rounds: u32,
    ) -> Result<(), DriverError> {
        self.blend_any(stream, cells.map(|cell| Argument::Cell(Arc::clone(cell))), factors, rounds)
    }

    /// As [`OpenCl::blend`], with memory of devices.
    ///
    /// # Errors
    /// If the driver refuses it.
    pub fn blend_memory(
        &self,
        stream: RawStream,
        memory: [RawMemory; 2],
        factors: Factors,
        rounds: u32,
    ) -> Result<(), DriverError> {
        self.blend_any(stream, memory.map(Argument::Memory), factors, rounds)
    }

    fn blend_any(
        &self,
        stream: RawStream,
        yx: [Argument; 2],
        factors: Factors,
        rounds: u32,
    ) -> Result<(), DriverError> {
        let numbers = factors.into_iter().chain([rounds]).map(Argument::Number);
        let arguments: Vec<Argument> = yx.into_iter().chain(numbers).collect();
        self.queue(stream, move |driver, queue, kernels| launch(driver, queue, kernels.blend, &arguments))
    }

    /// Queues the kernel `look`.
    ///
    /// # Errors
    /// If the driver refuses it.
    pub fn look(&self, stream: RawStream, found: &Arc<Cell>, x: &Arc<Cell>, rounds: u32) -> Result<(), DriverError> {
        let [found, x] = [found, x].map(|cell| Argument::Cell(Arc::clone(cell)));
        let arguments = [found, x, Argument::Number(rounds)];
        self.queue(stream, move |driver, queue, kernels| launch(driver, queue, kernels.look, &arguments))
    }

    /// Queues a copy.
    ///
    /// # Errors
    /// If the driver refuses it.
    pub fn copy(&self, stream: RawStream, to: &Arc<Cell>, from: &Arc<Cell>) -> Result<(), DriverError> {
        let (to, from) = (Arc::clone(to), Arc::clone(from));
        self.queue(stream, move |driver, queue, _| {
            let call = &driver.library.call;
            // The cells have so many bytes, and those of the host are kept.
            let code = match (&*to, &*from) {
                // SAFETY: as above.
                (Cell::Device(to), Cell::Device(from)) => unsafe {
                    (call.copy)(queue, from.memory, to.memory, 0, 0, BYTES, 0, null(), null_mut())
                },
                // SAFETY: as above.
                (Cell::Device(to), Cell::Host(from)) => unsafe {
                    let from = from.as_ptr().cast();
                    (call.write)(queue, to.memory, FALSE, 0, BYTES, from, 0, null(), null_mut())
                },
                // SAFETY: as above.
                (Cell::Host(to), Cell::Device(from)) => unsafe {
                    let to = to.as_ptr().cast_mut().cast();
                    (call.read)(queue, from.memory, FALSE, 0, BYTES, to, 0, null(), null_mut())
                },
                (Cell::Host(_), Cell::Host(_)) => panic!("a copy has a side on the device"),
            };
            refused("a copy", code)
        })
    }

    /// Has what was queued begin.
    ///
    /// # Errors
    /// If the driver refuses it.
    pub fn flush(&self, stream: RawStream) -> Result<(), DriverError> {
        self.at(stream).flush(self.driver)
    }

    /// Holds a stream up, behind what is queued.
    pub fn hold(&self, stream: RawStream) -> Hold {
        self.flush(stream).expect("the driver takes what is queued");
        let library = &self.driver.library;
        let event = made("clCreateUserEvent", |code| {
            // SAFETY: the context is there.
            unsafe { (library.call.create_user_event)(library.context, code) }
        });
        let (event, mut held) = (event.expect("the driver makes events"), Object::NONE);
        // SAFETY: the queue is there, and so is the event.
        let code = unsafe { (library.call.barrier)(self.at(stream).queue, 1, &event, &mut held) };
        assert_eq!(code, 0, "clEnqueueBarrierWithWaitList");
        Hold { driver: self.driver, event, held }
    }
}
