//! An array of a random program, on a device or pinned: how kernels and the processor use it, so
//! that the stand-in judges every access.

use crate::client::{host_memory, memory, queue, queue_again};
use crate::programs::LIMIT;
use seriatim::gpu::{DeviceData, DeviceHandle, PinnedData};
use seriatim::{Capture, Context, Engine, Error, RunContext, Variable};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// All arrays are of one size class, so that memory goes from array to array.
const LENGTH: usize = 40;
const BYTES: usize = LENGTH * 8;
const ILLEGAL_ADDRESS: i32 = 700;

#[derive(Clone)]
pub struct Array {
    context: Context,
    memory: Memory,
}

#[derive(Clone)]
enum Memory {
    Device(DeviceData<u64>),
    Pinned(PinnedData<u64>),
}

/// The value of an array: all its numbers are one, of which the first and the last are looked at.
pub struct Value([&'static AtomicU64; 2]);

impl Value {
    /// The value at an address that the stand-in has allowed.
    fn at(start: *mut u8) -> Option<Value> {
        // SAFETY: the array has so many numbers, and memory of the stand-in is aligned and leaked;
        // if several threads use it at once, which a test finds, then by this type.
        let at = |index: usize| unsafe { AtomicU64::from_ptr(start.cast::<u64>().add(index)) };
        (!start.is_null()).then(|| Value([at(0), at(LENGTH - 1)]))
    }

    pub fn get(&self) -> u64 {
        let [first, last] = self.0.map(|number| number.load(Relaxed));
        // Half a copy is no value that a program expects.
        if first == last {
            first
        } else {
            first ^ last.rotate_left(32) ^ 0xBAD
        }
    }

    pub fn set(&self, value: u64) {
        self.0.iter().for_each(|number| number.store(value, Relaxed));
    }
}

fn said(error: Error) -> String {
    error.to_string()
}

impl Array {
    /// Zeros on a device.
    pub fn zeros(device: &DeviceHandle) -> Result<Array, Error> {
        Ok(Array { context: device.context(), memory: Memory::Device(DeviceData::zeros(device, LENGTH)?) })
    }

    pub fn of(device: &DeviceHandle, on_device: bool, value: u64) -> Result<Array, Error> {
        let values = [value; LENGTH];
        let memory = match on_device {
            true => Memory::Device(DeviceData::from_slice(device, &values)?),
            false => Memory::Pinned(PinnedData::from_slice(device, &values)?),
        };
        Ok(Array { context: device.context(), memory })
    }

    pub fn context(&self) -> Context {
        self.context
    }

    pub fn is_on_device(&self) -> bool {
        matches!(self.memory, Memory::Device(_))
    }

    pub fn variable(&self) -> Variable {
        match &self.memory {
            Memory::Device(array) => array.variable(),
            Memory::Pinned(array) => array.variable(),
        }
    }

    /// Pushes a copy, of which one end is on a device.
    pub fn copy_to(&self, to: &Array, engine: &Engine) -> Result<(), Error> {
        match (&self.memory, &to.memory) {
            (Memory::Device(from), Memory::Device(to)) => engine.copy(from, to),
            (Memory::Device(from), Memory::Pinned(to)) => engine.copy(from, to),
            (Memory::Pinned(from), Memory::Device(to)) => engine.copy(from, to),
            (Memory::Pinned(from), Memory::Pinned(to)) => engine.copy(from, to),
        }
    }

    /// Records a copy, of which one end is on a device.
    pub fn record_copy_to(&self, to: &Array, capture: &mut Capture) -> Result<(), Error> {
        match (&self.memory, &to.memory) {
            (Memory::Device(from), Memory::Device(to)) => capture.copy(from, to),
            (Memory::Device(from), Memory::Pinned(to)) => capture.copy(from, to),
            (Memory::Pinned(from), Memory::Device(to)) => capture.copy(from, to),
            (Memory::Pinned(from), Memory::Pinned(to)) => capture.copy(from, to),
        }
    }

    /// A pinned copy, once it is there.
    pub fn back(&self, engine: &Engine, devices: &[DeviceHandle]) -> Result<Array, Error> {
        let back = Array::of(&devices[self.context.id() as usize], false, 0)?;
        self.copy_to(&back, engine)?;
        engine.wait_for_var_timeout(back.variable(), LIMIT)?;
        Ok(back)
    }

    /// The processor borrows a pinned array for `usage`.
    pub fn borrow<T>(&self, id: u64, writes: bool, usage: impl FnOnce(&Value) -> T) -> Result<T, String> {
        let Memory::Pinned(array) = &self.memory else { return Err("the processor has no such array".to_owned()) };
        let uses = |start: usize| {
            let value = Value::at(host_memory(start as u64, BYTES, writes, id)).ok_or("memory may not be used")?;
            Ok(usage(&value))
        };
        match writes {
            true => uses(array.write().map_err(said)?.as_mut_ptr().expose_provenance()),
            false => uses(array.read().map_err(said)?.as_ptr().expose_provenance()),
        }
    }

    /// The address for an operation of the device.
    fn address(&self, run: &RunContext<'_>, writes: bool) -> Result<u64, String> {
        let address = match (&self.memory, writes) {
            (Memory::Device(array), false) => array.read_on(run),
            (Memory::Device(array), true) => array.write_on(run),
            (Memory::Pinned(array), false) => array.read_on(run),
            (Memory::Pinned(array), true) => array.write_on(run),
        };
        Ok(address.map_err(said)?.raw().addr() as u64)
    }

    /// Queues a kernel that reads `from`, if there is one, and gives its value to `change`.
    pub fn kernel(
        &self,
        run: &RunContext<'_>,
        id: u64,
        from: Option<&Array>,
        change: impl FnOnce(Option<u64>, &Value) + Send + 'static,
    ) -> Result<(), String> {
        let from = from.map(|from| from.address(run, false)).transpose()?;
        let to = self.address(run, true)?;
        queued(run, move || {
            let read = match from {
                Some(from) => Some(Value::at(memory(from, BYTES, false, id))?.get()),
                None => None,
            };
            change(read, &Value::at(memory(to, BYTES, true, id))?);
            Some(())
        })
    }

    /// Queues a kernel that only reads the array.
    pub fn look(&self, run: &RunContext<'_>, id: u64) -> Result<(), String> {
        let at = self.address(run, false)?;
        queued(run, move || Value::at(memory(at, BYTES, false, id)).map(|_| ()))
    }

    /// As [`Array::look`], for what is captured, and launched again and again.
    pub fn look_again(&self, run: &RunContext<'_>, id: u64) -> Result<(), String> {
        let (at, stream) = (self.address(run, false)?, run.stream().ok_or(NO_STREAM)?);
        let look = move || Value::at(memory(at, BYTES, false, id)).map_or(ILLEGAL_ADDRESS, |_| 0);
        accepted(queue_again(stream.raw(), look))
    }
}

const NO_STREAM: &str = "an operation of a device has no stream";

fn accepted(code: i32) -> Result<(), String> {
    match code {
        0 => Ok(()),
        code => Err(format!("the driver refuses work: {code}")),
    }
}

/// Queues a kernel on the operation's stream; one that may not use its memory loses the device.
fn queued(run: &RunContext<'_>, body: impl FnOnce() -> Option<()> + Send + 'static) -> Result<(), String> {
    let stream = run.stream().ok_or(NO_STREAM)?;
    accepted(queue(stream.raw(), move || body().map_or(ILLEGAL_ADDRESS, |()| 0)))
}
