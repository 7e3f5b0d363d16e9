//! Whether an operation has come to its turn: its own tickets have come, and now it looks at those
//! of devices.
//!
//! Used by `execute.rs` and `holds.rs` ([`Core::comes_to_turn`], once a device has been used), by
//! `wait/for_var.rs`, by `replay/part.rs`, and by `borrow.rs`, `queue.rs`, `submit.rs` and
//! `watch.rs`. It runs on the thread that has the operation, or waits for the variable, and keeps
//! nothing: the tickets are in `rows.rs`. An operation of the processor that is behind something
//! unreached is *parked*: it goes to the watcher of that device (`watch.rs`). The watcher asks
//! `obstacle` again when it takes the operation, and when the device has come there: it keeps the
//! operation, passes it on to another device's watcher, or hands it out. No thread waits.

use crate::device::backend::Class;
use crate::device::timeline::DeviceTicket;
use crate::device::{Context, Device};
use crate::engine::core::Core;
use crate::engine::gpu::devices::{Fleet, Gpu};
use crate::engine::gpu::rows::Row;
use crate::engine::gpu::sleep;
use crate::error::Failure;
use crate::operation::access::Mode;
use crate::operation::block::{Block, FLAG_UNLOOKED, FLAG_WAIT};
use crate::thread::context::ThreadContext;
use crate::variable::slot::Slot;
use std::sync::Arc;

impl Core {
    /// Whether the calling thread is to run an operation now. If not, the operation is parked, or
    /// this call has queued it on its device.
    ///
    /// # Safety
    /// The operation is ready, and the caller's. If the call returns false, it is not any more.
    #[cold]
    #[inline(never)]
    pub unsafe fn comes_to_turn(
        self: &Arc<Self>,
        local: &ThreadContext,
        block: *mut Block,
        worker: Option<usize>,
    ) -> bool {
        // SAFETY: the operation is ours, by the contract.
        unsafe {
            if (*block).flags & FLAG_UNLOOKED != 0 {
                return true;
            }
            let context = Block::context(block);
            if context.device() == Device::Gpu {
                self.queue_on_device(local, block, context, worker);
                return false;
            }
            if let Some(ticket) = self.obstacle(block, None) {
                self.park_behind(ticket, block);
                return false;
            }
            self.forget_tickets(block);
            true
        }
    }

    /// The first ticket that an operation has to come after and that is not reached, except those
    /// of device `own`. Variables whose last write is lost with its device are marked on the way.
    ///
    /// # Safety
    /// The operation is ready, and the caller's.
    pub(in crate::engine) unsafe fn obstacle(&self, block: *mut Block, own: Option<&Gpu>) -> Option<DeviceTicket> {
        let fleet = self.gpus.fleet.get()?;
        let mut found = None;
        // SAFETY: by the contract.
        unsafe {
            self.each_row(block, |row, slot, mode| {
                for (ticket, wrote) in row.before(mode) {
                    let (gpu, _) = fleet.of(ticket);
                    if found.is_some() || own.is_some_and(|own| own.number == gpu.number) || fleet.is_reached(ticket) {
                        continue;
                    }
                    match gpu.lost.get() {
                        // What the device only read is as it was. A wait for everything tells of
                        // all that is lost.
                        Some(failure) if wrote && mode != Mode::Delete && failure.is_live() => {
                            self.tell_loss(row, slot, ticket, failure);
                        }
                        Some(_) => {}
                        None => found = Some(ticket),
                    }
                }
            });
        }
        found
    }

    /// Marks a variable whose last write is lost with its device, once, with a failure of its own:
    /// each variable is told of by itself. For an access that runs, and others may do so at once.
    #[cold]
    fn tell_loss(&self, row: &Row, slot: &Slot, ticket: DeviceTicket, failure: &Failure) {
        if !row.is_told(ticket) {
            self.failures.record_first(failure.error.clone(), |own| slot.mark_first(own));
            row.tell(ticket);
        }
    }

    /// Calls `look` with each variable of the operation that a device has used.
    ///
    /// # Safety
    /// The operation is ready, and the caller's.
    pub(super) unsafe fn each_row(&self, block: *mut Block, mut look: impl FnMut(&Row, &Slot, Mode)) {
        let Some(Fleet { rows, .. }) = self.gpus.fleet.get() else { return };
        // SAFETY: by the contract, its accesses are alive.
        unsafe {
            for index in 0..(*block).count {
                let access = Block::access(block, index);
                let variable = (*access).variable;
                if let Some(row) = rows.get(variable) {
                    look(row, self.slot(variable), (*access).mode().plain());
                }
            }
        }
    }

    /// Forgets the tickets of the variables that an operation of the processor changes: all are
    /// reached, or lost and marked. After a deletion the place is another variable's.
    ///
    /// # Safety
    /// The operation is at its turn, and the caller's.
    pub(in crate::engine) unsafe fn forget_tickets(&self, block: *mut Block) {
        // A wait for all uses of a variable only looks like a change.
        // SAFETY: by the contract. Who changes a variable is alone there.
        unsafe {
            if (*block).flags & FLAG_WAIT == 0 {
                self.each_row(block, |row, _, mode| {
                    if mode != Mode::Read {
                        row.clear();
                    }
                });
            }
        }
    }

    /// Gives an operation to the watcher of the device that it is behind.
    ///
    /// # Safety
    /// The operation is ready. It belongs to the caller, which gives it up.
    pub(in crate::engine) unsafe fn park_behind(&self, ticket: DeviceTicket, block: *mut Block) {
        let fleet = self.gpus.fleet.get().expect("there are tickets");
        // SAFETY: by the contract.
        unsafe { park(fleet.of(ticket).0, block) }
    }

    /// Whether a device has still to do the last write of a variable, or is lost with it. For a
    /// thread that waits.
    pub fn is_behind_device(&self, variable: u32) -> bool {
        let Some(fleet) = self.gpus.fleet.get() else { return false };
        let row = fleet.rows.get(variable);
        row.and_then(Row::write).is_some_and(|ticket| !fleet.is_reached(ticket))
    }
}

/// Gives an operation to a watcher.
///
/// # Safety
/// The operation is ready. It belongs to the caller, which gives it up.
pub unsafe fn park(gpu: &Gpu, block: *mut Block) {
    // SAFETY: by the contract.
    unsafe { sleep::park(&gpu.watcher, block) }
}

/// The context and the class of an operation of a device.
///
/// # Safety
/// The block is an operation of the caller's.
pub unsafe fn destination(block: *mut Block) -> (Context, Class) {
    // SAFETY: by the contract.
    unsafe { (Block::context(block), Gpu::class(Block::property(block), (*block).priority)) }
}
