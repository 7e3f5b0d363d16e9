//! Captures and graphs. A graph is launched in the order in which it was captured.

use crate::driver::{current, driver};
use crate::held::Held;
use crate::world::{code, Command};
use std::ffi::{c_int, c_uint, c_ulonglong};
use std::mem::discriminant;

/// What is queued of a graph stays queued.
fn give_back(world: &mut Held, graph: usize) -> Result<(), i32> {
    current(world)?;
    if world.graphs.remove(&graph).is_none() {
        world.report("a graph was given back that is gone, or never was".to_owned());
        return Err(code::INVALID_VALUE);
    }
    Ok(())
}

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
    fn [cuGraphExecUpdate](instance: usize, graph: usize, node: *mut usize, why: *mut c_int) |world| {
        current(&world)?;
        let commands = world.graphs.get(&graph).cloned().ok_or(code::INVALID_VALUE)?;
        let place = world.graphs.get_mut(&instance).ok_or(code::INVALID_VALUE)?;
        let are_alike = |pair: (&Command, &Command)| discriminant(pair.0) == discriminant(pair.1);
        if place.len() != commands.len() || !place.iter().zip(&commands).all(are_alike) {
            // Another number or kind of nodes.
            (*node, *why) = (0, 2);
            return Err(code::UPDATE_FAILURE);
        }
        (*place, *why) = (commands, 0);
    }
    fn [cuGraphLaunch](instance: usize, stream: usize) |world| {
        current(&world)?;
        if world.stream(stream)?.capture.is_some() {
            return Err(code::CAPTURE_UNSUPPORTED);
        }
        let commands = world.graphs.get(&instance).cloned().ok_or(code::INVALID_VALUE)?;
        for command in commands {
            world.push(stream, command)?;
        }
    }
    fn [cuGraphUpload](_instance: usize, _stream: usize) |world| {}
    fn [cuGraphExecDestroy](instance: usize) |world| {
        give_back(&mut world, instance)?;
    }
    fn [cuGraphDestroy](graph: usize) |world| {
        give_back(&mut world, graph)?;
    }
    fn [cuThreadExchangeStreamCaptureMode](_mode: *mut c_uint) |world| {}
}
