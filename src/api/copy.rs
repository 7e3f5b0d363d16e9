//! `Engine::copy` and `Capture::copy`: copies between arrays of devices and pinned arrays, as
//! operations; and `RunContext::copy` and `RunContext::zero`, what an operation of the program's
//! puts on its stream.
//!
//! Programs call them, on any thread. A copy is an operation like any other (`src/api/push.rs`),
//! and in a graph like any other there (`src/api/capture.rs`), or launched with others as a graph
//! of the driver (`src/engine/replay/merged.rs`). Its closure borrows both arrays, on the copy
//! worker of the device, on a worker that captures, or on a caller of the naive engine. The arrays
//! are in `src/api/device_data.rs` and `src/api/pinned_data.rs`; what is queued on the stream is in
//! `src/engine/gpu/lease.rs`.

#![forbid(unsafe_code)]

use crate::api::capture::Capture;
use crate::api::data::Data;
use crate::api::device_array::{note, Array, End, OfDevice};
use crate::api::device_data::DeviceData;
use crate::api::engine::Engine;
use crate::device::memory::Plain;
use crate::device::raw::RawStream;
use crate::device::Context;
use crate::engine::gpu::lease::Lease;
use crate::error::{Error, ErrorKind};
use crate::operation::context::RunContext;
use crate::operation::property::Property;

impl Engine {
    /// Pushes a copy of an array to another one of the same length: an operation that reads `from`
    /// and changes `to`.
    ///
    /// Copies to a device, also from another one, run on its copy worker's stream for that
    /// direction; copies to pinned memory on that of the device that they come from. Between two
    /// devices the processor waits until the first is done, as for any operation.
    ///
    /// # Errors
    /// [`BufferMismatch`](ErrorKind::BufferMismatch) if the lengths are not equal, if both arrays
    /// are one, or if neither is on a device; otherwise those of a push. If the driver refuses the
    /// copy, the operation fails.
    ///
    /// ```
    /// use seriatim::gpu::{DeviceData, Immediate, PinnedData};
    /// use seriatim::{Context, Engine, ErrorKind};
    /// let engine = Engine::builder().gpus(Immediate::new(2)).build()?;
    /// let (first, second) = (engine.device(Context::gpu(0))?, engine.device(Context::gpu(1))?);
    /// let x = DeviceData::from_slice(&first, &[1.5f64, 2.5])?;
    /// let y = DeviceData::zeros(&second, 2)?;
    /// let host = PinnedData::zeros(&second, 2)?;
    /// engine.copy(&x, &y)?;
    /// engine.copy(&y, &host)?;
    /// engine.wait_for_var(host.variable())?;
    /// assert_eq!(*host.read()?, [1.5, 2.5]);
    /// assert_eq!(engine.copy(&x, &x).unwrap_err().kind(), ErrorKind::BufferMismatch);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn copy<T: Plain>(&self, from: &impl Array<T>, to: &impl Array<T>) -> Result<(), Error> {
        let copy = Copy::new(&from.end(), &to.end())?;
        let operation = self.op(NAME).context(copy.context).property(copy.property);
        operation.read(copy.from.variable()).write(copy.to.variable()).push(move |run| copy.queue(run))
    }
}

impl Capture {
    /// Records a copy of an array to another one of the same length, which [`Engine::copy`] would
    /// push. Each replay copies what is there then. The graph keeps both arrays.
    ///
    /// A copy on one device, or between a device and pinned memory, may be launched as a part of a
    /// [`device_graph`](crate::CaptureBuilder::device_graph) of that device. It is if it has to
    /// follow an operation of that graph, because it reads what the operation changes or changes
    /// what the operation uses, and if these operations have no priority. By itself it could begin
    /// no earlier. Any other copy is an operation of its own.
    ///
    /// # Errors
    /// [`BufferMismatch`](ErrorKind::BufferMismatch) as for [`Engine::copy`]; otherwise those of
    /// [`CaptureBuilder::push`](crate::CaptureBuilder::push). Nothing is recorded then. If the driver
    /// refuses the copy, the operation fails in its replay.
    ///
    /// ```
    /// use seriatim::gpu::{DeviceData, Immediate, PinnedData};
    /// use seriatim::{Context, Engine};
    /// let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// let gpu = engine.device(Context::gpu(0))?;
    /// let (x, host) = (DeviceData::from_slice(&gpu, &[1u32, 2])?, PinnedData::zeros(&gpu, 2)?);
    /// let (graph, ()) = engine.capture(|c| {
    ///     let kernel = x.clone();
    ///     c.op("kernel").context(gpu.context()).write(&x).push(move |run| kernel.write_on(run).map(|_| ()))?;
    ///     c.copy(&x, &host)
    /// })?;
    /// graph.replay()?;
    /// engine.wait_for_var(host.variable())?;
    /// assert_eq!(*host.read()?, [1, 2]);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn copy<T: Plain>(&mut self, from: &impl Array<T>, to: &impl Array<T>) -> Result<(), Error> {
        let copy = Copy::new(&from.end(), &to.end())?;
        let operation = self.op(NAME).context(copy.context).property(copy.property);
        let operation = if copy.is_within { operation.follows() } else { operation };
        operation.read(copy.from.variable()).write(copy.to.variable()).push(move |run| copy.queue(run))
    }
}

impl RunContext<'_> {
    /// Puts a copy of an array to another one of the same length on the stream of the operation,
    /// among what the closure puts there itself. The operation has declared both arrays, and its
    /// context is that of the device that is copied to, or of the one that is copied from to pinned
    /// memory.
    ///
    /// [`Engine::copy`] is a whole operation with one copy. This is for operations with several, or
    /// with a name, a priority or errors of the program's.
    ///
    /// # Errors
    /// [`BufferMismatch`](ErrorKind::BufferMismatch) as for [`Engine::copy`], and if the operation
    /// runs elsewhere; [`NoStream`](ErrorKind::NoStream) if it has no stream; those of
    /// [`DeviceData::write_on`](crate::gpu::DeviceData::write_on). If the driver refuses the copy:
    /// [`DeviceUnavailable`](ErrorKind::DeviceUnavailable), or
    /// [`DeviceLost`](ErrorKind::DeviceLost).
    ///
    /// ```
    /// use seriatim::gpu::{DeviceData, Immediate, PinnedData};
    /// use seriatim::{Context, Engine, Property};
    /// let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// let gpu = engine.device(Context::gpu(0))?;
    /// let (from, to) = (PinnedData::from_slice(&gpu, &[1u8, 2])?, DeviceData::zeros(&gpu, 2)?);
    /// let back = PinnedData::<u8>::zeros(&gpu, 2)?;
    /// let (source, target, end) = (from.clone(), to.clone(), back.clone());
    /// let both = engine.op("there and back").context(Context::gpu(0));
    /// both.property(Property::CopyToGpu).read(&from).write(&to).write(&back).push(move |run| {
    ///     run.copy(&source, &target)?;
    ///     run.copy(&target, &end)
    /// })?;
    /// engine.wait_for_var(back.variable())?;
    /// assert_eq!(*back.read()?, [1, 2]);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn copy<T: Plain>(&self, from: &impl Array<T>, to: &impl Array<T>) -> Result<(), Error> {
        let copy = Copy::new(&from.end(), &to.end())?;
        if copy.context != self.context() {
            let message = format!(
                "operation '{}' runs on {} and makes a copy of {}: push it with that context",
                self.name(),
                self.context(),
                copy.context
            );
            return Err(Error::new(ErrorKind::BufferMismatch, message));
        }
        self.stream_for("a copy")?;
        copy.queue(self)
    }

    /// Puts the filling of an array of the operation's device with zeros on its stream. The
    /// operation has declared that it changes the array.
    ///
    /// # Errors
    /// [`NoStream`](ErrorKind::NoStream) if the operation has no stream; those of
    /// [`DeviceData::write_on`](crate::gpu::DeviceData::write_on); those of the driver, as for
    /// [`copy`](RunContext::copy).
    ///
    /// ```
    /// use seriatim::gpu::{DeviceData, Immediate, PinnedData};
    /// use seriatim::{Context, Engine};
    /// let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// let gpu = engine.device(Context::gpu(0))?;
    /// let x = DeviceData::from_slice(&gpu, &[1u8, 2])?;
    /// let (back, sums) = (PinnedData::<u8>::zeros(&gpu, 2)?, x.clone());
    /// engine.op("begin").context(gpu.context()).write(&x).push(move |run| run.zero(&sums))?;
    /// engine.copy(&x, &back)?;
    /// engine.wait_for_var(back.variable())?;
    /// assert_eq!(*back.read()?, [0, 0]);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn zero<T: Plain>(&self, array: &DeviceData<T>) -> Result<(), Error> {
        let stream = self.stream_for("a filling")?;
        array.write_on(self)?;
        array.end().data.write()?.zero(stream)
    }

    /// The operation's stream.
    fn stream_for(&self, what: &str) -> Result<RawStream, Error> {
        self.stream().ok_or_else(|| {
            let message = format!(
                "operation '{}' puts {what} on its stream, and has none: push it to a GPU, not as Async, and ask in its \
                 closure",
                self.name()
            );
            Error::new(ErrorKind::NoStream, message)
        })
    }
}

/// What operations that copy are called.
const NAME: &str = "copy";

/// A copy that can be made: where it runs, and what it copies.
struct Copy {
    from: Data<Lease>,
    to: Data<Lease>,
    context: Context,
    property: Property,
    /// Whether no other device takes part.
    is_within: bool,
}

impl Copy {
    fn new(from: &End<'_>, to: &End<'_>) -> Result<Copy, Error> {
        let (from_variable, to_variable) = (from.data.variable(), to.data.variable());
        let refused = |why: String| Err(Error::new(ErrorKind::BufferMismatch, why));
        if from_variable == to_variable {
            return refused(format!("{to_variable:?} cannot be copied to itself"));
        }
        if from.length != to.length {
            return refused(format!(
                "{from_variable:?} has {} elements and {to_variable:?} has {}: arrays are copied whole",
                from.length, to.length
            ));
        }
        let (context, property) = match (from.is_on_device, to.is_on_device) {
            (_, true) => (to.context, Property::CopyToGpu),
            (true, false) => (from.context, Property::CopyFromGpu),
            (false, false) => {
                return refused(format!(
                    "{from_variable:?} and {to_variable:?} are both the processor's: copy in an operation that borrows them"
                ))
            }
        };
        let is_within = [from, to].iter().all(|end| end.context == context || !end.is_on_device);
        Ok(Copy { from: from.data.clone(), to: to.data.clone(), context, property, is_within })
    }

    /// Puts the copy on the stream of its operation.
    fn queue(&self, run: &RunContext<'_>) -> Result<(), Error> {
        let (from, to) = (self.from.read()?, self.to.write()?);
        note(&self.from, false, run)?;
        note(&self.to, true, run)?;
        run.stream().map_or(Ok(()), |stream| to.copy_from(&from, stream))
    }
}
