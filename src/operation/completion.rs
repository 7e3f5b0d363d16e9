//! Completion: the owned handle that ends an asynchronous operation. `src/engine/execute.rs`,
//! `src/engine/inline/asynchronous.rs`, `src/engine/gpu/call.rs` and
//! `src/engine/replay/node_call.rs` make it before they call the closure. The thread that has it
//! uses it once, or drops it, which ends the operation as well. No other thread touches it, and
//! `CALL` is each thread's own. The end itself is in `src/engine/execute.rs` and, for operations of
//! graphs, `src/engine/replay/mod.rs` (`Finish`).
//!
//! After `complete_after` the operation is a [`Due`]. `src/engine/gpu/foreign.rs` leaves that at a
//! mark on the stream, and the device's watcher ends it; on the naive engine the caller does.

use crate::device::raw::RawStream;
use crate::error::{ErrorKind, Fault};
use crate::operation::block::Block;
use crate::operation::closure::catch;
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe, RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// The engine's side of a completion: ends the operation. Implemented in `src/engine/execute.rs`,
/// in `src/engine/inline/asynchronous.rs` and, for graphs, in `src/engine/replay/mod.rs`.
pub trait Finish: Send + Sync {
    /// A number that tells apart the operations that use one block one after the other.
    ///
    /// # Safety
    /// `block` is running and has not been ended.
    unsafe fn sequence(&self, block: *mut Block) -> u64;

    /// Ends an operation that ran asynchronously.
    ///
    /// # Safety
    /// `block` is running and has not been ended.
    unsafe fn finish(self: Arc<Self>, block: *mut Block, outcome: Result<(), Fault>);

    /// Ends an operation that ran asynchronously when its device has done what is on a stream by
    /// now.
    ///
    /// # Safety
    /// As [`Finish::finish`]; the stream is of the operation's device, and alive until the call
    /// returns.
    unsafe fn finish_after(self: Arc<Self>, block: *mut Block, stream: RawStream);
}

/// An asynchronous operation that has still to be ended.
pub struct Due {
    engine: Arc<dyn Finish>,
    block: *mut Block,
}

// SAFETY: it is an operation in flight, of which this is the only owner, as of a `Completion`.
unsafe impl Send for Due {}

impl Due {
    /// # Safety
    /// As [`Finish::finish`], once for this value.
    pub unsafe fn new(engine: Arc<dyn Finish>, block: *mut Block) -> Due {
        Due { engine, block }
    }

    /// Ends the operation.
    pub fn finish(self, outcome: Result<(), Fault>) {
        // SAFETY: by the contract of `new`.
        unsafe { self.engine.finish(self.block, outcome) }
    }
}

/// Ends an asynchronous operation: from any thread, at any time, once.
///
/// Dropping it without a call fails the operation with
/// [`CompletionDropped`](crate::ErrorKind::CompletionDropped), so that nothing waits for ever. One
/// that is never dropped (lost in a leak or by `std::mem::forget`) leaves its operation running.
/// Operations behind it wait, and so do waits without a limit, stops and the end of the engine.
/// Waits with a limit name the operation, and everything independent goes on.
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// let x = engine.new_variable();
/// engine.op("fetch").writes([x]).push_async(|_, completion| {
///     std::thread::spawn(move || completion.complete());
/// })?;
/// engine.wait_for_var(x)?;
/// # Ok::<(), seriatim::Error>(())
/// ```
#[must_use = "a completion that is dropped unused fails its operation"]
pub struct Completion {
    engine: Option<Arc<dyn Finish>>,
    block: *mut Block,
}

// SAFETY: the block is an operation in flight, of which this handle is the only owner; it may end
// on any thread.
unsafe impl Send for Completion {}
// SAFETY: a shared handle offers nothing but `Debug`.
unsafe impl Sync for Completion {}

/// An asynchronous operation whose closure is being called. `orphan` is its completion, if that was
/// dropped while the closure unwinds: the operation then ends with the panic's message.
struct CompletionCall {
    /// The operation. If it ends before the call returns, a later one may have the same block.
    block: *mut Block,
    sequence: u64,
    orphan: Option<Completion>,
}

thread_local! {
    /// The innermost such call of this thread, which lies on its stack. A plain pointer, so that it
    /// works in destructors of other thread-locals.
    static CALL: Cell<*mut CompletionCall> = const { Cell::new(std::ptr::null_mut()) };
}

/// Calls the closure of an asynchronous operation. If the closure unwinds while it still owns the
/// completion, the operation ends with the panic. If it had given the completion away, the fault is
/// returned.
pub fn call(completion: Completion, closure: impl FnOnce(Completion)) -> Result<(), Fault> {
    let Some(sequence) = completion.sequence() else { return Ok(()) };
    let mut this = UnsafeCell::new(CompletionCall { block: completion.block, sequence, orphan: None });
    let before = CALL.with(|call| call.replace(this.get()));
    let outcome = catch_unwind(AssertUnwindSafe(|| closure(completion))).map_err(Fault::panicked);
    CALL.with(|call| call.set(before));
    match (outcome, this.get_mut().orphan.take()) {
        (Err(fault), Some(mut orphan)) => {
            orphan.end(Err(fault));
            Ok(())
        }
        // If the call did not unwind, the thread was unwinding for another reason: the completion
        // was just dropped, and ends here like any other dropped one.
        (outcome, orphan) => {
            drop(orphan);
            outcome
        }
    }
}

impl Completion {
    /// # Safety
    /// `block` is running, and this is its only completion.
    pub(crate) unsafe fn new(engine: Arc<dyn Finish>, block: *mut Block) -> Completion {
        Completion { engine: Some(engine), block }
    }

    /// Ends the operation successfully.
    ///
    /// Runs what becomes ready, if it is of the kind that runs on the thread that finds it (the
    /// naive engine's operations); otherwise hands it to the workers and returns.
    ///
    /// Worst case: a few steps for each variable and for each operation that becomes ready, such as
    /// all readers behind a write, and two slices of what came back from operations that have
    /// ended. `src/engine/README.md` has it in full.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// engine.op("at once").push_async(|_, completion| completion.complete())?;
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn complete(mut self) {
        self.end(Ok(()));
    }

    /// Ends the operation with an error, which marks the variables that it changes, and is the
    /// [`source`](std::error::Error::source) of what waits return. A text is an error as well.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.new_variable();
    /// engine.op("fetch").writes([x]).push_async(|_, completion| completion.fail("no route"))?;
    /// assert!(engine.wait_for_var(x).unwrap_err().to_string().contains("no route"));
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn fail(mut self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) {
        // The error's conversion and its `Display` are user code.
        self.end(catch(|| Err(error.into())));
    }

    /// Ends the operation when its device has done what is on a stream by now: for work that a
    /// library puts on a stream of its own. Returns at once; the device's watcher asks how far the
    /// stream has come, and no thread waits. The naive engine, which has no watcher, waits here.
    ///
    /// The stream is the operation's, or one of the program's that comes after it. Earlier
    /// operations may still be queued when the closure is called. So let the stream wait for an
    /// event on [`RunContext::stream`](crate::RunContext::stream), or push with
    /// [`Property::Async`](crate::Property::Async), whose closure is called when they are done.
    ///
    /// The operation fails with [`DeviceLost`](ErrorKind::DeviceLost) if the device is lost before;
    /// so it is if the driver goes on to refuse the call, since nothing would order what comes next
    /// behind the stream. It fails with [`StreamRefused`](ErrorKind::StreamRefused) if the stream
    /// is being captured, and with [`NoStream`](ErrorKind::NoStream) if the operation is not one of
    /// a GPU.
    ///
    /// # Safety
    /// The stream is one of the operation's device, of the library that drives it, and is not
    /// destroyed before the call returns. CUDA's legacy default stream, which is null, is one. No
    /// capture of the stream begins before the operation has ended; if it is refused since one has
    /// begun before, what the operation has put on the stream is done.
    ///
    /// ```
    /// use seriatim::{gpu::Immediate, Context, Engine};
    /// let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
    /// let x = engine.new_variable();
    /// engine.op("solve").context(Context::gpu(0)).writes([x]).push_async(|run, completion| {
    ///     let stream = run.stream().expect("it is on a device");
    ///     // A library puts work on the stream here, perhaps on another thread.
    ///     // SAFETY: the stream is the operation's own.
    ///     std::thread::spawn(move || unsafe { completion.complete_after(stream) });
    /// })?;
    /// engine.wait_for_var(x)?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub unsafe fn complete_after(mut self, stream: RawStream) {
        if let Some(engine) = self.engine.take() {
            // SAFETY: `engine` is taken only once, so this is the operation's only end. The stream
            // is as the caller says.
            unsafe { engine.finish_after(self.block, stream) }
        }
    }

    /// The same completion, which ends the operation by what `by` makes of its engine.
    pub(crate) fn ending(mut self, by: impl FnOnce(Arc<dyn Finish>) -> Arc<dyn Finish>) -> Completion {
        self.engine = self.engine.take().map(by);
        self
    }

    /// Ends the operation with this outcome.
    pub(crate) fn end_with(mut self, outcome: Result<(), Fault>) {
        self.end(outcome);
    }

    /// Which operation it ends; `None` once it has.
    pub(crate) fn sequence(&self) -> Option<u64> {
        // SAFETY: the operation is running until this is used.
        self.engine.as_ref().map(|engine| unsafe { engine.sequence(self.block) })
    }

    fn end(&mut self, outcome: Result<(), Fault>) {
        if let Some(engine) = self.engine.take() {
            // SAFETY: `engine` is taken only once, so this is the operation's only end.
            unsafe { engine.finish(self.block, outcome) }
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if self.engine.is_none() {
            return;
        }
        let call = CALL.with(Cell::get);
        // SAFETY: set by `call` to a value on this thread's stack for as long as the closure runs,
        // and used by this thread only.
        let of_call = unsafe { call.as_ref() }.filter(|call| call.block == self.block);
        if std::thread::panicking() && of_call.is_some_and(|call| Some(call.sequence) == self.sequence()) {
            let orphan = Completion { engine: self.engine.take(), block: self.block };
            // SAFETY: as above.
            unsafe { (*call).orphan = Some(orphan) };
            return;
        }
        let message = "its completion was dropped: call complete() or fail() on every path".to_owned();
        self.end(Err(Fault::new(ErrorKind::CompletionDropped, message, None)));
    }
}

// It is used once, as a whole.
impl UnwindSafe for Completion {}
impl RefUnwindSafe for Completion {}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Completion")
    }
}
