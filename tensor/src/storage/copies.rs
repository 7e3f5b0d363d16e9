//! `Copies`: a list of plain values in a block of a storage, as `Vec` has one in memory of the
//! system.
//!
//! Used by `ndarray/frame.rs` for what an operation carries, so that pushing it allocates nothing.
//! An empty list has no block. The thread that drops it gives the block back.

use crate::error::Error;
use crate::storage::classes::LINE;
use crate::storage::handle::Handle;
use crate::storage::pool::Storage;
use crate::storage::tags::Tag;
use std::marker::PhantomData;

#[derive(Debug)]
pub struct Copies<T> {
    block: Option<Handle>,
    count: usize,
    values: PhantomData<T>,
}

impl<T: Copy> Copies<T> {
    pub const fn new() -> Copies<T> {
        Copies { block: None, count: 0, values: PhantomData }
    }

    /// Adds a value, and returns its place. A list without room moves to a block of twice the size.
    pub fn push(&mut self, storage: &Storage, value: T) -> Result<usize, Error> {
        const { assert!(align_of::<T>() <= LINE && size_of::<T>() > 0) };
        let at = self.count;
        let room = self.block.as_ref().map_or(0, |block| block.capacity() / size_of::<T>());
        if at == room {
            let bytes = size_of::<T>() * (2 * room).max(2);
            let moved = storage.alloc_as(Tag::NONE, bytes, seriatim::Context::cpu(0))?;
            // SAFETY: both blocks have room for the values that there are, which are plain.
            unsafe { moved.address().cast::<T>().copy_from_nonoverlapping(self.first(), at) };
            self.block = Some(moved);
        }
        // SAFETY: the block has room for one more, is aligned to a line, and is this list's alone.
        unsafe { self.first().add(at).write(value) };
        self.count += 1;
        Ok(at)
    }

    /// Where the values begin.
    fn first(&self) -> std::ptr::NonNull<T> {
        self.block.as_ref().map_or(std::ptr::NonNull::dangling(), |block| block.address().cast())
    }

    pub fn as_slice(&self) -> &[T] {
        // SAFETY: so many were written there, and the list is borrowed.
        unsafe { std::slice::from_raw_parts(self.first().as_ptr(), self.count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_as_the_list_grows_and_its_block_comes_back() {
        let (storage, mut list) = (Storage::builder().build(), Copies::new());
        assert!(list.as_slice().is_empty());
        for value in 0..100u64 {
            assert_eq!(list.push(&storage, [value; 5]).unwrap(), value as usize);
        }
        assert!(list.as_slice().iter().zip(0..).all(|(values, value)| *values == [value; 5]));
        drop(list);
        assert_eq!(storage.statistics(seriatim::Context::cpu(0)).unwrap().live, 0);
    }
}
