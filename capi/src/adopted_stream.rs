//! Streams of the program's own, or of a library, in the order of variables.

use crate::error::{guard, Failure, SeriatimStatus};
use crate::gpu::SeriatimGpu;
use crate::input::{borrow, produce_handle, reclaim};
use crate::variable::SeriatimVariable;
use seriatim::gpu::{AdoptedStream, RawStream};
use seriatim::{Error, Variable};
use std::ffi::c_void;

/// A stream that the engine does not launch on, and that it brings into the order of variables.
/// Work on it stands between two calls: one has the stream wait, the other says what the work has
/// used. Each is a push, at its place in the order of pushes. Between them nothing else that uses
/// the variable may be pushed, on any thread.
pub struct SeriatimAdoptedStream(AdoptedStream);

/// Calls a method of an adopted stream.
unsafe fn with(
    stream: *const SeriatimAdoptedStream,
    variable: SeriatimVariable,
    call: impl FnOnce(&AdoptedStream, Variable) -> Result<(), Error>,
) -> SeriatimStatus {
    // SAFETY: by the contract of the callers.
    guard(|| call(&unsafe { borrow(stream, "stream") }?.0, variable.into()).map_err(Failure::from))
}

/// Takes a stream of the program's into the order of variables, such as a `CUstream`. CUDA's legacy
/// default stream, which is null, is accepted; `CU_STREAM_PER_THREAD` is not.
///
/// # Errors
/// `SERIATIM_STATUS_STREAM_REFUSED` if the stream is being captured, or is a thread's;
/// `SERIATIM_STATUS_DEVICE_LOST`.
///
/// # Safety
/// `gpu` is a live handle. `stream` is a stream of that GPU, and is not destroyed before the new
/// handle is deleted. No capture of it begins while a function with the handle runs. `out` may be
/// written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_gpu_adopt(
    gpu: *const SeriatimGpu,
    stream: *mut c_void,
    out: *mut *mut SeriatimAdoptedStream,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe {
        produce_handle(out, || Ok(SeriatimAdoptedStream(borrow(gpu, "gpu")?.0.adopt(RawStream::new(stream))?)))
    })
}

/// Has the stream wait for every write of the variable that was pushed before, so that what is put
/// there afterwards may read. Returns when the stream has been told, and does not wait for the GPU.
/// In the order of pushes it is a read of the variable.
///
/// # Errors
/// As `seriatim_push()` and `seriatim_wait_for_variable()`, whose error it leaves to other waits;
/// `SERIATIM_STATUS_STREAM_REFUSED` if the stream is being captured; `SERIATIM_STATUS_DEVICE_LOST`
/// and `SERIATIM_STATUS_DEVICE_UNAVAILABLE` from the driver; `SERIATIM_STATUS_STOPPED` after
/// `seriatim_engine_notify_shutdown()`. The stream may then not wait.
///
/// # Safety
/// `stream` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_adopted_stream_wait_to_read(
    stream: *const SeriatimAdoptedStream,
    variable: SeriatimVariable,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    unsafe { with(stream, variable, AdoptedStream::wait_to_read) }
}

/// Has the stream wait for every use of the variable that was pushed before, so that what is put
/// there afterwards may change it. In the order of pushes it is a write of the variable. Otherwise
/// as `seriatim_adopted_stream_wait_to_read()`.
///
/// # Errors
/// As `seriatim_adopted_stream_wait_to_read()`.
///
/// # Safety
/// `stream` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_adopted_stream_wait_to_write(
    stream: *const SeriatimAdoptedStream,
    variable: SeriatimVariable,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    unsafe { with(stream, variable, AdoptedStream::wait_to_write) }
}

/// Says that what is on the stream by now reads the variable: writes that are pushed later come
/// after it.
///
/// # Errors
/// Those of a push; `SERIATIM_STATUS_STREAM_REFUSED` if the stream is being captured;
/// `SERIATIM_STATUS_DEVICE_LOST` and `SERIATIM_STATUS_DEVICE_UNAVAILABLE` from the driver. After an
/// error nothing was pushed.
///
/// # Safety
/// `stream` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_adopted_stream_has_read(
    stream: *const SeriatimAdoptedStream,
    variable: SeriatimVariable,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    unsafe { with(stream, variable, AdoptedStream::has_read) }
}

/// Says that what is on the stream by now changes the variable: whatever is pushed later comes
/// after it.
///
/// # Errors
/// As `seriatim_adopted_stream_has_read()`.
///
/// # Safety
/// `stream` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_adopted_stream_has_written(
    stream: *const SeriatimAdoptedStream,
    variable: SeriatimVariable,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    unsafe { with(stream, variable, AdoptedStream::has_written) }
}

/// Deletes the handle; a null pointer is fine. The stream is the program's, and lives on.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `stream` is null or a live handle, which is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_adopted_stream_delete(stream: *mut SeriatimAdoptedStream) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        unsafe { reclaim(stream) };
        Ok(())
    })
}
