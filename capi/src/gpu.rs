//! GPUs of an engine, and how much memory it has there.

use crate::engine::SeriatimEngine;
use crate::error::{guard, Failure, SeriatimStatus};
use crate::input::{bad, borrow, produce, produce_handle, reclaim};
use seriatim::gpu::{DeviceHandle, MemoryKind};
use seriatim::Context;

/// A GPU of an engine. As long as there is one, or an array or an adopted stream of it, the engine
/// does not end.
pub struct SeriatimGpu(pub(crate) DeviceHandle);

/// Where memory lies.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeriatimMemory {
    /// On the GPU.
    Device = 0,
    /// On the processor's side, where the GPU can copy from and to without the processor.
    Pinned = 1,
}

/// How much memory an engine has of a GPU, in bytes of whole buffers.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SeriatimMemoryUsage {
    /// In arrays.
    pub in_use: usize,
    /// In buffers of deleted arrays, which are kept for the next ones.
    pub kept: usize,
    /// The most that was ever in arrays.
    pub peak: usize,
}

/// The kind of memory with this number.
pub(crate) fn memory_kind(number: u32) -> Result<MemoryKind, Failure> {
    const DEVICE: u32 = SeriatimMemory::Device as u32;
    const PINNED: u32 = SeriatimMemory::Pinned as u32;
    match number {
        DEVICE => Ok(MemoryKind::Device),
        PINNED => Ok(MemoryKind::Pinned),
        other => {
            Err(bad(format!("{other} is not a kind of memory: there are {DEVICE} (device) and {PINNED} (pinned)")))
        }
    }
}

/// A GPU of an engine, made ready if it has not been used.
///
/// # Errors
/// `SERIATIM_STATUS_DEVICE_UNAVAILABLE` if it cannot be used, and the text says why: this library
/// was built without GPUs, there is no driver, or no such device. `SERIATIM_STATUS_DEVICE_LOST`.
/// `SERIATIM_STATUS_UNKNOWN_DEVICE` if the number is above 1023.
///
/// # Safety
/// `engine` is a live handle. `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_gpu_open(
    engine: *const SeriatimEngine,
    id: u32,
    out: *mut *mut SeriatimGpu,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { produce_handle(out, || Ok(SeriatimGpu(borrow(engine, "engine")?.0.device(Context::gpu(id))?))) })
}

/// How much memory the engine has of the GPU. `memory` is a `SeriatimMemory`.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `gpu` is a live handle. `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_gpu_memory(
    gpu: *const SeriatimGpu,
    memory: u32,
    out: *mut SeriatimMemoryUsage,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe {
        produce(out, || {
            let usage = borrow(gpu, "gpu")?.0.memory(memory_kind(memory)?);
            Ok(SeriatimMemoryUsage { in_use: usage.in_use, kept: usage.kept, peak: usage.peak })
        })
    })
}

/// Has the buffers freed that are kept for the next arrays, as far as the GPU is done with them;
/// says how many. The call does not wait: a thread of the engine frees them, since the driver may
/// wait for the GPU meanwhile, and `seriatim_wait_for_all()` waits for that. An engine that is
/// naive or stopped frees in the call. Where there is no room for a new array the engine frees by
/// itself.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `gpu` is a live handle. `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_gpu_trim(gpu: *const SeriatimGpu, out: *mut usize) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { produce(out, || Ok(borrow(gpu, "gpu")?.0.trim())) })
}

/// Deletes the handle; a null pointer is fine. Arrays and adopted streams of the GPU live on.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `gpu` is null or a live handle, which is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_gpu_delete(gpu: *mut SeriatimGpu) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        unsafe { reclaim(gpu) };
        Ok(())
    })
}
