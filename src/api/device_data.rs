//! `DeviceData`: an array on a device, and the variable that stands for it.
//!
//! Programs call it, on any thread. The lease in it is guarded as any value in a `Data` is
//! (`src/api/data.rs`): closures borrow it on the device's workers. The thread that drops the last
//! clone, which may be such a worker, gives the memory back; the device may use that a bit longer.
//! What it has in common with `PinnedData` is in `src/api/device_array.rs`, the memory in
//! `src/engine/gpu/lease.rs`, copies in `src/api/copy.rs`.

use crate::api::data::Data;
use crate::api::device_array::{bytes_of, grow_on, lease, read_on, write_on, Array, End, OfDevice};
use crate::api::device_handle::DeviceHandle;
use crate::api::pinned_data::PinnedData;
use crate::device::memory::{MemoryKind, Plain};
use crate::device::raw::RawMemory;
use crate::device::Context;
use crate::engine::gpu::lease::Lease;
use crate::error::{Error, ErrorKind};
use crate::operation::context::RunContext;
use crate::variable::handle::Variable;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};

/// An array in the memory of a device, and the variable that stands for it.
///
/// A handle: clones are the same array. When the last one is dropped, also inside an operation, the
/// variable is deleted and the memory is kept for the next array of about its size. Nobody waits
/// for that: the first use of the next array is ordered behind the last use of this one, on the
/// device. An asynchronous operation has the memory until it is complete, though it keeps no clone.
///
/// The processor does not touch the array: [`Engine::copy`](crate::Engine::copy) brings it to a
/// [`PinnedData`](crate::gpu::PinnedData) and back, and operations of the device use it by its
/// address. [`run_with`](crate::OperationBuilder::run_with) takes `&array` and
/// [`Write(&array)`](crate::Write), and gives its closure a
/// [`DeviceSlice`](crate::gpu::DeviceSlice); or the array is declared as any variable:
///
/// ```
/// use seriatim::gpu::{DeviceData, Immediate};
/// use seriatim::{Context, Engine};
/// let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
/// let gpu = engine.device(Context::gpu(0))?;
/// let (x, y) = (DeviceData::<f32>::zeros(&gpu, 64)?, DeviceData::<f32>::zeros(&gpu, 64)?);
/// let (from, to) = (x.clone(), y.clone());
/// engine.op("kernel").context(gpu.context()).read(&x).write(&y).push(move |run| {
///     let (from, to) = (from.read_on(run)?, to.write_on(run)?);
///     assert_ne!(from, to); // a real operation gives these, and run.stream(), to a kernel
///     Ok::<(), seriatim::Error>(())
/// })?;
/// engine.wait_for_all()?;
/// # Ok::<(), seriatim::Error>(())
/// ```
pub struct DeviceData<T> {
    data: Data<Lease>,
    length: usize,
    context: Context,
    of: PhantomData<fn(T) -> T>,
}

impl<T: Plain> DeviceData<T> {
    /// Makes an array of zeros: pushes an operation that fills it.
    ///
    /// Takes a lock for a few steps. The driver is asked for memory only if no array of this size
    /// was given back before. If kept memory has to be freed first, the call does not wait for
    /// that, since the driver may wait for the device. The watcher of the device frees it, and
    /// operations that use the array are parked until the array has its memory. If there is none
    /// even then, the operation fails that fills the array, and what is behind it. The naive
    /// engine, which has no watcher, frees here.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::ErrorKind::OutOfMemory), if no memory can be freed for it; those of
    /// [`Engine::device`](crate::Engine::device), and those of a push.
    ///
    /// ```
    /// # use seriatim::{gpu::{DeviceData, Immediate}, Context, Engine, ErrorKind};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).gpu_memory(4096).build()?;
    /// let gpu = engine.device(Context::gpu(0))?;
    /// let small = DeviceData::<u32>::zeros(&gpu, 1000)?;
    /// let large = DeviceData::<u32>::zeros(&gpu, 2000);
    /// assert_eq!(large.unwrap_err().kind(), ErrorKind::OutOfMemory);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn zeros(device: &DeviceHandle, length: usize) -> Result<DeviceData<T>, Error> {
        let array = DeviceData::taken(device, length, length)?;
        let target = array.data.clone();
        device.engine().op("zeros").context(device.context()).write(&array.data).push(move |run| {
            let target = target.write()?;
            run.stream().map_or(Ok(()), |stream| target.zero(stream))
        })?;
        Ok(array)
    }

    /// Makes a copy of a slice of the processor's, by way of pinned memory. If that has to be freed
    /// first, the call does not wait either: the values are kept meanwhile
    /// ([`PinnedData::from_slice`](crate::gpu::PinnedData::from_slice)).
    ///
    /// # Errors
    /// Those of [`DeviceData::zeros`].
    ///
    /// ```
    /// # use seriatim::{gpu::{DeviceData, Immediate, PinnedData}, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// let gpu = engine.device(Context::gpu(0))?;
    /// let x = DeviceData::from_slice(&gpu, &[3u64, 4])?;
    /// let back = PinnedData::zeros(&gpu, 2)?;
    /// engine.copy(&x, &back)?;
    /// engine.wait_for_var(back.variable())?;
    /// assert_eq!(*back.read()?, [3, 4]);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn from_slice(device: &DeviceHandle, values: &[T]) -> Result<DeviceData<T>, Error> {
        let staged = PinnedData::from_slice(device, values)?;
        let array = DeviceData::taken(device, values.len(), values.len())?;
        device.engine().copy(&staged, &array)?;
        Ok(array)
    }

    /// Makes an array without filling it, for a program that writes all of it before it reads
    /// anything: otherwise as [`DeviceData::zeros`], without the operation.
    ///
    /// # Safety
    /// What is not written is not read: the memory has never held a value, or holds those of
    /// earlier arrays. Where memory of a device is the processor's, as with
    /// [`Immediate`](crate::gpu::Immediate), reading it before is undefined behaviour.
    ///
    /// # Errors
    /// Those of [`DeviceData::zeros`].
    ///
    /// ```
    /// # use seriatim::{gpu::{DeviceData, Immediate, PinnedData}, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// let gpu = engine.device(Context::gpu(0))?;
    /// let host = PinnedData::from_slice(&gpu, &[3u64, 4])?;
    /// // SAFETY: the first operation on it writes all of it.
    /// let x = unsafe { DeviceData::<u64>::uninit(&gpu, 2) }?;
    /// engine.copy(&host, &x)?;
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub unsafe fn uninit(device: &DeviceHandle, length: usize) -> Result<DeviceData<T>, Error> {
        DeviceData::taken(device, length, length)
    }

    /// The same in memory with room for at least `room` elements: for a program that rounds sizes
    /// more than the engine does, so that more arrays get the memory of earlier ones.
    ///
    /// # Safety
    /// As [`DeviceData::uninit`].
    ///
    /// # Errors
    /// Those of [`DeviceData::zeros`].
    ///
    /// ```
    /// # use seriatim::{gpu::{DeviceData, Immediate, MemoryKind}, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// let gpu = engine.device(Context::gpu(0))?;
    /// // SAFETY: nothing reads it.
    /// let x = unsafe { DeviceData::<u8>::uninit_with_room(&gpu, 100, 4096) }?;
    /// assert_eq!((x.len(), gpu.memory(MemoryKind::Device).in_use), (100, 4096));
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub unsafe fn uninit_with_room(device: &DeviceHandle, length: usize, room: usize) -> Result<DeviceData<T>, Error> {
        DeviceData::taken(device, length, room)
    }

    /// An array of what its memory held before. Any bytes are values, but they are those of earlier
    /// arrays: every caller fills it.
    fn taken(device: &DeviceHandle, length: usize, room: usize) -> Result<DeviceData<T>, Error> {
        let (data, _) = lease::<T>(device, MemoryKind::Device, length, room)?;
        Ok(DeviceData { data, length, context: device.context(), of: PhantomData })
    }

    /// Refuses an operation of another context than the array's.
    ///
    /// # Errors
    /// [`BufferMismatch`](ErrorKind::BufferMismatch).
    pub(super) fn check_context(&self, context: Context) -> Result<(), Error> {
        if context == self.context {
            return Ok(());
        }
        let text = format!(
            "an operation of {context} names an array of {own}: give it the array's .context(), or copy what it needs",
            own = self.context
        );
        Err(Error::new(ErrorKind::BufferMismatch, text))
    }

    /// The variable to declare. `&array` itself is accepted as well.
    ///
    /// ```
    /// # use seriatim::{gpu::{DeviceData, Immediate}, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// let x = DeviceData::<f32>::zeros(&engine.device(Context::gpu(0))?, 8)?;
    /// engine.wait_for_var(x.variable())?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn variable(&self) -> Variable {
        self.data.variable()
    }

    /// The number of elements.
    ///
    /// ```
    /// # use seriatim::{gpu::{DeviceData, Immediate}, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// assert_eq!(DeviceData::<f32>::zeros(&engine.device(Context::gpu(0))?, 8)?.len(), 8);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no elements.
    ///
    /// ```
    /// # use seriatim::{gpu::{DeviceData, Immediate}, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// assert!(DeviceData::<f32>::zeros(&engine.device(Context::gpu(0))?, 0)?.is_empty());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The array's memory, for an operation of its device that has declared to read it. For CUDA it
    /// is the address of the first element. It is valid for what the closure puts on its stream.
    ///
    /// # Errors
    /// [`UndeclaredAccess`](crate::ErrorKind::UndeclaredAccess) if the operation has not declared it;
    /// [`BufferMismatch`](crate::ErrorKind::BufferMismatch) if it runs elsewhere;
    /// [`BorrowConflict`](crate::ErrorKind::BorrowConflict) while another thread borrows it in a
    /// way that does not go with this; [`NoStream`](crate::ErrorKind::NoStream) in an operation of
    /// a graph, on another thread than the one that calls its closure.
    ///
    /// [`DeviceData`] has an example.
    pub fn read_on(&self, run: &RunContext<'_>) -> Result<RawMemory, Error> {
        read_on(&self.data, run)
    }

    /// The array's memory, for an operation of its device that has declared to change it. Otherwise
    /// as [`DeviceData::read_on`].
    ///
    /// # Errors
    /// As [`DeviceData::read_on`].
    ///
    /// [`DeviceData`] has an example.
    pub fn write_on(&self, run: &RunContext<'_>) -> Result<RawMemory, Error> {
        write_on(&self.data, run)
    }

    /// The array's memory, for an operation of its device that has declared to change it and needs
    /// room for `length` elements: temporary space, of which only the operation knows how much it
    /// needs. If the array has not so much, it gets other memory, at least twice as large if there
    /// is so much. [`len`](DeviceData::len) stays, and so do copies, which go by it.
    ///
    /// The memory before is kept until the array is dropped, as the device may still use it.
    ///
    /// Worst case: the driver is asked for memory, and to free what is kept; it may wait for the
    /// device meanwhile.
    ///
    /// # Safety
    /// As [`DeviceData::uninit`]: in other memory nothing has been written.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::ErrorKind::OutOfMemory), after which the array is as it was; those of
    /// [`DeviceData::read_on`].
    ///
    /// ```
    /// # use seriatim::{gpu::{DeviceData, Immediate}, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// // SAFETY: nothing reads it that was not written in the same operation.
    /// let space = unsafe { DeviceData::<f32>::uninit(&engine.device(Context::gpu(0))?, 0) }?;
    /// for length in [1000, 10, 2000] {
    ///     let space = space.clone();
    ///     engine.op("kernel").context(Context::gpu(0)).write(&space).push(move |run| {
    ///         // SAFETY: as above.
    ///         let memory = unsafe { space.grow_on(run, length) }?;
    ///         // A real operation gives it, and run.stream(), to a kernel.
    ///         Ok::<(), seriatim::Error>(drop(memory))
    ///     })?;
    /// }
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub unsafe fn grow_on(&self, run: &RunContext<'_>, length: usize) -> Result<RawMemory, Error> {
        grow_on(&self.data, bytes_of::<T>(length)?, run)
    }
}

impl<T: Plain> Array<T> for DeviceData<T> {}

impl<T> OfDevice for DeviceData<T> {
    fn end(&self) -> End<'_> {
        End { data: &self.data, length: self.length, context: self.context, is_on_device: true }
    }
}

// As for a mutex: a panic in an operation is told where the value is used next.
impl<T> UnwindSafe for DeviceData<T> {}
impl<T> RefUnwindSafe for DeviceData<T> {}

impl<T> Clone for DeviceData<T> {
    fn clone(&self) -> DeviceData<T> {
        DeviceData { data: self.data.clone(), ..*self }
    }
}

impl<T> fmt::Debug for DeviceData<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceData({:?}, {} elements)", self.data.variable(), self.length)
    }
}

impl<T> From<&DeviceData<T>> for Variable {
    fn from(array: &DeviceData<T>) -> Variable {
        array.data.variable()
    }
}
