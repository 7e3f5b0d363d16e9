//! `StorageBuilder`: the settings of a storage.
//!
//! Programs choose them; `pool.rs` goes by them.

#![forbid(unsafe_code)]

use crate::storage::classes::Pooling;
use crate::storage::pool::Storage;
use seriatim::{Context, Device};

/// So many GPUs may have a kind of pool of their own.
const GPUS: usize = 16;

/// Chooses the settings of a [`Storage`].
///
/// ```
/// use seriatim_tensor::storage::{Pooling, Storage};
/// let storage = Storage::builder().pooling(Pooling::None).limit(1 << 30).build();
/// # let _ = storage;
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "a builder does nothing until build() is called"]
pub struct StorageBuilder {
    pooling: Pooling,
    /// The kinds of single contexts: of `cpu`, of `cpu_pinned`, and of each GPU.
    of_contexts: [Option<Pooling>; 2 + GPUS],
    pub(super) limit: usize,
    reserve: usize,
}

impl StorageBuilder {
    /// How requests are rounded, and whether blocks are kept. [`Pooling::Eighths`] by default.
    ///
    /// ```
    /// use seriatim_tensor::storage::{Pooling, Storage};
    /// let storage = Storage::builder().pooling(Pooling::None).build();
    /// drop(storage.alloc(1, Default::default())?);
    /// assert_eq!(storage.statistics(Default::default())?.pooled, 0);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn pooling(mut self, pooling: Pooling) -> StorageBuilder {
        self.pooling = pooling;
        self
    }

    /// The same for one context. All contexts of `cpu` are one, and so are those of `cpu_pinned`.
    ///
    /// Memory of a GPU is the engine's, which rounds to powers of two from 512 bytes to 1 MiB, and
    /// then to quarters of the power below. The kinds differ where they round more: all sizes of
    /// [`Pooling::PowersOfTwo`] are powers, and those of [`Pooling::Pages`] at least a page. With
    /// [`Pooling::None`] it goes back to the GPU's driver, and with it what is pinned for the GPU:
    /// whenever an array of the GPU ends and before the next one is made, as far as the GPU is done
    /// with it. A GPU with a number from 16 on has the kind of
    /// [`pooling`](StorageBuilder::pooling).
    ///
    /// ```
    /// use seriatim::{gpu::Immediate, Context, Engine};
    /// use seriatim_tensor::{storage::{Pooling, Storage}, DType, Runtime};
    /// let engine = Engine::builder().gpus(Immediate::new(2)).build()?;
    /// let storage = Storage::builder().pooling_of(Context::gpu(1), Pooling::None).build();
    /// let runtime = Runtime::builder(&engine).storage(storage).build();
    /// for (gpu, pooled) in [(Context::gpu(0), 4096), (Context::gpu(1), 0)] {
    ///     drop(runtime.empty_in([1024], DType::F32, gpu)?);
    ///     runtime.wait_all()?;
    ///     assert_eq!(runtime.statistics(gpu)?.pooled, pooled);
    /// }
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn pooling_of(mut self, context: Context, pooling: Pooling) -> StorageBuilder {
        if let Some(of_context) = place(context).and_then(|place| self.of_contexts.get_mut(place)) {
            *of_context = Some(pooling);
        }
        self
    }

    /// The kind of pool that a context has.
    pub(super) fn kind_of(&self, context: Context) -> Pooling {
        let of_context = place(context).and_then(|place| self.of_contexts.get(place).copied().flatten());
        of_context.unwrap_or(self.pooling)
    }

    /// The most bytes to hold of each kind of memory, live and kept ones together. 0, the default,
    /// is no limit.
    ///
    /// ```
    /// use seriatim_tensor::storage::Storage;
    /// let storage = Storage::builder().limit(4096).build();
    /// assert!(storage.alloc(4097, Default::default()).is_err());
    /// ```
    pub fn limit(mut self, bytes: usize) -> StorageBuilder {
        self.limit = bytes;
        self
    }

    /// A share of the limit, in hundredths, that is not filled with kept blocks: a block that
    /// comes back goes to the system while more than the rest is held. 0, the default, keeps all.
    /// Without a limit it has no effect. (`MXNET_GPU_MEM_POOL_RESERVE`)
    ///
    /// ```
    /// use seriatim_tensor::storage::Storage;
    /// let storage = Storage::builder().limit(1024).reserve(50).build();
    /// drop((storage.alloc(256, Default::default())?, storage.alloc(512, Default::default())?));
    /// assert_eq!(storage.statistics(Default::default())?.pooled, 512);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn reserve(mut self, hundredths: usize) -> StorageBuilder {
        self.reserve = hundredths.min(100);
        self
    }

    /// How many bytes may be held while blocks are kept.
    pub(super) fn most_with_kept(&self) -> usize {
        match (self.limit, self.reserve) {
            (0, _) | (_, 0) => usize::MAX,
            (limit, reserve) => (limit as u128 * (100 - reserve) as u128 / 100) as usize,
        }
    }

    /// Makes the storage.
    ///
    /// ```
    /// let storage = seriatim_tensor::storage::Storage::builder().build();
    /// # let _ = storage;
    /// ```
    pub fn build(self) -> Storage {
        Storage::of(self)
    }
}

/// The place of a context among those that may have a kind of pool of their own.
fn place(context: Context) -> Option<usize> {
    match context.device() {
        Device::Cpu => Some(0),
        Device::CpuPinned => Some(1),
        Device::Gpu => Some(2 + context.id() as usize),
        _ => None,
    }
}
