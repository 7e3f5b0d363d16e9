//! `DeviceHandle`: a device of an engine, for what is not an operation: its memory.
//!
//! Programs call it, on any thread; the handle itself does not change. It leads to the device's
//! record (`src/engine/gpu/devices.rs`), which pushers, workers and the device's watcher use too,
//! and to its buffers (`src/engine/gpu/buffers.rs`), which are behind a lock. What is pushed to a
//! device is an operation (`src/api/operation.rs`).

#![forbid(unsafe_code)]

use crate::api::engine::Engine;
use crate::device::memory::MemoryKind;
use crate::device::{Context, Device};
use crate::engine::gpu::admit;
use crate::engine::gpu::buffers::MemoryUsage;
use crate::engine::gpu::devices::Gpu;
use crate::error::{Error, ErrorKind};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

impl Engine {
    /// A GPU of this engine, made ready if it has not been used.
    ///
    /// # Errors
    /// [`DeviceUnavailable`](crate::ErrorKind::DeviceUnavailable) if it cannot be used: the message
    /// says why; [`DeviceLost`](crate::ErrorKind::DeviceLost);
    /// [`UnknownDevice`](crate::ErrorKind::UnknownDevice) if the context is not that of a GPU.
    ///
    /// ```
    /// use seriatim::{gpu::Immediate, Context, Engine, ErrorKind};
    /// let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// assert_eq!(engine.device(Context::gpu(0))?.context(), Context::gpu(0));
    /// assert_eq!(engine.device(Context::gpu(1)).unwrap_err().kind(), ErrorKind::DeviceUnavailable);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn device(&self, context: Context) -> Result<DeviceHandle, Error> {
        if context.device() != Device::Gpu {
            let message = format!("{context} is no GPU: memory of devices is that of gpu(i)");
            return Err(Error::new(ErrorKind::UnknownDevice, message));
        }
        crate::device::resolve(context)?;
        let gpu = Arc::clone(admit::find(self.core(), context)?);
        Ok(DeviceHandle { engine: self.clone(), gpu })
    }
}

/// A device of an engine. A clone of the [`Engine`] with a number: as long as there is one, the
/// engine does not end.
///
/// ```
/// use seriatim::gpu::{DeviceData, Immediate, MemoryKind};
/// use seriatim::{Context, Engine};
/// let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
/// let gpu = engine.device(Context::gpu(0))?;
/// let x = DeviceData::<f64>::zeros(&gpu, 1000)?;
/// assert_eq!(gpu.memory(MemoryKind::Device).in_use, 8192);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone)]
pub struct DeviceHandle {
    engine: Engine,
    gpu: Arc<Gpu>,
}

impl DeviceHandle {
    /// The context to push with.
    ///
    /// ```
    /// # use seriatim::{gpu::Immediate, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// assert_eq!(engine.device(Context::gpu(0))?.context().id(), 0);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn context(&self) -> Context {
        self.gpu.context()
    }

    /// The engine.
    ///
    /// ```
    /// # use seriatim::{gpu::Immediate, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// engine.device(Context::gpu(0))?.engine().wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What the engine knows of the device.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// How much memory the engine has of this device. Takes a lock for a few steps.
    ///
    /// ```
    /// # use seriatim::{gpu::{Immediate, MemoryKind}, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// assert_eq!(engine.device(Context::gpu(0))?.memory(MemoryKind::Pinned).peak, 0);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn memory(&self, kind: MemoryKind) -> MemoryUsage {
        self.gpu.buffers.usage(kind)
    }

    /// Frees the buffers that are kept for their next owner, as far as the device is done with
    /// them; returns how many. It frees on the calling thread, and the driver may wait for the
    /// device meanwhile: for all that is queued there, with CUDA. In a closure that holds its
    /// worker up. The engine itself frees when there is no room for a new array, and that on a
    /// thread of its own ([`DeviceData::zeros`](crate::gpu::DeviceData::zeros)).
    ///
    /// ```
    /// # use seriatim::{gpu::{DeviceData, Immediate, MemoryKind}, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// let gpu = engine.device(Context::gpu(0))?;
    /// drop(DeviceData::<u8>::zeros(&gpu, 10)?);
    /// engine.wait_for_all()?;
    /// assert_eq!((gpu.memory(MemoryKind::Device).kept, gpu.trim()), (512, 1));
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn trim(&self) -> usize {
        self.engine.core().gpus.fleet.get().map_or(0, |fleet| self.gpu.trim(fleet))
    }
}

// As of an `Engine`, a panic leaves nothing of a device half changed: panics of closures are caught
// before they reach the engine, and back ends do not unwind.
impl UnwindSafe for DeviceHandle {}
impl RefUnwindSafe for DeviceHandle {}

impl std::fmt::Debug for DeviceHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DeviceHandle({})", self.context())
    }
}
