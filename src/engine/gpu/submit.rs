//! Hands an operation to the workers of its device.
//!
//! Used by `complete.rs`, `push/mod.rs` and `replay/part.rs`, where ready operations are handed
//! out, on any thread; and by `watch.rs`, on the watcher, for operations that have waited for room.
//! `queue.rs` and `execute.rs` take what was handed over, on the worker. Nothing is kept here: of
//! the counters of `devices.rs`, `given` is raised and lowered here, and `waiting` is only read;
//! `watch.rs` changes it.

use crate::device::backend::Class;
use crate::engine::core::{Core, ReadyCause};
use crate::engine::gpu::devices::Gpu;
use crate::engine::gpu::turn::{destination, park};
use crate::engine::settings::Kind;
use crate::operation::block::Block;
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use crate::worker::group::Placement;
use std::sync::Arc;

impl Core {
    /// Hands an operation to its device. On the naive engine it runs like any other.
    ///
    /// # Safety
    /// The operation is ready, was admitted, and is the caller's to give away.
    #[cold]
    #[inline(never)]
    pub unsafe fn submit_to_device(self: &Arc<Self>, local: &ThreadContext, block: *mut Block, cause: ReadyCause) {
        // SAFETY: by the contract.
        unsafe {
            if self.settings.kind == Kind::Naive {
                return self.dispatch.submit(self, local, block, cause);
            }
            let (context, class) = destination(block);
            let gpu = self.gpu(context);
            if gpu.waiting[class as usize].load(Relaxed) > 0 || gpu.room(class) == 0 {
                // The operation waits for room, in the order of priorities and pushes.
                return park(gpu, block);
            }
            self.submit_to_worker(local, gpu, class, block);
        }
    }

    /// Hands an operation to a worker of its device.
    ///
    /// # Safety
    /// As [`Core::submit_to_device`]; the operation is of this class and device. A
    /// worker that comes to it calls [`Core::take_given`].
    pub(super) unsafe fn submit_to_worker(&self, local: &ThreadContext, gpu: &Gpu, class: Class, block: *mut Block) {
        // SAFETY: by the contract.
        unsafe {
            gpu.given(class).fetch_add(1, Relaxed);
            // All to one, so that they are queued in the order in which they became ready. Others
            // of the group take what it leaves.
            gpu.group(class).submit(block, Placement::Worker(0), local.depth.get());
        }
    }

    /// Counts an operation that a worker has come to as no longer given.
    ///
    /// # Safety
    /// The operation has a stream, and is the caller's, which is a worker of its device.
    pub(in crate::engine) unsafe fn take_given(&self, block: *mut Block) {
        // SAFETY: by the contract.
        let (context, class) = unsafe { destination(block) };
        self.gpu(context).given(class).fetch_sub(1, Relaxed);
    }
}
