//! Borrows of operations that leave no ticket: the asynchronous ones of a device, which end by a
//! completion, and all of the naive engine.
//!
//! Such an operation borrows the arrays that it has declared, from before its closure is called
//! until it ends. It ends when the device has done what the operation uses: the naive engine has
//! waited for the stream, or the completion was used. Other operations of a device leave a ticket,
//! which does the same until the device has come there. So on each engine the processor is refused
//! a pinned array, and no memory goes to another array, while a device uses it.
//!
//! `call.rs` begins a borrow, on the thread that calls the closure, and ends one of the naive
//! engine. The thread that uses a completion, or the watcher, ends the others (`execute.rs`,
//! `replay/mod.rs`). They are kept in the rows of the variables (`rows.rs`), and `lease.rs` looks
//! there, on any thread.

use crate::device::Device;
use crate::engine::core::Core;
use crate::error::Failure;
use crate::operation::block::Block;
use crate::sync::Ordering::Relaxed;
use std::sync::Arc;

impl Core {
    /// Begins the borrow of an operation, whose closure is called next.
    ///
    /// # Safety
    /// The operation is at its turn, and the caller's.
    pub(super) unsafe fn begin_borrow(&self, block: *mut Block) {
        let fleet = self.gpus.fleet.get().expect("there is a device");
        // SAFETY: by the contract, its accesses are alive.
        unsafe {
            for index in 0..(*block).count {
                let access = Block::access(block, index);
                fleet.rows.get_or_add((*access).variable).begin_borrow((*access).mode());
            }
        }
    }

    /// Ends the borrow of an operation, which ends next.
    ///
    /// # Safety
    /// [`Core::begin_borrow`] was called for the operation, and this was not. It has not ended.
    pub(in crate::engine) unsafe fn end_borrow(&self, block: *mut Block) {
        // SAFETY: the operation is under way, by the contract.
        unsafe { self.each_row(block, |row, _, mode| row.end_borrow(mode)) };
    }

    /// What an operation inherits whose completion is used. Ends its borrow, if it is one of a
    /// device.
    ///
    /// # Safety
    /// The operation was called, and this is its end.
    #[cold]
    #[inline(never)]
    pub(in crate::engine) unsafe fn look_back(&self, block: *mut Block) -> Option<Arc<Failure>> {
        // SAFETY: by the contract. `call.rs` has begun the borrow of any that is called on a
        // device.
        unsafe {
            if Block::context(block).device() == Device::Gpu {
                self.end_borrow(block);
            }
            if self.state.load(Relaxed).has_failed() {
                self.inherited(block)
            } else {
                None
            }
        }
    }
}
