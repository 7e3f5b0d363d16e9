//! Calls the closure of a device's operation, and ends the operation for the engine.
//!
//! The counterpart of `Core::execute` (`execute.rs`), whose rules on the start and the end of
//! operations hold here too.

use crate::device::current;
use crate::device::raw::{DriverError as Refusal, RawStream};
use crate::engine::core::{Core, FAILED};
use crate::engine::declared::{Copied, Enlisted};
use crate::engine::execute::{is_skipped, stamp};
use crate::engine::gpu::devices::Gpu;
use crate::engine::nesting::{enter, leave, pay};
use crate::error::{Failure, Fault};
use crate::operation::access::Mode;
use crate::operation::block::*;
use crate::operation::closure::Run;
use crate::operation::completion::{Completion, Finish};
use crate::operation::context::RunContext;
use crate::operation::current::within;
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use std::sync::Arc;

/// How an operation comes to its device.
#[derive(Clone, Copy)]
pub enum Way {
    /// On a timeline of the calling worker: it is done when the device has come there.
    Queued(usize),
    /// On the stream of the naive engine: it is done when the call returns.
    Finished,
    /// Without a stream, with the device current.
    Unstreamed,
}

impl Core {
    /// Calls the closure of an operation, unless it is to be skipped, and ends the operation for
    /// the engine. `ready` says whether its stream waits for all that it should.
    ///
    /// # Safety
    /// The operation is at its turn, and the caller's, who gives it up. The calling thread owns the
    /// timeline of the way.
    pub(super) unsafe fn call_on_device(
        self: &Arc<Self>,
        local: &ThreadContext,
        block: *mut Block,
        gpu: &Gpu,
        way: Way,
        ready: Result<(), Refusal>,
        worker: Option<usize>,
    ) {
        // SAFETY: the operation is ours until it ends.
        unsafe {
            Block::enter(block, RUNNING);
            let refusal = ready.err().map(|refusal| self.refused(gpu, &refusal));
            let (state, body, property) = (self.state.load(Relaxed), &*(*block).body, Block::property(block));
            let inherited = if state & FAILED != 0 { self.inherited(block) } else { None };
            if (*block).flags & FLAG_PROFILED != 0 {
                self.start_profile(block);
            }
            let is_lost = gpu.lost.get().is_some();
            // A deletion is never skipped.
            let always = (*block).flags & FLAG_DELETE != 0;
            if !always && (refusal.is_some() || is_lost || is_skipped(property, inherited.is_some(), state)) {
                return self.skip_on_device(local, block, gpu, refusal, inherited, worker);
            }
            let stream = match way {
                Way::Queued(line) => Some(gpu.lines[line].timeline.stream()),
                Way::Finished => gpu.stream,
                Way::Unstreamed => None,
            };
            // A worker has entered its device for good. Any other thread gets back what it had.
            let visit = match way {
                Way::Queued(_) => None,
                _ if is_lost => None,
                _ => match gpu.backend.enter(gpu.number) {
                    Ok(previous) => Some(previous),
                    Err(_) if always => None,
                    Err(refusal) => {
                        let fault = Some(self.refused(gpu, &refusal));
                        return self.skip_on_device(local, block, gpu, fault, inherited, worker);
                    }
                },
            };
            // `enter` has returned it on this thread.
            let leave_device = || visit.into_iter().for_each(|previous| gpu.backend.leave(previous));
            let run = RunContext {
                context: Block::context(block),
                name: Block::name(block),
                worker,
                nested_threads: self.nested_threads.load(Relaxed),
                inherited: inherited.as_ref().map(|failure| (failure, stamp(block))),
                graph: 0,
                pushed: None,
            };
            let storage = Block::closure(block, Block::layout(block));
            let mut pair = None;
            if let (Way::Queued(line), Run::Sync(_)) = (way, body.run) {
                self.leave_tickets(local, block, gpu, line);
                if (*block).flags & FLAG_PROFILED != 0 {
                    pair = gpu.begin_timing(line);
                }
            }
            enter(local);
            match body.run {
                Run::Sync(call) => {
                    let enlisted = Enlisted::new(&self.memory, block);
                    let mut outcome = current::within(stream, || within(&enlisted, || call(storage, &run)));
                    leave(local);
                    match way {
                        Way::Queued(line) => {
                            if (*block).flags & FLAG_PROFILED != 0 {
                                self.end_timing(block, gpu, line, pair, worker);
                            }
                            gpu.lines[line].timeline.tell();
                            // If the mark is refused, the next one who needs it sees the error.
                            let _ = gpu.lines[line].timeline.mark_step(&*gpu.backend);
                        }
                        Way::Finished => outcome = outcome.and(self.finish_stream(gpu, stream)),
                        Way::Unstreamed => {}
                    }
                    leave_device();
                    self.end(local, block, outcome, inherited, false, worker);
                    if matches!(way, Way::Queued(_)) {
                        gpu.wake_watcher();
                    }
                }
                Run::Async(call) => {
                    Block::keep_worker(block, worker);
                    let (name, sequence) = (Block::name(block), (*block).sequence);
                    let engine: Arc<dyn Finish> = Arc::<Core>::clone(self);
                    local.count_called();
                    let completion = Completion::new(engine, block);
                    let copied = Copied::of(&self.memory, block);
                    let outcome = current::within(stream, || within(&copied, || call(storage, &run, completion)));
                    leave(local);
                    leave_device();
                    local.count_returned();
                    self.quiescence.notify(|| self.is_quiescent());
                    if let Err(fault) = outcome {
                        self.record(fault, name, sequence);
                    }
                }
                Run::Part(_) => unreachable!("parts of graphs have no device"),
            }
            pay();
        }
    }

    /// Leaves the ticket of an operation on its variables. Its closure is called next, and may end
    /// borrows, or free what the operation uses: the next user has to find the ticket. The
    /// number is told when the closure has returned, and not before: a mark covers what was told.
    ///
    /// From here on the operation counts as in flight until the device has come there: `Core::end`
    /// counts it as completed once, and the watcher once more.
    ///
    /// # Safety
    /// As [`Core::call_on_device`].
    unsafe fn leave_tickets(&self, local: &ThreadContext, block: *mut Block, gpu: &Gpu, line: usize) {
        let fleet = self.gpus.fleet.get().expect("there is a device");
        // SAFETY: by the contract.
        unsafe {
            gpu.lines[line].note(Block::name(block));
            local.count_pushed();
            if self.settings.bound > 0 {
                self.in_flight.fetch_add(1, AcqRel);
            }
            let ticket = fleet.ticket(gpu, line, gpu.lines[line].timeline.queued() + 1);
            for index in 0..(*block).count {
                let access = Block::access(block, index);
                let row = fleet.rows.get_or_add((*access).variable);
                match (*access).mode() {
                    Mode::Read => row.leave_read(ticket),
                    _ => row.leave_write(ticket),
                }
            }
        }
    }

    fn finish_stream(&self, gpu: &Gpu, stream: Option<RawStream>) -> Result<(), Fault> {
        let Some(stream) = stream else { return Ok(()) };
        // SAFETY: the stream is the device's, which the caller has entered.
        unsafe { gpu.finish(stream) }.map_err(|refusal| self.refused(gpu, &refusal))
    }

    /// Ends an operation whose closure is not called. Its failure is `fault`, or what it inherits,
    /// or that its device is lost.
    ///
    /// # Safety
    /// As [`Core::call_on_device`].
    unsafe fn skip_on_device(
        self: &Arc<Self>,
        local: &ThreadContext,
        block: *mut Block,
        gpu: &Gpu,
        mut fault: Option<Fault>,
        inherited: Option<Arc<Failure>>,
        worker: Option<usize>,
    ) {
        // SAFETY: by the contract.
        unsafe {
            if let (None, None, Some(failure)) = (&fault, &inherited, gpu.lost.get()) {
                // A failure of its own: the device's may have been told already.
                let source = Some(failure.error.clone().into());
                fault = Some(Fault::new(failure.error.kind(), failure.error.to_string(), source));
            }
            enter(local);
            ((*(*block).body).discard)(Block::closure(block, Block::layout(block)));
            leave(local);
            self.end(local, block, fault.map_or(Ok(()), Err), inherited, false, worker);
            pay();
        }
    }
}
