//! Graphs of CUDA, for `DeviceGraphs` (`src/device/graphs.rs`): streams are captured in the mode in
//! which other threads are not held up. `src/engine/replay/device_graph.rs` calls it, on threads
//! that have entered the device. Nothing is kept here: `symbols.rs` looks the functions up, and
//! `mod.rs` has them and remembers a loss.

use crate::device::cuda::Cuda;
use crate::device::graphs::DeviceGraphs;
use crate::device::raw::{DriverError, RawGraph, RawStream};
use cudarc::driver::sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
use std::ffi::c_int;
use std::ptr::null_mut;

impl Cuda {
    /// Ends a capture. If there is an old instance, that becomes one of what was captured, if the
    /// driver can do it: it can if the graphs differ by the arguments of their nodes.
    ///
    /// # Safety
    /// As for [`DeviceGraphs::end_as`].
    unsafe fn end_capture(&self, stream: RawStream, old: Option<RawGraph>) -> Result<RawGraph, DriverError> {
        let symbols = self.graph_symbols()?;
        let mut graph = null_mut();
        // SAFETY: by the contract, this back end has made the stream; `graph` is ours.
        self.check("cuStreamEndCapture", unsafe { (symbols.end)(stream.raw().cast(), &mut graph) })?;
        let updated = old.zip(symbols.update).map(|(old, update)| {
            let (mut node, mut why) = (null_mut(), 0);
            // SAFETY: both are the driver's, by the contract and as above; the rest is ours.
            let code = unsafe { update(old.raw().cast(), graph, &mut node, &mut why) };
            self.check("cuGraphExecUpdate", code).map(|()| old)
        });
        let made = match updated {
            Some(Ok(old)) => Ok(old),
            Some(Err(refusal)) if refusal.is_lost() => Err(refusal),
            _ => {
                let mut instance = null_mut();
                // SAFETY: the driver has made the graph just now; `instance` is ours. There are no
                // flags.
                let code = unsafe { (symbols.instantiate)(&mut instance, graph, 0) };
                self.check("cuGraphInstantiateWithFlags", code).map(|()| RawGraph::new(instance.cast()))
            }
        };
        if !self.is_lost() {
            // SAFETY: as above; an instance does not need it. What becomes of it is of no use.
            let _ = self.check("cuGraphDestroy", unsafe { (symbols.destroy)(graph) });
        }
        made
    }
}

// SAFETY: a captured stream is an order, which the driver keeps in each launch. The driver does the
// launches of one graph one after the other, and keeps a graph that is destroyed until it is done.
// What is queued of an instance is not changed by its update.
unsafe impl DeviceGraphs for Cuda {
    unsafe fn begin(&self, stream: RawStream) -> Result<(), DriverError> {
        let symbols = self.graph_symbols()?;
        let mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as c_int;
        // SAFETY: by the contract, this back end has made the stream.
        self.check("cuStreamBeginCapture", unsafe { (symbols.begin)(stream.raw().cast(), mode) })
    }

    unsafe fn end(&self, stream: RawStream) -> Result<RawGraph, DriverError> {
        // SAFETY: by the contract.
        unsafe { self.end_capture(stream, None) }
    }

    unsafe fn end_as(&self, stream: RawStream, old: RawGraph) -> Result<RawGraph, DriverError> {
        // SAFETY: by the contract.
        unsafe { self.end_capture(stream, Some(old)) }
    }

    unsafe fn launch(&self, graph: RawGraph, stream: RawStream) -> Result<(), DriverError> {
        let symbols = self.graph_symbols()?;
        // SAFETY: by the contract, both are this back end's.
        self.check("cuGraphLaunch", unsafe { (symbols.launch)(graph.raw().cast(), stream.raw().cast()) })
    }

    unsafe fn drop_graph(&self, graph: RawGraph) {
        if self.is_lost() {
            return; // A device may be lost while what it has is given back, one by one.
        }
        if let Ok(symbols) = self.graph_symbols() {
            // SAFETY: by the contract. The result is not used.
            let _ = self.check("cuGraphExecDestroy", unsafe { (symbols.destroy_instance)(graph.raw().cast()) });
        }
    }
}
