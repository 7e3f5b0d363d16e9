//! Memory of CUDA's devices, and copies on their streams, for `DeviceMemory`
//! (`src/device/memory.rs`). `src/engine/gpu/` calls it, on any thread that has entered the device,
//! and decides which buffers are used again. Nothing is kept here: `mod.rs` has the functions, and
//! remembers a loss.

use crate::device::cuda::Cuda;
use crate::device::memory::{DeviceMemory, MemoryKind};
use crate::device::raw::{DriverError, RawMemory, RawStream};
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use std::ptr::{null_mut, with_exposed_provenance_mut};

/// Pinned memory that every device of the process can copy from and to.
const PORTABLE: u32 = 1;

fn address(memory: RawMemory) -> CUdeviceptr {
    memory.raw().expose_provenance() as CUdeviceptr
}

// SAFETY: the driver allocates at multiples of 256, and pinned memory is the processor's as well.
// Copies from and to such memory are queued, and do what the driver's documentation says.
unsafe impl DeviceMemory for Cuda {
    fn allocate(&self, device: usize, kind: MemoryKind, bytes: usize) -> Result<RawMemory, DriverError> {
        self.primary(device)?;
        if kind == MemoryKind::Device {
            let mut at: CUdeviceptr = 0;
            // SAFETY: `at` is ours, and the thread has entered the device.
            self.check("cuMemAlloc", unsafe { (self.symbols.allocate)(&mut at, bytes) })?;
            return Ok(RawMemory::new(with_exposed_provenance_mut(at as usize)));
        }
        let mut at = null_mut();
        // SAFETY: as above.
        self.check("cuMemHostAlloc", unsafe { (self.symbols.allocate_pinned)(&mut at, bytes, PORTABLE) })?;
        Ok(RawMemory::new(at))
    }

    unsafe fn free(&self, kind: MemoryKind, memory: RawMemory) {
        if self.is_lost() {
            return; // A device may be lost while what it has is given back, one by one.
        }
        // The result is not used: `check` remembers a lost device.
        let _ = match kind {
            // SAFETY: by the contract.
            MemoryKind::Device => self.check("cuMemFree", unsafe { (self.symbols.free)(address(memory)) }),
            // SAFETY: by the contract.
            MemoryKind::Pinned => self.check("cuMemFreeHost", unsafe { (self.symbols.free_pinned)(memory.raw()) }),
        };
    }

    unsafe fn copy(
        &self,
        stream: RawStream,
        (from_kind, from): (MemoryKind, RawMemory),
        (to_kind, to): (MemoryKind, RawMemory),
        bytes: usize,
    ) -> Result<(), DriverError> {
        if bytes == 0 {
            return Ok(());
        }
        let on: CUstream = stream.raw().cast();
        match (from_kind, to_kind) {
            (MemoryKind::Pinned, MemoryKind::Device) => {
                // SAFETY: by the contract.
                let code = unsafe { (self.symbols.copy_in)(address(to), from.raw(), bytes, on) };
                self.check("cuMemcpyHtoDAsync", code)
            }
            (MemoryKind::Device, MemoryKind::Pinned) => {
                // SAFETY: by the contract.
                let code = unsafe { (self.symbols.copy_out)(to.raw(), address(from), bytes, on) };
                self.check("cuMemcpyDtoHAsync", code)
            }
            // Addresses of all devices are one space, and pinned ones are the same on both sides.
            _ => {
                // SAFETY: by the contract.
                let code = unsafe { (self.symbols.copy_over)(address(to), address(from), bytes, on) };
                self.check("cuMemcpyDtoDAsync", code)
            }
        }
    }

    unsafe fn zero(&self, stream: RawStream, memory: RawMemory, bytes: usize) -> Result<(), DriverError> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: by the contract.
        let code = unsafe { (self.symbols.fill)(address(memory), 0, bytes, stream.raw().cast()) };
        self.check("cuMemsetD8Async", code)
    }
}
