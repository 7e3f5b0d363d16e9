//! Runs what is queued: a command at a time, of a stream that the seed chooses, from inside the
//! calls of the driver. So one seed and one order of calls give one order of commands.

use crate::clocks::{Clock, Who};
use crate::held::Held;
use crate::world::{code, Command, Stream, World, DEVICE};
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// The access that a body makes when it says that it makes one.
    static BODY: RefCell<Option<(Who, Clock)>> = const { RefCell::new(None) };
}

/// What runs on this thread now, and what it knows.
pub fn body() -> Option<(Who, Clock)> {
    BODY.with_borrow(Clone::clone)
}

fn may_run(world: &World, stream: &Stream) -> bool {
    let by_hand = world.pace == 0 && stream.allowance == 0;
    if stream.running || by_hand || world.devices[stream.device].lost != 0 {
        return false;
    }
    match stream.queue.front() {
        None => false,
        Some((Command::Wait { recording }, _)) => world.recordings[recording].reached,
        Some(_) => true,
    }
}

/// Runs one command of a stream that can, if there is one.
pub fn advance(world: &mut Held) -> bool {
    let ready: Vec<usize> =
        world.streams.iter().filter(|(_, stream)| may_run(world, stream)).map(|(&handle, _)| handle).collect();
    if ready.is_empty() {
        return false;
    }
    let chosen = ready[world.below(ready.len() as u64) as usize];
    run_one(world, chosen);
    true
}

/// Runs commands while the device's pace says so: at the beginning of every call.
pub fn pump(world: &mut Held) {
    let (pace, burst) = (world.pace, world.burst);
    while pace > 0 && world.below(256 * burst) < pace {
        for _ in 0..burst {
            if !advance(world) {
                return;
            }
        }
    }
}

/// Runs commands of any streams until `is_so`, or until `stream` cannot come to its end.
///
/// # Errors
/// If the device of the stream is lost, or nothing can run any more.
pub fn until(world: &mut Held, stream: usize, is_so: impl Fn(&World) -> bool) -> Result<(), i32> {
    loop {
        world.stream(stream)?;
        if is_so(world) {
            return Ok(());
        }
        if advance(world) {
            continue;
        }
        // What is missing is another thread's to do: a command that runs there, or a step.
        let others = world.pace == 0 || world.streams.values().any(|stream| stream.running);
        if !others || !world.wait() {
            world.report("a thread waits for what cannot come".to_owned());
            return Err(code::TIMEOUT);
        }
    }
}

fn run_one(world: &mut Held, handle: usize) {
    let stream = world.streams.get_mut(&handle).expect("it was chosen");
    let (command, known) = stream.queue.pop_front().expect("it has a command");
    stream.allowance = stream.allowance.saturating_sub(1);
    stream.clock.join(&known);
    let (index, device) = (stream.index, stream.device);
    let who = Who { index, when: stream.clock.tick(index), label: 0 };
    let clock = stream.clock.clone();
    stream.running = true;
    world.clock += 1;
    world.trace = world.trace.wrapping_mul(0x0100_0000_01b3) ^ (index as u64) << 8 ^ u64::from(kind(&command));
    if let Err(error) = run(world, handle, who, clock, command) {
        world.lose(device, error);
    }
    if let Some(stream) = world.streams.get_mut(&handle) {
        stream.running = false;
    }
    world.changed();
}

fn kind(command: &Command) -> u8 {
    match command {
        Command::Access { .. } => 1,
        Command::Body { .. } => 2,
        Command::Kernel { .. } => 3,
        Command::Copy { .. } => 4,
        Command::Set { .. } => 5,
        Command::Free { .. } => 6,
        Command::Host { .. } => 7,
        Command::Record { .. } => 8,
        Command::Wait { .. } => 9,
    }
}

fn real(at: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut((at & !DEVICE) as usize)
}

/// Runs a command.
///
/// # Errors
/// The error by which the device is lost.
fn run(world: &mut Held, handle: usize, who: Who, clock: Clock, command: Command) -> Result<(), i32> {
    match command {
        Command::Access { cell, write, label } => world.touch_cell(cell, write, Who { label, ..who }, &clock),
        // SAFETY: the test has given this function for this word.
        Command::Body { run, word } => return call(world, who, clock, || unsafe { run(word) }),
        Command::Kernel { name, arguments, grid, block } => {
            let spec = world.kernels.get(&name).cloned().ok_or(code::ILLEGAL_ADDRESS)?;
            let pointers: Vec<*const u8> = arguments.iter().map(|argument| argument.as_ptr()).collect();
            // SAFETY: the test has registered this function for arguments of these sizes.
            let run = || unsafe { (spec.run)(spec.word, pointers.as_ptr(), grid.as_ptr(), block.as_ptr()) };
            return call(world, who, clock, run);
        }
        Command::Copy { from, to, bytes, staged } => {
            if staged.is_none() {
                world.touch_memory(from, bytes, false, who, &clock)?;
            }
            world.touch_memory(to, bytes, true, who, &clock)?;
            let source = staged.as_ref().map_or(real(from).cast_const(), |staged| staged.as_ptr());
            // SAFETY: both lie in allocations of ours, as has just been looked up, or in memory
            // that the caller of the copy has named.
            unsafe { std::ptr::copy(source, real(to), bytes) }
        }
        Command::Set { to, value, bytes } => {
            world.touch_memory(to, bytes, true, who, &clock)?;
            // SAFETY: it lies in an allocation of ours, as has just been looked up.
            unsafe { std::ptr::write_bytes(real(to), value, bytes) }
        }
        Command::Free { base } => {
            let memory = world.memory.get(&(base & !DEVICE)).ok_or(code::ILLEGAL_ADDRESS)?;
            let bytes = memory.bytes;
            world.touch_memory(base, bytes, true, who, &clock)?;
            // It is kept, so that a late use is found and not just undefined.
            world.memory.get_mut(&(base & !DEVICE)).expect("it was there").freed = true;
        }
        Command::Host { run, word } => {
            // What it says that it accesses, it accesses in the order of its stream.
            let run = || {
                // SAFETY: the caller of cuLaunchHostFunc has given this function for this argument.
                unsafe { run(std::ptr::with_exposed_provenance_mut(word)) };
                0
            };
            call(world, who, clock.clone(), run)?;
            world.host_learns(&clock);
        }
        Command::Record { recording } => {
            let at = world.clock;
            let place = world.recordings.get_mut(&recording).expect("this command uses it");
            (place.reached, place.clock, place.at) = (true, clock, at);
            world.uses(recording, false);
        }
        Command::Wait { recording } => {
            let reached = world.recordings[&recording].clock.clone();
            world.streams.get_mut(&handle).expect("it runs").clock.join(&reached);
            world.uses(recording, false);
        }
    }
    Ok(())
}

/// Calls a body, a kernel or a host function.
fn call(world: &mut Held, who: Who, clock: Clock, run: impl FnOnce() -> i32) -> Result<(), i32> {
    BODY.set(Some((who, clock)));
    let outcome = world.outside(run);
    BODY.set(None);
    if outcome == 0 {
        Ok(())
    } else {
        Err(outcome)
    }
}

/// The host does something: what it knows, with that.
pub fn host_access(world: &mut World, label: u64) -> (Who, Clock) {
    let when = Arc::make_mut(&mut world.host).tick(0);
    (Who { index: 0, when, label }, world.host.as_ref().clone())
}
