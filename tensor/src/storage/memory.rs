//! `Memory`: what an array's chunk lies in, a block of a storage, pinned memory of the engine's, or
//! memory of somebody else.
//!
//! Used by `ndarray/chunk.rs`, which keeps it, and by `dlpack/`, which brings memory of others.

use crate::error::Error;
use crate::storage::handle::Handle;
use seriatim::gpu::PinnedData;
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
    /// Of a variable of its own, which is the array's.
    Pinned(PinnedData<u8>),
    Foreign(Box<dyn Foreign>),
}

impl Memory {
    /// The first byte, for an operation that has declared the array's variable, to change it if
    /// `writes`. Fails only for pinned memory that has never come.
    pub fn address(&self, writes: bool) -> Result<NonNull<u8>, Error> {
        match self {
            Memory::Block(block) => Ok(block.address()),
            // The operation's turn in the order of the variable keeps others away, also devices.
            Memory::Pinned(pinned) if writes => Ok(NonNull::from(&mut *pinned.write()?).cast()),
            Memory::Pinned(pinned) => Ok(NonNull::from(&*pinned.read()?).cast()),
            Memory::Foreign(foreign) => Ok(foreign.address()),
        }
    }

    pub fn is_read_only(&self) -> bool {
        match self {
            Memory::Block(_) | Memory::Pinned(_) => false,
            Memory::Foreign(foreign) => foreign.is_read_only(),
        }
    }
}
