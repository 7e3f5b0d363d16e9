//! Graphs of CUDA, for `DeviceGraphs` (`src/device/graphs.rs`): streams are captured in the mode in
//! which other threads are not held up. `src/engine/replay/device_graph.rs` calls it, on threads
//! that have entered the device. Nothing is kept here: `mod.rs` has the functions, and remembers a
//! loss.

use crate::device::cuda::Cuda;
use crate::device::graphs::DeviceGraphs;
use crate::device::raw::{DriverError, RawGraph, RawStream};
use cudarc::driver::sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
use std::ffi::c_int;
use std::ptr::null_mut;

// SAFETY: a captured stream is an order, which the driver keeps in each launch. The driver does the
// launches of one graph one after the other, and keeps a graph that is destroyed until it is done.
unsafe impl DeviceGraphs for Cuda {
    unsafe fn begin(&self, stream: RawStream) -> Result<(), DriverError> {
        let symbols = self.graph_symbols()?;
        let mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as c_int;
        // SAFETY: by the contract, this back end has made the stream.
        self.check("cuStreamBeginCapture", unsafe { (symbols.begin)(stream.raw().cast(), mode) })
    }

    unsafe fn end(&self, stream: RawStream) -> Result<RawGraph, DriverError> {
        let symbols = self.graph_symbols()?;
        let (mut graph, mut instance) = (null_mut(), null_mut());
        // SAFETY: as in `begin`; `graph` is ours.
        self.check("cuStreamEndCapture", unsafe { (symbols.end)(stream.raw().cast(), &mut graph) })?;
        // SAFETY: the driver has made the graph just now; `instance` is ours. There are no flags.
        let code = unsafe { (symbols.instantiate)(&mut instance, graph, 0) };
        let instantiated = self.check("cuGraphInstantiateWithFlags", code);
        if !self.is_lost() {
            // SAFETY: as above; the instance does not need it. The result is not used.
            let _ = self.check("cuGraphDestroy", unsafe { (symbols.destroy)(graph) });
        }
        instantiated.map(|()| RawGraph::new(instance.cast()))
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
