//! `StorageBuilder`: the settings of a storage.
//!
//! Programs choose them; `pool.rs` goes by them.

#![forbid(unsafe_code)]

use crate::storage::classes::Pooling;
use crate::storage::pool::Storage;

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
    pub(super) pooling: Pooling,
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
