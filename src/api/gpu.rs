//! What the builder of an engine has for GPUs. Programs call it, on the thread that has the builder
//! (`src/api/builder.rs`). The values are checked in `src/engine/settings.rs`, and used when a
//! device is made ready (`src/engine/gpu/admit.rs`).

#![forbid(unsafe_code)]

use crate::api::builder::Builder;
use crate::device::backend::Backend;
use crate::engine::gpu::devices::GivenBackend;
use std::sync::Arc;

impl Builder {
    /// What drives GPUs. Without it, a build with the feature `cuda` asks CUDA's driver when a push
    /// first names a GPU, and a build without it has none. [`Backend`] has an example.
    pub fn gpus(mut self, backend: Arc<dyn Backend>) -> Builder {
        self.gpus = GivenBackend(Some(backend));
        self.settings.has_gpus = true;
        self
    }

    /// Workers for each GPU, 1 to 16 (default 2): threads that queue work on the device. Each has
    /// two streams for kernels and one for urgent ones. Beside them each GPU has a copy worker,
    /// with a stream for each direction. In an engine without GPUs
    /// [`Engine::warnings`](crate::Engine::warnings) says so.
    ///
    /// ```
    /// let engine = seriatim::Engine::builder().gpu_workers(3).build()?;
    /// assert_eq!(engine.settings().gpu_workers, 3);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn gpu_workers(mut self, gpu_workers: usize) -> Builder {
        (self.settings.gpu_workers, self.settings.asks_for_gpus) = (gpu_workers, true);
        self
    }

    /// How many operations are queued on a stream of a GPU at most before the device has done one
    /// of them, 1 to 1024 (default 64). No later operation, however urgent, overtakes one that is
    /// queued, and a driver blocks its caller after about a thousand. But a device that has nothing
    /// queued is idle. An asynchronous operation counts until the device has done what its closure
    /// has put on its own stream, whenever its completion is used.
    ///
    /// ```
    /// let engine = seriatim::Engine::builder().gpu_ahead(8).build()?;
    /// assert_eq!(engine.settings().gpu_ahead, 8);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn gpu_ahead(mut self, gpu_ahead: usize) -> Builder {
        self.settings.gpu_ahead = gpu_ahead;
        self
    }

    /// The most bytes that the engine's buffers on each GPU come to, those included that it keeps
    /// for their next owner; 0 (default): as much as the device has. Beyond it a new
    /// [`DeviceData`](crate::gpu::DeviceData) is an error of kind
    /// [`OutOfMemory`](crate::ErrorKind::OutOfMemory); what is kept is freed before. Pinned memory
    /// does not count.
    ///
    /// ```
    /// let engine = seriatim::Engine::builder().gpu_memory(8 << 30).build()?;
    /// assert_eq!(engine.settings().gpu_memory, 8 << 30);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn gpu_memory(mut self, gpu_memory: usize) -> Builder {
        self.settings.gpu_memory = gpu_memory;
        self
    }

    /// Has the numbers of timelines follow `start`, for tests of large numbers.
    pub(crate) fn gpu_numbers_follow(mut self, start: u64) -> Builder {
        self.settings.gpu_start = start;
        self
    }
}
