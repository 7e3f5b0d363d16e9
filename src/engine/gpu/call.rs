//! Calls the closure of a device's operation, and ends the operation for the engine.
//!
//! The counterpart of `Core::execute` (`execute.rs`), whose rules on the start and the end of
//! operations hold here too. Used by `queue.rs`, on the thread that has the operation: mostly a
//! worker of the device. Also used by `replay/part.rs` for operations of a captured graph, on the
//! same threads; they end there. A [`Visit`] lies on the stack of that thread, and nothing else is
//! kept here.
//!
//! The stream was chosen in `queue.rs`. The ticket is left in `rows.rs`, before the closure is
//! called. When the device has come there, `watch.rs` counts the operation as completed.

use crate::device::current::{self, Here};
use crate::device::handles::{self, Handles};
use crate::device::raw::{DriverError as Refusal, Previous, RawStream};
use crate::engine::core::Core;
use crate::engine::declared::{Copied, Enlisted};
use crate::engine::execute::is_skipped;
use crate::engine::gpu::devices::{Gpu, OwnLine};
use crate::engine::gpu::entered::mistrust;
use crate::engine::gpu::loss::{insist, AGAIN};
use crate::engine::gpu::timing::RecordFn;
use crate::engine::nesting::{enter, leave, pay};
use crate::error::{Failure, Fault};
use crate::operation::access::Mode;
use crate::operation::block::*;
use crate::operation::closure::Run;
use crate::operation::current::within;
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use std::sync::Arc;

/// How an operation comes to its device.
pub enum Way<'a> {
    /// On a timeline, by a worker of the device, which owns the timeline meanwhile. The operation
    /// is done when the device has come there.
    Queued(OwnLine<'a>),
    /// On the one stream of the naive engine, by any thread. The operation is done when the call
    /// returns.
    Finished,
    /// Without a stream, by any thread, with the device current meanwhile: `Property::Async` and
    /// deletions.
    Unstreamed,
}

/// The stay of a thread on a device, for one call.
pub struct Visit<'a> {
    gpu: &'a Gpu,
    way: Way<'a>,
    /// What was current before. A worker has entered its device for good.
    previous: Option<Previous>,
}

impl Visit<'_> {
    /// Makes current what was current before. The thread gives up the timeline that it owns, so
    /// that successors of the operation find it free.
    pub fn end(self) {
        // SAFETY: `enter` has returned it, on this thread: a visit does not leave its function.
        self.previous.into_iter().for_each(|previous| unsafe { self.gpu.backend.leave(previous) });
    }
}

/// Makes the device current on the calling thread, for a call; returns what was current before. A
/// worker has entered its device for good. If the driver refuses, the call is made again: some
/// operations must be called, such as those that order the program's streams.
fn enter_device(gpu: &Gpu, way: &Way<'_>) -> Result<Option<Previous>, Option<Refusal>> {
    if gpu.lost.get().is_some() {
        return Err(None);
    }
    Ok(match way {
        Way::Queued(_) => None,
        _ => Some(insist(AGAIN, || gpu.backend.enter(gpu.number))?),
    })
}

impl Core {
    /// Calls the closure of an operation, unless it is to be skipped, and ends the operation for
    /// the engine. `ready` says whether its stream waits for all that it should.
    ///
    /// # Safety
    /// The operation is at its turn. It belongs to the caller, which gives it up.
    pub(super) unsafe fn call_on_device(
        self: &Arc<Self>,
        local: &ThreadContext,
        block: *mut Block,
        gpu: &Gpu,
        way: Way<'_>,
        ready: Result<(), Refusal>,
        worker: Option<usize>,
    ) {
        // SAFETY: the operation is ours until it ends.
        unsafe {
            Block::enter(block, RUNNING);
            let (state, body, property) = (self.state.load(Relaxed), &*(*block).body, Block::property(block));
            let inherited = if state.has_failed() { self.inherited(block) } else { None };
            if (*block).flags & FLAG_PROFILED != 0 {
                self.start_profile(block);
            }
            // A deletion is never skipped.
            let always = (*block).flags & FLAG_DELETE != 0;
            let is_skipped = !always && is_skipped(property, inherited.is_some(), state);
            let entered = match ready {
                Err(refusal) if !always => Err(Some(refusal)),
                _ if is_skipped => Err(None),
                _ => enter_device(gpu, &way),
            };
            let previous = match entered {
                Ok(previous) => previous,
                Err(_) if always => None,
                Err(refusal) => {
                    drop(way);
                    let fault = self.fault_of_skip(gpu, refusal.as_ref(), inherited.is_some());
                    return self.skip_on_device(local, block, fault, inherited, worker);
                }
            };
            let is_queued = matches!(way, Way::Queued(_));
            let visit = Visit { gpu, way, previous };
            let run = self.run_context(block, inherited.as_ref(), worker);
            let storage = Block::closure(block, Block::layout(block));
            match body.run {
                Run::Sync(call) => {
                    let enlisted = Enlisted::new(&self.memory, block);
                    let record = || self.record_timed(block, worker);
                    let record: Option<RecordFn<'_>> = match (*block).flags & FLAG_PROFILED {
                        0 => None,
                        _ => Some(&record),
                    };
                    let outcome = self.call_within(local, block, &visit, (true, record), || {
                        within(&enlisted, || call(storage, &run))
                    });
                    visit.end();
                    self.end(local, block, outcome, inherited, false, worker);
                    if is_queued {
                        gpu.wake_watcher();
                    }
                }
                Run::Async(call) => {
                    let (completion, called) = self.begin_call(local, block, worker);
                    let copied = Copied::of(&self.memory, block);
                    let call = || within(&copied, || call(storage, &run, completion));
                    let outcome = self.call_within(local, block, &visit, (false, None), call);
                    visit.end();
                    if is_queued {
                        gpu.wake_watcher();
                    }
                    self.end_call(local, called, outcome);
                }
                Run::Replay(_) | Run::Part(_) => unreachable!("replays and parts of graphs have no device"),
            }
            pay(local);
        }
    }

    /// Makes the device current on the calling thread, for a call. On an error it is not: the
    /// device is lost, or the driver has refused it.
    pub(in crate::engine) fn visit<'a>(&self, gpu: &'a Gpu, way: Way<'a>) -> Result<Visit<'a>, Option<Refusal>> {
        let previous = enter_device(gpu, &way)?;
        Ok(Visit { gpu, way, previous })
    }

    /// Calls a closure, which does not unwind, with the stream of its way; and leaves the tickets
    /// of its operation. Where it leaves none the operation has a borrow, which ends here or, if
    /// the closure is not synchronous, with the completion (`borrow.rs`). If there is `record`, the
    /// operation is profiled: `record` is called when it has times of the device, which only one
    /// with a timeline has.
    ///
    /// # Safety
    /// The operation is at its turn, and the caller's. After the call of a closure that is not
    /// synchronous the block is not touched.
    pub(in crate::engine) unsafe fn call_within(
        &self,
        local: &ThreadContext,
        block: *mut Block,
        visit: &Visit<'_>,
        (is_sync, record): (bool, Option<RecordFn<'_>>),
        call: impl FnOnce() -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let Visit { gpu, way, .. } = visit;
        let stream = match way {
            Way::Queued(line) => Some(line.timeline.stream()),
            Way::Finished => gpu.stream,
            Way::Unstreamed => None,
        };
        // SAFETY: by the contract.
        let name = unsafe { Block::name(block) };
        if !is_sync || matches!(way, Way::Finished) {
            // SAFETY: by the contract.
            unsafe { self.begin_borrow(block) };
        }
        let mut pair = None;
        if let Way::Queued(line) = way {
            // SAFETY: by the contract.
            unsafe { self.count_queued(local, block, line, is_sync) };
            if is_sync {
                // SAFETY: by the contract.
                unsafe { self.leave_tickets(block, gpu, line) };
            }
            if record.is_some() {
                pair = gpu.begin_timing(line.local);
            }
        }
        let here = Here { backend: &*gpu.backend, device: gpu.number, stream, capture: None };
        // A thread of the naive engine has handles of libraries for one operation.
        let outer = matches!(way, Way::Finished).then(|| handles::replace(Handles::default()));
        enter(local);
        let outcome = current::within(&here, call);
        leave(local);
        let outcome = match way {
            // The device that was current before is made current again in any case.
            Way::Unstreamed => outcome,
            _ => outcome.and(self.make_current(gpu)),
        };
        let outcome = match outer {
            Some(outer) => outcome.and(self.end_handles(local, gpu, name, outer)),
            None => outcome,
        };
        match way {
            Way::Queued(line) => {
                if let Some(record) = record {
                    gpu.end_timing(line.local, pair, record);
                }
                // SAFETY: the block is still the caller's if the operation is synchronous.
                if is_sync && unsafe { (*block).flags } & FLAG_PLACELESS == 0 {
                    self.add_place();
                }
                // Of an asynchronous operation too: what it has put on the stream is under way.
                line.timeline.tell();
                // If the mark is refused, the next call that needs it sees the error.
                let _ = line.timeline.mark_step(&*gpu.backend);
                outcome
            }
            Way::Finished if is_sync => {
                let finished = self.finish_stream(gpu, stream, name);
                // SAFETY: it was begun above, and the operation is synchronous.
                unsafe { self.end_borrow(block) };
                outcome.and(finished)
            }
            Way::Finished | Way::Unstreamed => outcome,
        }
    }

    /// Counts an operation whose closure is called next as in flight until the device has come
    /// there. `Core::end` counts the operation as completed, and the watcher counts once more.
    ///
    /// Under the bound the watcher gives back one place. A synchronous operation takes it when its
    /// closure has returned, just before `Core::end` gives back its own. An asynchronous one takes
    /// it here: its completion may come before the device or after it. So does a node of a graph,
    /// which has no place of its own.
    ///
    /// # Safety
    /// As [`Core::call_on_device`].
    unsafe fn count_queued(&self, local: &ThreadContext, block: *mut Block, line: &OwnLine<'_>, is_sync: bool) {
        // SAFETY: by the contract.
        unsafe {
            line.note(Block::name(block));
            local.count_pushed();
            if !is_sync || (*block).flags & FLAG_PLACELESS != 0 {
                self.add_place();
            }
        }
    }

    /// Counts a place under the bound, beyond those that pushes were given.
    fn add_place(&self) {
        if self.settings.bound > 0 {
            self.in_flight.fetch_add(1, AcqRel);
        }
    }

    /// Leaves the ticket of an operation on its variables. Its closure is called next, and may end
    /// borrows, or free what the operation uses: the next user has to find the ticket. The
    /// number is told when the closure has returned, and not before: a mark covers what was told.
    ///
    /// # Safety
    /// As [`Core::call_on_device`].
    unsafe fn leave_tickets(&self, block: *mut Block, gpu: &Gpu, line: &OwnLine<'_>) {
        let fleet = self.gpus.fleet.get().expect("there is a device");
        // SAFETY: by the contract.
        unsafe {
            let ticket = fleet.ticket(gpu, line.local, line.timeline.queued() + 1);
            for index in 0..(*block).count {
                let access = Block::access(block, index);
                let row = fleet.rows.get_or_add((*access).variable);
                match (*access).mode().plain() {
                    Mode::Read => row.leave_read(ticket),
                    _ => row.leave_write(ticket),
                }
            }
        }
    }

    /// Drops the handles of libraries that an operation of the naive engine has made, once the
    /// device has done what they have put on its stream. The thread has `outer` again.
    fn end_handles(&self, local: &ThreadContext, gpu: &Gpu, name: &str, outer: Handles) -> Result<(), Fault> {
        let own = handles::replace(outer);
        if own.is_empty() || gpu.lost.get().is_some() {
            return Ok(());
        }
        // Before the operation ends, and so before another thread replays a graph.
        gpu.handles_dropped.fetch_add(1, Relaxed);
        self.finish_stream(gpu, gpu.stream, name)?;
        self.drop_handles(local, gpu, own);
        self.make_current(gpu)
    }

    /// Waits for what the operation of this name has queued.
    fn finish_stream(&self, gpu: &Gpu, stream: Option<RawStream>, name: &str) -> Result<(), Fault> {
        let Some(stream) = stream else { return Ok(()) };
        // SAFETY: the stream is the device's, which the caller has entered.
        unsafe { gpu.finish(stream) }.map_err(|refusal| self.refused_while(gpu, &refusal, Some(name)))
    }

    /// The failure of its own, if any, of an operation that is not called: by what the driver has
    /// refused for it, or since its device is lost.
    pub(in crate::engine) fn fault_of_skip(
        &self,
        gpu: &Gpu,
        refusal: Option<&Refusal>,
        inherits: bool,
    ) -> Option<Fault> {
        if let Some(refusal) = refusal {
            return Some(self.refused(gpu, refusal));
        }
        // The device's own failure may have been told already.
        let failure = gpu.lost.get().filter(|_| !inherits)?;
        let source = Some(failure.error.clone().into());
        Some(Fault::new(failure.error.kind(), failure.error.to_string(), source))
    }

    /// Ends an operation whose closure is not called.
    ///
    /// # Safety
    /// As [`Core::call_on_device`].
    unsafe fn skip_on_device(
        self: &Arc<Self>,
        local: &ThreadContext,
        block: *mut Block,
        fault: Option<Fault>,
        inherited: Option<Arc<Failure>>,
        worker: Option<usize>,
    ) {
        // SAFETY: by the contract.
        unsafe {
            // Recorded first, so that the closure can be told of it.
            let own = fault.map(|fault| self.record(fault, Block::name(block), (*block).sequence));
            enter(local);
            let failure = own.or(inherited);
            ((*(*block).body).discard)(Block::closure(block, Block::layout(block)), failure.as_ref());
            leave(local);
            mistrust();
            self.end(local, block, Ok(()), failure, false, worker);
            pay(local);
        }
    }
}
