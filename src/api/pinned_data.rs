//! `PinnedData`: an array of the processor's that devices copy from and to by themselves.
//!
//! Programs call it, on any thread. A borrow is checked as one of a `Data` is (`src/api/data.rs`).
//! Besides, it is refused while a device may still use the array, which is longer than the closure
//! of a copy lasts: nothing waits (`Lease::is_settled` in `src/engine/gpu/lease.rs`). It is also
//! refused while the array's memory is still to come: a worker fills the array then, and says so
//! (`LateFill` in `src/api/pinned_fill.rs`). The thread that drops the last clone gives the memory
//! back. What it has in common with `DeviceData` is in `src/api/device_array.rs`, copies in
//! `src/api/copy.rs`.

use crate::api::data::{Data, Ref, RefMut};
use crate::api::device_array::{lease, read_on, write_on, Array, End, OfDevice};
use crate::api::device_handle::DeviceHandle;
use crate::api::pinned_fill::{fill, fill_late, LateFill};
use crate::device::memory::{MemoryKind, Plain};
use crate::device::raw::RawMemory;
use crate::device::Context;
use crate::engine::gpu::lease::Lease;
use crate::error::{Error, ErrorKind};
use crate::operation::context::RunContext;
use crate::variable::handle::Variable;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};

/// An array in pinned memory of the processor, and the variable that stands for it.
///
/// It is to the processor what a [`Data`] is: operations declare it and borrow it, and a borrow
/// that does not go with another is an error, never a race and never a wait. An operation of a
/// device that declares it, such as a copy, counts as a borrow until the device has done it, which
/// is longer than its closure lasts. An asynchronous one counts until its completion is used, also
/// for its own closure. Clones are the same array, and the last one gives the memory back, as for
/// [`DeviceData`](crate::gpu::DeviceData).
///
/// ```
/// use seriatim::gpu::{DeviceData, Immediate, PinnedData};
/// use seriatim::{Context, Engine};
/// let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
/// let gpu = engine.device(Context::gpu(0))?;
/// let (host, x) = (PinnedData::zeros(&gpu, 3)?, DeviceData::zeros(&gpu, 3)?);
/// host.write()?.copy_from_slice(&[1u32, 2, 3]);
/// engine.copy(&host, &x)?;
/// let filled = host.clone();
/// engine.op("fill").write(&host).push(move |_| filled.write().map(|mut values| values.fill(9)))?;
/// engine.copy(&x, &host)?;
/// engine.wait_for_var(host.variable())?;
/// assert_eq!(*host.read()?, [1, 2, 3]);
/// # Ok::<(), seriatim::Error>(())
/// ```
pub struct PinnedData<T> {
    data: Data<Lease>,
    length: usize,
    context: Context,
    /// Whether the memory has come, for an array that was made without.
    arrival: Option<LateFill>,
    of: PhantomData<fn(T) -> T>,
}

impl<T: Plain> PinnedData<T> {
    /// Makes an array of zeros, which devices of the handle's back end can copy from and to.
    ///
    /// Takes a lock for a few steps. The driver is asked for memory only if no array of this size
    /// was given back before that the device is done with. If it has none, what is kept, of both
    /// kinds, is to be freed first. The call does not wait for that, as for
    /// [`DeviceData::zeros`](crate::gpu::DeviceData::zeros): operations that use the array are
    /// parked until it has its memory, and outside of them it can be borrowed after a wait for its
    /// variable. A worker fills it then, which is a first version of the variable. If there is no
    /// memory even then, that operation fails, and what is behind it. The naive engine, which has
    /// no watcher, frees here.
    ///
    /// # Errors
    /// [`OutOfMemory`](ErrorKind::OutOfMemory), if no memory can be freed for it; those of
    /// [`Engine::device`](crate::Engine::device), and those of a push.
    ///
    /// ```
    /// # use seriatim::{gpu::{Immediate, PinnedData}, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// let host = PinnedData::<f64>::zeros(&engine.device(Context::gpu(0))?, 4)?;
    /// assert_eq!(*host.read()?, [0.0; 4]);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn zeros(device: &DeviceHandle, length: usize) -> Result<PinnedData<T>, Error> {
        PinnedData::made(device, length, None)
    }

    /// Makes a copy of a slice. If the memory is late, the values are kept until it has come.
    ///
    /// # Errors
    /// Those of [`PinnedData::zeros`].
    ///
    /// ```
    /// # use seriatim::{gpu::{Immediate, PinnedData}, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// let host = PinnedData::from_slice(&engine.device(Context::gpu(0))?, &[1u8, 2])?;
    /// assert_eq!(*host.read()?, [1, 2]);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn from_slice(device: &DeviceHandle, values: &[T]) -> Result<PinnedData<T>, Error> {
        PinnedData::made(device, values.len(), Some(values))
    }

    /// Makes an array of so many values, or zeros.
    fn made(device: &DeviceHandle, length: usize, values: Option<&[T]>) -> Result<PinnedData<T>, Error> {
        let (data, is_late) = lease::<T>(device, MemoryKind::Pinned, length, length)?;
        let arrival = is_late.then(LateFill::default);
        let array = PinnedData { data, length, context: device.context(), arrival, of: PhantomData };
        match &array.arrival {
            None => fill(&array.data.write()?, values),
            Some(arrival) => fill_late(device.engine().core(), &array.data, arrival, values.map(<[T]>::to_vec))?,
        }
        Ok(array)
    }

    /// The variable to declare. `&array` itself is accepted as well.
    ///
    /// ```
    /// # use seriatim::{gpu::{Immediate, PinnedData}, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// let host = PinnedData::<u8>::zeros(&engine.device(Context::gpu(0))?, 4)?;
    /// engine.wait_for_var(host.variable())?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn variable(&self) -> Variable {
        self.data.variable()
    }

    /// The number of elements.
    ///
    /// ```
    /// # use seriatim::{gpu::{Immediate, PinnedData}, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// assert_eq!(PinnedData::<f32>::zeros(&engine.device(Context::gpu(0))?, 8)?.len(), 8);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no elements.
    ///
    /// ```
    /// # use seriatim::{gpu::{Immediate, PinnedData}, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// assert!(PinnedData::<f32>::zeros(&engine.device(Context::gpu(0))?, 0)?.is_empty());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Borrows the elements to read them.
    ///
    /// # Errors
    /// Those of [`Data::read`]; [`BorrowConflict`](ErrorKind::BorrowConflict) also while a device
    /// has still to write them, and while their memory is still to come;
    /// [`DeviceLost`](ErrorKind::DeviceLost) if it never will;
    /// [`OutOfMemory`](ErrorKind::OutOfMemory) if there is none.
    ///
    /// ```
    /// # use seriatim::{gpu::{Immediate, PinnedData}, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// let host = PinnedData::from_slice(&engine.device(Context::gpu(0))?, &[1u8, 2])?;
    /// assert_eq!(host.read()?.iter().sum::<u8>(), 3);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn read(&self) -> Result<PinnedRef<'_, T>, Error> {
        self.arrived()?;
        let lease = self.data.read()?;
        // After the borrow, which has synchronised with the closures that borrowed before, and so
        // with the tickets that were left for them.
        self.settled(&lease, false)?;
        Ok(PinnedRef(lease, self.length, PhantomData))
    }

    /// Borrows the elements to change them.
    ///
    /// # Errors
    /// Those of [`Data::write`]; [`BorrowConflict`](ErrorKind::BorrowConflict) also while a device
    /// has still to use them, and while their memory is still to come;
    /// [`DeviceLost`](ErrorKind::DeviceLost) if it should have written them and never will;
    /// [`OutOfMemory`](ErrorKind::OutOfMemory) if there is none.
    ///
    /// ```
    /// # use seriatim::{gpu::{Immediate, PinnedData}, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// let host = PinnedData::<u8>::zeros(&engine.device(Context::gpu(0))?, 2)?;
    /// host.write()?[1] = 7;
    /// assert_eq!(*host.read()?, [0, 7]);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn write(&self) -> Result<PinnedRefMut<'_, T>, Error> {
        self.arrived()?;
        let lease = self.data.write()?;
        // After the borrow, as in `read`.
        self.settled(&lease, true)?;
        Ok(PinnedRefMut(lease, self.length, PhantomData))
    }

    /// Checks that the memory is there. Before a borrow, which could be in the way of what brings
    /// it.
    fn arrived(&self) -> Result<(), Error> {
        let Some(arrival) = &self.arrival else { return Ok(()) };
        let late = || {
            let variable = self.variable();
            let message = format!(
                "the memory of {variable:?} is still to come: wait for it before using it outside of operations"
            );
            Err(Error::new(ErrorKind::BorrowConflict, message))
        };
        arrival.get().cloned().unwrap_or_else(late)
    }

    fn settled(&self, lease: &Lease, changes: bool) -> Result<(), Error> {
        if lease.is_settled(changes)? {
            return Ok(());
        }
        let message = format!(
            "a device has still to copy from or to {:?}: declare it on every operation that uses it, and wait before using it \
             outside",
            self.variable()
        );
        Err(Error::new(ErrorKind::BorrowConflict, message))
    }

    /// The array's memory, for an operation of a device that has declared to read it: its address.
    /// It is valid for what the closure puts on its stream.
    ///
    /// Until the device is done with the operation, or its completion was used, borrows by the
    /// program that do not go with that are refused. What is done to the array on an
    /// [`AdoptedStream`](crate::gpu::AdoptedStream), between its two calls, the engine does not
    /// know: from those borrows the program has to keep away itself.
    ///
    /// # Errors
    /// As [`DeviceData::read_on`](crate::gpu::DeviceData::read_on), where
    /// [`BorrowConflict`](ErrorKind::BorrowConflict) includes borrows outside of operations.
    ///
    /// ```
    /// # use seriatim::{gpu::{Immediate, PinnedData}, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// let gpu = engine.device(Context::gpu(0))?;
    /// let host = PinnedData::<u8>::zeros(&gpu, 2)?;
    /// let used = host.clone();
    /// engine.op("kernel").context(gpu.context()).read(&host).push(move |run| used.read_on(run).map(|_| ()))?;
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn read_on(&self, run: &RunContext<'_>) -> Result<RawMemory, Error> {
        read_on(&self.data, run)
    }

    /// The array's memory, for an operation of a device that has declared to change it.
    ///
    /// # Errors
    /// As [`PinnedData::read_on`].
    ///
    /// ```
    /// # use seriatim::{gpu::{Immediate, PinnedData}, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// let gpu = engine.device(Context::gpu(0))?;
    /// let host = PinnedData::<u8>::zeros(&gpu, 2)?;
    /// let used = host.clone();
    /// engine.op("kernel").context(gpu.context()).write(&host).push(move |run| used.write_on(run).map(|_| ()))?;
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn write_on(&self, run: &RunContext<'_>) -> Result<RawMemory, Error> {
        write_on(&self.data, run)
    }
}

impl<T: Plain> Array<T> for PinnedData<T> {}

impl<T> OfDevice for PinnedData<T> {
    fn end(&self) -> End<'_> {
        End { data: &self.data, length: self.length, context: self.context, is_on_device: false }
    }
}

// As for a mutex: a panic in an operation is told where the value is used next.
impl<T> UnwindSafe for PinnedData<T> {}
impl<T> RefUnwindSafe for PinnedData<T> {}

impl<T> Clone for PinnedData<T> {
    fn clone(&self) -> PinnedData<T> {
        PinnedData { data: self.data.clone(), arrival: self.arrival.clone(), ..*self }
    }
}

impl<T> fmt::Debug for PinnedData<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedData({:?}, {} elements)", self.data.variable(), self.length)
    }
}

impl<T> From<&PinnedData<T>> for Variable {
    fn from(array: &PinnedData<T>) -> Variable {
        array.data.variable()
    }
}

/// A borrow to read, from [`PinnedData::read`], as a slice. Like a [`Ref`](crate::Ref), it cannot
/// live across an `await`.
///
/// ```compile_fail
/// # use seriatim::{gpu::{Immediate, PinnedData}, Context, Engine};
/// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
/// let host = PinnedData::from_slice(&engine.device(Context::gpu(0))?, &[1u8, 2])?;
/// engine.op("across").read(&host.clone()).push_future(async move {
///     let values = host.read()?;
///     std::future::ready(()).await;
///     assert_eq!(values.len(), 2); // future cannot be sent between threads safely
///     Ok::<(), seriatim::Error>(())
/// })?;
/// # Ok::<(), seriatim::Error>(())
/// ```
///
/// ```
/// # use seriatim::{gpu::{Immediate, PinnedData, PinnedRef}, Context, Engine};
/// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
/// let host = PinnedData::from_slice(&engine.device(Context::gpu(0))?, &[1u8, 2])?;
/// let values: PinnedRef<'_, u8> = host.read()?;
/// assert_eq!(values.len(), 2);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[must_use = "the borrow ends when this is dropped"]
pub struct PinnedRef<'a, T>(Ref<'a, Lease>, usize, PhantomData<&'a [T]>);

impl<T: Plain> Deref for PinnedRef<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the lease has room for so many elements, whose bytes were all written, and any
        // bytes are values. While it is borrowed, no other borrow changes it; no device does, since
        // those were done when it was borrowed, and what comes later borrows it first: a closure
        // that asks for the address, a copy, and each launch of a graph that has the address. Their
        // tickets keep this borrow away afterwards. An operation that leaves none, on the naive
        // engine or asynchronous, keeps it away until it ends (`engine/gpu/borrow.rs`): then the
        // device is done, or the program has said so by the completion. Unsafe code that uses the
        // address elsewhere, as on an adopted stream, has to see to that itself.
        unsafe { std::slice::from_raw_parts(self.0.pinned().raw().cast(), self.1) }
    }
}

impl<T: Plain + fmt::Debug> fmt::Debug for PinnedRef<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A borrow to change, from [`PinnedData::write`], as a slice. Like a [`Ref`](crate::Ref), it
/// cannot live across an `await`.
///
/// ```compile_fail
/// # use seriatim::{gpu::{Immediate, PinnedData}, Context, Engine};
/// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
/// let host = PinnedData::<u8>::zeros(&engine.device(Context::gpu(0))?, 2)?;
/// engine.op("across").write(&host.clone()).push_future(async move {
///     let mut values = host.write()?;
///     std::future::ready(()).await;
///     values.fill(3); // future cannot be sent between threads safely
///     Ok::<(), seriatim::Error>(())
/// })?;
/// # Ok::<(), seriatim::Error>(())
/// ```
///
/// ```
/// # use seriatim::{gpu::{Immediate, PinnedData, PinnedRefMut}, Context, Engine};
/// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
/// let host = PinnedData::<u8>::zeros(&engine.device(Context::gpu(0))?, 2)?;
/// let mut values: PinnedRefMut<'_, u8> = host.write()?;
/// values.fill(3);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[must_use = "the borrow ends when this is dropped"]
pub struct PinnedRefMut<'a, T>(RefMut<'a, Lease>, usize, PhantomData<&'a mut [T]>);

impl<T: Plain> Deref for PinnedRefMut<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: as in `PinnedRef`; this is the only borrow.
        unsafe { std::slice::from_raw_parts(self.0.pinned().raw().cast(), self.1) }
    }
}

impl<T: Plain> DerefMut for PinnedRefMut<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `PinnedRef`; this is the only borrow.
        unsafe { std::slice::from_raw_parts_mut(self.0.pinned().raw().cast(), self.1) }
    }
}

impl<T: Plain + fmt::Debug> fmt::Debug for PinnedRefMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
