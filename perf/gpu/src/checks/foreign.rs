//! Streams that are not the engine's: adopted ones, and those that an operation ends after.

use super::{holds, say, GPU, LIMIT};
use crate::device::Device;
use crate::driver::Driver;
use crate::mix::{mixed, Mixture};
use seriatim::gpu::RawMemory;
use seriatim::{Completion, Engine, Property, RunContext, Variable};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

const ROUNDS: u64 = 20;
/// Steps of a kernel that is under way long after it was queued.
const LONG: u64 = 100_000;

/// A number in memory of the program's own, and the variable that stands for it.
#[derive(Clone, Copy)]
struct Number {
    at: RawMemory,
    variable: Variable,
}

fn driver(device: &Device) -> Result<Arc<Driver>, String> {
    device.driver.clone().ok_or_else(|| "bare calls need a driver".to_owned())
}

/// A number in pinned memory, which the processor can read when the device is done.
fn pinned(driver: &Driver, engine: &Engine) -> Result<Number, String> {
    let at = driver.allocate_pinned(8)?;
    // SAFETY: it has eight bytes, and nobody knows it yet.
    unsafe { at.cast::<u64>().write(0) };
    Ok(Number { at: RawMemory::new(at), variable: engine.new_variable() })
}

/// What is in a number, for an operation that has declared it.
fn value(number: Number) -> u64 {
    // SAFETY: it is pinned, and no device writes it meanwhile: that is what is checked.
    unsafe { number.at.raw().cast::<u64>().read_volatile() }
}

/// A kernel of the engine's.
fn push(device: &Device, engine: &Engine, to: Number, by: Number, id: u64) -> Result<(), String> {
    let mix = Arc::clone(&device.mix);
    let pushed = engine.op("kernel").context(GPU).reads([by.variable]).writes([to.variable]).push(move |run| {
        let stream = run.stream().ok_or("this operation has no stream")?;
        // SAFETY: the operation has declared both numbers, which the device can use.
        unsafe { mix.mix(0, stream, &mixture(to, by, id)) }
    });
    pushed.map_err(say)
}

fn mixture(to: Number, by: Number, id: u64) -> Mixture {
    Mixture { out: to.at, from: [Some(by.at), None, None], id, spin: LONG, count: 1 }
}

/// Compares both numbers with what they should be, in an operation of the processor.
fn compare(engine: &Engine, numbers: [Number; 2], expected: [u64; 2], round: u64) -> Result<(), String> {
    let variables = numbers.map(|number| number.variable);
    let looked = engine.op("look").reads(variables).push(move |_| match numbers.map(value) {
        found if found == expected => Ok(()),
        found => Err(format!("round {round} has left {found:x?} and not {expected:x?}")),
    });
    looked.map_err(say)?;
    engine.wait_for_all_timeout(LIMIT).map_err(say)
}

/// Kernels on a stream of the program's own take turns with the engine's. Over the stand-in the
/// device rests meanwhile, so that no call of the program can have waited for it.
pub fn adopted(device: &Device) -> Result<String, String> {
    let (driver, engine) = (driver(device)?, device.engine().build().map_err(say)?);
    let gpu = engine.device(GPU).map_err(say)?;
    let stream = driver.stream()?;
    // SAFETY: the stream is of this device, and is destroyed when all is done.
    let adopted = unsafe { gpu.adopt(stream.raw()) }.map_err(say)?;
    let (x, y) = (pinned(&driver, &engine)?, pinned(&driver, &engine)?);
    let mut expected = [0, 0];
    for round in 1..=ROUNDS {
        device.rests(true);
        push(device, &engine, x, y, round)?;
        adopted.wait_to_read(x.variable).map_err(say)?;
        adopted.wait_to_write(y.variable).map_err(say)?;
        // SAFETY: the stream has waited for what uses the numbers; what comes later waits for it.
        unsafe { device.mix.mix(0, stream.raw(), &mixture(y, x, round)) }?;
        adopted.has_read(x.variable).map_err(say)?;
        adopted.has_written(y.variable).map_err(say)?;
        push(device, &engine, x, y, 1000 + round)?;
        device.rests(false);
        let first = mixed(expected[0], [expected[1], 0, 0], round, LONG);
        let second = mixed(expected[1], [first, 0, 0], round, LONG);
        expected = [mixed(first, [second, 0, 0], 1000 + round, LONG), second];
        compare(&engine, [x, y], expected, round)?;
    }
    drop(adopted);
    // SAFETY: the driver has made it; it is done, and nobody uses it any more.
    unsafe { driver.drop_stream(stream) }?;
    Ok(format!("{ROUNDS} turns of a stream and the engine"))
}

/// Operations end when a stream of the program's own has come there, and what is behind them finds
/// what it has written.
pub fn ends_after(device: &Device) -> Result<String, String> {
    let (driver, engine) = (driver(device)?, device.engine().build().map_err(say)?);
    let own = driver.stream()?;
    let stream = own.raw();
    let (x, y) = (pinned(&driver, &engine)?, pinned(&driver, &engine)?);
    let (mut expected, early) = ([0, 0], Arc::new(AtomicU64::new(0)));
    for round in 1..=ROUNDS {
        device.rests(true);
        let (mix, count) = (Arc::clone(&device.mix), Arc::clone(&early));
        let start = move |_: &RunContext<'_>, completion: Completion| {
            let before = value(x);
            // SAFETY: the operation is one of the variables until the stream has come here.
            match unsafe { mix.mix(0, stream, &mixture(x, y, round)) } {
                // SAFETY: the stream is of this device, and is destroyed when all is done.
                Ok(()) => unsafe { completion.complete_after(stream) },
                Err(why) => return completion.fail(why),
            }
            count.fetch_add(u64::from(value(x) == before), Relaxed);
        };
        let library = engine.op("library").context(GPU).property(Property::Async);
        library.reads([y.variable]).writes([x.variable]).push_async(start).map_err(say)?;
        push(device, &engine, y, x, round)?;
        device.rests(false);
        let first = mixed(expected[0], [expected[1], 0, 0], round, LONG);
        expected = [first, mixed(expected[1], [first, 0, 0], round, LONG)];
        compare(&engine, [x, y], expected, round)?;
    }
    // SAFETY: as above.
    unsafe { driver.drop_stream(own) }?;
    let early = early.load(Relaxed);
    holds(early > 0, "no closure returned before its stream was done: nothing was shown")?;
    Ok(format!("{early} of {ROUNDS} closures returned before their stream was done"))
}
