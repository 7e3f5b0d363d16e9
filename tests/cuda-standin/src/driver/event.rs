//! Events.

use crate::driver::{current, driver};
use crate::planted::Fault;
use crate::run;
use crate::world::{code, Command, Event, Recording};
use std::ffi::c_uint;

/// The flag of an event that notes no time.
const DISABLE_TIMING: c_uint = 2;

driver! {
    fn [cuEventCreate](event: *mut usize, flags: c_uint) |world| {
        let device = current(&world)?;
        let handle = world.handle();
        world.events.insert(handle, Event { device, flags, recording: None, capture: None });
        *event = handle;
    }
    fn [cuEventRecord](event: usize, stream: usize) |world| {
        current(&world)?;
        let (device, capture) = world.stream(stream).map(|stream| (stream.device, stream.capture))?;
        let place = world.event(event)?;
        if place.device != device {
            world.report("an event was recorded on a stream of another device".to_owned());
            return Err(code::INVALID_HANDLE);
        }
        place.capture = capture;
        let before = place.recording.take();
        if let Some(before) = before {
            world.uses(before, false);
        }
        if capture.is_none() {
            // Used by the event, and by the command.
            let recording = world.handle() as u64;
            world.recordings.insert(recording, Recording { users: 2, ..Recording::default() });
            world.event(event)?.recording = Some(recording);
            let is_early = !world.is_idle(stream) && world.planted.is_due(Fault::RecordedEarly);
            world.push(stream, Command::Record { recording })?;
            let queue = &mut world.stream(stream)?.queue;
            if is_early && queue.len() > 1 {
                let last = queue.len() - 1;
                queue.swap(last - 1, last);
            }
        }
    }
    fn [cuEventQuery](event: usize) |world| {
        current(&world)?;
        let place = world.event(event)?;
        if place.capture.is_some() {
            return Err(code::CAPTURED_EVENT);
        }
        if let Some(recording) = place.recording {
            if !world.recordings[&recording].reached {
                // What is said too early teaches the host nothing.
                return if world.planted.is_due(Fault::DoneTooEarly) { Ok(()) } else { Err(code::NOT_READY) };
            }
            let clock = world.recordings[&recording].clock.clone();
            world.host_learns(&clock);
        }
    }
    fn [cuEventElapsedTime_v2 cuEventElapsedTime](milliseconds: *mut f32, from: usize, to: usize) |world| {
        current(&world)?;
        let mut noted = [0; 2];
        for (noted, event) in noted.iter_mut().zip([from, to]) {
            let place = world.event(event)?;
            // An event without times, or one that is nowhere.
            let recording = place.recording.filter(|_| place.flags & DISABLE_TIMING == 0);
            let recording = recording.ok_or(code::INVALID_HANDLE)?;
            if !world.recordings[&recording].reached {
                return Err(code::NOT_READY);
            }
            *noted = world.recordings[&recording].at as i64;
        }
        *milliseconds = (noted[1] - noted[0]) as f32 / 1e3;
    }
    fn [cuEventSynchronize](event: usize) |world| {
        current(&world)?;
        let place = world.event(event)?;
        if place.capture.is_some() {
            return Err(code::CAPTURED_EVENT);
        }
        let Some(recording) = place.recording else { return Ok(()) };
        // It stays while this thread waits, even if the event is recorded again.
        world.uses(recording, true);
        let outcome = loop {
            if let Err(lost) = world.event(event).map(|_| ()) {
                break Err(lost);
            }
            if world.recordings[&recording].reached {
                break Ok(());
            }
            let others = world.pace == 0 || world.streams.values().any(|stream| stream.running);
            if !run::advance(&mut world) && (!others || !world.wait()) {
                world.report("a thread waits for an event that cannot come".to_owned());
                break Err(code::TIMEOUT);
            }
        };
        let clock = world.recordings[&recording].clock.clone();
        world.uses(recording, false);
        outcome?;
        world.host_learns(&clock);
    }
    fn [cuEventDestroy_v2 cuEventDestroy](event: usize) |world| {
        current(&world)?;
        let recording = world.event(event)?.recording;
        // What waits for the recording still does.
        if let Some(recording) = recording {
            world.uses(recording, false);
        }
        world.events.remove(&event);
    }
}
