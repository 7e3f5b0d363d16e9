//! The seam for memory: [`DeviceMemory`], for back ends whose devices the engine allocates on and
//! copies to; and [`Plain`], the types of the values in such memory.
//!
//! `src/engine/gpu/allocate.rs` (memory) and `src/engine/gpu/lease.rs` (copies) call it, on any
//! thread that has entered the device; `cuda/` and `immediate.rs` implement it. Which buffer is
//! used again is decided in `src/engine/gpu/buffers.rs`.

use crate::device::raw::{DriverError, RawMemory, RawStream};

/// Where memory lies.
///
/// ```
/// use seriatim::gpu::MemoryKind;
/// assert_ne!(MemoryKind::Device, MemoryKind::Pinned);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum MemoryKind {
    /// On the device.
    Device,
    /// On the processor's side, where the device can copy from and to without the processor.
    Pinned,
}

/// The memory of a back end, and what is queued on streams to fill it.
///
/// All methods are called from several threads at once. The calling thread has entered the device.
///
/// # Safety
/// - What `allocate` returns is memory of at least so many bytes, which overlaps no other until it
///   is freed. It begins at a multiple of 64.
/// - A handle of [`MemoryKind::Pinned`] is an address, and the processor may read and write so many
///   bytes from there on any thread.
/// - `copy` and `zero` change no memory but what they are told to, and are done when the stream is.
/// - No method unwinds.
///
/// ```
/// use seriatim::gpu::{DriverError, DeviceMemory, MemoryKind, RawMemory, RawStream};
/// use std::alloc::{alloc, dealloc, Layout};
/// use std::collections::HashMap;
/// use std::ptr::null_mut;
/// use std::sync::{Mutex, MutexGuard, PoisonError};
///
/// /// The memory of a device on which everything ends at once: that of the processor.
/// #[derive(Default)]
/// struct Host(Mutex<HashMap<usize, Layout>>);
///
/// impl Host {
///     fn layouts(&self) -> MutexGuard<'_, HashMap<usize, Layout>> {
///         self.0.lock().unwrap_or_else(PoisonError::into_inner)
///     }
/// }
///
/// // SAFETY: the allocator's memory is memory, everything is done when the call returns, and
/// // nothing unwinds.
/// unsafe impl DeviceMemory for Host {
///     fn allocate(&self, _: usize, _: MemoryKind, bytes: usize) -> Result<RawMemory, DriverError> {
///         let layout = Layout::from_size_align(bytes, 64).map_err(|_| DriverError::refused("too large"))?;
///         // SAFETY: the engine asks for at least 512 bytes.
///         let memory = unsafe { alloc(layout) };
///         if memory.is_null() {
///             return Err(DriverError::refused("out of memory"));
///         }
///         self.layouts().insert(memory.addr(), layout);
///         Ok(RawMemory::new(memory.cast()))
///     }
///
///     unsafe fn free(&self, _: MemoryKind, memory: RawMemory) {
///         let layout = self.layouts().remove(&memory.raw().addr());
///         // SAFETY: it was allocated like this, by the contract.
///         layout.into_iter().for_each(|layout| unsafe { dealloc(memory.raw().cast(), layout) });
///     }
///
///     unsafe fn copy(
///         &self,
///         _: RawStream,
///         (_, from): (MemoryKind, RawMemory),
///         (_, to): (MemoryKind, RawMemory),
///         bytes: usize,
///     ) -> Result<(), DriverError> {
///         // SAFETY: by the contract.
///         unsafe { from.raw().cast::<u8>().copy_to_nonoverlapping(to.raw().cast(), bytes) };
///         Ok(())
///     }
///
///     unsafe fn zero(&self, _: RawStream, memory: RawMemory, bytes: usize) -> Result<(), DriverError> {
///         // SAFETY: by the contract.
///         unsafe { memory.raw().cast::<u8>().write_bytes(0, bytes) };
///         Ok(())
///     }
/// }
///
/// let (host, stream) = (Host::default(), RawStream::new(null_mut()));
/// let memory = host.allocate(0, MemoryKind::Device, 512)?;
/// // SAFETY: nobody else has the memory.
/// unsafe {
///     host.zero(stream, memory, 512)?;
///     assert_eq!(*memory.raw().cast::<u64>(), 0);
///     host.free(MemoryKind::Device, memory);
/// }
/// # Ok::<(), DriverError>(())
/// ```
pub unsafe trait DeviceMemory: Send + Sync {
    /// Takes memory for a device. What it holds is undefined. Called once for memory that is used
    /// again and again; it may block. The engine calls it on the thread that makes an array, or on
    /// the device's watcher if something was to be freed first.
    ///
    /// # Errors
    /// If there is no such memory left, or the library refuses it.
    fn allocate(&self, device: usize, kind: MemoryKind, bytes: usize) -> Result<RawMemory, DriverError>;

    /// Gives memory back. It may block until the device has done what is queued there: the engine
    /// calls it on the device's watcher. Where there is no watcher, on an engine that is naive or
    /// stopped, calls free that need the room or [trim](crate::gpu::DeviceHandle::trim), and so
    /// does the engine's end.
    ///
    /// # Safety
    /// `allocate` of this back end has returned it for this kind, and nobody uses it any more.
    unsafe fn free(&self, kind: MemoryKind, memory: RawMemory);

    /// Queues a copy of so many bytes. Does not block. Both may be of different devices.
    ///
    /// # Safety
    /// Both are memory of this back end, of at least so many bytes, and not the same. They are not
    /// freed before the stream has done the copy; nobody writes to them meanwhile, and nobody reads
    /// `to`.
    ///
    /// # Errors
    /// If the library refuses it, or the device is lost.
    unsafe fn copy(
        &self,
        stream: RawStream,
        from: (MemoryKind, RawMemory),
        to: (MemoryKind, RawMemory),
        bytes: usize,
    ) -> Result<(), DriverError>;

    /// Queues the filling of memory of a device with zeros. Does not block.
    ///
    /// # Safety
    /// As for `to` of [`DeviceMemory::copy`].
    ///
    /// # Errors
    /// If the library refuses it, or the device is lost.
    unsafe fn zero(&self, stream: RawStream, memory: RawMemory, bytes: usize) -> Result<(), DriverError>;
}

/// Types whose every pattern of bytes is a value: what lies in memory of devices.
///
/// # Safety
/// Any bytes are a value of the type, which has no padding and an alignment of at most 64.
///
/// ```
/// use seriatim::gpu::Plain;
///
/// #[derive(Clone, Copy)]
/// #[repr(C)]
/// struct Point([f32; 3]);
///
/// // SAFETY: three numbers, and nothing between them.
/// unsafe impl Plain for Point {}
/// ```
pub unsafe trait Plain: Copy + Send + Sync + 'static {}

macro_rules! plain {
    ($($number:ty)*) => {
        $(
            // SAFETY: a number.
            unsafe impl Plain for $number {}
        )*
    };
}

plain!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

// SAFETY: an array has no padding between its elements.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}
