//! [`Immediate`]: devices that are the processor itself, for programs without a GPU. It implements
//! the seams of `backend.rs`, `memory.rs` and `clock.rs`. Its calls do all work at once, on the
//! calling thread. Streams and marks are null, but for timed marks. A timed mark points to an
//! atomic time, which any thread may record and read until the mark is given back. Nothing else
//! changes.

use crate::device::backend::{Backend, Class};
use crate::device::clock::DeviceClock;
use crate::device::memory::{DeviceMemory, MemoryKind};
use crate::device::raw::{DriverError, Previous, RawMark, RawMemory, RawStream};
use crate::sync::{AtomicU64, Ordering::*};
use std::alloc::{alloc, dealloc, Layout};
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Instant;

/// A back end whose devices are the processor: what an operation does is done when its closure
/// returns. For writing and testing programs where there is no GPU.
///
/// There is nothing on its streams to be ordered, so they are null. Its memory is the processor's,
/// and handles of either kind are addresses. Its clock is the processor's, too.
///
/// ```
/// use seriatim::gpu::{DeviceData, Immediate, PinnedData};
/// use seriatim::{Context, Engine};
///
/// let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
/// let gpu = engine.device(Context::gpu(0))?;
/// let (host, x) = (PinnedData::from_slice(&gpu, &[1.0f32, 2.0])?, DeviceData::zeros(&gpu, 2)?);
/// engine.copy(&host, &x)?;
/// let doubled = x.clone();
/// engine.op("double").context(gpu.context()).write(&x).push(move |run| {
///     let address = doubled.write_on(run)?.raw().cast::<f32>();
///     for index in 0..doubled.len() {
///         // SAFETY: the memory has so many numbers, and is this operation's.
///         unsafe { *address.add(index) *= 2.0 };
///     }
///     Ok::<(), seriatim::Error>(())
/// })?;
/// engine.copy(&x, &host)?;
/// engine.wait_for_var(host.variable())?;
/// assert_eq!(*host.read()?, [2.0, 4.0]);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Debug)]
pub struct Immediate {
    devices: usize,
    epoch: Instant,
}

impl Immediate {
    /// So many devices.
    ///
    /// ```
    /// use seriatim::gpu::{Backend, Immediate};
    /// assert_eq!(Immediate::new(2).devices(), Ok(2));
    /// ```
    pub fn new(devices: usize) -> Arc<Immediate> {
        Arc::new(Immediate { devices, epoch: Instant::now() })
    }
}

// SAFETY: what is queued is done at once, so everything is in order.
unsafe impl Backend for Immediate {
    fn name(&self) -> &str {
        "the processor"
    }

    fn devices(&self) -> Result<usize, DriverError> {
        Ok(self.devices)
    }

    fn enter(&self, _: usize) -> Result<Previous, DriverError> {
        Ok(Previous::new(null_mut()))
    }

    unsafe fn leave(&self, _: Previous) {}

    fn stream(&self, _: usize, _: Class) -> Result<RawStream, DriverError> {
        Ok(RawStream::new(null_mut()))
    }

    fn mark(&self, _: usize) -> Result<RawMark, DriverError> {
        Ok(RawMark::new(null_mut()))
    }

    unsafe fn record(&self, mark: RawMark, _: RawStream) -> Result<(), DriverError> {
        // SAFETY: a mark that is not null is one of `timed_mark`, and alive.
        if let Some(noted) = unsafe { mark.raw().cast::<AtomicU64>().as_ref() } {
            noted.store(self.epoch.elapsed().as_nanos() as u64, Release);
        }
        Ok(())
    }

    unsafe fn wait(&self, _: RawStream, _: RawMark) -> Result<(), DriverError> {
        Ok(())
    }

    unsafe fn reached(&self, _: RawMark) -> Result<bool, DriverError> {
        Ok(true)
    }

    unsafe fn finish(&self, _: RawStream) -> Result<(), DriverError> {
        Ok(())
    }

    unsafe fn drop_stream(&self, _: RawStream) {}

    unsafe fn drop_mark(&self, mark: RawMark) {
        if !mark.raw().is_null() {
            // SAFETY: as in `record`; its owner gives it back.
            drop(unsafe { Box::from_raw(mark.raw().cast::<AtomicU64>()) });
        }
    }

    fn memory(&self) -> Option<&dyn DeviceMemory> {
        Some(self)
    }

    fn clock(&self) -> Option<&dyn DeviceClock> {
        Some(self)
    }
}

// SAFETY: `record` and `drop_mark` know the marks that are not null, and nothing unwinds.
unsafe impl DeviceClock for Immediate {
    /// A place for the time of the last recording. What is recorded is reached at once.
    fn timed_mark(&self, _: usize) -> Result<RawMark, DriverError> {
        Ok(RawMark::new(Box::into_raw(Box::new(AtomicU64::new(0))).cast()))
    }

    unsafe fn elapsed(&self, from: RawMark, to: RawMark) -> Result<i64, DriverError> {
        // SAFETY: by the contract, `timed_mark` has made both.
        let [from, to] = [from, to].map(|mark| unsafe { (*mark.raw().cast::<AtomicU64>()).load(Acquire) });
        Ok(to.wrapping_sub(from) as i64)
    }
}

/// Before each piece of memory lies its size.
const HEAD: usize = 64;

/// The layout of memory of so many bytes and what lies before it.
fn layout(bytes: usize) -> Result<Layout, DriverError> {
    let refused = || DriverError::refused(format!("the processor cannot address {bytes} bytes more"));
    Layout::from_size_align(bytes.checked_add(HEAD).ok_or_else(refused)?, HEAD).map_err(|_| refused())
}

// SAFETY: the allocator's memory is the processor's, does not overlap, and begins after a head of
// 64 bytes that is aligned likewise. Copies are done when the call returns.
unsafe impl DeviceMemory for Immediate {
    fn allocate(&self, _: usize, _: MemoryKind, bytes: usize) -> Result<RawMemory, DriverError> {
        let layout = layout(bytes)?;
        // SAFETY: the size is not 0.
        let start = unsafe { alloc(layout) };
        if start.is_null() {
            return Err(DriverError::refused(format!("the allocator has no {bytes} bytes")));
        }
        // SAFETY: the head is ours, and aligned for a number.
        unsafe { start.cast::<usize>().write(bytes) };
        // SAFETY: it is within the allocation.
        Ok(RawMemory::new(unsafe { start.add(HEAD) }.cast()))
    }

    unsafe fn free(&self, _: MemoryKind, memory: RawMemory) {
        // SAFETY: `allocate` has left the size before the memory, and took it with this layout.
        unsafe {
            let start = memory.raw().cast::<u8>().sub(HEAD);
            let bytes = start.cast::<usize>().read();
            dealloc(start, Layout::from_size_align_unchecked(bytes + HEAD, HEAD));
        }
    }

    unsafe fn copy(
        &self,
        _: RawStream,
        (_, from): (MemoryKind, RawMemory),
        (_, to): (MemoryKind, RawMemory),
        bytes: usize,
    ) -> Result<(), DriverError> {
        // SAFETY: by the contract, both have so many bytes, and are not the same.
        unsafe { from.raw().cast::<u8>().copy_to_nonoverlapping(to.raw().cast(), bytes) };
        Ok(())
    }

    unsafe fn zero(&self, _: RawStream, memory: RawMemory, bytes: usize) -> Result<(), DriverError> {
        // SAFETY: by the contract.
        unsafe { memory.raw().cast::<u8>().write_bytes(0, bytes) };
        Ok(())
    }
}
