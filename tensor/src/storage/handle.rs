//! `Handle`: a block of a storage. Its owner has the memory alone, and may give it to another
//! thread.
//!
//! Used by `pool.rs`, which makes handles and takes their blocks back, and by all that ask for
//! memory.

use crate::dtype::{DType, Element};
use crate::storage::pool::Storage;
use crate::storage::tags::Tag;
use seriatim::Context;
use std::fmt;
use std::ptr::NonNull;

/// A block of memory. Dropping it gives the block back to its storage.
///
/// ```
/// let storage = seriatim_tensor::storage::Storage::builder().build();
/// let mut block = storage.alloc(3, seriatim::Context::cpu(0))?;
/// block.bytes_mut().copy_from_slice(&[1, 2, 3]);
/// assert_eq!(block.bytes(), [1, 2, 3]);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
pub struct Handle {
    pub(super) storage: Storage,
    pub(super) address: NonNull<u8>,
    pub(super) size: usize,
    pub(super) capacity: usize,
    pub(super) class: usize,
    pub(super) context: Context,
    pub(super) tag: Tag,
}

// SAFETY: the handle alone has its block, which is plain memory.
unsafe impl Send for Handle {}
// SAFETY: a shared handle gives out shared bytes only.
unsafe impl Sync for Handle {}

impl Handle {
    /// How many bytes were asked for.
    ///
    /// ```
    /// # let storage = seriatim_tensor::storage::Storage::builder().build();
    /// assert_eq!(storage.alloc(7, Default::default())?.size(), 7);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn size(&self) -> usize {
        self.size
    }

    /// How many bytes the block has.
    ///
    /// ```
    /// # let storage = seriatim_tensor::storage::Storage::builder().build();
    /// assert_eq!(storage.alloc(7, Default::default())?.capacity(), 64);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Where the memory is.
    ///
    /// ```
    /// # let storage = seriatim_tensor::storage::Storage::builder().build();
    /// assert_eq!(storage.alloc(7, Default::default())?.context(), seriatim::Context::cpu(0));
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn context(&self) -> Context {
        self.context
    }

    /// The bytes that were asked for.
    ///
    /// ```
    /// # let storage = seriatim_tensor::storage::Storage::builder().build();
    /// assert_eq!(storage.alloc(7, Default::default())?.bytes(), [0; 7]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the block has at least `size` bytes, which are initialised, and is borrowed.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.size) }
    }

    /// The same, to be changed.
    ///
    /// ```
    /// # let storage = seriatim_tensor::storage::Storage::builder().build();
    /// storage.alloc(7, Default::default())?.bytes_mut().fill(1);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr(), self.size) }
    }

    /// The first elements of the block as values of a type. What an earlier owner has left is a
    /// value of any type but `bool`, for which the bytes are set to zero.
    pub(crate) fn elements_mut<T: Element>(&mut self, count: usize) -> &mut [T] {
        assert!(count.checked_mul(size_of::<T>()).is_some_and(|bytes| bytes <= self.capacity));
        if T::DTYPE == DType::Bool {
            // SAFETY: the block has `capacity` bytes and is borrowed exclusively.
            unsafe { self.address.as_ptr().write_bytes(0, self.capacity) };
        }
        // SAFETY: the block has room for them, is aligned to a line, initialised, and borrowed
        // exclusively. Every pattern of bits is a value of an `Element` but `bool`, handled above.
        unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr().cast::<T>(), count) }
    }

    /// The first elements of the block, as they were written by
    /// [`elements_mut`](Handle::elements_mut).
    pub(crate) fn elements<T: Element>(&self, count: usize) -> &[T] {
        assert!(count.checked_mul(size_of::<T>()).is_some_and(|bytes| bytes <= self.size));
        assert!(T::DTYPE != DType::Bool || self.bytes()[..count].iter().all(|byte| *byte <= 1));
        // SAFETY: the block has room for them, is aligned to a line, initialised, and borrowed.
        // Every pattern of bits is a value of an `Element` but `bool`, which was looked at.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr().cast::<T>(), count) }
    }

    /// The address of the first byte.
    pub(crate) fn address(&self) -> NonNull<u8> {
        self.address
    }

    /// Gives the block back to the system, and not to the storage.
    ///
    /// ```
    /// # let storage = seriatim_tensor::storage::Storage::builder().build();
    /// storage.alloc(64, Default::default())?.release();
    /// assert_eq!(storage.statistics(Default::default())?.pooled, 0);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn release(self) {
        let mut handle = std::mem::ManuallyDrop::new(self);
        // SAFETY: the handle is not used again, so the clone takes the place of the one in it.
        let storage = unsafe { std::ptr::read(&handle.storage) };
        storage.give_back(&mut handle, false);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let storage = self.storage.clone();
        storage.give_back(self, true);
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({} of {} bytes, {})", self.size, self.capacity, self.context)
    }
}
