//! Captures and graphs. A graph is launched in the order in which it was captured.

use crate::driver::driver;
use crate::world::code;
use std::ffi::{c_int, c_uint, c_ulonglong};

driver! {
    fn [cuStreamBeginCapture_v2 cuStreamBeginCapture](stream: usize, _mode: c_int) |world| {
        let graph = world.handle();
        let place = world.stream(stream)?;
        if place.capture.is_some() {
            return Err(code::ILLEGAL_STATE);
        }
        place.capture = Some(graph);
        world.graphs.insert(graph, Vec::new());
    }
    fn [cuStreamIsCapturing](stream: usize, status: *mut c_int) |world| {
        *status = c_int::from(world.stream(stream)?.capture.is_some());
    }
    fn [cuStreamEndCapture](stream: usize, graph: *mut usize) |world| {
        let captured = world.stream(stream)?.capture.ok_or(code::ILLEGAL_STATE)?;
        for stream in world.streams.values_mut().filter(|stream| stream.capture == Some(captured)) {
            stream.capture = None;
        }
        *graph = captured;
    }
    fn [cuGraphInstantiateWithFlags](instance: *mut usize, graph: usize, _flags: c_ulonglong) |world| {
        let commands = world.graphs.get(&graph).cloned().ok_or(code::INVALID_VALUE)?;
        let handle = world.handle();
        world.graphs.insert(handle, commands);
        *instance = handle;
    }
    fn [cuGraphLaunch](instance: usize, stream: usize) |world| {
        let commands = world.graphs.get(&instance).cloned().ok_or(code::INVALID_VALUE)?;
        for command in commands {
            world.push(stream, command)?;
        }
    }
    fn [cuGraphUpload](_instance: usize, _stream: usize) |world| {}
    fn [cuGraphExecDestroy](instance: usize) |world| {
        world.graphs.remove(&instance);
    }
    fn [cuGraphDestroy](graph: usize) |world| {
        world.graphs.remove(&graph);
    }
    fn [cuThreadExchangeStreamCaptureMode](_mode: *mut c_uint) |world| {}
}
