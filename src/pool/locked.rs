//! Blocks that the system keeps in memory, for `Builder::lock_memory`: what was asked for, and what
//! the system refused. Used by `pool/slabs.rs`, where blocks are made, and by
//! `pool/thread_cache.rs`, on any thread. `engine/core.rs`, `api/prepare.rs` and `Engine::warnings`
//! ask what was refused. In the child of a fork `engine/fork.rs` has all of them locked again.

use crate::error::{Error, ErrorKind};
use crate::platform::low_memory::Low;
use crate::sync::{AtomicU32, AtomicUsize, Ordering::*};
use std::alloc::Layout;
use std::io;

/// How the memory of blocks is allocated, and which of it could not be locked.
pub struct BlockMemory {
    is_locked: bool,
    /// How many bytes the system did not lock, and what it said last. Relaxed: any thread may count
    /// here, and the numbers are for a message.
    refused: AtomicUsize,
    said: AtomicU32,
}

impl BlockMemory {
    pub fn new() -> BlockMemory {
        BlockMemory { is_locked: false, refused: AtomicUsize::new(0), said: AtomicU32::new(0) }
    }

    /// Has all blocks that are made from now on locked.
    pub fn set_locked(&mut self) {
        self.is_locked = true;
    }

    /// Allocates memory for blocks. Memory that the system does not lock is used all the same: the
    /// push that needs it goes on, and [`BlockMemory::refusal`] tells of it.
    pub fn allocate(&self, layout: Layout) -> Low {
        if !self.is_locked {
            return Low::allocate(layout, false);
        }
        let (low, locked) = Low::allocate_locked(layout);
        self.note(&locked, layout);
        low
    }

    /// Counts what the system did not lock.
    fn note(&self, locked: &io::Result<()>, layout: Layout) {
        if let Err(said) = locked {
            self.said.store(said.raw_os_error().unwrap_or_default() as u32, Relaxed);
            self.refused.fetch_add(layout.size(), Relaxed);
        }
    }

    /// For the child of a `fork`: locks all blocks again if the settings ask for it. What the
    /// system refused the parent does not count here.
    ///
    /// # Safety
    /// `blocks` have come from [`BlockMemory::allocate`] with these layouts, and were not freed.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub unsafe fn lock_again(&self, blocks: impl Iterator<Item = (Low, Layout)>) {
        if !self.is_locked {
            return;
        }
        self.refused.store(0, Relaxed);
        for (low, layout) in blocks {
            // SAFETY: the memory came from `Low::allocate_locked`: blocks are locked from the first
            // one on.
            self.note(&unsafe { low.lock_again(layout) }, layout);
        }
    }

    /// What the system has refused so far, in words.
    pub fn refusal(&self) -> Option<String> {
        let bytes = self.refused.load(Relaxed);
        (bytes > 0).then(|| {
            let said = io::Error::from_raw_os_error(self.said.load(Relaxed) as i32);
            format!(
                "the system refused to lock {bytes} bytes of the engine's blocks ({said}): raise RLIMIT_MEMLOCK (`ulimit -l`), give \
                 the program CAP_IPC_LOCK, set a bound, or leave lock_memory off"
            )
        })
    }

    /// # Errors
    /// [`ErrorKind::MemoryLockRefused`] if the system has refused anything so far.
    pub fn check(&self) -> Result<(), Error> {
        self.refusal().map_or(Ok(()), |text| Err(Error::new(ErrorKind::MemoryLockRefused, text)))
    }
}
