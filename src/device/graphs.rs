//! The seam for graphs of a back end: [`DeviceGraphs`], which a back end has if what is put on a
//! stream can be captured, and launched as a whole again and again.
//!
//! `src/engine/replay/device_graph.rs` calls it, on threads that have entered the device, and
//! `cuda/graphs.rs` implements it. Which operations are captured together is decided in
//! `src/engine/replay/merged.rs` and `src/graph/merge.rs`.

use crate::device::raw::{DriverError, RawGraph, RawStream};

/// The graphs of a back end: what is put on a stream is captured once, and then launched as a whole
/// any number of times. CUDA's stream capture is such a thing.
///
/// All methods are called from several threads at once. The calling thread has entered the device.
///
/// # Safety
/// - What is captured is done by each launch, in an order that the stream would have kept, as one
///   piece of work of the stream that it is launched on.
/// - Two launches of one graph are done in the order of their calls, also on two streams.
/// - No method unwinds.
///
/// Operations ask for it by [`CaptureBuilder::device_graph`](crate::CaptureBuilder::device_graph),
/// which has an example. `src/device/cuda/graphs.rs` implements it.
pub unsafe trait DeviceGraphs: Send + Sync {
    /// From now on what the calling thread puts on a stream is captured, and not done.
    ///
    /// # Safety
    /// The stream is this back end's, of the device that the thread has entered; nothing is queued
    /// on it, and no other thread knows it.
    ///
    /// # Errors
    /// If the library refuses it, or the device is lost.
    unsafe fn begin(&self, stream: RawStream) -> Result<(), DriverError>;

    /// Ends the capture, and makes a graph of it. The stream captures no more, whatever this
    /// returns.
    ///
    /// # Safety
    /// `begin` was called for the stream on this thread, and no end since.
    ///
    /// # Errors
    /// If something that cannot be captured was called meanwhile, the library refuses it, or the
    /// device is lost.
    unsafe fn end(&self, stream: RawStream) -> Result<RawGraph, DriverError>;

    /// Ends the capture as [`DeviceGraphs::end`] does, and puts what was captured in the place of
    /// `old`, if the library can: then it returns `old`. Launches of `old` that are queued do what
    /// it was when they were queued. Otherwise it returns a new graph, and `old` is given back.
    ///
    /// This one makes a new graph.
    ///
    /// # Safety
    /// As for [`DeviceGraphs::end`], and for `old` as for [`DeviceGraphs::launch`].
    ///
    /// # Errors
    /// Those of [`DeviceGraphs::end`]. Then `old` is given back next.
    unsafe fn end_as(&self, stream: RawStream, old: RawGraph) -> Result<RawGraph, DriverError> {
        let _ = old;
        // SAFETY: by the contract.
        unsafe { self.end(stream) }
    }

    /// Queues all of a graph on a stream. Does not block.
    ///
    /// # Safety
    /// An end of this back end has returned the graph, for the device that the thread has entered,
    /// and it was not given back. What it uses is there until it is done.
    ///
    /// # Errors
    /// If the library refuses it, or the device is lost.
    unsafe fn launch(&self, graph: RawGraph, stream: RawStream) -> Result<(), DriverError>;

    /// Gives a graph back, which the device may still have to do. Not called for a lost device.
    ///
    /// # Safety
    /// As for [`DeviceGraphs::launch`], and nobody launches it afterwards.
    unsafe fn drop_graph(&self, graph: RawGraph);
}
