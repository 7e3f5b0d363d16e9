//! Run context: what a closure is told when it runs. The code that calls closures makes it, on the
//! thread that calls them: `src/engine/execute.rs`, `src/engine/inline/fast_path.rs`,
//! `src/engine/gpu/call.rs` and `src/engine/replay/`. It lies on the stack of that thread, and does
//! not change during the call. The stream (`src/device/current.rs`) and the handles of libraries
//! (`src/device/handles.rs`) are not in it: the thread has them.

#![forbid(unsafe_code)]

use crate::device::raw::RawStream;
use crate::device::{current, handles, Context, Device};
use crate::error::{Error, ErrorKind, Failure, Stamp};
use std::sync::Arc;

/// What an operation is told when it runs: where, under which name, and how many threads it may use
/// itself.
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// let x = engine.new_variable();
/// engine.op("hello").writes([x]).push(|run| {
///     assert_eq!(run.name(), "hello");
///     assert_eq!(run.context(), seriatim::Context::cpu(0));
/// })?;
/// engine.wait_for_all()?;
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Debug)]
pub struct RunContext<'a> {
    pub(crate) context: Context,
    pub(crate) name: &'static str,
    pub(crate) worker: Option<usize>,
    pub(crate) nested_threads: usize,
    /// The failure that a variable of this operation is marked with, if the operation runs in spite
    /// of it, and when the operation was pushed.
    pub(crate) inherited: Option<(&'a Arc<Failure>, Stamp)>,
    /// The number of the graph that the operation is a part of, whose parameters do not change
    /// while it runs. Each graph has a number of its own; 0 for none.
    pub(crate) graph: u64,
    /// For an operation that runs a graph: when it was pushed, as a stamp and, if it is profiled,
    /// in nanoseconds of the profiler.
    pub(crate) pushed: Option<(Stamp, u64)>,
}

impl RunContext<'_> {
    /// The context that the operation was pushed with.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// engine.op("where").push(|run| assert_eq!(run.context().id(), 0))?;
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn context(&self) -> Context {
        self.context
    }

    /// The operation's name, empty if it has none.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// engine.op("who").push(|run| assert_eq!(run.name(), "who"))?;
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The number of the worker within its group, or `None` on a thread that is not the engine's:
    /// the caller of the naive engine, a pusher, or a waiter that helps. Also `None` on the thread
    /// that joins a [scope](crate::Engine::scope) inside an operation.
    ///
    /// ```
    /// # let engine = seriatim::Engine::builder().kind(seriatim::Kind::Naive).build()?;
    /// engine.op("who").push(|run| assert_eq!(run.worker(), None))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn worker(&self) -> Option<usize> {
        self.worker
    }

    /// The stream of an operation that runs on a GPU: what the closure puts there is a part of the
    /// operation, which is done when the device has done that. `None` on the processor, and for
    /// [`Property::Async`](crate::Property::Async), which has no stream.
    ///
    /// Only the thread that calls the closure gets it. A thread that the closure lends the context
    /// to gets `None`: hand it the stream.
    ///
    /// The stream is the engine's: do not wait for it, capture it or destroy it. It may be used
    /// until the closure returns.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// engine.op("on the processor").push(|run| assert!(run.stream().is_none()))?;
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn stream(&self) -> Option<RawStream> {
        // The thread knows the stream of its innermost operation on a device.
        current::stream().filter(|_| self.context.device() == Device::Gpu)
    }

    /// Calls `call` with a handle of a library, such as cuBLAS, that belongs to the worker. `make`
    /// makes it when an operation of this worker first asks for one of type `H`. Later operations
    /// use it again. So `H` needs neither be sent nor be shared.
    ///
    /// The device is current where `make` runs, and where the handle is dropped. That is on the
    /// worker's thread, when it ends because the engine stops or ends, or the process forks. The
    /// last handle that was made goes first. The destructor must not wait for the engine. If it
    /// panics, the panic is swallowed, since it has nowhere to go. Handles of a device that is lost
    /// are forgotten. On the naive engine, which has no workers, a handle is made for the operation
    /// that asks, and dropped at its end.
    ///
    /// The operations of a worker come to all streams of its device: `call` tells the library
    /// [`stream()`](RunContext::stream) first. If the library ties memory for its work to a handle,
    /// there has to be one for each stream, by [`with_handle_of`](RunContext::with_handle_of).
    ///
    /// An operation that is captured for a graph of the driver, by
    /// [`device_graph`](crate::CaptureBuilder::device_graph), gets a handle that only the other
    /// operations of that graph get, so one is enough for it. When the worker has ended, the next
    /// replay captures anew; on the naive engine each replay does. When the graph is gone, the
    /// worker drops the handle before it captures another one, or at its end.
    ///
    /// Takes time proportional to the handles that the worker has; operations that do not ask take
    /// none.
    ///
    /// # Errors
    /// - [`NoStream`](ErrorKind::NoStream) if [`stream()`](RunContext::stream) has none: on the
    ///   processor, for [`Property::Async`](crate::Property::Async), and on other threads than the
    ///   one that called the closure.
    /// - [`BorrowConflict`](ErrorKind::BorrowConflict) if `make` or `call` asks for the same
    ///   handle.
    /// - If `make` fails, an error whose [`source`](std::error::Error::source) is what it returned,
    ///   of kind [`OperationFailed`](ErrorKind::OperationFailed), or of that kind if it is an
    ///   [`Error`]. The next operation that asks makes the handle.
    /// - If the closure has made another device current, and the driver refuses to make the
    ///   operation's own current again: [`DeviceUnavailable`](ErrorKind::DeviceUnavailable) or
    ///   [`DeviceLost`](ErrorKind::DeviceLost).
    ///
    /// # Panics
    /// If `make` or `call` does: the operation then fails as by any panic. A handle that was made
    /// is kept.
    ///
    /// ```
    /// use seriatim::gpu::{Immediate, RawStream};
    /// use seriatim::{Context, Engine, Error};
    ///
    /// /// In place of a library: a program for CUDA has a `cublasHandle_t` here.
    /// struct Blas(Option<RawStream>);
    ///
    /// impl Blas {
    ///     fn create() -> Result<Blas, std::io::Error> { Ok(Blas(None)) }
    ///     fn set_stream(&mut self, stream: RawStream) { self.0 = Some(stream) }
    /// }
    ///
    /// impl Drop for Blas {
    ///     fn drop(&mut self) { println!("destroyed, with the device current") }
    /// }
    ///
    /// let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// for _ in 0..10 {
    ///     engine.op("product").context(Context::gpu(0)).push(|run| {
    ///         let stream = run.stream().expect("there is one on a GPU");
    ///         run.with_handle(Blas::create, |blas| blas.set_stream(stream))
    ///     })?;
    /// }
    /// engine.wait_for_all()?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn with_handle<H, E, R>(
        &self,
        make: impl FnOnce() -> Result<H, E>,
        call: impl FnOnce(&mut H) -> R,
    ) -> Result<R, Error>
    where
        H: 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.with_handle_of(0, make, call)
    }

    /// Like [`with_handle`](RunContext::with_handle), for several handles of one type: `key` says
    /// which. That is 0 for `with_handle`.
    ///
    /// # Errors
    /// Those of [`with_handle`](RunContext::with_handle).
    ///
    /// # Panics
    /// As [`with_handle`](RunContext::with_handle).
    ///
    /// ```
    /// use seriatim::{gpu::Immediate, Context, Engine, Error};
    /// let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// engine.op("one for each stream").context(Context::gpu(0)).push(|run| {
    ///     let stream = run.stream().expect("there is one on a GPU").raw().addr();
    ///     run.with_handle_of(stream, || Ok::<_, Error>(0u32), |uses| *uses += 1)
    /// })?;
    /// engine.wait_for_all()?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn with_handle_of<H, E, R>(
        &self,
        key: usize,
        make: impl FnOnce() -> Result<H, E>,
        call: impl FnOnce(&mut H) -> R,
    ) -> Result<R, Error>
    where
        H: 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if self.stream().is_none() {
            return Err(self.has_no_worker());
        }
        handles::with(key, || make().map_err(E::into), call)
    }

    /// The error of an operation that asks for a handle, and has no stream.
    #[cold]
    fn has_no_worker(&self) -> Error {
        let message = format!(
            "operation '{}' on {} has no stream on this thread, and handles of libraries belong to the workers that have: push \
             it with the context of a GPU, and without Property::Async, and ask on the thread that calls its closure",
            self.name, self.context
        );
        Error::new(ErrorKind::NoStream, message)
    }

    /// How many threads the operation may use itself, from
    /// [`Builder::nested_threads`](crate::Builder::nested_threads).
    ///
    /// ```
    /// # let engine = seriatim::Engine::builder().nested_threads(4).build()?;
    /// engine.op("solve").push(|run| assert_eq!(run.nested_threads(), 4))?;
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn nested_threads(&self) -> usize {
        self.nested_threads
    }
}
