//! Queues an operation on its device: chooses a stream, and has it wait for what the operation
//! comes after.
//!
//! Runs on a worker of the device, which owns the timeline meanwhile: each worker may take each. On
//! the naive engine, and for [`Property::Async`](crate::Property::Async), it runs on any thread,
//! and there is no timeline. `turn.rs` and `replay/part.rs` come here with an operation. Nothing is
//! kept here: the timelines are in `devices.rs`, and the tickets in `rows.rs`. `call.rs` calls the
//! closure, and gives the timeline up.

use crate::device::backend::Class;
use crate::device::raw::DriverError;
use crate::device::timeline::{DeviceTicket, MOST_LINES};
use crate::device::Context;
use crate::engine::core::Core;
use crate::engine::gpu::call::Way;
use crate::engine::gpu::devices::{Gpu, OwnLine};
use crate::engine::gpu::entered::enter_once;
use crate::engine::gpu::loss::{insist, AGAIN};
use crate::engine::gpu::turn::{destination, park};
use crate::engine::settings::Kind;
use crate::operation::access::Mode;
use crate::operation::block::{Block, FLAG_GPU};
use crate::thread::context::ThreadContext;
use std::sync::Arc;

impl Core {
    /// The device of a context that an operation in flight has.
    pub(in crate::engine) fn gpu(&self, context: Context) -> &Arc<Gpu> {
        let gpu = self.gpus.fleet.get().and_then(|fleet| fleet.gpus.get(context.id() as usize)?.get());
        gpu.expect("a push has made it ready")
    }

    /// Queues an operation on its device, or parks it.
    ///
    /// # Safety
    /// The operation is ready. It belongs to the caller, which gives it up.
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
    pub(in crate::engine) unsafe fn way_to_device<'a>(
        &self,
        gpu: &'a Arc<Gpu>,
        block: *mut Block,
        worker: Option<usize>,
    ) -> Option<(Way<'a>, Result<(), DriverError>)> {
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
                // Before a stream is chosen: that may put a mark on one.
                Some(_) => match enter_once(gpu).map(|()| self.choose(gpu, block, destination(block).1)) {
                    Err(refusal) => return Some((Way::Unstreamed, Err(refusal))),
                    Ok(Some(line)) => Way::Queued(line),
                    // Too far ahead everywhere: it waits for room.
                    Ok(None) => {
                        park(gpu, block);
                        return None;
                    }
                },
            };
            let ready = match &way {
                Way::Queued(line) => self.order(gpu, block, line),
                _ => Ok(()),
            };
            Some((way, ready))
        }
    }

    /// The timeline for an operation: one that it follows, else the next that has no owner and is
    /// not too far ahead. The calling thread is its owner then.
    ///
    /// # Safety
    /// As [`Core::queue_on_device`].
    unsafe fn choose<'a>(&self, gpu: &'a Gpu, block: *mut Block, class: Class) -> Option<OwnLine<'a>> {
        if class != Class::Compute {
            return gpu.own_next(class);
        }
        // SAFETY: by the contract.
        let followed = unsafe { self.followed(gpu, block) };
        followed.or_else(|| {
            let next = gpu.own_next(class)?;
            // So that a wait for the last operation there is no wait for this one. If the mark is
            // refused, the next call that needs it sees the error.
            let _ = next.timeline.mark_last(&*gpu.backend);
            Some(next)
        })
    }

    /// A compute timeline of the device whose last operation is one that this operation comes
    /// after: to be queued behind it costs nothing, and holds up nothing. The write before its own
    /// goes first, then what it reads, then other readers of what it writes.
    ///
    /// # Safety
    /// As [`Core::queue_on_device`].
    unsafe fn followed<'a>(&self, gpu: &'a Gpu, block: *mut Block) -> Option<OwnLine<'a>> {
        let fleet = self.gpus.fleet.get()?;
        let is_last = |ticket: DeviceTicket| {
            let (of, local) = fleet.of(ticket);
            let line = of.lines.get(local).filter(|line| of.number == gpu.number && line.class == Class::Compute);
            line.is_some_and(|line| line.timeline.queued() == ticket.number() && line.timeline.done() < ticket.number())
        };
        let mut best: Option<(u8, DeviceTicket)> = None;
        // SAFETY: by the contract.
        unsafe {
            self.each_row(block, |row, _, mode| {
                for (ticket, wrote) in row.before(mode) {
                    let rank = match (mode, wrote) {
                        (Mode::Read, _) => 1,
                        (_, true) => 0,
                        (_, false) => 2,
                    };
                    if best.is_none_or(|(least, _)| rank < least) && is_last(ticket) {
                        best = Some((rank, ticket));
                    }
                }
            });
        }
        let (_, ticket) = best?;
        // Once more: another worker may have queued something there meanwhile.
        gpu.own(fleet.of(ticket).1).filter(|_| is_last(ticket))
    }

    /// Has the stream of a timeline wait for all that the operation comes after on its device. If
    /// the driver refuses, the call is made again, as in `call.rs`.
    ///
    /// # Safety
    /// As [`Core::queue_on_device`].
    unsafe fn order(&self, gpu: &Gpu, block: *mut Block, line: &OwnLine<'_>) -> Result<(), DriverError> {
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
        let (backend, own) = (&*gpu.backend, &line.timeline);
        let before = gpu.lines.iter().zip(last).filter(|(_, number)| *number > 0);
        before.into_iter().try_for_each(|(line, number)| insist(AGAIN, || own.follow(backend, &line.timeline, number)))
    }
}
