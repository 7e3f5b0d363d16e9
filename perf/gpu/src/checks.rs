//! What must hold on a device, one thing a check. A check that loses the device runs in a process
//! of its own.

mod foreign;
mod graphs;
mod profiles;

use crate::device::Device;
use crate::mix::{mixed, Mixture};
use seriatim::gpu::{DeviceData, PinnedData, RawMemory};
use seriatim::{Context, Engine, Error, ErrorKind};
use std::ptr::without_provenance_mut;
use std::sync::Arc;
use std::time::Duration;

const GPU: Context = Context::gpu(0);
const LIMIT: Duration = Duration::from_secs(60);

/// A check: says what it has seen, or what is wrong.
type Check = fn(&Device) -> Result<String, String>;

/// Those that leave the device as it is.
pub const CHECKS: [(&str, Check); 10] = [
    ("values go to the device, across it and back", there_and_back),
    ("a pinned array is borrowed until the device is done with it", borrowed_until_done),
    ("memory beyond the limit is refused", limited),
    ("a device that is not there is refused", absent),
    ("a closure that fails marks what it writes", failed),
    ("two engines use the device at once", two_engines),
    ("graphs are replayed in order, one by one and as graphs of the driver", graphs::replayed),
    ("an adopted stream takes turns with the engine's", foreign::adopted),
    ("an operation ends when a stream has come there", foreign::ends_after),
    ("a profile has the device's times", profiles::profiled),
];

/// Those whose order rests on marks and waits: a driver that forgets some has to be found.
pub const ORDERED: [Check; 3] = [graphs::replayed, foreign::adopted, foreign::ends_after];

fn say(error: Error) -> String {
    error.to_string()
}

fn holds(what: bool, otherwise: impl Into<String>) -> Result<(), String> {
    if what {
        Ok(())
    } else {
        Err(otherwise.into())
    }
}

/// What the error of a call is.
fn refused<T>(outcome: Result<T, Error>, kind: ErrorKind) -> Result<Error, String> {
    match outcome {
        Err(error) if error.kind() == kind => Ok(error),
        Err(error) => Err(format!("{kind:?} was expected, not {:?}: {error}", error.kind())),
        Ok(_) => Err(format!("{kind:?} was expected, and nothing was refused")),
    }
}

/// Pushes a kernel on an array.
fn push(device: &Device, engine: &Engine, array: &DeviceData<u64>, id: u64, spin: u64) -> Result<(), String> {
    let (mix, own) = (Arc::clone(&device.mix), array.clone());
    let pushed = engine.op("kernel").context(GPU).write(array).push(move |run| {
        let stream = run.stream().ok_or("this operation has no stream")?;
        let out = own.write_on(run).map_err(say)?;
        // SAFETY: the operation has declared the array, of its own device.
        unsafe { mix.mix(0, stream, &Mixture { out, from: [None; 3], id, spin, count: own.len() }) }
    });
    pushed.map_err(say)
}

fn there_and_back(device: &Device) -> Result<String, String> {
    let engine = device.engine().build().map_err(say)?;
    let gpu = engine.device(GPU).map_err(say)?;
    for length in [1, 100, 4096, 1 << 18] {
        let values: Vec<u64> = (0..length).collect();
        let (x, y) = (DeviceData::from_slice(&gpu, &values), DeviceData::zeros(&gpu, length as usize));
        let (x, y, back) = (x.map_err(say)?, y.map_err(say)?, PinnedData::zeros(&gpu, length as usize).map_err(say)?);
        engine.copy(&x, &y).map_err(say)?;
        push(device, &engine, &y, 7, 3)?;
        engine.copy(&y, &back).map_err(say)?;
        engine.wait_for_var_timeout(back.variable(), LIMIT).map_err(say)?;
        let found = back.read().map_err(say)?;
        let wrong = found.iter().zip(&values).position(|(found, value)| *found != mixed(*value, [0; 3], 7, 3));
        holds(wrong.is_none(), format!("number {wrong:?} of {length} is wrong"))?;
    }
    Ok("four lengths".to_owned())
}

fn borrowed_until_done(device: &Device) -> Result<String, String> {
    let engine = device.engine().build().map_err(say)?;
    let gpu = engine.device(GPU).map_err(say)?;
    let x = DeviceData::<u64>::zeros(&gpu, 1).map_err(say)?;
    let back = PinnedData::<u64>::zeros(&gpu, 1).map_err(say)?;
    let mut conflicts = 0;
    for round in 1..=20u64 {
        device.rests(true);
        // A long kernel, so that the copy behind it is queued long before it is done.
        push(device, &engine, &x, round, 100_000)?;
        engine.copy(&x, &back).map_err(say)?;
        while engine.version(back.variable()).map_err(say)? < round {
            std::thread::yield_now();
        }
        match back.read() {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::BorrowConflict => conflicts += 1,
            Err(error) => return Err(error.to_string()),
        }
        device.rests(false);
        engine.wait_for_var_timeout(back.variable(), LIMIT).map_err(say)?;
        let expected = (1..=round).fold(0, |value, id| mixed(value, [0; 3], id, 100_000));
        holds(back.read().map_err(say)?[0] == expected, format!("round {round} has come back wrong"))?;
    }
    holds(conflicts > 0, "no borrow came before the device was done")?;
    Ok(format!("{conflicts} of 20 borrows came too early and were refused"))
}

fn limited(device: &Device) -> Result<String, String> {
    let engine = device.engine().gpu_memory(1 << 20).build().map_err(say)?;
    let gpu = engine.device(GPU).map_err(say)?;
    let _kept = DeviceData::<u8>::zeros(&gpu, 1 << 19).map_err(say)?;
    let error = refused(DeviceData::<u8>::zeros(&gpu, 1 << 20), ErrorKind::OutOfMemory)?;
    // What fits is still given.
    DeviceData::<u8>::zeros(&gpu, 1 << 18).map_err(say)?;
    Ok(error.to_string())
}

fn absent(device: &Device) -> Result<String, String> {
    let engine = device.engine().build().map_err(say)?;
    let pushed = engine.op("kernel").context(Context::gpu(1000)).push(|_| ());
    refused(pushed, ErrorKind::DeviceUnavailable).map(|error| error.to_string())
}

fn failed(device: &Device) -> Result<String, String> {
    let engine = device.engine().on_error(|_| ()).build().map_err(say)?;
    let gpu = engine.device(GPU).map_err(say)?;
    let (x, y) = (DeviceData::<u64>::zeros(&gpu, 1).map_err(say)?, DeviceData::<u64>::zeros(&gpu, 1).map_err(say)?);
    push(device, &engine, &x, 1, 1000)?;
    engine.op("fails").context(GPU).write(&x).push(|_| Err::<(), _>("on purpose")).map_err(say)?;
    engine.copy(&x, &y).map_err(say)?;
    let said = engine.wait_for_var_timeout(y.variable(), LIMIT);
    let text = said.err().map(|error| error.to_string()).unwrap_or_default();
    holds(text.contains("on purpose"), format!("what reads it was not told: {text:?}"))?;
    let _ = engine.wait_for_all_timeout(LIMIT);
    push(device, &engine, &x, 1, 0)?;
    engine.wait_for_var_timeout(x.variable(), LIMIT).map_err(say)?;
    Ok("and the device goes on".to_owned())
}

fn two_engines(device: &Device) -> Result<String, String> {
    let run = |seed| crate::programs::program(device, seed, 300);
    std::thread::scope(|scope| {
        let others = [101, 102].map(|seed| scope.spawn(move || run(seed)));
        let ended = others.into_iter().map(|other| other.join().map_err(|_| "a thread panicked".to_owned())?);
        ended.collect::<Result<(), String>>()
    })?;
    Ok("two random programs".to_owned())
}

/// A kernel uses an address that is not there: the device is lost, waits say so and name the
/// operation, and the processor goes on.
///
/// # Errors
/// If it is not so.
pub fn lost(device: &Device) -> Result<String, String> {
    let engine = device.engine().build().map_err(say)?;
    let gpu = engine.device(GPU).map_err(say)?;
    let x = DeviceData::<u64>::zeros(&gpu, 1).map_err(say)?;
    let back = PinnedData::<u64>::zeros(&gpu, 1).map_err(say)?;
    let mix = Arc::clone(&device.mix);
    // The bit is that of addresses of a device, for the stand-in.
    let nowhere = RawMemory::new(without_provenance_mut(1 << 62 | 0x100));
    let pushed = engine.op("strays").context(GPU).write(&x).push(move |run| {
        let stream = run.stream().ok_or("this operation has no stream")?;
        // SAFETY: it is no memory at all, which the device finds out.
        unsafe { mix.mix(0, stream, &Mixture { out: nowhere, from: [None; 3], id: 1, spin: 0, count: 1 }) }
    });
    pushed.map_err(say)?;
    // The copy is refused if the loss is known by now. Else it is refused in its turn, or finds out
    // what the kernel did: both are told of in the end.
    let copied = engine.copy(&x, &back).and_then(|()| engine.wait_for_var_timeout(back.variable(), LIMIT));
    let error = refused(copied, ErrorKind::DeviceLost)?;
    let rest = engine.wait_for_all_timeout(LIMIT).err().map(|error| error.to_string());
    let texts: Vec<_> = std::iter::once(error.to_string()).chain(rest).collect();
    let named = texts.iter().find(|text| text.contains("strays")).cloned();
    let text = named.ok_or_else(|| format!("the operation is not named: {}", texts.join("; ")))?;
    let later = engine.op("later").context(GPU).push(|_| ());
    refused(later, ErrorKind::DeviceLost)?;
    let y = engine.new_variable();
    engine.op("processor").writes([y]).push(|_| ()).map_err(say)?;
    engine.wait_for_var_timeout(y, LIMIT).map_err(say)?;
    Ok(text)
}
