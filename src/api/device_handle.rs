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
use crate::engine::push::push;
use crate::engine::request::{Claim, Request};
use crate::engine::settings::Kind;
use crate::error::{Error, ErrorKind};
use crate::operation::async_closure::async_vtable;
use crate::operation::block::FLAG_BEYOND;
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
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

    /// The name of the library that drives it, as its back end says: `CUDA` for CUDA's driver. It
    /// says what an address of the device means.
    ///
    /// ```
    /// # use seriatim::{gpu::Immediate, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// assert_ne!(engine.device(Context::gpu(0))?.driver(), "CUDA");
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn driver(&self) -> &str {
        self.gpu.backend.name()
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

    /// Has the buffers freed that are kept for their next owner, as far as the device is done with
    /// them; returns how many. No new array gets them any more.
    ///
    /// The call does not wait: the device's watcher frees them, since the driver may wait for the
    /// device meanwhile: for all that is queued there, with CUDA. That is an operation, so
    /// [`wait_for_all`](Engine::wait_for_all) waits until they are freed; until then they count as
    /// [`kept`](MemoryUsage::kept). An engine that is naive or stopped has no watcher, and frees
    /// here. Where there is no room for a new array the engine frees by itself
    /// ([`DeviceData::zeros`](crate::gpu::DeviceData::zeros)).
    ///
    /// ```
    /// # use seriatim::{gpu::{DeviceData, Immediate, MemoryKind}, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// let gpu = engine.device(Context::gpu(0))?;
    /// drop(DeviceData::<u8>::zeros(&gpu, 10)?);
    /// engine.wait_for_all()?;
    /// assert_eq!((gpu.memory(MemoryKind::Device).kept, gpu.trim()), (512, 1));
    /// engine.wait_for_all()?;
    /// assert_eq!(gpu.memory(MemoryKind::Device).kept, 0);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn trim(&self) -> usize {
        let core = self.engine.core();
        let Some(fleet) = core.gpus.fleet.get() else { return 0 };
        if core.settings.kind == Kind::Naive || self.gpu.lost.get().is_some() {
            return self.gpu.trim(fleet);
        }
        let count = self.gpu.leave(fleet);
        if count > 0 && self.have_freed().is_err() {
            // The engine has stopped, and the device is done with all that it was given.
            self.gpu.trim(fleet);
        }
        count
    }

    /// Pushes an operation that ends when the watcher has freed what leaves.
    fn have_freed(&self) -> Result<(), Error> {
        let (core, gpu) = (Arc::clone(self.engine.core()), Arc::clone(&self.gpu));
        let tell = move |_: &RunContext<'_>, completion: Completion| {
            // The device may have no threads yet. If it gets none, the buffers are left to the next
            // that frees, at the latest to the engine's end.
            if admit::admit(&core, gpu.context()).is_ok() {
                gpu.buffers.tell(Box::new(move || completion.complete()));
                gpu.wake_watcher();
            } else {
                completion.complete();
            }
        };
        let request = Request { property: Property::Async, flags: FLAG_BEYOND, ..Request::named(Name::from("trim")) };
        let claims: [Claim; 0] = [];
        push(self.engine.core(), &request, &claims[..], async_vtable(&tell), tell)
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
