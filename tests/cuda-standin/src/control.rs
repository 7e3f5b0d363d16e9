//! What tests tell the stand-in and ask it. `client.rs` has the same for Rust.

use crate::clocks::Who;
use crate::held::Held;
use crate::planted::Pauses;
use crate::random::Random;
use crate::run;
use crate::world::{Body, Command, Device, Failing, Kernel, KernelSpec, DEVICE};
use std::ffi::{c_char, CStr};

/// # Safety
/// `text` ends with a zero.
unsafe fn text(text: *const c_char) -> String {
    // SAFETY: as the caller says.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Copies a text out, as much as there is room for, with a zero; returns its length.
///
/// # Safety
/// There is so much room.
unsafe fn answer(text: &str, to: *mut u8, room: usize) -> usize {
    if room > 0 {
        let kept = text.len().min(room - 1);
        // SAFETY: as the caller says.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), to, kept);
            to.add(kept).write(0);
        }
    }
    text.len()
}

/// Everything is as in a new process. `pace`: of 256 calls so many run a command more; 0: only
/// `standin_step` runs any.
#[unsafe(no_mangle)]
pub extern "C" fn standin_reset(seed: u64, pace: u64) {
    let mut world = Held::take();
    world.reset(seed, pace);
    world.changed();
}

/// How eager streams are from now on.
#[unsafe(no_mangle)]
pub extern "C" fn standin_pace(pace: u64) {
    Held::take().pace = pace;
}

/// So many commands run at a time, and as many times more seldom: work piles up meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn standin_burst(burst: u64) {
    Held::take().burst = burst;
}

#[unsafe(no_mangle)]
pub extern "C" fn standin_version(version: i32) {
    Held::take().version = version;
}

/// So many devices there are. Before the driver is used.
#[unsafe(no_mangle)]
pub extern "C" fn standin_devices(count: usize) {
    Held::take().devices = (0..count).map(Device::numbered).collect();
}

/// The address of a device on the PCI bus.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_address(device: usize, address: *const c_char) {
    // SAFETY: a test gives a text.
    Held::take().devices[device].address = unsafe { text(address) };
}

/// The `nth` call from now of a function (of any, if it is `*`) fails; `sticky`: and the device of
/// the current context is lost by that error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_fail(function: *const c_char, nth: u64, error: i32, sticky: bool) {
    // SAFETY: a test gives a text.
    let function = unsafe { text(function) };
    let mut world = Held::take();
    let so_far = match function.as_str() {
        "*" => world.all_calls,
        name => world.calls.get(name).copied().unwrap_or_default(),
    };
    world.failing.push(Failing { function, nth: so_far + nth, error, sticky });
}

/// A device is lost, now.
#[unsafe(no_mangle)]
pub extern "C" fn standin_lose(device: usize, error: i32) {
    let mut world = Held::take();
    world.lose(device, error);
    world.changed();
}

/// Lets a stream run so many more commands, and runs what it can; returns how many are left over.
#[unsafe(no_mangle)]
pub extern "C" fn standin_step(stream: usize, commands: usize) -> usize {
    let mut world = Held::take();
    if let Some(stream) = world.streams.get_mut(&stream) {
        stream.allowance = commands;
    }
    while run::advance(&mut world) {}
    world.streams.get_mut(&stream).map_or(commands, |stream| std::mem::take(&mut stream.allowance))
}

/// Runs everything that can run, at whatever pace.
#[unsafe(no_mangle)]
pub extern "C" fn standin_run_all() {
    let mut world = Held::take();
    let pace = std::mem::replace(&mut world.pace, 256);
    while run::advance(&mut world) {}
    world.pace = pace;
}

/// Queues an access to a cell on a stream. Returns the driver's code.
#[unsafe(no_mangle)]
pub extern "C" fn standin_access(stream: usize, cell: u64, write: bool, label: u64) -> i32 {
    let mut world = Held::take();
    run::pump(&mut world);
    world.push(stream, Command::Access { cell, write, label }).err().unwrap_or_default()
}

/// The host accesses a cell, now.
#[unsafe(no_mangle)]
pub extern "C" fn standin_host_access(cell: u64, write: bool, label: u64) {
    let mut world = Held::take();
    let (who, clock) = run::host_access(&mut world, label);
    world.touch_cell(cell, write, who, &clock);
}

/// The host accesses memory, now. Returns where that memory is, or null if it may not be accessed.
#[unsafe(no_mangle)]
pub extern "C" fn standin_host_memory(at: u64, bytes: usize, write: bool, label: u64) -> *mut u8 {
    let mut world = Held::take();
    let (who, clock) = run::host_access(&mut world, label);
    match world.touch_memory(at, bytes, write, who, &clock) {
        Ok(()) => std::ptr::with_exposed_provenance_mut((at & !DEVICE) as usize),
        Err(_) => std::ptr::null_mut(),
    }
}

/// Queues a function on a stream. Returns the driver's code.
#[unsafe(no_mangle)]
pub extern "C" fn standin_queue(stream: usize, body: Body, word: usize) -> i32 {
    let mut world = Held::take();
    run::pump(&mut world);
    world.push(stream, Command::Body { run: body, word }).err().unwrap_or_default()
}

/// Registers a kernel, with the sizes of its arguments, for cuModuleGetFunction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_kernel(
    name: *const c_char,
    sizes: *const usize,
    count: usize,
    run: Kernel,
    word: usize,
) {
    // SAFETY: a test gives a text, and so many sizes.
    let (name, sizes) = unsafe { (text(name), std::slice::from_raw_parts(sizes, count).to_vec()) };
    Held::take().kernels.insert(name, KernelSpec { run, word, sizes });
}

/// Inside a queued function, a kernel or a host function: it accesses a cell.
#[unsafe(no_mangle)]
pub extern "C" fn standin_touch(cell: u64, write: bool, label: u64) {
    let mut world = Held::take();
    match run::body() {
        Some((who, clock)) => world.touch_cell(cell, write, Who { label, ..who }, &clock),
        None => world.report("standin_touch was called outside of a kernel".to_owned()),
    }
}

/// Inside a queued function, a kernel or a host function: it accesses memory. Returns where that
/// memory is, or null if it may not be accessed.
#[unsafe(no_mangle)]
pub extern "C" fn standin_memory(at: u64, bytes: usize, write: bool, label: u64) -> *mut u8 {
    let mut world = Held::take();
    let Some((who, clock)) = run::body() else { return std::ptr::null_mut() };
    match world.touch_memory(at, bytes, write, Who { label, ..who }, &clock) {
        Ok(()) => std::ptr::with_exposed_provenance_mut((at & !DEVICE) as usize),
        Err(_) => std::ptr::null_mut(),
    }
}

/// How often a function was called; of all, if it is `*`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_calls(function: *const c_char) -> u64 {
    // SAFETY: a test gives a text.
    let function = unsafe { text(function) };
    let world = Held::take();
    match function.as_str() {
        "*" => world.all_calls,
        name => world.calls.get(name).copied().unwrap_or_default(),
    }
}

/// How many different functions were called, and the name of one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_called(index: usize, to: *mut u8, room: usize) -> usize {
    let world = Held::take();
    if let Some(name) = world.calls.keys().nth(index) {
        // SAFETY: a test says how much room there is.
        unsafe { answer(name, to, room) };
    }
    world.calls.len()
}

/// Plants a fault of `Fault`: one at each so many-th occasion, none at 0.
#[unsafe(no_mangle)]
pub extern "C" fn standin_plant(fault: usize, every: u64) {
    Held::take().planted.plant(fault, every);
}

/// How many faults that are planted were made.
#[unsafe(no_mangle)]
pub extern "C" fn standin_planted() -> u64 {
    Held::take().planted.made
}

/// From now on one call in so many of a function (of any, if it is `*`) pauses at its end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_pauses(function: *const c_char, one_in: u64, micros: u64, seed: u64) {
    // SAFETY: a test gives a text.
    let function = unsafe { text(function) };
    Held::take().pauses = Pauses { function, one_in, micros, random: Random(seed) };
}

/// Copies out a report, if there are so many; returns how many there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_report(index: usize, to: *mut u8, room: usize) -> usize {
    let world = Held::take();
    if let Some(report) = world.reports.get(index) {
        // SAFETY: a test says how much room there is.
        unsafe { answer(report, to, room) };
    }
    world.reports.len()
}

/// A number that two runs share if they ran the same commands in the same order.
#[unsafe(no_mangle)]
pub extern "C" fn standin_trace() -> u64 {
    Held::take().trace
}

/// What there is: 0 streams, 1 events, 2 recordings, 3 allocations, 4 commands that are queued;
/// from 16 on how often the context of device `what - 16` is retained.
#[unsafe(no_mangle)]
pub extern "C" fn standin_count(what: usize) -> usize {
    let world = Held::take();
    match what {
        0 => world.streams.len(),
        1 => world.events.len(),
        2 => world.recordings.len(),
        3 => world.memory.values().filter(|memory| !memory.freed).count(),
        4 => world.streams.values().map(|stream| stream.queue.len()).sum(),
        5 => world.graphs.len(),
        device => world.devices.get(device.wrapping_sub(16)).map_or(0, |device| device.retained),
    }
}

/// What a stream was made with: its device, flags and priority.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_stream(
    stream: usize,
    device: *mut usize,
    flags: *mut u32,
    priority: *mut i32,
) -> bool {
    let world = Held::take();
    let Some(stream) = world.streams.get(&stream) else { return false };
    // SAFETY: a test gives three places.
    unsafe { (*device, *flags, *priority) = (stream.device, stream.flags, stream.priority) };
    true
}

/// The flags that an event was made with.
#[unsafe(no_mangle)]
pub extern "C" fn standin_event(event: usize) -> u32 {
    Held::take().events.get(&event).map_or(u32::MAX, |event| event.flags)
}
