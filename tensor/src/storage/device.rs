//! Memory of devices, by the engine: what an array of a GPU lies in, and pinned memory by which
//! values come there and back.
//!
//! Used by `ndarray/placing.rs`, which makes it for arrays, and `ndarray/device_copy.rs`, whose
//! operations copy. The engine has the size classes and keeps what comes back, in the order that it
//! still owes to the device. Elements go as bytes.

use crate::dtype::{DType, Element};
use crate::error::{Error, ErrorKind};
use seriatim::gpu::{DeviceData, DeviceHandle, PinnedData};
use seriatim::{Context, RunContext};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;

/// Memory of a device. Clones are the same; the last one gives it back.
#[derive(Clone, Debug)]
pub(crate) struct DeviceBlock {
    data: DeviceData<u8>,
    context: Context,
    /// Dropped after `data`, so the last share is dropped after all of the memory's owners.
    share: Arc<Share>,
}

/// What all clones have in common.
#[derive(Debug)]
struct Share {
    /// Whether an operation has written it. Only operations that have declared the variable look.
    written: AtomicBool,
    /// The device, if the engine is to keep nothing of its memory.
    trimmed: Option<DeviceHandle>,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.trimmed.iter().for_each(|device| _ = device.trim());
    }
}

impl DeviceBlock {
    /// Memory for so many bytes, in a block with `room` for more. If nothing is to be kept, the
    /// last clone has it freed, and what the device was still busy with when others ended goes now.
    pub fn new(device: &DeviceHandle, bytes: usize, room: usize, is_kept: bool) -> Result<DeviceBlock, Error> {
        let trimmed = (!is_kept).then(|| device.clone());
        trimmed.iter().for_each(|device| _ = device.trim());
        // SAFETY: it is read through `source` only, which refuses what `fill` has not written.
        let data = unsafe { DeviceData::uninit_with_room(device, bytes, room) }?;
        Ok(DeviceBlock {
            data,
            context: device.context(),
            share: Arc::new(Share { written: AtomicBool::new(false), trimmed }),
        })
    }

    pub fn variable(&self) -> seriatim::Variable {
        self.data.variable()
    }

    pub fn context(&self) -> Context {
        self.context
    }

    /// How many bytes were asked for.
    pub fn bytes(&self) -> usize {
        self.data.len()
    }

    /// The memory, for an operation that reads it.
    pub fn source(&self) -> Result<&DeviceData<u8>, Error> {
        // Relaxed: the variable orders this operation behind those that write.
        match self.share.written.load(Relaxed) {
            true => Ok(&self.data),
            false => Err(Error::new(ErrorKind::Unwritten, "it is read, and nothing has written it")),
        }
    }

    /// Queues what writes all of it, in an operation that has declared that.
    pub fn fill(&self, queue: impl FnOnce(&DeviceData<u8>) -> Result<(), seriatim::Error>) -> Result<(), Error> {
        queue(&self.data)?;
        self.note_written();
        Ok(())
    }

    /// The address, for an operation of the device that has declared to read the array, or to
    /// change it if `writes`. An asynchronous one stays open while somebody uses it.
    pub fn address(&self, run: &RunContext<'_>, writes: bool) -> Result<*mut u8, Error> {
        let data = self.source()?;
        let memory = if writes { data.write_on(run) } else { data.read_on(run) }?;
        Ok(memory.raw().cast())
    }

    /// The address, for an operation of the device that has declared to change the array, and that
    /// writes all of it. What has written it says so by
    /// [`note_written`](DeviceBlock::note_written).
    pub fn target(&self, run: &RunContext<'_>) -> Result<*mut u8, Error> {
        Ok(self.data.write_on(run)?.raw().cast())
    }

    /// The address, for an operation of the device that has declared to change the array, and that
    /// changes a part of it or adds to it. What nothing has written is zero first.
    pub fn changed(&self, run: &RunContext<'_>) -> Result<*mut u8, Error> {
        // Relaxed: as for `source`.
        if !self.share.written.load(Relaxed) {
            self.fill(|data| run.zero(data))?;
        }
        self.target(run)
    }

    /// Counts as new again, for an operation that has declared to change the array.
    pub fn forget(&self) {
        self.share.written.store(false, Relaxed);
    }

    /// Says that an operation which has declared to change the array has queued what writes all of
    /// it.
    pub fn note_written(&self) {
        self.share.written.store(true, Relaxed);
    }
}

/// Temporary space of a device: memory that operations have one after the other, and that grows
/// with what they ask for. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct DeviceSpace(DeviceData<u8>);

impl DeviceSpace {
    /// A space without bytes.
    pub fn new(device: &DeviceHandle) -> Result<DeviceSpace, Error> {
        // SAFETY: only operators get its address, and say of what they read that they wrote it.
        Ok(DeviceSpace(unsafe { DeviceData::uninit(device, 0) }?))
    }

    pub fn variable(&self) -> seriatim::Variable {
        self.0.variable()
    }

    /// The address of so many bytes, for an operation of the device that has declared to change the
    /// space.
    pub fn address(&self, run: &RunContext<'_>, bytes: usize) -> Result<*mut u8, Error> {
        // SAFETY: as above.
        Ok(unsafe { self.0.grow_on(run, bytes) }?.raw().cast())
    }
}

/// Pinned memory for the values of an array, in order.
#[derive(Clone, Debug)]
pub(crate) struct Staging(pub PinnedData<u8>);

fn check_bool<T: Element>(bytes: &[u8]) -> Result<(), Error> {
    if T::DTYPE == DType::Bool && bytes.iter().any(|byte| *byte > 1) {
        return Err(Error::new(ErrorKind::BadFormat, "a byte of an array of bool is neither 0 nor 1"));
    }
    Ok(())
}

impl Staging {
    /// With zeros.
    pub fn new(device: &DeviceHandle, bytes: usize) -> Result<Staging, Error> {
        Ok(Staging(PinnedData::zeros(device, bytes)?))
    }

    /// With a copy of values.
    pub fn of<T: Element>(device: &DeviceHandle, values: &[T]) -> Result<Staging, Error> {
        // SAFETY: elements have no padding, so all their bytes are initialised.
        let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) };
        Ok(Staging(PinnedData::from_slice(device, bytes)?))
    }

    /// Has a closure write the elements.
    pub fn write<T: Element>(&self, write: impl FnOnce(&mut [T])) -> Result<(), Error> {
        if T::DTYPE == DType::Bool {
            self.0.write()?.fill(0);
        }
        self.change(write)
    }

    /// Has a closure change the elements.
    ///
    /// # Errors
    /// Those of [`read`](Staging::read).
    pub fn change<T: Element>(&self, change: impl FnOnce(&mut [T])) -> Result<(), Error> {
        let mut bytes = self.0.write()?;
        check_bool::<T>(&bytes)?;
        // SAFETY: every pattern of bits is a value of an `Element` but `bool`, which was looked at.
        // The bytes are borrowed exclusively, and each is initialised.
        let (before, elements, _) = unsafe { bytes.align_to_mut::<T>() };
        assert!(before.is_empty(), "pinned memory is aligned to 64 bytes");
        change(elements);
        Ok(())
    }

    /// Has a closure read the elements.
    ///
    /// # Errors
    /// Those of the closure; [`BadFormat`](ErrorKind::BadFormat) if a byte of `bool` is neither 0
    /// nor 1, which somebody has written who borrowed the memory by DLPack.
    pub fn read<T: Element>(&self, read: impl FnOnce(&[T]) -> Result<(), Error>) -> Result<(), Error> {
        let bytes = self.0.read()?;
        check_bool::<T>(&bytes)?;
        // SAFETY: every pattern of bits is a value of an `Element` but `bool`, which was looked at.
        // The bytes are borrowed, and each is initialised.
        let (before, elements, _) = unsafe { bytes.align_to::<T>() };
        assert!(before.is_empty(), "pinned memory is aligned to 64 bytes");
        read(elements)
    }
}
