//! Arrays of bytes on a GPU and in pinned memory, each with a variable, and copies between them.

use crate::capture::SeriatimCapture;
use crate::error::{guard, guard_value, Failure, SeriatimStatus};
use crate::gpu::{memory_kind, SeriatimGpu};
use crate::input::{bad, borrow, borrow_mut, list, null, produce_handle, produce_pointer, reclaim};
use crate::run_context::SeriatimRunContext;
use crate::variable::SeriatimVariable;
use seriatim::gpu::{DeviceData, DeviceHandle, MemoryKind, PinnedData, RawMemory};
use seriatim::{Error, RunContext, Variable};
use std::ffi::c_void;

/// An array of bytes on a GPU, or in pinned memory, and the variable that stands for it.
pub struct SeriatimArray {
    gpu: DeviceHandle,
    length: usize,
    bytes: Bytes,
}

enum Bytes {
    Device(DeviceData<u8>),
    Pinned(PinnedData<u8>),
}

/// Has an engine or a capture copy one array to another, whatever kinds of memory they are of. A
/// macro, since each pair of kinds is a type of its own.
macro_rules! copy {
    ($by:expr_2021, $from:expr_2021, $to:expr_2021) => {
        match (&$from.bytes, &$to.bytes) {
            (Bytes::Device(from), Bytes::Device(to)) => $by.copy(from, to),
            (Bytes::Device(from), Bytes::Pinned(to)) => $by.copy(from, to),
            (Bytes::Pinned(from), Bytes::Device(to)) => $by.copy(from, to),
            (Bytes::Pinned(from), Bytes::Pinned(to)) => $by.copy(from, to),
        }
    };
}

impl SeriatimArray {
    fn variable(&self) -> Variable {
        match &self.bytes {
            Bytes::Device(data) => data.variable(),
            Bytes::Pinned(data) => data.variable(),
        }
    }

    fn pinned(&self) -> Result<&PinnedData<u8>, Failure> {
        match &self.bytes {
            Bytes::Device(_) => Err(bad("this array is on a GPU: copy it to a pinned one to look at it")),
            Bytes::Pinned(data) => Ok(data),
        }
    }

    fn read_on(&self, run: &RunContext<'_>) -> Result<RawMemory, Error> {
        match &self.bytes {
            Bytes::Device(data) => data.read_on(run),
            Bytes::Pinned(data) => data.read_on(run),
        }
    }

    fn write_on(&self, run: &RunContext<'_>) -> Result<RawMemory, Error> {
        match &self.bytes {
            Bytes::Device(data) => data.write_on(run),
            Bytes::Pinned(data) => data.write_on(run),
        }
    }
}

/// Makes an array of `bytes` bytes. `memory` is a `SeriatimMemory`; `from` has the bytes, which are
/// copied during the call, or is null for zeros. The array begins at a multiple of 64.
///
/// The driver is asked for memory only if no array of this size was deleted before. If memory has
/// to be freed first, the call does not wait for that: the operations that use the array do, and a
/// pinned one is looked at after a wait for its variable. If there is none even then, the first of
/// them fails, which fills the array. On the naive engine the call frees, and the driver may wait
/// for the GPU meanwhile.
///
/// # Errors
/// `SERIATIM_STATUS_OUT_OF_MEMORY`; those of `seriatim_gpu_open()`, and those of a push.
///
/// # Safety
/// `gpu` is a live handle. `from` is null or points to `bytes` bytes. `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_array_new(
    gpu: *const SeriatimGpu,
    memory: u32,
    bytes: usize,
    from: *const c_void,
    out: *mut *mut SeriatimArray,
) -> SeriatimStatus {
    let make = || {
        // SAFETY: by the contract.
        let gpu = &unsafe { borrow(gpu, "gpu") }?.0;
        let from = match from.is_null() {
            true => None,
            // SAFETY: by the contract.
            false => Some(unsafe { list(from.cast::<u8>(), bytes, "from") }?),
        };
        let length = bytes;
        let bytes = match (memory_kind(memory)?, from) {
            (MemoryKind::Device, None) => Bytes::Device(DeviceData::zeros(gpu, bytes)?),
            (MemoryKind::Device, Some(from)) => Bytes::Device(DeviceData::from_slice(gpu, from)?),
            (_, None) => Bytes::Pinned(PinnedData::zeros(gpu, bytes)?),
            (_, Some(from)) => Bytes::Pinned(PinnedData::from_slice(gpu, from)?),
        };
        Ok(SeriatimArray { gpu: gpu.clone(), length, bytes })
    };
    // SAFETY: by the contract.
    guard(|| unsafe { produce_handle(out, make) })
}

/// The variable that stands for the array: declare it in operations that use the array. All zeros
/// if `array` is null.
///
/// # Safety
/// `array` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_array_variable(array: *const SeriatimArray) -> SeriatimVariable {
    // SAFETY: by the contract.
    guard_value(SeriatimVariable::default(), || Ok(unsafe { borrow(array, "array") }?.variable().into()))
}

/// The number of bytes; 0 if `array` is null.
///
/// # Safety
/// `array` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_array_length(array: *const SeriatimArray) -> usize {
    // SAFETY: by the contract.
    guard_value(0, || Ok(unsafe { borrow(array, "array") }?.length))
}

/// The address of the array, for an operation of its GPU that has declared to read it: for what the
/// function puts on its stream. For CUDA it is a `CUdeviceptr`.
///
/// # Errors
/// `SERIATIM_STATUS_UNDECLARED_ACCESS` if the operation has not declared the variable;
/// `SERIATIM_STATUS_BUFFER_MISMATCH` if it runs elsewhere; `SERIATIM_STATUS_BORROW_CONFLICT` if the
/// array is in use in another way; `SERIATIM_STATUS_OUT_OF_MEMORY` or `SERIATIM_STATUS_DEVICE_LOST`
/// if its memory never came, for an operation that runs all the same (`NO_SKIP`).
///
/// # Safety
/// `array` is a live handle. `run` was given to the function that is running on this thread. `out`
/// may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_array_read_on(
    array: *const SeriatimArray,
    run: *const SeriatimRunContext,
    out: *mut *mut c_void,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { produce_pointer(out, || Ok(borrow(array, "array")?.read_on(borrow(run, "run")?.run())?.raw())) })
}

/// The address of the array, for an operation of its GPU that has declared to change it. Otherwise
/// as `seriatim_array_read_on()`.
///
/// # Errors
/// As `seriatim_array_read_on()`.
///
/// # Safety
/// As `seriatim_array_read_on()`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_array_write_on(
    array: *const SeriatimArray,
    run: *const SeriatimRunContext,
    out: *mut *mut c_void,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { produce_pointer(out, || Ok(borrow(array, "array")?.write_on(borrow(run, "run")?.run())?.raw())) })
}

/// The part of `whole` bytes that begins at `offset` and is `bytes` long.
fn part(whole: usize, offset: usize, bytes: usize) -> Result<std::ops::Range<usize>, Failure> {
    let end = offset.checked_add(bytes).filter(|end| *end <= whole);
    let beyond = || bad(format!("{bytes} bytes from {offset} on are not in an array of {whole} bytes"));
    end.map(|end| offset..end).ok_or_else(beyond)
}

/// Copies bytes out of a pinned array: in an operation of the processor that has declared it, or
/// between operations, after a wait for its variable.
///
/// # Errors
/// `SERIATIM_STATUS_BORROW_CONFLICT` if a GPU has still to write the array, another thread changes
/// it, or its memory is still to come; `SERIATIM_STATUS_OUT_OF_MEMORY` if that never came;
/// `SERIATIM_STATUS_UNDECLARED_ACCESS` if the running operation has not declared it;
/// `SERIATIM_STATUS_DEVICE_LOST` if a lost GPU should have written it;
/// `SERIATIM_STATUS_BAD_ARGUMENT` if it is on a GPU, or the bytes are not in it.
///
/// # Safety
/// `array` is a live handle. `to` points to room for `bytes` bytes; it may be null if that is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_array_get(
    array: *const SeriatimArray,
    offset: usize,
    to: *mut c_void,
    bytes: usize,
) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        let pinned = unsafe { borrow(array, "array") }?.pinned()?;
        let found = pinned.read()?;
        let found = &found[part(found.len(), offset, bytes)?];
        if bytes > 0 && to.is_null() {
            return Err(null("to"));
        }
        // SAFETY: by the contract there is room; the array is borrowed.
        unsafe { to.cast::<u8>().copy_from(found.as_ptr(), bytes) };
        Ok(())
    })
}

/// Copies bytes into a pinned array: in an operation of the processor that has declared to change
/// it, or between operations, after a wait until its variable is unused.
///
/// # Errors
/// As `seriatim_array_get()`; also `SERIATIM_STATUS_BORROW_CONFLICT` if a GPU has still to read the
/// array, or another thread reads it.
///
/// # Safety
/// `array` is a live handle. `from` points to `bytes` bytes; it may be null if that is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_array_set(
    array: *const SeriatimArray,
    offset: usize,
    from: *const c_void,
    bytes: usize,
) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        let pinned = unsafe { borrow(array, "array") }?.pinned()?;
        let mut found = pinned.write()?;
        let part = part(found.len(), offset, bytes)?;
        // SAFETY: by the contract.
        found[part].copy_from_slice(unsafe { list(from.cast::<u8>(), bytes, "from") }?);
        Ok(())
    })
}

/// Pushes a copy of an array to another one of the same length, of the same engine: an operation
/// that reads `from` and changes `to`. To a GPU, from one, or from one to another.
///
/// # Errors
/// `SERIATIM_STATUS_BUFFER_MISMATCH` if the lengths are not equal, if both arrays are one, or if
/// both are pinned; otherwise as `seriatim_push()`.
///
/// # Safety
/// Both are live handles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_copy(from: *const SeriatimArray, to: *const SeriatimArray) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        let (from, to) = unsafe { (borrow(from, "from")?, borrow(to, "to")?) };
        let engine = to.gpu.engine();
        copy!(engine, from, to).map_err(Failure::from)
    })
}

/// Records a copy, which `seriatim_copy()` would push. Each replay copies what is there then. The
/// handles of the arrays may be deleted: the graph keeps what they stand for.
///
/// # Errors
/// `SERIATIM_STATUS_BUFFER_MISMATCH` as for `seriatim_copy()`; otherwise as
/// `seriatim_capture_push()`. The capture then goes on without the copy.
///
/// # Safety
/// `capture` is a live handle, which no other thread uses at the same time. Both arrays are live
/// handles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_capture_copy(
    capture: *mut SeriatimCapture,
    from: *const SeriatimArray,
    to: *const SeriatimArray,
) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        let (capture, from, to) =
            unsafe { (borrow_mut(capture, "capture")?, borrow(from, "from")?, borrow(to, "to")?) };
        let capture = &mut capture.0;
        copy!(capture, from, to).map_err(Failure::from)
    })
}

/// Deletes an array and its variable; a null pointer is fine. Operations that were pushed before
/// may still use the array on their streams: the memory goes on to another array with the order
/// that it owes. A function that is called later must not be given the handle.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `array` is null or a live handle, which is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_array_delete(array: *mut SeriatimArray) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        unsafe { reclaim(array) };
        Ok(())
    })
}
