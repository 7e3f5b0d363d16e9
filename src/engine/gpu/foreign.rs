//! Streams that are the program's own, or a library's: operations that end when such a stream has
//! come somewhere, and marks between such a stream and those of the engine.
//!
//! Completions come to [`Core::finish_after_stream`] (`execute.rs`, `replay/mod.rs`,
//! `replay/pipelined.rs`), on any thread, and the watcher to [`Core::end_due`] (`watch.rs`). By
//! [`Gpu::have_follow`] `replay/device_graph.rs` orders streams of the engine. The rest is called
//! by `src/api/adopted_stream.rs`. The engine keeps nothing of a program's stream: each
//! call puts a mark there, or has it wait for one, and is over. The marks, and the operations that
//! are due at them, are in `spare_marks.rs`.
//!
//! An [`Order`] moves with the closure of an operation to the thread that calls it, or drops it
//! uncalled: mostly a worker. Its [`Ordered`] stays with the pusher. The two share a [`Stage`]
//! (`stage.rs`).

use crate::device::current;
use crate::device::raw::{DriverError, RawStream};
use crate::device::{Context, Device};
use crate::engine::core::Core;
use crate::engine::gpu::admit::admit;
use crate::engine::gpu::devices::Gpu;
use crate::engine::gpu::entered::take_mistrust;
use crate::engine::gpu::loss::{insist, insist_until, lost_by, AGAIN};
use crate::engine::gpu::spare_marks::LentMark;
use crate::engine::gpu::stage::Stage;
use crate::engine::settings::Kind;
use crate::error::{Error, ErrorKind, Fault};
use crate::operation::completion::Due;
use crate::sync::Ordering::*;
use std::sync::Arc;

/// A mark behind what was on a stream of the program's. Its drop keeps the mark for the next one.
pub struct Behind {
    gpu: Arc<Gpu>,
    lent: LentMark,
}

impl Drop for Behind {
    fn drop(&mut self) {
        self.gpu.spare_marks.give_back(self.lent);
    }
}

/// The duty of one operation to have its stream wait for a mark behind a stream of the program's.
/// The operations that follow it rely on that. If the operation is never called, nothing orders the
/// two streams, and the device counts as lost.
pub struct Order {
    core: Arc<Core>,
    behind: Behind,
    stage: Arc<Stage>,
    is_kept: bool,
}

/// The pusher's side of an [`Order`].
pub struct Ordered(Arc<Stage>);

impl Order {
    pub fn new(core: &Arc<Core>, behind: Behind) -> (Order, Ordered) {
        let stage = Arc::new(Stage::new());
        let ordered = Ordered(Arc::clone(&stage));
        (Order { core: Arc::clone(core), behind, stage, is_kept: false }, ordered)
    }

    /// Has the stream of the calling operation wait.
    pub fn keep(mut self) -> Result<(), Error> {
        self.is_kept = true;
        self.core.wait_behind(&self.behind)
    }
}

impl Drop for Order {
    fn drop(&mut self) {
        // Before the operation ends: what comes behind it finds the device lost.
        if !self.is_kept && self.stage.dropped() {
            broken(&self.core, &self.behind.gpu);
        }
    }
}

impl Ordered {
    /// Says that the operation was pushed.
    pub fn pushed(self, core: &Core, gpu: &Gpu) {
        // Before the pusher's call returns: nothing that comes behind the operation is pushed yet.
        if self.0.pushed() {
            broken(core, gpu);
        }
    }
}

/// The operation was skipped. When the process ends, so are those behind it.
#[cold]
fn broken(core: &Core, gpu: &Gpu) {
    if !core.state.load(Relaxed).is_shut_down() {
        core.lose(gpu, &DriverError::lost("a stream could not be told to wait for another"));
    }
}

/// A call with a stream of the program's that was refused.
pub struct Refusal {
    /// The stream itself cannot be used.
    is_of_stream: bool,
    error: DriverError,
}

impl From<DriverError> for Refusal {
    fn from(error: DriverError) -> Refusal {
        Refusal { is_of_stream: false, error }
    }
}

impl Gpu {
    fn lend_mark(&self) -> Result<LentMark, DriverError> {
        self.spare_marks.lend(|| self.backend.mark(self.number))
    }

    /// Has a stream wait for what is on another one by now. For streams of the engine, and those
    /// that were checked.
    ///
    /// # Safety
    /// Both are of this device, which the calling thread has entered, and alive.
    pub unsafe fn have_follow(&self, stream: RawStream, before: RawStream) -> Result<(), DriverError> {
        let lent = self.lend_mark()?;
        // SAFETY: by the contract, and the mark is lent to this call.
        let told = unsafe {
            let recorded = self.backend.record(lent.mark, before);
            recorded.and_then(|()| self.backend.wait(stream, lent.mark))
        };
        self.spare_marks.give_back(lent);
        told
    }

    /// Puts a mark on a stream of the program's.
    ///
    /// # Safety
    /// The stream is of this device, which the calling thread has entered, and alive.
    unsafe fn mark_foreign(&self, stream: RawStream) -> Result<LentMark, Refusal> {
        // SAFETY: by the contract.
        unsafe { self.check_stream(stream) }?;
        let lent = self.lend_mark()?;
        // SAFETY: by the contract. The mark is this device's, and lent to this call.
        let recorded = unsafe { self.backend.record(lent.mark, stream) };
        recorded.inspect_err(|_| self.spare_marks.give_back(lent))?;
        Ok(lent)
    }

    /// # Safety
    /// As [`Gpu::mark_foreign`].
    unsafe fn check_stream(&self, stream: RawStream) -> Result<(), Refusal> {
        // SAFETY: by the contract.
        let checked = unsafe { self.backend.check_stream(stream) };
        checked.map_err(|error| Refusal { is_of_stream: true, error })
    }
}

impl Core {
    /// Ends an asynchronous operation of this context and name when its device has done what is on
    /// a stream by now.
    ///
    /// # Safety
    /// The stream is of the operation's device, and alive until the call returns.
    pub unsafe fn finish_after_stream(
        self: &Arc<Core>,
        due: Due,
        (context, name): (Context, &'static str),
        stream: RawStream,
    ) {
        if context.device() != Device::Gpu {
            let message = format!("{context} has no streams: push the operation with the context of its GPU");
            return due.finish(Err(Fault::new(ErrorKind::NoStream, message, None)));
        }
        let gpu = Arc::clone(self.gpu(context));
        // A device that has only been used with `Async` has no threads yet. No stop ends them: the
        // operation is in flight.
        if let Err(error) = admit(self, context) {
            return due.finish(Err(Fault::failed(error.into())));
        }
        // SAFETY: by the contract.
        match unsafe { self.promise(&gpu, stream, name) } {
            Ok(Some(lent)) => {
                gpu.spare_marks.owe(lent, due);
                gpu.wake_watcher();
            }
            Ok(None) => due.finish(Ok(())),
            Err(fault) => due.finish(Err(fault)),
        }
    }

    /// Puts a mark on a stream, for the operation of this name, which has no ticket. If the driver
    /// refuses, the call is made again: the next operation must not begin before the stream is
    /// there. In the end the device counts as lost. `None`: the stream has come there.
    ///
    /// # Safety
    /// As [`Core::finish_after_stream`].
    unsafe fn promise(&self, gpu: &Gpu, stream: RawStream, name: &str) -> Result<Option<LentMark>, Fault> {
        let call = || {
            within_device(gpu, || {
                // The naive engine has no watcher. It waits here, as for every operation that it
                // runs.
                if self.settings.kind == Kind::Naive {
                    // SAFETY: the stream is of this device, by the contract.
                    unsafe { gpu.check_stream(stream)? };
                    // SAFETY: as above.
                    unsafe { gpu.finish(stream)? };
                    return Ok(None);
                }
                // SAFETY: as above.
                unsafe { gpu.mark_foreign(stream) }.map(Some)
            })
        };
        // A stream that cannot be asked for a while is as good as any other afterwards.
        let promised = insist_until(AGAIN, |refusal: &Refusal| refusal.error.is_lost(), call);
        promised.map_err(|Refusal { is_of_stream, error }| {
            let error = match is_of_stream {
                true => error,
                false => lost_by(error, "a stream could not be marked"),
            };
            match error.is_lost() {
                true => self.refused_while(gpu, &error, Some(name)),
                false => self.refused_stream(gpu, &Refusal { is_of_stream, error }),
            }
        })
    }

    /// Whether a stream of the program's can be put in order.
    ///
    /// # Safety
    /// The stream is of this device, and alive until the call returns.
    pub unsafe fn check_foreign(&self, gpu: &Gpu, stream: RawStream) -> Result<(), Error> {
        // SAFETY: by the contract; the device is entered.
        let checked = within_device(gpu, || unsafe { gpu.check_stream(stream) });
        checked.map_err(|refusal| Error::of_call(self.refused_stream(gpu, &refusal)))
    }

    /// Puts a mark behind what is on a stream of the program's by now.
    ///
    /// # Safety
    /// The stream is of this device, and alive until the call returns.
    pub unsafe fn mark_behind(&self, gpu: &Arc<Gpu>, stream: RawStream) -> Result<Behind, Error> {
        // SAFETY: by the contract; the device is entered.
        let marked = within_device(gpu, || unsafe { gpu.mark_foreign(stream) });
        match marked {
            Ok(lent) => Ok(Behind { gpu: Arc::clone(gpu), lent }),
            Err(refusal) => Err(Error::of_call(self.refused_stream(gpu, &refusal))),
        }
    }

    /// Has the stream of the calling operation wait for a mark. If the driver refuses, the call is
    /// made again: the next operation must not begin before the mark. In the end the device counts
    /// as lost.
    fn wait_behind(&self, behind: &Behind) -> Result<(), Error> {
        let gpu = &behind.gpu;
        let stream = own_stream();
        // SAFETY: the stream is that of the operation that the thread runs, and both are of this
        // device, which a thread that runs its operations has entered.
        let outcome = insist(AGAIN, || unsafe { gpu.backend.wait(stream, behind.lent.mark) });
        outcome.map_err(|refusal| {
            Error::of_call(self.refused(gpu, &lost_by(refusal, "a stream could not be told to wait")))
        })
    }

    /// Has a stream of the program's wait for what the stream of the calling operation has to do.
    ///
    /// # Safety
    /// The stream is of this device, and alive until the call returns; the calling operation is one
    /// of this device.
    pub unsafe fn have_wait(&self, gpu: &Gpu, stream: RawStream) -> Result<(), Error> {
        let own = own_stream();
        let told = || {
            // SAFETY: by the contract. A thread that runs operations of a device has entered it.
            unsafe {
                gpu.check_stream(stream)?;
                gpu.have_follow(stream, own).map_err(Refusal::from)
            }
        };
        told().map_err(|refusal| Error::of_call(self.refused_stream(gpu, &refusal)))
    }

    /// Ends the operations that are due at marks which the device has come to, or all if it is
    /// lost; says whether there were any. For the watcher.
    pub fn end_due(&self, gpu: &Gpu) -> (bool, Result<(), DriverError>) {
        let (lost, mut any) = (gpu.lost.get(), false);
        let is_over = |mark| match lost {
            Some(_) => Ok(true),
            // SAFETY: the mark is this device's, which the watcher has entered, and on a stream.
            None => unsafe { gpu.backend.reached(mark) },
        };
        let end = |due: Due| {
            any = true;
            due.finish(lost.map_or(Ok(()), |failure| Err(Fault::failed(failure.error.clone().into()))));
            if take_mistrust() {
                // Destructors of a graph may have made another device current. If this one cannot
                // be had again, it is lost by now.
                let _ = self.make_current(gpu);
            }
        };
        let looked = gpu.spare_marks.take_due(is_over, end);
        (any, looked)
    }

    /// What has become of a call with a stream of the program's.
    #[cold]
    fn refused_stream(&self, gpu: &Gpu, refusal: &Refusal) -> Fault {
        let Refusal { is_of_stream, error } = refusal;
        if !is_of_stream || error.is_lost() {
            return self.refused(gpu, error);
        }
        let message = format!("a stream cannot be put in order with those of {}: {error}", gpu.context());
        Fault::new(ErrorKind::StreamRefused, message, Some(error.clone().into()))
    }
}

/// The stream of the calling operation, which is one of a device that has a stream.
fn own_stream() -> RawStream {
    current::stream().expect("an operation of a device that is not `Async` has a stream")
}

/// Calls `call` with the device current.
fn within_device<T>(gpu: &Gpu, call: impl FnOnce() -> Result<T, Refusal>) -> Result<T, Refusal> {
    gpu.entered(|| Ok(call()))?
}
