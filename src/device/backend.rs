//! The seam between the engine and a library that drives devices: [`Backend`].
//!
//! `cuda/` and `immediate.rs` implement it, and programs may. The engine calls it from
//! `src/engine/gpu/` and `src/engine/replay/`, and through `current.rs`; marks are put by
//! `timeline.rs`, `timed_marks.rs`, `src/engine/gpu/foreign.rs` and `src/engine/gpu/timing.rs`. A
//! [`RawStream`] is an in-order queue of a device. A [`RawMark`] says 'up to here' on such a queue:
//! an event of CUDA or HIP, a timeline semaphore, a marker in a queue of OpenCL. Any thread may
//! call a back end, and several do at once; [`Backend`] says which calls need a device that the
//! thread has entered. Memory, times and graphs have seams of their own, in `memory.rs`, `clock.rs`
//! and `graphs.rs`.

use crate::device::clock::DeviceClock;
use crate::device::graphs::DeviceGraphs;
use crate::device::memory::DeviceMemory;
use crate::device::raw::{DriverError, Previous, RawMark, RawStream};

/// What a stream is for.
///
/// ```
/// use seriatim::gpu::Class;
/// assert!(Class::ALL.contains(&Class::Urgent));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Class {
    /// Kernels.
    Compute,
    /// Kernels that go before others: the device's highest priority.
    Urgent,
    /// Copies to the device.
    ToDevice,
    /// Copies from the device.
    FromDevice,
}

impl Class {
    /// Every class.
    pub const ALL: &'static [Class] = &[Class::Compute, Class::Urgent, Class::ToDevice, Class::FromDevice];
}

/// A library that drives devices, as the engine needs it: streams, and marks that order them.
///
/// The engine keeps the order of operations by [`record`](Backend::record),
/// [`wait`](Backend::wait), [`reached`](Backend::reached) and, on the naive engine,
/// [`finish`](Backend::finish). It never asks the library to call it back. All methods are called
/// from several threads at once. The calling thread has [entered](Backend::enter) the device. Only
/// `enter` itself and the methods that just tell something are called without that:
/// [`name`](Backend::name), [`devices`](Backend::devices), [`cores`](Backend::cores),
/// [`memory`](Backend::memory), [`clock`](Backend::clock) and [`graphs`](Backend::graphs).
///
/// # Safety
/// The program's work may be unsound if it does not run in order, and the order rests on these
/// methods. A stream does its work in the order in which it was queued. `record`, `wait` and
/// `finish` do what they say. `reached` says true only when the device has come there. Besides, no
/// method unwinds.
///
/// # Safety of the methods
/// Those that take handles are unsafe to call: a handle has been made by the same back end, for the
/// device that the calling thread has entered, and has not been given back. A stream may also be
/// one that the program has made, if [`check_stream`](Backend::check_stream) has accepted it.
///
/// ```
/// use seriatim::gpu::{Backend, Class, DriverError, Previous, RawMark, RawStream};
/// use seriatim::{Context, Engine};
/// use std::ptr::null_mut;
/// use std::sync::Arc;
///
/// /// A device on which everything ends at once.
/// struct Instant;
///
/// // SAFETY: everything is done at once, so it is in order, and nothing unwinds.
/// unsafe impl Backend for Instant {
///     fn name(&self) -> &str { "instant" }
///     fn devices(&self) -> Result<usize, DriverError> { Ok(1) }
///     fn enter(&self, _: usize) -> Result<Previous, DriverError> { Ok(Previous::new(null_mut())) }
///     unsafe fn leave(&self, _: Previous) {}
///     fn stream(&self, _: usize, _: Class) -> Result<RawStream, DriverError> { Ok(RawStream::new(null_mut())) }
///     fn mark(&self, _: usize) -> Result<RawMark, DriverError> { Ok(RawMark::new(null_mut())) }
///     unsafe fn record(&self, _: RawMark, _: RawStream) -> Result<(), DriverError> { Ok(()) }
///     unsafe fn wait(&self, _: RawStream, _: RawMark) -> Result<(), DriverError> { Ok(()) }
///     unsafe fn reached(&self, _: RawMark) -> Result<bool, DriverError> { Ok(true) }
///     unsafe fn finish(&self, _: RawStream) -> Result<(), DriverError> { Ok(()) }
///     unsafe fn drop_stream(&self, _: RawStream) {}
///     unsafe fn drop_mark(&self, _: RawMark) {}
/// }
///
/// let engine = Engine::builder().gpus(Arc::new(Instant)).build()?;
/// let x = engine.new_variable();
/// engine.op("kernel").context(Context::gpu(0)).writes([x]).push(|run| {
///     let stream = run.stream().expect("there is one on a GPU");
///     assert!(stream.raw().is_null());
/// })?;
/// engine.wait_for_var(x)?;
/// # Ok::<(), seriatim::Error>(())
/// ```
pub unsafe trait Backend: Send + Sync + 'static {
    /// The name of the library, for messages.
    fn name(&self) -> &str;

    /// How many devices there are. Called when a program first uses a device, and not again once it
    /// has given a number.
    ///
    /// # Errors
    /// If the library is not there, is too old, or finds no device. The message says which.
    fn devices(&self) -> Result<usize, DriverError>;

    /// Makes the device current on the calling thread; returns what was current before.
    ///
    /// # Errors
    /// If the device cannot be used.
    fn enter(&self, device: usize) -> Result<Previous, DriverError>;

    /// Makes the device current again on the calling thread, which has entered it, if a closure of
    /// the program has made another one current there. Called after each closure that runs on a
    /// device, so it should take some nanoseconds if there is nothing to do. The default suits
    /// back ends without such a thing as a current device: it does nothing.
    ///
    /// # Errors
    /// If the device cannot be made current. The engine asks again; in the end the device counts as
    /// lost.
    fn reenter(&self, device: usize) -> Result<(), DriverError> {
        let _ = device;
        Ok(())
    }

    /// Makes what was current before `enter` current again.
    ///
    /// # Safety
    /// `enter` has returned it on this thread, which has not used it.
    unsafe fn leave(&self, previous: Previous);

    /// Makes a stream of a device.
    ///
    /// # Errors
    /// If the library refuses it.
    fn stream(&self, device: usize, class: Class) -> Result<RawStream, DriverError>;

    /// Makes a mark, which is nowhere yet.
    ///
    /// # Errors
    /// If the library refuses it.
    fn mark(&self, device: usize) -> Result<RawMark, DriverError>;

    /// Puts the mark behind all that was queued on the stream so far, and has the device begin with
    /// that: the engine makes no other call to that end.
    ///
    /// A mark may be put elsewhere again at any time: a stream that waits for it already waits for
    /// the earlier place. Two threads may put one mark on one stream at once: it is then behind
    /// what was queued before either call.
    ///
    /// # Safety
    /// The handles are this back end's, of the device that the thread has entered, and alive.
    ///
    /// # Errors
    /// If the library refuses it, or the device is lost.
    unsafe fn record(&self, mark: RawMark, stream: RawStream) -> Result<(), DriverError>;

    /// Has what is queued on the stream later wait for the mark, where it is now. Does not block.
    /// Both are of one device, and the mark has been put somewhere.
    ///
    /// # Safety
    /// The handles are this back end's, of the device that the thread has entered, and alive.
    ///
    /// # Errors
    /// If the library refuses it, or the device is lost.
    unsafe fn wait(&self, stream: RawStream, mark: RawMark) -> Result<(), DriverError>;

    /// Whether the device has come to the mark, which has been put somewhere. Does not block.
    ///
    /// # Safety
    /// The handles are this back end's, of the device that the thread has entered, and alive.
    ///
    /// # Errors
    /// If the device is lost: this is the call that finds it out. That includes work before the
    /// mark that has failed. After any other error the engine asks again, for a second.
    unsafe fn reached(&self, mark: RawMark) -> Result<bool, DriverError>;

    /// Waits until the device has done all that was queued on the stream.
    ///
    /// # Safety
    /// The handles are this back end's, of the device that the thread has entered, and alive.
    ///
    /// # Errors
    /// If the device is lost.
    unsafe fn finish(&self, stream: RawStream) -> Result<(), DriverError>;

    /// Gives a stream back. Nothing is queued on it. Not called for a lost device.
    ///
    /// # Safety
    /// As for [`Backend::finish`], and nobody uses it afterwards.
    unsafe fn drop_stream(&self, stream: RawStream);

    /// Gives a mark back. Not called for a lost device.
    ///
    /// # Safety
    /// As for [`Backend::drop_stream`].
    unsafe fn drop_mark(&self, mark: RawMark);

    /// Whether the engine may put marks on a stream that the program has made, and have it wait for
    /// marks: called before either. The default says that it may.
    ///
    /// # Safety
    /// The stream is one of the library's, of the device that the thread has entered, and alive.
    ///
    /// # Errors
    /// If the stream is being captured, or if the handle is another stream on each thread; or if
    /// the device is lost.
    unsafe fn check_stream(&self, stream: RawStream) -> Result<(), DriverError> {
        let _ = stream;
        Ok(())
    }

    /// Its memory, if the engine is to allocate and copy there. Without it
    /// [`DeviceData`](crate::gpu::DeviceData) is refused.
    fn memory(&self) -> Option<&dyn DeviceMemory> {
        None
    }

    /// Its clock, if its devices note when they come to a mark. Without it a profile has the
    /// processor's times.
    fn clock(&self) -> Option<&dyn DeviceClock> {
        None
    }

    /// Its graphs, if the operations of captured graphs that ask for it are to be launched as a
    /// whole. Without it they are queued one by one.
    fn graphs(&self) -> Option<&dyn DeviceGraphs> {
        None
    }

    /// The processor's cores that are near the device; empty if that is not known.
    fn cores(&self, device: usize) -> Vec<usize> {
        let _ = device;
        Vec::new()
    }
}
