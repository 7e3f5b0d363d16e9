//! In which contexts arrays can be: which memory a new array gets, how much of it there is, and
//! which calls have kernels for it.
//!
//! `array.rs` asks for the memory of new arrays, calls of operators ask [`common_device`], and all
//! else that pushes operations of the processor asks [`check_processor`]. The engine knows the
//! devices: a runtime looks each of them up once.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::array::NDArray;
use crate::ndarray::capturing;
use crate::ndarray::chunk::Placed;
use crate::ndarray::runtime::Runtime;
use crate::shape::{Layout, Shape};
use crate::storage::counts::{Counts, TagCounts};
use crate::storage::device::{DeviceBlock, Staging};
use crate::storage::{Statistics, Tag};
use seriatim::gpu::{DeviceHandle, MemoryKind};
use seriatim::{Context, Device};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::OnceLock;

/// So many devices are looked up once; others each time.
const KNOWN: usize = 16;

/// The devices that a runtime has looked up, and how many arrays it has asked them for.
#[derive(Default)]
pub(super) struct Devices {
    /// None for a device that was not there.
    known: [OnceLock<Option<DeviceHandle>>; KNOWN],
    /// On the device, and in its pinned memory.
    requests: [[AtomicUsize; 2]; KNOWN],
    /// What of them has a tag.
    tagged: [[TagCounts; 2]; KNOWN],
}

impl Devices {
    /// Counts an array that was made.
    fn count(&self, placed: &Placed, tag: Tag) {
        let context = placed.context();
        if let Some(requests) = self.requests.get(context.id() as usize) {
            requests[kind_of(context)].fetch_add(1, Relaxed);
        }
        if let Some(counts) = self.to_count(context, tag) {
            counts.ask();
            counts.begin(placed.bytes());
        }
    }

    fn requests(&self, context: Context) -> usize {
        let counted = self.requests.get(context.id() as usize);
        counted.map_or(0, |requests| requests[kind_of(context)].load(Relaxed))
    }

    fn to_count(&self, context: Context, tag: Tag) -> Option<&Counts> {
        self.tagged.get(context.id() as usize)?[kind_of(context)].to_count(tag)
    }

    fn tagged(&self, context: Context, tag: Tag) -> Statistics {
        let counted = self.tagged.get(context.id() as usize);
        counted.map_or_else(Statistics::default, |counted| counted[kind_of(context)].statistics(tag))
    }
}

/// The place of a kind of memory among the two that a device has.
fn kind_of(context: Context) -> usize {
    usize::from(context.device() == Device::CpuPinned)
}

impl Runtime {
    /// The device of a context, which is that of a GPU or of memory pinned for it.
    pub(crate) fn device(&self, context: Context) -> Result<DeviceHandle, Error> {
        let find = || self.engine().device(Context::gpu(context.id()));
        let known = self.devices().known.get(context.id() as usize);
        if let Some(Some(device)) = known.map(|known| known.get_or_init(|| find().ok())) {
            return Ok(device.clone());
        }
        find().map_err(|error| {
            let kind = match error.kind() {
                seriatim::ErrorKind::DeviceUnavailable | seriatim::ErrorKind::UnknownDevice => {
                    ErrorKind::UnsupportedContext
                }
                _ => Error::from(error.clone()).kind(),
            };
            let message = format!("there is no memory of {context}: {error}; or use Context::cpu(0)");
            Error::with_source(kind, message, error)
        })
    }

    /// The device that memory of `cpu_pinned` is made for, if it is there. In a captured step there
    /// is none, as its arrays are private to a graph.
    fn pinned_for(&self, context: Context) -> Option<DeviceHandle> {
        if context.device() != Device::CpuPinned || capturing::is_active() {
            return None;
        }
        let known = self.devices().known.get(context.id() as usize)?;
        known.get_or_init(|| self.engine().device(Context::gpu(context.id())).ok()).clone()
    }

    /// Memory for a new array, if its context is one of which the engine has the memory.
    pub(super) fn place(&self, shape: Shape, dtype: DType, context: Context) -> Result<Option<Placed>, Error> {
        let bytes = shape.size() * dtype.size();
        let within = |error: Error| error.within(format_args!("an array of {dtype} {shape} on {context}"));
        match context.device() {
            Device::Gpu => {
                let device = self.device(context).map_err(within)?;
                let (room, keeps) = (self.storage().rounded(bytes, context), self.storage().keeps(context));
                let block = DeviceBlock::new(&device, bytes, room, keeps).map_err(within)?;
                Ok(Some(self.counted(Placed::Device(block))))
            }
            Device::CpuPinned => {
                let Some(device) = self.pinned_for(context) else { return Ok(None) };
                let Staging(pinned) = Staging::new(&device, bytes).map_err(within)?;
                Ok(Some(self.counted(Placed::Pinned(pinned, context))))
            }
            _ => Ok(None),
        }
    }

    fn counted(&self, placed: Placed) -> Placed {
        self.devices().count(&placed, Tag::current());
        placed
    }

    /// Counts that the array with this memory has ended.
    pub(super) fn end_placed(&self, placed: &Placed, tag: Tag) {
        let counts = self.devices().to_count(placed.context(), tag);
        counts.into_iter().for_each(|counts| counts.end(placed.bytes()));
    }

    /// What there is of a context's kind of memory: of the storage, or of the engine for a GPU and
    /// for memory that is pinned for one. Those of a GPU are of all that the engine has there, but
    /// `requests`, which are the arrays of this runtime.
    ///
    /// The limit of a GPU's memory is that of the engine,
    /// [`gpu_memory`](seriatim::Builder::gpu_memory).
    ///
    /// # Errors
    /// [`UnsupportedContext`](ErrorKind::UnsupportedContext) if there is no such device.
    ///
    /// ```
    /// use seriatim::{gpu::Immediate, Context, Engine};
    /// use seriatim_tensor::{DType, Runtime};
    /// let runtime = Runtime::new(&Engine::builder().gpus(Immediate::new(1)).build()?);
    /// let x = runtime.zeros_in([256], DType::F32, Context::gpu(0))?;
    /// let now = runtime.statistics(Context::gpu(0))?;
    /// assert_eq!((now.live, now.requests, now.system_calls), (1024, 1, 1));
    /// # drop(x);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn statistics(&self, context: Context) -> Result<Statistics, Error> {
        let (device, kind, of_storage) = match context.device() {
            Device::Gpu => (Some(self.device(context)?), MemoryKind::Device, Statistics::default()),
            _ => (self.pinned_for(context), MemoryKind::Pinned, self.storage().statistics(context)?),
        };
        let Some(device) = device else { return Ok(of_storage) };
        let of_engine = device.memory(kind);
        Ok(Statistics {
            live: of_storage.live + of_engine.in_use,
            pooled: of_storage.pooled + of_engine.kept,
            // Those of two pools were not at one moment: this is the most that they can have been.
            peak: of_storage.peak + of_engine.peak,
            requests: of_storage.requests + self.devices().requests(context),
            system_calls: of_storage.system_calls + of_engine.allocations,
        })
    }

    /// What of it has a tag. Of a GPU, and of memory that is pinned for one, `live` and `peak` are
    /// the bytes of the arrays of this runtime that were made and are not dropped, and
    /// `system_calls` counts none: which array a call of the driver was for, the engine does not
    /// say.
    ///
    /// # Errors
    /// [`UnsupportedContext`](ErrorKind::UnsupportedContext) if there is no such device.
    ///
    /// ```
    /// use seriatim::{gpu::Immediate, Context, Engine};
    /// use seriatim_tensor::{storage::Tag, DType, Runtime};
    /// let runtime = Runtime::new(&Engine::builder().gpus(Immediate::new(1)).build()?);
    /// let (gpu, tag) = (Context::gpu(0), Tag::new("images")?);
    /// let x = tag.scope(|| runtime.zeros_in([250], DType::F32, gpu))?;
    /// let y = runtime.zeros_in([250], DType::F32, gpu)?;
    /// assert_eq!(runtime.statistics_of(tag, gpu)?.live, 1000);
    /// drop((x, y));
    /// assert_eq!(runtime.statistics_of(tag, gpu)?.live, 0);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn statistics_of(&self, tag: Tag, context: Context) -> Result<Statistics, Error> {
        if context.device() == Device::Gpu {
            self.device(context)?;
            return Ok(self.devices().tagged(context, tag));
        }
        let of_storage = self.storage().statistics_of(tag, context)?;
        if context.device() == Device::Cpu {
            return Ok(of_storage);
        }
        let of_engine = self.devices().tagged(context, tag);
        Ok(Statistics {
            live: of_storage.live + of_engine.live,
            peak: of_storage.peak + of_engine.peak,
            requests: of_storage.requests + of_engine.requests,
            ..of_storage
        })
    }

    /// Gives the kept memory of a context back to the system, or to the driver of its device.
    ///
    /// A driver may wait for its device when it frees. So the engine does that, and this call
    /// returns at once; [`wait_all`](Runtime::wait_all) waits until it is done. With a GPU's memory
    /// goes what is pinned for it.
    ///
    /// # Errors
    /// [`UnsupportedContext`](ErrorKind::UnsupportedContext) if there is no such device.
    ///
    /// ```
    /// use seriatim::{gpu::Immediate, Context, Engine};
    /// use seriatim_tensor::{DType, Runtime};
    /// let runtime = Runtime::new(&Engine::builder().gpus(Immediate::new(1)).build()?);
    /// drop(runtime.zeros_in([256], DType::F32, Context::gpu(0))?);
    /// runtime.wait_all()?;
    /// assert_eq!(runtime.statistics(Context::gpu(0))?.pooled, 1024);
    /// runtime.release_all(Context::gpu(0))?;
    /// runtime.wait_all()?;
    /// assert_eq!(runtime.statistics(Context::gpu(0))?.pooled, 0);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn release_all(&self, context: Context) -> Result<(), Error> {
        if context.device() == Device::Gpu {
            self.device(context)?.trim();
            return Ok(());
        }
        self.pinned_for(context).into_iter().for_each(|device| _ = device.trim());
        self.storage().release_all(context)
    }
}

impl NDArray {
    /// Whether it lies where only operations of a device reach it.
    pub(crate) fn is_on_device(&self) -> bool {
        self.context().device() == Device::Gpu
    }

    /// Whether it shows all elements of its memory, one after the other.
    pub(super) fn is_all(&self) -> bool {
        *self.layout() == Layout::contiguous(self.shape()) && self.size() == self.elements()
    }
}

/// Refuses arrays of a device, for which there are no kernels.
///
/// # Errors
/// [`ContextMismatch`](ErrorKind::ContextMismatch) if others lie elsewhere;
/// [`UnsupportedContext`](ErrorKind::UnsupportedContext).
pub(crate) fn check_processor<'a>(arrays: impl Iterator<Item = &'a NDArray> + Clone) -> Result<(), Error> {
    match common_device(arrays)? {
        None => Ok(()),
        Some(device) => Err(no_kernel(device)),
    }
}

/// The device that all arrays lie on, or none if they lie where the processor reaches them.
///
/// # Errors
/// [`ContextMismatch`](ErrorKind::ContextMismatch) if only some lie there.
pub(crate) fn common_device<'a>(arrays: impl Iterator<Item = &'a NDArray> + Clone) -> Result<Option<Context>, Error> {
    match arrays.clone().find(|array| array.is_on_device()) {
        None => Ok(None),
        Some(first) => all_on(first.context(), arrays.map(NDArray::context)).map(Some),
    }
}

#[cold]
fn all_on(on: Context, mut all: impl Iterator<Item = Context>) -> Result<Context, Error> {
    match all.find(|other| *other != on) {
        None => Ok(on),
        Some(other) => {
            let message = format!("its arrays lie on {on} and on {other}: bring them to one by as_in_context");
            Err(Error::new(ErrorKind::ContextMismatch, message))
        }
    }
}

/// The error of a call that has no kernel where its arrays lie.
#[cold]
pub(crate) fn no_kernel(on: Context) -> Error {
    let elsewhere = match on.device() {
        Device::Gpu => "the processor by as_in_context(Context::cpu(0))",
        _ => "a device that it has one for, by as_in_context",
    };
    let message = format!("it has no kernel for {on}: bring its arrays to {elsewhere}");
    Error::new(ErrorKind::UnsupportedContext, message)
}
