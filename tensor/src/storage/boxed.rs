//! `Boxed`: a value in a block of a storage, as `Box` has one in memory of the system.
//!
//! Used by `operator/kernel_call.rs` for what an operation carries, so that pushing it allocates
//! nothing. The thread that drops it drops the value and gives the block back.

use crate::error::Error;
use crate::storage::classes::LINE;
use crate::storage::handle::Handle;
use crate::storage::pool::Storage;
use crate::storage::tags::Tag;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

#[derive(Debug)]
pub struct Boxed<T> {
    block: Handle,
    value: PhantomData<T>,
}

impl<T> Boxed<T> {
    pub fn new(storage: &Storage, value: T) -> Result<Boxed<T>, Error> {
        const { assert!(align_of::<T>() <= LINE) };
        let block = storage.alloc_as(Tag::NONE, size_of::<T>(), seriatim::Context::cpu(0))?;
        // SAFETY: the block is as large as a `T`, aligned to a line, and nobody else has it.
        unsafe { block.address().cast::<T>().write(value) };
        Ok(Boxed { block, value: PhantomData })
    }
}

impl<T> Deref for Boxed<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: `new` has put a `T` there, which stays until the drop.
        unsafe { self.block.address().cast::<T>().as_ref() }
    }
}

impl<T> DerefMut for Boxed<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and borrowed exclusively.
        unsafe { self.block.address().cast::<T>().as_mut() }
    }
}

impl<T> Drop for Boxed<T> {
    fn drop(&mut self) {
        // SAFETY: the value is there, and nobody uses it again. The block goes back afterwards.
        unsafe { self.block.address().cast::<T>().drop_in_place() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_value_is_dropped_once_and_its_block_comes_back() {
        let (storage, value) = (Storage::builder().build(), Arc::new(7));
        let mut boxed = Boxed::new(&storage, (Arc::clone(&value), [1u8; 100])).unwrap();
        boxed.1[0] = 2;
        assert_eq!((*boxed.0, boxed.1[0], Arc::strong_count(&value)), (7, 2, 2));
        drop(boxed);
        assert_eq!(Arc::strong_count(&value), 1);
        assert_eq!(storage.statistics(seriatim::Context::cpu(0)).unwrap().live, 0);
    }
}
