//! The graphs of the model: what was captured is done in the order of its capture, as one piece.

use crate::model::{number, Model};
use seriatim::gpu::{DeviceGraphs, DriverError, RawGraph, RawStream};
use std::ptr::without_provenance_mut;

// SAFETY: the pieces of a graph follow each other on the stream that it is launched on.
unsafe impl DeviceGraphs for Model {
    unsafe fn begin(&self, stream: RawStream) -> Result<(), DriverError> {
        let mut world = self.call()?;
        let stream = &mut world.streams[number(stream.raw())];
        assert!(stream.captured.is_none() && stream.items.is_empty(), "the stream is in use");
        stream.captured = Some(Vec::new());
        Ok(())
    }

    unsafe fn end(&self, stream: RawStream) -> Result<RawGraph, DriverError> {
        let captured = self.world().streams[number(stream.raw())].captured.take();
        let mut world = self.call()?;
        world.graphs.push(Some(captured.expect("a capture was begun").into()));
        Ok(RawGraph::new(without_provenance_mut(world.graphs.len())))
    }

    unsafe fn launch(&self, graph: RawGraph, stream: RawStream) -> Result<(), DriverError> {
        let mut world = self.call()?;
        let work = world.graphs[number(graph.raw())].clone().expect("it was not given back");
        world.launches += 1;
        world.queue(number(stream.raw()), work);
        Ok(())
    }

    unsafe fn drop_graph(&self, graph: RawGraph) {
        let given_back = self.world().graphs[number(graph.raw())].take();
        assert!(given_back.is_some(), "it was given back before");
    }
}
