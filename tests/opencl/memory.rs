//! The memory of the back end: a buffer of OpenCL for each piece on a device. Pinned memory is the
//! processor's; the driver copies from and to it.

use crate::backend::{lock, refused, OpenCl};
use crate::library::{made, Object, FALSE, READ_WRITE};
use seriatim::gpu::{DriverError, Memory, MemoryKind, RawMemory, RawStream};
use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::ptr::{null, null_mut};

/// What memory is filled with.
static ZERO: u8 = 0;

// SAFETY: buffers and the allocator's memory are memory, and aligned. In-order queues do the work.
unsafe impl Memory for OpenCl {
    fn allocate(&self, _: usize, kind: MemoryKind, bytes: usize) -> Result<RawMemory, DriverError> {
        let layout = Layout::from_size_align(bytes, 64).map_err(|_| DriverError::refused("too large"))?;
        let memory = match kind {
            MemoryKind::Device => {
                let library = &self.driver.library;
                let made = made("clCreateBuffer", |code| {
                    // SAFETY: the driver allocates the memory.
                    unsafe { (library.call.create_buffer)(library.context, READ_WRITE, bytes, null_mut(), code) }
                });
                made.map_err(DriverError::refused)?.0
            }
            // SAFETY: the engine asks for at least 512 bytes.
            _ => unsafe { alloc_zeroed(layout) }.cast(),
        };
        if memory.is_null() {
            return Err(DriverError::refused("out of memory"));
        }
        lock(&self.memory).insert(memory.addr(), layout);
        Ok(RawMemory::new(memory))
    }

    unsafe fn free(&self, kind: MemoryKind, memory: RawMemory) {
        let layout = lock(&self.memory).remove(&memory.raw().addr()).expect("it was allocated here");
        match kind {
            // SAFETY: it is a buffer, which nobody uses any more.
            MemoryKind::Device => _ = unsafe { (self.driver.library.call.release_memory)(Object(memory.raw())) },
            // SAFETY: it was allocated with this layout.
            _ => unsafe { dealloc(memory.raw().cast(), layout) },
        }
    }

    unsafe fn copy(
        &self,
        stream: RawStream,
        (from_kind, from): (MemoryKind, RawMemory),
        (to_kind, to): (MemoryKind, RawMemory),
        bytes: usize,
    ) -> Result<(), DriverError> {
        self.queue(stream, move |driver, queue, _| {
            let (call, from, to) = (&driver.library.call, from.raw(), to.raw());
            let code = match (from_kind, to_kind) {
                // SAFETY: by the contract, both have so many bytes, and are there until it is done.
                (MemoryKind::Device, MemoryKind::Device) => unsafe {
                    (call.copy)(queue, Object(from), Object(to), 0, 0, bytes, 0, null(), null_mut())
                },
                // SAFETY: as above.
                (MemoryKind::Device, _) => unsafe {
                    (call.read)(queue, Object(from), FALSE, 0, bytes, to, 0, null(), null_mut())
                },
                // SAFETY: as above.
                (_, MemoryKind::Device) => unsafe {
                    (call.write)(queue, Object(to), FALSE, 0, bytes, from, 0, null(), null_mut())
                },
                _ => panic!("no queue of OpenCL copies from the processor's memory to the processor's"),
            };
            refused("a copy", code)
        })
    }

    unsafe fn zero(&self, stream: RawStream, memory: RawMemory, bytes: usize) -> Result<(), DriverError> {
        self.queue(stream, move |driver, queue, _| {
            // SAFETY: by the contract, it has so many bytes, a multiple of one, and is there until
            // it is done.
            refused("clEnqueueFillBuffer", unsafe {
                let (zero, memory) = ((&raw const ZERO).cast(), Object(memory.raw()));
                (driver.library.call.fill)(queue, memory, zero, 1, 0, bytes, 0, null(), null_mut())
            })
        })
    }
}
