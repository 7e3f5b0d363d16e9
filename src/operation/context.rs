//! Run context: what a closure is told when it runs. The code that calls closures makes it, on the
//! thread that calls them: `src/engine/execute.rs`, `src/engine/inline/fast_path.rs`,
//! `src/engine/gpu/call.rs` and `src/engine/replay/`.

#![forbid(unsafe_code)]

use crate::device::raw::RawStream;
use crate::device::{current, Context, Device};
use crate::error::{Failure, Stamp};
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
    /// the caller of the naive engine, a pusher, or a waiter that helps.
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
