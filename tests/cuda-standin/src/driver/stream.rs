//! Streams.

use crate::driver::{current, driver};
use crate::held::Held;
use crate::planted::Fault;
use crate::run;
use crate::world::{code, Command, HostFn, Stream};
use std::ffi::{c_int, c_uint, c_void};

fn create(world: &mut Held, flags: u32, priority: i32) -> Result<usize, i32> {
    let device = current(world)?;
    let (handle, index) = (world.handle(), world.index());
    let stream = Stream {
        device,
        index,
        flags,
        priority: priority.clamp(-5, 0),
        queue: Default::default(),
        clock: Default::default(),
        running: false,
        capture: None,
        allowance: 0,
    };
    world.streams.insert(handle, stream);
    Ok(handle)
}

/// # Errors
/// If the stream is being captured, which forbids to ask how far it is.
fn not_captured(world: &mut Held, stream: usize) -> Result<(), i32> {
    match world.stream(stream)?.capture {
        Some(_) => Err(code::CAPTURE_UNSUPPORTED),
        None => Ok(()),
    }
}

driver! {
    fn [cuStreamCreate](stream: *mut usize, flags: c_uint) |world| {
        *stream = create(&mut world, flags, 0)?;
    }
    fn [cuStreamCreateWithPriority](stream: *mut usize, flags: c_uint, priority: c_int) |world| {
        *stream = create(&mut world, flags, priority)?;
    }
    fn [cuStreamSynchronize](stream: usize) |world| {
        current(&world)?;
        not_captured(&mut world, stream)?;
        if !world.is_idle(stream) && world.planted.is_due(Fault::FinishedTooEarly) {
            return Ok(());
        }
        run::until(&mut world, stream, |world| world.is_idle(stream))?;
        let clock = world.streams[&stream].clock.clone();
        world.host_learns(&clock);
    }
    fn [cuStreamQuery](stream: usize) |world| {
        not_captured(&mut world, stream)?;
        if !world.is_idle(stream) {
            return Err(code::NOT_READY);
        }
        let clock = world.streams[&stream].clock.clone();
        world.host_learns(&clock);
    }
    fn [cuStreamDestroy_v2 cuStreamDestroy](stream: usize) |world| {
        current(&world)?;
        world.stream(stream)?;
        if !world.is_idle(stream) {
            // The driver does what is queued first, and so does this; but the engine says that
            // nothing is, or only marks that nobody waits for.
            let place = world.stream(stream)?;
            let is_mark = |command: &Command| matches!(command, Command::Record { .. } | Command::Wait { .. });
            if place.running || !place.queue.iter().all(|(command, _)| is_mark(command)) {
                world.report("a stream was destroyed before it was idle".to_owned());
            }
            run::until(&mut world, stream, |world| world.is_idle(stream))?;
        }
        // A capture that has not ended goes with its stream.
        if let Some(captured) = world.streams.remove(&stream).and_then(|stream| stream.capture) {
            if !world.streams.values().any(|stream| stream.capture == Some(captured)) {
                world.graphs.remove(&captured);
            }
        }
    }
    fn [cuStreamWaitEvent](stream: usize, event: usize, _flags: c_uint) |world| {
        current(&world)?;
        let (recording, capture) = world.event(event).map(|event| (event.recording, event.capture))?;
        let place = world.stream(stream)?;
        match (capture, place.capture) {
            // Who waits for an event of a capture is captured, too.
            (Some(graph), _) => place.capture = Some(graph),
            (None, Some(_)) => return Err(code::CAPTURE_ISOLATION),
            (None, None) => {
                // An event that was never recorded holds nobody up.
                let is_swallowed = recording.is_some() && world.planted.is_due(Fault::WaitSwallowed);
                if let Some(recording) = recording.filter(|_| !is_swallowed) {
                    world.push(stream, Command::Wait { recording })?;
                    world.uses(recording, true);
                }
            }
        }
    }
    fn [cuStreamGetPriority](stream: usize, priority: *mut c_int) |world| {
        *priority = world.stream(stream)?.priority;
    }
    fn [cuLaunchHostFunc](stream: usize, run: HostFn, argument: *mut c_void) |world| {
        world.push(stream, Command::Host { run, word: argument.expose_provenance() })?;
    }
}
