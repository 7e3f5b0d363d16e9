//! `AdoptedStream`: a stream of the program's own, or of a library, in order with the engine's.
//!
//! Programs call it, on any thread; the handle does not change. A call pushes an operation
//! (`src/api/operation.rs`), whose closure runs on a worker of the device, or on a caller of the
//! naive engine. In `wait_to_read` and `wait_to_write` the closure tells the stream to wait, and
//! the caller waits for its answer (`src/engine/wait/reply.rs`). In `has_read` and `has_written`
//! the caller marks the stream, and the closure has the engine's stream wait for the mark. Both are
//! done in `src/engine/gpu/foreign.rs`.

use crate::api::device_handle::DeviceHandle;
use crate::api::engine::Engine;
use crate::api::operation::OperationBuilder;
use crate::device::raw::RawStream;
use crate::engine::gpu::foreign::Order;
use crate::engine::wait::reply::ask;
use crate::error::{Error, ErrorKind};
use crate::operation::access::Mode;
use crate::operation::context::RunContext;
use crate::operation::property::Property;
use crate::sync::Ordering::Relaxed;
use crate::variable::handle::Variable;
use std::fmt;
use std::sync::Arc;

/// A stream that the engine does not launch on, and that it brings into the order of variables:
/// that of a framework or a library, or one of the program's own.
///
/// Work on such a stream stands between two calls. One has the stream wait, the other says what the
/// work has used; each is a push, at its place in the order of pushes.
///
/// ```text
///   pushed before              stream                        pushed behind
///   writes x, reads x
///                              wait_to_write(&x)
///                              the work: reads, writes x
///                              has_written(&x)
///                                                            reads x, writes x
/// ```
///
/// The engine does not know what the stream does between the calls: nothing else that uses the
/// variable may be pushed there, on any thread, and nobody may borrow its pinned array. From the
/// second call on the order is the engine's again. Neither call waits for the device.
///
/// [`wait_to_read`](AdoptedStream::wait_to_read) and
/// [`wait_to_write`](AdoptedStream::wait_to_write) return when the stream has been told to wait. So
/// they wait until everything that the variable has to come after has been queued on this device,
/// or has been done on the processor and on other devices. [`has_read`](AdoptedStream::has_read)
/// and [`has_written`](AdoptedStream::has_written) do not wait, but for room under a bound, as any
/// push: they cover what is on the stream when they are called.
///
/// A stream of the engine that comes after such work is held up by it, and so is what else the
/// engine has queued there. The engine keeps nothing of a stream from call to call, so there may be
/// any number of them. Clones are the same stream. Each has a [`DeviceHandle`], and so a clone of
/// the [`Engine`]: as long as there is one, the engine does not end.
///
/// ```
/// use seriatim::gpu::{Immediate, RawStream};
/// use seriatim::{Context, Engine};
/// let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
/// let gpu = engine.device(Context::gpu(0))?;
/// let x = engine.new_variable();
/// engine.op("kernel").context(gpu.context()).writes([x]).push(|_| ())?;
/// // SAFETY: this back end has one stream, which is null and is never destroyed.
/// let stream = unsafe { gpu.adopt(RawStream::new(std::ptr::null_mut())) }?;
/// stream.wait_to_write(x)?;
/// // A library puts work on the stream here, which uses what x stands for.
/// stream.has_written(x)?;
/// engine.op("behind").context(gpu.context()).reads([x]).push(|_| ())?;
/// engine.wait_for_all()?;
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone)]
pub struct AdoptedStream {
    device: DeviceHandle,
    stream: RawStream,
}

impl DeviceHandle {
    /// Takes a stream of the program's into the order of variables.
    ///
    /// CUDA's legacy default stream, which is null, is accepted: frameworks use it. The default
    /// stream of a thread (`CU_STREAM_PER_THREAD`) is not, since the engine's workers are other
    /// threads.
    ///
    /// # Errors
    /// [`StreamRefused`](ErrorKind::StreamRefused) if the stream is being captured, or is a
    /// thread's; [`DeviceLost`](ErrorKind::DeviceLost).
    ///
    /// # Safety
    /// The stream is one of this device, of the library that drives it, and is not destroyed before
    /// the handle and its clones are dropped. No capture of it begins while one of their methods
    /// runs.
    ///
    /// [`AdoptedStream`] has an example.
    pub unsafe fn adopt(&self, stream: RawStream) -> Result<AdoptedStream, Error> {
        if let Some(failure) = self.gpu().lost.get() {
            return Err(failure.error.clone());
        }
        // SAFETY: by the contract.
        unsafe { self.engine().core().check_foreign(self.gpu(), stream) }?;
        Ok(AdoptedStream { device: self.clone(), stream })
    }
}

impl AdoptedStream {
    /// The stream.
    ///
    /// ```
    /// # use seriatim::{gpu::{Immediate, RawStream}, Context, Engine};
    /// # let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// # let gpu = engine.device(Context::gpu(0))?;
    /// # // SAFETY: it is never destroyed.
    /// # let stream = unsafe { gpu.adopt(RawStream::new(std::ptr::null_mut())) }?;
    /// assert!(stream.stream().raw().is_null());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn stream(&self) -> RawStream {
        self.stream
    }

    /// Has the stream wait for every write of the variable that was pushed before, so that what is
    /// put there afterwards may read. In the order of pushes it is a read of the variable.
    ///
    /// # Errors
    /// Those of [`Engine::push_sync`] and of [`Engine::wait_for_var`], but it leaves the error of a
    /// marked variable to other waits; [`StreamRefused`](ErrorKind::StreamRefused) if the stream is
    /// being captured; [`DeviceLost`](ErrorKind::DeviceLost) and
    /// [`DeviceUnavailable`](ErrorKind::DeviceUnavailable) from the driver;
    /// [`Stopped`](ErrorKind::Stopped) after [`Engine::notify_shutdown`]. After an error the stream
    /// may not wait.
    ///
    /// [`AdoptedStream`] has an example.
    pub fn wait_to_read(&self, variable: impl Into<Variable>) -> Result<(), Error> {
        self.wait("wait to read", variable.into(), Mode::Read)
    }

    /// Has the stream wait for every use of the variable that was pushed before, so that what is
    /// put there afterwards may change it. In the order of pushes it is a write of the variable,
    /// and its version counts it.
    ///
    /// # Errors
    /// As [`AdoptedStream::wait_to_read`].
    ///
    /// [`AdoptedStream`] has an example.
    pub fn wait_to_write(&self, variable: impl Into<Variable>) -> Result<(), Error> {
        self.wait("wait to write", variable.into(), Mode::Write)
    }

    /// Says that what is on the stream by now reads the variable: writes that are pushed later come
    /// after it.
    ///
    /// # Errors
    /// Those of a push; [`StreamRefused`](ErrorKind::StreamRefused) if the stream is being
    /// captured; [`DeviceLost`](ErrorKind::DeviceLost) and
    /// [`DeviceUnavailable`](ErrorKind::DeviceUnavailable) from the driver. After an error nothing
    /// was pushed.
    ///
    /// Each call allocates a few bytes. [`AdoptedStream`] has an example.
    pub fn has_read(&self, variable: impl Into<Variable>) -> Result<(), Error> {
        self.tell("foreign read", variable.into(), Mode::Read)
    }

    /// Says that what is on the stream by now changes the variable: whatever is pushed later comes
    /// after it.
    ///
    /// # Errors
    /// As [`AdoptedStream::has_read`].
    ///
    /// [`AdoptedStream`] has an example.
    pub fn has_written(&self, variable: impl Into<Variable>) -> Result<(), Error> {
        self.tell("foreign write", variable.into(), Mode::Write)
    }

    fn engine(&self) -> &Engine {
        self.device.engine()
    }

    /// An operation of the device that runs also when its variable is marked: the work on the
    /// stream is there all the same.
    fn operation(&self, name: &'static str, variable: Variable, mode: Mode) -> OperationBuilder<'_> {
        let operation = self.engine().op(name).context(self.device.context()).property(Property::NoSkip);
        match mode {
            Mode::Read => operation.read(variable),
            _ => operation.write(variable),
        }
    }

    fn wait(&self, name: &'static str, variable: Variable, mode: Mode) -> Result<(), Error> {
        let (question, answer) = ask(self.engine().core())?;
        let (core, gpu, stream) = (Arc::clone(self.engine().core()), Arc::clone(self.device.gpu()), self.stream);
        self.operation(name, variable, mode).push(move |run: &RunContext<'_>| {
            let marked = run.inherited.map(|(failure, _)| failure.error.clone());
            // SAFETY: the handle lives until its method has the answer, and so does the stream. The
            // operation is one of the device.
            let told = unsafe { core.have_wait(&gpu, stream) };
            answer.give(told.and(marked.map_or(Ok(()), Err)));
        })?;
        question.wait(self.engine().core()).unwrap_or_else(|| Err(self.not_told()))
    }

    /// Why the operation was not called.
    #[cold]
    fn not_told(&self) -> Error {
        if let Some(failure) = self.device.gpu().lost.get() {
            return failure.error.clone();
        }
        // Relaxed: the thread that has skipped the operation for the shutdown has seen the flag,
        // and has then set the event that this thread was waiting for.
        let (kind, why) = match self.engine().core().state.load(Relaxed).is_shut_down() {
            false => (ErrorKind::DeviceUnavailable, "the driver refused a call"),
            true => (ErrorKind::Stopped, "the engine was told of the shutdown"),
        };
        Error::new(kind, format!("the stream was not told to wait: {why}"))
    }

    fn tell(&self, name: &'static str, variable: Variable, mode: Mode) -> Result<(), Error> {
        let core = self.engine().core();
        // SAFETY: the stream is of the device, and lives as long as the handle.
        let behind = unsafe { core.mark_behind(self.device.gpu(), self.stream) }?;
        let (order, ordered) = Order::new(core, behind);
        self.operation(name, variable, mode).push(move |_: &RunContext<'_>| order.keep())?;
        ordered.pushed(core, self.device.gpu());
        Ok(())
    }
}

impl fmt::Debug for AdoptedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AdoptedStream({:?} of {})", self.stream.raw(), self.device.context())
    }
}
