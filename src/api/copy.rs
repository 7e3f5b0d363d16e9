//! `Engine::copy` and `Capture::copy`: copies between arrays of devices and pinned arrays, as
//! operations.
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
use crate::api::device_array::{note, Array, End};
use crate::api::engine::Engine;
use crate::device::memory::Plain;
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
