//! Queues an operation on its device: chooses a stream, and has it wait for what the operation
//! comes after.
//!
//! Runs on a worker of the device, which owns its timelines. On the naive engine, and for
//! [`Property::Async`](crate::Property::Async), it runs on any thread, and there is no timeline.

use crate::device::backend::Class;
use crate::device::raw::DriverError;
use crate::device::timeline::MOST_LINES;
use crate::device::Context;
use crate::engine::core::Core;
use crate::engine::gpu::call::Way;
use crate::engine::gpu::devices::Gpu;
use crate::engine::gpu::turn::{destination, park};
use crate::engine::settings::Kind;
use crate::operation::block::{Block, FLAG_GPU};
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use std::cell::Cell;
use std::sync::Arc;

std::thread_local! {
    /// The address of the device that is current on this worker, once it is; else 0.
    static ENTERED: Cell<usize> = const { Cell::new(0) };
}

/// Makes the device current on the calling worker, which belongs to it for as long as it runs.
fn enter_once(gpu: &Gpu) -> Result<(), DriverError> {
    let address = std::ptr::from_ref(gpu).addr();
    if ENTERED.get() != address {
        gpu.backend.enter(gpu.number)?;
        ENTERED.set(address);
    }
    Ok(())
}

impl Core {
    /// The device of a context that an operation in flight has.
    pub(in crate::engine) fn gpu(&self, context: Context) -> &Arc<Gpu> {
        let gpu = self.gpus.fleet.get().and_then(|fleet| fleet.gpus.get(context.id() as usize)?.get());
        gpu.expect("a push has made it ready")
    }

    /// Queues an operation on its device, or parks it.
    ///
    /// # Safety
    /// The operation is ready, and the caller's, who gives it up.
    pub(super) unsafe fn queue_on_device(
        self: &Arc<Self>,
        local: &ThreadContext,
        block: *mut Block,
        context: Context,
        worker: Option<usize>,
    ) {
        let gpu = self.gpu(context);
        // SAFETY: by the contract.
        unsafe {
            if let Some((way, ready)) = self.way_to_device(gpu, block, worker) {
                self.call_on_device(local, block, gpu, way, ready, worker);
            }
        }
    }

    /// How an operation comes to its device now, and whether its stream waits for all that it
    /// should. Or else parks it.
    ///
    /// # Safety
    /// The operation is ready, and the caller's. If it is parked, it is not any more.
    pub(in crate::engine) unsafe fn way_to_device(
        &self,
        gpu: &Arc<Gpu>,
        block: *mut Block,
        worker: Option<usize>,
    ) -> Option<(Way, Result<(), DriverError>)> {
        // SAFETY: by the contract.
        unsafe {
            let has_stream = (*block).flags & FLAG_GPU != 0;
            let worker_of_it = worker.filter(|_| has_stream && self.settings.kind != Kind::Naive);
            if worker_of_it.is_some() {
                self.take_given(block);
            }
            if let Some(ticket) = self.obstacle(block, worker_of_it.map(|_| &**gpu)) {
                self.park_behind(ticket, block);
                return None;
            }
            if worker_of_it.is_none() {
                self.forget_tickets(block);
            }
            let way = match worker_of_it {
                None if has_stream => Way::Finished,
                None => Way::Unstreamed,
                Some(_) if gpu.lost.get().is_some() => Way::Unstreamed,
                Some(worker) => {
                    let (_, class) = destination(block);
                    match self.choose(gpu, block, class, worker) {
                        Some(line) => Way::Queued(line),
                        // Too far ahead everywhere: it waits for room.
                        None => {
                            park(gpu, block);
                            return None;
                        }
                    }
                }
            };
            let ready = match way {
                Way::Queued(line) => enter_once(gpu).and_then(|()| self.order(gpu, block, line)),
                _ => Ok(()),
            };
            Some((way, ready))
        }
    }

    /// The timeline for an operation on this worker: one that it would follow, else the next that
    /// is not too far ahead.
    ///
    /// # Safety
    /// As [`Core::queue_on_device`].
    unsafe fn choose(&self, gpu: &Gpu, block: *mut Block, class: Class, worker: usize) -> Option<usize> {
        let own = gpu.lines_of(class, worker);
        let has_room = |local: usize| gpu.lines[local].room(gpu.ahead) > 0;
        if class == Class::Compute {
            // SAFETY: by the contract.
            let followed = unsafe { self.followed(gpu, block, |local| own.contains(&local) && has_room(local)) };
            if followed.is_some() {
                return followed;
            }
        }
        // Relaxed: the worker's own counter.
        let turn = gpu.lines[own.start].next.fetch_add(1, Relaxed);
        let chosen = (0..own.len()).map(|step| own.start + (turn + step) % own.len()).find(|local| has_room(*local));
        if let Some(local) = chosen.filter(|_| class == Class::Compute) {
            // If the mark is refused, the next one who needs it sees the error.
            let _ = gpu.lines[local].timeline.mark_last(&*gpu.backend);
        }
        chosen
    }

    /// Has the stream of a timeline wait for all that the operation comes after on its device.
    ///
    /// # Safety
    /// As [`Core::queue_on_device`]; the calling thread owns the timeline.
    unsafe fn order(&self, gpu: &Gpu, block: *mut Block, line: usize) -> Result<(), DriverError> {
        let Some(fleet) = self.gpus.fleet.get() else { return Ok(()) };
        // The last ticket on each timeline: a wait for it is one for all before it.
        let mut last = [0; MOST_LINES];
        // SAFETY: by the contract.
        unsafe {
            self.each_row(block, |row, _, mode| {
                for (ticket, _) in row.before(mode) {
                    let (of, local) = fleet.of(ticket);
                    if of.number == gpu.number {
                        last[local] = ticket.number().max(last[local]);
                    }
                }
            });
        }
        let (backend, own) = (&*gpu.backend, &gpu.lines[line].timeline);
        let before = gpu.lines.iter().zip(last).filter(|(_, number)| *number > 0);
        before.into_iter().try_for_each(|(line, number)| own.follow(backend, &line.timeline, number))
    }
}
