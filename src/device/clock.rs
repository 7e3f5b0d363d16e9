//! The seam for times: [`DeviceClock`], which a back end has if its devices note when they come to
//! a mark.
//!
//! `timed_marks.rs` and `src/engine/gpu/timing.rs` call it, for operations that are profiled only:
//! on the workers of a device, which queue the operations, and on its watcher. `cuda/` and
//! `immediate.rs` implement it.

use crate::device::raw::{DriverError, RawMark};

/// The clock of a back end's devices: marks that note a time.
///
/// All methods are called from several threads at once. The calling thread has entered the device.
///
/// # Safety
/// - What `timed_mark` returns is a mark of the back end. The engine puts it on streams, asks for
///   it and gives it back like any other, by [`Backend::record`](crate::gpu::Backend::record),
///   [`reached`](crate::gpu::Backend::reached) and
///   [`drop_mark`](crate::gpu::Backend::drop_mark), which do with it what they do with those of
///   [`Backend::mark`](crate::gpu::Backend::mark).
/// - No method unwinds.
///
/// ```
/// use seriatim::gpu::{Backend, Class, Immediate};
///
/// let backend = Immediate::new(1);
/// let clock = backend.clock().expect("it has one");
/// let (stream, marks) = (backend.stream(0, Class::Compute)?, [clock.timed_mark(0)?, clock.timed_mark(0)?]);
/// // SAFETY: all handles are the back end's, and given back once.
/// unsafe {
///     marks.iter().try_for_each(|mark| backend.record(*mark, stream))?;
///     assert!(backend.reached(marks[1])?);
///     assert!(clock.elapsed(marks[0], marks[1])? >= 0);
///     marks.into_iter().for_each(|mark| backend.drop_mark(mark));
/// }
/// # Ok::<(), seriatim::gpu::DriverError>(())
/// ```
pub unsafe trait DeviceClock: Send + Sync {
    /// Makes a mark that notes a time, and is nowhere yet.
    ///
    /// # Errors
    /// If the library refuses it.
    fn timed_mark(&self, device: usize) -> Result<RawMark, DriverError>;

    /// The nanoseconds between the times at which the device came to two timed marks, by its own
    /// clock: negative if it came to `to` before `from`. The device has come to both.
    ///
    /// # Safety
    /// [`timed_mark`](DeviceClock::timed_mark) has made both, for the device that the thread has
    /// entered, and they are alive.
    ///
    /// # Errors
    /// If the library refuses it, or the device is lost.
    unsafe fn elapsed(&self, from: RawMark, to: RawMark) -> Result<i64, DriverError>;
}
