//! `Memory`: what an array's chunk lies in, a block of a storage or memory of somebody else.
//!
//! Used by `ndarray/chunk.rs`, which keeps it, and by `dlpack/`, which brings memory of others.

use crate::storage::handle::Handle;
use std::ptr::NonNull;

/// Memory that no storage has made. Dropping it gives it back to its owner.
///
/// # Safety
/// From [`address`](Foreign::address) on there is memory, aligned for the elements of the array
/// that is made of it and initialised, for as long as the value lives. The value may be dropped on
/// any thread.
pub(crate) unsafe trait Foreign: Send + Sync {
    /// The first byte; the same one at each call.
    fn address(&self) -> NonNull<u8>;

    /// Whether nobody may change it.
    fn is_read_only(&self) -> bool;
}

pub(crate) enum Memory {
    Block(Handle),
    Foreign(Box<dyn Foreign>),
}

impl Memory {
    pub fn address(&self) -> NonNull<u8> {
        match self {
            Memory::Block(block) => block.address(),
            Memory::Foreign(foreign) => foreign.address(),
        }
    }

    pub fn is_read_only(&self) -> bool {
        match self {
            Memory::Block(_) => false,
            Memory::Foreign(foreign) => foreign.is_read_only(),
        }
    }
}
